//! A client that reads answers as fast as they come.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme, StreamOwned};

use crate::limits::{READ_BUFFER_LEN, STEP_DEADLINE};
use crate::systems::answer;

/// The bytes to and from a server.
enum Transport {
    Clear(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    Pair(UnixStream),
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
            Self::Pair(stream) => stream.read(buffer),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Clear(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
            Self::Pair(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Clear(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
            Self::Pair(stream) => stream.flush(),
        }
    }
}

/// A session with a server.
pub(crate) struct Client {
    reader: BufReader<Transport>,
    last_tag: u32,
}

impl Client {
    /// Connects without TLS.
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        let stream = connect(address)?;
        Self::greeted(BufReader::with_capacity(READ_BUFFER_LEN, Transport::Clear(stream)))
    }

    /// Connects without TLS, for a session that will read little.
    pub(crate) fn connect_small(address: SocketAddr) -> Result<Self> {
        Self::greeted(BufReader::with_capacity(512, Transport::Clear(connect(address)?)))
    }

    /// Connects with TLS, without resuming an earlier session.
    pub(crate) fn connect_tls(address: SocketAddr, config: &Arc<ClientConfig>) -> Result<Self> {
        let name = ServerName::try_from("localhost")?;
        let connection = ClientConnection::new(Arc::clone(config), name)?;
        let stream = StreamOwned::new(connection, connect(address)?);
        Self::greeted(BufReader::new(Transport::Tls(Box::new(stream))))
    }

    /// Starts a server process with a socket as its standard input and output.
    pub(crate) fn spawn(mut command: Command) -> Result<(Self, Child)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(STEP_DEADLINE))?;
        let output: OwnedFd = theirs.try_clone()?.into();
        let child = command.stdin(OwnedFd::from(theirs)).stdout(output).spawn()?;
        drop(command);
        Ok((Self::greeted(BufReader::new(Transport::Pair(ours)))?, child))
    }

    fn greeted(reader: BufReader<Transport>) -> Result<Self> {
        let mut client = Self { reader, last_tag: 0 };
        let mut line = Vec::new();
        client.line(&mut line).context("the greeting")?;
        let text = String::from_utf8_lossy(&line);
        ensure!(text.starts_with("* OK") || text.starts_with("* PREAUTH"), "greeting: {text}");
        Ok(client)
    }

    fn line(&mut self, line: &mut Vec<u8>) -> Result<()> {
        line.clear();
        ensure!(self.reader.read_until(b'\n', line)? > 0, "the server has gone");
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let transport = self.reader.get_mut();
        transport.write_all(bytes)?;
        Ok(transport.flush()?)
    }

    /// Sends a command, which may contain literals, and returns its tag.
    fn send(&mut self, command: &[u8]) -> Result<String> {
        self.last_tag += 1;
        let tag = format!("a{} ", self.last_tag);
        self.write(&[tag.as_bytes(), command, b"\r\n"].concat())?;
        Ok(tag)
    }

    /// Logs in.
    pub(crate) fn login(&mut self, user: &str, password: &str) -> Result<()> {
        self.drain(&format!("LOGIN {user} {password}")).map(drop)
    }

    /// Sends a command and discards the answer, which must be OK. Returns the number of its bytes.
    pub(crate) fn drain(&mut self, command: &str) -> Result<u64> {
        self.command(command.as_bytes(), &mut |_| Ok(()), false)
    }

    /// Appends a message to a mailbox.
    pub(crate) fn append(&mut self, mailbox: &str, message: &[u8]) -> Result<u64> {
        let start = format!("APPEND {mailbox} {{{}+}}\r\n", message.len());
        self.command(&[start.as_bytes(), message].concat(), &mut |_| Ok(()), false)
    }

    /// Sends a command and passes each untagged response without its `* ` to `visit`, literals
    /// included.
    pub(crate) fn visit(
        &mut self,
        command: &str,
        visit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<u64> {
        self.command(command.as_bytes(), visit, true)
    }

    fn command(
        &mut self,
        command: &[u8],
        visit: &mut dyn FnMut(&[u8]) -> Result<()>,
        is_kept: bool,
    ) -> Result<u64> {
        let tag = self.send(command)?;
        let (mut line, mut response, mut len) = (Vec::new(), Vec::new(), 0);
        loop {
            self.line(&mut line)?;
            len += line.len() as u64;
            if response.is_empty()
                && let Some(status) = line.strip_prefix(tag.as_bytes())
            {
                let text = String::from_utf8_lossy(command).chars().take(100).collect::<String>();
                ensure!(status.starts_with(b"OK"), "{text}: {}", String::from_utf8_lossy(status));
                return Ok(len);
            }
            let literal = answer::literal_len(&line);
            if is_kept {
                response.extend_from_slice(&line);
            }
            if let Some(literal) = literal {
                len += literal as u64;
                self.literal(literal, is_kept.then_some(&mut response))?;
            } else if is_kept {
                let response_line = response.strip_suffix(b"\r\n").unwrap_or(&response);
                visit(response_line.strip_prefix(b"* ").unwrap_or(response_line))?;
                response.clear();
            }
        }
    }

    /// Reads a literal, and keeps it if there is a place for it.
    fn literal(&mut self, len: usize, kept: Option<&mut Vec<u8>>) -> Result<()> {
        if let Some(kept) = kept {
            let start = kept.len();
            kept.resize(start + len, 0);
            return Ok(self.reader.read_exact(&mut kept[start..])?);
        }
        let mut left = len;
        while left > 0 {
            let some = self.reader.fill_buf()?.len().min(left);
            ensure!(some > 0, "the server has gone");
            self.reader.consume(some);
            left -= some;
        }
        Ok(())
    }

    /// Returns the number of a response such as `17 EXISTS` to a command.
    pub(crate) fn number(&mut self, command: &str, name: &str) -> Result<u64> {
        let mut found = None;
        self.visit(command, &mut |response| {
            let text = String::from_utf8_lossy(response);
            if let Some(number) = text.strip_suffix(name) {
                found = number.trim().parse().ok();
            }
            Ok(())
        })?;
        found.with_context(|| format!("no {name} in the answer to {command}"))
    }

    /// Begins to idle.
    pub(crate) fn idle(&mut self) -> Result<()> {
        self.send(b"IDLE")?;
        let mut line = Vec::new();
        loop {
            self.line(&mut line)?;
            match line.first() {
                Some(b'+') => return Ok(()),
                Some(b'*') => {}
                _ => bail!("IDLE: {}", String::from_utf8_lossy(&line)),
            }
        }
    }

    /// Makes reads return at once.
    pub(crate) fn set_nonblocking(&self) -> Result<()> {
        match self.reader.get_ref() {
            Transport::Clear(stream) => Ok(stream.set_nonblocking(true)?),
            _ => bail!("only for connections in clear"),
        }
    }

    /// Returns `true` if a message was announced; never waits.
    pub(crate) fn has_heard_of_mail(&mut self) -> Result<bool> {
        let mut buffer = [0; 512];
        match self.reader.read(&mut buffer) {
            Ok(0) => bail!("the server has gone"),
            Ok(len) => Ok(buffer[..len].windows(6).any(|window| window == b"EXISTS")),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the session.
    pub(crate) fn logout(mut self) -> Result<()> {
        self.drain("LOGOUT").map(drop)
    }
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(30))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(STEP_DEADLINE))?;
    Ok(stream)
}

/// Returns settings of TLS for servers of a test: their certificates are not checked, and no
/// session is resumed.
pub(crate) fn tls_config() -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(AnyCertificate(Arc::clone(&provider)));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Accepts any certificate: the servers were started by the bench on the loopback interface.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

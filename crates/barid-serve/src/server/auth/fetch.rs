//! Requests to the issuer of tokens, over HTTP/1.1.
//!
//! One request a connection, without redirections; certificates are verified, and the whole
//! exchange has a time limit.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use barid::vfs::Vfs;
use barid_auth::Error;
use barid_auth::oauth::{HttpFetcher, HttpRequest, HttpResponse};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::config::OauthSettings;
use crate::limits::{AUTHORITIES_LEN_MAX, HTTP_HEAD_LEN_MAX};

/// Files with the certificates of the authorities that a system trusts.
const AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The parts of an address.
#[derive(Debug, PartialEq, Eq)]
struct UrlParts<'a> {
    is_https: bool,
    /// Host and port as they stand in the address.
    authority: &'a str,
    host: &'a str,
    port: u16,
    /// Path and query.
    path: String,
}

impl<'a> UrlParts<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let is_https = scheme == "https";
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let default = if is_https { 443 } else { 80 };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if port.parse::<u16>().is_ok() => (host, port.parse().ok()?),
            _ => (authority, default),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some(Self { is_https, authority, host, port, path })
    }
}

/// Returns the port to which tokens are checked.
pub(super) fn port_of(url: &str) -> Option<u16> {
    UrlParts::of(url).map(|parts| parts.port)
}

/// A client of HTTP.
#[derive(Debug)]
pub(super) struct HttpClient {
    tls: Option<Arc<ClientConfig>>,
}

impl HttpClient {
    /// Creates a client that trusts the authorities of the configuration, or those of the system.
    ///
    /// # Errors
    /// A file of the configuration that cannot be read.
    pub(super) fn new(vfs: &dyn Vfs, oauth: &OauthSettings) -> io::Result<Self> {
        let read = |path: &std::path::Path| {
            let bytes = vfs.read(path, AUTHORITIES_LEN_MAX);
            bytes.map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })
        };
        let bytes = match &oauth.ca_file {
            Some(path) => Some(read(path)?),
            None => AUTHORITIES.iter().find_map(|path| read(path.as_ref()).ok()),
        };
        let Some(bytes) = bytes else { return Ok(Self { tls: None }) };
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_slice_iter(&bytes).filter_map(Result::ok);
        let (added, _) = roots.add_parsable_certificates(certificates);
        if let Some(path) = oauth.ca_file.as_ref().filter(|_| added == 0) {
            let text = format!("{}: no certificate of an authority in PEM", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls: Some(Arc::new(config)) })
    }

    fn exchange(&self, request: &HttpRequest) -> io::Result<HttpResponse> {
        let deadline = Instant::now() + request.timeout;
        let parts = UrlParts::of(request.url.as_str());
        let parts = parts.ok_or_else(|| invalid("not an address"))?;
        let stream = TimedStream { stream: connect(&parts, deadline)?, deadline };
        if !parts.is_https {
            return converse(stream, request, &parts);
        }
        let none = || invalid("no certificates of authorities: set users.oauth.ca_file");
        let tls = Arc::clone(self.tls.as_ref().ok_or_else(none)?);
        let name = ServerName::try_from(parts.host.to_owned()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(tls, name).map_err(io::Error::other)?;
        converse(StreamOwned::new(connection, stream), request, &parts)
    }
}

impl HttpFetcher for HttpClient {
    fn fetch(&self, request: &HttpRequest) -> barid_auth::Result<HttpResponse> {
        self.exchange(request).map_err(|error| Error::Unavailable {
            what: request.url.as_str().to_owned(),
            why: error.to_string(),
        })
    }
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Connects to the first address that answers.
fn connect(parts: &UrlParts<'_>, deadline: Instant) -> io::Result<TcpStream> {
    let mut failed = invalid("the host has no address");
    for address in (parts.host, parts.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(deadline)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// A connection whose reads and writes end at a time.
#[derive(Debug)]
struct TimedStream {
    stream: TcpStream,
    deadline: Instant,
}

impl Read for TimedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.deadline)?))?;
        self.stream.read(buffer)
    }
}

impl Write for TimedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.deadline)?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn converse(
    mut stream: impl Read + Write,
    request: &HttpRequest,
    parts: &UrlParts<'_>,
) -> io::Result<HttpResponse> {
    let mut head = Vec::new();
    let verb = if request.form.is_some() { "POST" } else { "GET" };
    write!(head, "{verb} {} HTTP/1.1\r\nHost: {}\r\n", parts.path, parts.authority)?;
    write!(head, "Accept: {}\r\nConnection: close\r\nUser-Agent: barid\r\n", request.accept)?;
    if let Some(authorization) = &request.authorization {
        head.extend_from_slice(b"Authorization: ");
        head.extend_from_slice(authorization.expose());
        head.extend_from_slice(b"\r\n");
    }
    if let Some(form) = &request.form {
        let len = form.expose().len();
        write!(
            head,
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len}\r\n"
        )?;
    }
    head.extend_from_slice(b"\r\n");
    stream.write_all(&head)?;
    if let Some(form) = &request.form {
        stream.write_all(form.expose())?;
    }
    stream.flush()?;
    HttpAnswer { stream, unread: Vec::new() }.read(request.answer_len_max)
}

/// The answer on a connection.
struct HttpAnswer<S> {
    stream: S,
    unread: Vec<u8>,
}

impl<S: Read> HttpAnswer<S> {
    fn read(mut self, len_max: usize) -> io::Result<HttpResponse> {
        let status_line = self.line()?;
        let status = status_line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        let status = status.and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| invalid("the answer is not HTTP/1"))?;
        let (mut len, mut is_chunked, mut head_len) = (None, false, status_line.len());
        loop {
            let line = self.line()?;
            head_len += line.len();
            if head_len > HTTP_HEAD_LEN_MAX {
                return Err(invalid("the answer has a long header"));
            }
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                let value = value.trim().parse::<usize>();
                len = Some(value.map_err(|_| invalid("the answer has no valid length"))?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                is_chunked = value.trim().eq_ignore_ascii_case("chunked");
            }
        }
        let body = match (is_chunked, len) {
            (true, _) => self.chunks(len_max)?,
            (false, Some(len)) if len <= len_max => self.exactly(len)?,
            (false, Some(_)) => return Err(invalid("the answer is too long")),
            (false, None) => self.rest(len_max)?,
        };
        Ok(HttpResponse { status, body })
    }

    fn more(&mut self) -> io::Result<usize> {
        let mut piece = [0; 4096];
        loop {
            match self.stream.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    let len = read?;
                    self.unread.extend_from_slice(&piece[..len]);
                    return Ok(len);
                }
            }
        }
    }

    /// Returns a line without its end.
    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
            }
            if self.unread.len() > HTTP_HEAD_LEN_MAX {
                return Err(invalid("the answer has a long line"));
            }
            if self.more()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn exactly(&mut self, len: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() < len {
            if self.more()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.unread.drain(..len).collect())
    }

    fn rest(&mut self, len_max: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() <= len_max {
            if self.more()? == 0 {
                return Ok(std::mem::take(&mut self.unread));
            }
        }
        Err(invalid("the answer is too long"))
    }

    /// Returns a body in chunks (RFC 9112 §7.1).
    fn chunks(&mut self, len_max: usize) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16);
            let size = size.map_err(|_| invalid("the answer has a chunk without a size"))?;
            if size > len_max || body.len() + size > len_max {
                return Err(invalid("the answer is too long"));
            }
            if size == 0 {
                return Ok(body);
            }
            body.append(&mut self.exactly(size)?);
            self.line()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: &str, expected: Result<(u16, &str), &str>) {
        let read = HttpAnswer { stream: answer.as_bytes(), unread: Vec::new() }.read(20);
        match (read, expected) {
            (Ok(found), Ok((status, body))) => {
                assert_eq!((found.status, found.body.as_slice()), (status, body.as_bytes()));
            }
            (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{error}"),
            (found, _) => panic!("{answer}: {found:?}"),
        }
    }

    #[test]
    fn answers_are_read_whatever_their_length_is_told_by() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}more", Ok((200, "{}")));
        check("HTTP/1.0 404 No\r\n\r\nrest", Ok((404, "rest")));
        let chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        check(&format!("{chunks}2;x\r\nab\r\n1\r\nc\r\n0\r\n\r\n"), Ok((200, "abc")));
        check(&format!("{chunks}2\r\na"), Err("end of file"));
        check(&format!("{chunks}ffffffffffffffff\r\na"), Err("too long"));
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", Err("end of file"));
        check("HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n", Err("too long"));
        check("HTTP/1.1 200 OK\r\n\r\n0123456789012345678901", Err("too long"));
        check("SSH-2.0\r\n\r\n", Err("not HTTP"));
        check(&format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(10_000)), Err("long header"));
    }

    #[test]
    fn addresses_have_parts() {
        let check = |url: &str, is_https, host: &str, port, path: &str| {
            let parts = UrlParts::of(url).unwrap();
            let found = (parts.is_https, parts.host, parts.port, parts.path.as_str());
            assert_eq!(found, (is_https, host, port, path), "{url}");
        };
        check("https://id.example.org/keys?a=b", true, "id.example.org", 443, "/keys?a=b");
        check("http://127.0.0.1:8080", false, "127.0.0.1", 8080, "/");
        check("http://[::1]:81/x", false, "::1", 81, "/x");
        check("https://id.example.org?x", true, "id.example.org", 443, "/?x");
    }
}

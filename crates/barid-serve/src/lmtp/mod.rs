//! The LMTP server: sockets, and a thread for each connection of a mail server.

mod backend;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use barid::vfs::Vfs;
use barid_lmtp::{LmtpBackend, LmtpReply, LmtpSession, LmtpSettings, SessionState};

use self::backend::ServerBackend;
use crate::config::{self, ListenAddress, ListenerProtocol, LogLevel, ServerConfig, UnixAddress};
use crate::delivery::SpamCheck;
use crate::limits::{LMTP_CONNECTIONS_MAX, LMTP_INPUT_LEN, LMTP_TIMEOUT};
use crate::log::{Log, LogEvent, Metrics};
use crate::shared_folders::create_user_folders;
use crate::socket::{Address, SocketListener, Stream};

/// A server that delivers what mail servers hand over by LMTP.
///
/// As root it delivers in a child process under the uid of the user. Otherwise it delivers itself,
/// to users whose mail belongs to its own uid; others are refused for the time being.
pub struct LmtpServer {
    /// The configuration.
    pub config: ServerConfig,
    /// The text of the configuration, for child processes.
    pub config_text: String,
    /// The program with the subcommand `deliver`.
    pub program: PathBuf,
    /// The effective uid of this process.
    pub uid: u32,
    /// The file system.
    pub vfs: Arc<dyn Vfs>,
    /// The spam filter.
    pub spam: Option<Arc<dyn SpamCheck>>,
    /// The log.
    pub log: Arc<Log>,
    /// The figures.
    pub metrics: Arc<Metrics>,
}

/// The connections that are open.
#[derive(Default)]
pub(crate) struct Connections(AtomicUsize);

/// One of them.
pub(crate) struct LmtpSlot(Arc<Connections>);

impl Drop for LmtpSlot {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Connections {
    /// Takes a place; `None` if there is none.
    pub(crate) fn open(self: &Arc<Self>) -> Option<LmtpSlot> {
        let more = |count| (count < LMTP_CONNECTIONS_MAX).then_some(count + 1);
        let opened = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        opened.ok().map(|_| LmtpSlot(Arc::clone(self)))
    }
}

impl LmtpServer {
    /// Listens on all addresses of the configuration, for ever. `announce` gets the addresses once
    /// clients can connect.
    ///
    /// # Errors
    /// An address that cannot be used; folders of users that cannot be created; errors of
    /// `announce`.
    pub fn serve(
        self: &Arc<Self>,
        announce: &mut dyn FnMut(&[String]) -> io::Result<()>,
    ) -> io::Result<()> {
        create_user_folders(&*self.vfs, &self.config, self.uid)?;
        let listeners = bind_all(&self.config)?;
        let addresses: Vec<String> = listeners.iter().map(SocketListener::place).collect();
        announce(&addresses)?;
        let connections = Arc::new(Connections::default());
        let threads: Vec<_> = listeners
            .into_iter()
            .map(|listener| {
                let (server, connections) = (Arc::clone(self), Arc::clone(&connections));
                std::thread::spawn(move || server.accept(&listener, &connections))
            })
            .collect();
        threads.into_iter().for_each(|thread| drop(thread.join()));
        Ok(())
    }

    fn accept(self: &Arc<Self>, listener: &SocketListener, connections: &Arc<Connections>) {
        let mut number: u64 = 0;
        loop {
            let mut stream = match listener.accept() {
                Ok(Some(stream)) => stream,
                Ok(None) => continue,
                Err(_) => {
                    // Out of descriptors, for example: others may end meanwhile.
                    self.vfs.sleep(std::time::Duration::from_millis(100));
                    continue;
                }
            };
            let Some(connection) = connections.open() else {
                let _ = stream.write_all(b"421 4.3.2 too many connections\r\n");
                Metrics::up(&self.metrics.connections_refused);
                continue;
            };
            number += 1;
            let (server, session) = (Arc::clone(self), format!("lmtp-{number}"));
            let spawned = std::thread::Builder::new().spawn(move || {
                if let Err(error) = server.session(&mut stream, &session) {
                    let text = error.to_string();
                    let event = LogEvent::new(LogLevel::Debug, "lmtp_end").text("error", &text);
                    server.log.write(&LogEvent { session: Some(&session), ..event });
                }
                drop(connection);
            });
            if let Err(error) = spawned {
                let text = error.to_string();
                self.log.write(&LogEvent::new(LogLevel::Warn, "no_thread").text("error", &text));
            }
        }
    }

    /// Serves a connection until its end. Every recipient gets a reply after the message is durable
    /// in the mailbox.
    ///
    /// # Errors
    /// Errors of the connection.
    pub fn session(&self, stream: &mut dyn LmtpConnection, session: &str) -> io::Result<()> {
        Metrics::up(&self.metrics.connections_all);
        let hostname = match &self.config.server.hostname {
            Some(hostname) => hostname.clone(),
            None => self.vfs.process().host,
        };
        let settings = LmtpSettings { hostname, size_max: self.config.limits.message_size };
        serve_session(stream, settings, &mut ServerBackend::new(self, session))
    }
}

/// Speaks the protocol on a connection until its end.
///
/// # Errors
/// Errors of the connection.
pub(crate) fn serve_session(
    stream: &mut dyn LmtpConnection,
    settings: LmtpSettings,
    backend: &mut dyn LmtpBackend,
) -> io::Result<()> {
    stream.set_timeout(LMTP_TIMEOUT)?;
    let mut out = Vec::new();
    let mut protocol = LmtpSession::new(settings, &mut out);
    let mut input = vec![0; LMTP_INPUT_LEN];
    loop {
        stream.write_all(&out)?;
        out.clear();
        let len = match stream.read(&mut input) {
            Ok(0) => return Ok(()),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let _ = stream.write_all(b"421 4.4.2 no command for too long\r\n");
                return Err(error);
            }
        };
        if protocol.receive(&input[..len], backend, &mut out) == SessionState::Closed {
            return stream.write_all(&out);
        }
    }
}

/// A connection of a mail server.
pub trait LmtpConnection: Read + Write {
    /// Sets the time after which reading and writing fail.
    ///
    /// # Errors
    /// Errors of the system.
    fn set_timeout(&self, timeout: std::time::Duration) -> io::Result<()>;
}

impl LmtpConnection for Stream {
    fn set_timeout(&self, timeout: std::time::Duration) -> io::Result<()> {
        Stream::set_timeout(self, timeout)
    }
}

/// Listens on all LMTP addresses of a configuration. Call it before starting threads, as
/// [`SocketListener::bind`].
fn bind_all(config: &ServerConfig) -> io::Result<Vec<SocketListener>> {
    let lmtp = |listener: &&config::Listener| listener.protocol == ListenerProtocol::Lmtp;
    let mut bound = Vec::new();
    for listener in config.listeners.iter().filter(lmtp) {
        bound.push(match &listener.address {
            ListenAddress::Tcp(address) => {
                SocketListener::bind(&Address::Inet(address.to_string()), 0)?
            }
            ListenAddress::Unix(UnixAddress { path, access }) => {
                SocketListener::bind_unix(path, access.mode, access.gid()?)?
            }
        });
    }
    match bound.is_empty() {
        true => Err(io::Error::other("the configuration has no [[listen]] with the protocol lmtp")),
        false => Ok(bound),
    }
}

/// Returns the reply of a failed delivery.
pub(crate) fn reply_of(error: &crate::delivery::DeliveryError) -> LmtpReply {
    let (code, status) = error.reply();
    LmtpReply::new(code, status, error.text.clone())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use barid::vfs::{MemVfs, OpenOptions};

    use super::*;
    use crate::config::LogSettings;

    /// A connection whose input is given, and whose output is kept.
    struct Script {
        input: io::Cursor<Vec<u8>>,
        output: Vec<u8>,
    }

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            // Pieces of any length arrive.
            let len = buffer.len().min(7);
            self.input.read(&mut buffer[..len])
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.output.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl LmtpConnection for Script {
        fn set_timeout(&self, _: std::time::Duration) -> io::Result<()> {
            Ok(())
        }
    }

    fn server(uid: u32) -> LmtpServer {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let users = "ann:{PLAIN}x:1000:1000::/home/ann::\nbob:{PLAIN}x:1001:1001::/home/bob::\n";
        for folder in ["/home", "/home/ann", "/home/bob"] {
            vfs.create_dir(Path::new(folder), 0o700).unwrap();
        }
        let file = vfs.open(Path::new("/users"), OpenOptions::create(0o600)).unwrap();
        file.write_all_at(users.as_bytes(), 0).unwrap();
        let config = "[server]\nhostname = \"h\"\n[[users.passwd_file]]\npath = \"/users\"\n";
        let open = || Ok(Box::new(io::sink()) as Box<dyn Write + Send>);
        let host = Arc::new(MemVfs::new());
        LmtpServer {
            config: ServerConfig::parse(Path::new("t"), config).unwrap(),
            config_text: config.to_owned(),
            program: "/nowhere/barid".into(),
            uid,
            vfs,
            spam: None,
            log: Arc::new(Log::new(host, &LogSettings::default(), Box::new(open)).unwrap()),
            metrics: Arc::new(Metrics::default()),
        }
    }

    /// Returns the replies after that to LHLO.
    fn replies(server: &LmtpServer, input: &str) -> Vec<String> {
        let input = io::Cursor::new(format!("LHLO me\r\n{input}").into_bytes());
        let mut script = Script { input, output: Vec::new() };
        server.session(&mut script, "s1").unwrap();
        let output = String::from_utf8(script.output).unwrap();
        let lines = output.lines().filter(|line| !line.starts_with("250-"));
        lines.skip(2).map(str::to_owned).collect()
    }

    const INPUT: &str = "MAIL FROM:<a@b>\r\nRCPT TO:<ann+x@c>\r\nRCPT TO:<eve@c>\r\n\
                         RCPT TO:<bob@c>\r\nDATA\r\nSubject: s\r\n\r\n..dot\r\n.\r\nQUIT\r\n";

    #[test]
    fn users_of_other_uids_are_refused_for_the_time_being() {
        let server = server(1000);
        assert_eq!(
            replies(&server, INPUT),
            [
                "250 2.1.0 sender accepted",
                "250 2.1.5 recipient accepted",
                "550 5.1.1 no such user",
                "250 2.1.5 recipient accepted",
                "354 End the message with a dot on a line of its own",
                "250 2.0.0 delivered",
                "451 4.3.5 user bob: the server must run as root",
                "221 2.0.0 bye",
            ]
        );
        let mut stored = Vec::new();
        let folder = Path::new("/home/ann/Maildir/new");
        let dir = server.vfs.open_dir(folder).unwrap();
        dir.list(&mut |name, _| stored.push(String::from_utf8_lossy(name).into_owned())).unwrap();
        assert_eq!(stored.len(), 1);
        let message = server.vfs.read(&folder.join(&stored[0]), 1000).unwrap();
        let expected = "Return-Path: <a@b>\nDelivered-To: ann+x@c\nSubject: s\n\n.dot\n";
        assert_eq!(String::from_utf8_lossy(&message), expected);
        let figures = server.metrics.snapshot();
        assert_eq!((figures.delivered, figures.deliveries_deferred), (1, 1));
    }

    #[test]
    fn a_child_that_cannot_be_started_is_a_temporary_failure() {
        let replies = replies(&server(0), INPUT);
        assert!(
            replies[5].starts_with("451 4.3.0 ") && replies[6].starts_with("451 "),
            "{replies:?}"
        );
    }

    #[test]
    fn the_end_of_a_connection_is_not_the_end_of_a_message() {
        let server = server(1000);
        let cut = INPUT.find("\r\n.\r\n").unwrap();
        replies(&server, &INPUT[..cut + 4]);
        assert!(server.vfs.metadata(Path::new("/home/ann/Maildir")).is_err());
    }

    #[test]
    fn a_user_base_that_cannot_be_read_is_a_temporary_failure() {
        let server = server(1000);
        server.vfs.remove_file(Path::new("/users")).unwrap();
        let replies = replies(&server, "MAIL FROM:<a@b>\r\nRCPT TO:<ann@c>\r\n");
        assert_eq!(replies[1], "451 4.3.0 users cannot be looked up now");
    }
}

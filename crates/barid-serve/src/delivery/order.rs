//! An order to deliver to a user, from a process that may read the configuration to one that runs
//! under the uid of the user.
//!
//! The order comes before the message on standard input, as netstrings (`5:hello,`), so that the
//! child needs no file that the user must not read.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use barid_auth::{NameRules, User};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::error::DeliveryError;
use super::spool::SpooledMessage;
use super::store::Delivered;
use crate::config::ServerConfig;
use crate::limits::{CONFIG_SIZE_MAX, ORDER_FIELDS_MAX};

/// An order to deliver the message after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryOrder {
    /// The path of the configuration file, for messages.
    pub config_path: PathBuf,
    /// The text of the configuration file.
    pub config: String,
    /// The user.
    pub user: User,
    /// The way of the message.
    pub envelope: DeliveryEnvelope,
    /// The wishes of the command line.
    pub wishes: DeliveryWishes,
    /// The size of the message in bytes. A message that is shorter is not all of it: the process
    /// that gave the order has ended.
    pub message_len: u64,
}

/// Settings of a delivery beyond those of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryWishes {
    /// Ask the spam filter.
    pub spam: bool,
    /// Suppress duplicates for this time.
    pub duplicates: Option<Duration>,
}

/// The way of a message: the owned form of the texts of
/// [`DeliveryRequest`](super::DeliveryRequest).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryEnvelope {
    /// The envelope sender, empty for bounces; `None` if it is not known.
    pub sender: Option<String>,
    /// The address of the recipient.
    pub recipient: Option<String>,
    /// The mailbox that the caller wants.
    pub mailbox: Option<String>,
    /// The detail of the address.
    pub detail: Option<String>,
}

impl DeliveryOrder {
    /// Returns the order as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put = |text: &str| {
            bytes.extend_from_slice(format!("{}:{text},", text.len()).as_bytes());
        };
        put(&self.config_path.to_string_lossy());
        put(&self.config);
        put(self.user.name.as_str());
        let DeliveryEnvelope { sender, recipient, mailbox, detail } = &self.envelope;
        let options = [&self.user.home, sender, recipient, mailbox, detail];
        for option in options {
            match option {
                Some(text) => put(&format!("+{text}")),
                None => put("-"),
            }
        }
        put(&self.message_len.to_string());
        put(if self.wishes.spam { "spam" } else { "" });
        put(&self.wishes.duplicates.map_or_else(String::new, |time| time.as_secs().to_string()));
        put(&self.user.fields.len().to_string());
        for (name, value) in &self.user.fields {
            put(name);
            put(value);
        }
        bytes
    }

    /// Reads an order, and nothing after it.
    ///
    /// # Errors
    /// Errors of the source; `InvalidData` if it is not an order.
    pub fn decode(source: &mut dyn Read) -> io::Result<Self> {
        let config_path = text(source)?.into();
        let config = text(source)?;
        let name = text(source)?;
        let rules = ServerConfig::parse(Path::new(""), &config)
            .map_or_else(|_| NameRules::default(), |config| config.users.rules);
        let name = rules.name(name.as_bytes()).ok_or_else(invalid)?;
        let home = option(source)?;
        let (sender, recipient) = (option(source)?, option(source)?);
        let (mailbox, detail) = (option(source)?, option(source)?);
        let message_len = text(source)?.parse().map_err(|_| invalid())?;
        let spam = text(source)? == "spam";
        let seconds = Some(text(source)?).filter(|seconds| !seconds.is_empty());
        let seconds = seconds.map(|seconds| seconds.parse().map_err(|_| invalid())).transpose()?;
        let wishes = DeliveryWishes { spam, duplicates: seconds.map(Duration::from_secs) };
        let count: usize = text(source)?.parse().map_err(|_| invalid())?;
        if count > ORDER_FIELDS_MAX {
            return Err(invalid());
        }
        let mut user = User { home, ..User::named(name) };
        for _ in 0..count {
            user.fields.push((text(source)?, text(source)?));
        }
        let envelope = DeliveryEnvelope { sender, recipient, mailbox, detail };
        Ok(Self { config_path, config, user, envelope, wishes, message_len })
    }

    /// Starts `program deliver --order` under a uid and a gid, and gives it the order and the
    /// message. The mailbox of the result is empty: the child does not tell it.
    ///
    /// # Errors
    /// The error of the child; a temporary one if it cannot be started, has not ended after
    /// `timeout`, or ends by a signal.
    pub fn run_as(
        &self,
        program: &Path,
        (uid, gid): (u32, u32),
        message: &SpooledMessage,
        timeout: Duration,
    ) -> Result<Delivered, DeliveryError> {
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new(program);
        command
            .args(["deliver", "--order"])
            .env_clear()
            .env("HOME", self.user.home.as_deref().unwrap_or("/"))
            .current_dir("/")
            // Supplementary groups are dropped with the uid.
            .gid(gid)
            .uid(uid)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let deadline = Deadline::start(&child, timeout).inspect_err(|_| {
            // Without a limit it could keep the mail server waiting for ever.
            let _ = child.kill();
            let _ = child.wait();
        })?;
        let mut written = Ok(());
        if let Some(mut input) = child.stdin.take() {
            written = input.write_all(&self.encode());
            written = written.and_then(|()| message.read(&mut |piece| input.write_all(piece)));
            if written.is_err() {
                // It must not take a part of the message for all of it.
                let _ = child.kill();
            }
        }
        let output = child.wait_with_output()?;
        if deadline.has_passed() && output.status.code().is_none() {
            let seconds = timeout.as_secs();
            let text = format!("the delivery process has not ended after {seconds} s");
            return Err(DeliveryError::temporary(text));
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let of_kind =
            |kind: &'static str| text.lines().filter_map(move |line| line.strip_prefix(kind));
        match (output.status.code(), written) {
            (Some(0), Ok(())) => {
                let notes = of_kind("warning: ").map(str::to_owned).collect();
                Ok(Delivered::Stored { mailbox: String::new(), is_spam: false, notes })
            }
            (Some(0) | None, Err(error)) => Err(error.into()),
            (code, _) => {
                let text = of_kind("error: ").next().unwrap_or("the delivery process failed");
                Err(DeliveryError::of_exit_code(code, text.to_owned()))
            }
        }
    }
}

/// A thread that kills a child when its time is up.
struct Deadline {
    /// Dropped when the child has ended.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<bool>>,
}

impl Deadline {
    fn start(child: &Child, timeout: Duration) -> io::Result<Self> {
        // Unlike a number, it never means another process.
        let pid = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        let (end, ended) = channel();
        let thread = std::thread::Builder::new().spawn(move || {
            let is_late = ended.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout);
            // It may have ended just now.
            is_late && pidfd_send_signal(pid, Signal::KILL).is_ok()
        })?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }

    /// Returns `true` if the child was killed; to be called after its end.
    fn has_passed(mut self) -> bool {
        drop(self.end.take());
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or(false)
    }
}

fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not an order to deliver")
}

/// Reads a netstring.
fn text(source: &mut dyn Read) -> io::Result<String> {
    let mut len: u64 = 0;
    for digits in 0.. {
        let mut byte = [0];
        source.read_exact(&mut byte)?;
        match byte[0] {
            digit @ b'0'..=b'9' if digits < 8 => len = len * 10 + u64::from(digit - b'0'),
            b':' if digits > 0 => break,
            _ => return Err(invalid()),
        }
    }
    if len > CONFIG_SIZE_MAX {
        return Err(invalid());
    }
    let mut bytes = Vec::new();
    source.take(len + 1).read_to_end(&mut bytes)?;
    match bytes.pop() {
        Some(b',') if bytes.len() as u64 == len => String::from_utf8(bytes).map_err(|_| invalid()),
        _ => Err(invalid()),
    }
}

fn option(source: &mut dyn Read) -> io::Result<Option<String>> {
    let text = text(source)?;
    match text.strip_prefix('+') {
        Some(text) => Ok(Some(text.to_owned())),
        None if text == "-" => Ok(None),
        None => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_and_the_message_is_left() {
        let name = NameRules::default().name(b"ann@example.org").unwrap();
        let order = DeliveryOrder {
            config_path: "/etc/barid.toml".into(),
            config: "[mail]\nlocation = \"/srv/%u\"\n".to_owned(),
            user: User {
                home: Some("/home/ann".to_owned()),
                fields: vec![("mail".to_owned(), "maildir:~/M,:".to_owned())],
                ..User::named(name)
            },
            envelope: DeliveryEnvelope {
                sender: Some(String::new()),
                recipient: None,
                mailbox: Some("-".to_owned()),
                detail: Some("+a".to_owned()),
            },
            wishes: DeliveryWishes { spam: true, duplicates: Some(Duration::from_secs(60)) },
            message_len: 12,
        };
        let mut bytes = order.encode();
        let len = bytes.len();
        bytes.extend_from_slice(b"Subject: s\n\n");
        let mut source = bytes.as_slice();
        assert_eq!(DeliveryOrder::decode(&mut source).unwrap(), order);
        assert_eq!(source, b"Subject: s\n\n");
        for cut in 0..len {
            assert!(DeliveryOrder::decode(&mut &bytes[..cut]).is_err(), "{cut}");
        }
        assert!(DeliveryOrder::decode(&mut &b"99999999:x,"[..]).is_err());
        assert!(DeliveryOrder::decode(&mut &b"-1:x,"[..]).is_err());
    }
}

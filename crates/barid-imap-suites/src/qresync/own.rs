//! A writer with a session of the server.

use std::io;

use fastrand::Rng;

use super::model::set_of;
use super::writer::{Writer, message};
use crate::server::{Server, Transport, open};
use crate::wire::{Connection, Reply};

/// Messages above which more are removed than added.
const MESSAGES_MAX: usize = 60;
/// Messages below which more are added than removed.
const MESSAGES_MIN: usize = 12;
const FLAGS: [&str; 6] = ["\\Seen", "\\Flagged", "\\Answered", "\\Draft", "$Forwarded", "todo"];

/// A writer with a session, which is opened again when it is lost.
pub(super) struct OwnWriter<'s> {
    server: &'s dyn Server,
    user: u32,
    transport: Transport,
    name: String,
    connection: Option<Connection>,
}

impl<'s> OwnWriter<'s> {
    pub(super) fn new(
        server: &'s dyn Server,
        user: u32,
        transport: Transport,
        number: usize,
    ) -> Self {
        Self { server, user, transport, name: format!("session{number}"), connection: None }
    }

    /// Runs a command; NO is fine, as others expunge messages.
    fn run(&mut self, command: &[u8]) -> io::Result<Reply> {
        if self.connection.is_none() {
            let mut connection = open(self.server, self.user, self.transport)?;
            connection.ok("SELECT INBOX")?;
            self.connection = Some(connection);
        }
        let connection = self.connection.as_mut().ok_or_else(|| io::Error::other("no session"))?;
        let reply = connection.command_bytes(command)?;
        if reply.condition() == "BAD" {
            let command = String::from_utf8_lossy(command);
            let command: String = command.chars().take(200).collect();
            let status = reply.status_text();
            return Err(io::Error::other(format!("{}: {command}: {status}", self.name)));
        }
        Ok(reply)
    }

    fn change(&mut self, rng: &mut Rng) -> io::Result<u64> {
        let found = self.run(b"UID SEARCH ALL")?.find("SEARCH").unwrap_or_default();
        let uids: Vec<u32> = found.split_whitespace().filter_map(|uid| uid.parse().ok()).collect();
        let some: Vec<u32> = uids.iter().copied().filter(|_| rng.u32(0..6) == 0).collect();
        let set = set_of(&some);
        let (more, less) = (uids.len() < MESSAGES_MIN, uids.len() > MESSAGES_MAX);
        match rng.u32(0..100) {
            _ if more => self.append(rng),
            0..40 if !some.is_empty() && !less => {
                let sign = ["+", "-", ""][rng.usize(0..3)];
                let silent = if rng.bool() { ".SILENT" } else { "" };
                let flags: Vec<&str> = FLAGS.into_iter().filter(|_| rng.u32(0..3) == 0).collect();
                let flags = flags.join(" ");
                self.run(format!("UID STORE {set} {sign}FLAGS{silent} ({flags})").as_bytes())?;
                Ok(some.len() as u64)
            }
            40..55 if !less => self.append(rng),
            55..60 if !some.is_empty() && !less => {
                self.run(format!("UID COPY {set} INBOX").as_bytes())?;
                Ok(some.len() as u64)
            }
            60..66 if !some.is_empty() => {
                self.run(format!("UID MOVE {set} Archive").as_bytes())?;
                Ok(some.len() as u64)
            }
            66..70 => {
                // As if the program had crashed.
                self.connection = None;
                Ok(0)
            }
            _ if !some.is_empty() => {
                let deleted = format!("UID STORE {set} +FLAGS.SILENT (\\Deleted)");
                self.run(deleted.as_bytes())?;
                let expunge =
                    if rng.bool() { "EXPUNGE".into() } else { format!("UID EXPUNGE {set}") };
                self.run(expunge.as_bytes())?;
                Ok(some.len() as u64)
            }
            _ => self.run(b"NOOP").map(|_| 0),
        }
    }

    fn append(&mut self, rng: &mut Rng) -> io::Result<u64> {
        let text = message(rng, &self.name).replace('\n', "\r\n");
        let flags = if rng.bool() { " (\\Seen todo)" } else { "" };
        let head = format!("APPEND INBOX{flags} {{{}+}}\r\n", text.len());
        self.run(&[head.as_bytes(), text.as_bytes()].concat())?;
        Ok(1)
    }
}

impl Writer for OwnWriter<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn act(&mut self, rng: &mut Rng) -> io::Result<u64> {
        let mut changes = 0;
        for _ in 0..rng.u32(1..4) {
            match self.change(rng) {
                Ok(count) => changes += count,
                Err(error) if is_lost(&error) => self.connection = None,
                Err(error) => return Err(error),
            }
        }
        Ok(changes)
    }
}

/// Returns `true` if the server has closed the connection.
pub(crate) fn is_lost(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

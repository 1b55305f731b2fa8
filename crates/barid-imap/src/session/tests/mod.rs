//! Sessions over an account in memory.

mod disabled;
mod hostile;
mod limited;
mod multi_search;
mod notify;
mod seeing;
mod uids;

use super::{Next, Session, SessionSettings};
use crate::memory::MemoryAccount;
use crate::wire::{Decoder, Event};

/// Messages of INBOX.
pub(super) const MESSAGES: [&str; 4] =
    ["a: 1\r\n\r\n", "b: 2\r\n\r\n", "c: 3\r\n\r\n", "d: 4\r\n\r\n"];

/// A client with its session.
pub(super) struct Client {
    session: Session<MemoryAccount>,
    pub(super) last: Next,
}

impl Client {
    pub(super) fn new(account: &MemoryAccount) -> Self {
        Self::with(account, SessionSettings::default())
    }

    pub(super) fn with(account: &MemoryAccount, settings: SessionSettings) -> Self {
        let session = Session::new(account.clone(), settings, Decoder::new());
        Self { session, last: Next::Continue }
    }

    /// Sends bytes, and returns all that is answered.
    pub(super) fn send(&mut self, bytes: &[u8]) -> String {
        self.session.receive(bytes);
        let mut out = Vec::new();
        loop {
            match self.session.poll() {
                Event::More => break,
                event => self.last = self.session.handle(event, &mut out),
            }
            if self.last == Next::Close {
                break;
            }
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Returns all that is announced between commands.
    #[track_caller]
    pub(super) fn check_announced(&mut self, expected: &str) {
        let mut out = Vec::new();
        assert!(self.session.is_between_commands());
        self.last = self.session.announce(&mut out);
        let text = String::from_utf8_lossy(&out).into_owned();
        let lines: Vec<String> = text.lines().map(without_text).collect();
        assert_eq!(lines.join(" / "), expected);
    }

    /// Sends a command without its tag, and checks the whole answer, whose lines are separated by
    /// ` / ` and have `x` for the tag. Texts after a response code, or after OK, are left out.
    #[track_caller]
    pub(super) fn check(&mut self, command: &str, expected: &str) {
        let answer = self.send(format!("x {command}\r\n").as_bytes());
        let lines: Vec<String> = answer.lines().map(without_text).collect();
        assert_eq!(lines.join(" / "), expected, "{command}");
    }

    /// Creates a mailbox.
    #[track_caller]
    pub(super) fn create(&mut self, name: &str) {
        let answer = self.send(format!("x CREATE {name}\r\n").as_bytes());
        assert!(answer.starts_with("x OK "), "{name}: {answer}");
    }

    pub(super) fn select(&mut self) {
        let answer = self.send(b"x SELECT INBOX\r\n");
        assert!(answer.ends_with("x OK [READ-WRITE] Mailbox selected\r\n"), "{answer}");
    }
}

/// Removes the text for people from a status response.
fn without_text(line: &str) -> String {
    let mut words = line.splitn(3, ' ');
    let (tag, kind) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let rest = words.next().unwrap_or_default();
    if !["OK", "NO", "BAD", "BYE", "PREAUTH"].contains(&kind) {
        return line.to_owned();
    }
    match rest.starts_with('[').then(|| rest.find(']')).flatten() {
        Some(end) => format!("{tag} {kind} {}", &rest[..=end]),
        None => format!("{tag} {kind}"),
    }
}

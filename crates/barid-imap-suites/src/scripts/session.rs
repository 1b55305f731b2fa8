//! A connection of a script, and the number of messages that it knows.

use std::io;

use super::logical::Segment;
use crate::wire::{Connection, Response};

/// A connection of a script.
#[derive(Debug)]
pub(super) struct ScriptSession {
    /// The connection.
    pub(super) connection: Connection,
    /// Messages in the selected mailbox.
    pub(super) exists: u32,
    /// Capabilities, in upper case.
    pub(super) capabilities: Vec<String>,
    /// `true` after BYE.
    pub(super) is_over: bool,
}

/// The way in which a literal is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LiteralMode {
    /// `{n+}`: the literal follows at once.
    Plus,
    /// `{n}`: the server says when it follows.
    Synchronising,
}

impl ScriptSession {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection, exists: 0, capabilities: Vec::new(), is_over: false }
    }

    /// Asks for the capabilities.
    pub(super) fn learn_capabilities(&mut self) -> io::Result<()> {
        let reply = self.connection.ok("CAPABILITY")?;
        let list = reply.find("CAPABILITY").unwrap_or_default();
        self.capabilities = list.split_whitespace().map(str::to_ascii_uppercase).collect();
        Ok(())
    }

    /// Returns `true` if the server has a capability.
    pub(super) fn has(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|known| known.eq_ignore_ascii_case(capability))
    }

    /// Returns the way in which a literal of this length is announced (RFC 7888).
    pub(super) fn literal_mode(&self, len: usize) -> LiteralMode {
        let is_short = len <= 4096 && (self.has("LITERAL-") || self.has("IMAP4rev2"));
        if self.has("LITERAL+") || is_short {
            LiteralMode::Plus
        } else {
            LiteralMode::Synchronising
        }
    }

    /// Follows the number of messages.
    pub(super) fn follow(&mut self, line: &[u8]) -> Option<Change> {
        let text = String::from_utf8_lossy(line).to_ascii_uppercase();
        let (first, rest) = text.split_once(' ').unwrap_or((&text, ""));
        if first == "BYE" {
            self.is_over = true;
        }
        let number: u32 = first.parse().ok()?;
        match rest {
            "EXISTS" => {
                self.exists = number;
                None
            }
            "EXPUNGE" => {
                self.exists = self.exists.saturating_sub(1);
                Some(Change::Expunge(number))
            }
            _ => None,
        }
    }

    /// Runs a command of the preparation: anything except OK, or what `may_fail` allows, is an
    /// error.
    pub(super) fn run(&mut self, segments: &[Segment], may_fail: bool) -> io::Result<Vec<Vec<u8>>> {
        let tag = self.connection.new_tag();
        let mut untagged = Vec::new();
        let mut pieces = self.pieces(&tag, segments).into_iter();
        if let Some(piece) = pieces.next() {
            self.connection.send(&piece)?;
        }
        loop {
            match self.connection.read()? {
                Response::Untagged(line) => {
                    self.follow(&line);
                    untagged.push(line);
                }
                Response::Continuation(_) => {
                    if let Some(piece) = pieces.next() {
                        self.connection.send(&piece)?;
                    }
                }
                Response::Tagged { rest, .. } => {
                    let is_ok = rest.len() >= 2 && rest[..2].eq_ignore_ascii_case(b"OK");
                    if is_ok || may_fail {
                        return Ok(untagged);
                    }
                    let status = String::from_utf8_lossy(&rest).into_owned();
                    return Err(io::Error::other(format!("preparation: {status}")));
                }
            }
        }
    }

    /// Returns a command as pieces, each of which is sent when the server asks for it.
    pub(super) fn pieces(&self, tag: &str, segments: &[Segment]) -> Vec<Vec<u8>> {
        let (mut pieces, mut piece) = (Vec::new(), format!("{tag} ").into_bytes());
        for segment in segments {
            match segment {
                Segment::Text(text) => piece.extend_from_slice(text),
                Segment::Literal(content, is_binary) => {
                    let mark = if *is_binary { "~" } else { "" };
                    let mode = self.literal_mode(content.len());
                    let plus = if mode == LiteralMode::Plus { "+" } else { "" };
                    let head = format!("{mark}{{{}{plus}}}\r\n", content.len());
                    piece.extend_from_slice(head.as_bytes());
                    if mode == LiteralMode::Synchronising {
                        pieces.push(std::mem::take(&mut piece));
                    }
                    piece.extend_from_slice(content);
                }
            }
        }
        piece.extend_from_slice(b"\r\n");
        pieces.push(piece);
        pieces
    }
}

/// A change of the places of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The message at this place is gone.
    Expunge(u32),
}

/// Quotes a name for a command.
pub(super) fn quoted(name: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in name {
        if matches!(byte, b'"' | b'\\') {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    quoted
}

//! Sessions of the model.

use std::io;

use fastrand::Rng;

use super::model::{CommandKind, Model, View, set_of};
use crate::server::{Server, Transport, open};
use crate::wire::Connection;

/// Times that new messages are fetched, of which more may arrive meanwhile.
const LEARNS_MAX: u32 = 30;

/// The reason for which the model stops.
#[derive(Debug)]
pub(super) enum ModelError {
    /// The connection is gone: the model opens another one.
    Lost(io::Error),
    /// The server has broken a rule.
    Broken(String),
}

impl From<io::Error> for ModelError {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

/// A session in which INBOX is selected.
#[derive(Debug)]
pub(super) struct ModelSession {
    pub(super) connection: Connection,
    view: View,
}

impl ModelSession {
    /// Opens a session and synchronises.
    pub(super) fn open(
        server: &dyn Server,
        user: u32,
        transport: Transport,
        model: &mut Model,
        rng: &mut Rng,
    ) -> Result<Self, ModelError> {
        let mut connection = open(server, user, transport)?;
        connection.ok("ENABLE QRESYNC")?;
        let mut session = Self { connection, view: View::new() };
        session.select(model, rng)?;
        Ok(session)
    }

    /// Selects the mailbox, again if it is selected, and learns new messages.
    pub(super) fn select(&mut self, model: &mut Model, rng: &mut Rng) -> Result<(), ModelError> {
        self.leave(model);
        let command = format!("SELECT INBOX{}", model.parameter(rng));
        self.run(CommandKind::Select, &command, model)?;
        self.learn(model)
    }

    /// Leaves the mailbox to the model as a client remembers it.
    pub(super) fn leave(&self, model: &mut Model) {
        model.forget_after_gap(&self.view);
    }

    /// Runs a command, whose answer the model takes.
    fn run(
        &mut self,
        kind: CommandKind,
        command: &str,
        model: &mut Model,
    ) -> Result<(), ModelError> {
        let reply = self.connection.command(command)?;
        let is_fine = reply.is_ok() || (reply.condition() == "NO" && kind != CommandKind::Select);
        if !is_fine {
            let status = reply.status_text();
            return Err(self.broken(&format!("{command}: {status}")));
        }
        let taken = model.take(kind, &mut self.view, &reply);
        taken.map_err(|error| self.broken(&format!("{command}: {error}")))
    }

    /// Returns a broken rule with the session.
    pub(super) fn broken(&self, text: &str) -> ModelError {
        ModelError::Broken(format!("{text}\n{}", self.connection.transcript().text()))
    }

    /// Fetches messages whose UIDs are not known.
    fn learn(&mut self, model: &mut Model) -> Result<(), ModelError> {
        for _ in 0..LEARNS_MAX {
            if self.view.iter().all(Option::is_some) {
                return Ok(());
            }
            let known = self.view.iter().map_while(|uid| *uid).last().unwrap_or(0);
            let command = format!("UID FETCH {}:* (FLAGS MODSEQ)", known + 1);
            self.run(CommandKind::Other, &command, model)?;
            // Messages that were expunged meanwhile are announced by NOOP at the latest.
            if self.view.iter().any(Option::is_none) {
                self.run(CommandKind::Other, "NOOP", model)?;
            }
        }
        Err(self.broken("messages cannot be fetched"))
    }

    /// Synchronises without opening the mailbox again.
    pub(super) fn noop(&mut self, model: &mut Model) -> Result<(), ModelError> {
        self.run(CommandKind::Other, "NOOP", model)?;
        self.learn(model)
    }

    /// Does something that a client does while others write.
    pub(super) fn act(&mut self, model: &mut Model, rng: &mut Rng) -> Result<(), ModelError> {
        let uids: Vec<u32> = model.messages.keys().copied().collect();
        let last = uids.last().copied().unwrap_or(1);
        match rng.u32(0..10) {
            0..3 => self.noop(model),
            3 => self.select(model, rng),
            4 => {
                let highest = model.highest;
                let modifier = format!("(CHANGEDSINCE {highest} VANISHED)");
                let command = format!("UID FETCH 1:{last} (FLAGS) {modifier}");
                self.run(CommandKind::Other, &command, model)?;
                self.learn(model)
            }
            5 if !self.view.is_empty() => {
                let command = format!("FETCH 1:{} (UID FLAGS MODSEQ)", self.view.len());
                self.run(CommandKind::Numbered, &command, model)
            }
            6 => self.run(CommandKind::Numbered, "SEARCH UNSEEN", model),
            7 if !uids.is_empty() => {
                let some: Vec<u32> = uids.into_iter().filter(|_| rng.u32(0..5) == 0).collect();
                let set = if some.is_empty() { last.to_string() } else { set_of(&some) };
                let flag = ["\\seen", "\\answered", "mine"][rng.usize(0..3)];
                let (is_set, is_silent) = (rng.bool(), rng.bool());
                let sign = if is_set { "+" } else { "-" };
                let silent = if is_silent { ".SILENT" } else { "" };
                let command = format!("UID STORE {set} {sign}FLAGS{silent} ({flag})");
                let kind = CommandKind::Silent(flag, is_set);
                self.run(if is_silent { kind } else { CommandKind::Other }, &command, model)
            }
            8 => self.run(CommandKind::Other, "UID EXPUNGE 1:*", model),
            _ => self.run(CommandKind::Other, "CHECK", model),
        }
    }
}

//! A session that works until the server is killed.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;

use super::ledger::{Instance, Ledger, MAILBOXES, Pending, flag_set};
use super::operation::{text_of, uid_code};
use crate::qresync::{is_lost, set_of};
use crate::server::{Server, Transport, open};
use crate::wire::{Connection, Reply};

/// Messages of a session in a mailbox, above which some are expunged.
const MESSAGES_MAX: usize = 25;
/// Flags that are set and cleared.
const FLAGS: [&str; 5] = ["\\seen", "\\flagged", "\\answered", "todo", "$forwarded"];

/// A session's work. Its messages are its own: no other session touches them.
#[derive(Debug)]
pub(super) struct Worker {
    number: usize,
    pub(super) user: u32,
    made: u32,
    pub(super) ledger: Ledger,
    rng: Rng,
}

/// A connection and the mailbox that is selected.
struct Work<'w> {
    worker: &'w mut Worker,
    connection: Connection,
    selected: Option<usize>,
}

impl Worker {
    pub(super) fn new(number: usize, user: u32, allows_parts: bool, rng: Rng) -> Self {
        let ledger = Ledger { allows_parts, ..Ledger::default() };
        Self { number, user, made: 0, ledger, rng }
    }

    /// Returns `true` for a key of this session.
    pub(super) fn owns(&self, key: &str) -> bool {
        key.split_once('-').is_some_and(|(of, _)| of == format!("k{}", self.number))
    }

    /// Works until the connection is lost, or `stop` is `true`; returns `true` if it was lost.
    ///
    /// # Errors
    /// A command that the server refuses.
    pub(super) fn work(&mut self, server: &dyn Server, stop: &AtomicBool) -> io::Result<bool> {
        let connection = match open(server, self.user, Transport::Tcp) {
            Err(error) if is_lost(&error) => return Ok(true),
            opened => opened?,
        };
        let mut work = Work { worker: self, connection, selected: None };
        while !stop.load(Ordering::Relaxed) {
            match work.act() {
                Err(error) if is_lost(&error) => return Ok(true),
                done => done?,
            }
        }
        Ok(false)
    }
}

impl Work<'_> {
    fn ok(&mut self, command: &[u8]) -> io::Result<Reply> {
        let reply = self.connection.command_bytes(command)?;
        if reply.is_ok() {
            return Ok(reply);
        }
        let text = self.connection.transcript().text();
        Err(io::Error::other(format!("{}: {text}", reply.status_text())))
    }

    fn select(&mut self, at: usize) -> io::Result<()> {
        if self.selected != Some(at) {
            self.ok(format!("SELECT {}", MAILBOXES[at]).as_bytes())?;
            self.selected = Some(at);
        }
        Ok(())
    }

    fn act(&mut self) -> io::Result<()> {
        let at = self.worker.rng.usize(0..2);
        let rng = &mut self.worker.rng;
        let all: Vec<u32> = self.worker.ledger.mailboxes[at].keys().copied().collect();
        let uids: Vec<u32> = all.iter().copied().filter(|_| rng.u32(0..4) == 0).collect();
        let kind = rng.u32(0..10);
        match kind {
            _ if uids.is_empty() => self.append(at),
            _ if all.len() > MESSAGES_MAX => self.expunge(at, uids),
            0..3 => self.append(at),
            3..5 => self.copy(at, uids),
            5..7 => self.move_to_other(at, uids),
            7..9 => self.store(at, uids),
            _ => self.expunge(at, uids),
        }
    }

    fn append(&mut self, to: usize) -> io::Result<()> {
        let worker = &mut *self.worker;
        let count = if worker.rng.u32(0..4) == 0 { worker.rng.u32(2..5) } else { 1 };
        let mut keys = Vec::new();
        for _ in 0..count {
            worker.made += 1;
            keys.push(format!("k{}-{}", worker.number, worker.made));
        }
        let flags: Vec<&str> = FLAGS.into_iter().filter(|_| worker.rng.u32(0..3) == 0).collect();
        let mut command = format!("APPEND {}", MAILBOXES[to]);
        for key in &keys {
            let text = text_of(key);
            command.push_str(&format!(" ({}) {{{}+}}\r\n{text}", flags.join(" "), text.len()));
        }
        let flags = flag_set(flags);
        let pending = Pending::Append { to, keys: keys.clone(), flags: flags.clone() };
        worker.ledger.pending = pending;
        let reply = self.ok(command.as_bytes())?;
        let (_, sets) = uid_code(&reply, "APPENDUID")?;
        let ledger = &mut self.worker.ledger;
        for (uid, key) in sets.into_iter().flatten().zip(keys) {
            ledger.mailboxes[to].insert(uid, Instance { key, flags: flags.clone() });
        }
        ledger.done("APPEND");
        Ok(())
    }

    fn copy(&mut self, from: usize, uids: Vec<u32>) -> io::Result<()> {
        self.select(from)?;
        let command = format!("UID COPY {} {}", set_of(&uids), MAILBOXES[1 - from]);
        self.worker.ledger.pending = Pending::Copy { from, uids: uids.clone() };
        let reply = self.ok(command.as_bytes())?;
        let ledger = &mut self.worker.ledger;
        for (old, new) in pairs(&reply, &uids)? {
            let instance = ledger.mailboxes[from].get(&old).cloned();
            ledger.mailboxes[1 - from].extend(instance.map(|instance| (new, instance)));
        }
        ledger.done("COPY");
        Ok(())
    }

    fn move_to_other(&mut self, from: usize, uids: Vec<u32>) -> io::Result<()> {
        self.select(from)?;
        let command = format!("UID MOVE {} {}", set_of(&uids), MAILBOXES[1 - from]);
        self.worker.ledger.pending = Pending::Move { from, uids: uids.clone() };
        let reply = self.ok(command.as_bytes())?;
        let ledger = &mut self.worker.ledger;
        for (old, new) in pairs(&reply, &uids)? {
            let instance = ledger.mailboxes[from].remove(&old);
            ledger.mailboxes[1 - from].extend(instance.map(|instance| (new, instance)));
        }
        ledger.done("MOVE");
        Ok(())
    }

    fn store(&mut self, at: usize, uids: Vec<u32>) -> io::Result<()> {
        self.select(at)?;
        let rng = &mut self.worker.rng;
        let (flag, is_set, is_silent) = (FLAGS[rng.usize(0..FLAGS.len())], rng.bool(), rng.bool());
        let (sign, silent) =
            (if is_set { "+" } else { "-" }, if is_silent { ".SILENT" } else { "" });
        let command = format!("UID STORE {} {sign}FLAGS{silent} ({flag})", set_of(&uids));
        let flag = flag.to_owned();
        self.run_store(at, uids, flag, is_set, &command)?;
        self.worker.ledger.done("STORE");
        Ok(())
    }

    fn run_store(
        &mut self,
        at: usize,
        uids: Vec<u32>,
        flag: String,
        is_set: bool,
        command: &str,
    ) -> io::Result<()> {
        let pending = Pending::Store { at, uids: uids.clone(), flag: flag.clone(), is_set };
        self.worker.ledger.pending = pending;
        self.ok(command.as_bytes())?;
        for uid in uids {
            if let Some(instance) = self.worker.ledger.mailboxes[at].get_mut(&uid) {
                match is_set {
                    true => instance.flags.insert(flag.clone()),
                    false => instance.flags.remove(&flag),
                };
            }
        }
        Ok(())
    }

    fn expunge(&mut self, at: usize, uids: Vec<u32>) -> io::Result<()> {
        self.select(at)?;
        let set = set_of(&uids);
        let command = format!("UID STORE {set} +FLAGS.SILENT (\\Deleted)");
        self.run_store(at, uids.clone(), "\\deleted".to_owned(), true, &command)?;
        self.worker.ledger.pending = Pending::Expunge { at, uids: uids.clone() };
        self.ok(format!("UID EXPUNGE {set}").as_bytes())?;
        self.worker.ledger.take(at, &uids);
        self.worker.ledger.done("EXPUNGE");
        Ok(())
    }
}

/// Returns the pairs of COPYUID.
///
/// # Errors
/// A code that does not name all messages.
fn pairs(reply: &Reply, uids: &[u32]) -> io::Result<Vec<(u32, u32)>> {
    let (_, sets) = uid_code(reply, "COPYUID")?;
    match sets.as_slice() {
        [from, to] if from == uids && to.len() == from.len() => {
            Ok(from.iter().copied().zip(to.iter().copied()).collect())
        }
        _ => Err(io::Error::other(format!("COPYUID {sets:?} for {uids:?}"))),
    }
}

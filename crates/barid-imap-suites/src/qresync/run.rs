//! Rounds of changes and comparisons.

use std::collections::VecDeque;
use std::io;
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use super::fresh::{FreshMailbox, fresh_fetch};
use super::model::{Messages, Model};
use super::own::is_lost;
use super::report::{Counts, QresyncReport};
use super::session::{ModelError, ModelSession};
use super::writer::{Writer, WriterKind, writer};
use crate::server::{MortalServer, Server, Transport, open};

/// Messages in the mailbox at the start.
const MESSAGES: u32 = 20;
/// Times that the mailbox is read until two readings are equal.
const READINGS_MAX: u32 = 50;

/// One round of so many is disturbed, after at most so many milliseconds.
const DISTURBED_PART: u32 = 8;
const DISTURBED_AFTER_MS: u64 = 60;
/// Sessions of the model that are kept for the report of a failure.
const SESSIONS_KEPT: usize = 3;

/// Called in each round while the writers write: to remove a cache, or to kill a process. The
/// server must run again when this returns. Returns `true` if it has done anything: the server may
/// then know no more when messages were expunged.
pub type Disturb<'d> = dyn Fn(&mut Rng) -> io::Result<bool> + Sync + 'd;

/// Disturbs a server now and then: kills it, removes its cache, or both.
///
/// # Errors
/// A server that does not start again.
pub fn kills_and_losses(server: &dyn MortalServer, rng: &mut Rng) -> io::Result<bool> {
    let kind = rng.u32(0..DISTURBED_PART * 3);
    if kind > 2 {
        return Ok(false);
    }
    thread::sleep(Duration::from_millis(rng.u64(0..DISTURBED_AFTER_MS)));
    match kind {
        0 => server.restart()?,
        1 => server.remove_cache()?,
        _ => {
            server.kill()?;
            server.remove_cache()?;
            server.restart()?;
        }
    }
    Ok(true)
}

/// Settings of a run.
pub struct QresyncOptions<'d> {
    /// The seed.
    pub seed: u64,
    /// Number of rounds.
    pub rounds: u64,
    /// The way to the server.
    pub transport: Transport,
    /// The user, whose mail is replaced.
    pub user: u32,
    /// The writers.
    pub writers: Vec<WriterKind>,
    /// `true` if the model works while others write, in half of the rounds.
    pub is_concurrent: bool,
    /// `true` if VANISHED (EARLIER) must not name messages that had vanished before the
    /// mod-sequence that the model gave, and HIGHESTMODSEQ must not fall.
    pub is_exact: bool,
    /// Disturbs the server.
    pub disturb: &'d Disturb<'d>,
}

impl QresyncOptions<'_> {
    /// Returns settings with two writers that have sessions and two that know files.
    pub fn new(seed: u64, rounds: u64) -> Self {
        let (own, foreign) = (WriterKind::Own, WriterKind::Foreign);
        Self {
            seed,
            rounds,
            transport: Transport::Tcp,
            user: 31,
            writers: vec![own, foreign, own, foreign],
            is_concurrent: true,
            is_exact: false,
            disturb: &|_| Ok(false),
        }
    }
}

/// Runs the model against a server.
///
/// # Errors
/// If a writer fails or the server cannot be reached; a model that differs is in the report.
pub fn qresync_model(
    server: &dyn Server,
    options: &QresyncOptions<'_>,
) -> io::Result<QresyncReport> {
    let QresyncOptions { seed, transport, user, .. } = *options;
    prepare(server, user, transport)?;
    let writers = options.writers.iter().enumerate();
    let writers = writers.map(|(number, kind)| writer(*kind, server, user, transport, number));
    let mut run = ModelRun {
        server,
        options,
        writers: writers.collect(),
        rng: Rng::with_seed(seed),
        model: Model::default(),
        session: None,
        ended: VecDeque::new(),
        report: QresyncReport::default(),
        losses: 0,
    };
    for round in 0..options.rounds {
        match run.round() {
            Ok(()) => run.report.rounds += 1,
            Err(ModelError::Lost(error)) => return Err(error),
            Err(ModelError::Broken(text)) => {
                let mut failure = format!("seed {seed}, round {round}: {text}");
                for session in run.ended.iter().rev() {
                    failure.push_str(&format!("-- the session before\n{session}"));
                }
                run.report.failure = Some(failure);
                break;
            }
        }
    }
    let (counts, mut report) = (run.model.counts, run.report);
    report.vanished = counts.vanished;
    report.fetches = counts.fetches;
    report.uidvalidity_changes = counts.uidvalidity_changes;
    report.falls = counts.falls;
    Ok(report)
}

/// Empties the mail of a user and fills INBOX.
fn prepare(server: &dyn Server, user: u32, transport: Transport) -> io::Result<()> {
    server.prepare(user, &|_| Ok(()))?;
    let mut connection = open(server, user, transport)?;
    connection.ok("CREATE Archive")?;
    for number in 0..MESSAGES {
        let text = format!("Subject: {number}\r\n\r\ntext\r\n");
        connection.append("INBOX", "", text.as_bytes())?;
    }
    connection.logout()
}

struct ModelRun<'r> {
    server: &'r dyn Server,
    options: &'r QresyncOptions<'r>,
    writers: Vec<Box<dyn Writer + 'r>>,
    rng: Rng,
    model: Model,
    session: Option<ModelSession>,
    /// The sessions before, the newest last.
    ended: VecDeque<String>,
    report: QresyncReport,
    /// Disturbances after which the server has not named all UIDs yet.
    losses: u32,
}

impl ModelRun<'_> {
    /// Lets writers change the mailbox, sometimes while the model is at work, and compares.
    fn round(&mut self) -> Result<(), ModelError> {
        let is_concurrent = self.rng.bool() && self.options.is_concurrent;
        if !is_concurrent && self.rng.u32(0..3) == 0 {
            self.cut();
        }
        let rngs: Vec<Rng> = self.writers.iter().map(|_| self.rng.fork()).collect();
        let acts: Vec<bool> = self.writers.iter().map(|_| self.rng.u32(0..3) > 0).collect();
        let mut writers = std::mem::take(&mut self.writers);
        let (disturb, mut disturb_rng) = (self.options.disturb, self.rng.fork());
        let acted = thread::scope(|scope| {
            let disturbed = scope.spawn(move || disturb(&mut disturb_rng));
            let mut running = Vec::new();
            for ((writer, mut rng), _) in
                writers.iter_mut().zip(rngs).zip(acts).filter(|(_, acts)| *acts)
            {
                running.push(scope.spawn(move || {
                    let changes = writer.act(&mut rng);
                    (writer.name().to_owned(), changes)
                }));
            }
            let model = if is_concurrent { self.work() } else { Ok(()) };
            let panicked = |_| (String::new(), Err(io::Error::other("a writer has panicked")));
            let acted = running.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
            let acted = acted.collect::<Vec<_>>();
            let gone = |_| Err(io::Error::other("the disturbance has panicked"));
            (acted, disturbed.join().unwrap_or_else(gone), model)
        });
        self.writers = writers;
        let (acted, disturbed, model) = acted;
        if disturbed? {
            self.report.disturbed += 1;
            self.losses += 1;
        }
        for (name, changes) in acted {
            *self.report.changes.entry(name).or_default() += changes?;
        }
        model?;
        if !is_concurrent && self.rng.bool() {
            // Sees what has been waiting for it.
            self.work()?;
        }
        self.compare()
    }

    /// Lets the model do something while others write.
    fn work(&mut self) -> Result<(), ModelError> {
        for _ in 0..self.rng.u32(1..6) {
            if self.rng.u32(0..6) == 0 {
                self.cut();
            }
            let done = self.opened().and_then(|()| {
                let session = self.session.as_mut().ok_or_else(no_session)?;
                session.act(&mut self.model, &mut self.rng)
            });
            self.keep_going(done)?;
        }
        Ok(())
    }

    /// Cuts the connection.
    fn cut(&mut self) {
        let Some(session) = self.session.take() else { return };
        session.leave(&mut self.model);
        self.report.cuts += 1;
        self.ended.push_back(session.connection.transcript().text());
        if self.ended.len() > SESSIONS_KEPT {
            self.ended.pop_front();
        }
    }

    /// Opens a session if there is none.
    fn opened(&mut self) -> Result<(), ModelError> {
        if self.session.is_none() {
            let QresyncOptions { user, transport, .. } = *self.options;
            let (model, rng) = (&mut self.model, &mut self.rng);
            self.session = Some(ModelSession::open(self.server, user, transport, model, rng)?);
            self.report.resyncs += 1;
        }
        Ok(())
    }

    /// Goes on after a connection that was lost.
    fn keep_going(&mut self, done: Result<(), ModelError>) -> Result<(), ModelError> {
        match done {
            Err(ModelError::Lost(error)) if is_lost(&error) => {
                self.cut();
                Ok(())
            }
            done => done,
        }
    }

    /// Compares the model with a fresh reading, once that is the same before and after the model
    /// has synchronised.
    fn compare(&mut self) -> Result<(), ModelError> {
        let QresyncOptions { user, transport, .. } = *self.options;
        for _ in 0..READINGS_MAX {
            let before = fresh_fetch(self.server, user, transport)?;
            let done = self.synchronise();
            self.keep_going(done)?;
            if self.session.is_none() {
                continue;
            }
            let after = fresh_fetch(self.server, user, transport)?;
            if before != after {
                continue;
            }
            if self.model.messages != after.messages {
                let difference = difference(&self.model.messages, &after);
                return Err(self.broken(&format!("the model differs: {difference}")));
            }
            let Counts { repeated, falls, .. } = self.model.counts;
            if repeated > self.report.repeated {
                self.report.repeated = repeated;
                let is_lost = self.losses > 0;
                self.losses = self.losses.saturating_sub(1);
                if self.options.is_exact && !is_lost {
                    return Err(self.broken("VANISHED names a message that vanished before"));
                }
            }
            if self.options.is_exact && falls > 0 {
                return Err(self.broken("HIGHESTMODSEQ has fallen"));
            }
            self.report.compared += after.messages.len() as u64;
            return Ok(());
        }
        Err(self.broken("the mailbox does not come to rest"))
    }

    /// Returns a failure with the session of the model.
    fn broken(&self, text: &str) -> ModelError {
        match &self.session {
            Some(session) => session.broken(text),
            None => ModelError::Broken(text.to_owned()),
        }
    }

    /// Synchronises in one of the ways of a client.
    fn synchronise(&mut self) -> Result<(), ModelError> {
        if self.session.is_none() {
            return self.opened();
        }
        let session = self.session.as_mut().ok_or_else(no_session)?;
        if self.rng.bool() {
            session.noop(&mut self.model)
        } else {
            self.report.resyncs += 1;
            session.select(&mut self.model, &mut self.rng)
        }
    }
}

fn no_session() -> ModelError {
    ModelError::Lost(io::Error::other("no session"))
}

/// Describes the first messages that differ.
fn difference(model: &Messages, fresh: &FreshMailbox) -> String {
    let mut texts = Vec::new();
    for (uid, flags) in model {
        match fresh.messages.get(uid) {
            None => texts.push(format!("UID {uid} is gone")),
            Some(other) if other != flags => {
                let modseq = fresh.modseqs.get(uid).copied().unwrap_or(0);
                texts.push(format!("UID {uid} has {other:?} since {modseq}, not {flags:?}"));
            }
            Some(_) => {}
        }
    }
    let new = fresh.messages.keys().filter(|uid| !model.contains_key(uid));
    texts.extend(new.map(|uid| format!("UID {uid} is not known")));
    texts.truncate(5);
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_described() {
        let of = |messages: &[(u32, &str)]| -> Messages {
            messages.iter().map(|(uid, flag)| (*uid, vec![(*flag).to_owned()])).collect()
        };
        let messages = of(&[(1, "a"), (2, "b"), (4, "a")]);
        let fresh = FreshMailbox { messages, modseqs: [(2, 7)].into() };
        let text = difference(&of(&[(1, "a"), (2, "a"), (3, "a")]), &fresh);
        let expected = "UID 2 has [\"b\"] since 7, not [\"a\"]; UID 3 is gone; UID 4 is not known";
        assert_eq!(text, expected);
    }
}

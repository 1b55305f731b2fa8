//! Rounds of work, a kill, a restart and a comparison.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use super::ledger::Instances;
use super::state::{History, read_all};
use super::worker::Worker;
use crate::server::{Killed, MailFormat, MortalServer, Transport, open};

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct CrashOptions {
    /// The seed.
    pub seed: u64,
    /// Number of kills.
    pub kills: u64,
    /// Number of sessions at work, which are shared out among the users.
    pub sessions: usize,
    /// The first user, whose mail is replaced.
    pub user: u32,
    /// Number of users, from the first on.
    pub users: u32,
    /// Longest time from the start of the sessions to the kill.
    pub time_max: Duration,
}

impl CrashOptions {
    /// Returns settings with four sessions of one user.
    pub fn new(seed: u64, kills: u64) -> Self {
        Self { seed, kills, sessions: 4, user: 35, users: 1, time_max: Duration::from_millis(900) }
    }
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct CrashReport {
    /// Times that the server was killed and everything was compared.
    pub kills: u64,
    /// The same by the process that was killed, for a server of several.
    pub kills_of: BTreeMap<&'static str, u64>,
    /// Kills of a server that had only just started.
    pub early_kills: u64,
    /// Operations that were acknowledged, by name.
    pub acknowledged: BTreeMap<&'static str, u64>,
    /// Operations that nobody had acknowledged at a kill.
    pub pending: u64,
    /// Messages that were compared.
    pub compared: u64,
    /// The first broken promise.
    pub failure: Option<String>,
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, kills_of, early_kills, pending, compared, acknowledged, failure } = self;
        write!(f, "{kills} kills {kills_of:?}, {early_kills} more after a start, ")?;
        write!(f, "{compared} messages compared")?;
        for (name, count) in acknowledged {
            write!(f, ", {count} {name}")?;
        }
        writeln!(f, " acknowledged; {pending} pending")?;
        failure.as_ref().map_or(Ok(()), |failure| writeln!(f, "FAILED: {failure}"))
    }
}

/// Kills a server again and again.
///
/// # Errors
/// A server that does not start, or refuses a command; broken promises are in the report.
pub fn crash_test(server: &dyn MortalServer, options: CrashOptions) -> io::Result<CrashReport> {
    let CrashOptions { seed, kills, sessions, user, users, .. } = options;
    for user in user..user + users {
        server.prepare(user, &|_| Ok(()))?;
        open(server, user, Transport::Tcp)?.ok("CREATE Archive")?;
    }
    let mut rng = Rng::with_seed(seed);
    // Each message of a Maildir appears by a rename of its own.
    let in_parts = matches!(server.format(), MailFormat::Maildir | MailFormat::Nested);
    let user_of = |number: usize| user + number as u32 % users;
    let worker = |number| Worker::new(number, user_of(number), in_parts, rng.fork());
    let workers = (0..sessions).map(worker).collect();
    let history = (user..user + users).map(|user| (user, Default::default())).collect();
    let report = CrashReport::default();
    let mut run = CrashRun { server, options, rng, workers, history, report };
    for kill in 0..kills {
        let compared = match run.work_and_kill()? {
            Ok(()) => run.compare()?,
            Err(text) => Err(text),
        };
        match compared {
            Ok(()) => run.report.kills += 1,
            Err(text) => {
                run.report.failure = Some(format!("seed {seed}, kill {kill}: {text}"));
                break;
            }
        }
    }
    for worker in run.workers {
        for (name, count) in worker.ledger.acknowledged {
            *run.report.acknowledged.entry(name).or_default() += count;
        }
    }
    Ok(run.report)
}

struct CrashRun<'r> {
    server: &'r dyn MortalServer,
    options: CrashOptions,
    rng: Rng,
    workers: Vec<Worker>,
    /// The history of the mailboxes, by user.
    history: BTreeMap<u32, [History; 2]>,
    report: CrashReport,
}

impl CrashRun<'_> {
    /// Lets the sessions work, kills the server or a part of it at some moment, and starts it
    /// again.
    /// Sessions that had nothing to do with that part must have lived.
    fn work_and_kill(&mut self) -> io::Result<Result<(), String>> {
        let wait = self.options.time_max.mul_f64(self.rng.f64());
        let (server, choice, stop) = (self.server, self.rng.u64(..), AtomicBool::new(false));
        let (killed, lost) = thread::scope(|scope| {
            let stop = &stop;
            let work = |worker| scope.spawn(move || Worker::work(worker, server, stop));
            let running: Vec<_> = self.workers.iter_mut().map(work).collect();
            thread::sleep(wait);
            let killed = server.kill_part(choice);
            // Those whose processes live work on for a while.
            thread::sleep(wait / 4);
            stop.store(true, Ordering::Relaxed);
            let panicked = |_| Err(io::Error::other("a session has panicked"));
            let ended = running.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
            let ended = ended.collect::<io::Result<Vec<bool>>>();
            killed.and_then(|killed| ended.map(|ended| (killed, ended)))
        })?;
        server.revive(killed)?;
        let name = match killed {
            Killed::Server => "server",
            Killed::Front => "front",
            Killed::Worker(_) => "worker",
            Killed::Nothing => "other",
        };
        *self.report.kills_of.entry(name).or_default() += 1;
        for (worker, is_lost) in self.workers.iter().zip(lost) {
            let may_be = match killed {
                Killed::Server | Killed::Front => true,
                Killed::Worker(user) => user == worker.user,
                Killed::Nothing => false,
            };
            if is_lost && !may_be {
                return Ok(Err(format!(
                    "{killed:?} was killed: user {} lost a session",
                    worker.user
                )));
            }
        }
        if self.rng.u32(0..4) == 0 {
            self.kill_early()?;
        }
        Ok(Ok(()))
    }

    /// Kills the server while it repairs what the last kill has left.
    fn kill_early(&mut self) -> io::Result<()> {
        let (server, user) = (self.server, self.options.user);
        let wait = Duration::from_millis(self.rng.u64(0..30));
        thread::scope(|scope| {
            // Opens the mailboxes; it is cut off in the middle.
            scope.spawn(|| {
                let opened = open(server, user, Transport::Tcp);
                drop(opened.and_then(|mut connection| {
                    connection.ok("SELECT INBOX")?;
                    connection.ok("SELECT Archive")
                }));
            });
            thread::sleep(wait);
            server.kill()
        })?;
        self.report.early_kills += 1;
        server.restart()
    }

    /// Compares the mailboxes with what the sessions know.
    fn compare(&mut self) -> io::Result<Result<(), String>> {
        for user in self.options.user..self.options.user + self.options.users {
            if let Err(error) = self.compare_user(user)? {
                return Ok(Err(format!("user {user}: {error}")));
            }
        }
        Ok(Ok(()))
    }

    fn compare_user(&mut self, user: u32) -> io::Result<Result<(), String>> {
        let history = self.history.entry(user).or_default();
        for (at, history) in history.iter_mut().enumerate() {
            let own = self.workers.iter().filter(|worker| worker.user == user);
            for (uid, instance) in own.flat_map(|of| &of.ledger.mailboxes[at]) {
                if let Err(error) = history.see(*uid, &instance.key) {
                    return Ok(Err(error));
                }
            }
        }
        let mut found = match read_all(self.server, user, history)? {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        self.report.compared += found.iter().map(|messages| messages.len() as u64).sum::<u64>();
        for worker in self.workers.iter_mut().filter(|worker| worker.user == user) {
            self.report.pending +=
                u64::from(worker.ledger.pending != super::ledger::Pending::Nothing);
            let mut own = |at: usize| -> Instances {
                found[at].extract_if(.., |_, instance| worker.owns(&instance.key)).collect()
            };
            let own = [own(0), own(1)];
            if let Err(error) = worker.ledger.settle(own) {
                return Ok(Err(format!("{error}; pending: {:?}", worker.ledger.pending)));
            }
        }
        match found.iter().find_map(|messages| messages.first_key_value()) {
            Some((uid, extra)) => Ok(Err(format!("UID {uid} is nobody's: {extra:?}"))),
            None => Ok(Ok(())),
        }
    }
}

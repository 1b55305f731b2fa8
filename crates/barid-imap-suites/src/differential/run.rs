//! Runs scripts on two servers.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::thread;

use super::compare::{Difference, differences};
use super::generate::{CommandScript, generate};
use super::minimise::minimised;
use super::report::{DifferentialFailure, DifferentialReport};
use super::side::{SideRun, run_side};
use crate::mail::MailPool;
use crate::server::{Server, Transport, open};

/// Most failures that are made small and kept.
const FAILURES_MAX: usize = 4;
/// Number of further differences after which no more are kept.
const OTHERS_MAX: usize = 300;

/// Returns the reason for which a difference is fine, if it is.
pub type Explain<'e> = dyn Fn(&Difference) -> Option<&'static str> + Sync + 'e;

/// Settings of a comparison.
pub struct DifferentialOptions<'e> {
    /// Seed of the first script; the next one has the next seed.
    pub seed: u64,
    /// Number of scripts.
    pub count: u64,
    /// The way to the servers.
    pub transport: Transport,
    /// First user, whose mail is replaced.
    pub user: u32,
    /// Number of users that take turns.
    pub users: u32,
    /// Percentage of scripts whose messages are malformed ones.
    pub broken_percent: u32,
    /// `true` if \Recent is compared.
    pub compares_recent: bool,
    /// Capabilities that are taken to be missing.
    pub without: BTreeSet<String>,
    /// The reasons for differences.
    pub explain: &'e Explain<'e>,
}

impl DifferentialOptions<'_> {
    /// Returns settings that compare everything, over standard input and output.
    pub fn new(seed: u64, count: u64) -> Self {
        Self {
            seed,
            count,
            transport: Transport::Stdio,
            user: 1,
            users: 8,
            broken_percent: 30,
            compares_recent: true,
            without: BTreeSet::new(),
            explain: &|_| None,
        }
    }
}

/// Servers, messages and settings of a comparison.
pub(super) struct Comparison<'c> {
    first: &'c dyn Server,
    second: &'c dyn Server,
    pool: &'c MailPool,
    options: &'c DifferentialOptions<'c>,
}

/// Runs the same random scripts on two servers over the same mail, and compares all answers and the
/// mailboxes afterwards.
///
/// # Errors
/// If a server cannot be reached or a mailbox not be written; differences are in the report.
pub fn differential(
    first: &dyn Server,
    second: &dyn Server,
    options: &DifferentialOptions<'_>,
) -> io::Result<DifferentialReport> {
    let pool = MailPool::load()?;
    let mut capabilities = capabilities(first, options)?;
    let of_second = self::capabilities(second, options)?;
    capabilities.retain(|capability| {
        of_second.contains(capability) && !options.without.contains(capability)
    });
    let comparison = Comparison { first, second, pool: &pool, options };
    let mut report = DifferentialReport::default();
    for seed in options.seed..options.seed + options.count {
        let script = generate(seed, &pool, options.broken_percent, &capabilities);
        let compared = comparison.compare(&script)?;
        report.scripts += 1;
        report.commands += script.commands.len() as u64;
        report.values += compared.values;
        report.gone += u64::from(compared.is_cut);
        for (command, reply) in compared.sides[0].replies.iter().take(script.commands.len()) {
            let verb = format!("{} {}", verb_of(command), reply.condition);
            *report.conditions.entry(verb).or_default() += 1;
        }
        for (reason, count) in &compared.explained {
            *report.explained.entry(reason).or_default() += count;
        }
        if compared.unexplained.is_empty() {
            continue;
        }
        report.failed += 1;
        for difference in &compared.unexplained {
            *report.names.entry(kind(&difference.name)).or_default() += 1;
        }
        if report.failures.len() < FAILURES_MAX {
            report.failures.push(comparison.failure(script, compared)?);
        } else if report.others.len() < OTHERS_MAX {
            report.others.extend(compared.unexplained.into_iter().map(|other| (seed, other)));
        }
    }
    Ok(report)
}

/// Returns the name of a command, with its `UID`.
fn verb_of(command: &[u8]) -> String {
    let text = String::from_utf8_lossy(command);
    let words = if text.starts_with("UID ") { 2 } else { 1 };
    text.split(' ').take(words).collect::<Vec<_>>().join(" ")
}

/// Returns the name of a value without the message or the mailbox.
fn kind(name: &str) -> String {
    let words: Vec<&str> = name.split(' ').collect();
    match words.as_slice() {
        ["FETCH" | "STATUS", _, item, ..] => format!("{} {item}", words[0]),
        ["LIST" | "LSUB" | "EXPUNGE", ..] => words[0].to_owned(),
        _ => name.to_owned(),
    }
}

fn capabilities(
    server: &dyn Server,
    options: &DifferentialOptions<'_>,
) -> io::Result<BTreeSet<String>> {
    let mut connection = open(server, options.user, options.transport)?;
    let reply = connection.ok("CAPABILITY")?;
    let list = reply.find("CAPABILITY").unwrap_or_default();
    Ok(list.split_whitespace().map(str::to_ascii_uppercase).collect())
}

/// A script that was run on both servers.
pub(super) struct Compared {
    pub(super) unexplained: Vec<Difference>,
    pub(super) explained: BTreeMap<&'static str, u64>,
    values: u64,
    /// `true` if the first server closed the connection.
    is_cut: bool,
    sides: [SideRun; 2],
}

impl Comparison<'_> {
    /// Runs a script on both servers at the same time.
    pub(super) fn compare(&self, script: &CommandScript) -> io::Result<Compared> {
        let turn = u32::try_from(script.seed % u64::from(self.options.users.max(1))).unwrap_or(0);
        let user = self.options.user + turn;
        let run = |server| run_side(server, script, self.pool, self.options, user);
        let (first, second) = thread::scope(|scope| {
            let first = scope.spawn(|| run(self.first));
            let second = run(self.second);
            let panicked = |_| Err(io::Error::other("a thread has panicked"));
            (first.join().unwrap_or_else(panicked), second)
        });
        let mut sides = [first?, second?];
        let gone = sides[0].replies.iter().position(|(_, reply)| reply.is_closed());
        if let Some(gone) = gone {
            sides.iter_mut().for_each(|side| side.replies.truncate(gone));
        }
        let (all, values) = differences(&sides[0], &sides[1], script.is_broken);
        let mut explained: BTreeMap<&'static str, u64> = BTreeMap::new();
        let mut unexplained = Vec::new();
        for difference in all {
            match (self.options.explain)(&difference) {
                Some(reason) => *explained.entry(reason).or_default() += 1,
                None => unexplained.push(difference),
            }
        }
        Ok(Compared { unexplained, explained, values, is_cut: gone.is_some(), sides })
    }

    /// Makes a failing script small.
    fn failure(
        &self,
        script: CommandScript,
        compared: Compared,
    ) -> io::Result<DifferentialFailure> {
        let wanted = compared.unexplained.first().map(|difference| kind(&difference.name));
        let small = minimised(&script, |candidate| {
            // Another difference may have another cause.
            let found = self.compare(candidate)?.unexplained;
            Ok(found.iter().any(|difference| Some(kind(&difference.name)) == wanted))
        })?;
        // A script that does not fail again is reported as it was.
        let again = self.compare(&small)?;
        let is_repeatable = !again.unexplained.is_empty();
        let (script, compared) = if is_repeatable { (small, again) } else { (script, compared) };
        let [first, second] = compared.sides.map(|side| side.transcript);
        let names = [self.first.name().to_owned(), self.second.name().to_owned()];
        let differences = compared.unexplained;
        Ok(DifferentialFailure {
            script,
            differences,
            is_repeatable,
            names,
            transcripts: [first, second],
        })
    }
}

//! Results of a comparison.

use std::collections::BTreeMap;
use std::fmt;

use super::compare::Difference;
use super::generate::CommandScript;
use crate::wire::shown;

/// Most differences of a script that are written.
const DIFFERENCES_SHOWN_MAX: usize = 5;

/// A script whose answers differ.
#[derive(Clone, Debug)]
pub struct DifferentialFailure {
    /// The script, as small as possible.
    pub script: CommandScript,
    /// The differences.
    pub differences: Vec<Difference>,
    /// `true` if it failed again.
    pub is_repeatable: bool,
    /// The names of the servers.
    pub names: [String; 2],
    /// Their sessions.
    pub transcripts: [String; 2],
}

/// Results of a comparison.
#[derive(Clone, Debug, Default)]
pub struct DifferentialReport {
    /// Scripts that were run.
    pub scripts: u64,
    /// Their commands.
    pub commands: u64,
    /// Values that were compared, the mailboxes at the end included.
    pub values: u64,
    /// Answers of the first server by verb and condition: `UID FETCH OK`.
    pub conditions: BTreeMap<String, u64>,
    /// Scripts in which the first server closed the connection; what followed was not compared.
    pub gone: u64,
    /// Differences by the reasons that explain them.
    pub explained: BTreeMap<&'static str, u64>,
    /// Scripts with differences that nothing explains.
    pub failed: u64,
    /// Differences that nothing explains, by the name of the value.
    pub names: BTreeMap<String, u64>,
    /// The first of them.
    pub failures: Vec<DifferentialFailure>,
    /// Further differences, each with the seed of its script.
    pub others: Vec<(u64, Difference)>,
}

impl fmt::Display for DifferentialReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scripts, commands, values, failed, .. } = self;
        let explained: u64 = self.explained.values().sum();
        writeln!(
            f,
            "{scripts} scripts, {commands} commands, {values} values: {failed} scripts differ, \
             {explained} differences explained"
        )?;
        if self.gone > 0 {
            writeln!(
                f,
                "  {} scripts were cut: the first server closed the connection",
                self.gone
            )?;
        }
        let conditions = self.conditions.iter().map(|(name, count)| format!("{name} {count}"));
        writeln!(f, "  {}", conditions.collect::<Vec<_>>().join(", "))?;
        for (reason, count) in &self.explained {
            writeln!(f, "  explained {count}: {reason}")?;
        }
        for (name, count) in &self.names {
            writeln!(f, "  differ in {name}: {count}")?;
        }
        self.failures.iter().try_for_each(|failure| write!(f, "{failure}"))?;
        self.others.iter().try_for_each(|(seed, other)| write!(f, "seed {seed}, {other}"))
    }
}

impl fmt::Display for DifferentialFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CommandScript { seed, is_broken, mailboxes, commands } = &self.script;
        let kind = if *is_broken { "malformed mail" } else { "regular mail" };
        let again = if self.is_repeatable { "" } else { ", not every time" };
        writeln!(f, "\nDIFFERENT: seed {seed}, {kind}{again}")?;
        for mailbox in mailboxes {
            let uids: Vec<String> =
                mailbox.messages.iter().map(|message| message.uid.to_string()).collect();
            writeln!(f, "  {}: UIDs {}", mailbox.name, uids.join(" "))?;
        }
        for command in commands {
            writeln!(f, "  {}", shown(command))?;
        }
        for difference in self.differences.iter().take(DIFFERENCES_SHOWN_MAX) {
            write!(f, "{difference}")?;
        }
        for (name, transcript) in self.names.iter().zip(&self.transcripts) {
            writeln!(f, "-- {name}\n{transcript}")?;
        }
        Ok(())
    }
}

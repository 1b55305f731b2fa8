//! Results of scripts.

use std::fmt;

/// Result of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every response was as it must be.
    Pass,
    /// It was not run; the reason.
    Skip(String),
    /// The first difference.
    Fail(String),
}

/// A script and its result.
#[derive(Clone, Debug)]
pub struct ScriptResult {
    /// The name of the script.
    pub name: String,
    /// The result.
    pub outcome: Outcome,
    /// Number of commands that were compared.
    pub commands: usize,
    /// The sessions, for a script that failed.
    pub transcript: String,
}

/// Results of many scripts.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The results, in the order of the scripts.
    pub results: Vec<ScriptResult>,
}

impl Report {
    /// Returns the number of scripts that passed.
    pub fn passed(&self) -> usize {
        self.results.iter().filter(|result| result.outcome == Outcome::Pass).count()
    }

    /// Returns the names of those that were skipped, with the reasons.
    pub fn skipped(&self) -> Vec<(&str, &str)> {
        let skipped = self.results.iter().filter_map(|result| match &result.outcome {
            Outcome::Skip(reason) => Some((result.name.as_str(), reason.as_str())),
            _ => None,
        });
        skipped.collect()
    }

    /// Returns those that failed.
    pub fn failed(&self) -> Vec<&ScriptResult> {
        let is_failed = |result: &&ScriptResult| matches!(result.outcome, Outcome::Fail(_));
        self.results.iter().filter(is_failed).collect()
    }
}

impl fmt::Display for Report {
    /// Writes the counts, the skipped scripts with their reasons, and the failed ones with their
    /// sessions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (skipped, failed) = (self.skipped(), self.failed());
        let commands: usize = self.results.iter().map(|result| result.commands).sum();
        let counts = format!("{} passed, {} skipped", self.passed(), skipped.len());
        writeln!(f, "{counts}, {} failed, {commands} commands compared", failed.len())?;
        for (name, reason) in skipped {
            writeln!(f, "skipped {name}: {reason}")?;
        }
        for result in failed {
            let Outcome::Fail(reason) = &result.outcome else { continue };
            writeln!(f, "FAILED {}: {reason}\n{}", result.name, result.transcript)?;
        }
        Ok(())
    }
}

//! Results of the model.

use std::collections::BTreeMap;
use std::fmt;

/// Counts of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) vanished: u64,
    pub(super) repeated: u64,
    pub(super) fetches: u64,
    pub(super) uidvalidity_changes: u64,
    pub(super) falls: u64,
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct QresyncReport {
    /// Rounds after which the model was compared.
    pub rounds: u64,
    /// Times that the model opened the mailbox with what it knew.
    pub resyncs: u64,
    /// Times that its connection was cut.
    pub cuts: u64,
    /// Messages that were compared.
    pub compared: u64,
    /// Changes by the names of the writers.
    pub changes: BTreeMap<String, u64>,
    /// UIDs in VANISHED responses.
    pub vanished: u64,
    /// UIDs in VANISHED (EARLIER) that had vanished before the mod-sequence that the model gave:
    /// allowed, but a server that knows when messages were expunged does not send them.
    pub repeated: u64,
    /// Times that the highest mod-sequence fell.
    pub falls: u64,
    /// Times that the server was disturbed.
    pub disturbed: u64,
    /// FETCH responses.
    pub fetches: u64,
    /// Times that UIDVALIDITY changed.
    pub uidvalidity_changes: u64,
    /// The first difference or broken rule, with the session of the model.
    pub failure: Option<String>,
}

impl fmt::Display for QresyncReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, resyncs, cuts, compared, vanished, repeated, fetches, .. } = self;
        let Self { falls, disturbed, .. } = self;
        write!(f, "{rounds} rounds, {resyncs} resyncs, {cuts} cuts, {disturbed} disturbances, ")?;
        write!(f, "{compared} messages compared; {vanished} vanished ({repeated} repeated), ")?;
        writeln!(f, "{fetches} fetched, HIGHESTMODSEQ fell {falls} times")?;
        let changes = self.changes.iter().map(|(name, count)| format!("{name} {count}"));
        writeln!(f, "  changes: {}", changes.collect::<Vec<_>>().join(", "))?;
        if self.uidvalidity_changes > 0 {
            writeln!(f, "  UIDVALIDITY changed {} times", self.uidvalidity_changes)?;
        }
        self.failure.as_ref().map_or(Ok(()), |failure| writeln!(f, "FAILED: {failure}"))
    }
}

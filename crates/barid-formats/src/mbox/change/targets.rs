//! The messages that a change names, by their index.

use std::cell::Cell;
use std::ops::Range;

use barid_mailbox::{ChangeSet, FlagChange, Known, Result, sink_error};
use barid_types::Uid;

/// Consecutive messages with the same change.
#[derive(Clone, Debug)]
struct TargetRun {
    places: Range<u32>,
    /// Index of the run of flag changes; `u32::MAX` for none.
    change: u32,
    is_expunged: bool,
}

/// The messages to be changed, ascending.
#[derive(Debug, Default)]
pub(super) struct Targets {
    all: Vec<TargetRun>,
    /// Result of the last search: most often the next one is there or beside it.
    last: Cell<usize>,
    /// Named messages that are not known.
    pub(super) gone: Vec<Uid>,
}

impl Targets {
    /// Finds the messages to be changed. Costs O(n log m).
    pub(super) fn find(changes: &ChangeSet, known: &dyn Known) -> Result<Self> {
        let mut targets = Self::default();
        let runs = changes.flags.runs().iter().enumerate();
        let mut flags = runs.flat_map(|(at, run)| run.uids().map(move |uid| (at, uid))).peekable();
        let mut expunge = changes.expunge.iter().copied().peekable();
        loop {
            let next_flag = flags.peek().map(|(_, uid)| *uid);
            let Some(uid) = next_flag.into_iter().chain(expunge.peek().copied()).min() else {
                break;
            };
            let is_expunged = expunge.next_if_eq(&uid).is_some();
            let change = flags.next_if(|(_, flagged)| *flagged == uid);
            let change = change.map_or(u32::MAX, |(at, _)| at as u32);
            match sink_error(known.position(uid))? {
                Some(index) => targets.add(index, change, is_expunged),
                None => targets.gone.push(uid),
            }
        }
        Ok(targets)
    }

    /// Adds a message after the others.
    fn add(&mut self, index: u32, change: u32, is_expunged: bool) {
        let is_next = |last: &&mut TargetRun| {
            last.places.end == index && (last.change, last.is_expunged) == (change, is_expunged)
        };
        match self.all.last_mut().filter(is_next) {
            Some(last) => last.places.end += 1,
            None => self.all.push(TargetRun { places: index..index + 1, change, is_expunged }),
        }
    }

    /// Returns the first target that ends after `index`.
    fn find_from(&self, index: u32) -> usize {
        let is_before = |at: usize| self.all.get(at).is_some_and(|all| all.places.end <= index);
        let last = self.last.get();
        let near = (last.saturating_sub(1)..last + 2)
            .find(|at| (*at == 0 || is_before(at - 1)) && *at <= self.all.len() && !is_before(*at));
        let at = near.unwrap_or_else(|| self.all.partition_point(|all| all.places.end <= index));
        self.last.set(at);
        at
    }

    fn at(&self, index: u32) -> Option<&TargetRun> {
        self.all.get(self.find_from(index)).filter(|target| target.places.contains(&index))
    }

    /// Returns `true` if a message is to be expunged.
    pub(super) fn is_expunged(&self, index: u32) -> bool {
        self.at(index).is_some_and(|target| target.is_expunged)
    }

    /// Returns the first message from `index` on that is kept.
    pub(super) fn kept_from(&self, index: u32) -> u32 {
        let at = self.find_from(index);
        let mut kept = index;
        for target in &self.all[at..] {
            if !target.places.contains(&kept) || !target.is_expunged {
                break;
            }
            kept = target.places.end;
        }
        kept
    }

    /// Returns the first message from `index` on that is changed or expunged.
    pub(super) fn next(&self, index: u32) -> Option<u32> {
        self.all.get(self.find_from(index)).map(|target| target.places.start.max(index))
    }

    /// Returns the change of a message's flags.
    pub(super) fn change<'c>(&self, index: u32, changes: &'c ChangeSet) -> Option<&'c FlagChange> {
        let change = self.at(index)?.change;
        changes.flags.runs().get(change as usize).map(|run| &run.change)
    }

    /// Iterates over the flag changes of messages that are kept.
    pub(super) fn changes<'c>(
        &self,
        changes: &'c ChangeSet,
    ) -> impl Iterator<Item = &'c FlagChange> {
        let kept = self.all.iter().filter(|target| !target.is_expunged);
        kept.filter_map(|target| changes.flags.runs().get(target.change as usize))
            .map(|run| &run.change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_found_wherever_was_looked_before() {
        let all = [1, 2, 4, 5, 6, 10, 11, 12, 30];
        let is_expunged = |index: u32| [4, 5, 6, 11].contains(&index);
        let mut targets = Targets::default();
        all.iter().for_each(|index| targets.add(*index, u32::MAX, is_expunged(*index)));
        assert_eq!(targets.all.len(), 6);
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            let index = rng.u32(0..33);
            let expected = all.iter().copied().find(|found| *found >= index);
            assert_eq!(targets.next(index), expected, "{index}");
            assert_eq!(targets.is_expunged(index), is_expunged(index), "{index}");
            let kept = (index..).find(|index| !is_expunged(*index));
            assert_eq!(Some(targets.kept_from(index)), kept, "{index}");
        }
    }
}

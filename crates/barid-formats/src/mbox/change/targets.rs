//! The messages that a change names, by their places.

use std::cell::Cell;

use barid_types::Uid;

use crate::scan::sink_error;
use crate::{ChangeSet, FlagChange, Known, Result};

/// A message to be changed.
#[derive(Clone, Copy, Debug)]
struct Target {
    index: u32,
    /// Which of the flag changes; `u32::MAX` for none.
    change: u32,
    is_expunged: bool,
}

/// The messages that are to be changed, ascending.
#[derive(Debug, Default)]
pub(super) struct Targets {
    all: Vec<Target>,
    /// Where was looked last: most often it is there or next to it.
    last: Cell<usize>,
    /// Messages that are not known.
    pub(super) gone: Vec<Uid>,
}

impl Targets {
    /// Finds the places of what is to be changed. Costs O(n log m).
    pub(super) fn find(changes: &ChangeSet, known: &dyn Known) -> Result<Self> {
        let mut targets = Self::default();
        let mut flags = changes.flags.iter().map(|(uid, _)| *uid).enumerate().peekable();
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
                Some(index) => targets.all.push(Target { index, change, is_expunged }),
                None => targets.gone.push(uid),
            }
        }
        Ok(targets)
    }

    /// The place of the first target at `index` or behind.
    fn find_from(&self, index: u32) -> usize {
        let is_before = |at: usize| self.all.get(at).is_some_and(|target| target.index < index);
        let last = self.last.get();
        let near = (last.saturating_sub(1)..last + 2)
            .find(|at| (*at == 0 || is_before(at - 1)) && *at <= self.all.len() && !is_before(*at));
        let at = near.unwrap_or_else(|| self.all.partition_point(|target| target.index < index));
        self.last.set(at);
        at
    }

    fn at(&self, index: u32) -> Option<&Target> {
        self.all.get(self.find_from(index)).filter(|target| target.index == index)
    }

    /// Whether a message is to be expunged.
    pub(super) fn is_expunged(&self, index: u32) -> bool {
        self.at(index).is_some_and(|target| target.is_expunged)
    }

    /// The first message from `index` on that is kept.
    pub(super) fn kept_from(&self, index: u32) -> u32 {
        let at = self.find_from(index);
        let mut kept = index;
        for target in &self.all[at..] {
            if target.index != kept || !target.is_expunged {
                break;
            }
            kept += 1;
        }
        kept
    }

    /// The first message from `index` on that is to be changed.
    pub(super) fn next(&self, index: u32) -> Option<u32> {
        self.all.get(self.find_from(index)).map(|target| target.index)
    }

    /// How the flags of a message are to be changed.
    pub(super) fn change<'c>(&self, index: u32, changes: &'c ChangeSet) -> Option<&'c FlagChange> {
        let change = self.at(index)?.change;
        changes.flags.get(change as usize).map(|(_, change)| change)
    }

    /// Changes of flags that reach a message that is kept.
    pub(super) fn changes<'c>(
        &self,
        changes: &'c ChangeSet,
    ) -> impl Iterator<Item = &'c FlagChange> {
        let kept = self.all.iter().filter(|target| !target.is_expunged);
        kept.filter_map(|target| changes.flags.get(target.change as usize)).map(|(_, c)| c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_found_wherever_was_looked_before() {
        let at = |index| Target { index, change: u32::MAX, is_expunged: index % 2 == 0 };
        let all: Vec<_> = [1, 2, 4, 5, 6, 10, 11, 30].map(at).into();
        let targets = Targets { all: all.clone(), ..Targets::default() };
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            let index = rng.u32(0..33);
            let expected = all.iter().map(|target| target.index).find(|found| *found >= index);
            assert_eq!(targets.next(index), expected, "{index}");
        }
    }
}

//! The messages that a change names, by their places.

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

    fn at(&self, index: u32) -> Option<&Target> {
        let at = self.all.partition_point(|target| target.index < index);
        self.all.get(at).filter(|target| target.index == index)
    }

    /// Whether a message is to be expunged.
    pub(super) fn is_expunged(&self, index: u32) -> bool {
        self.at(index).is_some_and(|target| target.is_expunged)
    }

    /// The first message from `index` on that is kept.
    pub(super) fn kept_from(&self, index: u32) -> u32 {
        let at = self.all.partition_point(|target| target.index < index);
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
        let at = self.all.partition_point(|target| target.index < index);
        self.all.get(at).map(|target| target.index)
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

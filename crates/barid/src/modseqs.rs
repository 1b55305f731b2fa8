//! Mod-sequences carried over when a mailbox was read anew from the beginning.

use barid_cache::Snapshot;
use barid_types::{FlagSet, KeywordMask, ModSeq, Uid};

/// What every message had before, ascending by UID.
#[derive(Debug, Default)]
pub(crate) struct ModSeqs(Vec<(Uid, FlagSet, KeywordMask, ModSeq)>);

impl ModSeqs {
    pub(crate) fn of(known: &Snapshot) -> barid_cache::Result<Self> {
        let mut before = Vec::with_capacity(known.len() as usize);
        known.cores(0..known.len(), &mut |_, core| {
            before.push((core.uid, core.flags, core.keywords, core.modseq));
        })?;
        Ok(Self(before))
    }

    /// The mod-sequence of a message that had these flags and keywords before.
    pub(crate) fn unchanged(
        &self,
        uid: Uid,
        flags: FlagSet,
        keywords: KeywordMask,
    ) -> Option<ModSeq> {
        let at = self.0.binary_search_by_key(&uid, |before| before.0).ok()?;
        let (_, flags_before, keywords_before, modseq) = self.0[at];
        (flags_before == flags && keywords_before == keywords).then_some(modseq)
    }
}

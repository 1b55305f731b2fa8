//! The limits of a mailbox for keywords.
//!
//! A keyword that the mailbox cannot store is refused before anything is accepted or written. If
//! one was accepted all the same, by an earlier version or before another program used up the room,
//! it is dropped when the rest is written: it can never be written, and would block everything
//! else.

use barid_mailbox::Caps;
use barid_state::PendingKind;
use barid_types::{Keyword, KeywordTable};

use super::ChangeRequest;
use crate::{Error, KeywordLimit, Mailbox, Result};

/// The remaining room for keywords in a mailbox.
struct KeywordRoom<'a> {
    storage: &'a dyn barid_mailbox::Storage,
    caps: Caps,
    known: &'a KeywordTable,
    /// Keywords that count towards the maximum, including those added here.
    listed: Vec<Keyword>,
}

impl KeywordRoom<'_> {
    /// Adds a keyword, or returns the limit that forbids it.
    fn take(&mut self, keyword: &Keyword) -> Option<KeywordLimit> {
        if self.listed.contains(keyword) {
            return None;
        }
        let Caps { keywords_max, keyword_len_max, keywords_beyond_ascii, .. } = self.caps;
        let name = keyword.as_str();
        if !keywords_beyond_ascii && !name.is_ascii() {
            return Some(KeywordLimit::Ascii);
        }
        if name.len() > keyword_len_max as usize {
            return Some(KeywordLimit::Length(keyword_len_max));
        }
        if !self.storage.can_hold_keyword(keyword) {
            return Some(KeywordLimit::Name);
        }
        if self.listed.len() >= keywords_max as usize {
            return Some(KeywordLimit::Count(keywords_max));
        }
        let is_full = self.known.names().len() >= KeywordTable::SLOTS_MAX;
        if is_full && self.known.slot(keyword).is_none() {
            return Some(KeywordLimit::Count(KeywordTable::SLOTS_MAX as u32));
        }
        self.listed.push(keyword.clone());
        None
    }
}

impl Mailbox {
    /// Returns those keywords that the mailbox cannot store beside the ones before them, and the
    /// limits.
    pub(crate) fn unholdable(&self, keywords: &[Keyword]) -> Result<Vec<(Keyword, KeywordLimit)>> {
        let listed = self.storage.listed_keywords(&*self.snapshot)?.names().to_vec();
        let caps = self.storage.caps();
        let mut room = KeywordRoom {
            storage: &*self.storage,
            caps,
            known: &self.snapshot.meta().keywords,
            listed,
        };
        let refused = |keyword: &Keyword| Some((keyword.clone(), room.take(keyword)?));
        Ok(keywords.iter().filter_map(refused).collect())
    }

    /// Refuses a request that adds keywords which the mailbox cannot store. Returns such keywords
    /// of pending changes, and the limits. Costs nothing if no keyword is added, otherwise as much
    /// as [`barid_mailbox::Storage::listed_keywords`].
    pub(super) fn check_keywords(
        &self,
        request: &ChangeRequest<'_>,
    ) -> Result<Vec<(Keyword, KeywordLimit)>> {
        let pending = self.pending.records().iter().flat_map(|record| match &record.change.kind {
            PendingKind::Flags(delta) => delta.add_keywords.as_slice(),
            PendingKind::Expunge => &[],
        });
        let of_flags = request.flags.changes().flat_map(|change| &change.add_keywords);
        let of_appends = request.appends.iter().flat_map(|message| &message.keywords);
        let of_appends = of_appends.chain(&request.keywords);
        let mut asked = of_flags.chain(of_appends).peekable();
        let mut pending = pending.peekable();
        let caps = self.storage.caps();
        // A mailbox that cannot be changed at all is refused elsewhere.
        if !caps.flags || (asked.peek().is_none() && pending.peek().is_none()) {
            return Ok(Vec::new());
        }
        let listed = self.storage.listed_keywords(&*self.snapshot)?.names().to_vec();
        let mut room = KeywordRoom {
            storage: &*self.storage,
            caps,
            known: &self.snapshot.meta().keywords,
            listed,
        };
        let mut refused: Vec<(Keyword, KeywordLimit)> = Vec::new();
        for keyword in pending {
            if let Some(limit) = room.take(keyword)
                && !refused.iter().any(|(known, _)| known == keyword)
            {
                refused.push((keyword.clone(), limit));
            }
        }
        for keyword in asked {
            if let Some(limit) = room.take(keyword) {
                let (path, keyword) = (self.path().to_owned(), keyword.clone());
                return Err(Error::Keyword { path, keyword, limit });
            }
        }
        Ok(refused)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use barid_vfs::{MemVfs, Vfs as _};

    use super::*;
    use crate::MailboxSpec;

    #[test]
    fn the_limit_that_is_met_is_named() {
        let memory = MemVfs::new();
        for dir in ["/box", "/box/cur", "/box/new"] {
            memory.create_dir(Path::new(dir), 0o700).unwrap();
        }
        let spec = MailboxSpec::parse("maildir:/box");
        let storage =
            barid_formats::open_with(Arc::new(memory), &spec, Default::default()).unwrap();
        let keyword = |number: usize| Keyword::new(&format!("k{number}")).unwrap();
        let mut known = KeywordTable::default();
        (0..KeywordTable::SLOTS_MAX).for_each(|at| assert!(known.intern(&keyword(at)).is_ok()));
        let caps = storage.caps();
        let limit_of = |listed: usize, known: &KeywordTable| {
            let listed = (0..listed).map(keyword).collect();
            KeywordRoom { storage: &*storage, caps, known, listed }.take(&keyword(99))
        };
        assert_eq!(limit_of(3, &KeywordTable::default()), None);
        assert_eq!(limit_of(3, &known), Some(KeywordLimit::Count(64)));
        assert_eq!(limit_of(26, &known), Some(KeywordLimit::Count(26)));
        assert!(KeywordLimit::Length(9).to_string().ends_with("9 bytes"));
    }
}

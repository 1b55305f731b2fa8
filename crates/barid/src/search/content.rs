//! EMAILID in searches (RFC 8474 §6): the messages with a content become a set of UIDs.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use barid_query::search::{NumberSet, SearchKey, SearchNode, SearchProgram};
use barid_types::{Uid, UidSet};

use crate::fetch::{FetchItem, FetchItems, Fetched};
use crate::{EmailId, Error, Result, View};

/// Messages that could not be read, and the errors.
type UnreadableMessages = Vec<(Uid, Error)>;

impl View {
    /// Returns the program with sets of UIDs for its identifiers of content, and the messages that
    /// could not be read for that. Reads the messages whose identifiers are not stored.
    pub(super) fn with_email_ids<'p>(
        &self,
        program: &'p SearchProgram,
    ) -> Result<(Cow<'p, SearchProgram>, UnreadableMessages)> {
        // Nothing can have an identifier of another server.
        let is_id = |node: &SearchNode| match node {
            SearchNode::Key(SearchKey::EmailId(id)) => EmailId::parse(id).is_some(),
            _ => false,
        };
        if !program.nodes().iter().any(is_id) {
            return Ok((Cow::Borrowed(program), Vec::new()));
        }
        let found = Mutex::new(Vec::new());
        let write = |fetched: &Fetched<'_>, _: &mut Vec<u8>| {
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.extend(fetched.email_id().map(|id| (fetched.summary.uid, id)));
        };
        let uids = self.uids_in(&[(1, u32::MAX)], false)?;
        let items = FetchItems::of(FetchItem::EmailId);
        let report = self.fetch(&uids, &items, &write, &mut |_| true)?;
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_unstable_by_key(|(uid, _)| *uid);
        let uids_with = |id: &str| {
            let id = EmailId::parse(id);
            let same = found.iter().filter(|(_, known)| Some(*known) == id);
            let uids: UidSet = same.map(|(uid, _)| *uid).collect();
            NumberSet::from_ranges(uids.numbers())
        };
        let resolved = program.map_keys(&mut |key| match key {
            SearchKey::EmailId(id) => SearchKey::Uid(uids_with(id)),
            key => key.clone(),
        });
        Ok((Cow::Owned(resolved), report.unreadable))
    }
}

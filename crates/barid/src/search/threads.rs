//! `thread:UID` in searches: the messages of threads become a set of UIDs.

use std::borrow::Cow;

use barid_query::ThreadAlgorithm;
use barid_query::search::{NumberSet, SearchKey, SearchNode, SearchProgram, ranges_contain};
use barid_types::{Uid, UidSet};

use crate::{Result, View};

impl View {
    /// Returns the program with sets of UIDs for its threads (RFC 5256, REFERENCES).
    ///
    /// Reads the stored threads once, and the UIDs of all messages.
    pub(super) fn with_threads<'p>(
        &self,
        program: Cow<'p, SearchProgram>,
    ) -> Result<Cow<'p, SearchProgram>> {
        let is_thread = |node: &SearchNode| matches!(node, SearchNode::Key(SearchKey::ThreadOf(_)));
        if !program.nodes().iter().any(is_thread) {
            return Ok(program);
        }
        let threads = self.threads(ThreadAlgorithm::References)?;
        let mut members: Vec<Vec<u32>> = Vec::new();
        for node in threads.nodes() {
            if node.depth == 0 {
                members.push(Vec::new());
            }
            if let (Some(row), Some(thread)) = (node.row, members.last_mut()) {
                thread.push(self.uid_of(row)?.get());
            }
        }
        let greatest = self.greatest_uid()?;
        let resolved = program.map_keys(&mut |key| match key {
            SearchKey::ThreadOf(set) => {
                let ranges = set.resolve(greatest);
                let is_in =
                    |thread: &&Vec<u32>| thread.iter().any(|uid| ranges_contain(&ranges, *uid));
                let found = members.iter().filter(is_in).flatten();
                let mut uids: Vec<Uid> = found.filter_map(|uid| Uid::new(*uid)).collect();
                uids.sort_unstable();
                let uids: UidSet = uids.into_iter().collect();
                SearchKey::Uid(NumberSet::from_ranges(uids.numbers()))
            }
            key => key.clone(),
        });
        Ok(Cow::Owned(resolved))
    }
}

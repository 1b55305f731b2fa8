//! The implementation of [`Known`] for a snapshot.

use barid_mailbox::{Known, KnownKey, KnownMessage, SinkError, Stamp};
use barid_types::{KeywordTable, Uid, UidValidity};

use crate::base::HeapCursor;
use crate::core_row::{Core, RowLocation};
use crate::error::Result;
use crate::snapshot::{Snapshot, location_of};

impl Snapshot {
    fn visit_known(
        &self,
        first: u32,
        visit: &mut dyn FnMut(&KnownMessage<'_>) -> bool,
    ) -> Result<()> {
        let mut cores = self.core_cursor();
        let mut heap = HeapCursor::bulk(&self.base);
        for physical in self.overlay.live(first) {
            let core = cores.get(physical)?;
            let name = match (core.location, self.overlay.name(physical)) {
                (RowLocation::Extent(_), _) => &[],
                (RowLocation::Name { .. }, Some(name)) => name,
                (RowLocation::Name { .. }, None) => self.name_in(&core, &mut heap)?,
            };
            let message = KnownMessage {
                uid: core.uid,
                flags: core.flags,
                keywords: core.keywords,
                location: location_of(&core, name),
                key: core.key,
                size: core.size,
            };
            if !visit(&message) {
                break;
            }
        }
        Ok(())
    }
}

impl Snapshot {
    fn visit_known_keys(&self, visit: &mut dyn FnMut(KnownKey) -> bool) -> Result<()> {
        let mut cores = self.core_cursor();
        for physical in self.overlay.live(0) {
            let Core { uid, key, size, location, .. } = cores.get(physical)?;
            let in_new = matches!(location, RowLocation::Name { in_new: true, .. });
            if !visit(KnownKey { uid, key, size, in_new }) {
                break;
            }
        }
        Ok(())
    }
}

impl Known for Snapshot {
    fn stamp(&self) -> Option<Stamp> {
        Some(self.meta.stamp)
    }
    fn state(&self) -> &[u8] {
        &self.meta.state
    }
    fn uidvalidity(&self) -> Option<UidValidity> {
        Some(self.meta.uidvalidity)
    }
    fn uidnext(&self) -> Option<Uid> {
        Some(self.meta.uidnext)
    }
    fn keywords(&self) -> &KeywordTable {
        &self.meta.keywords
    }
    fn tail_verified(&self) -> bool {
        self.meta.tail_verified
    }
    fn len(&self) -> u32 {
        self.overlay.len()
    }
    fn position(&self, uid: Uid) -> std::result::Result<Option<u32>, SinkError> {
        Ok(self.row_of_uid(uid)?)
    }
    fn visit(
        &self,
        first: u32,
        visit: &mut dyn FnMut(&KnownMessage<'_>) -> bool,
    ) -> std::result::Result<(), SinkError> {
        Ok(self.visit_known(first, visit)?)
    }
    fn visit_keys(
        &self,
        visit: &mut dyn FnMut(KnownKey) -> bool,
    ) -> std::result::Result<(), SinkError> {
        Ok(self.visit_known_keys(visit)?)
    }
}

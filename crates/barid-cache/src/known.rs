//! The implementation of [`Known`] for a snapshot.

use barid_mailbox::{Known, KnownMessage, SinkError, Stamp};
use barid_types::{KeywordTable, Uid, UidValidity};

use crate::base::HeapCursor;
use crate::core_row::RowLocation;
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
}

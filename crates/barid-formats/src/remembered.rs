//! Scan results that tests keep, as the [`Known`] of their next scan.

use barid_types::{KeywordTable, Uid, UidValidity};

use crate::{Known, KnownMessage, ScanReport, SinkError, Stamp};

/// The results that a test keeps, as a cache would.
pub(crate) trait Remembered: Sync {
    /// Returns the report of the last scan, if there was one.
    fn report(&self) -> Option<&ScanReport>;
    /// Returns the keywords.
    fn table(&self) -> &KeywordTable;
    /// Returns all messages, in order.
    fn messages(&self) -> impl Iterator<Item = KnownMessage<'_>>;
}

impl<R: Remembered> Known for R {
    fn stamp(&self) -> Option<Stamp> {
        self.report().map(|report| report.stamp)
    }
    fn state(&self) -> &[u8] {
        self.report().map_or(&[], |report| &report.state)
    }
    fn uidvalidity(&self) -> Option<UidValidity> {
        self.report().map(|report| report.uidvalidity)
    }
    fn uidnext(&self) -> Option<Uid> {
        self.report().map(|report| report.uidnext)
    }
    fn keywords(&self) -> &KeywordTable {
        self.table()
    }
    fn len(&self) -> u32 {
        self.messages().count() as u32
    }
    fn visit(
        &self,
        first: u32,
        visit: &mut dyn FnMut(&KnownMessage<'_>) -> bool,
    ) -> std::result::Result<(), SinkError> {
        self.messages().skip(first as usize).all(|message| visit(&message));
        Ok(())
    }
}

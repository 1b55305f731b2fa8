//! Taking what a scan is expected to find after a change, in place of the scan.

use barid_cache::Snapshot;
use barid_mailbox::ScanReport;

use crate::announcing::{Announced, Scanned};
use crate::intake::Intake;
use crate::opening::Opening;
use crate::{Mailbox, Result};

impl Mailbox {
    /// Announces and stores an expected report as that of a scan. Its stamp is racy, so that a
    /// later refresh scans. Returns `false` if a scan must follow at once, since others have
    /// announced changes, or the cache failed.
    pub(super) fn take_expected(&mut self, mut report: ScanReport) -> Result<bool> {
        let known = Snapshot::clone(&self.view.snapshot);
        report.size_bytes = known.meta().size_bytes;
        for uid in &report.expunged {
            let row = known.row_of_uid(*uid)?;
            let size = row.map_or(Ok(0), |row| known.core(row).map(|core| core.size))?;
            report.size_bytes = report.size_bytes.saturating_sub(size);
        }
        let began = Some(self.ledger.highest_modseq());
        let Self { view, ledger, pending, .. } = self;
        let (place, state) = (view.place.clone(), (ledger, pending));
        let intake = Intake::new(&place, known.options(), Some(&known));
        let scanned = Scanned { report: &report, known: Some(&known), full_check: false, began };
        let (storage, options) = (&*view.storage, &*view.options);
        let mut opening =
            Opening::new(storage, &view.vfs, options, &view.identity, place.clone(), state);
        let Announced::Stored(snapshot, _) = opening.announce(intake, &scanned)? else {
            return Ok(false);
        };
        snapshot.release();
        self.take_snapshot(snapshot);
        Ok(true)
    }
}

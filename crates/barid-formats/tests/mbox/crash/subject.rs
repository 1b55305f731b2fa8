//! Subjects of the trials: the writer of an mbox, and a simple one that proves the trial itself.

use std::io;
use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{
    EmptyKnown, Error, NewMessage, Recovered, Storage, SyncContext, SyncFigures, SyncReport,
};
use barid_types::{FlagSet, InternalDate};
use barid_vfs::{OpenOptions, Vfs};

use super::mailbox::{self, DIR, JOURNAL, PATH, SIZE_MAX, STATE, Spec};
use super::scenario::Scenario;

/// File that represents the pending changes which a change writes: it is removed when they are
/// dropped.
pub(super) const PENDING: &str = "/state/pending";

/// Something that changes a mailbox and completes a change after a crash.
pub(super) trait Subject: Sync {
    /// Makes the change of a scenario.
    fn change(&self, vfs: &Arc<dyn Vfs>, scenario: &Scenario) -> Result<SyncReport, Error>;
    /// Handles an unfinished change as every opening does.
    fn recover(&self, vfs: &Arc<dyn Vfs>, spec: &Spec) -> Result<Recovered, Error>;
}

/// The writer of this crate.
pub(super) struct Barid;

impl Subject for Barid {
    fn change(&self, vfs: &Arc<dyn Vfs>, scenario: &Scenario) -> Result<SyncReport, Error> {
        let mut ledger = mailbox::ledger(vfs, STATE)?;
        let mut drop_pending = |_: u64| drop_pending(vfs);
        let mut context = SyncContext {
            ledger: Some(&mut ledger),
            state_dir: Some(Path::new(STATE)),
            pending_through: scenario.pending_through,
            drop_pending: Some(&mut drop_pending),
            ..SyncContext::new(&scenario.cached)
        };
        let date = InternalDate { unix_seconds: 1_000_000_000, zone_minutes: 0 };
        let message = |bytes| NewMessage {
            bytes,
            internal_date: Some(date),
            flags: FlagSet::EMPTY,
            keywords: Vec::new(),
            sender: Some("a@b"),
            stored: None,
            uid: None,
            uidnext: None,
            rest: None,
        };
        let appends: Vec<_> = scenario.appends.iter().map(|bytes| message(bytes)).collect();
        mailbox::open(vfs, &scenario.spec)?.sync(&scenario.changes, &appends, &mut context)
    }

    fn recover(&self, vfs: &Arc<dyn Vfs>, spec: &Spec) -> Result<Recovered, Error> {
        let mailbox = mailbox::open(vfs, spec)?;
        if mailbox.unfinished(Some(Path::new(STATE)))?.is_none() {
            return Ok(Recovered::default());
        }
        let known = EmptyKnown::default();
        let mut drop_pending = |_: u64| drop_pending(vfs);
        let mut context = SyncContext {
            state_dir: Some(Path::new(STATE)),
            drop_pending: Some(&mut drop_pending),
            ..SyncContext::new(&known)
        };
        mailbox.recover(&mut context)
    }
}

fn drop_pending(vfs: &Arc<dyn Vfs>) -> Result<(), Error> {
    let dropped = match vfs.remove_file(Path::new(PENDING)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => vfs.sync_dir(Path::new(STATE)),
    };
    dropped.map_err(Error::at(Path::new(PENDING)))
}

/// A minimal writer: it writes the whole new file to the journal, then over the old one. It flags
/// every message.
pub(super) struct Naive;

impl Naive {
    /// Returns the file that it makes of `old`.
    pub(super) fn changed(old: &[u8]) -> Vec<u8> {
        let mut new = Vec::new();
        for line in old.split_inclusive(|byte| *byte == b'\n') {
            new.extend_from_slice(line);
            if line.starts_with(b"From ") && line.ends_with(b"\n") {
                new.extend_from_slice(b"X-Status: F\n");
            }
        }
        new
    }

    fn finish(vfs: &Arc<dyn Vfs>, new: &[u8]) -> io::Result<()> {
        let file = vfs.open(Path::new(PATH), OpenOptions::WRITE)?;
        for (number, piece) in new.chunks(1000).enumerate() {
            file.write_all_at(piece, number as u64 * 1000)?;
        }
        file.set_len(new.len() as u64)?;
        file.sync_all()?;
        Self::clean_up(vfs)
    }

    fn clean_up(vfs: &Arc<dyn Vfs>) -> io::Result<()> {
        vfs.remove_file(Path::new(JOURNAL))?;
        vfs.sync_dir(Path::new(DIR))
    }

    fn try_change(vfs: &Arc<dyn Vfs>) -> io::Result<()> {
        let new = Self::changed(&vfs.read(Path::new(PATH), SIZE_MAX)?);
        let journal = vfs.open(Path::new(JOURNAL), OpenOptions::create_new(0o600))?;
        journal.write_all_at(&sum(&new).to_le_bytes(), 0)?;
        journal.write_all_at(&new, 8)?;
        journal.sync_all()?;
        vfs.sync_dir(Path::new(DIR))?;
        Self::finish(vfs, &new)
    }

    fn try_recover(vfs: &Arc<dyn Vfs>) -> io::Result<bool> {
        let journal = match vfs.read(Path::new(JOURNAL), SIZE_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            journal => journal?,
        };
        match journal.split_first_chunk::<8>() {
            Some((stored, new)) if u64::from_le_bytes(*stored) == sum(new) => {
                Self::finish(vfs, new).map(|()| true)
            }
            _ => Self::clean_up(vfs).map(|()| false),
        }
    }
}

impl Subject for Naive {
    fn change(&self, vfs: &Arc<dyn Vfs>, scenario: &Scenario) -> Result<SyncReport, Error> {
        Self::try_change(vfs).map_err(Error::at(Path::new(PATH)))?;
        let figures = SyncFigures { size_before: scenario.old.len() as u64, ..Default::default() };
        Ok(SyncReport { figures, ..SyncReport::default() })
    }

    fn recover(&self, vfs: &Arc<dyn Vfs>, _: &Spec) -> Result<Recovered, Error> {
        let completed = Self::try_recover(vfs).map_err(Error::at(Path::new(PATH)))?;
        Ok(Recovered { completed, ..Recovered::default() })
    }
}

/// Returns the FNV-1a hash, which differs from that of zeros.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

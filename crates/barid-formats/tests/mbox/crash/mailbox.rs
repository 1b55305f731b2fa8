//! A mailbox in the crash world: the results of a scan, and the content of its messages.

use std::path::Path;
use std::sync::Arc;

use barid_formats::{MboxMailbox, MboxOptions, Variant};
use barid_mailbox::{EmptyKnown, Error, ReadAs, ScanContext, Storage};
use barid_message::strip_owned;
use barid_state::{Access, Identity, Ledger};
use barid_vfs::Vfs;

pub(super) use crate::support::{Cached, Seen};

/// Path of the mailbox.
pub(super) const PATH: &str = "/mail/box";
/// Its folder.
pub(super) const DIR: &str = "/mail";
/// Its journal, if the folder can be written.
pub(super) const JOURNAL: &str = "/mail/.box.barid-journal";
/// The state folder.
pub(super) const STATE: &str = "/state";
/// The longest file read back.
pub(super) const SIZE_MAX: u64 = 1 << 26;

/// Format and options with which a mailbox is opened.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) variant: Variant,
    pub(super) options: MboxOptions,
}

/// Opens the mailbox on a disk.
pub(super) fn open(vfs: &Arc<dyn Vfs>, spec: &Spec) -> Result<MboxMailbox, Error> {
    let options = spec.options.clone();
    MboxMailbox::open_with(Arc::clone(vfs), Path::new(PATH), Some(spec.variant), options)
}

/// Opens the ledger of the mailbox in a folder: [`STATE`], or an empty one.
pub(super) fn ledger(vfs: &Arc<dyn Vfs>, folder: &str) -> Result<Ledger, Error> {
    let identity = Identity { id: 7, path: PATH.into(), inode: 1 };
    Ok(Ledger::open(Arc::clone(vfs), Path::new(folder), &identity, Access::ReadWrite)?)
}

/// Scans the whole mailbox.
pub(super) fn scan(vfs: &Arc<dyn Vfs>, spec: &Spec, folder: &str) -> Result<Cached, Error> {
    let mut ledger = ledger(vfs, folder)?;
    let mut context = ScanContext {
        ledger: &mut ledger,
        read_only: false,
        full_check: false,
        will_rescan: false,
        threads: 1,
        progress: None,
    };
    let found = Cached::scan(&open(vfs, spec)?, &EmptyKnown::default(), &mut context)?;
    ledger.commit()?;
    Ok(found)
}

/// Returns the bytes of every message that no change may alter, in order: without the fields that
/// formats own, and without a line end at the end.
pub(super) fn texts(
    vfs: &Arc<dyn Vfs>,
    spec: &Spec,
    cached: &Cached,
) -> Result<Vec<Vec<u8>>, Error> {
    let mailbox = open(vfs, spec)?;
    let text = |seen: &Seen| {
        let mut buffer = Vec::new();
        mailbox.read(&seen.location, ReadAs::Message, &mut buffer)?;
        Ok(without_lengths(&strip_owned(&buffer)).trim_ascii_end().to_vec())
    };
    cached.seen.iter().map(text).collect()
}

/// Returns a message without `Content-Length`, which some variants add.
fn without_lengths(text: &[u8]) -> Vec<u8> {
    let mut in_header = true;
    let kept = |line: &&[u8]| {
        in_header &= !line.trim_ascii().is_empty();
        !(in_header && line.starts_with(b"Content-Length:"))
    };
    text.split_inclusive(|byte| *byte == b'\n').filter(kept).collect::<Vec<_>>().concat()
}

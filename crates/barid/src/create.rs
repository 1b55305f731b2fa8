//! Creating an empty mailbox.

use std::path::Path;
use std::sync::Arc;

use barid_formats::CreateOptions;
use barid_mailbox::Format;
use barid_state::{Access, Identity, Ledger};
use barid_vfs::{OpenOptions, Vfs};

use crate::opening::LEDGER_LOCK_TIMEOUT;
use crate::{Error, Result};

/// Creates an empty mailbox, durably ([`barid_formats::create()`]). If the format cannot store the
/// requested UIDVALIDITY, it is written to the ledger in `state_dir`, where the next opening finds
/// it; a crash between the two leaves an empty mailbox that gets another one.
///
/// Order: the mailbox; its identity, which names the ledger; the ledger; each durable before the
/// next.
///
/// # Errors
/// Something exists at the path; errors of the file system; the ledger cannot be used.
pub fn create(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
    format: Format,
    options: &CreateOptions,
    state_dir: &Path,
) -> Result<()> {
    barid_formats::create(vfs, path, format, options)?;
    if let Some(uidvalidity) = options.uidvalidity.filter(|_| !format.holds_uidvalidity) {
        let identity = Identity::of(&**vfs, path, true)?;
        sync_attributes(&**vfs, path, format.is_folder())?;
        let access = Access::ReadWrite;
        let mut ledger = Ledger::open(Arc::clone(vfs), state_dir, &identity, access)?;
        ledger.lock(LEDGER_LOCK_TIMEOUT)?;
        ledger.set_uidvalidity(uidvalidity);
        if let Some(uidnext) = options.uidnext {
            ledger.raise_uidnext(uidnext);
        }
        ledger.commit()?;
    }
    Ok(())
}

/// Makes the attributes of a mailbox durable.
pub(crate) fn sync_attributes(vfs: &dyn Vfs, path: &Path, is_folder: bool) -> Result<()> {
    let synced = match is_folder {
        true => vfs.sync_dir(path),
        false => vfs.open(path, OpenOptions::READ).and_then(|file| file.sync_all()),
    };
    synced.map_err(|source| Error::Io { path: path.to_owned(), source })
}

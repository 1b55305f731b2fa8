//! Pending changes of mailboxes that were at the same path under another identity.
//!
//! A program that replaces an mbox by a new file (an editor, `sed -i`, a restore) loses the
//! attribute with its identity, and changes accepted for it then have no mailbox.

use std::path::Path;
use std::sync::Arc;

use barid_vfs::Vfs;

use super::Pending;
use crate::error::{At, Result};
use crate::modes::{is_absent, is_denied};
use crate::{Access, Identity, Ledger};

impl Pending {
    /// Opens the journals in the state folder `dir` that have changes for another mailbox that was
    /// last seen at the path of this one, according to its ledger.
    ///
    /// Costs a listing of the folder, and opening a ledger for every mailbox with a journal.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if the folder cannot be listed. Ledgers and journals that cannot be
    /// read are skipped.
    pub fn earlier(vfs: &Arc<dyn Vfs>, dir: &Path, identity: &Identity) -> Result<Vec<Self>> {
        let mut ids = Vec::new();
        let listed = vfs.open_dir(dir).and_then(|folder| {
            folder.list(&mut |name, _| ids.extend(id_of(name).filter(|id| *id != identity.id)))
        });
        match listed {
            Err(error) if is_absent(&error) || is_denied(&error) => return Ok(Vec::new()),
            result => result.at(dir)?,
        };
        ids.sort_unstable();
        let mut earlier = Vec::new();
        for id in ids {
            let other = Identity { id, ..identity.clone() };
            let access = Access::ReadOnly;
            let Ok(ledger) = Ledger::open(Arc::clone(vfs), dir, &other, access) else { continue };
            let is_here = ledger.home().ok().flatten().is_some_and(|(at, _)| at == identity.path);
            if !is_here {
                continue;
            }
            if let Ok(journal) = Self::open(Arc::clone(vfs), dir, &other)
                && !journal.records().is_empty()
            {
                earlier.push(journal);
            }
        }
        Ok(earlier)
    }
}

/// Returns the identity in the name of a journal.
fn id_of(name: &[u8]) -> Option<u128> {
    let hex = std::str::from_utf8(name.strip_suffix(b".pending")?).ok()?;
    let is_id = hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| u128::from_str_radix(hex, 16).ok()).flatten()
}

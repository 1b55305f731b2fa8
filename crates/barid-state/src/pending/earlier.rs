//! What is pending for a mailbox that stood at the same path under another identity.
//!
//! A program that replaces an mbox by another file (an editor, `sed -i`, a restored copy) loses the
//! attribute that tells who it is; what was accepted for it then belongs to nobody.

use std::path::Path;
use std::sync::Arc;

use barid_vfs::Vfs;

use super::Pending;
use crate::error::{At, Result};
use crate::modes::{is_absent, is_denied};
use crate::{Access, Identity, Ledger};

impl Pending {
    /// The journals in the state folder `dir` that have changes for a mailbox that was last seen at
    /// the path of this one, and is another. Their ledgers tell where they were.
    ///
    /// Lists the folder; opens a ledger for every mailbox with a journal.
    ///
    /// # Errors
    /// [`crate::Error::Io`]. What cannot be read is left out.
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

/// The identity in the name of a journal.
fn id_of(name: &[u8]) -> Option<u128> {
    let hex = std::str::from_utf8(name.strip_suffix(b".pending")?).ok()?;
    let is_id = hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| u128::from_str_radix(hex, 16).ok()).flatten()
}

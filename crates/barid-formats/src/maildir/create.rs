//! Creation of an empty Maildir.
//!
//! Order: the folder, `tmp`, `new`, `dovecot-uidlist` with the requested UIDVALIDITY, then `cur`,
//! which makes it a Maildir; each is durable before the next.

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{Error, Result};
use barid_types::{Uid, UidValidity};
use barid_vfs::{Vfs, create_dir_durable};

use super::layout::{CUR, NEW, TMP, UIDLIST};
use super::uidlist::{self, UidList};
use super::uids::take_lock;
use super::written::guid;
use crate::CreateOptions;

/// See [`crate::create()`]. The first scan gives it a UIDVALIDITY if the options name none.
pub(crate) fn create(vfs: &Arc<dyn Vfs>, path: &Path, options: &CreateOptions) -> Result<()> {
    let make = |path: &Path| {
        create_dir_durable(vfs.as_ref(), path, options.dir_mode()).map_err(Error::at(path))
    };
    make(path)?;
    make(&path.join(TMP))?;
    make(&path.join(NEW))?;
    if let Some(uidvalidity) = options.uidvalidity {
        write_uidlist(vfs, path, uidvalidity, options.uidnext)?;
    }
    make(&path.join(CUR))?;
    Ok(())
}

fn write_uidlist(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
    uidvalidity: UidValidity,
    uidnext: Option<Uid>,
) -> Result<()> {
    let uidlist = path.join(UIDLIST);
    let what = "dovecot-uidlist cannot be written";
    let unsupported = || Error::Unsupported { path: uidlist.clone(), what };
    let _lock = take_lock(vfs, &uidlist)?.ok_or_else(unsupported)?;
    let list = UidList::empty(uidvalidity, guid(vfs.as_ref()));
    let mut text = Vec::new();
    uidlist::write_header(&list.header, uidnext.unwrap_or(Uid::MIN), &[0; 32], &mut text);
    uidlist::replace(vfs.as_ref(), path, &uidlist, &text).map(drop)
}

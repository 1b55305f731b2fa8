//! Creation of an empty mailbox: the header, as c-client writes it.

use std::path::Path;

use barid_mailbox::Result;
use barid_vfs::Vfs;

use super::layout::{MbxHeader, PID_OFFSET};
use crate::CreateOptions;
use crate::new_files::make_file;

/// See [`crate::create()`].
pub(crate) fn create(vfs: &dyn Vfs, path: &Path, options: &CreateOptions) -> Result<()> {
    let seconds = u32::try_from(vfs.now().unix_seconds()).unwrap_or(u32::MAX).max(1);
    let uidvalidity = options.uidvalidity.map_or(seconds, |validity| validity.get());
    let header = MbxHeader { uidvalidity, uid_last: options.uid_last(), names: Vec::new(), pid: 0 };
    let mut bytes = header.to_bytes();
    // Nobody has changed flags yet.
    bytes[PID_OFFSET as usize..].fill(0);
    make_file(vfs, path, options.mode, &bytes)
}

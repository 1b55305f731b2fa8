//! Creation of an empty mailbox: the files that c-client makes.
//!
//! Order: the folder; an empty index, status and data file; then `.mixmeta`, which makes it a
//! mailbox.

use std::path::Path;

use barid_mailbox::{Error, Result};
use barid_vfs::{Vfs, create_dir_durable};

use super::data::data_name;
use super::layout::{INDEX, META, STATUS};
use super::record::{MixMeta, write_meta};
use crate::CreateOptions;
use crate::new_files::{already_exists, make_file};

/// See [`crate::create()`].
pub(crate) fn create(vfs: &dyn Vfs, path: &Path, options: &CreateOptions) -> Result<()> {
    create_dir_durable(vfs, path, options.dir_mode()).map_err(Error::at(path))?;
    let now = u32::try_from(vfs.now().unix_seconds()).unwrap_or(u32::MAX).max(1);
    for name in [INDEX, STATUS, &data_name(now)] {
        let file = path.join(name);
        match vfs.metadata(&file) {
            // A leftover of an interrupted attempt.
            Ok(found) if found.size == 0 => {}
            Ok(_) => return Err(already_exists(&file)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                make_file(vfs, &file, options.mode, b"")?;
            }
            Err(error) => return Err(Error::at(&file)(error)),
        }
    }
    let uidvalidity = options.uidvalidity.map_or(now, |validity| validity.get());
    let uid_last = options.uid_last();
    let meta = MixMeta { seq: now, uidvalidity, uid_last, current: now, keywords: Vec::new() };
    make_file(vfs, &path.join(META), options.mode, &write_meta(&meta))
}

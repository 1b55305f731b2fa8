//! Creation of an empty folder, with the file of sequences by which programs recognise it.

use std::path::Path;

use barid_mailbox::{Error, Result};
use barid_vfs::{Vfs, create_dir_durable};

use super::layout::SEQUENCES;
use super::name::number;
use crate::CreateOptions;
use crate::new_files::{already_exists, make_file};

/// See [`crate::create()`]. A folder with messages counts as existing, even if nothing marks it.
pub(crate) fn create(vfs: &dyn Vfs, path: &Path, options: &CreateOptions) -> Result<()> {
    create_dir_durable(vfs, path, options.dir_mode()).map_err(Error::at(path))?;
    let mut has_messages = false;
    let dir = vfs.open_dir(path).map_err(Error::at(path))?;
    let list = dir.list(&mut |name, _| has_messages |= number(name).is_some());
    list.map_err(Error::at(path))?;
    if has_messages {
        return Err(already_exists(path));
    }
    make_file(vfs, &path.join(SEQUENCES), options.mode, b"")
}

//! Creation of an empty mailbox.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{Error, Format, Result};
use barid_vfs::{FileType, Vfs};

use crate::detect;
use crate::new_files::{CreateOptions, already_exists};
use crate::registry::registered_as;

/// Creates an empty mailbox, durably.
///
/// A format whose mailboxes are folders uses an existing folder, unless it is a mailbox already;
/// missing parent folders are made, too. For an mbox or mbx the folder must exist.
///
/// **Commit point:** the entry that makes it a mailbox of its format: the name of an mbox or mbx,
/// `cur` of a Maildir, `.mixmeta`, `.mh_sequences`. It comes last, and when the call returns it is
/// durable. A crash before leaves at most a folder that is not a mailbox, which another call uses.
///
/// # Errors
/// [`Error::Io`] of kind [`ErrorKind::AlreadyExists`] if the path exists; errors of the file
/// system.
pub fn create(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
    format: Format,
    options: &CreateOptions,
) -> Result<()> {
    let unsupported = || Error::Unsupported {
        path: path.to_owned(),
        what: "mailboxes of this format are not files or folders",
    };
    let registered = registered_as(format).ok_or_else(unsupported)?;
    check_free(vfs.as_ref(), path, format.is_folder())?;
    (registered.create)(vfs, path, options)
}

/// Fails if the path exists, unless it is a folder that may become the mailbox.
fn check_free(vfs: &dyn Vfs, path: &Path, takes_folder: bool) -> Result<()> {
    let is_free = match vfs.metadata(path) {
        Ok(found) => {
            takes_folder && found.file_type == FileType::Dir && detect(vfs, path)?.is_none()
        }
        Err(error) if error.kind() == ErrorKind::NotFound => true,
        Err(error) => return Err(Error::at(path)(error)),
    };
    if is_free { Ok(()) } else { Err(already_exists(path)) }
}

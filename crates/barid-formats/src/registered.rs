//! The registration of a format.

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{Format, Result};
use barid_vfs::Vfs;

use crate::check::Doctor;
use crate::probe::{Mismatch, Probe};
use crate::{CreateOptions, MboxOptions};

/// Opens the mailbox at a path. Formats other than mbox use only the options of locks and the
/// request to stop.
type OpenFormat = fn(Arc<dyn Vfs>, &Path, MboxOptions) -> Result<Box<dyn Doctor>>;
/// Creates an empty mailbox, durably, at a path that is free.
type Create = fn(&Arc<dyn Vfs>, &Path, &CreateOptions) -> Result<()>;

/// A format that a path can be opened in.
pub(crate) struct RegisteredFormat {
    /// The name, as written before the colon of a forced format.
    pub(crate) name: &'static str,
    /// The format. `mbox` names no variant; it is then that of a new mailbox.
    pub(crate) format: Format,
    /// Returns `true` if the path is a mailbox of the format; `None` if only the name selects it.
    pub(crate) probe: Option<fn(&Probe<'_>) -> Result<bool>>,
    /// Returns `true` if a path that no `probe` recognises is a mailbox of the format. Asked only
    /// when a mailbox is opened, and not while mailboxes are searched for.
    pub(crate) opening_probe: Option<fn(&Probe<'_>) -> Result<bool>>,
    /// Returns the reason why the path cannot be a mailbox of the format, although it was named.
    pub(crate) mismatch: fn(&Probe<'_>) -> Result<Option<Mismatch>>,
    pub(crate) open: OpenFormat,
    pub(crate) create: Create,
}

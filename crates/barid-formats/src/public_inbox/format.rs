//! Archives of public-inbox as a registered format.

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{Error, Format, FormatProperties, MessageLayout, Result, Subfolders};
use barid_vfs::Vfs;

use super::{PublicInbox, READ_ONLY, epochs};
use crate::check::Doctor;
use crate::probe::Mismatch;
use crate::registered::RegisteredFormat;

static PROPERTIES: FormatProperties = FormatProperties {
    subfolders: Subfolders::None,
    keeps_zone: true,
    is_read_only: true,
    ..FormatProperties::new("public-inbox", MessageLayout::DataFiles)
};

pub(super) const FORMAT: Format = Format::new(&PROPERTIES);

pub(crate) static FORMATS: [RegisteredFormat; 1] = [RegisteredFormat {
    name: FORMAT.name(),
    format: FORMAT,
    probe: None,
    opening_probe: Some(|probe| Ok(epochs::is_archive(probe))),
    mismatch: |probe| {
        if probe.head().is_some() {
            return Ok(Some(Mismatch::Other("a public-inbox archive is a directory")));
        }
        if epochs::has_epochs(probe) {
            return Ok(None);
        }
        let reason = if epochs::is_repository(probe) {
            epochs::without_message(probe)
        } else {
            Some(NO_EPOCHS)
        };
        Ok(reason.map(Mismatch::Other))
    },
    open,
    create: |_, path, _| Err(Error::Unsupported { path: path.to_owned(), what: READ_ONLY }),
}];

/// Reason why a directory is not an archive.
const NO_EPOCHS: &str = "the directory has no git/ with epochs such as 0.git";

fn open(vfs: Arc<dyn Vfs>, path: &Path, _: crate::MboxOptions) -> Result<Box<dyn Doctor>> {
    Ok(Box::new(PublicInbox::new(vfs, path.to_owned())))
}

//! Maildir as a registered format.

use barid_mailbox::{Format, FormatProperties, MessageLayout, Subfolders};

use super::Maildir;
use super::create::create;
use crate::probe::{Mismatch, NO_MAILDIR};
use crate::registered::RegisteredFormat;

static PROPERTIES: FormatProperties = FormatProperties {
    subfolders: Subfolders::Dotted,
    message_folders: &["new", "cur"],
    work_folders: &["tmp"],
    holds_uidvalidity: true,
    has_fixed_files: true,
    ..FormatProperties::new("maildir", MessageLayout::FilePerMessage)
};

pub(super) const FORMAT: Format = Format::new(&PROPERTIES);

pub(crate) static FORMATS: [RegisteredFormat; 1] = [RegisteredFormat {
    name: FORMAT.name(),
    format: FORMAT,
    probe: Some(|probe| probe.has_folders(PROPERTIES.message_folders)),
    opening_probe: None,
    mismatch: |probe| {
        if probe.head().is_some() {
            return Ok(Some(Mismatch::Other("it is a file, but a Maildir is a directory")));
        }
        let is_one = probe.has_folders(PROPERTIES.message_folders)?;
        Ok((!is_one).then_some(Mismatch::Damaged(NO_MAILDIR)))
    },
    open: |vfs, path, _| Ok(Box::new(Maildir::new(vfs, path.to_owned()))),
    create,
}];

//! MH as a registered format.

use barid_mailbox::{Format, FormatProperties, MessageLayout};

use super::MhFolder;
use super::create::create;
use super::layout::MARKS;
use crate::probe::Mismatch;
use crate::registered::RegisteredFormat;

static PROPERTIES: FormatProperties = FormatProperties {
    is_message_name: |name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()),
    ..FormatProperties::new("mh", MessageLayout::FilePerMessage)
};

pub(super) const FORMAT: Format = Format::new(&PROPERTIES);

pub(crate) static FORMATS: [RegisteredFormat; 1] = [RegisteredFormat {
    name: FORMAT.name(),
    format: FORMAT,
    // The same test as NeoMutt's.
    probe: Some(|probe| Ok(MARKS.iter().any(|mark| probe.has(mark, false)))),
    opening_probe: None,
    mismatch: |probe| {
        Ok(probe.head().map(|_| Mismatch::Other("it is a file, but an MH folder is a directory")))
    },
    open: |vfs, path, _| Ok(Box::new(MhFolder::new(vfs, path.to_owned()))),
    create: |vfs, path, options| create(vfs.as_ref(), path, options),
}];

//! mix as a registered format.

use barid_mailbox::{Format, FormatProperties, MessageLayout};

use super::MixMailbox;
use super::create::create;
use super::layout::META;
use crate::probe::Mismatch;
use crate::registered::RegisteredFormat;

static PROPERTIES: FormatProperties = FormatProperties {
    has_crlf: true,
    keeps_zone: true,
    holds_uidvalidity: true,
    stored_form: 4,
    ..FormatProperties::new("mix", MessageLayout::DataFiles)
};

pub(super) const FORMAT: Format = Format::new(&PROPERTIES);

pub(crate) static FORMATS: [RegisteredFormat; 1] = [RegisteredFormat {
    name: FORMAT.name(),
    format: FORMAT,
    probe: Some(|probe| Ok(probe.has(META, true))),
    opening_probe: None,
    mismatch: |probe| {
        Ok(match probe.head() {
            Some(_) => Some(Mismatch::Other("it is a file, but a mix mailbox is a directory")),
            None if probe.has(META, true) => None,
            None => Some(Mismatch::Damaged("the directory has no .mixmeta")),
        })
    },
    open: |vfs, path, options| {
        Ok(Box::new(MixMailbox::new(vfs, path.to_owned()).stopped_by(options.stop)))
    },
    create: |vfs, path, options| create(vfs.as_ref(), path, options),
}];

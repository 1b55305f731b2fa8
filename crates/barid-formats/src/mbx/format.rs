//! mbx as a registered format.

use barid_mailbox::{Format, FormatProperties, MessageLayout};

use super::MbxMailbox;
use super::create::create;
use super::layout::is_mbx;
use crate::probe::Mismatch;
use crate::registered::RegisteredFormat;

static PROPERTIES: FormatProperties = FormatProperties {
    has_crlf: true,
    keeps_zone: true,
    holds_uidvalidity: true,
    stored_form: 3,
    ..FormatProperties::new("mbx", MessageLayout::OneFile)
};

pub(super) const FORMAT: Format = Format::new(&PROPERTIES);

pub(crate) static FORMATS: [RegisteredFormat; 1] = [RegisteredFormat {
    name: FORMAT.name(),
    format: FORMAT,
    probe: Some(|probe| Ok(probe.has_head(is_mbx))),
    opening_probe: None,
    mismatch: |probe| {
        Ok(match probe.head() {
            None => Some(Mismatch::Other("it is a directory, but an mbx is a file")),
            Some(head) if is_mbx(head) => None,
            Some(_) => Some(Mismatch::Damaged("it does not begin with the header of an mbx")),
        })
    },
    open: |vfs, path, options| Ok(Box::new(MbxMailbox::new(vfs, path.to_owned(), options))),
    create: |vfs, path, options| create(vfs.as_ref(), path, options),
}];

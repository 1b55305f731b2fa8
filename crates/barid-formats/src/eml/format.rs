//! Saved messages as a registered format.

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{Error, Format, FormatProperties, MessageLayout, Result};
use barid_vfs::{FileType, Vfs};

use crate::check::Doctor;
use crate::mh::{EML, MhFolder, is_saved_name};
use crate::probe::{BINARY_FILE, Mismatch, Probe};
use crate::registered::RegisteredFormat;

static PROPERTIES: FormatProperties = FormatProperties {
    is_message_name: |name| is_saved_name(name.as_bytes()),
    is_read_only: true,
    ..FormatProperties::new("eml", MessageLayout::FilePerMessage)
};

const FORMAT: Format = Format::new(&PROPERTIES);

pub(crate) static FORMATS: [RegisteredFormat; 1] = [RegisteredFormat {
    name: FORMAT.name(),
    format: FORMAT,
    probe: None,
    opening_probe: Some(is_saved),
    mismatch: |probe| {
        let is_binary = probe.has_head(|head| memchr::memchr(0, head).is_some());
        Ok(is_binary.then_some(Mismatch::Other(BINARY_FILE)))
    },
    open,
    create: |_, path, _| {
        let what = "saved messages can only be read";
        Err(Error::Unsupported { path: path.to_owned(), what })
    },
}];

fn open(vfs: Arc<dyn Vfs>, path: &Path, _: crate::MboxOptions) -> Result<Box<dyn Doctor>> {
    let metadata = vfs.metadata(path).map_err(Error::at(path))?;
    let is_file = metadata.file_type != FileType::Dir;
    Ok(Box::new(MhFolder::saved(vfs, path.to_owned(), (FORMAT, is_file))))
}

/// Returns `true` for a folder with a saved message, and for a file that has the name of one, or
/// begins as one.
fn is_saved(probe: &Probe<'_>) -> Result<bool> {
    match probe.head() {
        Some(head) if memchr::memchr(0, head).is_some() => Ok(false),
        Some(head) => Ok(probe.has_extension(EML) || is_message(head)),
        None => probe.has_name(&is_saved_name),
    }
}

/// Fields with which a message begins, as opposed to other text with colons: those that servers put
/// first, and those of every message.
const FIRST_FIELDS: [&[u8]; 15] = [
    b"arc-authentication-results",
    b"arc-seal",
    b"authentication-results",
    b"date",
    b"delivered-to",
    b"dkim-signature",
    b"from",
    b"message-id",
    b"mime-version",
    b"received",
    b"return-path",
    b"subject",
    b"to",
    b"x-mozilla-status",
    b"x-original-to",
];

/// Returns `true` if a text begins with a header that is one of a message.
fn is_message(head: &[u8]) -> bool {
    let mut fields = barid_message::fields(head);
    let is_known = |name: &[u8]| FIRST_FIELDS.iter().any(|known| name.eq_ignore_ascii_case(known));
    fields.next().is_some_and(|field| field.offset == 0 && is_known(field.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_begins_with_a_field_of_messages() {
        for (text, expected) in [
            ("From: a@b\nSubject: x\n\ny", true),
            ("Return-Path: <a@b>\r\nReceived: by x\r\n", true),
            ("Subject: alone", true),
            ("\nFrom: a@b\n", false),
            ("Note: buy milk\nFrom: me\n", false),
            ("key: value\n", false),
            ("Dear Sir,\n", false),
            ("", false),
        ] {
            assert_eq!(is_message(text.as_bytes()), expected, "{text:?}");
        }
    }
}

//! Office documents: Office Open XML (ECMA-376) and OpenDocument (OASIS ODF 1.3).
//!
//! The format is known by the members that only it has, whatever name or type the attachment has.

mod opendocument;
mod sheets;
mod words;

use crate::Failure;
use crate::archive::{Archive, first_name};
use crate::sink::{End, TextSink};

/// Reads the text of any office document.
///
/// # Errors
/// [`Failure::NotADocument`] for other archives; those of the archive and its XML.
pub(crate) fn read(bytes: &[u8], sink: &mut TextSink) -> Result<(), End> {
    let archive = Archive::new(bytes)?;
    if archive.has(words::DOCUMENT) {
        words::read_document(&archive, sink)
    } else if archive.has(sheets::WORKBOOK) {
        sheets::read(&archive, sink)
    } else if archive.has(words::PRESENTATION) {
        words::read_presentation(&archive, sink)
    } else if archive.has(opendocument::CONTENT) {
        opendocument::read(&archive, sink)
    } else {
        Err(Failure::NotADocument.into())
    }
}

/// Returns `true` if an archive begins as writers of office documents begin it.
pub(crate) fn looks_like_one(bytes: &[u8]) -> bool {
    const FIRST: [&[u8]; 6] =
        [b"[Content_Types].xml", b"_rels/", b"docProps/", b"word/", b"xl/", b"ppt/"];
    first_name(bytes).is_some_and(|name| {
        name == b"mimetype" || FIRST.iter().any(|first| name.starts_with(first))
    })
}

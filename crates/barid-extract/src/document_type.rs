//! Types of documents, and how the type of an attachment is found.

use crate::limits::MAGIC_LEN;
use crate::office;
use crate::plain::marked_charset;

/// A type of document, by the reader that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DocumentType {
    /// Office Open XML or OpenDocument: docx, xlsx, pptx, odt, ods, odp. Their members say which.
    Office,
    /// Portable Document Format.
    Pdf,
    /// HTML.
    Html,
    /// Plain text, CSV and the like.
    Text,
}

/// Prefixes of the media types of office documents, which their templates and variants share.
const OFFICE_TYPES: [&str; 7] = [
    "application/vnd.openxmlformats-officedocument.",
    "application/vnd.oasis.opendocument.",
    "application/vnd.ms-word.document.macroenabled",
    "application/vnd.ms-excel.sheet.macroenabled",
    "application/vnd.ms-powerpoint.presentation.macroenabled",
    "application/vnd.ms-word.template.macroenabled",
    "application/vnd.ms-powerpoint.slideshow.macroenabled",
];

/// Types of text that nobody reads as text.
const NO_TEXTS: [&str; 2] = ["text/rtf", "text/richtext"];

const OFFICE_ENDINGS: [&str; 15] = [
    "docx", "docm", "dotx", "xlsx", "xlsm", "xltx", "pptx", "pptm", "ppsx", "odt", "ott", "ods",
    "ots", "odp", "otp",
];
const HTML_ENDINGS: [&str; 3] = ["html", "htm", "xhtml"];
const TEXT_ENDINGS: [&str; 9] = ["txt", "text", "csv", "tsv", "log", "md", "patch", "diff", "ics"];

/// The kinds of content that the first bytes of a file tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Magic {
    Zip,
    Pdf,
    Text,
    Other,
}

impl DocumentType {
    /// All types.
    pub const ALL: [Self; 4] = [Self::Office, Self::Pdf, Self::Html, Self::Text];

    /// Returns the name by which a helper is told the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Office => "office",
            Self::Pdf => "pdf",
            Self::Html => "html",
            Self::Text => "text",
        }
    }

    /// Returns the type with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// Returns the type of an attachment; `None` if it has no text that can be read.
    ///
    /// The declared media type counts, else the ending of the file name, unless the first bytes
    /// contradict it; else those bytes decide alone. Only the first bytes are looked at, as
    /// comparisons: nothing is parsed.
    pub fn of(media_type: &str, file_name: Option<&str>, bytes: &[u8]) -> Option<Self> {
        let magic = magic(bytes);
        let ending = file_name.and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
        let named = [declared(media_type), ending.and_then(of_ending)];
        let fitting = named.into_iter().flatten().find(|named| named.has(magic));
        fitting.or_else(|| match magic {
            Magic::Pdf => Some(Self::Pdf),
            Magic::Zip => office::looks_like_one(bytes).then_some(Self::Office),
            Magic::Text if starts_as_html(bytes) => Some(Self::Html),
            Magic::Text | Magic::Other => None,
        })
    }

    fn has(self, magic: Magic) -> bool {
        magic
            == match self {
                Self::Office => Magic::Zip,
                Self::Pdf => Magic::Pdf,
                Self::Html | Self::Text => Magic::Text,
            }
    }
}

fn declared(media_type: &str) -> Option<DocumentType> {
    let media_type = media_type.to_ascii_lowercase();
    match &*media_type {
        "application/pdf" | "application/x-pdf" => Some(DocumentType::Pdf),
        "text/html" | "application/xhtml+xml" => Some(DocumentType::Html),
        text if NO_TEXTS.contains(&text) => None,
        text if text.starts_with("text/") => Some(DocumentType::Text),
        "application/csv" => Some(DocumentType::Text),
        office if OFFICE_TYPES.iter().any(|prefix| office.starts_with(prefix)) => {
            Some(DocumentType::Office)
        }
        _ => None,
    }
}

fn of_ending(ending: &str) -> Option<DocumentType> {
    let is = |known: &[&str]| known.iter().any(|known| known.eq_ignore_ascii_case(ending));
    match ending {
        _ if is(&OFFICE_ENDINGS) => Some(DocumentType::Office),
        _ if is(&["pdf"]) => Some(DocumentType::Pdf),
        _ if is(&HTML_ENDINGS) => Some(DocumentType::Html),
        _ if is(&TEXT_ENDINGS) => Some(DocumentType::Text),
        _ => None,
    }
}

fn magic(bytes: &[u8]) -> Magic {
    let start = &bytes[..bytes.len().min(MAGIC_LEN)];
    if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
        Magic::Zip
    } else if memchr::memmem::find(start, b"%PDF-").is_some() {
        Magic::Pdf
    } else if marked_charset(start).is_some() || !start.contains(&0) {
        Magic::Text
    } else {
        Magic::Other
    }
}

/// Returns `true` for an office document with a password: it is encrypted within a container of old
/// formats (MS-OFFCRYPTO §2.3), in which the name of its stream stands.
pub(crate) fn is_encrypted_office(bytes: &[u8]) -> bool {
    let name: Vec<u8> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
    bytes.starts_with(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
        && memchr::memmem::find(bytes, &name).is_some()
}

fn starts_as_html(bytes: &[u8]) -> bool {
    let start = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let is = |tag: &str| {
        start.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()))
    };
    is("<!doctype html") || is("<html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(media_type: &str, name: &str, bytes: &[u8], expected: Option<DocumentType>) {
        assert_eq!(
            DocumentType::of(media_type, Some(name), bytes),
            expected,
            "{media_type} {name}"
        );
    }

    const ZIP: &[u8] = b"PK\x03\x04 of some kind";
    const DOCX: &[u8] = b"PK\x03\x04\x14\0\0\0\x08\0....crc.clenulen\x13\0\0\0[Content_Types].xml";
    const PDF: &[u8] = b"%PDF-1.4\n";
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    const WORD: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

    #[test]
    fn the_declared_type_counts_then_the_name() {
        check(WORD, "a.pdf", ZIP, Some(DocumentType::Office));
        check("application/octet-stream", "a.ODT", ZIP, Some(DocumentType::Office));
        check("Application/PDF", "a", PDF, Some(DocumentType::Pdf));
        check("application/octet-stream", "A.PDF", PDF, Some(DocumentType::Pdf));
        check("text/csv", "", b"a,b\n", Some(DocumentType::Text));
        check("application/octet-stream", "a.csv", b"a,b\n", Some(DocumentType::Text));
        check("text/html", "", b"a", Some(DocumentType::Html));
        check("text/x-patch", "x", b"a", Some(DocumentType::Text));
        check("text/rtf", "x", b"{\\rtf", None);
    }

    #[test]
    fn a_type_that_the_bytes_contradict_loses() {
        check(WORD, "a.docx", PDF, Some(DocumentType::Pdf));
        check("application/pdf", "a.pdf", ZIP, None);
        check("application/pdf", "a.docx", ZIP, Some(DocumentType::Office));
        check("application/pdf", "a.pdf", DOCX, Some(DocumentType::Office));
        check("text/plain", "a.txt", PNG, None);
        check("text/plain", "a.txt", PDF, Some(DocumentType::Pdf));
        check("application/pdf", "a.pdf", b" <!DOCTYPE html><p>", Some(DocumentType::Html));
    }

    #[test]
    fn the_bytes_decide_alone() {
        check("application/octet-stream", "a", DOCX, Some(DocumentType::Office));
        check("application/octet-stream", "a", ZIP, None);
        check("application/zip", "a.zip", ZIP, None);
        check("application/octet-stream", "a", b"junk\n%PDF-1.7", Some(DocumentType::Pdf));
        check("application/octet-stream", "a", b"text", None);
        check("image/png", "a.png", PNG, None);
        check("image/png", "", b"", None);
        assert_eq!(DocumentType::of("text/plain", None, b"\xff\xfea\0"), Some(DocumentType::Text));
    }

    #[test]
    fn office_documents_may_have_a_password() {
        let mut container = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec();
        container.resize(2048, 0);
        assert!(!is_encrypted_office(&container));
        container.extend("EncryptedPackage".bytes().flat_map(|byte| [byte, 0]));
        assert!(is_encrypted_office(&container) && !is_encrypted_office(&container[8..]));
        check(WORD, "a.docx", &container, None);
    }

    #[test]
    fn names_are_found_again() {
        for known in DocumentType::ALL {
            assert_eq!(DocumentType::named(known.name()), Some(known));
        }
    }
}

//! Defects of a message.

use std::fmt;

use crate::limits::DEFECTS_MAX;

/// One defect of a message, with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Defect {
    /// The kind of the defect.
    pub kind: DefectKind,
    /// Its place, as an offset into the stored message.
    pub offset: u64,
}

/// The kinds of [`Defect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DefectKind {
    /// A header line without a colon that is not a continuation.
    JunkHeaderLine,
    /// The header has no empty line after it: the message ends with it.
    MissingBlankLine,
    /// A NUL byte in a header.
    NulInHeader,
    /// `Content-Type` cannot be read; `text/plain` is assumed.
    BadContentType,
    /// A multipart without a boundary parameter; it is treated as having no parts.
    MissingBoundary,
    /// A multipart in which its boundary never occurs.
    BoundaryNotFound,
    /// A multipart that ends without its closing boundary.
    UnclosedMultipart,
    /// `Content-Transfer-Encoding` is unknown; the bytes are returned unchanged.
    UnknownEncoding,
    /// A multipart or a message is encoded, which RFC 2045 §6.4 forbids.
    EncodedContainer,
    /// Bytes in a base64 body that are outside the base64 alphabet.
    BadBase64,
    /// A `=` in a quoted-printable body with invalid bytes after it.
    BadQuotedPrintable,
    /// A charset that is unknown, or text that is invalid in the charset it declares.
    BadCharset,
    /// Parts nested deeper than the limit.
    TooDeep,
    /// More parts than the limit.
    TooManyParts,
}

/// Collects defects up to [`DEFECTS_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Defects(Vec<Defect>);

impl Defects {
    pub(crate) fn add(&mut self, kind: DefectKind, offset: usize) {
        if self.0.len() < DEFECTS_MAX {
            self.0.push(Defect { kind, offset: offset as u64 });
        }
    }

    pub(crate) fn into_vec(self) -> Vec<Defect> {
        self.0
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind, self.offset)
    }
}

impl fmt::Display for DefectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::JunkHeaderLine => "header line without a colon",
            Self::MissingBlankLine => "no empty line after the header",
            Self::NulInHeader => "NUL in the header",
            Self::BadContentType => "unreadable Content-Type",
            Self::MissingBoundary => "multipart without a boundary parameter",
            Self::BoundaryNotFound => "multipart whose boundary never occurs",
            Self::UnclosedMultipart => "multipart without its closing boundary",
            Self::UnknownEncoding => "unknown Content-Transfer-Encoding",
            Self::EncodedContainer => "encoded multipart or message",
            Self::BadBase64 => "broken base64",
            Self::BadQuotedPrintable => "broken quoted-printable",
            Self::BadCharset => "unknown charset or text not in its charset",
            Self::TooDeep => "parts nested too deeply",
            Self::TooManyParts => "too many parts",
        })
    }
}

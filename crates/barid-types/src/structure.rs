//! The MIME structure of a message (RFC 9051 §7.5.2, BODYSTRUCTURE).

use crate::Envelope;

/// A parameter of a MIME field: name and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name, as written.
    pub name: Vec<u8>,
    /// The value, unquoted; RFC 2231 sections joined.
    pub value: Vec<u8>,
}

/// `Content-Disposition`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disposition {
    /// `inline`, `attachment`, ...
    pub kind: Vec<u8>,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
}

/// One part of a message and the parts in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BodyStructure {
    /// The type, `text` where absent.
    pub media_type: Vec<u8>,
    /// The subtype, `plain` where absent.
    pub subtype: Vec<u8>,
    /// Parameters of `Content-Type`.
    pub parameters: Vec<Parameter>,
    /// `Content-ID`.
    pub id: Option<Vec<u8>>,
    /// `Content-Description`.
    pub description: Option<Vec<u8>>,
    /// `Content-Transfer-Encoding`, `7bit` where absent.
    pub encoding: Vec<u8>,
    /// `Content-MD5`.
    pub md5: Option<Vec<u8>>,
    /// `Content-Disposition`.
    pub disposition: Option<Disposition>,
    /// `Content-Language`.
    pub language: Vec<Vec<u8>>,
    /// `Content-Location`.
    pub location: Option<Vec<u8>>,
    /// Bytes of the body as transferred, line ends as CRLF.
    pub size: u64,
    /// Lines of the body, for `text` and `message/rfc822`.
    pub lines: u64,
    /// Offset of the part's header in the stored message.
    pub header_offset: u64,
    /// Offset of the part's body in the stored message.
    pub body_offset: u64,
    /// Offset of the end of the part's body in the stored message.
    pub body_end: u64,
    /// The parts of a multipart, or the one structure of a `message/rfc822`.
    pub parts: Vec<BodyStructure>,
    /// The envelope of an enclosed `message/rfc822`.
    pub envelope: Option<Box<Envelope>>,
}

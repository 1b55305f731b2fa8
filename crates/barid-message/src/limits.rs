//! The bounds of every loop, depth and buffer that mail feeds.

/// The longest subject that is looked at, in bytes; what exceeds it is cut off.
pub const SUBJECT_LEN_MAX: usize = 64 * 1024;

/// The most message ids taken from one `References` field: of more, the last ones are kept.
pub const MESSAGE_IDS_MAX: usize = 10_000;

/// The longest message id, in bytes; a longer one counts as invalid.
pub const MESSAGE_ID_LEN_MAX: usize = 2048;

/// The most addresses taken from one field.
pub const ADDRESSES_MAX: usize = 100_000;

/// The longest `References` field that is looked at, in bytes; of a longer one, the end.
pub const REFERENCES_LEN_MAX: usize = 1024 * 1024;

/// The most malformed message ids of one field; what follows more of them is not looked at.
pub const BROKEN_IDS_MAX: usize = 1000;

/// The longest `Content-Type` or similar field that is looked at, in bytes.
pub const CONTENT_FIELD_LEN_MAX: usize = 64 * 1024;

/// The most parameters of one field.
pub const PARAMETERS_MAX: usize = 1000;

/// How deep parts may nest; what is deeper is not divided into parts.
pub const DEPTH_MAX: usize = 100;

/// The most parts of one message; what follows them belongs to the last one.
pub const PARTS_MAX: usize = 10_000;

/// Bytes of a line from which on it is read in pieces, where a message comes in pieces. No boundary
/// is that long.
pub const LINE_PIECE_LEN: usize = 64 * 1024;

/// The most defects reported of one message.
pub const DEFECTS_MAX: usize = 1000;

/// The most bytes of readable text made of one message.
pub const READABLE_TEXT_LEN_MAX: usize = 64 * 1024 * 1024;

/// The most header fields that a section names.
pub const SECTION_FIELDS_MAX: usize = 1000;

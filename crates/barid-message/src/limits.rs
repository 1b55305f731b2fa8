//! The bounds of every loop, depth and buffer that mail feeds.

/// The longest subject that is read, in bytes; the rest is cut off.
pub const SUBJECT_LEN_MAX: usize = 64 * 1024;

/// The most message ids read from one `References` field: from a longer list, the last ones.
pub const MESSAGE_IDS_MAX: usize = 10_000;

/// The longest message id, in bytes; a longer one counts as invalid.
pub const MESSAGE_ID_LEN_MAX: usize = 2048;

/// The most addresses read from one field.
pub const ADDRESSES_MAX: usize = 100_000;

/// The longest `References` field that is read, in bytes; from a longer one, the end.
pub const REFERENCES_LEN_MAX: usize = 1024 * 1024;

/// The most malformed message ids in one field; reading stops after them.
pub const BROKEN_IDS_MAX: usize = 1000;

/// The longest `Content-Type` or similar field that is read, in bytes.
pub const CONTENT_FIELD_LEN_MAX: usize = 64 * 1024;

/// The most parameters of one field.
pub const PARAMETERS_MAX: usize = 1000;

/// The deepest nesting of parts; deeper parts are not divided.
pub const DEPTH_MAX: usize = 100;

/// The most parts of one message; what follows them belongs to the last one.
pub const PARTS_MAX: usize = 10_000;

/// Length of a line in bytes from which it is read in pieces, if a message arrives in pieces.
/// Boundaries are shorter.
pub const LINE_PIECE_LEN: usize = 64 * 1024;

/// The most defects reported of one message.
pub const DEFECTS_MAX: usize = 1000;

/// The most bytes of readable text made of one message.
pub const READABLE_TEXT_LEN_MAX: usize = 64 * 1024 * 1024;

/// The most header fields that a section names.
pub const SECTION_FIELDS_MAX: usize = 1000;

/// Number of characters of a preview; RFC 8970 §3.1 asks for at most 200.
pub const PREVIEW_CHARS_MAX: usize = 200;

/// Lengths in bytes to which a part is decoded for a preview, until there is enough text: some
/// senders put many kilobytes of styles before it.
pub(crate) const PREVIEW_PART_LENS: [u64; 3] = [16 * 1024, 256 * 1024, 2 * 1024 * 1024];

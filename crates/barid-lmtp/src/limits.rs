//! The bounds of this crate.

/// Length of a command line in bytes, with its end. RFC 5321 §4.5.3.1.4 wants 512, and extensions
/// add to it.
pub const LINE_LEN_MAX: usize = 2048;
/// Length of a path in bytes (RFC 5321 §4.5.3.1.3 wants 256; addresses in UTF-8 are longer).
pub const PATH_LEN_MAX: usize = 1000;
/// Recipients of a message (RFC 5321 §4.5.3.1.8 wants 100).
pub const RECIPIENTS_MAX: usize = 1000;
/// Commands in error after which a session ends.
pub const ERRORS_MAX: u32 = 100;
/// Length of the text of a reply in bytes.
pub const REPLY_TEXT_LEN_MAX: usize = 400;

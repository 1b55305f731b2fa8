//! Bounds of everything that a client can make grow.

/// Length of a command line before login, literals included, in bytes: room for the largest ID that
/// RFC 2971 §3.3 allows.
pub const LINE_LEN_BEFORE_LOGIN_MAX: usize = 36 * 1024;
/// Length of a command line after login, literals included, in bytes. RFC 2683 §3.2.1.5 asks for
/// 8,000; clients send sets of thousands of UIDs.
pub const LINE_LEN_MAX: usize = 1024 * 1024;
/// Length of a literal before login, in bytes.
pub const LITERAL_LEN_BEFORE_LOGIN_MAX: u64 = 1024;
/// Length of a literal that is not a message, in bytes.
pub const LITERAL_LEN_MAX: u64 = 512 * 1024;
/// Number of elements of a list: flags, keys, patterns, items.
pub const LIST_LEN_MAX: usize = 1000;
/// Number of ranges of a set of message numbers.
pub const SET_RANGES_MAX: usize = 50_000;
/// Length of a tag in bytes.
pub const TAG_LEN_MAX: usize = 256;
/// Length of a mailbox name in bytes, as UTF-8.
pub const MAILBOX_NAME_LEN_MAX: usize = 1000;
/// Number of parameters of ID (RFC 2971 §3.3).
pub const ID_PARAMETERS_MAX: usize = 30;
/// Length of a value of ID in bytes (RFC 2971 §3.3).
pub const ID_VALUE_LEN_MAX: usize = 1024;
/// Consecutive commands that are not valid before the connection ends.
pub const BAD_COMMANDS_MAX: u32 = 20;
/// The same before login.
pub const BAD_COMMANDS_BEFORE_LOGIN_MAX: u32 = 3;
/// Searches of a session whose results are kept up to date.
pub const CONTEXTS_MAX: usize = 16;
/// Changes by a session itself that NOTIFY leaves out; more are announced like those of others.
pub const OWN_CHANGES_MAX: usize = 1000;
/// Renames among them: each may concern all mailboxes.
pub const OWN_RENAMES_MAX: usize = 16;
/// Messages of one MULTIAPPEND.
pub const APPENDS_MAX: usize = 10_000;
/// Memory of the keywords of all messages of one MULTIAPPEND, in bytes: a dozen for each of
/// [`APPENDS_MAX`].
pub const APPEND_KEYWORDS_LEN_MAX: usize = 8 * 1024 * 1024;
/// Number of items that are fetched of a message.
pub const FETCH_ITEMS_MAX: usize = 1000;
/// Length of a piece of a message as it leaves the decoder, in bytes.
pub const DATA_PIECE_LEN: usize = 64 * 1024;
/// Length of a line that is not a command: a response of SASL, or DONE. RFC 4954 §4 asks for
/// 12,288.
pub const SASL_LINE_LEN_MAX: usize = 16 * 1024;
/// Bytes of invalid commands that are skipped before login.
pub const SKIPPED_LEN_BEFORE_LOGIN_MAX: u64 = 64 * 1024;
/// Length of the text of an error, in bytes.
pub const ERROR_TEXT_LEN_MAX: usize = 240;
/// The least number of messages of a batch of UIDBATCHES.
pub const UID_BATCH_MIN: u32 = 500;
/// Length of a name of ID in bytes (RFC 2971 §3.3).
pub const ID_NAME_LEN_MAX: usize = 30;
/// Length of an identifier of an object in bytes (RFC 8474 §7).
pub const OBJECT_ID_LEN_MAX: usize = 255;

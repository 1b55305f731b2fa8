//! The bounds of every loop, depth, buffer and process that an attachment feeds.

use std::time::Duration;

/// The largest attachment that is read, in bytes, decoded.
pub const INPUT_LEN_MAX: usize = 32 << 20;

/// The most text of one attachment, in bytes; the rest is left out, and that is reported.
pub const TEXT_LEN_MAX: usize = 4 << 20;

/// The most bytes that may be inflated from one archive, over all members that are read.
pub const INFLATED_LEN_MAX: u64 = 64 << 20;

/// The most bytes that a member may inflate to, for each compressed byte.
pub const INFLATE_RATIO_MAX: u64 = 200;

/// Inflated length of a member up to which its ratio does not matter: an empty table compresses
/// better than any text.
pub const INFLATE_RATIO_FROM: u64 = 1 << 20;

/// The most members of an archive, read or not.
pub const MEMBERS_MAX: usize = 1_000;

/// The longest name of a member that can be read, in bytes.
pub(crate) const MEMBER_NAME_LEN_MAX: usize = 256;

/// The deepest nesting of elements.
pub const XML_DEPTH_MAX: usize = 256;

/// The longest piece of XML between two tags, or tag, in bytes.
pub const XML_TOKEN_LEN_MAX: usize = 1 << 20;

/// The most bytes of the strings that the cells of a workbook share.
pub const SHARED_STRINGS_LEN_MAX: usize = 16 << 20;

/// The most strings that the cells of a workbook share.
pub const SHARED_STRINGS_MAX: usize = 1 << 20;

/// Bytes at the start of an attachment in which its type is recognised; PDF allows that many bytes
/// of anything before its mark.
pub(crate) const MAGIC_LEN: usize = 1024;

/// The longest name of a character entity of HTML, in bytes.
pub(crate) const ENTITY_LEN_MAX: usize = 40;

/// Bytes of HTML in which a declaration of the charset is looked for (HTML Living Standard).
pub(crate) const META_LEN: usize = 1024;

/// The longest name of a charset, in bytes.
pub(crate) const CHARSET_LEN_MAX: usize = 64;

/// The address space of the helper, in bytes.
pub const HELPER_MEMORY_MAX: u64 = 512 << 20;

/// CPU time of the helper in seconds.
pub const HELPER_CPU_SECONDS: u64 = 10;

/// Descriptors of the helper; a program of its own needs a few to load its libraries.
pub(crate) const HELPER_FILES_MAX: u64 = 16;

/// Time after which the helper is killed.
pub const HELPER_TIME_MAX: Duration = Duration::from_secs(20);

/// The most bytes of messages of a helper that are read.
pub(crate) const REASON_LEN_MAX: usize = 4 << 10;

/// Bytes that are written to a helper, or read from it, at once.
pub(crate) const PIPE_PIECE_LEN: usize = 64 << 10;

/// Interval in which a waiting parent looks whether it should stop.
pub(crate) const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// Folders of `PATH` in which a reader of PDF is looked for.
pub(crate) const PATH_FOLDERS_MAX: usize = 256;

/// Size in bytes from which on a file of texts is full; there are at most two, deflated.
pub const TEXT_CACHE_LEN_MAX: u64 = 128 << 20;

/// Bytes of a file of texts that are read at once when its records are looked for.
pub(crate) const TEXT_CACHE_PIECE_LEN: usize = 64 << 10;

/// Attempts to lock a file of texts, and the pause between them.
pub(crate) const LOCK_ATTEMPTS_MAX: u32 = 50;
/// Pause between two attempts to lock a file of texts.
pub(crate) const LOCK_PAUSE: Duration = Duration::from_millis(2);

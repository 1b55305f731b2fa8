//! Names and limits of a mix mailbox (c-client 2007f, `mix.c`).

use std::time::Duration;

/// UIDVALIDITY, the last UID, the current data file, the keywords. A directory with it is a mix
/// mailbox.
pub(crate) const META: &str = ".mixmeta";
/// The unchanging properties of messages.
pub(super) const INDEX: &str = ".mixindex";
/// Flags, keywords and mod-sequences.
pub(super) const STATUS: &str = ".mixstatus";
/// Prefix of the names of data files; hexadecimal digits follow.
pub(super) const DATA_PREFIX: &[u8] = b".mix";
/// Prefix of the line before a message.
pub(super) const MESSAGE_TOKEN: &[u8] = b":msg:";

/// Size in bytes beyond which a data file takes no more messages.
pub(super) const DATA_LEN_ROLL: u64 = 1 << 20;
/// Maximum number of keywords of a mailbox.
pub(super) const KEYWORDS_MAX: usize = 30;
/// Maximum length of a keyword in bytes.
pub(super) const KEYWORD_LEN_MAX: usize = 50;

/// Maximum size of `.mixmeta` in bytes.
pub(super) const META_LEN_MAX: u64 = (1 << 20) - 1;
/// Maximum size of an index or status that is read, in bytes: some 14 million messages.
pub(super) const RECORDS_LEN_MAX: u64 = 1 << 30;
/// The longest line of a record, in bytes.
pub(super) const RECORD_LEN_MAX: usize = 65_535;
/// The longest line before a message that is read, in bytes.
pub(super) const MESSAGE_LINE_LEN_MAX: usize = 256;
/// Maximum number of bytes read of a header.
pub(super) const HEADER_LEN_MAX: usize = 16 << 20;
/// Maximum number of defects in a report.
pub(super) const DEFECTS_MAX: usize = 100;
/// Number of messages of one sink.
pub(super) const CHUNK_LEN: usize = 512;
/// Maximum number of data files.
pub(super) const DATA_FILES_MAX: usize = 1 << 20;
/// Bytes written at once when messages are appended.
pub(super) const WRITE_LEN: usize = 1 << 20;
/// Maximum number of bytes of a data file that are moved at once; with more, the gaps stay.
pub(super) const SLIDE_LEN_MAX: u64 = 64 << 20;
/// Maximum number of names tried for a new data file.
pub(super) const ROLL_TRIES_MAX: u32 = 10_000;
/// Maximum number of offsets in one message that are tried for other messages in its place.
pub(super) const RESYNC_TRIES_MAX: u32 = 1000;
/// Bytes read at once when messages are searched.
pub(super) const SEARCH_LEN: usize = 1 << 20;

/// Maximum number of data files kept open for reading.
pub(super) const HELD_FILES_MAX: usize = 16;

/// Timeout of locks.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// The first pause between two attempts to lock; it doubles.
pub(super) const LOCK_PAUSE_MIN: Duration = Duration::from_millis(2);
/// The longest pause.
pub(super) const LOCK_PAUSE_MAX: Duration = Duration::from_millis(200);

/// Bits of a status record.
pub(super) mod bits {
    /// \Seen.
    pub(crate) const SEEN: u16 = 1;
    /// \Deleted.
    pub(crate) const DELETED: u16 = 2;
    /// \Flagged.
    pub(crate) const FLAGGED: u16 = 4;
    /// \Answered.
    pub(crate) const ANSWERED: u16 = 8;
    /// Not \Recent.
    pub(crate) const OLD: u16 = 0x10;
    /// \Draft.
    pub(crate) const DRAFT: u16 = 0x20;
    /// All bits that c-client writes.
    pub(crate) const ALL: u16 = 0x3f;
}

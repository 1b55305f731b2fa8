//! Names and limits of a mix mailbox (c-client 2007f, `mix.c`).

use std::time::Duration;

/// UIDVALIDITY, the last UID, the current data file, the keywords. What has it is a mix mailbox.
pub(crate) const META: &str = ".mixmeta";
/// What never changes of a message.
pub(super) const INDEX: &str = ".mixindex";
/// Flags, keywords and mod-sequences.
pub(super) const STATUS: &str = ".mixstatus";
/// How the names of data files begin; hexadecimal digits follow.
pub(super) const DATA_PREFIX: &[u8] = b".mix";
/// How the line before a message begins.
pub(super) const MESSAGE_TOKEN: &[u8] = b":msg:";

/// Beyond this a data file takes no more messages.
pub(super) const DATA_LEN_ROLL: u64 = 1 << 20;
/// Keywords a mailbox has room for.
pub(super) const KEYWORDS_MAX: usize = 30;
/// Bytes of a keyword.
pub(super) const KEYWORD_LEN_MAX: usize = 50;

/// The largest `.mixmeta`.
pub(super) const META_LEN_MAX: u64 = (1 << 20) - 1;
/// The largest index or status that is read: some 14 million messages.
pub(super) const RECORDS_LEN_MAX: u64 = 1 << 30;
/// The longest line of a record.
pub(super) const RECORD_LEN_MAX: usize = 65_535;
/// The longest line before a message that is looked at.
pub(super) const MESSAGE_LINE_LEN_MAX: usize = 256;
/// Bytes of a header that are looked at.
pub(super) const HEADER_LEN_MAX: usize = 16 << 20;
/// How many defects are told.
pub(super) const DEFECTS_MAX: usize = 100;
/// Messages that one sink takes.
pub(super) const CHUNK_LEN: usize = 512;
/// How many data files are looked at.
pub(super) const DATA_FILES_MAX: usize = 1 << 20;
/// Bytes written at once when messages are appended.
pub(super) const WRITE_LEN: usize = 1 << 20;
/// Bytes of a data file that are slid at once; of more, the gaps stay.
pub(super) const SLIDE_LEN_MAX: u64 = 64 << 20;
/// How many names are tried for a new data file.
pub(super) const ROLL_TRIES_MAX: u32 = 10_000;
/// Places in one message that are tried for others whose place it takes.
pub(super) const RESYNC_TRIES_MAX: u32 = 1000;
/// Bytes read at once in search of messages.
pub(super) const SEARCH_LEN: usize = 1 << 20;

/// Data files that are held open for reading.
pub(super) const HELD_FILES_MAX: usize = 16;

/// How long locks are waited for.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// The first pause between two tries of the locks; it doubles.
pub(super) const LOCK_PAUSE_MIN: Duration = Duration::from_millis(2);
/// The longest.
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
    /// All that c-client writes.
    pub(crate) const ALL: u16 = 0x3f;
}

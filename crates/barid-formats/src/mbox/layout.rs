//! Names, limits and the notes that a scan leaves for the next one.

use std::time::Duration;

use barid_state::MessageKey;
use barid_types::UidValidity;

use super::FromProfile;
use super::Variant;

/// The longest From_ line that separates messages; a longer one is text.
pub(super) const FROM_LINE_LEN_MAX: usize = 4096;

/// The longest header handed to a sink; what is longer is cut there and the rest counts as body.
pub(super) const HEADER_LEN_MAX: usize = 1024 * 1024;

/// Owned fields of one header that are remembered; with more, it is read twice.
pub(super) const DROPS_MAX: usize = 8;

/// The highest last UID and UIDVALIDITY of an `X-IMAPbase` that is believed. It may be that of a
/// message that a stranger sent, and must leave enough above it to give out.
pub(super) const BASE_NUMBER_MAX: u32 = u32::MAX - (1 << 28);

/// Bytes read from the file at once. A window this small is still in the processor's cache when it
/// is searched.
pub(super) const WINDOW_LEN: usize = 256 * 1024;

/// The smallest and largest stretch of the file that one sink takes.
pub(super) const CHUNK_LEN_MIN: u64 = 1024 * 1024;
/// See [`CHUNK_LEN_MIN`].
pub(super) const CHUNK_LEN_MAX: u64 = 16 * 1024 * 1024;

/// Chunks that a thread may have read ahead of the first one not yet certain.
pub(super) const CHUNKS_AHEAD_MAX: usize = 4;

/// How far a `Content-Length` is followed in a compressed file, which cannot be read at will.
pub(super) const STREAM_LENGTH_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of a compressed file read at once.
pub(super) const COMPRESSED_READ_LEN: usize = 128 * 1024;

/// Bytes of text between two restart points of a compressed file, at least.
pub(super) const POINT_DISTANCE: u64 = 1024 * 1024;

/// Bytes of the restart points of a file; with more, they are half as many.
pub(super) const POINTS_LEN_MAX: usize = 32 * 1024 * 1024;

/// Bytes of the text of a compressed file, at least, that stay in memory for those who read it at
/// the same time: twice as many at most.
pub(super) const RECENT_LEN: usize = 4 * 1024 * 1024;

/// Bytes of text decompressed at once.
pub(super) const SKIP_LEN: usize = 256 * 1024;

/// The largest window of a zstd frame, 128 MB: what `zstd` makes and takes without `--long`.
pub(super) const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Kilobytes that the decoder of an xz file may take: for a dictionary of 128 MB. `xz -9` makes one
/// of 64 MB.
pub(super) const XZ_MEMORY_MAX_KB: u32 = 132 * 1024;

/// Bytes of the index of an xz stream that are read.
pub(super) const XZ_INDEX_LEN_MAX: u64 = 4 * 1024 * 1024;

/// Blocks of an xz file that are known; of a file with more, the streams are.
pub(super) const XZ_BLOCKS_MAX: usize = 1 << 17;

/// Bytes of one message read at once where the size of the file is not known.
pub(super) const MESSAGE_READ_LEN: u64 = 1024 * 1024;

/// Bytes looked at to tell whether a `Content-Length` leads to a separator: a From_ line and a few
/// line ends around it.
pub(super) const PEEK_LEN: usize = FROM_LINE_LEN_MAX + 8;

/// Bytes kept before a place when the window moves on, so that line ends before it can be seen.
pub(super) const CONTEXT_LEN: u64 = 8;

/// Bytes of white space skipped before the first From_ line.
pub(super) const LEADING_SPACE_MAX: usize = 64 * 1024;

/// Defects reported of one scan; more are only counted.
pub(super) const DEFECTS_MAX: usize = 1000;

/// Messages whose `Content-Length` leads nowhere that are named; more are only counted.
pub(super) const LYING_LENGTHS_MAX: usize = 100;

/// Messages that could not be written that are named; more are only counted.
pub(super) const UNWRITABLE_MAX: usize = 1000;

/// Spaces that a header gets which is written anew with room.
pub(super) const PADDING_LEN: usize = 64;

/// Spaces that are left to a header whose padding is used for another, where possible.
pub(super) const PADDING_KEPT: usize = 8;

/// Padding that one header is given when a message before it is expunged. Two blocks of a file
/// system, which is what remains beside a collapse. c-client and Dovecot take a megabyte.
pub(super) const ABSORB_MAX: usize = 8 * 1024;

/// Bytes of expunged messages that become padding of the next ones; more are moved over or
/// collapsed. Where much follows it is more.
pub(super) const ABSORB_TOTAL_MIN: u64 = 64 * 1024;

/// However much follows, no more becomes padding.
pub(super) const ABSORB_TOTAL_MAX: u64 = 2 * 1024 * 1024;

/// A collapse takes all that follows from the page cache, which takes as long as it takes to write
/// this part of it.
pub(super) const COLLAPSE_FRACTION: u64 = 1024;

/// How far ahead is looked for padding to use or to fill.
pub(super) const LOOKAHEAD_LEN: u64 = 8 * 1024 * 1024;

/// Up to so many bytes behind it a header may grow and move them without giving them room too.
pub(super) const PLAIN_GROWTH_MAX: u64 = 256 * 1024;

/// The smallest expunged stretch that is worth a collapse.
pub(super) const COLLAPSE_MIN: u64 = 64 * 1024;

/// Collapses of one change: each takes a file system milliseconds.
pub(super) const COLLAPSES_MAX: u32 = 16;

/// A stretch is moved over when it and what else is expunged behind it are at least this part of
/// what follows.
pub(super) const MOVE_FRACTION: u64 = 16;

/// Messages known that are looked at at once.
pub(super) const BATCH_MAX: usize = 4096;

/// Bytes read at once when header after header is read.
pub(super) const HEADERS_READ_LEN: usize = 256 * 1024;

/// Headers that are no further apart are read in one go.
pub(super) const HEADERS_GAP_MAX: u64 = 64 * 1024;

/// Keywords that c-client keeps, and the longest that it and Dovecot read.
pub(super) const KEYWORDS_MAX: usize = 30;
/// See [`KEYWORDS_MAX`].
pub(super) const KEYWORD_LEN_MAX: usize = 50;

/// What a tail scan reads around the end of the known part at once.
pub(super) const TAIL_READ_LEN: usize = 32 * 1024;

/// The longest header of a first message that is read for its `X-IMAPbase` at a tail scan: whatever
/// padding we gave it must fit, or each opening after a delivery would read everything.
pub(super) const BASE_READ_MAX: usize = ABSORB_MAX + 64 * 1024;

/// Bytes written at once when messages are appended.
pub(super) const WRITE_LEN: usize = 1024 * 1024;

/// What a system caches and writes of a file at once.
pub(super) const PAGE_LEN: u64 = 4096;

/// The largest message that is appended: four bytes for each sector of it are in memory.
pub(super) const LARGE_LEN_MAX: u64 = 4 << 30;

/// NULs looked for at once at the end of a file.
pub(super) const NULS_MAX: usize = 4096;

/// Characters of a sender in a From_ line.
pub(super) const SENDER_LEN_MAX: usize = 320;

/// What a disk writes whole or not at all.
pub(super) const SECTOR_LEN: u64 = 512;

/// The first and the longest pause between two tries of a lock.
pub(super) const LOCK_PAUSE_MIN: Duration = Duration::from_millis(5);
/// See [`LOCK_PAUSE_MIN`].
pub(super) const LOCK_PAUSE_MAX: Duration = Duration::from_millis(250);

/// How often our lock file is touched while it is held; Dovecot breaks one after 120 s.
pub(super) const LOCK_TOUCH_INTERVAL: Duration = Duration::from_secs(30);

/// When another's lock file is stale: what c-client, the most patient, says.
pub(super) const STALE_AFTER: Duration = Duration::from_secs(300);

/// How often c-client's session lock is tried while others create and remove its file.
pub(super) const SESSION_TRIES: u32 = 8;

/// Bytes of a session lock that are read for its holder.
pub(super) const SESSION_LEN_MAX: usize = 64;

/// Bytes of what the kernel tells of this process.
pub(super) const STATUS_LEN_MAX: usize = 8 * 1024;

/// Bytes of the name of a program.
pub(super) const COMM_LEN_MAX: usize = 64;

/// Bytes of the kernel's table of locks that are searched for a holder.
pub(super) const KERNEL_LOCKS_LEN_MAX: usize = 256 * 1024;

/// The separator line of MMDF.
pub(super) const MMDF_SEPARATOR: &[u8; 5] = b"\x01\x01\x01\x01\n";

/// The last message of a scanned file, and what else the next scan needs to read just the tail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Notes {
    /// What the file was read as.
    pub(super) variant: Option<Variant>,
    /// By which From_ lines.
    pub(super) profile: FromProfile,
    /// The tail can be trusted to stay what it is if a separator follows.
    pub(super) tail_sound: bool,
    /// The file ends with the blank line of a separator, so a From_ line must follow at once.
    pub(super) tail_closed: bool,
    /// The first message is the pseudo message.
    pub(super) pseudo: bool,
    /// Where the header of the first message starts and its length.
    pub(super) base_offset: u64,
    /// See `base_offset`.
    pub(super) base_len: u32,
    /// The UIDVALIDITY of that header.
    pub(super) base_validity: Option<UidValidity>,
    /// Where the last message starts.
    pub(super) last_offset: u64,
    /// Bytes of its separator; 0 if there is no message at all.
    pub(super) last_separator_len: u32,
    /// Bytes of its header.
    pub(super) last_header_len: u32,
    /// What it is.
    pub(super) last_key: MessageKey,
    /// Every message up to this UID has its UID in its header; 0 if that is not known.
    pub(super) uids_through: u32,
}

impl Notes {
    const VERSION: u8 = 1;
    /// Bytes of [`Notes::to_bytes`].
    pub(super) const LEN: usize = 48;

    /// The notes as little-endian bytes: version, variant, profile, bits; then the numbers in the
    /// order of the fields.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::LEN);
        let variant = self.variant.map_or(0, |variant| variant as u8 + 1);
        let bits = u8::from(self.tail_sound)
            | u8::from(self.tail_closed) << 1
            | u8::from(self.pseudo) << 2;
        bytes.extend([Self::VERSION, variant, self.profile as u8, bits]);
        bytes.extend(self.base_validity.map_or(0, UidValidity::get).to_le_bytes());
        bytes.extend(self.base_offset.to_le_bytes());
        bytes.extend(self.base_len.to_le_bytes());
        bytes.extend(self.last_separator_len.to_le_bytes());
        bytes.extend(self.last_header_len.to_le_bytes());
        bytes.extend(self.uids_through.to_le_bytes());
        bytes.extend(self.last_offset.to_le_bytes());
        bytes.extend(self.last_key.0.to_le_bytes());
        bytes
    }

    /// Reads [`Notes::to_bytes`] back; what is not of this version gives `None`.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        let long = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let short = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(word)
        };
        let profiles =
            [FromProfile::Union, FromProfile::CClient, FromProfile::Dovecot, FromProfile::Mutt];
        let variant = match bytes[1] {
            0 => None,
            number => Some(*Variant::ALL.get(usize::from(number) - 1)?),
        };
        (bytes[0] == Self::VERSION).then_some(())?;
        Some(Self {
            variant,
            profile: *profiles.get(usize::from(bytes[2]))?,
            tail_sound: bytes[3] & 1 != 0,
            tail_closed: bytes[3] & 2 != 0,
            pseudo: bytes[3] & 4 != 0,
            base_validity: UidValidity::new(short(4)),
            base_offset: long(8),
            base_len: short(16),
            last_separator_len: short(20),
            last_header_len: short(24),
            uids_through: short(28),
            last_offset: long(32),
            last_key: MessageKey(long(40)),
        })
    }
}

//! Names, limits, and the notes that a scan leaves for the next one.

use std::time::Duration;

use barid_state::MessageKey;
use barid_types::UidValidity;

use super::FromProfile;
use super::Variant;

/// The longest From_ line that separates messages; a longer one is text.
pub(super) const FROM_LINE_LEN_MAX: usize = 4096;

/// The longest header handed to a sink; a longer one is cut there and the rest counts as body.
pub(super) const HEADER_LEN_MAX: usize = 1024 * 1024;

/// Positions of owned fields remembered for one header; with more, it is read twice.
pub(super) const DROPS_MAX: usize = 8;

/// The highest last UID and UIDVALIDITY accepted from an `X-IMAPbase`. The field may come from a
/// message that a stranger sent, so enough numbers above it must be left.
pub(super) const BASE_NUMBER_MAX: u32 = u32::MAX - (1 << 28);

/// Bytes read from the file at once: small enough to be still in the processor's cache when they
/// are searched.
pub(super) const WINDOW_LEN: usize = 256 * 1024;

/// The smallest part of the file that is scanned into one sink.
pub(super) const CHUNK_LEN_MIN: u64 = 384 * 1024;

/// Maximum size of the chunks that all threads process at the same time, in bytes. Their rows are
/// in memory until the chunk is certain, and small messages have more bytes in rows than in the
/// file.
pub(super) const CHUNKS_LEN_MAX: u64 = 6 * 1024 * 1024;

/// Maximum number of threads of a scan: one for each of the smallest chunks in [`CHUNKS_LEN_MAX`].
pub(super) const SCAN_THREADS_MAX: usize = (CHUNKS_LEN_MAX / CHUNK_LEN_MIN) as usize;

/// Chunks that a thread may have read ahead of the first chunk whose start is not yet certain.
pub(super) const CHUNKS_AHEAD_MAX: u64 = 4;

/// Longest `Content-Length` followed in a compressed file, which has no cheap random access.
pub(super) const STREAM_LENGTH_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of a compressed file read at once.
pub(super) const COMPRESSED_READ_LEN: usize = 128 * 1024;

/// The least number of text bytes between two restart points of a compressed file.
pub(super) const POINT_DISTANCE: u64 = 1024 * 1024;

/// Maximum size of the restart points of a file, in bytes; beyond it, about half are dropped.
pub(super) const POINTS_LEN_MAX: usize = 32 * 1024 * 1024;

/// The least number of text bytes of a compressed file that stay in memory for concurrent readers;
/// at most twice as many do.
pub(super) const RECENT_LEN: usize = 4 * 1024 * 1024;

/// The least number of text bytes without a restart point, decompressed already when a reader goes
/// back, for which a spill file is made.
pub(super) const SPILL_LEN_MIN: u64 = 16 * 1024 * 1024;

/// Bytes of a spill file.
pub(super) const SPILL_LEN_MAX: u64 = 16 << 30;

/// A spill file takes at most this part of the free space.
pub(super) const SPILL_FREE_PART: u64 = 4;

/// Bytes of text decompressed at once.
pub(super) const SKIP_LEN: usize = 256 * 1024;

/// The largest window of a zstd frame, 128 MB: the most that `zstd` uses without `--long`.
pub(super) const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Kilobytes that the decoder of an xz file may allocate: enough for a dictionary of 128 MB.
/// `xz -9` makes one of 64 MB.
pub(super) const XZ_MEMORY_MAX_KB: u32 = 132 * 1024;

/// Bytes of the index of an xz stream that are read.
pub(super) const XZ_INDEX_LEN_MAX: u64 = 4 * 1024 * 1024;

/// Blocks of an xz file that are remembered; a file with more is decoded stream by stream.
pub(super) const XZ_BLOCKS_MAX: usize = 1 << 17;

/// Bytes of one message read at once where the size of the file is not known.
pub(super) const MESSAGE_READ_LEN: u64 = 1024 * 1024;

/// Bytes read to check that a `Content-Length` leads to a separator: a From_ line and a few line
/// ends around it.
pub(super) const PEEK_LEN: usize = FROM_LINE_LEN_MAX + 8;

/// Bytes kept before the current position when the window moves on, so that line ends before it can
/// be seen.
pub(super) const CONTEXT_LEN: u64 = 8;

/// Bytes of white space skipped before the first From_ line.
pub(super) const LEADING_SPACE_MAX: usize = 64 * 1024;

/// Defects reported of one scan; more are only counted.
pub(super) const DEFECTS_MAX: usize = 1000;

/// Messages named in defects for a `Content-Length` that leads nowhere; more are only counted.
pub(super) const LYING_LENGTHS_MAX: usize = 100;

/// Messages that are named as unwritable; more are only counted.
pub(super) const UNWRITABLE_MAX: usize = 1000;

/// Spaces of padding in a header that is rewritten with room to grow.
pub(super) const PADDING_LEN: usize = 64;

/// Spaces that are left, where possible, to a header whose padding is used for another.
pub(super) const PADDING_KEPT: usize = 8;

/// Most padding that one header gets when a message before it is expunged. Two blocks of a file
/// system: the remainder that a collapse of whole blocks leaves. c-client and Dovecot allow a
/// megabyte.
pub(super) const ABSORB_MAX: usize = 8 * 1024;

/// Bytes of expunged messages that become padding of the following headers; for more, the messages
/// after are moved or the range is collapsed. The bound is higher where much follows.
pub(super) const ABSORB_TOTAL_MIN: u64 = 64 * 1024;

/// Upper bound of [`ABSORB_TOTAL_MIN`] where much follows.
pub(super) const ABSORB_TOTAL_MAX: u64 = 2 * 1024 * 1024;

/// A collapse drops all bytes after it from the page cache, which costs as much as writing this
/// fraction (1/1,024) of them.
pub(super) const COLLAPSE_FRACTION: u64 = 1024;

/// Bytes searched ahead for padding to use or to fill.
pub(super) const LOOKAHEAD_LEN: u64 = 8 * 1024 * 1024;

/// Most bytes after a growing header that are moved without giving them padding as well.
pub(super) const PLAIN_GROWTH_MAX: u64 = 256 * 1024;

/// The smallest expunged range that is worth a collapse.
pub(super) const COLLAPSE_MIN: u64 = 64 * 1024;

/// Collapses in one change: each takes milliseconds.
pub(super) const COLLAPSES_MAX: u32 = 16;

/// An expunged range is closed by moving the rest if it and the other expunged bytes after it are
/// at least this fraction (1/16) of what follows.
pub(super) const MOVE_FRACTION: u64 = 16;

/// Known messages read from the cache at once.
pub(super) const BATCH_MAX: usize = 4096;

/// Bytes read at once when one header after the other is read.
pub(super) const HEADERS_READ_LEN: usize = 256 * 1024;

/// Largest gap between two headers that are read in one go.
pub(super) const HEADERS_GAP_MAX: u64 = 64 * 1024;

/// Keywords that c-client supports.
pub(super) const KEYWORDS_MAX: usize = 30;
/// The longest keyword that c-client and Dovecot read.
pub(super) const KEYWORD_LEN_MAX: usize = 50;

/// Bytes that a tail scan reads around the end of the known part at once.
pub(super) const TAIL_READ_LEN: usize = 32 * 1024;

/// The longest header of a first message that a tail scan reads for its `X-IMAPbase`: it must allow
/// for all padding that barid adds, or every opening after a delivery would read the whole file.
pub(super) const BASE_READ_MAX: usize = ABSORB_MAX + 64 * 1024;

/// Bytes written at once when messages are appended.
pub(super) const WRITE_LEN: usize = 1024 * 1024;

/// Page size of the system: the unit in which it caches and writes a file.
pub(super) const PAGE_LEN: u64 = 4096;

/// The largest message that can be appended; memory use is four bytes for each of its sectors.
pub(super) const LARGE_LEN_MAX: u64 = 4 << 30;

/// NUL bytes read at once at the end of a file.
pub(super) const NULS_MAX: usize = 4096;

/// Characters of a sender in a From_ line.
pub(super) const SENDER_LEN_MAX: usize = 320;

/// Unit that a disk writes whole or not at all.
pub(super) const SECTOR_LEN: u64 = 512;

/// The first pause between two tries of a lock.
pub(super) const LOCK_PAUSE_MIN: Duration = Duration::from_millis(5);
/// The longest pause between two tries of a lock.
pub(super) const LOCK_PAUSE_MAX: Duration = Duration::from_millis(250);

/// Interval between touches of our lock file while it is held; Dovecot breaks one after 120 s.
pub(super) const LOCK_TOUCH_INTERVAL: Duration = Duration::from_secs(30);

/// Age at which another program's lock file is stale: that of c-client, the most patient program.
pub(super) const STALE_AFTER: Duration = Duration::from_secs(300);

/// Tries of c-client's session lock while other processes create and remove its file.
pub(super) const SESSION_TRIES: u32 = 8;

/// Bytes of a session lock's file that are read for its holder.
pub(super) const SESSION_LEN_MAX: usize = 64;

/// Bytes read of `/proc/self/status`.
pub(super) const STATUS_LEN_MAX: usize = 8 * 1024;

/// Bytes read of `/proc/PID/comm`, the name of a program.
pub(super) const COMM_LEN_MAX: usize = 64;

/// Bytes of `/proc/locks` that are searched for a holder.
pub(super) const KERNEL_LOCKS_LEN_MAX: usize = 256 * 1024;

/// The separator line of MMDF.
pub(super) const MMDF_SEPARATOR: &[u8; 5] = b"\x01\x01\x01\x01\n";

/// Notes on the last message of a scanned file, and all else that a scan of the tail needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MboxScanState {
    /// Variant that the file was read as.
    pub(super) variant: Option<Variant>,
    /// Rules for From_ lines that the file was read with.
    pub(super) profile: FromProfile,
    /// `true` if the last message has a whole header and no false `Content-Length`, so that it
    /// stays as it is when a separator follows it.
    pub(super) tail_sound: bool,
    /// `true` if the file ends with the blank line of a separator, so that a From_ line must follow
    /// at once.
    pub(super) tail_closed: bool,
    /// `true` if the first message is the pseudo message.
    pub(super) pseudo: bool,
    /// Offset of the header of the first message.
    pub(super) base_offset: u64,
    /// Length of that header, in bytes.
    pub(super) base_len: u32,
    /// The UIDVALIDITY of that header.
    pub(super) base_validity: Option<UidValidity>,
    /// Offset of the last message's separator.
    pub(super) last_offset: u64,
    /// Length of its separator, in bytes; 0 if there is no message at all.
    pub(super) last_separator_len: u32,
    /// Length of its header, in bytes.
    pub(super) last_header_len: u32,
    /// Its message key.
    pub(super) last_key: MessageKey,
    /// Every message up to this UID has its UID in its header; 0 if unknown.
    pub(super) uids_through: u32,
}

impl MboxScanState {
    const VERSION: u8 = 1;
    /// Bytes of [`MboxScanState::to_bytes`].
    pub(super) const LEN: usize = 48;

    /// Encodes the notes as little-endian bytes: version, variant, profile, bits; then UIDVALIDITY,
    /// the offset and length of the first header, the lengths of the last separator and header,
    /// `uids_through`, the offset and the key of the last message.
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

    /// Decodes [`MboxScanState::to_bytes`]; `None` for other lengths, versions and unknown values.
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

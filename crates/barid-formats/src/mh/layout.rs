//! Names and limits of an MH folder (nmh, NeoMutt `mh/`).

/// The file of sequences.
pub(super) const SEQUENCES: &str = ".mh_sequences";
/// Prefix of the names of messages that are being written; programs ignore hidden files.
pub(super) const TMP_PREFIX: &str = ".barid-append-";
/// Maximum number of leftovers under such names that one delivery removes.
pub(super) const LEFTOVERS_MAX: usize = 1_000;
/// Minimum age of these leftovers: nobody writes messages for so long before delivery.
pub(super) const LEFTOVER_AGE: std::time::Duration = std::time::Duration::from_secs(3_600);
/// Files that identify an MH folder: those of NeoMutt's probe, and the later ones of Claws Mail.
pub(crate) const MARKS: [&str; 8] = [
    SEQUENCES,
    ".xmhcache",
    ".mew_cache",
    ".mew-cache",
    ".sylpheed_cache",
    ".overview",
    ".claws_cache",
    ".claws_mark",
];

/// The sequence of the messages without \Seen.
pub(super) const UNSEEN: &[u8] = b"unseen";
/// The current message of nmh; not a flag, and left alone.
pub(super) const CURRENT: &[u8] = b"cur";
/// The sequences of flags: those of NeoMutt, and two more for flags that it does not store.
pub(super) const FLAG_SEQUENCES: [(&[u8], barid_types::Flag); 4] = [
    (b"replied", barid_types::Flag::Answered),
    (b"flagged", barid_types::Flag::Flagged),
    (b"deleted", barid_types::Flag::Deleted),
    (b"draft", barid_types::Flag::Draft),
];

/// The largest `.mh_sequences` that is read, in bytes.
pub(super) const SEQUENCES_LEN_MAX: u64 = 64 << 20;
/// The longest name of a sequence, in bytes.
pub(super) const SEQUENCE_NAME_LEN_MAX: usize = 255;
/// The most messages of a folder that are listed.
pub(super) const MESSAGES_MAX: usize = 1 << 28;
/// Messages of one chunk of a scan.
pub(super) const CHUNK_MESSAGES: usize = 512;
/// Maximum number of listings of a folder that keeps changing.
pub(super) const PASSES_MAX: u32 = 16;
/// Number of listings without a message after which it counts as gone where nothing seems to
/// change, but the clock of the file system is too coarse to wait for its next tick.
pub(super) const QUIET_PASSES: u32 = 7;
/// Maximum number of defects in a report.
pub(super) const DEFECTS_MAX: usize = 1_000;
/// Maximum number of message numbers tried while others deliver, too.
pub(super) const NUMBER_TRIES_MAX: u32 = 1_000;
/// Maximum number of names tried for a file that is being written.
pub(super) const NAME_TRIES_MAX: u32 = 100;
/// Timeout of the lock of the sequences.
pub(super) const LOCK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
/// Pause between two attempts to take it.
pub(super) const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);
/// Timeout of the lock of the ledger, held by another process that gives out UIDs.
pub(super) const LEDGER_LOCK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
/// Beyond this next UID a new UIDVALIDITY is due, so that a scan never runs out of UIDs.
pub(super) const UIDNEXT_MAX: u32 = u32::MAX - (1 << 28);
/// Messages that are removed together: between two such batches a request to stop is noticed.
pub(super) const EXPUNGE_BATCH: usize = 512;

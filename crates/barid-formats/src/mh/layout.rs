//! Names and limits of an MH folder (nmh, NeoMutt `mh/`).

/// Which messages are in which sequences.
pub(super) const SEQUENCES: &str = ".mh_sequences";
/// What the names of messages that are being written begin with; programs pass by hidden files.
pub(super) const TMP_PREFIX: &str = ".barid-append-";
/// Leftovers under such names that one delivery removes.
pub(super) const LEFTOVERS_MAX: usize = 1_000;
/// How old these are: nobody writes messages for so long before they are delivered.
pub(super) const LEFTOVER_AGE: std::time::Duration = std::time::Duration::from_secs(3_600);
/// Files that tell an MH folder: those of NeoMutt's probe, and the later ones of Claws Mail.
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
/// The current message of nmh; no flag, and left alone.
pub(super) const CURRENT: &[u8] = b"cur";
/// The sequences of flags: those of NeoMutt, and two more for flags that it does not keep.
pub(super) const FLAG_SEQUENCES: [(&[u8], barid_types::Flag); 4] = [
    (b"replied", barid_types::Flag::Answered),
    (b"flagged", barid_types::Flag::Flagged),
    (b"deleted", barid_types::Flag::Deleted),
    (b"draft", barid_types::Flag::Draft),
];

/// The largest `.mh_sequences` that is read, in bytes.
pub(super) const SEQUENCES_LEN_MAX: u64 = 64 << 20;
/// The longest name of a sequence.
pub(super) const SEQUENCE_NAME_LEN_MAX: usize = 255;
/// The most messages that are looked at.
pub(super) const MESSAGES_MAX: usize = 1 << 28;
/// Messages of one chunk of a scan.
pub(super) const CHUNK_MESSAGES: usize = 512;
/// How often a folder that changes all the time is listed.
pub(super) const PASSES_MAX: u32 = 16;
/// Defects that a report holds at most.
pub(super) const DEFECTS_MAX: usize = 1_000;
/// How many numbers are tried for a message while others deliver, too.
pub(super) const NUMBER_TRIES_MAX: u32 = 1_000;
/// How many names are tried for a file that is being written.
pub(super) const NAME_TRIES_MAX: u32 = 100;
/// How long the lock of the sequences is waited for.
pub(super) const LOCK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
/// How long to wait between two attempts to take it.
pub(super) const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);
/// How long to wait for another process that gives out UIDs.
pub(super) const LEDGER_LOCK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
/// Beyond this next UID a new UIDVALIDITY is due, so that a scan never runs out of UIDs.
pub(super) const UIDNEXT_MAX: u32 = u32::MAX - (1 << 28);
/// Messages that are removed together: between two such batches a request to stop is noticed.
pub(super) const EXPUNGE_BATCH: usize = 512;

//! Names and limits of a Maildir (maildir(5), Dovecot 2.3 `maildir-storage.h`).

/// Where messages are until somebody has seen them.
pub(super) const NEW: &str = "new";
/// Where messages are afterwards, flags in their names.
pub(super) const CUR: &str = "cur";
/// Where messages are written before they are delivered by a rename.
pub(super) const TMP: &str = "tmp";
/// UIDs by base name.
pub(super) const UIDLIST: &str = "dovecot-uidlist";
/// What a new version of the UIDs is written to before it replaces the old one.
pub(super) const UIDLIST_TMP: &str = "dovecot-uidlist.tmp";
/// The names of the keyword letters.
pub(super) const KEYWORDS: &str = "dovecot-keywords";
/// What a new version of the keywords is written to; at the same time its dotlock.
pub(super) const KEYWORDS_LOCK: &str = "dovecot-keywords.lock";

/// What ends the base name of a file.
pub(super) const INFO_SEP: u8 = b':';
/// What ends the flags.
pub(super) const FLAGS_SEP: u8 = b',';
/// Keyword letters there are, `a` to `z`.
pub(super) const LETTERS: usize = 26;

/// The longest file name that is looked at, in bytes; file systems stop at 255.
pub(super) const NAME_LEN_MAX: usize = 4096;
/// Bytes of all names of a Maildir that are held at once.
pub(super) const NAMES_LEN_MAX: usize = u32::MAX as usize;
/// The largest `dovecot-uidlist` that is read, in bytes.
pub(super) const UIDLIST_LEN_MAX: u64 = 1 << 31;
/// The largest `dovecot-keywords` that is read, in bytes.
pub(super) const KEYWORDS_LEN_MAX: u64 = 1 << 20;
/// The longest header that is read; the rest is left out, which is a defect.
pub(super) const HEADER_LEN_MAX: usize = 16 << 20;
/// Bytes of a message read at first: the whole of most.
pub(super) const HEAD_LEN: usize = 16 << 10;
/// Messages of one chunk of a scan.
pub(super) const CHUNK_MESSAGES: usize = 512;
/// How often directories are listed before a name that hides behind renames is given up.
pub(super) const PASSES_MAX: u32 = 16;
/// How many listings in a row must bring no new name before a directory is believed that may change
/// within one clock tick.
pub(super) const PASSES_WITHOUT_NEWS: u32 = 3;
/// How many of one that was seen to change: each may pass by a name that is renamed meanwhile, so
/// that a name renamed all the time may stay unseen a few times in a row.
pub(super) const PASSES_UNDER_CHANGE: u32 = 7;
/// How often the directories are listed again during one scan for messages renamed meanwhile.
pub(super) const RELISTS_MAX: u32 = 64;
/// How often a message is looked for under another name before it counts as gone.
pub(super) const RENAME_RETRIES_MAX: u32 = 10;
/// Names without a file that the state remembers; beyond, `dovecot-uidlist` is read whole.
pub(super) const ORPHANS_MAX: usize = 16_384;
/// Messages that could not be read that the state remembers; beyond, the next scan reads the whole
/// Maildir anew.
pub(super) const UNREAD_MAX: usize = 16_384;
/// Messages that cannot be read that are named; more are only counted.
pub(super) const UNREAD_NAMED_MAX: usize = 100;
/// Defects that a report holds at most.
pub(super) const DEFECTS_MAX: usize = 1_000;
/// How long the lock of the UIDs is waited for.
pub(super) const LOCK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
/// How long is waited for it before a request to stop is noticed.
pub(super) const LOCK_SLICE: std::time::Duration = std::time::Duration::from_millis(500);
/// How many unique names are tried before a delivery is given up.
pub(super) const NAME_TRIES_MAX: u32 = 100;
/// Beyond this next UID a new UIDVALIDITY is due, so that a scan never runs out of UIDs.
pub(super) const UIDNEXT_MAX: u32 = u32::MAX - (1 << 28);
/// Messages that are removed together: between two such batches a request to stop is noticed.
pub(super) const EXPUNGE_BATCH: usize = 512;

/// The most new files in folders at rest that are checked for a writer before they get UIDs.
pub(super) const ARRIVALS_LOOKED_AT_MAX: usize = 4096;

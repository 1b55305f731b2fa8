//! Names and limits of a Maildir (maildir(5), Dovecot 2.3 `maildir-storage.h`).

/// Folder of messages that nobody has seen yet.
pub(super) const NEW: &str = "new";
/// Folder of the other messages, with flags in their names.
pub(super) const CUR: &str = "cur";
/// Folder in which messages are written before a rename delivers them.
pub(super) const TMP: &str = "tmp";
/// UIDs by base name.
pub(super) const UIDLIST: &str = "dovecot-uidlist";
/// New version of the UIDs before it replaces the old one.
pub(super) const UIDLIST_TMP: &str = "dovecot-uidlist.tmp";
/// The names of the keyword letters.
pub(super) const KEYWORDS: &str = "dovecot-keywords";
/// New version of the keywords; at the same time its dotlock.
pub(super) const KEYWORDS_LOCK: &str = "dovecot-keywords.lock";

/// End of the base name of a file.
pub(super) const INFO_SEP: u8 = b':';
/// End of the flags.
pub(super) const FLAGS_SEP: u8 = b',';
/// Number of keyword letters, `a` to `z`.
pub(super) const LETTERS: usize = 26;

/// The longest file name that is accepted, in bytes; file systems allow 255.
pub(super) const NAME_LEN_MAX: usize = 4096;
/// Maximum number of bytes of all names of a Maildir.
pub(super) const NAMES_LEN_MAX: usize = u32::MAX as usize;
/// The largest `dovecot-uidlist` that is read, in bytes.
pub(super) const UIDLIST_LEN_MAX: u64 = 1 << 31;
/// Length in bytes of what was appended to a uidlist since the last scan, up to which an append
/// reads it.
pub(super) const UIDLIST_TAIL_LEN_MAX: u64 = 64 * 1024;
/// The longest first line of `dovecot-uidlist` that is read without the others, in bytes.
pub(super) const HEADER_LINE_MAX: usize = 4096;
/// The length in bytes within which nearly all first lines end.
pub(super) const SHORT_HEADER_LINE_LEN: usize = 128;
/// The largest `dovecot-keywords` that is read, in bytes.
pub(super) const KEYWORDS_LEN_MAX: u64 = 1 << 20;
/// The longest header that is read, in bytes; the rest is left out, which is a defect.
pub(super) const HEADER_LEN_MAX: usize = 16 << 20;
/// Number of bytes in the first read of a message; most messages are shorter.
pub(super) const HEAD_LEN: usize = 16 << 10;
/// Messages of one chunk of a scan.
pub(super) const CHUNK_MESSAGES: usize = 512;
/// Messages in `new` up to which they are looked up one by one, when only `new` has changed.
pub(super) const NEW_LOADED_MAX: usize = 256;
/// Maximum number of consecutive listings, each disturbed by renames, after which the search for a
/// name that none of them showed ends. That proves nothing: the message does not count as gone.
pub(super) const PASSES_MAX: u32 = 16;
/// Number of consecutive listings without a new name after which the listing of a directory is
/// trusted that may change within one clock tick.
pub(super) const PASSES_WITHOUT_NEWS: u32 = 3;
/// The same for a directory that was seen to change: each listing may miss a name that is renamed
/// meanwhile, so a name that is renamed all the time may be missed several times in a row. Also the
/// number of listings without a name after which it counts as gone if nothing seems to change, but
/// the clock of the file system is too coarse to wait for its next tick.
pub(super) const PASSES_UNDER_CHANGE: u32 = 7;
/// Maximum number of repeated listings in one scan or change, for messages renamed meanwhile. If
/// all of 100,000 messages are renamed each second, a scan needs about 400.
pub(super) const RELISTS_MAX: u32 = 4096;
/// Names without a file that the state stores; beyond that, `dovecot-uidlist` is read whole.
pub(super) const ORPHANS_MAX: usize = 16_384;
/// Unreadable messages that the state stores; beyond, the next scan reads the whole Maildir again.
pub(super) const UNREAD_MAX: usize = 16_384;
/// Unreadable messages that are listed; more are only counted.
pub(super) const UNREAD_NAMED_MAX: usize = 100;
/// Maximum number of defects in a report.
pub(super) const DEFECTS_MAX: usize = 1_000;
/// Timeout of the lock of the UIDs.
pub(super) const LOCK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
/// Time waited for it before a request to stop is noticed.
pub(super) const LOCK_SLICE: std::time::Duration = std::time::Duration::from_millis(500);
/// Maximum number of names tried before a delivery or a rename fails.
pub(super) const NAME_TRIES_MAX: u32 = 100;
/// Beyond this next UID a new UIDVALIDITY is due, so that a scan never runs out of UIDs.
pub(super) const UIDNEXT_MAX: u32 = u32::MAX - (1 << 28);
/// Messages that are removed together: between two such batches a request to stop is noticed.
pub(super) const EXPUNGE_BATCH: usize = 512;

/// Maximum number of new files in unchanged folders that are checked for a writer before they get
/// UIDs.
pub(super) const ARRIVALS_LOOKED_AT_MAX: usize = 4096;

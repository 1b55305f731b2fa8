//! The bounds of this crate.

use std::time::Duration;

/// Length of a mailbox name in bytes, as UTF-8; that of `barid_imap`.
pub(crate) const NAME_LEN_MAX: usize = barid_imap::limits::MAILBOX_NAME_LEN_MAX;
/// Length of a file name in bytes: `NAME_MAX` of Linux.
pub(crate) const FILE_NAME_LEN_MAX: usize = 255;
/// Length of the name of a mailbox that is a file: lock files, journals and temporary files beside
/// it have longer names.
pub(crate) const MAILBOX_FILE_NAME_LEN_MAX: usize = 200;
/// Length of a path in bytes, so that the paths of messages below it are within `PATH_MAX`.
pub(crate) const PATH_LEN_MAX: usize = 3500;
/// Number of levels of a name: the search for folders goes no deeper.
pub(crate) const LEVELS_MAX: usize = 30;
/// Size of a file of subscriptions in bytes.
pub(crate) const SUBSCRIPTIONS_LEN_MAX: u64 = 16 << 20;
/// Size of the file of names in bytes.
pub(crate) const NAMES_LEN_MAX: u64 = 64 << 20;
/// Size of the journal in bytes: the names, and the steps.
pub(crate) const JOURNAL_LEN_MAX: u64 = 2 * NAMES_LEN_MAX;
/// Number of entries of a root that are looked at to detect its layout.
pub(crate) const DETECTED_MAX: usize = 10_000;
/// Number of files and folders that a creation makes at most.
pub(crate) const REST_ENTRIES_MAX: usize = 16;
/// Number of entries in a directory of which the content is moved without its subfolders.
pub(crate) const CONTENT_ENTRIES_MAX: usize = 10_000_000;
/// Number of files and folders of a deleted mailbox that are removed at one purge.
pub(crate) const PURGE_ENTRIES_MAX: usize = 1_000_000;
/// The same at a deletion, so that nobody waits for it.
pub(crate) const DELETE_PURGE_ENTRIES_MAX: usize = 10_000;
/// Number of deleted mailboxes that are kept; beyond, the oldest are removed.
pub(crate) const DELETED_MAX: usize = 1000;
/// Time for which a deleted mailbox is kept by default.
pub(crate) const KEEP_DELETED: Duration = Duration::from_secs(30 * 24 * 3600);
/// Number of UIDVALIDITYs that are remembered of the mailboxes that had a name; beyond, the lowest
/// are forgotten.
pub(crate) const PAST_MAX: usize = 64;
/// Number of names of which something is remembered; beyond, UIDVALIDITYs are forgotten.
pub(crate) const PAST_NAMES_MAX: usize = 10_000;
/// Number of metadata entries of one mailbox (RFC 5464, `METADATA TOOMANY`).
pub(crate) const METADATA_ENTRIES_MAX: usize = 100;
/// Size of a metadata value in bytes (RFC 5464, `METADATA MAXSIZE`).
pub(crate) const METADATA_VALUE_LEN_MAX: usize = 64 << 10;
/// Length of the name of a metadata entry in bytes.
pub(crate) const METADATA_NAME_LEN_MAX: usize = 1000;
/// Size of all metadata of an account in bytes.
pub(crate) const METADATA_LEN_MAX: usize = 8 << 20;
/// Number of special uses of one mailbox.
pub(crate) const USES_MAX: usize = 8;
/// Timeout of the lock of the tree.
pub(crate) const TREE_LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of the lock of the subscriptions, and age at which it is stale; Dovecot's are 120 s and
/// 30 s.
pub(crate) const SUBSCRIPTIONS_LOCK_TIMEOUT: Duration = Duration::from_secs(60);
/// As [`SUBSCRIPTIONS_LOCK_TIMEOUT`].
pub(crate) const SUBSCRIPTIONS_LOCK_STALE: Duration = Duration::from_secs(30);
/// Number of searches for folders while the tree keeps changing; the last one counts.
pub(crate) const SEARCHES_MAX: u32 = 5;

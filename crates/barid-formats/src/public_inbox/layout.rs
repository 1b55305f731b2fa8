//! Names and limits of an archive.

/// The folder of the epochs.
pub(super) const EPOCHS: &str = "git";
/// The end of the name of an epoch, after its number.
pub(super) const EPOCH_SUFFIX: &str = ".git";

/// Number of epochs of an archive.
pub(super) const EPOCHS_MAX: usize = 10_000;
/// Number of commits of one epoch.
pub(super) const COMMITS_MAX: usize = 1 << 28;
/// Messages of one chunk of a scan.
pub(super) const CHUNK_MESSAGES: usize = 512;
/// Number of readers, with their caches, that are kept for the next message.
pub(super) const READERS_MAX: usize = 8;
/// Number of messages that could not be read and are listed in the state of a scan. With more, the
/// next scan reads all commits.
pub(super) const UNREAD_MAX: usize = 1_000;
/// Number of defects in a report.
pub(super) const DEFECTS_MAX: usize = 1_000;
/// Timeout of the lock of the ledger, held by another process that gives out UIDs.
pub(super) const LEDGER_LOCK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
/// Beyond this next UID a new UIDVALIDITY is due, so that a scan never runs out of UIDs.
pub(super) const UIDNEXT_MAX: u32 = u32::MAX - (1 << 28);

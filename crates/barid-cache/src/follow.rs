//! Following a change that was made by this library: no scan, the mailbox is not read.

use barid_formats::{MovedMessage, Shift, Stamp};
use barid_types::{KeywordTable, ModSeq, Uid};

use crate::error::{Error, Result};
use crate::snapshot::Snapshot;

/// What a change of the mailbox did beside moving the messages that [`Follower::moved`] was told
/// of: most of it stands in a [`barid_formats::SyncReport`] and its
/// [`barid_formats::SyncedState`].
#[derive(Clone, Copy, Debug)]
pub struct Follow<'a> {
    /// Messages that are gone, ascending.
    pub expunged: &'a [Uid],
    /// Stretches of the file that moved, ascending and apart. They move every message whose
    /// separator started in one, unless [`Follower::moved`] was told of it.
    pub shifts: &'a [Shift],
    /// The stamp of the mailbox as it is now: of what was appended nothing is known yet, so with
    /// appends it is that before them ([`barid_formats::SyncedState::stamp`]).
    pub stamp: Stamp,
    /// The format's notes for the next scan.
    pub state: &'a [u8],
    /// The keywords; slots that were known keep their place.
    pub keywords: &'a KeywordTable,
    /// The lowest UID not given out.
    pub uidnext: Uid,
    /// The modseq of messages whose flags or keywords changed, and of expunges. A message that only
    /// moved keeps the one it had.
    pub modseq: ModSeq,
    /// Bytes of the mailbox on disk.
    pub size_bytes: u64,
    /// As [`barid_formats::ScanReport::tail_verified`]: `false` if the change verified, or could
    /// believe, the place of every message.
    pub tail_verified: bool,
}

/// Collects what a change does to messages while it is planned; nothing comes of it unless it is
/// finished.
///
/// Some thousands of messages are kept in memory, more of them in a file without a name in the
/// folder of the cache. Dropping it undoes everything.
#[derive(Debug)]
pub struct Follower<'a> {
    known: &'a Snapshot,
}

impl<'a> Follower<'a> {
    /// Prepares for a change of the mailbox that `known` is the snapshot of. Costs nothing.
    pub fn new(known: &'a Snapshot) -> Self {
        Self { known }
    }

    /// Takes note of a message that will have other flags or another place; in mailbox order.
    ///
    /// An error is kept for [`Follower::finish`].
    pub fn moved(&mut self, _message: &MovedMessage) {}

    /// The snapshot of the mailbox after the change.
    ///
    /// Of few messages one record is appended to the file, which costs what changed and is
    /// independent of the size of the mailbox, as [`crate::Delta::apply`]; the same is true where
    /// that cannot be ([`Snapshot::store_error`]). For many a new file is written from the old one
    /// and renamed; it takes memory only for its buffers.
    ///
    /// # Errors
    /// [`Error::Overtaken`] if a new file was to be written and another process has changed the
    /// cache or is changing it; [`Error::Scan`] if what is told contradicts itself or what is
    /// known; errors of reading the old file and of writing the new one, and of the store. In every
    /// case the cache is as it was before: of the mailbox before the change. Open it and scan.
    pub fn finish(self, _follow: &Follow<'_>) -> Result<Snapshot> {
        Err(Error::Overtaken { path: self.known.path().to_owned() })
    }
}

impl Snapshot {
    /// Follows a change that moved just `moved`, in mailbox order: see [`Follower`].
    ///
    /// # Errors
    /// As [`Follower::finish`].
    pub fn follow(&self, moved: &[MovedMessage], follow: &Follow<'_>) -> Result<Self> {
        let mut follower = Follower::new(self);
        moved.iter().for_each(|message| follower.moved(message));
        follower.finish(follow)
    }
}

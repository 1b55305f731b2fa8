//! What a scan is given and what it gives.

use barid_state::{Ledger, MessageKey};
use barid_types::{FlagSet, InternalDate, KeywordMask, KeywordTable, Uid, UidValidity};

use crate::{Location, Result, SinkError, Stamp};

/// One message that is known from an earlier scan.
#[derive(Clone, Copy, Debug)]
pub struct KnownMessage<'a> {
    /// Its UID.
    pub uid: Uid,
    /// Its flags as last seen.
    pub flags: FlagSet,
    /// Its keywords as last seen.
    pub keywords: KeywordMask,
    /// Where it was.
    pub location: Location<'a>,
    /// What it was.
    pub key: MessageKey,
    /// Bytes of its header and body as stored.
    pub size: u64,
}

/// What an earlier scan left behind; the cache implements it. Messages are in mailbox order, which
/// is ascending by UID.
pub trait Known: Sync {
    /// The stamp of that scan; `None` if there was none, and then nothing else is known either.
    fn stamp(&self) -> Option<Stamp>;
    /// What the format wrote to [`ScanReport::state`].
    fn state(&self) -> &[u8];
    /// The UIDVALIDITY under which the UIDs are known.
    fn uidvalidity(&self) -> Option<UidValidity>;
    /// The lowest UID that was never given out.
    fn uidnext(&self) -> Option<Uid>;
    /// The keywords; their slots are the bits of [`KnownMessage::keywords`].
    fn keywords(&self) -> &KeywordTable;
    /// Whether that scan, or one before it, read only the tail of the mailbox and nothing has
    /// verified the rest since ([`ScanReport::tail_verified`]).
    fn tail_verified(&self) -> bool {
        false
    }
    /// How many messages there are.
    fn len(&self) -> u32;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Where the message `uid` is in mailbox order, counted from 0; `None` if it is not known.
    /// O(n) unless overridden.
    fn position(&self, uid: Uid) -> std::result::Result<Option<u32>, SinkError> {
        let (mut at, mut found) = (0, None);
        self.visit(0, &mut |message| {
            if message.uid == uid {
                found = Some(at);
            }
            at += 1;
            message.uid < uid
        })?;
        Ok(found)
    }
    /// Visits the messages from `first` (counted from 0) on until `visit` says `false`.
    fn visit(
        &self,
        first: u32,
        visit: &mut dyn FnMut(&KnownMessage<'_>) -> bool,
    ) -> std::result::Result<(), SinkError>;
}

/// The [`Known`] of a mailbox never seen before.
#[derive(Clone, Debug, Default)]
pub struct EmptyKnown(KeywordTable);

impl Known for EmptyKnown {
    fn stamp(&self) -> Option<Stamp> {
        None
    }
    fn state(&self) -> &[u8] {
        &[]
    }
    fn uidvalidity(&self) -> Option<UidValidity> {
        None
    }
    fn uidnext(&self) -> Option<Uid> {
        None
    }
    fn keywords(&self) -> &KeywordTable {
        &self.0
    }
    fn len(&self) -> u32 {
        0
    }
    fn visit(
        &self,
        _first: u32,
        _visit: &mut dyn FnMut(&KnownMessage<'_>) -> bool,
    ) -> std::result::Result<(), SinkError> {
        Ok(())
    }
}

/// One message as it is found.
#[derive(Clone, Copy, Debug)]
pub struct ScannedMessage<'a> {
    /// Its UID if the format knows it already; else it follows in [`ScanReport::new_uids`].
    pub uid: Option<Uid>,
    /// Where it is.
    pub location: Location<'a>,
    /// The bytes of its header as stored, blank line included where there is one. Bounded by
    /// `limits::HEADER_LEN_MAX`; what is longer is cut and is a defect.
    pub header: &'a [u8],
    /// Bytes of header and body as stored.
    pub size: u64,
    /// RFC822.SIZE (line ends counted as CRLF, owned fields left out), if it cost nothing to find.
    pub rfc822_size: Option<u64>,
    /// When it arrived.
    pub internal_date: InternalDate,
    /// Its flags.
    pub flags: FlagSet,
    /// Its keywords, by slots of [`ScanReport::keywords`].
    pub keywords: KeywordMask,
    /// What it is.
    pub key: MessageKey,
}

/// Takes the new messages of one chunk, in mailbox order.
pub trait ScanSink {
    /// Takes one message.
    fn message(&mut self, message: &ScannedMessage<'_>) -> std::result::Result<(), SinkError>;
    /// Takes note that the chunk is complete. A sink dropped without it is void.
    fn finish(self: Box<Self>) -> std::result::Result<(), SinkError>;
}

/// Makes a sink for each chunk.
pub trait Sinks: Sync {
    /// The sink of chunk `chunk`. Chunks are numbered from 0 in mailbox order, may be taken in any
    /// order and from any thread, and may be empty.
    fn sink(&self, chunk: u32) -> Box<dyn ScanSink + '_>;
    /// Told before the first sink is made, if the format already knows that nothing known will hold
    /// and that every message of the mailbox will come ([`ScanReport::reset`]).
    fn expect_whole(&self) {}
}

/// What a scan may use beside the mailbox.
pub struct ScanContext<'a> {
    /// Where UIDs go that the format cannot hold. A scan that gives out such UIDs leaves them
    /// pending and the ledger locked; the caller commits before it tells anybody, and unlocks.
    pub ledger: &'a mut Ledger,
    /// Write nothing beside the mailbox either (`dovecot-uidlist`).
    pub read_only: bool,
    /// Believe no stamp and no tail: compare every message.
    pub full_check: bool,
    /// How many threads may work; 0 for as many as there are cores.
    pub threads: usize,
    /// Told now and then how far the scan is: bytes or messages done, and of how many.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
}

/// A known message of which something changed but its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedMessage {
    /// Which.
    pub uid: Uid,
    /// Its flags now.
    pub flags: FlagSet,
    /// Its keywords now.
    pub keywords: KeywordMask,
    /// Its file name now and whether it is in `new`, if it is a file and either changed.
    pub file: Option<(Vec<u8>, bool)>,
}

/// What kind of defect a [`MailboxDefect`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefectKind {
    /// The mailbox is not made as it should be; nothing is missing.
    Structure,
    /// Messages are being written by another program, as it seems, and have no UIDs yet. They are
    /// looked at again at every scan.
    Arriving,
    /// A message cannot be read now, and so nothing but its place is known. It is tried again: see
    /// [`crate::Mailbox::has_unread`].
    Unreadable,
}

/// Something wrong with the mailbox itself that did not stop the scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxDefect {
    /// What kind.
    pub kind: DefectKind,
    /// Where in the file; 0 in a Maildir.
    pub offset: u64,
    /// The message it concerns, if one.
    pub uid: Option<Uid>,
    /// What is wrong, in a few words.
    pub what: String,
}

/// What a scan cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanStats {
    /// Messages whose bytes were read.
    pub messages_read: u64,
    /// Bytes of the mailbox read.
    pub bytes_read: u64,
    /// Directories listed.
    pub dirs_listed: u32,
}

/// What a scan found.
#[derive(Clone, Debug)]
pub struct ScanReport {
    /// The first stamp taken: the one that what was found is true of.
    pub stamp: Stamp,
    /// The format's own notes for the next scan.
    pub state: Vec<u8>,
    /// The UIDVALIDITY.
    pub uidvalidity: UidValidity,
    /// The lowest UID not given out yet.
    pub uidnext: Uid,
    /// The keywords. Slots that were known keep their place unless `reset`.
    pub keywords: KeywordTable,
    /// Nothing that was known holds: the new messages are the whole mailbox. (UIDs may still be the
    /// known ones.)
    pub reset: bool,
    /// Known messages that are gone, ascending.
    pub expunged: Vec<Uid>,
    /// Known messages that changed, ascending by UID.
    pub changed: Vec<ChangedMessage>,
    /// UIDs of the messages that went to sinks without one: chunk by chunk, in order.
    pub new_uids: Vec<Uid>,
    /// Only the tail of the file was read: what is known of the rest is to be verified when it is
    /// fetched.
    pub tail_verified: bool,
    /// Bytes of the mailbox on disk, as far as known without extra cost.
    pub size_bytes: u64,
    /// What is wrong with the mailbox.
    pub defects: Vec<MailboxDefect>,
    /// What it cost.
    pub stats: ScanStats,
}

impl ScanContext<'_> {
    /// How many threads to use. Asks the system, which costs several calls, so only what has work
    /// for more than one asks.
    pub fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, |count| count.get()),
            count => count,
        }
    }

    /// Reports progress.
    pub fn report(&self, done: u64, total: u64) {
        if let Some(progress) = self.progress {
            progress(done, total);
        }
    }
}

/// A known error passes as a sink error.
pub(crate) fn sink_error<T>(result: std::result::Result<T, SinkError>) -> Result<T> {
    result.map_err(crate::Error::Sink)
}

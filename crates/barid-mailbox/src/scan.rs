//! Input and output of a scan.

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
    /// Its location at that time.
    pub location: Location<'a>,
    /// Its message key.
    pub key: MessageKey,
    /// Bytes of its header and body as stored.
    pub size: u64,
}

/// One message that is known from an earlier scan, without its name.
#[derive(Clone, Copy, Debug)]
pub struct KnownKey {
    /// Its UID.
    pub uid: Uid,
    /// Its message key.
    pub key: MessageKey,
    /// Bytes of its header and body as stored.
    pub size: u64,
    /// `true` if it is a file in `new`.
    pub in_new: bool,
}

/// Result of earlier scans; the cache implements it. Messages are in mailbox order, which is
/// ascending by UID.
pub trait Known: Sync {
    /// Returns the stamp of that scan; `None` if there was none, and then at most UIDVALIDITY and
    /// UIDNEXT are known.
    fn stamp(&self) -> Option<Stamp>;
    /// Returns the bytes that the format wrote to [`ScanReport::state`].
    fn state(&self) -> &[u8];
    /// Returns the UIDVALIDITY under which the UIDs are known.
    fn uidvalidity(&self) -> Option<UidValidity>;
    /// Returns the lowest UID that was never given out.
    fn uidnext(&self) -> Option<Uid>;
    /// Returns the keywords; their slots are the bits of [`KnownMessage::keywords`].
    fn keywords(&self) -> &KeywordTable;
    /// Returns `true` if that scan, or one before it, read only the tail of the mailbox and nothing
    /// has verified the rest since ([`ScanReport::tail_verified`]).
    fn tail_verified(&self) -> bool {
        false
    }
    /// Returns the number of messages.
    fn len(&self) -> u32;
    /// Returns `true` if there are no messages.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the row of the message `uid`, counted from 0; `None` if it is not known. O(n) unless
    /// overridden.
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
    /// Visits the messages from row `first` (counted from 0) on until `visit` returns `false`.
    fn visit(
        &self,
        first: u32,
        visit: &mut dyn FnMut(&KnownMessage<'_>) -> bool,
    ) -> std::result::Result<(), SinkError>;
    /// Visits all messages, without their names, until `visit` returns `false`. As slow as
    /// [`Known::visit`] unless overridden.
    fn visit_keys(
        &self,
        visit: &mut dyn FnMut(KnownKey) -> bool,
    ) -> std::result::Result<(), SinkError> {
        self.visit(0, &mut |message| {
            let KnownMessage { uid, key, size, .. } = *message;
            let in_new = message.location.message_name().is_some_and(|name| name.in_new);
            visit(KnownKey { uid, key, size, in_new })
        })
    }
}

/// The [`Known`] of a mailbox never seen before, or of which only these numbers are valid.
#[derive(Clone, Debug, Default)]
pub struct EmptyKnown {
    keywords: KeywordTable,
    announced: Option<(UidValidity, Uid)>,
}

impl EmptyKnown {
    /// Creates the value for a mailbox whose UIDVALIDITY and UIDNEXT were announced, if they were.
    pub fn announced(announced: Option<(UidValidity, Uid)>) -> Self {
        Self { announced, ..Self::default() }
    }
}

impl Known for EmptyKnown {
    fn stamp(&self) -> Option<Stamp> {
        None
    }
    fn state(&self) -> &[u8] {
        &[]
    }
    fn uidvalidity(&self) -> Option<UidValidity> {
        self.announced.map(|announced| announced.0)
    }
    fn uidnext(&self) -> Option<Uid> {
        self.announced.map(|announced| announced.1)
    }
    fn keywords(&self) -> &KeywordTable {
        &self.keywords
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

/// A message found by a scan.
#[derive(Clone, Copy, Debug)]
pub struct ScannedMessage<'a> {
    /// Its UID if the format knows it already; otherwise it follows in [`ScanReport::new_uids`].
    pub uid: Option<Uid>,
    /// Its location.
    pub location: Location<'a>,
    /// The bytes of its header as stored, with the blank line if there is one. A header longer than
    /// `limits::HEADER_LEN_MAX` is cut, which is a defect.
    pub header: &'a [u8],
    /// Bytes of header and body as stored.
    pub size: u64,
    /// RFC822.SIZE (line ends counted as CRLF, owned fields left out), if it cost nothing to find.
    pub rfc822_size: Option<u64>,
    /// Its internal date.
    pub internal_date: InternalDate,
    /// Its flags.
    pub flags: FlagSet,
    /// Its keywords, by slots of [`ScanReport::keywords`].
    pub keywords: KeywordMask,
    /// Its message key.
    pub key: MessageKey,
}

/// A receiver of the new messages of one chunk, in mailbox order.
pub trait ScanSink {
    /// Receives one message.
    fn message(&mut self, message: &ScannedMessage<'_>) -> std::result::Result<(), SinkError>;
    /// Completes the chunk. If a sink is dropped before this call, the messages that it received
    /// are void.
    fn finish(self: Box<Self>) -> std::result::Result<(), SinkError>;
}

/// A source of sinks, one for each chunk.
pub trait Sinks: Sync {
    /// Returns the sink of chunk `chunk`. Chunks are numbered from 0 in mailbox order, may be
    /// requested in any order and from any thread, and may be empty.
    fn sink(&self, chunk: u32) -> Box<dyn ScanSink + '_>;
    /// Announces that nothing known will stay valid and that every message of the mailbox will come
    /// ([`ScanReport::reset`]). Called before the first sink is made, if the format already knows
    /// that.
    fn expect_whole(&self) {}
    /// Returns `true` if the `messages` messages of a mailbox of which nothing is known may come
    /// without their texts: location, flags, keywords, UID and key are right, all else is empty.
    /// The caller scans again before it uses anything else. A format asks that before the first
    /// sink is made, if it knows so much of a message without reading it.
    fn takes_names(&self, messages: usize) -> bool {
        let _ = messages;
        false
    }
}

/// Resources and options of a scan.
pub struct ScanContext<'a> {
    /// Ledger for UIDs that the format cannot store. A scan that gives out such UIDs leaves them
    /// pending and the ledger locked; the caller commits it before it announces them, and unlocks
    /// it.
    pub ledger: &'a mut Ledger,
    /// `true` to write nothing, not even beside the mailbox (`dovecot-uidlist`).
    pub read_only: bool,
    /// `true` to trust no stamp and no tail, and compare every message.
    pub full_check: bool,
    /// `true` if the caller will soon scan again. A name that another program's rename hides at
    /// this very moment may then be missing until that scan, which the stamp must require; known
    /// messages are never missing.
    pub will_rescan: bool,
    /// Maximum number of threads; 0 for as many as there are cores.
    pub threads: usize,
    /// Called now and then with the progress of the scan: bytes or messages done, and their total.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
}

/// A known message whose flags, keywords or file changed, but not its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedMessage {
    /// Its UID.
    pub uid: Uid,
    /// Its flags now.
    pub flags: FlagSet,
    /// Its keywords now.
    pub keywords: KeywordMask,
    /// Its file name now and `true` if it is in `new`; `None` if it is not a file or neither
    /// changed.
    pub file: Option<(Vec<u8>, bool)>,
}

/// Kind of a [`MailboxDefect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefectKind {
    /// The structure of the mailbox is wrong; nothing is missing.
    Structure,
    /// Another program seems to be writing messages, or keeps renaming them, so that they are left
    /// out. Every scan checks them again.
    Arriving,
    /// A message cannot be read now, so only its location is known. It is tried again: see
    /// [`crate::Storage::has_unread`].
    Unreadable,
}

/// Something wrong with the mailbox itself that did not stop the scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxDefect {
    /// Its kind.
    pub kind: DefectKind,
    /// Offset in the file, in bytes; 0 in a Maildir.
    pub offset: u64,
    /// The UID of the message concerned, if there is one.
    pub uid: Option<Uid>,
    /// Short description of the defect.
    pub what: String,
}

/// Cost of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanStats {
    /// Number of messages whose bytes were read.
    pub messages_read: u64,
    /// Number of bytes of the mailbox that were read.
    pub bytes_read: u64,
    /// Number of directories listed.
    pub dirs_listed: u32,
}

/// Result of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanReport {
    /// The first stamp taken, for which the result is valid.
    pub stamp: Stamp,
    /// Private notes of the format for the next scan.
    pub state: Vec<u8>,
    /// The UIDVALIDITY.
    pub uidvalidity: UidValidity,
    /// The lowest UID not given out yet.
    pub uidnext: Uid,
    /// The keywords. Slots that were known keep their place unless `reset`.
    pub keywords: KeywordTable,
    /// `true` if nothing known is valid any more: the new messages are the whole mailbox. (Their
    /// UIDs may still be the known ones.)
    pub reset: bool,
    /// Known messages that are gone, ascending.
    pub expunged: Vec<Uid>,
    /// Known messages that changed, ascending by UID.
    pub changed: Vec<ChangedMessage>,
    /// UIDs of the messages that were passed to sinks without one: chunk by chunk, in order.
    pub new_uids: Vec<Uid>,
    /// `true` if only the tail of the file was read. The rest is still to be verified, when it is
    /// fetched.
    pub tail_verified: bool,
    /// Bytes of the mailbox on disk, as far as known without extra cost.
    pub size_bytes: u64,
    /// Defects of the mailbox.
    pub defects: Vec<MailboxDefect>,
    /// Cost of the scan.
    pub stats: ScanStats,
}

impl ScanContext<'_> {
    /// Returns the number of threads to use. If `threads` is 0, it queries the system, which costs
    /// several calls; so call it only if there is work for more than one thread.
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

/// Converts the error of a `Known` or of a sink to [`crate::Error::Sink`].
pub fn sink_error<T>(result: std::result::Result<T, SinkError>) -> Result<T> {
    result.map_err(crate::Error::Sink)
}

//! The trait of every format.

use std::ops::Range;
use std::path::Path;

use barid_types::{Keyword, KeywordTable};

use crate::{
    ChangeSet, Known, Location, NewMessage, OpenMessage, ReadMessage, Recovered, Result,
    ScanContext, ScanReport, Sinks, Stamp, SyncContext, SyncReport, Unfinished,
};

/// A mailbox format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// A Maildir.
    Maildir,
    /// An mbox whose quoting is not undone (mboxo), the default of a detected mbox.
    Mboxo,
    /// An mbox with reversible quoting.
    Mboxrd,
    /// An mbox with quoting and Content-Length.
    Mboxcl,
    /// An mbox without quoting, with Content-Length.
    Mboxcl2,
    /// An MMDF mailbox.
    Mmdf,
    /// An mbx of c-client.
    Mbx,
    /// A mix mailbox, c-client's directory format.
    Mix,
    /// An MH folder.
    Mh,
}

impl Format {
    /// The name, as `status` tells it and as it stands before the colon of a forced format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Maildir => "maildir",
            Self::Mboxo => "mboxo",
            Self::Mboxrd => "mboxrd",
            Self::Mboxcl => "mboxcl",
            Self::Mboxcl2 => "mboxcl2",
            Self::Mmdf => "mmdf",
            Self::Mbx => "mbx",
            Self::Mix => "mix",
            Self::Mh => "mh",
        }
    }

    /// Whether a mailbox is a folder, not a file.
    pub const fn is_folder(self) -> bool {
        matches!(self, Self::Maildir | Self::Mix | Self::Mh)
    }

    /// Whether every message is a file of its own.
    pub const fn has_message_files(self) -> bool {
        matches!(self, Self::Maildir | Self::Mh)
    }
}

/// What a mailbox can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Messages can be appended.
    pub append: bool,
    /// Flags can be changed.
    pub flags: bool,
    /// Messages can be expunged.
    pub expunge: bool,
    /// How many keywords the format can store; 0 for none.
    pub keywords_max: u32,
    /// The longest keyword the format can store, in bytes.
    pub keyword_len_max: u32,
    /// Keywords may have characters beyond ASCII.
    pub keywords_beyond_ascii: bool,
    /// The mailbox itself keeps the UID of every message; else some may be in the ledger.
    pub uids: bool,
    /// A change of flags may cost a rewriting, so that collecting changes is worth while.
    pub delays: bool,
}

/// Which bytes of a message are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAs {
    /// The message: no From_ line or separator, quoting undone where the format is sure of it. The
    /// six header fields that formats own are still there.
    Message,
    /// [`ReadAs::Message`], but with its quoting: the header is the one that the key of the message
    /// is made of. [`Mailbox::unquote`] makes the message of it.
    Quoted,
    /// The bytes of the file, From_ line included.
    Stored,
}

/// Reads a range of bytes that are kept; `None` if that cannot be done, or they are damaged.
pub type ReadKept = dyn Fn(Range<u64>) -> Option<Vec<u8>> + Send + Sync;

/// A mailbox of any format.
///
/// `scan` and `read` may be called from any thread and by many processes at once; what changes the
/// mailbox takes `&mut self` and the format's locks.
pub trait Mailbox: std::fmt::Debug + Send + Sync {
    /// Its format.
    fn format(&self) -> Format;

    /// What it can do here and now.
    fn caps(&self) -> Caps;

    /// Its path.
    fn path(&self) -> &Path;

    /// The keywords that count against [`Caps::keywords_max`]; `known` is of the last scan. Reads a
    /// small file, or one header.
    ///
    /// # Errors
    /// What the file system says.
    fn listed_keywords(&self, known: &dyn Known) -> Result<KeywordTable> {
        Ok(known.keywords().clone())
    }

    /// Whether a keyword that is within the bounds of [`Mailbox::caps`] can be held. Costs nothing.
    fn can_hold_keyword(&self, keyword: &Keyword) -> bool {
        let _ = keyword;
        true
    }

    /// A few `stat` calls; reads and lists nothing.
    fn stamp(&self) -> Result<Stamp>;

    /// Whether the scan that left `state` ([`ScanReport::state`]) met messages that it could not
    /// read. They are worth another scan even if the stamp is what it was. Costs nothing.
    fn has_unread(&self, state: &[u8]) -> bool {
        let _ = state;
        false
    }

    /// Compares the mailbox with what is `known` of it.
    ///
    /// Every message that is not known goes to a sink, from as many threads as
    /// [`ScanContext::threads`] allows: the messages of a chunk in mailbox order, chunks numbered
    /// in mailbox order. UIDs are durable when this returns, or pending in the ledger
    /// ([`ScanContext::ledger`]). A message that vanishes
    /// meanwhile is left out; one that is only renamed is not.
    fn scan(
        &self,
        known: &dyn Known,
        sinks: &dyn Sinks,
        context: &mut ScanContext<'_>,
    ) -> Result<ScanReport>;

    /// Appends the bytes of one message to `buffer`; returns how many of them are separator and
    /// header (up to and including the blank line). What is not there any more is
    /// [`crate::Error::MessageGone`]; the caller scans again. A message of more than
    /// [`crate::WHOLE_LEN_MAX`] bytes is [`crate::Error::MessageTooLarge`].
    fn read(&self, location: &Location<'_>, read_as: ReadAs, buffer: &mut Vec<u8>)
    -> Result<usize>;

    /// [`Mailbox::read`] of a location that was found when the mailbox bore `stamp`. If it bears
    /// another now, bytes that a process moves right now are waited for, and those that a crash has
    /// left half moved are [`crate::Error::MessageGone`]; that the message is still the same is for
    /// the caller to check. Costs what [`Mailbox::read`] does where the stamp is the same.
    fn read_known(
        &self,
        location: &Location<'_>,
        read_as: ReadAs,
        stamp: &Stamp,
        buffer: &mut Vec<u8>,
    ) -> Result<usize> {
        let _ = stamp;
        self.read(location, read_as, buffer)
    }

    /// Opens a message of any size, which was found when the mailbox bore `stamp`, for reading
    /// piece by piece. Reads nothing but its separator. What is not there any more, or may be
    /// moved, is [`crate::Error::MessageGone`]; that the message is still the same is for the
    /// caller to check.
    fn open_message(&self, location: &Location<'_>, stamp: &Stamp) -> Result<OpenMessage<'_>>;

    /// Reads messages that were found when the mailbox bore `stamp`, each as by
    /// [`Mailbox::read_known`], into `buffer`, whatever is in it; what was read in the order of
    /// `locations`. Neighbours of one file are read with one call, so it costs least where
    /// locations ascend.
    fn read_many(
        &self,
        locations: &[Location<'_>],
        read_as: ReadAs,
        stamp: &Stamp,
        buffer: &mut Vec<u8>,
    ) -> Vec<Result<ReadMessage>> {
        buffer.clear();
        let mut read = |location: &Location<'_>| {
            let start = buffer.len();
            let header_len = self.read_known(location, read_as, stamp, buffer)?;
            Ok(ReadMessage { range: start..buffer.len(), header_len })
        };
        locations.iter().map(&mut read).collect()
    }

    /// Returns `true` if reading is faster with restart points, which a compressed mailbox learns
    /// while it is read. No answer depends on them.
    fn has_restart_points(&self) -> bool {
        false
    }

    /// Takes restart points that [`Mailbox::restart_points_to_keep`] returned, however long ago:
    /// `len` bytes, of which as many are read as are needed. Those of another state of the mailbox
    /// are ignored.
    fn take_restart_points(&self, len: u64, kept: Box<ReadKept>) {
        let _ = (len, kept);
    }

    /// Returns the restart points, if so many are new that they are worth being kept.
    fn restart_points_to_keep(&self) -> Option<Vec<u8>> {
        None
    }

    /// Gives the file of a message the name `to` as well. Returns `false` if that cannot be done:
    /// the message is not a file of its own, `to` is on another file system, or the file may be
    /// changed in place by who has it under another name. Not durable before the folder of `to` is
    /// synced. What is not there any more is [`crate::Error::MessageGone`].
    fn link(&self, location: &Location<'_>, to: &Path) -> Result<bool> {
        let _ = (location, to);
        Ok(false)
    }

    /// Whether [`Mailbox::unquote`] would change what was read as [`ReadAs::Quoted`]. O(bytes)
    /// where the format has quoting that can be undone, else nothing.
    fn is_quoted(&self, text: &[u8]) -> bool {
        let _ = text;
        false
    }

    /// Makes of what was read as [`ReadAs::Quoted`], with a header of `header_len` bytes, what
    /// [`ReadAs::Message`] gives; returns how long its header is then. O(bytes) where the format
    /// has quoting that can be undone, else nothing.
    fn unquote(&self, buffer: &mut Vec<u8>, header_len: usize) -> usize {
        let _ = buffer;
        header_len
    }

    /// Applies changes and appends in one pass.
    ///
    /// Commit point and fsync order are documented by each format.
    fn sync(
        &mut self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
        context: &mut SyncContext<'_>,
    ) -> Result<SyncReport>;

    /// Returns `true` if a change was begun and not finished (docs/protocol.md, "Open", step 1). A
    /// few system calls; takes no lock, so what it finds may be going on in another process.
    fn unfinished(&self, state_dir: Option<&Path>) -> Result<Option<Unfinished>> {
        let _ = state_dir;
        Ok(None)
    }

    /// As [`Mailbox::unfinished`], but waits for a process that is about it, if its locks can be
    /// waited for without writing. Costs the same where nothing is unfinished.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    fn abandoned(&self, state_dir: Option<&Path>) -> Result<Option<Unfinished>> {
        self.unfinished(state_dir)
    }

    /// Completes a change that was begun and not finished; waits for a process that is about it.
    fn recover(&mut self, context: &mut SyncContext<'_>) -> Result<Recovered> {
        let _ = context;
        Ok(Recovered::default())
    }
}

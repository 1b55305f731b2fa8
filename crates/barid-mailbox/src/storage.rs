//! The trait of every format.

use std::ops::Range;
use std::path::{Path, PathBuf};

use barid_state::Identity;
use barid_types::{Keyword, KeywordTable, UidValidity};
use barid_vfs::Metadata;

use crate::{
    ChangeSet, Format, Known, Location, NewMessage, OpenMessage, Recovered, Result, ScanContext,
    ScanReport, Sinks, Stamp, StampRules, SyncContext, SyncReport, Unfinished,
};

/// Capabilities of a mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// `true` if messages can be appended.
    pub append: bool,
    /// `true` if flags can be changed.
    pub flags: bool,
    /// `true` if messages can be expunged.
    pub expunge: bool,
    /// Maximum number of keywords the format can store; 0 for none.
    pub keywords_max: u32,
    /// The longest keyword the format can store, in bytes.
    pub keyword_len_max: u32,
    /// `true` if keywords may have characters beyond ASCII.
    pub keywords_beyond_ascii: bool,
    /// `true` if the mailbox itself stores the UID of every message; otherwise some may be in the
    /// ledger.
    pub uids: bool,
    /// `true` if a change of flags may rewrite the mailbox, so that it is better to collect
    /// changes.
    pub delays: bool,
    /// `true` if the mailbox need not be scanned after an append, and before another
    /// ([`SyncReport::appended_under`]).
    pub appends_unseen: bool,
    /// Size of the largest message that can be appended, in bytes; `None` without a limit.
    pub message_len_max: Option<u64>,
    /// `true` if a message can be appended only if [`NewMessage::bytes`] contains its whole header.
    pub needs_header: bool,
}

/// Form in which a message is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAs {
    /// The message: no From_ line or separator, with quoting undone where the format is sure of it.
    /// The six header fields that formats own are still there.
    Message,
    /// [`ReadAs::Message`] with its quoting: the header is the one from which the message key is
    /// made. [`Storage::unquote`] turns it into the message.
    Quoted,
    /// The bytes of the file, From_ line included.
    Stored,
}

/// A message that was read with others ([`Storage::read_many`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadMessage {
    /// Its range in the buffer.
    pub range: Range<usize>,
    /// Length of separator and header in bytes.
    pub header_len: usize,
}

/// A function that reads a range of stored bytes; `None` if it cannot be read or is damaged.
pub type ReadKept = dyn Fn(Range<u64>) -> Option<Vec<u8>> + Send + Sync;

/// A mailbox of any format.
///
/// Its methods may be called from any thread and by many processes at once. Those that change the
/// mailbox take the locks of its format, which do not exclude other threads of the process: the
/// caller makes one change at a time.
pub trait Storage: std::fmt::Debug + Send + Sync {
    /// Returns its format.
    fn format(&self) -> Format;

    /// Returns its capabilities, here and now.
    fn caps(&self) -> Caps;

    /// Returns the name that errors and messages show; a backend on a file system returns its path.
    fn name(&self) -> &Path;

    /// Returns the path at which a file system reports changes of the mailbox; `None` if the
    /// backend is not on a file system, so that only its stamp shows changes.
    fn path(&self) -> Option<&Path> {
        None
    }

    /// Returns the folders in which a file system reports changes of the mailbox, besides
    /// [`Storage::path`] and the `message_folders` of the format. May list a folder.
    fn watched_folders(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Determines the identity of the mailbox, which does not depend on its name: its ledger and
    /// its cache are found by it. With `may_write` a mailbox that has no identity yet gets one,
    /// which may change its stamp: call it before taking one. Costs a few system calls.
    ///
    /// # Errors
    /// Errors of the file system if the mailbox does not exist or is not accessible.
    fn identity(&self, may_write: bool) -> Result<Identity>;

    /// Returns the UIDVALIDITY that the mailbox itself stores; `None` if it stores none, or none
    /// that can be read. Reads a small file, or one header; takes no lock.
    ///
    /// # Errors
    /// Errors of the file system.
    fn stored_uidvalidity(&self) -> Result<Option<UidValidity>> {
        Ok(None)
    }

    /// Changes the UIDVALIDITY that the mailbox itself stores, durably; messages keep their UIDs.
    /// Returns `false` if the mailbox stores none, or the format cannot change it without a
    /// rewrite.
    ///
    /// # Errors
    /// Errors of the file system; [`crate::Error::Locked`].
    fn set_uidvalidity(&self, uidvalidity: UidValidity) -> Result<bool> {
        let _ = uidvalidity;
        Ok(false)
    }

    /// Returns `true` if something else may have taken the place of the mailbox that had
    /// `identity`, which then has to be opened anew. Costs one system call on a file system.
    ///
    /// # Errors
    /// As [`Storage::identity`].
    fn is_replaced(&self, identity: &Identity) -> Result<bool> {
        Ok(self.identity(false)?.id != identity.id)
    }

    /// Returns the keywords that count against [`Caps::keywords_max`]; `known` is of the last scan.
    /// Reads a small file, or one header.
    ///
    /// # Errors
    /// Errors of the file system.
    fn listed_keywords(&self, known: &dyn Known) -> Result<KeywordTable> {
        Ok(known.keywords().clone())
    }

    /// Returns `true` if the mailbox can store `keyword`, which is within the bounds of
    /// [`Storage::caps`]. Costs nothing.
    fn can_hold_keyword(&self, keyword: &Keyword) -> bool {
        let _ = keyword;
        true
    }

    /// Takes the stamp, at the cost of a few system calls; reads and lists nothing.
    ///
    /// # Errors
    /// Errors of the file system.
    fn stamp(&self) -> Result<Stamp>;

    /// Returns the meaning of its stamps. Costs nothing.
    fn stamp_rules(&self) -> &'static dyn StampRules;

    /// Returns `true` if the scan that left `state` ([`ScanReport::state`]) met messages that it
    /// could not read. They are worth another scan even if the stamp has not changed. Costs
    /// nothing.
    fn has_unread(&self, state: &[u8]) -> bool {
        let _ = state;
        false
    }

    /// Compares the mailbox with what is `known` of it.
    ///
    /// Every message that is not known is passed to a sink, from as many threads as
    /// [`ScanContext::threads`] allows: the messages of a chunk in mailbox order, chunks numbered
    /// in mailbox order. UIDs are durable when this returns, or pending in the ledger
    /// ([`ScanContext::ledger`]). A message that vanishes meanwhile is left out; a message that is
    /// only renamed is not.
    fn scan(
        &self,
        known: &dyn Known,
        sinks: &dyn Sinks,
        context: &mut ScanContext<'_>,
    ) -> Result<ScanReport>;

    /// Returns `true` if a location is that of one message for as long as it can be read. Otherwise
    /// the bytes there may be another message's after a change, and the caller compares the message
    /// key. Costs nothing.
    fn names_messages(&self) -> bool {
        false
    }

    /// Appends the bytes of one message to `buffer`; returns the number of bytes of separator and
    /// header (up to and including the blank line).
    ///
    /// # Errors
    /// [`crate::Error::MessageGone`] for a message that is no longer there; the caller scans again.
    /// [`crate::Error::MessageTooLarge`] for a message of more than [`crate::WHOLE_LEN_MAX`] bytes.
    fn read(&self, location: &Location<'_>, read_as: ReadAs, buffer: &mut Vec<u8>)
    -> Result<usize>;

    /// Reads as [`Storage::read`] does, from a location that was found when the mailbox had
    /// `stamp`. If it has another stamp now, the call waits for bytes that a process is moving
    /// right now; bytes that a crash has left half moved are [`crate::Error::MessageGone`]. The
    /// caller checks that the message is still the same. Costs the same as [`Storage::read`] where
    /// the stamp is the same.
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

    /// Opens a message of any size, which was found when the mailbox had `stamp`, for reading piece
    /// by piece. Reads nothing but its separator. The caller checks that the message is still the
    /// same.
    ///
    /// # Errors
    /// [`crate::Error::MessageGone`] for a message that is no longer there, or may have been moved.
    fn open_message(&self, location: &Location<'_>, stamp: &Stamp) -> Result<OpenMessage<'_>>;

    /// Reads messages that were found when the mailbox had `stamp`, each as [`Storage::read_known`]
    /// does, into `buffer`, whose content is replaced; returns the results in the order of
    /// `locations`. Neighbours in one file are read with one call, so ascending locations cost
    /// least.
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

    /// Returns `true` if reading is faster with restart points, which are found while a compressed
    /// mailbox is read. No result depends on them.
    fn has_restart_points(&self) -> bool {
        false
    }

    /// Loads restart points that [`Storage::restart_points_to_keep`] returned at any earlier time:
    /// `len` bytes, of which only as many are read as are needed. Restart points of another state
    /// of the mailbox are ignored.
    fn take_restart_points(&self, len: u64, kept: Box<ReadKept>) {
        let _ = (len, kept);
    }

    /// Returns the stamp after appends that no scan has seen ([`crate::SyncContext::unseen`]), if
    /// the first of them found the mailbox with the stamp `known`, and nothing else happened in
    /// between. `None` also where an append does not depend on what others have changed.
    fn left_unseen(&self, known: &Stamp) -> Option<Stamp> {
        let _ = known;
        None
    }

    /// Returns the restart points if enough of them are new to be worth storing.
    fn restart_points_to_keep(&self) -> Option<Vec<u8>> {
        None
    }

    /// Returns the path of the file that contains only this message. Returns `None` if messages are
    /// not files. The file may have another name meanwhile.
    fn message_file(&self, location: &Location<'_>) -> Option<PathBuf> {
        let _ = location;
        None
    }

    /// Gives the file of a message the additional name `to`, and returns its metadata after that.
    /// Returns `None` if that is not possible: the message is not a file of its own, `to` is on
    /// another file system, or another program could change the file in place under its other name.
    /// Not durable before the folder of `to` is synced.
    ///
    /// # Errors
    /// [`crate::Error::MessageGone`] for a message that is no longer there.
    fn link(&self, location: &Location<'_>, to: &Path) -> Result<Option<Metadata>> {
        let _ = (location, to);
        Ok(None)
    }

    /// Returns `true` if [`Storage::unquote`] would change bytes read as [`ReadAs::Quoted`].
    /// O(bytes) where the format has quoting that can be undone; otherwise free.
    fn is_quoted(&self, text: &[u8]) -> bool {
        let _ = text;
        false
    }

    /// Turns bytes read as [`ReadAs::Quoted`], with a header of `header_len` bytes, into those of
    /// [`ReadAs::Message`]; returns the length of the header afterwards. O(bytes) where the format
    /// has quoting that can be undone; otherwise free.
    fn unquote(&self, buffer: &mut Vec<u8>, header_len: usize) -> usize {
        let _ = buffer;
        header_len
    }

    /// Applies changes and appends in one pass.
    ///
    /// Commit point and fsync order are documented by each format.
    fn sync(
        &self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
        context: &mut SyncContext<'_>,
    ) -> Result<SyncReport>;

    /// Returns the change that was begun and not finished, if there is one (docs/protocol.md,
    /// "Open", step 1). Costs a few system calls; takes no lock, so the change may be in progress
    /// in another process.
    fn unfinished(&self, state_dir: Option<&Path>) -> Result<Option<Unfinished>> {
        let _ = state_dir;
        Ok(None)
    }

    /// Returns the unfinished change as [`Storage::unfinished`] does, but waits for a process that
    /// is making the change, if its locks can be waited for without writing. Costs the same if
    /// nothing is unfinished.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    fn abandoned(&self, state_dir: Option<&Path>) -> Result<Option<Unfinished>> {
        self.unfinished(state_dir)
    }

    /// Completes a change that was begun and not finished; waits for a process that is making it.
    fn recover(&self, context: &mut SyncContext<'_>) -> Result<Recovered> {
        let _ = context;
        Ok(Recovered::default())
    }
}

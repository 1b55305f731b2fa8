//! The traits that a session works on: the mailboxes of an account, views of one, and changes.
//!
//! All calls are synchronous and may wait for the disk or for locks of other programs; a server
//! runs them on threads that may wait. No call is made while output is being written, and no
//! implementation holds a lock while it calls [`Output::write`].

use std::collections::BTreeMap;
use std::sync::Arc;

use barid_query::search::SearchProgram;
use barid_query::{SortProgram, ThreadAlgorithm, Threads};
use barid_types::{Flag, FlagSet, InternalDate, Keyword, ModSeq, Uid, UidSet, UidValidity};

use crate::command::{AppendMessage, FlagList, ListCommand, MailboxName, StatusItem, StoreHow};
use crate::fetch::FetchItems;

/// The reason for which a request is refused: a response code (RFC 5530) and a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// The response code, without brackets, such as `NONEXISTENT`.
    pub code: Option<&'static str>,
    /// The text for the user, in one line.
    pub text: String,
    /// `true` if the selected mailbox can no longer be used: the session ends with BYE.
    pub is_fatal: bool,
}

impl Refusal {
    /// Response code for too many mailboxes to follow (RFC 5465 §5.8).
    pub const NOTIFICATION_OVERFLOW: &str = "NOTIFICATIONOVERFLOW";

    /// Creates a refusal with a response code.
    pub fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self { code: Some(code), text: text.into(), is_fatal: false }
    }
}

/// Result of a request.
pub type Answer<T> = Result<T, Refusal>;

/// Receives responses.
pub trait Output {
    /// Takes bytes; may wait until the client has read earlier ones. Returns `false` once the
    /// client is gone, and then takes nothing more.
    fn write(&mut self, bytes: &[u8]) -> bool;

    /// Takes bytes as [`Output::write`] does, and may take the buffer with them.
    fn write_buffer(&mut self, bytes: &mut Vec<u8>) -> bool {
        self.write(bytes)
    }

    /// Notes that a command runs of which nothing has been written yet. Until the next
    /// [`Output::write`] a server may send lines about its progress (RFC 9585).
    fn begin_command(&mut self, tag: &str) {
        let _ = tag;
    }
}

/// Keeps everything.
impl Output for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.extend_from_slice(bytes);
        true
    }
}

/// A mailbox in the answer to LIST.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedMailbox {
    /// The name.
    pub name: String,
    /// `true` if it exists; `false` for a subscription without mailbox, or a parent by name only.
    pub exists: bool,
    /// `true` if it can be selected.
    pub is_selectable: bool,
    /// `true` if it can have children.
    pub may_have_children: bool,
    /// `true` if it has children.
    pub has_children: bool,
    /// `true` if it is subscribed to.
    pub is_subscribed: bool,
    /// `true` if mailboxes below it are subscribed to.
    pub has_subscribed_below: bool,
    /// Special uses such as `\Sent` (RFC 6154).
    pub special_use: Vec<String>,
}

/// The value of an item of STATUS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusValue {
    /// A number.
    Number(u64),
    /// An identifier.
    Id(String),
    /// No value.
    Nil,
}

/// A message that was stored by APPEND.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// UIDVALIDITY of the mailbox.
    pub uidvalidity: UidValidity,
    /// UIDs in the order of the messages.
    pub uids: Vec<Uid>,
}

/// Messages that were copied or moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// UIDVALIDITY of the target.
    pub uidvalidity: Option<UidValidity>,
    /// UIDs in the source that were copied, ascending.
    pub from: Vec<Uid>,
    /// Their UIDs in the target, in the same order.
    pub to: Vec<Uid>,
    /// The reason for which messages that were to be moved could not be expunged in the source.
    pub not_removed: Option<Refusal>,
}

/// A resource of a quota root (RFC 9208).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaResource {
    /// The name, such as `STORAGE`.
    pub name: String,
    /// Usage, in the unit of the resource.
    pub usage: u64,
    /// Limit, in the unit of the resource.
    pub limit: u64,
}

/// A prefix of names (RFC 2342).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// The prefix.
    pub prefix: String,
}

/// Metadata entries with their values (RFC 5464).
pub type MetadataEntries = BTreeMap<String, Vec<u8>>;

/// The names of all mailboxes at one moment, and their metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountNames {
    /// The mailboxes and subscriptions, ascending by name.
    pub mailboxes: Vec<ListedMailbox>,
    /// The metadata of mailboxes that have some; that of the server under the empty name.
    pub metadata: BTreeMap<String, MetadataEntries>,
}

impl AccountNames {
    /// Returns the mailbox or subscription of a name. O(log names).
    pub fn mailbox(&self, name: &str) -> Option<&ListedMailbox> {
        let at = self.mailboxes.binary_search_by(|listed| listed.name.as_str().cmp(name)).ok()?;
        Some(&self.mailboxes[at])
    }
}

/// A change of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamesChange {
    /// The names now.
    pub names: Arc<AccountNames>,
    /// Known renames since the last time, old and new name, in their order.
    pub renames: Vec<(String, String)>,
}

/// The mailboxes of a user, as one session uses them.
pub trait Account: Send {
    /// A selected mailbox.
    type Mailbox: Mailbox;

    /// Returns the name of the user, as an identifier of ACL: without spaces.
    fn user(&self) -> &str;

    /// Returns the hierarchy separator.
    fn separator(&self) -> char;

    /// Returns the personal namespaces, the first for new mailboxes.
    fn namespaces(&self) -> Vec<Namespace>;

    /// Opens a mailbox for SELECT or, with `read_only`, EXAMINE.
    ///
    /// # Errors
    /// `NONEXISTENT`, `CANNOT` for a name that cannot be selected, and errors of the storage.
    fn open(&mut self, name: &MailboxName, read_only: bool) -> Answer<Self::Mailbox>;

    /// Returns the mailboxes that match LIST, ascending by name, with INBOX first.
    ///
    /// # Errors
    /// Errors of the storage.
    fn list(&mut self, command: &ListCommand) -> Answer<Vec<ListedMailbox>>;

    /// Returns the values of STATUS items.
    ///
    /// # Errors
    /// As [`Account::open`].
    fn status(
        &mut self,
        name: &MailboxName,
        items: &[StatusItem],
    ) -> Answer<Vec<(StatusItem, StatusValue)>>;

    /// Creates a mailbox and its missing parents, durably.
    ///
    /// # Errors
    /// `ALREADYEXISTS`, `CANNOT`, `USEATTR`, errors of the storage.
    fn create(&mut self, name: &MailboxName, is_folder: bool, special_use: &[String])
    -> Answer<()>;

    /// Removes a mailbox, durably.
    ///
    /// # Errors
    /// `NONEXISTENT`, `CANNOT`, `HASCHILDREN`, errors of the storage.
    fn delete(&mut self, name: &MailboxName) -> Answer<()>;

    /// Renames a mailbox and those below it, durably; INBOX keeps its name and loses its messages.
    ///
    /// # Errors
    /// `NONEXISTENT`, `ALREADYEXISTS`, `CANNOT`, errors of the storage.
    fn rename(&mut self, from: &MailboxName, to: &MailboxName) -> Answer<()>;

    /// Adds or removes a subscription, durably.
    ///
    /// # Errors
    /// Errors of the storage.
    fn subscribe(&mut self, name: &MailboxName, is_subscribed: bool) -> Answer<()>;

    /// Begins a message of an APPEND. Its bytes follow by [`Account::append_bytes`].
    ///
    /// # Errors
    /// `TRYCREATE`, `OVERQUOTA`, `TOOBIG`, errors of the storage; the bytes still follow and are
    /// dropped, and [`Account::append`] is not called.
    fn append_begin(&mut self, message: &AppendMessage) -> Answer<()>;

    /// Announces a literal of the message that was begun last; parts of the encoding `binary` are
    /// kept exactly if `is_binary` (RFC 3516 §4.4).
    ///
    /// # Errors
    /// As [`Account::append_begin`].
    fn append_literal(&mut self, len: u64, is_binary: bool) -> Answer<()>;

    /// Takes bytes of the message that was begun last.
    ///
    /// # Errors
    /// As [`Account::append_begin`].
    fn append_bytes(&mut self, bytes: &[u8]) -> Answer<()>;

    /// Adds the bytes that a URL names to the message that was begun last (CATENATE).
    ///
    /// # Errors
    /// `BADURL`; as [`Account::append_begin`].
    fn append_url(&mut self, url: &str) -> Answer<()>;

    /// Stores the messages begun since the last call, all or none, durably.
    ///
    /// # Errors
    /// As [`Account::append_begin`].
    fn append(&mut self) -> Answer<Appended>;

    /// Drops the messages begun since the last [`Account::append`].
    fn append_abort(&mut self);

    /// Returns the largest message that can be appended, in bytes (RFC 7889).
    fn append_limit(&self) -> Option<u64>;

    /// Returns the quota roots of a mailbox, which need not exist (RFC 9208 §4.1.3), with their
    /// resources; none without quota.
    ///
    /// # Errors
    /// Errors of the storage.
    fn quota(&mut self, name: Option<&MailboxName>) -> Answer<Vec<(String, Vec<QuotaResource>)>>;

    /// Returns the names of the resources that quota roots may limit (RFC 9208 §3.1); none without
    /// quota.
    fn limited_resources(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns `true` if changes of all mailboxes can be followed (RFC 5465).
    fn can_follow(&self) -> bool {
        false
    }

    /// Follows the messages of these mailboxes and no others, for [`Account::changed`].
    ///
    /// # Errors
    /// `NOTIFICATIONOVERFLOW` if there are too many; those of the previous call stay followed.
    fn follow(&mut self, names: &[String]) -> Answer<()> {
        let _ = names;
        Ok(())
    }

    /// Returns the followed mailboxes that may have changed since they were returned last, or were
    /// followed. Costs nothing without changes, unless a mailbox could not be opened, which is
    /// tried again.
    fn changed(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Returns `true` if a mailbox that could not be read may be tried again now: that may take
    /// long, since another program may have locked it, and delays the next command.
    fn may_try_again(&mut self) -> bool {
        true
    }

    /// Returns the names of all mailboxes, with the changes that this session has made; with
    /// `if_changed` only if they have changed since they were returned last. Changes of other
    /// programs may be noticed some seconds later.
    ///
    /// # Errors
    /// Errors of the storage.
    fn names(&mut self, if_changed: bool) -> Answer<Option<NamesChange>> {
        let _ = if_changed;
        Ok(None)
    }

    /// Returns the metadata of a mailbox or, for an empty name, of the server, by entry name.
    ///
    /// # Errors
    /// As [`Account::open`].
    fn metadata(&mut self, name: &MailboxName) -> Answer<Vec<(String, Vec<u8>)>>;

    /// Sets or removes metadata, all or none, durably.
    ///
    /// # Errors
    /// `METADATA ...` codes of RFC 5464; errors of the storage.
    fn set_metadata(
        &mut self,
        name: &MailboxName,
        entries: &[(String, Option<Vec<u8>>)],
    ) -> Answer<()>;
}

/// A change between two views, as [`MailView::changes_since`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewChange {
    /// UIDs are not valid any more.
    Renumbered,
    /// A message is gone.
    Expunged(Uid),
    /// A message has other flags.
    Flags(Uid),
    /// A message has the same flags and another mod-sequence.
    ModSeq(Uid),
    /// A message is new.
    New(Uid),
}

/// Changes since a mod-sequence (RFC 7162).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModSeqChanges {
    /// Messages that are new or have other flags, ascending by UID.
    pub changed: Vec<(Uid, ModSeq)>,
    /// UIDs of expunged messages.
    pub vanished: UidSet,
}

/// Data of a message that the session itself needs.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageFlags {
    /// The UID.
    pub uid: Uid,
    /// System flags, without \Recent.
    pub flags: FlagSet,
    /// Names of keywords.
    pub keywords: Vec<String>,
    /// The mod-sequence.
    pub modseq: ModSeq,
}

/// The numbers of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewNumbers {
    /// Number of messages.
    pub exists: u32,
    /// Number of messages without \Seen.
    pub unseen: u32,
    /// UIDVALIDITY.
    pub uidvalidity: UidValidity,
    /// UIDNEXT.
    pub uidnext: Uid,
    /// Highest mod-sequence, never 0.
    pub highest_modseq: ModSeq,
}

/// The form in which a fetch is written.
#[derive(Clone, Copy)]
pub struct FetchStyle<'a> {
    /// Returns the sequence number of a row of the view; 0 leaves the message out.
    pub number_of: &'a (dyn Fn(Uid, u32) -> u32 + Sync),
    /// Returns `true` if the message has \Recent in this session.
    pub is_recent: &'a (dyn Fn(Uid) -> bool + Sync),
    /// Writes `UIDFETCH` with the UID instead of `FETCH` with a number (RFC 9586).
    pub uid_only: bool,
    /// Leaves texts with 8-bit bytes as quoted strings (RFC 9051, RFC 6855).
    pub utf8: bool,
}

/// Report of a fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Messages that are gone; nothing was written for them.
    pub gone: Vec<Uid>,
    /// Messages with an item of unknown transfer encoding (RFC 3516, `UNKNOWN-CTE`).
    pub unknown_encoding: Vec<Uid>,
    /// Messages that could not be read, and why.
    pub unreadable: Vec<(Uid, String)>,
    /// `true` if the client is gone.
    pub is_stopped: bool,
}

/// A mailbox as it was at one moment. Rows count from 0 in ascending order of UIDs and never
/// change. A copy is cheap.
pub trait MailView: Clone + Send + Sync {
    /// Returns the numbers. Costs nothing.
    ///
    /// # Errors
    /// Errors of the storage.
    fn numbers(&self) -> Answer<ViewNumbers>;

    /// Returns the number of messages. Costs nothing.
    fn len(&self) -> u32;

    /// Returns `true` if there are no messages.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `true` if the messages were listed and not read yet: only numbers, UIDs, flags,
    /// keywords and mod-sequences are known, and a fetch of other items, a search, an order and
    /// threads fail. Costs nothing.
    fn is_listed(&self) -> bool {
        false
    }

    /// Returns the UID of a row.
    ///
    /// # Errors
    /// Errors of the storage.
    fn uid_of(&self, row: u32) -> Answer<Uid>;

    /// Returns the UIDs of rows, in their order.
    ///
    /// # Errors
    /// Errors of the storage.
    fn uids_of(&self, rows: &[u32]) -> Answer<Vec<Uid>>;

    /// Returns the first row whose UID is not below `uid`.
    ///
    /// # Errors
    /// Errors of the storage.
    fn row_from(&self, uid: Uid) -> Answer<u32>;

    /// Returns the UIDs in ascending ranges of UIDs, or of sequence numbers.
    ///
    /// # Errors
    /// Errors of the storage.
    fn uids_in(&self, ranges: &[(u32, u32)], by_number: bool) -> Answer<Vec<Uid>>;

    /// Returns the keywords of the mailbox.
    fn keywords(&self) -> Vec<String>;

    /// Returns the first row whose message has, or with `false` lacks, a flag.
    ///
    /// # Errors
    /// Errors of the storage.
    fn first_with(&self, flag: Flag, has: bool) -> Answer<Option<u32>>;

    /// Returns the UIDs of messages with a flag, ascending.
    ///
    /// # Errors
    /// Errors of the storage.
    fn uids_with(&self, flag: Flag) -> Answer<Vec<Uid>>;

    /// Returns flags of messages, in the order of `uids`; messages that do not exist are left out.
    ///
    /// # Errors
    /// Errors of the storage.
    fn flags_of(&self, uids: &[Uid]) -> Answer<Vec<MessageFlags>>;

    /// Returns the changes since an earlier view: expunges first, then flags, then new messages,
    /// each ascending.
    ///
    /// # Errors
    /// Errors of the storage.
    fn changes_since(&self, before: &Self) -> Answer<Vec<ViewChange>>;

    /// Returns the changes since a mod-sequence.
    ///
    /// # Errors
    /// Errors of the storage.
    fn changes_since_modseq(&self, modseq: ModSeq) -> Answer<ModSeqChanges>;

    /// Writes the responses to FETCH for `uids`, in their order.
    ///
    /// # Errors
    /// Errors of the storage.
    fn fetch(
        &self,
        uids: &[Uid],
        items: &FetchItems,
        style: &FetchStyle<'_>,
        out: &mut dyn Output,
    ) -> Answer<Fetched>;

    /// Returns the rows that match, ascending; `saved` is the value of `$`.
    ///
    /// # Errors
    /// Errors of the storage.
    fn search(&self, program: &SearchProgram, saved: &UidSet) -> Answer<Vec<u32>>;

    /// Returns all rows in order.
    ///
    /// # Errors
    /// Errors of the storage.
    fn sort(&self, program: &SortProgram) -> Answer<Vec<u32>>;

    /// Returns the threads of all rows, or of the rows `among`, ascending. The rows in the answer
    /// are then positions in `among`.
    ///
    /// # Errors
    /// Errors of the storage.
    fn threads(&self, algorithm: ThreadAlgorithm, among: Option<&[u32]>) -> Answer<Threads>;

    /// Returns the internal date of a message.
    ///
    /// # Errors
    /// Errors of the storage.
    fn internal_date(&self, uid: Uid) -> Answer<Option<InternalDate>>;
}

/// A change of flags of several messages.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreRequest<'a> {
    /// The messages.
    pub uids: &'a [Uid],
    /// The manner of the change.
    pub how: StoreHow,
    /// The flags.
    pub flags: FlagList,
    /// Messages with a higher mod-sequence are left as they are (RFC 7162 §3.1.3).
    pub unchanged_since: Option<ModSeq>,
}

/// Report of a change of flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Messages left as they are because of `UNCHANGEDSINCE`.
    pub modified: Vec<Uid>,
    /// Messages that do not exist any more.
    pub gone: Vec<Uid>,
    /// Keywords that the mailbox cannot store.
    pub refused: Vec<Keyword>,
}

/// A selected mailbox.
pub trait Mailbox: Send {
    /// A view of it.
    type View: MailView;

    /// Returns the newest view. Costs nothing, and looks for no change of other programs.
    fn view(&self) -> Self::View;

    /// Looks for changes of other programs and returns the newest view; does not wait for messages
    /// to be read ([`MailView::is_listed`]) if there are no changes.
    ///
    /// # Errors
    /// `is_fatal` if the mailbox was removed or renamed; errors of the storage.
    fn refresh(&mut self) -> Answer<Self::View>;

    /// Waits until the messages are read, if they were only listed, and returns the newest view.
    ///
    /// # Errors
    /// As [`Mailbox::refresh`].
    fn read_listed(&mut self) -> Answer<Self::View> {
        Ok(self.view())
    }

    /// Returns its identifier (RFC 8474 §4), which is that of [`StatusItem::MailboxId`].
    fn id(&self) -> String;

    /// Returns `true` if it cannot be changed.
    fn is_read_only(&self) -> bool;

    /// Returns `true` if new keywords can be stored.
    fn takes_keywords(&self) -> bool;

    /// Returns the messages that are recent for no session yet.
    ///
    /// # Errors
    /// Errors of the storage.
    fn recent(&mut self) -> Answer<UidSet>;

    /// Takes the messages that are recent for no session yet, so that they are recent for this one
    /// and no other.
    ///
    /// # Errors
    /// Errors of the storage.
    fn claim_recent(&mut self) -> Answer<UidSet>;

    /// Changes flags; durable when this returns.
    ///
    /// # Errors
    /// Errors of the storage.
    fn store(&mut self, request: &StoreRequest<'_>) -> Answer<Stored>;

    /// Expunges those of `uids` that have \Deleted now, or all that have it; durable when this
    /// returns. Returns how many.
    ///
    /// # Errors
    /// Errors of the storage.
    fn expunge(&mut self, uids: Option<&[Uid]>) -> Answer<u32>;

    /// Expunges messages, whatever flags they have; durable when this returns.
    ///
    /// # Errors
    /// Errors of the storage.
    fn remove(&mut self, uids: &[Uid]) -> Answer<()>;

    /// Copies messages to the end of another mailbox, all or none, and with `moves` expunges them
    /// here afterwards; durable when this returns.
    ///
    /// # Errors
    /// `TRYCREATE`, `OVERQUOTA`, `EXPUNGEISSUED` if one of them is gone, errors of the storage.
    fn copy(&mut self, uids: &[Uid], to: &MailboxName, moves: bool) -> Answer<Copied>;
}

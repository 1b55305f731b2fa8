//! The commands of a client as values, valid by construction of the parser.
//!
//! Mailbox names are decoded: modified UTF-7 of an IMAP4rev1 session is UTF-8 here, and `INBOX` in
//! any case is `INBOX`. Message numbers are [`NumberSet`]s with `*` unresolved.

mod append;
mod list;
mod notify;
mod select;

use barid_query::search::{NumberSet, ReturnOptions, SearchProgram};
use barid_query::{SortProgram, ThreadAlgorithm};
use barid_types::{Flag, FlagSet, Keyword};

pub use self::append::{AppendMessage, AppendPart};
pub use self::list::{ListCommand, ListReturn, ListSelection, StatusItem};
pub(crate) use self::notify::renamed;
pub use self::notify::{
    EventGroup, FilterIndex, MailboxFilter, MultiSearch, NotifyEvents, NotifySet,
};
pub use self::select::{QresyncKnown, SelectParameters};
use crate::fetch::FetchItems;

/// A command with the tag that its response repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct TaggedCommand {
    /// The tag.
    pub tag: String,
    /// The command.
    pub command: Command,
}

/// The name of a mailbox as UTF-8; `INBOX` is in capitals.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailboxName(pub String);

/// A command (RFC 9051 §6, RFC 3501 §6 and extensions).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Command {
    /// CAPABILITY.
    Capability,
    /// NOOP.
    Noop,
    /// LOGOUT.
    Logout,
    /// ID with the parameters of the client; none for NIL (RFC 2971).
    Id(Vec<(String, Option<String>)>),
    /// STARTTLS.
    StartTls,
    /// AUTHENTICATE; the initial response is still in base64, and empty for `=` (RFC 4959).
    Authenticate {
        /// The mechanism in capitals.
        mechanism: String,
        /// The initial response.
        initial: Option<Vec<u8>>,
    },
    /// LOGIN.
    Login {
        /// The name of the user.
        user: Vec<u8>,
        /// The password.
        password: Vec<u8>,
    },
    /// UNAUTHENTICATE (RFC 8437).
    Unauthenticate,
    /// ENABLE with the names in capitals (RFC 5161).
    Enable(Vec<String>),
    /// SELECT or EXAMINE.
    Select {
        /// The mailbox.
        mailbox: MailboxName,
        /// `true` for EXAMINE.
        read_only: bool,
        /// The parameters.
        parameters: SelectParameters,
    },
    /// CREATE; special uses such as `\Sent` (RFC 6154 §3).
    Create {
        /// The mailbox.
        mailbox: MailboxName,
        /// `true` if the name ended with the hierarchy separator.
        is_folder: bool,
        /// The special uses.
        special_use: Vec<String>,
    },
    /// DELETE.
    Delete(MailboxName),
    /// RENAME.
    Rename {
        /// The mailbox.
        from: MailboxName,
        /// Its new name.
        to: MailboxName,
    },
    /// SUBSCRIBE, or UNSUBSCRIBE if `false`.
    Subscribe(MailboxName, bool),
    /// LIST, LSUB and XLIST.
    List(ListCommand),
    /// NAMESPACE (RFC 2342).
    Namespace,
    /// STATUS.
    Status(MailboxName, Vec<StatusItem>),
    /// The end of an APPEND: all its messages have been read ([`AppendMessage`]).
    Append,
    /// The end of a REPLACE (RFC 8508): its message has been read. The number is a UID if `uid`.
    Replace {
        /// The message that is replaced.
        number: NumberSet,
        /// `true` if `number` is a UID.
        uid: bool,
    },
    /// IDLE (RFC 2177); `DONE` follows as a line of its own.
    Idle,
    /// COMPRESS DEFLATE (RFC 4978).
    Compress,
    /// GETQUOTA with a quota root (RFC 9208).
    GetQuota(String),
    /// GETQUOTAROOT.
    GetQuotaRoot(MailboxName),
    /// SETQUOTA with a quota root and resource limits.
    SetQuota(String, Vec<(String, u64)>),
    /// MYRIGHTS (RFC 4314).
    MyRights(MailboxName),
    /// GETACL (RFC 4314).
    GetAcl(MailboxName),
    /// LISTRIGHTS with an identifier (RFC 4314).
    ListRights(MailboxName, String),
    /// SETACL, or DELETEACL with `None`: mailbox, identifier, rights (RFC 4314).
    SetAcl(MailboxName, String, Option<String>),
    /// GETMETADATA (RFC 5464); an empty mailbox name is the server.
    GetMetadata {
        /// The mailbox.
        mailbox: MailboxName,
        /// The names of entries.
        entries: Vec<String>,
        /// Size above which a value is left out.
        size_max: Option<u64>,
        /// Levels below the entries that are returned; `None` for all.
        depth: Option<u32>,
    },
    /// SETMETADATA: entries and their values, `None` to remove one.
    SetMetadata(MailboxName, Vec<(String, Option<Vec<u8>>)>),
    /// NOTIFY SET, or NOTIFY NONE (RFC 5465).
    Notify(Option<NotifySet>),
    /// ESEARCH (RFC 7377).
    MultiSearch(MultiSearch),
    /// CHECK (RFC 3501).
    Check,
    /// CLOSE.
    Close,
    /// UNSELECT (RFC 3691).
    Unselect,
    /// EXPUNGE, or UID EXPUNGE with a set.
    Expunge(Option<MessageSet>),
    /// SEARCH and UID SEARCH.
    Search(SearchCommand),
    /// SORT and UID SORT (RFC 5256, RFC 5267).
    Sort(SortProgram, SearchCommand),
    /// THREAD and UID THREAD (RFC 5256).
    Thread(ThreadAlgorithm, SearchCommand),
    /// CANCELUPDATE with tags (RFC 5267).
    CancelUpdate(Vec<String>),
    /// FETCH and UID FETCH.
    Fetch(FetchCommand),
    /// STORE and UID STORE.
    Store(StoreCommand),
    /// COPY, MOVE and their UID forms.
    Copy {
        /// The messages.
        set: MessageSet,
        /// The target.
        mailbox: MailboxName,
        /// `true` for MOVE (RFC 6851).
        moves: bool,
    },
    /// UIDBATCHES (RFC 10022): the size of a batch, and the range of batches.
    UidBatches(u32, Option<(u32, u32)>),
}

/// Messages that a command names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageSet {
    /// By sequence number.
    Numbers(NumberSet),
    /// By UID.
    Uids(NumberSet),
    /// The saved result of a search, `$` (RFC 5182), with `true` in a UID command.
    Saved(bool),
}

impl MessageSet {
    /// Returns `true` if the command is one with `UID` before its name.
    pub fn is_uid(&self) -> bool {
        matches!(self, Self::Uids(_) | Self::Saved(true))
    }
}

/// The arguments of SEARCH, and of SORT and THREAD without their own.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchCommand {
    /// `true` for UID SEARCH.
    pub uid: bool,
    /// The program.
    pub program: SearchProgram,
    /// The results that RETURN names, if it is present.
    pub returns: Option<ReturnOptions>,
    /// PARTIAL of RETURN (RFC 9394): a range of results, from the end if negative.
    pub partial: Option<(i64, i64)>,
    /// UPDATE of RETURN (RFC 5267).
    pub update: bool,
    /// CONTEXT of RETURN, a hint (RFC 5267 §4.2).
    pub has_context_hint: bool,
}

/// The arguments of FETCH.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchCommand {
    /// The messages.
    pub set: MessageSet,
    /// The items; without the UID that UID FETCH adds.
    pub items: FetchItems,
    /// CHANGEDSINCE (RFC 7162 §3.1.4.1).
    pub changed_since: Option<u64>,
    /// VANISHED (RFC 7162 §3.2.6).
    pub vanished: bool,
    /// PARTIAL (RFC 9394).
    pub partial: Option<(i64, i64)>,
}

/// The arguments of STORE.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreCommand {
    /// The messages.
    pub set: MessageSet,
    /// The manner of the change.
    pub how: StoreHow,
    /// `true` for the `.SILENT` form.
    pub silent: bool,
    /// System flags.
    pub flags: FlagSet,
    /// Keywords, each once.
    pub keywords: Vec<Keyword>,
    /// UNCHANGEDSINCE (RFC 7162 §3.1.3).
    pub unchanged_since: Option<u64>,
}

/// The manner of a change of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreHow {
    /// `FLAGS`.
    Replace,
    /// `+FLAGS`.
    Add,
    /// `-FLAGS`.
    Remove,
}

/// Flags as a client names them: system flags and keywords.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlagList {
    /// System flags; \Recent is never among them.
    pub flags: FlagSet,
    /// Keywords, each once.
    pub keywords: Vec<Keyword>,
}

impl FlagList {
    /// Adds a system flag.
    pub fn add(&mut self, flag: Flag) {
        self.flags = self.flags.with(flag);
    }
}

impl MailboxName {
    /// The mailbox that every account has.
    pub const INBOX: &'static str = "INBOX";

    /// Returns `true` for INBOX.
    pub fn is_inbox(&self) -> bool {
        self.0 == Self::INBOX
    }
}

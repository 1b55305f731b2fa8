//! What is measured: who does what with which word list.

use std::fmt;

use serde::Serialize;

/// A filter, as it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// barid in bogofilter's place: `barid bogofilter`.
    DropIn,
    /// `barid bogofilter` beside a running `barid spam daemon`.
    Daemon,
    /// barid's own commands: `barid spam`.
    Spam,
    /// bogofilter with Berkeley DB.
    Bdb,
    /// bogofilter with Tokyo Cabinet.
    TokyoCabinet,
    /// bogofilter with SQLite.
    Sqlite,
}

impl Side {
    /// All of them, in the order in which they take their turns.
    pub const ALL: [Self; 6] =
        [Self::DropIn, Self::Daemon, Self::Spam, Self::Bdb, Self::TokyoCabinet, Self::Sqlite];

    /// The builds of bogofilter that barid can be compared with.
    pub const PEERS: [Self; 3] = [Self::Bdb, Self::TokyoCabinet, Self::Sqlite];

    /// The name of a build, on the command line and in those of its programs.
    pub const fn build(self) -> &'static str {
        match self {
            Self::DropIn | Self::Daemon | Self::Spam => "barid",
            Self::Bdb => "bdb",
            Self::TokyoCabinet => "tokyocabinet",
            Self::Sqlite => "sqlite",
        }
    }

    /// Whether it is barid.
    pub(crate) const fn is_own(self) -> bool {
        matches!(self, Self::DropIn | Self::Daemon | Self::Spam)
    }

    /// The name in file names and reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::DropIn => "barid bogofilter",
            Self::Daemon => "barid bogofilter, daemon",
            Self::Spam => "barid spam",
            Self::Bdb => "bogofilter-bdb",
            Self::TokyoCabinet => "bogofilter-tokyocabinet",
            Self::Sqlite => "bogofilter-sqlite",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// A word list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// What registering makes.
    Own,
    /// The least tokens.
    Small,
    /// A tenth of the large one.
    Middle,
    /// The most tokens.
    Large,
}

/// Something that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// An mbox of spam and one of ham are registered in a new word list.
    Register,
    /// The mbox of ham is classified by one process.
    ClassifyAll,
    /// Messages are classified, each by a process of its own.
    ClassifyEach,
    /// The same with a list that is not in memory.
    ClassifyCold,
    /// The mbox of ham is classified by one process with a small list.
    ClassifySmall,
    /// The same with a large one.
    ClassifyLarge,
    /// A list is written as text.
    Dump,
}

impl Step {
    /// All of them, in their order.
    pub const ALL: [Self; 7] = [
        Self::Register,
        Self::ClassifyAll,
        Self::ClassifyEach,
        Self::ClassifyCold,
        Self::ClassifySmall,
        Self::ClassifyLarge,
        Self::Dump,
    ];

    /// The word on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::ClassifyAll => "all",
            Self::ClassifyEach => "each",
            Self::ClassifyCold => "cold",
            Self::ClassifySmall => "small",
            Self::ClassifyLarge => "large",
            Self::Dump => "dump",
        }
    }

    /// The name in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Register => "register spam and ham",
            Self::ClassifyAll => "classify, one process",
            Self::ClassifyEach => "classify, a process each",
            Self::ClassifyCold => "classify, each, cold list",
            Self::ClassifySmall => "classify, small list",
            Self::ClassifyLarge => "classify, large list",
            Self::Dump => "dump",
        }
    }

    /// The list that it needs.
    pub(crate) const fn list(self) -> List {
        match self {
            Self::Register | Self::ClassifyAll | Self::ClassifyEach => List::Own,
            Self::ClassifyCold | Self::Dump => List::Middle,
            Self::ClassifySmall => List::Small,
            Self::ClassifyLarge => List::Large,
        }
    }

    /// Whether a side does this.
    pub(crate) const fn is_of(self, side: Side) -> bool {
        match side {
            Side::Daemon => matches!(self, Self::ClassifyEach | Self::ClassifyCold),
            // It reads mailboxes; what is not in one is the drop-in's.
            Side::Spam => !matches!(self, Self::Dump),
            _ => true,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

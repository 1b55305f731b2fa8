//! The measured filters, steps and word lists.

use std::fmt;

use serde::Serialize;

/// A filter in one of its setups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// barid as a drop-in for bogofilter: `barid bogofilter`.
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
    /// All sides, in the order in which they take turns.
    pub const ALL: [Self; 6] =
        [Self::DropIn, Self::Daemon, Self::Spam, Self::Bdb, Self::TokyoCabinet, Self::Sqlite];

    /// The builds of bogofilter that barid can be compared with.
    pub const PEERS: [Self; 3] = [Self::Bdb, Self::TokyoCabinet, Self::Sqlite];

    /// Returns the name of a build, on the command line and as a suffix of its programs.
    pub const fn build(self) -> &'static str {
        match self {
            Self::DropIn | Self::Daemon | Self::Spam => "barid",
            Self::Bdb => "bdb",
            Self::TokyoCabinet => "tokyocabinet",
            Self::Sqlite => "sqlite",
        }
    }

    /// Returns `true` if the side is barid.
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
    /// The list made by registering.
    Own,
    /// The smallest list.
    Small,
    /// A list with a tenth of the tokens of the large one.
    Middle,
    /// The largest list.
    Large,
}

/// An operation of a filter.
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
    /// All steps, in their order.
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

    /// Returns the list that the step uses.
    pub(crate) const fn list(self) -> List {
        match self {
            Self::Register | Self::ClassifyAll | Self::ClassifyEach => List::Own,
            Self::ClassifyCold | Self::Dump => List::Middle,
            Self::ClassifySmall => List::Small,
            Self::ClassifyLarge => List::Large,
        }
    }

    /// Returns `true` if a side does this step.
    pub(crate) const fn is_of(self, side: Side) -> bool {
        match side {
            Side::Daemon => matches!(self, Self::ClassifyEach | Self::ClassifyCold),
            // `barid spam` works on mailboxes; other steps belong to the drop-in.
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

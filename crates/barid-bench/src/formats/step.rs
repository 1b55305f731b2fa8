//! The measured programs, formats and operations.

use std::fmt;

use serde::{Serialize, Serializer};

/// One of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// The program under test.
    Barid,
    /// UW c-client.
    CClient,
    /// Dovecot.
    Dovecot,
}

impl Program {
    /// The programs that barid can be compared with.
    pub const PEERS: [Self; 2] = [Self::CClient, Self::Dovecot];

    /// The name on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barid => "barid",
            Self::CClient => "c-client",
            Self::Dovecot => "dovecot",
        }
    }
}

/// The format of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Store {
    /// An mbox, c-client's format `unix`.
    Mbox,
    /// c-client's single-file format.
    Mbx,
    /// c-client's format of several files.
    Mix,
    /// An MH folder.
    Mh,
    /// A Maildir.
    Maildir,
    /// Dovecot's format with one file per message.
    Sdbox,
    /// Dovecot's format with several messages per file.
    Mdbox,
}

impl Store {
    /// The formats that barid supports.
    pub const OWN: [Self; 5] = [Self::Mbox, Self::Mbx, Self::Mix, Self::Mh, Self::Maildir];

    /// The name on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mbox => "mbox",
            Self::Mbx => "mbx",
            Self::Mix => "mix",
            Self::Mh => "mh",
            Self::Maildir => "maildir",
            Self::Sdbox => "sdbox",
            Self::Mdbox => "mdbox",
        }
    }
}

/// A program with a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// The program.
    pub program: Program,
    /// The format.
    pub store: Store,
}

impl Side {
    /// All sides, in the order of the tables.
    pub const ALL: [Self; 12] = {
        use Program::{Barid, CClient, Dovecot};
        use Store::{Maildir, Mbox, Mbx, Mdbox, Mh, Mix, Sdbox};
        [
            Self::new(Barid, Mbox),
            Self::new(Barid, Mbx),
            Self::new(Barid, Mix),
            Self::new(Barid, Mh),
            Self::new(Barid, Maildir),
            Self::new(CClient, Mbox),
            Self::new(CClient, Mbx),
            Self::new(CClient, Mix),
            Self::new(Dovecot, Mbox),
            Self::new(Dovecot, Maildir),
            Self::new(Dovecot, Sdbox),
            Self::new(Dovecot, Mdbox),
        ]
    };

    /// Creates a side.
    pub const fn new(program: Program, store: Store) -> Self {
        Self { program, store }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&format!("{} {}", self.program.name(), self.store.name()))
    }
}

impl Serialize for Side {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An operation of a new process, which first opens the mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Opens the mailbox.
    Select,
    /// `FETCH 1:* (FULL BODY.PEEK[])`.
    Fetch,
    /// `FETCH 1:* ALL`.
    All,
    /// `THREAD REFERENCES`.
    Thread,
    /// Searches all texts for a rare word.
    Search,
    /// Converts an mbox to a new mailbox of the format.
    Convert,
}

impl Work {
    /// All operations, in the order in which they run.
    pub const ALL: [Self; 6] =
        [Self::Select, Self::Fetch, Self::All, Self::Thread, Self::Search, Self::Convert];

    /// The name on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::Fetch => "fetch",
            Self::All => "all",
            Self::Thread => "thread",
            Self::Search => "search",
            Self::Convert => "convert",
        }
    }

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::Fetch => "fetch 1:* (full body.peek[])",
            Self::All => "fetch 1:* all",
            Self::Thread => "thread",
            Self::Search => "search body",
            Self::Convert => "convert from mbox",
        }
    }

    /// Returns `true` if a side does this operation.
    pub(crate) fn is_of(self, side: Side) -> bool {
        self != Self::Convert
            || match side.program {
                Program::Barid => matches!(side.store, Store::Mbx | Store::Mix | Store::Maildir),
                Program::CClient => matches!(side.store, Store::Mbx | Store::Mix),
                Program::Dovecot => side.store == Store::Maildir,
            }
    }

    /// Returns the turns in which the operation is done.
    pub(crate) const fn turns(self) -> &'static [Turn] {
        match self {
            Self::Convert => &[Turn::First],
            _ => &[Turn::First, Turn::Again],
        }
    }
}

/// The state of the mailbox's caches when an operation starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Turn {
    /// The program has not seen the mailbox: there are only the caches and indexes that the format
    /// itself requires.
    First,
    /// The program has done the same operation before.
    Again,
}

/// An operation in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The operation.
    pub work: Work,
    /// The turn.
    pub turn: Turn,
}

impl Step {
    /// Returns all steps, in the order in which they run.
    pub fn all() -> impl Iterator<Item = Self> {
        let steps = |work: Work| work.turns().iter().map(move |turn| Self { work, turn: *turn });
        Work::ALL.into_iter().flat_map(steps)
    }

    /// Returns the first turn of an operation.
    pub(crate) const fn first(work: Work) -> Self {
        Self { work, turn: Turn::First }
    }

    /// Returns the second turn of an operation.
    pub(crate) const fn again(work: Work) -> Self {
        Self { work, turn: Turn::Again }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let again = if self.turn == Turn::Again { ", again" } else { "" };
        out.pad(&format!("{}{again}", self.work.name()))
    }
}

//! The measured programs, the parts of the bench and their steps.

use std::fmt;

use serde::{Serialize, Serializer};

/// One of the measured sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The program under test.
    Barid,
    /// NeoMutt with its header cache.
    NeoMutt,
    /// Dovecot's `imap`.
    Dovecot,
    /// The bare work on the same files, which no mail program can avoid.
    Machine,
}

impl Side {
    /// All sides, in the order of the tables.
    pub const ALL: [Self; 4] = [Self::Barid, Self::NeoMutt, Self::Dovecot, Self::Machine];

    /// The programs that barid can be compared with.
    pub const PEERS: [Self; 2] = [Self::NeoMutt, Self::Dovecot];

    /// The name on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barid => "barid",
            Self::NeoMutt => "neomutt",
            Self::Dovecot => "dovecot",
            Self::Machine => "machine",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// A part of the bench: the steps with one mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The Maildir of 100,000 messages.
    Maildir,
    /// The mbox of 361,052 messages.
    Mbox,
    /// Threading that mbox.
    Thread,
    /// A Maildir of 1,000,000 messages, which must not take ten times as long to open again.
    Million,
}

impl Part {
    /// All parts, in the order in which they run.
    pub const ALL: [Self; 4] = [Self::Maildir, Self::Mbox, Self::Thread, Self::Million];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Maildir => "maildir",
            Self::Mbox => "mbox",
            Self::Thread => "thread",
            Self::Million => "million",
        }
    }
}

/// A step, in which every side that takes part does the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The Maildir is opened for the first time.
    MaildirFirst,
    /// The newest 50 messages of the Maildir by date are listed again.
    MaildirNewest,
    /// All messages of the Maildir are listed again.
    MaildirAll,
    /// NeoMutt opens the Maildir again, which loads every message.
    MaildirReload,
    /// The head of every file of the Maildir is read.
    MaildirHeads,
    /// The mbox is opened for the first time.
    MboxFirst,
    /// The mbox is opened again.
    MboxAgain,
    /// The mbox is opened again, in turn with [`Step::MboxDelivered`].
    MboxUnchanged,
    /// The mbox is opened after one message was delivered.
    MboxDelivered,
    /// Every byte of the mbox is read.
    MboxBytes,
    /// The threads of the mbox are found; its headers are cached.
    ThreadFirst,
    /// The threads are found again.
    ThreadAgain,
    /// The Maildir of a million is opened for the first time.
    MillionFirst,
    /// The newest 50 messages of the Maildir of a million are listed again.
    MillionNewest,
    /// The same of the Maildir of 100,000, in turn.
    SmallNewest,
}

impl Step {
    /// All steps, in the order in which they run.
    pub const ALL: [Self; 15] = [
        Self::MaildirFirst,
        Self::MaildirNewest,
        Self::MaildirAll,
        Self::MaildirReload,
        Self::MaildirHeads,
        Self::MboxFirst,
        Self::MboxAgain,
        Self::MboxUnchanged,
        Self::MboxDelivered,
        Self::MboxBytes,
        Self::ThreadFirst,
        Self::ThreadAgain,
        Self::MillionFirst,
        Self::MillionNewest,
        Self::SmallNewest,
    ];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MaildirFirst => "maildir populate",
            Self::MaildirNewest => "maildir again, newest 50",
            Self::MaildirAll => "maildir again, all lines",
            Self::MaildirReload => "maildir reload",
            Self::MaildirHeads => "limit: read every head",
            Self::MboxFirst => "mbox first open",
            Self::MboxAgain => "mbox again, newest 50",
            Self::MboxUnchanged => "mbox without change",
            Self::MboxDelivered => "mbox after one delivery",
            Self::MboxBytes => "limit: read the mbox",
            Self::ThreadFirst => "thread first",
            Self::ThreadAgain => "thread again",
            Self::MillionFirst => "million populate",
            Self::MillionNewest => "million again, newest 50",
            Self::SmallNewest => "maildir beside million",
        }
    }

    /// Returns the part that the step belongs to.
    pub const fn part(self) -> Part {
        match self {
            Self::MaildirFirst
            | Self::MaildirNewest
            | Self::MaildirAll
            | Self::MaildirReload
            | Self::MaildirHeads => Part::Maildir,
            Self::MboxFirst
            | Self::MboxAgain
            | Self::MboxUnchanged
            | Self::MboxDelivered
            | Self::MboxBytes => Part::Mbox,
            Self::ThreadFirst | Self::ThreadAgain => Part::Thread,
            Self::MillionFirst | Self::MillionNewest | Self::SmallNewest => Part::Million,
        }
    }

    /// Returns the part whose mailbox the step opens.
    pub(crate) const fn mailbox(self) -> Part {
        match self {
            Self::SmallNewest => Part::Maildir,
            other => other.part(),
        }
    }

    /// Returns `true` if files that changed shortly before are opened again in the step. A step
    /// directly after a delivery is not such a one: that is what it measures.
    pub(crate) const fn follows_changes(self) -> bool {
        matches!(
            self,
            Self::MaildirNewest
                | Self::MboxAgain
                | Self::MboxUnchanged
                | Self::ThreadAgain
                | Self::MillionNewest
        )
    }

    /// Returns `true` if a side takes part in the step.
    pub(crate) const fn is_of(self, side: Side) -> bool {
        match side {
            Side::Barid => {
                !matches!(self, Self::MaildirReload | Self::MaildirHeads | Self::MboxBytes)
            }
            Side::NeoMutt => matches!(self, Self::MaildirFirst | Self::MaildirReload),
            Side::Dovecot => matches!(self, Self::MboxFirst | Self::MboxAgain | Self::ThreadAgain),
            Side::Machine => matches!(self, Self::MaildirHeads | Self::MboxBytes),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

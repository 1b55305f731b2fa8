//! The measured programs and steps.

use std::fmt;

use serde::Serialize;

/// One of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// `cp` and `sync`: a plain copy of the whole file.
    Copy,
    /// The program under test.
    Barid,
    /// Dovecot that writes at once (`mbox_lazy_writes=no`).
    Dovecot,
    /// Dovecot with its defaults: it delays what it can until CHECK.
    DovecotLazy,
    /// UW c-client.
    CClient,
}

impl Side {
    /// All sides, in the order of the tables.
    pub const ALL: [Self; 5] =
        [Self::Copy, Self::Barid, Self::Dovecot, Self::DovecotLazy, Self::CClient];

    /// The programs that barid can be compared with.
    pub const PEERS: [Self; 3] = [Self::Dovecot, Self::DovecotLazy, Self::CClient];

    /// The name on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Barid => "barid",
            Self::Dovecot => "dovecot",
            Self::DovecotLazy => "dovecot-lazy",
            Self::CClient => "c-client",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// An operation on the mailbox; the steps run one after the other on the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The file is copied and synced.
    Copy,
    /// The mailbox is seen for the first time; status headers are added to all messages.
    Sync,
    /// Delayed changes are written.
    Late,
    /// A flag is set on a message in the middle, and written.
    FlagOne,
    /// A flag is set on another message, and need not be written yet.
    FlagLater,
    /// A flag is set on all messages, and written.
    FlagAll,
    /// The first message, of a few kilobytes, is expunged.
    ExpungeSmall,
    /// The whole file is read.
    ReadSmall,
    /// The first message, of more than 64 KB, is expunged.
    ExpungeLarge,
    /// The whole file is read.
    ReadLarge,
    /// Every third message is expunged.
    ExpungeThird,
    /// Messages are appended, by peers one after the other.
    Append,
    /// Messages are appended by a single command.
    AppendBatch,
    /// A new process opens the mailbox, which nobody has changed.
    Open,
}

impl Step {
    /// All steps, in their order.
    pub const ALL: [Self; 14] = [
        Self::Copy,
        Self::Sync,
        Self::Late,
        Self::FlagOne,
        Self::FlagLater,
        Self::FlagAll,
        Self::ExpungeSmall,
        Self::ReadSmall,
        Self::ExpungeLarge,
        Self::ReadLarge,
        Self::ExpungeThird,
        Self::Append,
        Self::AppendBatch,
        Self::Open,
    ];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Sync => "first sync",
            Self::Late => "write what was put off",
            Self::FlagOne => "flag one",
            Self::FlagLater => "flag one, later",
            Self::FlagAll => "flag all",
            Self::ExpungeSmall => "expunge first, small",
            Self::ReadSmall => "read the file after it",
            Self::ExpungeLarge => "expunge first, large",
            Self::ReadLarge => "read the file after that",
            Self::ExpungeThird => "expunge every third",
            Self::Append => "append",
            Self::AppendBatch => "append at once",
            Self::Open => "open again",
        }
    }

    /// Returns `true` if the step reads the whole file with a program that knows nothing of mail.
    pub(crate) const fn is_read(self) -> bool {
        matches!(self, Self::ReadSmall | Self::ReadLarge)
    }

    /// Returns `true` if a side does this step.
    pub(crate) fn is_of(self, side: Side) -> bool {
        match (side, self) {
            (Side::Copy, step) => step == Self::Copy,
            (_, Self::Copy) => false,
            (side, Self::Late) => side == Side::DovecotLazy,
            _ => true,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

//! The measured servers and their work.

use std::fmt;

use serde::{Serialize, Serializer};

/// A server in one of its setups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The program under test.
    Barid,
    /// Dovecot with its defaults: a login process for each connection.
    Dovecot,
    /// Dovecot whose login processes serve any number of connections (`service_count=0`).
    DovecotKept,
}

impl Side {
    /// All sides, in the order of the tables.
    pub const ALL: [Self; 3] = [Self::Barid, Self::Dovecot, Self::DovecotKept];

    /// The name in files and reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Barid => "barid",
            Self::Dovecot => "dovecot",
            Self::DovecotKept => "dovecot service_count=0",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// A format of the mailboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MailFormat {
    Maildir,
    Mbox,
}

impl MailFormat {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Maildir => "maildir",
            Self::Mbox => "mbox",
        }
    }
}

/// Mail of one kind, which several works use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Small mailboxes of many users.
    Users,
    /// A mailbox of 100,000 messages.
    Large,
    /// A mailbox of 40,000 messages.
    Middle,
    /// A mailbox of 361,052 messages, most of them in threads.
    Threads,
}

/// Work of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Connections over TLS, one after the other: LOGIN, SELECT, LOGOUT.
    Login,
    /// Idle sessions of a hundred users.
    IdleUsers,
    /// Idle sessions of one user.
    IdleOne,
    /// A new message is announced to all sessions of a mailbox.
    Push,
    /// SELECT without caches or indexes.
    SelectFirst,
    /// SELECT by later sessions.
    SelectAgain,
    /// A process over standard input and output, from its start to the end of SELECT.
    Stdio,
    /// `FETCH 1:* (FLAGS)`.
    Flags,
    /// `UID SEARCH ALL`.
    SearchAll,
    /// `FETCH 1:* (ENVELOPE)`.
    Envelope,
    /// `FETCH 1:* (BODY.PEEK[])`.
    Bodies,
    /// `SEARCH TEXT` for a word that no message has.
    SearchText,
    /// `THREAD REFERENCES` of all messages.
    Thread,
    /// Messages are appended, one after the other.
    Append,
    /// Messages are appended by several sessions at once.
    AppendMany,
    /// 1,000 messages are moved.
    Move,
}

impl Work {
    /// All works, in the order of the tables.
    pub const ALL: [Self; 16] = [
        Self::Login,
        Self::IdleUsers,
        Self::IdleOne,
        Self::Push,
        Self::Append,
        Self::AppendMany,
        Self::Move,
        Self::SelectFirst,
        Self::SelectAgain,
        Self::Stdio,
        Self::Flags,
        Self::SearchAll,
        Self::Envelope,
        Self::Bodies,
        Self::SearchText,
        Self::Thread,
    ];

    /// The word on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::IdleUsers => "idle-users",
            Self::IdleOne => "idle-one",
            Self::Push => "push",
            Self::SelectFirst => "select-first",
            Self::SelectAgain => "select-again",
            Self::Stdio => "stdio",
            Self::Flags => "flags",
            Self::SearchAll => "search-all",
            Self::Envelope => "envelope",
            Self::Bodies => "bodies",
            Self::SearchText => "text",
            Self::Thread => "thread",
            Self::Append => "append",
            Self::AppendMany => "append-many",
            Self::Move => "move",
        }
    }

    /// Returns the mail that the work needs.
    pub(crate) const fn load(self) -> Load {
        match self {
            Self::SelectFirst | Self::SelectAgain | Self::Stdio | Self::Flags | Self::SearchAll => {
                Load::Large
            }
            Self::Envelope | Self::Bodies | Self::SearchText => Load::Middle,
            Self::Thread => Load::Threads,
            _ => Load::Users,
        }
    }

    /// Returns `true` if the work is done on mailboxes of a format.
    const fn is_of(self, format: MailFormat) -> bool {
        match self {
            Self::Login | Self::IdleUsers | Self::IdleOne | Self::Push => {
                matches!(format, MailFormat::Maildir)
            }
            Self::Stdio | Self::Move => matches!(format, MailFormat::Maildir),
            Self::AppendMany | Self::Thread => matches!(format, MailFormat::Mbox),
            _ => true,
        }
    }

    /// Returns `true` if memory is what counts.
    pub(crate) const fn is_memory(self) -> bool {
        matches!(self, Self::IdleUsers | Self::IdleOne)
    }
}

/// A work on mailboxes of one format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The work.
    pub work: Work,
    pub(crate) format: MailFormat,
}

impl Step {
    /// Returns the steps of some works, those on the same mail one after the other.
    pub(crate) fn of(works: &[Work]) -> Vec<Self> {
        let mut steps = Vec::new();
        for load in [Load::Users, Load::Large, Load::Middle, Load::Threads] {
            for format in [MailFormat::Maildir, MailFormat::Mbox] {
                let is_meant = |work: &&Work| work.load() == load && work.is_of(format);
                let in_order = Work::ALL.iter().filter(|work| works.contains(work));
                steps.extend(in_order.filter(is_meant).map(|work| Self { work: *work, format }));
            }
        }
        steps
    }

    /// Returns `true` if a side does this step.
    pub(crate) fn is_of(self, side: Side) -> bool {
        side != Side::DovecotKept || self.work == Work::Login
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&format!("{} {}", self.work.word(), self.format.name()))
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_on_the_same_mail_are_together() {
        let steps = Step::of(&[Work::Thread, Work::Flags, Work::Login, Work::SelectFirst]);
        let names: Vec<String> = steps.iter().map(Step::to_string).collect();
        let expected = [
            "login maildir",
            "select-first maildir",
            "flags maildir",
            "select-first mbox",
            "flags mbox",
            "thread mbox",
        ];
        assert_eq!(names, expected);
    }
}

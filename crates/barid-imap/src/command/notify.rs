//! The arguments of NOTIFY (RFC 5465), and of ESEARCH as far as they are the same (RFC 7377).

use super::{MailboxName, SearchCommand};
use crate::fetch::FetchItems;

/// Mailboxes of which a client wants to know, or in which it searches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MailboxFilter {
    /// The selected mailbox.
    Selected,
    /// The selected mailbox, with expunges announced during commands only; not of ESEARCH.
    SelectedDelayed,
    /// Mailboxes to which mail may be delivered.
    Inboxes,
    /// All mailboxes of the user.
    Personal,
    /// Mailboxes that are subscribed to.
    Subscribed,
    /// Mailboxes and all those below them.
    Subtree(Vec<MailboxName>),
    /// Mailboxes and those one level below them; only of ESEARCH.
    SubtreeOne(Vec<MailboxName>),
    /// Mailboxes by name.
    Mailboxes(Vec<MailboxName>),
}

/// Returns the rest of a name behind that of a mailbox which it is below, or which it is.
pub(crate) fn rest_below<'n>(name: &'n str, of: &str, separator: char) -> Option<&'n str> {
    let rest = name.strip_prefix(of)?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix(separator) }
}

impl MailboxFilter {
    /// Returns `true` for the filters of the selected mailbox.
    pub fn is_selected(&self) -> bool {
        matches!(self, Self::Selected | Self::SelectedDelayed)
    }

    /// Returns `true` if a mailbox belongs to the filter; those of the selected one match none.
    pub fn matches(&self, name: &str, is_subscribed: bool, separator: char) -> bool {
        // RFC 5465 §6.3: a server that does not know where mail is delivered takes all.
        let below = |of: &MailboxName| rest_below(name, &of.0, separator);
        match self {
            Self::Selected | Self::SelectedDelayed => false,
            Self::Inboxes | Self::Personal => true,
            Self::Subscribed => is_subscribed,
            Self::Subtree(names) => names.iter().any(|of| below(of).is_some()),
            Self::SubtreeOne(names) => {
                let is_near = |of| below(of).is_some_and(|rest| !rest.contains(separator));
                names.iter().any(is_near)
            }
            Self::Mailboxes(names) => names.iter().any(|of| of.0 == name),
        }
    }
}

/// The arguments of NOTIFY SET.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NotifySet {
    /// STATUS: the state of the mailboxes is sent at once.
    pub status: bool,
    /// The event groups.
    pub groups: Vec<EventGroup>,
}

/// Mailboxes with the events that are announced.
#[derive(Clone, Debug, PartialEq)]
pub struct EventGroup {
    /// The mailboxes.
    pub filter: MailboxFilter,
    /// The events; without any for NONE.
    pub events: NotifyEvents,
}

/// Events that are announced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NotifyEvents {
    /// MessageNew and MessageExpunge, which are wanted together.
    pub messages: bool,
    /// Items that are fetched of new messages.
    pub items: Option<FetchItems>,
    /// FlagChange.
    pub flags: bool,
    /// MailboxName.
    pub names: bool,
    /// SubscriptionChange.
    pub subscriptions: bool,
    /// MailboxMetadataChange.
    pub metadata: bool,
    /// ServerMetadataChange.
    pub server_metadata: bool,
}

impl NotifyEvents {
    /// Returns `true` if there are events of messages.
    pub fn has_messages(&self) -> bool {
        self.messages || self.flags
    }
}

/// The arguments of ESEARCH.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiSearch {
    /// The mailboxes.
    pub filters: Vec<MailboxFilter>,
    /// The search, whose results are UIDs.
    pub search: SearchCommand,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters() {
        let check = |filter: &MailboxFilter, names: &[&str], expected: &[bool]| {
            let found: Vec<bool> =
                names.iter().map(|name| filter.matches(name, *name == "a", '/')).collect();
            assert_eq!(found, expected, "{filter:?}");
        };
        let names = ["a", "a/b", "a/b/c", "ab", "INBOX"];
        let of = |names: &[&str]| names.iter().map(|name| MailboxName::from(*name)).collect();
        check(&MailboxFilter::Subtree(of(&["a"])), &names, &[true, true, true, false, false]);
        check(&MailboxFilter::SubtreeOne(of(&["a"])), &names, &[true, true, false, false, false]);
        let two = MailboxFilter::Mailboxes(of(&["a/b", "inbox"]));
        check(&two, &names, &[false, true, false, false, true]);
        check(&MailboxFilter::Subscribed, &names, &[true, false, false, false, false]);
        check(&MailboxFilter::Inboxes, &names, &[true; 5]);
        check(&MailboxFilter::Selected, &names, &[false; 5]);
    }
}

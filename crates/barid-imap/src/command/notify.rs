//! The arguments of NOTIFY (RFC 5465), and of ESEARCH as far as they are the same (RFC 7377).

use std::collections::HashMap;

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
fn rest_below<'n>(name: &'n str, of: &str, separator: char) -> Option<&'n str> {
    let rest = name.strip_prefix(of)?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix(separator) }
}

/// Returns the name that a mailbox has after a rename; `None` if it is not concerned.
pub(crate) fn renamed(name: &str, from: &str, to: &str, separator: char) -> Option<String> {
    rest_below(name, from, separator)?;
    Some(format!("{to}{}", &name[from.len()..]))
}

impl MailboxFilter {
    /// Returns `true` for the filters of the selected mailbox.
    pub fn is_selected(&self) -> bool {
        matches!(self, Self::Selected | Self::SelectedDelayed)
    }
}

/// An index that finds the first filter to which a mailbox belongs, without trying each.
#[derive(Clone, Debug, Default)]
pub struct FilterIndex {
    /// The first filters that contain a name, for the mailbox itself and for those below it.
    by_name: HashMap<String, NamedFilters>,
    all: Option<usize>,
    subscribed: Option<usize>,
}

/// Numbers of the first filters that contain a name, by the mailboxes that they match.
#[derive(Clone, Copy, Debug, Default)]
struct NamedFilters {
    itself: Option<usize>,
    children: Option<usize>,
    subtree: Option<usize>,
}

impl FilterIndex {
    /// Creates the index; the filters of the selected mailbox match no mailbox.
    pub fn new<'f>(filters: impl IntoIterator<Item = &'f MailboxFilter>) -> Self {
        let mut index = Self::default();
        for (number, filter) in filters.into_iter().enumerate() {
            // RFC 5465 §6.3: a server that does not know where mail is delivered takes all.
            match filter {
                MailboxFilter::Selected | MailboxFilter::SelectedDelayed => {}
                MailboxFilter::Inboxes | MailboxFilter::Personal => {
                    index.all.get_or_insert(number);
                }
                MailboxFilter::Subscribed => {
                    index.subscribed.get_or_insert(number);
                }
                MailboxFilter::Subtree(names) => index.add(names, |named| {
                    named.subtree.get_or_insert(number);
                }),
                MailboxFilter::SubtreeOne(names) => index.add(names, |named| {
                    named.itself.get_or_insert(number);
                    named.children.get_or_insert(number);
                }),
                MailboxFilter::Mailboxes(names) => index.add(names, |named| {
                    named.itself.get_or_insert(number);
                }),
            }
        }
        index
    }

    fn add(&mut self, names: &[MailboxName], note: impl Fn(&mut NamedFilters)) {
        for name in names {
            note(self.by_name.entry(name.0.clone()).or_default());
        }
    }

    /// Returns the number of the first filter that a mailbox belongs to. O(levels of the name).
    pub fn first(&self, name: &str, is_subscribed: bool, separator: char) -> Option<usize> {
        let named = |name: &str| self.by_name.get(name).copied().unwrap_or_default();
        let own = named(name);
        let mut found =
            [self.all, self.subscribed.filter(|_| is_subscribed), own.itself, own.subtree]
                .into_iter()
                .flatten()
                .min();
        let mut take = |number: Option<usize>| found = found.into_iter().chain(number).min();
        if self.by_name.is_empty() {
            return found;
        }
        for (level, (end, _)) in name.rmatch_indices(separator).enumerate() {
            let above = named(&name[..end]);
            take(above.subtree);
            take(above.children.filter(|_| level == 0));
        }
        found
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

    fn names(names: &[&str]) -> Vec<MailboxName> {
        names.iter().map(|name| MailboxName::from(*name)).collect()
    }

    #[test]
    fn filters() {
        let check = |filter: &MailboxFilter, names: &[&str], expected: &[bool]| {
            let index = FilterIndex::new([filter]);
            let is_in = |name: &&str| index.first(name, *name == "a", '/').is_some();
            let found: Vec<bool> = names.iter().map(is_in).collect();
            assert_eq!(found, expected, "{filter:?}");
        };
        let all = ["a", "a/b", "a/b/c", "ab", "INBOX"];
        check(&MailboxFilter::Subtree(names(&["a"])), &all, &[true, true, true, false, false]);
        check(&MailboxFilter::SubtreeOne(names(&["a"])), &all, &[true, true, false, false, false]);
        let two = MailboxFilter::Mailboxes(names(&["a/b", "inbox"]));
        check(&two, &all, &[false, true, false, false, true]);
        check(&MailboxFilter::Subscribed, &all, &[true, false, false, false, false]);
        check(&MailboxFilter::Inboxes, &all, &[true; 5]);
        check(&MailboxFilter::Selected, &all, &[false; 5]);
    }

    #[test]
    fn the_first_filter_wins() {
        let filters = [
            MailboxFilter::Selected,
            MailboxFilter::Mailboxes(names(&["a/b"])),
            MailboxFilter::SubtreeOne(names(&["a"])),
            MailboxFilter::Subscribed,
            MailboxFilter::Subtree(names(&["a", "b"])),
            MailboxFilter::Mailboxes(names(&["a", "a/b"])),
        ];
        let index = FilterIndex::new(&filters);
        let check = |name, is_subscribed, expected| {
            assert_eq!(index.first(name, is_subscribed, '/'), expected, "{name}");
        };
        check("a/b", true, Some(1));
        check("a", false, Some(2));
        check("a/c", false, Some(2));
        check("a/b/c", false, Some(4));
        check("a/b/c", true, Some(3));
        check("b", false, Some(4));
        check("c", true, Some(3));
        check("c", false, None);
    }
}

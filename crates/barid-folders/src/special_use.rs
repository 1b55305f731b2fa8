//! Special uses (RFC 6154): those that were set, and those that a name has by itself.

use std::collections::BTreeSet;

use barid_imap::command::MailboxName;

use crate::error::{Error, Result};
use crate::limits::USES_MAX;
use crate::names::{INBOX, Levels, NamedPlace};
use crate::state::{TreeState, key_of};
use crate::tree::{FolderTree, Occupant, below};

/// The uses that a mailbox can be given. \All and \Flagged are views of several mailboxes.
const USES: [&str; 6] = ["\\Archive", "\\Drafts", "\\Junk", "\\Sent", "\\Trash", "\\Important"];

/// The uses that a mailbox at the top, or below INBOX, has by its name, in any case. Of two names
/// for one use the first counts.
const BY_NAME: [(&str, &str); 6] = [
    ("Archive", "\\Archive"),
    ("Drafts", "\\Drafts"),
    ("Junk", "\\Junk"),
    ("Spam", "\\Junk"),
    ("Sent", "\\Sent"),
    ("Trash", "\\Trash"),
];

impl FolderTree {
    /// Returns the special uses of a mailbox: those that were set, else the one that its name has
    /// by itself.
    ///
    /// # Errors
    /// As [`FolderTree::spec_of`]; errors of the file system.
    pub fn special_use(&self, name: &MailboxName) -> Result<Vec<String>> {
        let place = self.rules.parse(&name.0)?;
        self.settle()?;
        if self.occupant(&place, &name.0)?.1 == Occupant::Nothing {
            return Err(Error::NoSuchMailbox { name: name.0.clone() });
        }
        let state = self.state_for_reading()?;
        let NamedPlace::Below(levels) = &place else { return Ok(Vec::new()) };
        let is_mailbox = |levels: &Levels| {
            let found = self.occupant(&below(levels), "");
            found.is_ok_and(|(_, occupant)| matches!(occupant, Occupant::Mailbox(_)))
        };
        Ok(uses_of(&state, levels, &is_mailbox))
    }

    /// Sets the special uses of a mailbox, durably: none if there are none, instead of the one that
    /// its name has by itself.
    ///
    /// **Commit point:** the rename of the new file `names` into its place.
    ///
    /// # Errors
    /// [`Error::SpecialUse`] for one that is unknown, or that was set for another mailbox;
    /// [`Error::NoSuchMailbox`]; [`Error::Cannot`] for INBOX; errors of the file system.
    pub fn set_special_use(&self, name: &MailboxName, uses: &[String]) -> Result<()> {
        let place = self.rules.parse(&name.0)?;
        if place == NamedPlace::Inbox && !uses.is_empty() {
            let why = "INBOX has no special use";
            return Err(Error::Cannot { name: name.0.clone(), why });
        }
        let mut change = self.begin()?;
        if !matches!(self.occupant(&place, &name.0)?.1, Occupant::Mailbox(_)) {
            return Err(Error::NoSuchMailbox { name: name.0.clone() });
        }
        let uses = checked(&change.state, &key_of(&place), uses, &|key| {
            self.occupant(&crate::state::place_of_key(key), "")
                .is_ok_and(|(_, o)| matches!(o, Occupant::Mailbox(_)))
        })?;
        change.state.names.entry(key_of(&place)).or_default().uses = Some(uses);
        change.make(Vec::new())
    }

    /// Returns the state for an answer; an unreadable one does not hide the mailboxes.
    pub(crate) fn state_for_reading(&self) -> Result<TreeState> {
        let Some(folder) = self.state_folder()? else { return Ok(TreeState::default()) };
        match self.read_state(&folder) {
            Err(Error::Damaged { .. }) => Ok(TreeState::default()),
            state => state,
        }
    }
}

/// Returns special uses as the RFC writes them, without doubles.
///
/// # Errors
/// [`Error::SpecialUse`].
pub(crate) fn checked(
    state: &TreeState,
    key: &str,
    uses: &[String],
    is_mailbox: &dyn Fn(&str) -> bool,
) -> Result<Vec<String>> {
    let mut all = BTreeSet::new();
    for special_use in uses {
        let refuse = |why| Err(Error::SpecialUse { special_use: special_use.clone(), why });
        let Some(known) = USES.iter().find(|known| known.eq_ignore_ascii_case(special_use)) else {
            return refuse("not a special use that a mailbox can have here");
        };
        let mut others = state.names.iter().filter(|(other, _)| *other != key);
        let has = |uses: &Option<Vec<String>>| {
            uses.as_ref().is_some_and(|uses| uses.iter().any(|has| has == known))
        };
        if others.any(|(key, state)| has(&state.uses) && is_mailbox(key)) {
            return refuse("another mailbox has it");
        }
        all.insert((*known).to_owned());
    }
    match all.len() > USES_MAX {
        true => Err(Error::SpecialUse {
            special_use: format!("{} uses", all.len()),
            why: "too many for one mailbox",
        }),
        false => Ok(all.into_iter().collect()),
    }
}

/// Returns the special uses of levels. `is_mailbox` is asked for the names that would have a use by
/// themselves, too.
pub(crate) fn uses_of(
    state: &TreeState,
    levels: &Levels,
    is_mailbox: &dyn Fn(&Levels) -> bool,
) -> Vec<String> {
    let name_state = state.names.get(&key_of(&below(levels)));
    if let Some(uses) = name_state.and_then(|state| state.uses.clone()) {
        return uses;
    }
    let Some(rank) = rank(levels) else { return Vec::new() };
    let special_use = BY_NAME[rank.1].1;
    let is_set = |uses: &Option<Vec<String>>| {
        uses.as_ref().is_some_and(|uses| uses.iter().any(|set| set == special_use))
    };
    let set_elsewhere = state.names.iter().filter(|(_, state)| is_set(&state.uses));
    let is_taken = set_elsewhere
        .filter_map(|(key, _)| match crate::state::place_of_key(key) {
            NamedPlace::Below(levels) => Some(levels),
            NamedPlace::Inbox => None,
        })
        .any(|levels| is_mailbox(&levels));
    let has_better = BY_NAME.iter().enumerate().filter(|(_, entry)| entry.1 == special_use).any(
        |(at, (name, _))| {
            let top = vec![(*name).to_owned()];
            let under_inbox = vec![INBOX.to_owned(), (*name).to_owned()];
            let better = |place: &Levels, its: (usize, usize)| {
                its < rank && place != levels && is_undecided(state, place) && is_mailbox(place)
            };
            better(&top, (0, at)) || better(&under_inbox, (1, at))
        },
    );
    if is_taken || has_better { Vec::new() } else { vec![special_use.to_owned()] }
}

/// Returns `true` if no uses were set for a name.
fn is_undecided(state: &TreeState, levels: &Levels) -> bool {
    state.names.get(&key_of(&below(levels))).is_none_or(|state| state.uses.is_none())
}

/// Returns the rank of a name among those that have a use by themselves: names at the top come
/// first, and then those that are first in [`BY_NAME`].
fn rank(levels: &Levels) -> Option<(usize, usize)> {
    let (depth, name) = match &levels[..] {
        [name] => (0, name),
        [inbox, name] if inbox == INBOX => (1, name),
        _ => return None,
    };
    let at = BY_NAME.iter().position(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some((depth, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::NameState;

    fn levels(name: &str) -> Levels {
        name.split('/').map(str::to_owned).collect()
    }

    /// Compares the uses of all mailboxes; `set` are those that were set.
    #[track_caller]
    fn check(mailboxes: &[&str], set: &[(&str, &[&str])], expected: &[(&str, &str)]) {
        let mut state = TreeState::default();
        for (name, uses) in set {
            let uses = uses.iter().map(|text| (*text).to_owned()).collect();
            let name_state = NameState { uses: Some(uses), ..NameState::default() };
            state.names.insert((*name).to_owned(), name_state);
        }
        let is_mailbox = |levels: &Levels| mailboxes.contains(&levels.join("/").as_str());
        let mut found = Vec::new();
        for name in mailboxes {
            for special_use in uses_of(&state, &levels(name), &is_mailbox) {
                found.push(((*name).to_owned(), special_use));
            }
        }
        let expected: Vec<_> =
            expected.iter().map(|(name, uses)| ((*name).to_owned(), (*uses).to_owned())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn well_known_names_have_uses() {
        check(
            &["Sent", "trash", "a/Sent", "INBOX/Drafts", "Spam", "Entwürfe"],
            &[],
            &[
                ("Sent", "\\Sent"),
                ("trash", "\\Trash"),
                ("INBOX/Drafts", "\\Drafts"),
                ("Spam", "\\Junk"),
            ],
        );
        check(&["Junk", "Spam", "INBOX/Junk"], &[], &[("Junk", "\\Junk")]);
        check(&["INBOX/Sent", "Sent"], &[], &[("Sent", "\\Sent")]);
    }

    #[test]
    fn uses_that_were_set_come_first() {
        let sent: (&str, &[&str]) = ("Gesendet", &["\\Sent"]);
        check(&["Sent", "Gesendet"], &[sent], &[("Gesendet", "\\Sent")]);
        check(&["Sent"], &[sent], &[("Sent", "\\Sent")]);
        check(&["Sent"], &[("Sent", &[])], &[]);
        check(&["Junk", "Spam"], &[("Junk", &[])], &[("Spam", "\\Junk")]);
        let two: (&str, &[&str]) = ("a", &["\\Drafts", "\\Important"]);
        check(&["a"], &[two], &[("a", "\\Drafts"), ("a", "\\Important")]);
    }

    #[test]
    fn a_use_is_given_once() {
        let mut state = TreeState::default();
        let uses = |text: &[&str]| text.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let of_a = NameState { uses: Some(uses(&["\\Sent"])), ..NameState::default() };
        state.names.insert("a".to_owned(), of_a);
        let check = |key: &str, wanted: &[&str], exists: bool| {
            checked(&state, key, &uses(wanted), &|_| exists).ok()
        };
        assert_eq!(check("b", &["\\SENT"], true), None);
        assert_eq!(check("b", &["\\SENT", "\\sent"], false), Some(uses(&["\\Sent"])));
        assert_eq!(check("a", &["\\Sent"], true), Some(uses(&["\\Sent"])));
        assert_eq!(check("a", &["\\All"], true), None);
        assert_eq!(check("a", &["Sent"], true), None);
    }
}

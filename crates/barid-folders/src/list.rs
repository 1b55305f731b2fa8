//! The answer to LIST and LSUB (RFC 9051 §6.3.9, RFC 3501 §6.3.9, RFC 5258, RFC 6154).

use std::collections::{BTreeMap, BTreeSet};

use barid::MessageLayout;
use barid_imap::backend::ListedMailbox;
use barid_imap::command::ListCommand;

use crate::error::Result;
use crate::limits::SEARCHES_MAX;
use crate::names::{INBOX, Levels, NamedPlace};
use crate::patterns::ListPattern;
use crate::search::FoundFolders;
use crate::special_use::uses_of;
use crate::state::TreeState;
use crate::tree::FolderTree;

/// A name of the tree: of a mailbox, of a folder, of a subscription, or the beginning of others.
#[derive(Clone, Debug, Default)]
struct TreeName {
    listed: ListedMailbox,
    /// A mailbox or folder of the name or below it exists.
    is_on_disk: bool,
    /// Names below it that are subscribed to, and that the patterns do not match.
    has_unlisted_subscribed_below: bool,
}

/// All names by their levels, the levels of the prefix included.
type TreeNames = BTreeMap<Levels, TreeName>;

impl FolderTree {
    /// Returns the mailboxes that match, ascending by name, with INBOX first. INBOX is listed even
    /// if it does not exist yet; it is created when it is first needed
    /// ([`FolderTree::create`]).
    ///
    /// A name that only begins others, and a subscription without mailbox, do not `exist`. With the
    /// selection option SPECIAL-USE only mailboxes that have one are returned; the return option
    /// changes nothing, since every answer has them.
    ///
    /// Costs some system calls for each mailbox, whatever the patterns. The tree is that of one
    /// moment as far as barid's own changes go.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn list(&self, command: &ListCommand) -> Result<Vec<ListedMailbox>> {
        let (folders, state) = self.consistent_search()?;
        let subscriptions = self.subscriptions()?;
        let names = self.names_of(&folders, &state, &subscriptions);
        let pattern =
            |pattern: &String| ListPattern::new(&command.reference, pattern, self.separator());
        let patterns: Vec<ListPattern> = command.patterns.iter().map(pattern).collect();
        Ok(self.selected(names, command, &patterns))
    }

    /// Returns all mailboxes, folders and subscriptions, ascending by name. `exists` is `false` for
    /// a subscription without a mailbox. Searches the tree once, however many subscriptions there
    /// are.
    ///
    /// # Errors
    /// As [`FolderTree::list`].
    pub fn list_all(&self) -> Result<Vec<ListedMailbox>> {
        let (folders, state) = self.consistent_search()?;
        let subscriptions = self.subscriptions()?;
        let names = self.names_of(&folders, &state, &subscriptions).into_values();
        let is_listed = |entry: &TreeName| entry.is_on_disk || entry.listed.is_subscribed;
        let mut all: Vec<_> = names.filter(is_listed).map(|entry| entry.listed).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Finds the folders and the state of one moment: searches again if barid changed the tree
    /// meanwhile.
    fn consistent_search(&self) -> Result<(FoundFolders, TreeState)> {
        let mut searches = 1;
        loop {
            self.settle()?;
            let before = self.state_for_reading()?.changes;
            let folders = self.search()?;
            self.settle()?;
            let state = self.state_for_reading()?;
            if state.changes == before || searches == SEARCHES_MAX {
                return Ok((folders, state));
            }
            searches += 1;
        }
    }

    /// Collects all names with their attributes.
    fn names_of(
        &self,
        folders: &FoundFolders,
        state: &TreeState,
        subscriptions: &BTreeSet<NamedPlace>,
    ) -> TreeNames {
        let mut names = TreeNames::new();
        let inbox = names.entry(vec![INBOX.to_owned()]).or_default();
        inbox.is_on_disk = true;
        let listed = &mut inbox.listed;
        (listed.exists, listed.is_selectable, listed.may_have_children) = (true, true, true);
        let is_mailbox =
            |levels: &Levels| folders.get(levels).is_some_and(|folder| folder.format.is_some());
        for (levels, folder) in folders {
            let entry = names.entry(self.whole_levels(levels)).or_default();
            entry.is_on_disk = true;
            let listed = &mut entry.listed;
            (listed.exists, listed.is_selectable) = (true, folder.format.is_some());
            let is_file =
                folder.format.is_some_and(|format| format.layout == MessageLayout::OneFile);
            listed.may_have_children = !is_file;
            if folder.format.is_some() {
                listed.special_use = uses_of(state, levels, &is_mailbox);
            }
        }
        for place in subscriptions {
            let levels = match place {
                NamedPlace::Inbox => vec![INBOX.to_owned()],
                NamedPlace::Below(levels) => self.whole_levels(levels),
            };
            names.entry(levels).or_default().listed.is_subscribed = true;
        }
        self.add_beginnings(&mut names);
        for (levels, entry) in &mut names {
            entry.listed.name = levels.join(&self.separator().to_string());
        }
        names
    }

    /// Returns the levels of a whole name.
    fn whole_levels(&self, levels: &[String]) -> Levels {
        let prefix = self.rules.prefix.split(self.separator()).filter(|level| !level.is_empty());
        prefix.map(str::to_owned).chain(levels.iter().cloned()).collect()
    }

    /// Adds the beginnings of all names, and the attributes that names have by those below them.
    fn add_beginnings(&self, names: &mut TreeNames) {
        let all: Vec<(Levels, bool, bool)> = names
            .iter()
            .map(|(levels, entry)| (levels.clone(), entry.is_on_disk, entry.listed.is_subscribed))
            .collect();
        for (levels, is_on_disk, is_subscribed) in all {
            for len in 1..levels.len() {
                let entry = names.entry(levels[..len].to_vec()).or_insert_with(|| TreeName {
                    listed: ListedMailbox { may_have_children: true, ..ListedMailbox::default() },
                    ..TreeName::default()
                });
                entry.is_on_disk |= is_on_disk;
                entry.listed.has_children |= is_on_disk;
                entry.listed.has_subscribed_below |= is_subscribed;
            }
        }
    }

    /// Selects the names that a command asks for.
    fn selected(
        &self,
        mut names: TreeNames,
        command: &ListCommand,
        patterns: &[ListPattern],
    ) -> Vec<ListedMailbox> {
        let selection = &command.selection;
        let is_lsub = command.response == LSUB;
        let by_subscription = selection.subscribed || is_lsub;
        let matched: BTreeSet<Levels> = names
            .iter()
            .filter(|(_, entry)| patterns.iter().any(|pattern| pattern.matches(&entry.listed.name)))
            .map(|(levels, _)| levels.clone())
            .collect();
        // LSUB names parents only for a pattern that ends with `%` (RFC 3501 §6.3.9).
        let wants_parents = match is_lsub {
            true => command.patterns.iter().any(|pattern| pattern.ends_with('%')),
            false => selection.recursive_match,
        };
        if by_subscription && wants_parents {
            note_unlisted(&mut names, &matched);
        }
        let is_selected = |entry: &TreeName| {
            let listed = &entry.listed;
            let special = !selection.special_use || !listed.special_use.is_empty();
            let kind = match by_subscription {
                true => listed.is_subscribed || entry.has_unlisted_subscribed_below,
                false => entry.is_on_disk,
            };
            special && kind
        };
        names.retain(|levels, entry| matched.contains(levels) && is_selected(entry));
        let mut listed: Vec<_> = names.into_values().map(|entry| entry.listed).collect();
        listed.sort_by(|a, b| (a.name != INBOX, &a.name).cmp(&(b.name != INBOX, &b.name)));
        listed
    }
}

/// The response of the old command for subscriptions.
const LSUB: &str = "LSUB";

/// Notes for every name that something below it is subscribed to and not matched itself: only then
/// does a parent stand for it (RFC 5258 §3.5).
fn note_unlisted(names: &mut TreeNames, matched: &BTreeSet<Levels>) {
    let is_unlisted = |(levels, entry): &(&Levels, &TreeName)| {
        entry.listed.is_subscribed && !matched.contains(*levels)
    };
    let unlisted: Vec<Levels> =
        names.iter().filter(is_unlisted).map(|(levels, _)| levels.clone()).collect();
    for levels in unlisted {
        for len in 1..levels.len() {
            if let Some(entry) = names.get_mut(&levels[..len]) {
                entry.has_unlisted_subscribed_below = true;
            }
        }
    }
}

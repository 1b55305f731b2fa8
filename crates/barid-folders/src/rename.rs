//! Renaming of mailboxes with all below them (RFC 9051 §6.3.6).

use std::path::{Path, PathBuf};

use barid::MailboxSpec;
use barid_imap::command::MailboxName;

use crate::change::TreeChange;
use crate::delete::HeldFile;
use crate::error::{Error, Result};
use crate::journal::Step;
use crate::names::{Levels, NamedPlace};
use crate::options::Layout;
use crate::state::{PastValidity, key_of};
use crate::steps::spec_at;
use crate::tree::{FolderTree, Occupant, below, format_at};
use crate::validity;

/// Result of a rename.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the messages of INBOX may have to be moved"]
pub enum Renamed {
    /// It is done.
    Done,
    /// INBOX was renamed: the new mailbox exists, empty, and the caller moves the messages.
    MoveMessages {
        /// INBOX, which stays, empty.
        from: MailboxSpec,
        /// The new mailbox.
        to: MailboxSpec,
    },
}

/// A mailbox or folder that gets another name.
#[derive(Clone, Debug)]
struct RenamedFolder {
    from: Levels,
    to: Levels,
    path: PathBuf,
    is_mailbox: bool,
}

impl FolderTree {
    /// Renames a mailbox, and all below it, durably. They keep their identities and with them their
    /// UIDs. Special uses and metadata go along; subscriptions are by name and stay (RFC 9051
    /// §6.3.7). INBOX keeps its name and the mailboxes below it: see [`Renamed::MoveMessages`].
    ///
    /// A mailbox whose UIDVALIDITY another one has had under the new name gets a new UIDVALIDITY
    /// first, since a client could take its messages for those of the other.
    ///
    /// **Commit point:** the rename of the journal into its place. Order: journal; folders above;
    /// new UIDVALIDITYs; the renames, of which Maildir++ needs one for each mailbox; state; removal
    /// of the journal. After a crash the next call completes the renames.
    ///
    /// # Errors
    /// [`Error::NoSuchMailbox`]; [`Error::AlreadyExists`] if a mailbox or folder has one of the new
    /// names; [`Error::Cannot`] for a name that cannot be used, or below the old name, and for a
    /// mailbox that needs a new UIDVALIDITY and cannot be given one; [`Error::Locked`]; errors of
    /// the file system.
    pub fn rename(&self, from: &MailboxName, to: &MailboxName) -> Result<Renamed> {
        let (from, to) = (&from.0, &to.0);
        let (old, new) = (self.rules.parse(from)?, self.rules.parse(to)?);
        let NamedPlace::Below(new_levels) = &new else {
            return Err(Error::AlreadyExists { name: to.clone() });
        };
        let NamedPlace::Below(old_levels) = &old else {
            return self.rename_inbox(&new, to);
        };
        let cannot = |why| Err(Error::Cannot { name: to.clone(), why });
        if new_levels.starts_with(old_levels) {
            return match new_levels.len() == old_levels.len() {
                true => Err(Error::AlreadyExists { name: to.clone() }),
                false => cannot("a mailbox cannot be moved below itself"),
            };
        }
        let mut change = self.begin()?;
        let renamed = change.renamed_folders((old_levels, from), (new_levels, to))?;
        let mut steps = Vec::new();
        let mut held = None;
        for folder in renamed.iter().filter(|folder| folder.is_mailbox) {
            let is_moved_itself = folder.from == *old_levels;
            steps.extend(change.leave(folder, is_moved_itself, &mut held)?);
        }
        let (path, _) = self.occupant(&new, to)?;
        let mut folders = change.missing_folders(&path, to, change.file_mode()?)?;
        folders.append(&mut steps);
        for folder in &renamed {
            // Where folders are in folders, those below go with the one that is renamed.
            if self.rules.layout == Layout::MaildirPlusPlus || folder.from == *old_levels {
                folders.push(change.moving(folder)?);
            }
        }
        change.rename_properties(&key_of(&old), &key_of(&new));
        change.make(folders)?;
        validity::raise(&*self.vfs, &self.root, change.state.uidvalidity_max);
        Ok(Renamed::Done)
    }

    /// Creates the mailbox to which the messages of INBOX are moved.
    fn rename_inbox(&self, new: &NamedPlace, to: &str) -> Result<Renamed> {
        let mut change = self.begin()?;
        if self.occupant(&NamedPlace::Inbox, to)?.1 == Occupant::Nothing {
            return Err(Error::NoSuchMailbox { name: self.name_of(&NamedPlace::Inbox) });
        }
        let steps = change.creation(new, to, true)?;
        change.make(steps)?;
        validity::raise(&*self.vfs, &self.root, change.state.uidvalidity_max);
        let (path, _) = self.occupant(new, to)?;
        Ok(Renamed::MoveMessages { from: self.inbox.clone(), to: spec_at(&path) })
    }
}

impl TreeChange<'_> {
    /// Returns what is renamed, in the order in which the new names become free: upper levels
    /// first.
    fn renamed_folders(
        &self,
        (old, from): (&Levels, &str),
        (new, to): (&Levels, &str),
    ) -> Result<Vec<RenamedFolder>> {
        let tree = self.tree;
        // Refuses links, too, and finds what the search leaves out.
        let (_, occupant) = tree.occupant(&below(old), from)?;
        let found = match self.has_dotted() {
            true => tree.dotted_folders()?,
            false => tree.search()?,
        };
        let mut renamed: Vec<RenamedFolder> = found
            .range(old.clone()..)
            .take_while(|(levels, _)| levels.starts_with(old))
            .map(|(levels, folder)| RenamedFolder {
                from: levels.clone(),
                to: [new, &levels[old.len()..]].concat(),
                path: folder.path.clone(),
                is_mailbox: folder.format.is_some(),
            })
            .collect();
        if renamed.is_empty() || occupant == Occupant::Nothing && !self.has_dotted() {
            return Err(Error::NoSuchMailbox { name: from.to_owned() });
        }
        renamed.sort_by_key(|folder| folder.from.len());
        for folder in &renamed {
            tree.check_without_inbox(&folder.path, from)?;
        }
        for folder in &renamed {
            let name = tree.rules.name_of(&folder.to);
            let root_len = tree.root.as_os_str().len();
            tree.rules.check_new(&name, &folder.to, root_len, folder.is_mailbox)?;
            if folder.to.len() > crate::limits::LEVELS_MAX
                || name.len() > crate::limits::NAME_LEN_MAX
            {
                return Err(Error::Cannot { name, why: "the name is too long" });
            }
            let goes_away = renamed.iter().any(|other| other.from == folder.to);
            let target = tree.locate(&folder.to);
            let is_taken =
                found.contains_key(&folder.to) || tree.vfs.symlink_metadata(&target).is_ok();
            if is_taken && !(goes_away && self.has_dotted()) {
                return Err(Error::AlreadyExists { name: to.to_owned() });
            }
        }
        Ok(renamed)
    }

    fn has_dotted(&self) -> bool {
        self.tree.rules.layout == Layout::MaildirPlusPlus
    }

    /// Prepares a mailbox to leave its name: completes unfinished changes, locks it if it is a file
    /// that is renamed itself, and remembers its UIDVALIDITY. Returns the step that gives it
    /// another one, if it needs that.
    ///
    /// Files in a folder that is renamed are not locked: their lock files would go along.
    fn leave(
        &mut self,
        folder: &RenamedFolder,
        is_moved_itself: bool,
        held: &mut Option<HeldFile>,
    ) -> Result<Option<Step>> {
        let tree = self.tree;
        let name = tree.rules.name_of(&folder.from);
        let format = format_at(&*tree.vfs, &folder.path)?;
        let rest = match format.filter(|_| is_moved_itself) {
            Some(format) => {
                let (rest, file) = self.take(&folder.path, &name, format)?;
                *held = file;
                rest
            }
            None => self.at_rest(&folder.path, &name)?,
        };
        self.note_left(&key_of(&below(&folder.from)), &rest);
        let new_key = key_of(&below(&folder.to));
        let Some(uidvalidity) = rest.uidvalidity() else { return Ok(None) };
        if !self.state.had(&new_key, PastValidity { uidvalidity, id: rest.id }) {
            return Ok(None);
        }
        let is_held_by_file = rest.stored_uidvalidity.is_some();
        if is_held_by_file && !format.is_some_and(|format| format.has_message_files()) {
            let why = "its UIDVALIDITY is one that another mailbox of the new name had";
            return Err(Error::Cannot { name, why });
        }
        let uidvalidity = self.next_uidvalidity();
        Ok(Some(Step::Renumber { at: self.spot(&folder.path)?, uidvalidity }))
    }

    /// Plans the rename of one file or folder.
    fn moving(&self, folder: &RenamedFolder) -> Result<Step> {
        let tree = self.tree;
        let found = tree.vfs.symlink_metadata(&folder.path).map_err(Error::at(&folder.path))?;
        let to = self.new_path(&folder.to);
        Ok(Step::Move { from: self.spot(&folder.path)?, to: self.spot(&to)?, inode: found.inode })
    }

    /// Returns the path that levels get, whatever is there before the renames.
    fn new_path(&self, levels: &Levels) -> PathBuf {
        let tree = self.tree;
        match self.has_dotted() {
            true => tree.root.join(tree.rules.file_names(levels).concat()),
            false => Path::to_owned(&tree.locate(levels)),
        }
    }

    /// Gives the properties of a name, and of all below it, to the new names.
    fn rename_properties(&mut self, old: &str, new: &str) {
        let is_moved = |key: &str| {
            key == old || key.strip_prefix(old).is_some_and(|rest| rest.starts_with('/'))
        };
        let keys: Vec<String> =
            self.state.names.keys().filter(|key| is_moved(key)).cloned().collect();
        let taken: Vec<_> = keys
            .iter()
            .map(|key| {
                let properties = self.state.take_properties(key);
                (format!("{new}{}", &key[old.len()..]), properties)
            })
            .collect();
        for (key, properties) in taken {
            self.state.give_properties(&key, properties);
        }
    }
}

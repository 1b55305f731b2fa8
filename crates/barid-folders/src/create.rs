//! Creation of mailboxes (RFC 9051 §6.3.4, RFC 6154 §3).

use std::path::Path;

use barid::MessageLayout;
use barid_imap::command::MailboxName;

use crate::change::TreeChange;
use crate::error::{Error, Result};
use crate::journal::Step;
use crate::names::NamedPlace;
use crate::options::Layout;
use crate::special_use::checked;
use crate::state::{key_of, place_of_key};
use crate::steps::folder_mode;
use crate::tree::{FolderTree, Occupant};
use crate::validity;

impl FolderTree {
    /// Creates a mailbox and the folders above it, durably. Its UIDVALIDITY is above every one that
    /// a mailbox of the account is known to have had.
    ///
    /// `is_folder` says that the client will create mailboxes below it (RFC 9051 §6.3.4: the name
    /// ends with a separator). Where mailboxes are files, which cannot contain any, a folder is
    /// created instead; elsewhere it changes nothing. INBOX is created if it does not exist yet.
    ///
    /// **Commit point:** the rename of the journal into its place. Order: journal; folders above;
    /// the mailbox as [`barid::create()`] makes it; state; removal of the journal. A crash before
    /// the commit point leaves nothing but a UIDVALIDITY that is not used; after it, the next call
    /// completes the creation.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`]; [`Error::Cannot`] for a name that cannot be used or a parent that
    /// cannot contain mailboxes; [`Error::SpecialUse`]; errors of the file system.
    pub fn create(
        &self,
        name: &MailboxName,
        is_folder: bool,
        special_use: &[String],
    ) -> Result<()> {
        let name = &name.0;
        let place = self.rules.parse(name)?;
        if place == NamedPlace::Inbox && !special_use.is_empty() {
            let why = "INBOX has no special use";
            return Err(Error::Cannot { name: name.clone(), why });
        }
        let mut change = self.begin()?;
        let is_mailbox = !is_folder || !self.mailboxes_are_files();
        if let Some(special_use) = special_use.first().filter(|_| !is_mailbox) {
            let why = "a folder that contains mailboxes has no special use";
            return Err(Error::SpecialUse { special_use: special_use.clone(), why });
        }
        let steps = change.creation(&place, name, is_mailbox)?;
        if is_mailbox && place != NamedPlace::Inbox {
            let key = key_of(&place);
            let exists = |key: &str| {
                let found = self.occupant(&place_of_key(key), "");
                found.is_ok_and(|(_, occupant)| matches!(occupant, Occupant::Mailbox(_)))
            };
            let uses = checked(&change.state, &key, special_use, &exists)?;
            let uses = (!uses.is_empty()).then_some(uses);
            change.state.give_properties(&key, (uses, Default::default()));
        }
        change.make(steps)?;
        validity::raise(&*self.vfs, &self.root, change.state.uidvalidity_max);
        Ok(())
    }

    /// Returns `true` if a mailbox is a file and cannot contain others.
    fn mailboxes_are_files(&self) -> bool {
        match self.rules.layout {
            Layout::Files(format) => format.layout == MessageLayout::OneFile,
            Layout::MaildirPlusPlus | Layout::NestedMaildirs => false,
        }
    }
}

impl TreeChange<'_> {
    /// Plans the creation of a mailbox, or of a folder only.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`]; [`Error::Cannot`].
    pub(crate) fn creation(
        &mut self,
        place: &NamedPlace,
        name: &str,
        is_mailbox: bool,
    ) -> Result<Vec<Step>> {
        let tree = self.tree;
        let (path, occupant) = tree.occupant(place, name)?;
        let exists = || Err(Error::AlreadyExists { name: name.to_owned() });
        match occupant {
            Occupant::Mailbox(_) => return exists(),
            Occupant::Folder if tree.mailboxes_are_files() || !is_mailbox => return exists(),
            Occupant::Folder | Occupant::Nothing => {}
        }
        if let NamedPlace::Below(levels) = place {
            tree.rules.check_new(name, levels, tree.root.as_os_str().len(), is_mailbox)?;
        }
        let mode = self.file_mode()?;
        let mut steps = self.missing_folders(&path, name, mode)?;
        if !is_mailbox {
            steps.push(Step::MakeFolder { at: self.spot(&path)?, mode: folder_mode(mode) });
            return Ok(steps);
        }
        let is_inbox = *place == NamedPlace::Inbox;
        let of_inbox = tree.inbox.format.filter(|_| is_inbox).map(barid::FormatName::format);
        let format = match of_inbox {
            Some(format) => format,
            None => tree.new_format()?,
        };
        if is_inbox && self.spot(&path).is_err() {
            // It is elsewhere, where the journal does not reach: the UIDVALIDITY must be used up
            // before it is given.
            let uidvalidity = Some(self.next_uidvalidity());
            self.make(Vec::new())?;
            let create =
                barid::CreateOptions { uidvalidity, mode, ..barid::CreateOptions::default() };
            let state_dir = &tree.options.mailboxes.state_dir;
            barid::create(&tree.vfs, &path, format, &create, state_dir)?;
            return Ok(steps);
        }
        steps.push(Step::Create {
            at: self.spot(&path)?,
            format,
            uidvalidity: self.next_uidvalidity(),
            mode,
            is_dotted: tree.rules.layout == Layout::MaildirPlusPlus && !is_inbox,
            is_new: tree.vfs.symlink_metadata(&path).is_err(),
        });
        Ok(steps)
    }

    /// Plans the folders above a path that are missing.
    ///
    /// # Errors
    /// [`Error::Cannot`] if something above is not a folder.
    pub(crate) fn missing_folders(&self, path: &Path, name: &str, mode: u32) -> Result<Vec<Step>> {
        let tree = self.tree;
        let mut missing = Vec::new();
        let Some(above) = path.parent().filter(|above| above.starts_with(&tree.root)) else {
            return Ok(missing);
        };
        for folder in above.ancestors().take_while(|folder| *folder != tree.root) {
            match tree.vfs.symlink_metadata(folder) {
                Ok(found) if found.file_type == barid_vfs::FileType::Dir => {}
                Ok(_) => {
                    let why = "the mailbox above it cannot contain others";
                    return Err(Error::Cannot { name: name.to_owned(), why });
                }
                Err(error) if crate::tree::is_absent(&error) => {
                    let mode = folder_mode(mode);
                    missing.push(Step::MakeFolder { at: self.spot(folder)?, mode });
                }
                Err(source) => return Err(Error::at(folder)(source)),
            }
        }
        missing.reverse();
        Ok(missing)
    }
}

//! A folder of links on the disk: making it, and bringing the flags of its files and those of the
//! messages together (`docs/design/links.md`).
//!
//! Everything goes through a [`Vfs`], so that tests can stop it at every change of the disk.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use barid::vfs::{File, FileType, OpenOptions, Vfs, create_dir_durable, is_temporary};
use barid::{
    ChangeOptions, ChangeRequest, Changed, FlagChange, FlagChanges, FlagSet, Mailbox, Uid,
};

use super::links::{
    LinkedMailbox, LinkedMailboxes, MessageLink, flags_of, letters, lock_known, new_id, read_links,
    split_name, write_links,
};
use super::pieces::read_without_owned;
use crate::exit::WithHint;

/// A message to be linked.
pub(crate) struct MessageToLink {
    /// The index of its mailbox.
    pub(crate) part: usize,
    pub(crate) row: u32,
    pub(crate) uid: Uid,
    pub(crate) flags: FlagSet,
    /// Seconds since 1970.
    pub(crate) arrived: i64,
}

/// A folder that was made.
#[derive(Default)]
pub(crate) struct MadeLinks {
    pub(crate) links: u64,
    pub(crate) copies: u64,
    pub(crate) failed: Vec<(Uid, anyhow::Error)>,
}

/// Makes a folder with a link, or where the message is not a file of its own a copy, for each
/// message. The mailboxes are only read.
///
/// The links are made durable before the file that names their messages, whose rename is the commit
/// point. After a crash before that, the folder is not one of links: it is to be removed, and made
/// anew.
pub(crate) fn make(
    vfs: &dyn Vfs,
    (dir, state_dir): (&Path, &Path),
    mut mailboxes: Vec<LinkedMailbox>,
    opened: &mut [&mut Mailbox],
    messages: &[MessageToLink],
) -> anyhow::Result<MadeLinks> {
    prepare(vfs, dir)?;
    let mut made = MadeLinks::default();
    for (number, message) in messages.iter().enumerate() {
        let flags = flags_of(letters(message.flags).as_bytes());
        let base = format!("{}.L{}.barid", message.arrived.max(0), number + 1);
        let path = dir.join("cur").join(format!("{base}:2,{}", letters(flags)));
        match link_or_copy(vfs, opened[message.part], message, &path) {
            Ok(true) => made.links += 1,
            Ok(false) => made.copies += 1,
            Err(error) => {
                made.failed.push((message.uid, error));
                continue;
            }
        }
        let link = MessageLink { base, uid: message.uid, flags, next: None };
        mailboxes[message.part].links.push(link);
    }
    for folder in [&dir.join("cur"), dir] {
        vfs.sync_dir(folder).with_context(|| folder.display().to_string())?;
    }
    mailboxes.retain(|mailbox| !mailbox.links.is_empty());
    let id = new_id(vfs, state_dir)?;
    write_links(vfs, dir, &LinkedMailboxes { id, mailboxes })?;
    Ok(made)
}

/// Creates the folders of an empty Maildir.
fn prepare(vfs: &dyn Vfs, dir: &Path) -> anyhow::Result<()> {
    let at = || dir.display().to_string();
    let mut is_empty = true;
    match vfs.open_dir(dir) {
        Ok(open) => open.list(&mut |_, _| is_empty = false).with_context(at)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(anyhow::Error::new(error).context(at())),
    }
    if !is_empty {
        return Err(WithHint::error(
            format!("{}: not empty, and links are put into a folder of their own", dir.display()),
            "name a folder that does not exist; the links of an earlier search can be removed, the \
             messages stay where they are",
        ));
    }
    create_dir_durable(vfs, dir, 0o700).with_context(at)?;
    for folder in ["cur", "new", "tmp"] {
        vfs.create_dir(&dir.join(folder), 0o700).with_context(at)?;
    }
    Ok(())
}

/// Links a message, or copies it. Returns `true` for a link.
fn link_or_copy(
    vfs: &dyn Vfs,
    mailbox: &mut Mailbox,
    message: &MessageToLink,
    path: &Path,
) -> anyhow::Result<bool> {
    let at = || path.display().to_string();
    if let Some(file) = mailbox.message_file(message.row)? {
        let target: PathBuf = std::path::absolute(&file)?;
        vfs.symbolic_link(&target, path).with_context(at)?;
        return Ok(true);
    }
    let file = vfs.open(path, OpenOptions::create_new(0o600)).with_context(at)?;
    let (mut len, mut failed) = (0, None);
    let read = read_without_owned(mailbox, message.uid, &mut |piece| {
        failed = file.write_all_at(piece, len).err();
        len += piece.len() as u64;
        failed.is_none()
    });
    let written = match failed {
        Some(error) => Err(anyhow::Error::new(error).context(at())),
        None => read.map_err(anyhow::Error::new),
    };
    let done = written.and_then(|()| File::sync_all(&*file).with_context(at));
    if done.is_err() {
        // Half a message would be taken for a whole one.
        let _ = vfs.remove_file(path);
    }
    done.map(|()| false)
}

/// A file in a folder of links.
struct LinkFile {
    path: PathBuf,
    /// The letters behind its name, known ones or not.
    letters: Vec<u8>,
    is_link: bool,
}

impl LinkFile {
    fn flags(&self) -> FlagSet {
        flags_of(&self.letters)
    }
}

/// A folder of links, locked against other programs that bring its flags together.
pub(crate) struct LinkFolder<'a> {
    vfs: &'a dyn Vfs,
    dir: &'a Path,
    pub(crate) links: LinkedMailboxes,
    /// The files by their names without flags.
    files: HashMap<String, LinkFile>,
    /// Names that several files have, with different flags: none of them says anything.
    pub(crate) twice: HashSet<String>,
    /// `true` if the file on the disk does not have the present flags.
    is_dirty: bool,
    _lock: Box<dyn File>,
}

/// Numbers of links and messages of a mailbox that were brought together.
#[derive(Default)]
pub(crate) struct SyncedLinks {
    /// Number of messages that have got flags of their links.
    pub(crate) flagged: u64,
    /// Number of links and copies that have got flags of their messages.
    pub(crate) followed: u64,
    /// Number of links without a message.
    pub(crate) gone: u64,
    /// Number of messages that could not get the flags of their links.
    pub(crate) left: u64,
    /// Result of the change; `None` if nothing was to be changed.
    pub(crate) changed: Option<Changed>,
}

/// A link whose message is there.
struct PresentLink {
    /// The index of the link.
    at: usize,
    /// Flags that were set or taken away at the link.
    changed: FlagSet,
}

impl<'a> LinkFolder<'a> {
    /// Reads a folder of links, which must have been made with this state folder, and removes the
    /// temporary files of a run that crashed.
    ///
    /// # Errors
    /// If the folder is not one of links, or was made elsewhere, or another program brings its
    /// flags together.
    pub(crate) fn open(vfs: &'a dyn Vfs, dir: &'a Path, state_dir: &Path) -> anyhow::Result<Self> {
        let id = read_links(vfs, dir)?.id;
        let Some(lock) = lock_known(vfs, state_dir, &id)? else {
            return Err(WithHint::error(
                format!("{}: these links were not made here: nothing is changed", dir.display()),
                "a folder from somebody else could flag any of your messages; `barid search \
                 --output links --to DIR` makes one of your own",
            ));
        };
        // Another program may have written it before it released the lock.
        let links = read_links(vfs, dir)?;
        let (files, twice) = (HashMap::new(), HashSet::new());
        let mut folder = Self { vfs, dir, links, files, twice, is_dirty: false, _lock: lock };
        folder.list()?;
        Ok(folder)
    }

    fn list(&mut self) -> anyhow::Result<()> {
        let mut left_behind = Vec::new();
        for name in ["new", "cur"] {
            let folder = self.dir.join(name);
            let at = || folder.display().to_string();
            let kind = self.vfs.symlink_metadata(&folder).with_context(at)?.file_type;
            if kind != FileType::Dir {
                anyhow::bail!("{}: not a folder", folder.display());
            }
            let open = self.vfs.open_dir(&folder).with_context(at)?;
            let list = &mut |name: &[u8], kind: FileType| {
                let path = folder.join(OsStr::from_bytes(name));
                let is_link = kind == FileType::Symlink;
                if is_link && is_temporary(name) {
                    left_behind.push(path);
                } else if let Some((base, letters)) = split_name(OsStr::from_bytes(name)) {
                    let file = LinkFile { path, letters: letters.to_vec(), is_link };
                    if self.files.insert(base.to_owned(), file).is_some() {
                        self.twice.insert(base.to_owned());
                    }
                }
            };
            open.list(list).with_context(at)?;
        }
        let open = self.vfs.open_dir(self.dir).with_context(|| self.dir.display().to_string())?;
        let list = &mut |name: &[u8], kind: FileType| {
            if kind == FileType::File && is_temporary(name) {
                left_behind.push(self.dir.join(OsStr::from_bytes(name)));
            }
        };
        open.list(list).with_context(|| self.dir.display().to_string())?;
        for path in left_behind {
            self.vfs.remove_file(&path).with_context(|| path.display().to_string())?;
        }
        self.twice.iter().for_each(|name| drop(self.files.remove(name)));
        Ok(())
    }

    /// Brings the flags of the messages of a mailbox and those of their links together, flag by
    /// flag: what has changed at the link counts, and otherwise what the message has.
    ///
    /// The order: change of the mailbox (its commit point is that of [`Mailbox::change`]); fsync of
    /// the folders; the new flags of links are noted beside the old ones; renames; fsync; they are
    /// noted alone, which is the commit point. After a crash before the first note, the next call
    /// makes the same changes of messages once more; after one before the second, it knows which
    /// flags the interrupted renames have brought, and takes none of them for a change.
    ///
    /// # Errors
    /// Errors of the file system and of the mailbox. Calling again is safe.
    pub(crate) fn sync_mailbox(
        &mut self,
        at: usize,
        mailbox: &mut Mailbox,
        options: &ChangeOptions,
    ) -> anyhow::Result<SyncedLinks> {
        let mut synced = SyncedLinks::default();
        let present = self.change_messages(at, mailbox, options, &mut synced)?;
        let merged = self.merge(at, mailbox, present, &mut synced)?;
        let to_rename: Vec<usize> =
            merged.iter().copied().filter(|it| self.is_moving(at, *it)).collect();
        if self.is_dirty {
            // What mail programs have renamed must not be lost after it was noted.
            self.sync_folders()?;
            self.note()?;
        }
        let mut is_renamed = self.point_anew(at, mailbox, &merged)?;
        for link in to_rename {
            let done = self.rename(at, link)?;
            synced.followed += u64::from(done);
            is_renamed |= done;
        }
        if is_renamed {
            self.sync_folders()?;
        }
        self.note()?;
        Ok(synced)
    }

    /// Brings flags that were changed at links to their messages. Returns the links with messages.
    fn change_messages(
        &self,
        at: usize,
        mailbox: &mut Mailbox,
        options: &ChangeOptions,
        synced: &mut SyncedLinks,
    ) -> anyhow::Result<Vec<PresentLink>> {
        let (mut flags, mut present, mut is_changed) = (FlagChanges::default(), Vec::new(), false);
        for (at, link) in self.links.mailboxes[at].links.iter().enumerate() {
            let Some(file) = self.files.get(&link.base) else { continue };
            if mailbox.row_of(link.uid)?.is_none() {
                synced.gone += 1;
                continue;
            }
            let changed = link.changed_at(file.flags());
            if changed != FlagSet::EMPTY {
                let (now, changed) = (file.flags().bits(), changed.bits());
                let (add, remove) = (now & changed, !now & changed);
                let [add, remove] = [add, remove].map(FlagSet::from_bits);
                flags.push((link.uid, FlagChange { add, remove, ..FlagChange::default() }));
                is_changed = true;
            }
            present.push(PresentLink { at, changed });
        }
        if is_changed {
            let request = ChangeRequest { flags, ..ChangeRequest::default() };
            synced.changed = Some(mailbox.change(&request, options)?);
        }
        Ok(present)
    }

    /// Compares links with their messages, which have got the changes of the links, and sets what
    /// is to be noted. Returns the links that were compared.
    fn merge(
        &mut self,
        at: usize,
        mailbox: &Mailbox,
        present: Vec<PresentLink>,
        synced: &mut SyncedLinks,
    ) -> anyhow::Result<Vec<usize>> {
        let links = &mut self.links.mailboxes[at].links;
        let mut rows = Vec::with_capacity(present.len());
        for link in &present {
            rows.extend(mailbox.row_of(links[link.at].uid)?);
        }
        rows.sort_unstable();
        rows.dedup();
        let mut flags_now = HashMap::with_capacity(rows.len());
        mailbox.summaries(&rows, &mut |message| {
            flags_now.insert(message.uid, flags_of(letters(message.flags).as_bytes()));
            true
        })?;
        let mut merged = Vec::with_capacity(present.len());
        for PresentLink { at, changed } in present {
            let link = &mut links[at];
            let (Some(message), Some(file)) =
                (flags_now.get(&link.uid), self.files.get(&link.base))
            else {
                synced.gone += 1;
                continue;
            };
            let file = file.flags();
            if (message.bits() ^ file.bits()) & changed.bits() != 0 {
                // Not noted, so that the next run tries it again.
                synced.left += 1;
                continue;
            }
            synced.flagged += u64::from(changed != FlagSet::EMPTY);
            let noted = (file, (*message != file).then_some(*message));
            self.is_dirty |= noted != (link.flags, link.next);
            (link.flags, link.next) = noted;
            merged.push(at);
        }
        Ok(merged)
    }

    fn is_moving(&self, at: usize, link: usize) -> bool {
        self.links.mailboxes[at].links[link].next.is_some()
    }

    /// Replaces links whose messages have other files now: a change of flags renames those of a
    /// Maildir. Each is replaced by a rename. Returns `true` if one was.
    fn point_anew(&self, at: usize, mailbox: &Mailbox, merged: &[usize]) -> anyhow::Result<bool> {
        let mut is_replaced = false;
        for link in merged.iter().map(|link| &self.links.mailboxes[at].links[*link]) {
            let Some(file) = self.files.get(&link.base).filter(|file| file.is_link) else {
                continue;
            };
            let Some(row) = mailbox.row_of(link.uid)? else { continue };
            let Some(target) = mailbox.message_file(row)? else { continue };
            let target = std::path::absolute(&target)?;
            let at = || file.path.display().to_string();
            match self.vfs.read_link(&file.path) {
                Ok(known) if known == target => continue,
                Ok(_) => {}
                // A mail program has given it other flags meanwhile: the next run sees to it.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(anyhow::Error::new(error).context(at())),
            }
            let mut random = [0; 8];
            self.vfs.random(&mut random).with_context(at)?;
            let name = format!(".barid-{:016x}.tmp", u64::from_le_bytes(random));
            let temporary = file.path.with_file_name(name);
            self.vfs.symbolic_link(&target, &temporary).with_context(at)?;
            self.vfs.rename(&temporary, &file.path).with_context(at)?;
            is_replaced = true;
        }
        Ok(is_replaced)
    }

    /// Gives a file the flags of its message. Returns `false` if a mail program was faster: then
    /// file and message still have in common what was noted before.
    fn rename(&mut self, at: usize, link: usize) -> anyhow::Result<bool> {
        let link = &mut self.links.mailboxes[at].links[link];
        let (Some(file), Some(next)) = (self.files.get(&link.base), link.next) else {
            return Ok(false);
        };
        let unknown = file.letters.iter().filter(|letter| flags_of(&[**letter]) == FlagSet::EMPTY);
        let mut name: Vec<u8> = unknown.copied().chain(letters(next).bytes()).collect();
        name.sort_unstable();
        let name = [link.base.as_bytes(), b":2,", &name].concat();
        let path = self.dir.join("cur").join(OsStr::from_bytes(&name));
        let renamed = match self.vfs.symlink_metadata(&path) {
            Ok(_) => Err(io::Error::from(ErrorKind::AlreadyExists)),
            Err(error) if error.kind() == ErrorKind::NotFound => self.vfs.rename(&file.path, &path),
            Err(error) => Err(error),
        };
        let is_renamed = match renamed {
            Ok(()) => true,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) =>
            {
                false
            }
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        if is_renamed {
            link.flags = next;
        }
        link.next = None;
        self.is_dirty = true;
        Ok(is_renamed)
    }

    fn sync_folders(&self) -> anyhow::Result<()> {
        for folder in ["new", "cur"].map(|name| self.dir.join(name)) {
            self.vfs.sync_dir(&folder).with_context(|| folder.display().to_string())?;
        }
        Ok(())
    }

    /// Writes the flags that links and messages have in common, if they are not written yet.
    fn note(&mut self) -> anyhow::Result<()> {
        if self.is_dirty {
            write_links(self.vfs, self.dir, &self.links)?;
            self.is_dirty = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! The target of a conversion.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_formats::{CreateOptions, MailboxSpec, detect};
use barid_mailbox::Format;
use barid_state::{Access, Identity, Ledger};
use barid_vfs::{FileType, Vfs};

use super::note::{ConvertNote, NotePlace};
use super::{ConvertOptions, aside};
use crate::limits::CONVERT_ASIDE_MAX;
use crate::opening::LEDGER_LOCK_TIMEOUT;
use crate::{Error, FormatError, Mailbox, OpenOptions, Result, create};

/// The place of the target and its state.
pub(super) struct Site<'a> {
    vfs: &'a Arc<dyn Vfs>,
    spec: MailboxSpec,
    format: Format,
    open: OpenOptions,
    place: NotePlace<'a>,
    /// `true` if this conversion makes or has made the mailbox; `false` if it is an empty one that
    /// was there before.
    is_ours: bool,
}

impl<'a> Site<'a> {
    /// Determines the state of the place, and locks out other conversions to it.
    pub(super) fn find(
        vfs: &'a Arc<dyn Vfs>,
        source: &Mailbox,
        target: &MailboxSpec,
        open: &OpenOptions,
        options: &ConvertOptions,
    ) -> Result<Self> {
        let path = absolute(&**vfs, &target.path)?;
        let spec = MailboxSpec { path: path.clone(), format: target.format };
        let format = format_of(&**vfs, &spec)?;
        let place = NotePlace::lock(&**vfs, &open.state_dir, &path)?;
        let uidvalidity = source.status().uidvalidity.get();
        let note = ConvertNote::new(source.identity.id, uidvalidity, format.name(), &path, options);
        let open = OpenOptions { read_only: false, ..open.clone() };
        let mut site = Self { vfs, spec, format, open, place, is_ours: true };
        match site.place.read()? {
            Some(found) if found == (ConvertNote { is_made: found.is_made, ..note.clone() }) => {
                site.is_ours = found.is_made;
            }
            Some(_) => return Err(Error::OtherConversion { path }),
            None => {
                site.is_ours = !site.is_there()?;
                if !site.is_ours && !site.open_there()?.is_empty() {
                    return Err(Error::TargetNotEmpty { path });
                }
                site.place.write(&ConvertNote { is_made: site.is_ours, ..note })?;
            }
        }
        Ok(site)
    }

    /// Returns the path.
    pub(super) fn path(&self) -> &Path {
        &self.spec.path
    }

    /// Opens the mailbox, creating it if there is none. `None` if the conversion has made the
    /// existing one, but cannot continue with it.
    pub(super) fn open(&self, source: &Mailbox) -> Result<Option<Mailbox>> {
        let uidvalidity = source.status().uidvalidity;
        if self.is_ours && !self.is_there()? {
            if let Some(parent) = self.path().parent() {
                let made = barid_vfs::create_dir_durable(&**self.vfs, parent, 0o700);
                made.map_err(Error::at(parent))?;
            }
            // Messages bring their UIDs, and the last of them UIDNEXT.
            let uidnext = source.is_empty().then(|| source.status().uidnext);
            let uidvalidity = Some(uidvalidity);
            let options = CreateOptions { uidvalidity, uidnext, ..Default::default() };
            create(self.vfs, self.path(), self.format, &options, &self.open.state_dir)?;
        }
        if self.is_ours {
            self.give_uidvalidity(source)?;
        }
        let target = self.open_there()?;
        let is_it = target.status().uidvalidity == uidvalidity;
        Ok((is_it || !self.is_ours).then_some(target))
    }

    /// Writes the UIDVALIDITY to the ledger, for formats that store none, or none yet.
    fn give_uidvalidity(&self, source: &Mailbox) -> Result<()> {
        if self.format.holds_uidvalidity {
            return Ok(());
        }
        let identity = Identity::of(&**self.vfs, self.path(), true)?;
        let dir = &self.open.state_dir;
        let mut ledger = Ledger::open(Arc::clone(self.vfs), dir, &identity, Access::ReadWrite)?;
        if ledger.uidvalidity().is_none() {
            ledger.lock(LEDGER_LOCK_TIMEOUT)?;
            ledger.set_uidvalidity(source.status().uidvalidity);
            ledger.commit()?;
        }
        Ok(())
    }

    /// Returns `true` if there is a mailbox. A folder that is not a mailbox may become one.
    fn is_there(&self) -> Result<bool> {
        match self.vfs.metadata(self.path()) {
            Ok(found) if found.file_type == FileType::Dir => {
                Ok(detect(&**self.vfs, self.path())?.is_some())
            }
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(source) => Err(Error::at(self.path())(source)),
        }
    }

    fn open_there(&self) -> Result<Mailbox> {
        Mailbox::open_in(Arc::clone(self.vfs), &self.spec, &self.open)
    }

    /// Puts aside the remains of an interrupted conversion; returns their path.
    pub(super) fn put_aside(&self) -> Result<PathBuf> {
        let path = self.path();
        if !self.is_ours {
            let what = "it contains messages that are not from this conversion";
            return Err(Error::TargetInTheWay { path: path.to_owned(), what });
        }
        for number in 1..=CONVERT_ASIDE_MAX {
            let aside = aside(path, number);
            match self.vfs.symlink_metadata(&aside) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(source) => return Err(Error::at(&aside)(source)),
                Ok(_) => continue,
            }
            let parent = path.parent().unwrap_or(path);
            self.vfs.rename(path, &aside).map_err(Error::at(path))?;
            self.vfs.sync_dir(parent).map_err(Error::at(parent))?;
            return Ok(aside);
        }
        let what = "too many interrupted conversions are beside it";
        Err(Error::TargetInTheWay { path: path.to_owned(), what })
    }

    /// Returns `true` if the conversion makes the mailbox, so that messages can keep their UIDs.
    pub(super) fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// Ends the conversion: the mailbox is complete.
    pub(super) fn finish(&self) -> Result<()> {
        self.place.remove()
    }
}

/// Removes the note of a target.
pub(super) fn forget(vfs: &dyn Vfs, path: &Path, state_dir: &Path) -> Result<()> {
    NotePlace::lock(vfs, state_dir, &absolute(vfs, path)?)?.remove()
}

/// Returns the path for the note: absolute, even if nothing is there yet.
fn absolute(vfs: &dyn Vfs, path: &Path) -> Result<PathBuf> {
    match vfs.canonicalize(path) {
        Ok(path) => return Ok(path),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(source) => return Err(Error::at(path)(source)),
    }
    let Some(name) = path.file_name() else {
        return Err(Error::at(path)(ErrorKind::NotFound.into()));
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    Ok(absolute(vfs, parent)?.join(name))
}

/// Returns the format that the target has, or is to have.
fn format_of(vfs: &dyn Vfs, spec: &MailboxSpec) -> Result<Format> {
    if let Some(name) = spec.format {
        return Ok(name.format());
    }
    let found = match detect(vfs, &spec.path) {
        Err(FormatError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => None,
        found => found?,
    };
    let (path, reason) = (spec.path.clone(), "its format is unknown");
    Ok(found.ok_or(FormatError::NotAMailbox { path, reason })?)
}

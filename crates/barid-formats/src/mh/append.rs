//! Delivering messages: written beside the others, made durable, and linked under new numbers.
//!
//! Order: every file is written under a hidden name and fsynced, before any lock is taken; under
//! the lock of the sequences these are written with the flags of the new numbers (durable); the
//! files are linked to their numbers; the folder is fsynced; the hidden names go. Commit point of
//! each message: its link; acknowledged after the fsync of the folder. A link never replaces
//! anything: a number that another program took meanwhile is left to it, and the next one tried.
//!
//! After a crash a message is whole or not there; leftovers under hidden names, and sequences of
//! numbers without a message, do no harm: the next delivery of ours clears the latter.

use std::io::ErrorKind;
use std::path::PathBuf;

use barid_types::Flag;
use barid_vfs::{OpenOptions, Timestamp};

use super::layout::{NAME_TRIES_MAX, NUMBER_TRIES_MAX, TMP_PREFIX};
use super::name::Number;
use super::sequences::{Edit, Sequences};
use super::{MhFolder, path_of};
use crate::{Error, NewMessage, Result};

/// Messages that are written under hidden names; the names go with it.
pub(super) struct Drafts<'a> {
    folder: &'a MhFolder,
    messages: &'a [NewMessage<'a>],
    files: Vec<PathBuf>,
}

impl Drop for Drafts<'_> {
    fn drop(&mut self) {
        for file in &self.files {
            // What stays is only waste.
            let _ = self.folder.vfs.remove_file(file);
        }
    }
}

impl<'a> Drafts<'a> {
    /// Writes all messages, durably.
    pub(super) fn write(folder: &'a MhFolder, messages: &'a [NewMessage<'a>]) -> Result<Self> {
        let mut drafts = Self { folder, messages, files: Vec::with_capacity(messages.len()) };
        if !messages.is_empty() {
            let mode = folder.file_mode()?;
            for message in messages {
                drafts.write_one(message, mode)?;
            }
        }
        Ok(drafts)
    }

    fn write_one(&mut self, message: &NewMessage<'_>, mode: u32) -> Result<()> {
        let vfs = self.folder.vfs.as_ref();
        let mut tries = 0;
        let (path, file) = loop {
            let mut random = [0; 8];
            vfs.random(&mut random).map_err(Error::at(&self.folder.path))?;
            let name = format!("{TMP_PREFIX}{:016x}", u64::from_le_bytes(random));
            let path = self.folder.path.join(name);
            match vfs.open(&path, OpenOptions::create_new(mode)) {
                Ok(file) => break (path, file),
                Err(error)
                    if error.kind() == ErrorKind::AlreadyExists && tries < NAME_TRIES_MAX =>
                {
                    tries += 1;
                }
                Err(source) => return Err(Error::at(&path)(source)),
            }
        };
        self.files.push(path.clone());
        let write = || {
            file.write_all_at(message.bytes, 0)?;
            if let Some(date) = message.internal_date {
                let unix_nanos = date.unix_seconds.saturating_mul(1_000_000_000);
                file.set_times(vfs.now(), Timestamp { unix_nanos })?;
            }
            file.sync_all()
        };
        write().map_err(Error::at(&path))
    }

    /// Puts the messages under the numbers behind `last` and into the sequences, which are written
    /// with whatever else was changed in them. The lock of the sequences is held.
    pub(super) fn deliver(
        &self,
        last: Option<Number>,
        sequences: &mut Sequences,
        mode: u32,
    ) -> Result<u64> {
        let vfs = self.folder.vfs.as_ref();
        let mut barriers = 0;
        let mut next = self.after(last.unwrap_or(0), 0)?;
        self.enter(0, next, sequences);
        self.write_sequences(sequences, mode)?;
        barriers += 2;
        let (mut done, mut tries) = (0, 0);
        while done < self.files.len() {
            let target = path_of(&self.folder.path, next);
            match self.link(&self.files[done], &target) {
                Ok(()) => {
                    done += 1;
                    next = next.saturating_add(1);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    tries += 1;
                    if tries > NUMBER_TRIES_MAX {
                        return Err(Error::at(&target)(error));
                    }
                    self.leave(done, next, sequences);
                    next = self.after(next, done)?;
                    self.enter(done, next, sequences);
                    self.write_sequences(sequences, mode)?;
                    barriers += 2;
                }
                Err(source) => return Err(Error::at(&target)(source)),
            }
        }
        vfs.sync_dir(&self.folder.path).map_err(Error::at(&self.folder.path))?;
        Ok(barriers + 1 + self.files.len() as u64)
    }

    fn write_sequences(&self, sequences: &Sequences, mode: u32) -> Result<()> {
        match sequences.is_changed() {
            true => sequences.write(self.folder.vfs.as_ref(), &self.folder.sequences, mode),
            false => Ok(()),
        }
    }

    /// The number behind `last`, if there is room for the messages from `from` on.
    fn after(&self, last: Number, from: usize) -> Result<Number> {
        let count = u32::try_from(self.files.len() - from).unwrap_or(u32::MAX);
        match last.checked_add(count) {
            Some(_) => Ok(last.saturating_add(1)),
            None => Err(Error::Unsupported {
                path: self.folder.path.clone(),
                what: "there are no message numbers left; `folder -pack` makes room",
            }),
        }
    }

    /// Puts the messages from `from` on into their sequences, the first of them as number `first`;
    /// nothing that the file said of these numbers or higher ones is true.
    fn enter(&self, from: usize, first: Number, sequences: &mut Sequences) {
        sequences.forget(&[(first, Number::MAX)]);
        let numbered = || (first..).zip(&self.messages[from..]);
        for flag in Flag::ALL {
            let has = numbered().filter(|(_, message)| message.flags.contains(flag));
            let numbers: Vec<Number> = match flag {
                Flag::Seen => {
                    let unseen = |message: &NewMessage<'_>| !message.flags.contains(flag);
                    numbered().filter(|(_, m)| unseen(m)).map(|(number, _)| number).collect()
                }
                _ => has.map(|(number, _)| number).collect(),
            };
            let edit = if flag == Flag::Seen { Edit::Remove } else { Edit::Add };
            sequences.edit_flag(flag, edit, &numbers);
        }
        let mut keywords: Vec<_> = self.messages[from..].iter().flat_map(|m| &m.keywords).collect();
        keywords.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        keywords.dedup();
        for keyword in keywords {
            let has = numbered().filter(|(_, message)| message.keywords.contains(keyword));
            let numbers: Vec<Number> = has.map(|(number, _)| number).collect();
            sequences.edit_keyword(keyword, Edit::Add, &numbers);
        }
    }

    /// Takes the messages from `from` on out again, which were to have the numbers from `first` on.
    fn leave(&self, from: usize, first: Number, sequences: &mut Sequences) {
        let count = (self.messages.len() - from) as u32;
        sequences.forget(&[(first, first.saturating_add(count - 1))]);
    }

    /// Gives a file its number; where the file system has no links, by renaming it over an empty
    /// file that was made to hold the number.
    fn link(&self, file: &std::path::Path, target: &std::path::Path) -> std::io::Result<()> {
        let vfs = self.folder.vfs.as_ref();
        match vfs.hard_link(file, target) {
            Err(error)
                if matches!(error.kind(), ErrorKind::Unsupported)
                    || matches!(error.raw_os_error(), Some(EPERM | EOPNOTSUPP)) =>
            {
                drop(vfs.open(target, OpenOptions::create_new(0o600))?);
                vfs.rename(file, target)
            }
            result => result,
        }
    }
}

/// What Linux says of links on file systems that have none.
const EPERM: i32 = 1;
const EOPNOTSUPP: i32 = 95;

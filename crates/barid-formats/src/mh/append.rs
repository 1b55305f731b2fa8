//! Delivering messages: written beside the others, made durable, and linked under new numbers.
//!
//! Order: every file is written under a hidden name and fsynced (where there are many, the file
//! system is synced instead), before any lock is taken; under the lock of the sequences these are
//! written with the new numbers in `unseen` alone (durable); requested UIDs go to the ledger
//! (durable); the files are linked to their numbers; the folder is fsynced; flags and keywords, if
//! there are any, are written (durable); the hidden names are removed. Commit point of each
//! message: its link; acknowledged at the end. A link never replaces anything: if another program
//! took a number meanwhile, the next one is tried.
//!
//! After a crash a message is complete or missing; without an acknowledgement it may be unseen and
//! without flags. Another program may have given the number of a missing message to new mail, which
//! is unseen then, and has no flag of ours. Leftovers under hidden names, and unseen numbers
//! without a message, do no harm: our next delivery clears both, the names once they are an hour
//! old. UIDs without a message are wasted. An error leaves no message.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use barid_mailbox::{ChangeProgress, Error, Known, NewMessage, Result};
use barid_state::{Ledger, LedgerEntry};
use barid_types::{Flag, FlagSet, Uid};
use barid_vfs::{Metadata, OpenOptions, Ownership, Timestamp};

use super::layout::{
    LEDGER_LOCK_TIMEOUT, LEFTOVER_AGE, LEFTOVERS_MAX, MESSAGES_MAX, NAME_TRIES_MAX,
    NUMBER_TRIES_MAX, TMP_PREFIX, UIDNEXT_MAX,
};
use super::list::Lister;
use super::name::{self, Number};
use super::sequences::{SequenceEdit, Sequences, SequencesLock};
use super::{MhFolder, path_of};
use crate::durable::NewFiles;
use crate::files::{HEADER_LEN_MAX, header_end, write_message_file};
use crate::given::given_uids;

/// The UIDs of messages that request certain ones. The ledger stores them by message key before any
/// message has a number; the process that finds the numbers finds the UIDs there.
#[derive(Debug)]
pub(super) struct RequestedUids<'a> {
    /// Locked until the messages have their numbers: meanwhile nobody may treat entries without a
    /// message as void.
    ledger: &'a mut Ledger,
    pub(super) given: Vec<Uid>,
    /// The lowest UID above all of theirs.
    uidnext: Option<Uid>,
}

impl<'a> RequestedUids<'a> {
    /// Gives UIDs if some are requested; `None` if the next scan is to give them.
    pub(super) fn give(
        ledger: Option<&'a mut Ledger>,
        known: &dyn Known,
        messages: &[NewMessage<'_>],
    ) -> Result<Option<Self>> {
        let is_wished = messages.iter().any(|message| message.uid.is_some());
        let (true, Some(ledger), Some(validity)) = (is_wished, ledger, known.uidvalidity()) else {
            return Ok(None);
        };
        ledger.lock(LEDGER_LOCK_TIMEOUT)?;
        let next = ledger.uidnext().max(known.uidnext()).unwrap_or(Uid::MIN);
        let is_same = ledger.uidvalidity() == Some(validity) && next.get() <= UIDNEXT_MAX;
        match given_uids(next.get(), messages).filter(|_| is_same) {
            Some(given) => {
                let uidnext = given.last.checked_add(1).and_then(Uid::new);
                Ok(Some(Self { ledger, given: given.uids, uidnext }))
            }
            None => {
                ledger.unlock();
                Ok(None)
            }
        }
    }

    fn commit(&mut self, messages: &[NewMessage<'_>]) -> Result<()> {
        for (message, uid) in messages.iter().zip(&self.given) {
            let text = message.bytes;
            let header_len = header_end(text).map_or(text.len(), |end| end.len);
            let key = name::key(&text[..header_len.min(HEADER_LEN_MAX)], message.size());
            self.ledger.push(LedgerEntry { uid: *uid, key });
        }
        if let Some(uidnext) = self.uidnext {
            self.ledger.raise_uidnext(uidnext);
        }
        self.ledger.commit()?;
        // Without a writable ledger no UID can be promised.
        if !self.ledger.is_persistent() {
            self.given.clear();
        }
        Ok(())
    }
}

impl Drop for RequestedUids<'_> {
    fn drop(&mut self) {
        self.ledger.unlock();
    }
}

/// A message that has its number.
struct Link {
    number: Number,
    /// Its inode, if it was renamed and so lost its hidden name.
    renamed: Option<u64>,
}

/// Messages that are written under hidden names, which are removed on drop.
pub(super) struct Drafts<'a> {
    folder: &'a MhFolder,
    messages: &'a [NewMessage<'a>],
    files: Vec<PathBuf>,
    /// Number of barriers.
    barriers: u64,
}

impl Drop for Drafts<'_> {
    fn drop(&mut self) {
        // A leftover is only waste.
        self.folder.vfs.remove_files(&self.files);
    }
}

impl<'a> Drafts<'a> {
    /// Writes all messages, durably. A request to stop is noticed between two of them.
    pub(super) fn write(
        folder: &'a MhFolder,
        messages: &'a [NewMessage<'a>],
        steps: &mut ChangeProgress<'_>,
    ) -> Result<Self> {
        let mut drafts =
            Self { folder, messages, files: Vec::with_capacity(messages.len()), barriers: 0 };
        if !messages.is_empty() {
            let ownership = folder.ownership()?;
            let mut files = NewFiles::begin(folder.vfs.as_ref(), &folder.path, messages.len())?;
            for message in messages {
                steps.check(&folder.path)?;
                steps.advance(1);
                drafts.write_one(message, &ownership, &mut files)?;
            }
            drafts.barriers = files.finish()?;
        }
        Ok(drafts)
    }

    fn write_one(
        &mut self,
        message: &NewMessage<'_>,
        ownership: &Ownership,
        files: &mut NewFiles<'_>,
    ) -> Result<()> {
        let vfs = self.folder.vfs.as_ref();
        let mut tries = 0;
        let (path, file) = loop {
            let mut random = [0; 8];
            vfs.random(&mut random).map_err(Error::at(&self.folder.path))?;
            let name = format!("{TMP_PREFIX}{:016x}", u64::from_le_bytes(random));
            let path = self.folder.path.join(name);
            match ownership.create(vfs, &path) {
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
        write_message_file(message, &*file, &path)?;
        let mut write = || {
            if let Some(date) = message.internal_date {
                let unix_nanos = date.unix_seconds.saturating_mul(1_000_000_000);
                file.set_times(vfs.now(), Timestamp { unix_nanos })?;
            }
            files.written(&*file)
        };
        write().map_err(Error::at(&path))
    }

    /// Returns the numbers in use, ascending. Removes drafts that others left long ago.
    pub(super) fn numbers(&self, lister: &Lister<'_>) -> Result<Vec<Number>> {
        let own: HashSet<_> = self.files.iter().filter_map(|path| path.file_name()).collect();
        let mut drafts = Vec::new();
        let numbers = lister.numbers_and(&mut |name| {
            let is_draft = name.starts_with(TMP_PREFIX.as_bytes());
            let name = OsStr::from_bytes(name);
            if is_draft && !own.contains(name) && drafts.len() < LEFTOVERS_MAX {
                drafts.push(self.folder.path.join(name));
            }
        })?;
        let vfs = self.folder.vfs.as_ref();
        let now = vfs.now();
        for draft in &drafts {
            let age = |changed: Timestamp| now.unix_nanos.saturating_sub(changed.unix_nanos);
            let is_old = |found: &Metadata| age(found.changed) > LEFTOVER_AGE.as_nanos() as i64;
            if vfs.symlink_metadata(draft).is_ok_and(|found| is_old(&found)) {
                // A leftover is only waste.
                let _ = vfs.remove_file(draft);
            }
        }
        Ok(numbers)
    }

    /// Gives the messages the numbers after those in use, and enters them in the sequences, which
    /// are written with all other changes made to them and without numbers of missing messages; see
    /// the documentation of this module. The lock of the sequences is held. After an error the
    /// numbers are taken back: all messages are there, or none.
    pub(super) fn deliver(
        &self,
        in_use: &[Number],
        sequences: &mut Sequences,
        mode: u32,
        lock: &mut SequencesLock,
        uids: Option<&mut RequestedUids<'_>>,
    ) -> Result<u64> {
        let mut links = Vec::with_capacity(self.files.len());
        let mut next = self.after(in_use.last().copied().unwrap_or(0), 0)?;
        if in_use.len() < MESSAGES_MAX {
            sequences.forget(&gaps(in_use));
        }
        let result = self.deliver_into(&mut links, &mut next, sequences, mode, lock, uids);
        if result.is_err() {
            self.take_back(&links, sequences);
            sequences.forget(&[(next, Number::MAX)]);
        }
        result
    }

    fn deliver_into(
        &self,
        links: &mut Vec<Link>,
        next: &mut Number,
        sequences: &mut Sequences,
        mode: u32,
        lock: &mut SequencesLock,
        uids: Option<&mut RequestedUids<'_>>,
    ) -> Result<u64> {
        let vfs = self.folder.vfs.as_ref();
        let mut barriers = 0;
        self.reserve(0, *next, sequences);
        self.write_sequences(sequences, mode, lock)?;
        barriers += 2;
        if let Some(uids) = uids {
            uids.commit(self.messages)?;
            barriers += 1;
        }
        let mut tries = 0;
        while links.len() < self.files.len() {
            let done = links.len();
            let target = path_of(&self.folder.path, *next);
            match self.link(&self.files[done], &target) {
                Ok(renamed) => {
                    links.push(Link { number: *next, renamed });
                    *next = next.saturating_add(1);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    tries += 1;
                    if tries > NUMBER_TRIES_MAX {
                        return Err(Error::at(&target)(error));
                    }
                    // A program that does not wait for the lock may have changed these, too.
                    *sequences = Sequences::read(vfs, &self.folder.sequences)?;
                    self.leave(done, *next, sequences);
                    *next = self.after(*next, done)?;
                    self.reserve(done, *next, sequences);
                    self.write_sequences(sequences, mode, lock)?;
                    barriers += 2;
                }
                Err(source) => return Err(Error::at(&target)(source)),
            }
        }
        vfs.sync_dir(&self.folder.path).map_err(Error::at(&self.folder.path))?;
        if self.messages.iter().any(has_flags) {
            self.enter(links, sequences);
            self.write_sequences(sequences, mode, lock)?;
            barriers += 2;
        }
        Ok(barriers + 1 + self.barriers)
    }

    /// Removes the messages that were delivered, as far as possible, if their numbers still name
    /// these very files, and removes them from the sequences, which are still to be written.
    fn take_back(&self, links: &[Link], sequences: &mut Sequences) {
        let vfs = self.folder.vfs.as_ref();
        let inode = |path: &Path| Some(vfs.symlink_metadata(path).ok()?.inode);
        for (link, draft) in links.iter().zip(&self.files) {
            let target = path_of(&self.folder.path, link.number);
            let own = link.renamed.or_else(|| inode(draft));
            if own.is_some() && own == inode(&target) {
                // The error that led here is the one to report.
                let _ = vfs.remove_file(&target);
            }
            sequences.forget(&[(link.number, link.number)]);
        }
        let _ = vfs.sync_dir(&self.folder.path);
    }

    fn write_sequences(
        &self,
        sequences: &Sequences,
        mode: u32,
        lock: &mut SequencesLock,
    ) -> Result<()> {
        match sequences.is_changed() {
            true => sequences.write(self.folder.vfs.as_ref(), &self.folder.sequences, mode, lock),
            false => Ok(()),
        }
    }

    /// Returns the number after `last`, if there is room for the messages from `from` on.
    fn after(&self, last: Number, from: usize) -> Result<Number> {
        let count = u32::try_from(self.files.len() - from).unwrap_or(u32::MAX);
        match last.checked_add(count) {
            Some(_) => Ok(last.saturating_add(1)),
            None => Err(Error::Unsupported {
                path: self.folder.path.clone(),
                what: "no message numbers are left; `folder -pack` frees some",
            }),
        }
    }

    /// Enters the messages from `from` on in `unseen`, the first of them as number `first`; removes
    /// everything that the file had for these numbers or higher ones.
    fn reserve(&self, from: usize, first: Number, sequences: &mut Sequences) {
        sequences.forget(&[(first, Number::MAX)]);
        let numbers: Vec<Number> = (first..).take(self.messages.len() - from).collect();
        sequences.edit_flag(Flag::Seen, SequenceEdit::Remove, &numbers);
    }

    /// Enters all messages in the sequences of their flags and keywords.
    fn enter(&self, links: &[Link], sequences: &mut Sequences) {
        let numbers_of = |has: &dyn Fn(&NewMessage<'_>) -> bool| -> Vec<Number> {
            let linked = links.iter().zip(self.messages);
            linked.filter(|(_, message)| has(message)).map(|(link, _)| link.number).collect()
        };
        for flag in Flag::ALL {
            let numbers = numbers_of(&|message| message.flags.contains(flag));
            sequences.edit_flag(flag, SequenceEdit::Add, &numbers);
        }
        let mut keywords: Vec<_> = self.messages.iter().flat_map(|m| &m.keywords).collect();
        keywords.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        keywords.dedup();
        for keyword in keywords {
            let numbers = numbers_of(&|message| message.keywords.contains(keyword));
            sequences.edit_keyword(keyword, SequenceEdit::Add, &numbers);
        }
    }

    /// Removes the messages from `from` on again, which were to have the numbers from `first` on.
    /// The first of these numbers now belongs to another message, whose unseen state is kept.
    fn leave(&self, from: usize, first: Number, sequences: &mut Sequences) {
        let count = (self.messages.len() - from) as u32;
        let is_unseen = sequences.is_unseen(first);
        sequences.forget(&[(first, first.saturating_add(count - 1))]);
        if is_unseen {
            sequences.edit_flag(Flag::Seen, SequenceEdit::Remove, &[first]);
        }
    }

    /// Gives a file its number; where the file system has no links, by renaming it over an empty
    /// file that was made to reserve the number. Returns its inode if it was renamed.
    fn link(&self, file: &Path, target: &Path) -> std::io::Result<Option<u64>> {
        let vfs = self.folder.vfs.as_ref();
        match vfs.hard_link(file, target) {
            Err(error)
                if matches!(error.kind(), ErrorKind::Unsupported)
                    || matches!(error.raw_os_error(), Some(EPERM | EOPNOTSUPP)) =>
            {
                let inode = vfs.symlink_metadata(file)?.inode;
                drop(vfs.open(target, OpenOptions::create_new(0o600))?);
                match vfs.rename(file, target) {
                    Ok(()) => Ok(Some(inode)),
                    Err(error) => {
                        let _ = vfs.remove_file(target);
                        Err(error)
                    }
                }
            }
            result => result.map(|()| None),
        }
    }
}

/// Returns the ranges of numbers between those in use.
fn gaps(in_use: &[Number]) -> Vec<(Number, Number)> {
    let before = std::iter::once(0).chain(in_use.iter().copied());
    let ranges = before.zip(in_use).map(|(before, number)| (before + 1, number.saturating_sub(1)));
    ranges.filter(|(first, last)| first <= last).collect()
}

/// Returns `true` if a message is in other sequences than `unseen`.
fn has_flags(message: &NewMessage<'_>) -> bool {
    message.flags.without(Flag::Recent) != FlagSet::EMPTY || !message.keywords.is_empty()
}

/// Error number of Linux for links on file systems that have none.
const EPERM: i32 = 1;
const EOPNOTSUPP: i32 = 95;

//! Undoes an interrupted append.
//!
//! Complete messages stay: they may have been acknowledged. The incomplete one is removed if it is
//! certain that it is ours (`claim.rs`); bytes that others appended after it move down to its
//! place and begin on a line of their own. That is a change like any other, with a journal that
//! replaces the one of the append. Every step may be interrupted and repeated.

use std::io;
use std::path::Path;

use super::claim::{Claim, claim};
use super::draft::Draft;
use super::header::{Origin, TailHash};
use super::intent::{Intent, IntentBuilder, Raise};
use super::journal::{ATTRIBUTE, JournalFile, Places};
use super::limits::CONTEXT_LEN;
use super::recover::{Outcome, unless_short};
use super::source::hash_of;
use super::work::places_of;
use super::write::{PlannerInput, write_with};
use crate::mbox::layout::MMDF_SEPARATOR;
use crate::mbox::lock::MboxWriteLocks;
use crate::mbox::{MboxMailbox, Variant};
use barid_mailbox::{Error, Recovered, Result, SyncContext};

/// Bytes that may stay before the messages of others if they are only line ends, which are
/// harmless.
const LINE_ENDS_MAX: u64 = 8;

/// Need for the mailbox's attribute to name a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttributeNeed {
    /// The journal is beside the mailbox and is found without.
    NotNeeded,
    /// The attribute names it.
    Set,
    /// The mailbox cannot have the attribute, so the journal would not be found.
    Refused,
}

/// Returns `true` if the error means that the file cannot have the attribute.
fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied)
}

/// The journal of an append in progress.
pub(in crate::mbox) struct AppendJournal<'a> {
    places: Places<'a>,
    locks: &'a MboxWriteLocks,
    journal: JournalFile,
    is_named: bool,
    /// Number of fsync calls.
    pub(in crate::mbox) barriers: u64,
}

impl<'a> AppendJournal<'a> {
    /// Makes the journal of an append durable, before the first byte is appended. Returns `None` if
    /// no journal can be written at all: then messages are appended without.
    ///
    /// Costs a barrier, another if the name of a new file is not durable with the file, and another
    /// if the journal cannot be beside the mailbox.
    ///
    /// # Errors
    /// Errors of the file system; then there is no journal.
    pub(in crate::mbox) fn begin(
        mailbox: &'a MboxMailbox,
        locks: &'a MboxWriteLocks,
        state_dir: Option<&'a Path>,
        intent: IntentBuilder,
        raise: Option<Raise>,
    ) -> Result<Option<Self>> {
        let places = places_of(mailbox, locks, state_dir);
        let start = intent.start();
        let mut id = [0; 16];
        places.vfs.random(&mut id).map_err(Error::at(places.mailbox))?;
        let inode = locks.file().metadata().map_err(Error::at(places.mailbox))?.inode;
        let origin = Origin::of(inode, places.mailbox.as_os_str().as_encoded_bytes());
        let len = before_len(start, raise.as_ref());
        let hash = hash_of(locks.file(), start - len, len, CONTEXT_LEN as usize);
        let before = TailHash { len, hash: hash.map_err(Error::at(places.mailbox))? };
        let intent = Intent { raise, ..intent.finish(id, origin, before) };
        let mut journal = JournalFile::of_append();
        let written = journal
            .write(&places, &intent.to_bytes(), 0)
            .and_then(|()| journal.sync(&places))
            .and_then(|barriers| Ok((barriers, Self::name(&places, locks, &journal, &id)?)));
        let is_nowhere = match &written {
            Ok((_, name)) => *name == AttributeNeed::Refused,
            Err(error) => journal.path().is_none() && places.is_closed(error),
        };
        match written {
            Ok((barriers, name)) if !is_nowhere => {
                let is_named = name == AttributeNeed::Set;
                let barriers = barriers + u64::from(is_named);
                Ok(Some(Self { places, locks, journal, is_named, barriers }))
            }
            written => {
                journal.discard(places.vfs);
                if is_nowhere { Ok(None) } else { written.map(|_| None) }
            }
        }
    }

    /// Sets the attribute of the mailbox if its journal is not beside it.
    fn name(
        places: &Places<'_>,
        locks: &MboxWriteLocks,
        journal: &JournalFile,
        id: &[u8; 16],
    ) -> Result<AttributeNeed> {
        let Some(path) = journal.path().filter(|path| **path != *places.beside()) else {
            return Ok(AttributeNeed::NotNeeded);
        };
        let file = locks.file();
        match file.set_xattr(ATTRIBUTE, &places.attribute_of_append(path, id)) {
            Err(error) if is_refused(&error) => return Ok(AttributeNeed::Refused),
            named => named.and_then(|()| file.sync_all()).map_err(Error::at(places.mailbox))?,
        }
        Ok(AttributeNeed::Set)
    }

    /// Removes the journal, once the append is durable or undone. Does not wait for the disk, as a
    /// journal that is found again does no harm.
    pub(in crate::mbox) fn end(self) {
        let _ = self.journal.unlink(self.places.vfs);
        if self.is_named {
            let _ = self.locks.file().remove_xattr(ATTRIBUTE);
        }
    }
}

/// Returns the number of bytes before an append that its journal hashes, to identify the file.
fn before_len(start: u64, raise: Option<&Raise>) -> u64 {
    let raised = raise.map_or(0, |raise| raise.offset + raise.new.len() as u64);
    start.saturating_sub(raised).min(CONTEXT_LEN)
}

/// Undoes the incomplete part of an append, and removes its journal.
pub(super) fn mend(
    mailbox: &MboxMailbox,
    locks: &MboxWriteLocks,
    (journal, path): (JournalFile, &Path),
    intent: &Intent,
    context: &mut SyncContext<'_>,
) -> Result<Outcome> {
    let places = places_of(mailbox, locks, context.state_dir);
    let at = || Error::at(places.mailbox);
    let file = locks.file();
    let variant = mailbox.variant.unwrap_or(Variant::Mboxo);
    let size = file.metadata().map_err(at())?.size;
    let TailHash { len, hash } = intent.before;
    let is_same = intent.start <= size && {
        let found = hash_of(file, intent.start - len, len, CONTEXT_LEN as usize);
        unless_short(found.map(|found| found == hash)).map_err(at())?
    };
    let claim = match is_same {
        true => claim(file, size, intent, variant).map_err(at())?,
        false => None,
    };
    let mut outcome = Outcome::needed(Recovered::default(), 2);
    if let Some(claim) = claim {
        let cut = Cut { mailbox, locks, places, intent, claim, variant, size };
        cut.raise()?;
        match cut.make(path, context)? {
            Some(recovered) => outcome.recovered = recovered,
            None => return Ok(Outcome::blocked()),
        }
    }
    file.sync_all().map_err(at())?;
    if file.xattr(ATTRIBUTE).map_err(at())?.is_some() {
        file.remove_xattr(ATTRIBUTE).and_then(|()| file.sync_all()).map_err(at())?;
        outcome.barriers += 1;
    }
    journal.unlink(places.vfs).map_err(Error::at(path))?;
    if let Some(dir) = path.parent() {
        places.vfs.sync_dir(dir).map_err(Error::at(dir))?;
    }
    Ok(outcome)
}

/// Removal of the incomplete message of an append.
struct Cut<'a> {
    mailbox: &'a MboxMailbox,
    locks: &'a MboxWriteLocks,
    places: Places<'a>,
    intent: &'a Intent,
    claim: Claim,
    variant: Variant,
    size: u64,
}

impl Cut<'_> {
    /// Makes sure that the last UID covers those of messages that stay.
    fn raise(&self) -> Result<()> {
        let Some(raise) = self.intent.raise.filter(|_| self.claim.complete > 0) else {
            return Ok(());
        };
        let mut found = [0; 10];
        let file = self.locks.file();
        let read = file.read_full_at(&mut found, raise.offset);
        if read.map_err(self.at())? == found.len() && found == raise.old {
            file.write_all_at(&raise.new, raise.offset).map_err(self.at())?;
        }
        Ok(())
    }

    fn at(&self) -> impl FnOnce(io::Error) -> Error {
        Error::at(self.places.mailbox)
    }

    /// Removes the bytes, and moves those that follow. Returns `None` if messages would move, which
    /// the locks do not allow.
    fn make(&self, path: &Path, context: &mut SyncContext<'_>) -> Result<Option<Recovered>> {
        let Claim { complete, own, is_followed } = self.claim;
        let (from, to) = (self.intent.start + complete, self.intent.start + own);
        let mut recovered = Recovered { bytes_cut: to - from, ..Recovered::default() };
        if !is_followed {
            if to > from {
                self.locks.file().set_len(from).map_err(self.at())?;
            }
            return Ok(Some(recovered));
        }
        let lead = self.lead(from, to)?;
        if lead.is_empty() && self.is_harmless(from, to)? {
            return Ok(Some(Recovered::default()));
        }
        if !self.locks.may_move() {
            return Ok(None);
        }
        recovered.bytes_delivered = self.size - to;
        let journal = JournalFile::over(path, self.intent.id, self.mailbox.options.writing);
        let size = self.size;
        let plan = |room: PlannerInput<'_, '_>, _: &mut SyncContext<'_>| {
            let draft: &mut dyn Draft = room.draft;
            draft.stay(from)?;
            draft.skip(to - from)?;
            draft.insert(&lead)?;
            draft.copy(size - to)
        };
        let (places, file) = (self.places, self.locks.file());
        // Pending changes belong to the change that comes after this one.
        let through = context.pending_through.take();
        let done = write_with(journal, self.mailbox, places, file, Some(self.locks), context, plan);
        context.pending_through = through;
        done.map(|_| Some(recovered))
    }

    /// Returns `true` if the bytes may stay between messages.
    fn is_harmless(&self, from: u64, to: u64) -> Result<bool> {
        if to - from > LINE_ENDS_MAX || self.variant == Variant::Mmdf {
            return Ok(from == to);
        }
        let mut bytes = vec![0; (to - from) as usize];
        self.locks.file().read_exact_at(&mut bytes, from).map_err(self.at())?;
        Ok(bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n')))
    }

    /// Returns the bytes missing between the end at `from` and the bytes that follow at `to`.
    fn lead(&self, from: u64, to: u64) -> Result<Vec<u8>> {
        let file = self.locks.file();
        let mut before = [0; 3];
        let len = from.min(3);
        let before = &mut before[..len as usize];
        file.read_exact_at(before, from - len).map_err(self.at())?;
        let mut after = [0; MMDF_SEPARATOR.len()];
        let read = file.read_full_at(&mut after, to).map_err(self.at())?;
        let after = &after[..read];
        let ends_line = before.is_empty() || before.ends_with(b"\n");
        if self.variant == Variant::Mmdf {
            let line_end: &[u8] = if ends_line { b"" } else { b"\n" };
            let separator: &[u8] = if after == b"From " { MMDF_SEPARATOR } else { b"" };
            return Ok([line_end, separator].concat());
        }
        let is_blank = before.is_empty()
            || before == b"\n"
            || before.ends_with(b"\n\n")
            || before.ends_with(b"\n\r\n");
        let missing = usize::from(!ends_line) + usize::from(!is_blank);
        let there = after.iter().take_while(|byte| **byte == b'\n').count();
        Ok(vec![b'\n'; missing.saturating_sub(there)])
    }
}

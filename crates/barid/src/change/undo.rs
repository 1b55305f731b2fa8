//! Restoring expunged messages.

use std::collections::{HashMap, HashSet};

use barid_mailbox::{Error as FormatError, MessageRest, NewMessage, StoredMessage};
use barid_state::{
    Error as StateError, Expunged, Kept, KeptFolder, KeptForm, KeptFrom, KeptMessage, KeptSummary,
    LargeKept, MessageKey,
};
use barid_types::Uid;
use barid_vfs::Timestamp;

use super::kept::{Presence, own_bytes, text_of};
use super::kept_large::KeptLargeMessage;
use super::{ChangeOptions, ChangeRequest, Changed, KeepExpunged};
use crate::limits::{COPY_WHOLE_LEN_MAX, UNDO_BATCH_LEN};
use crate::{Error, Mailbox, Note, NoteKind, Result};

/// The expunge to undo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Undo {
    /// The last one that was made.
    #[default]
    Last,
    /// The one with this number ([`KeptExpunge::number`]).
    Number(u64),
    /// The last one of the mailbox that was at this path before, and was replaced by another file.
    Replaced,
}

/// A kept expunge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptExpunge {
    /// Number of the expunge: later ones have higher numbers.
    pub number: u64,
    /// Time of the expunge; `None` if it cannot be read.
    pub kept: Option<Timestamp>,
    /// Time from which it may be dropped; `None` if it cannot be read.
    pub until: Option<Timestamp>,
    /// Number of messages; `None` if it cannot be read.
    pub messages: Option<u32>,
    /// Number of messages that are damaged, or were changed since they were kept.
    pub damaged: u32,
    /// Bytes in the state folder; if the messages were not kept, the bytes of the messages.
    pub bytes: u64,
    /// State of the expunge.
    pub state: KeptState,
}

/// State of a kept expunge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptState {
    /// Its messages can be restored.
    Kept,
    /// It was interrupted: only some of its messages are gone.
    Partial,
    /// It was not made: all messages exist.
    NotMade,
    /// The messages were not kept.
    NotKept,
    /// The file or some of its messages are damaged, or it is of another version; undamaged
    /// messages can be restored.
    Damaged,
}

impl Mailbox {
    /// Returns the kept expunges, the last first. Reads all kept messages, to find damage.
    ///
    /// # Errors
    /// A damaged cache; errors of the file system.
    pub fn kept_expunges(&self) -> Result<Vec<KeptExpunge>> {
        let folder = self.kept_folder();
        let mut all = Vec::new();
        for number in folder.numbers()?.into_iter().rev() {
            match folder.open(number) {
                Ok(Some(mut kept)) => all.push(self.describe_kept(&mut kept)?),
                Ok(None) => {}
                Err(StateError::Damaged { .. } | StateError::Version { .. }) => {
                    let (kept, until, messages) = (None, None, None);
                    let (damaged, bytes, state) = (0, 0, KeptState::Damaged);
                    let one = KeptExpunge { number, kept, until, messages, damaged, bytes, state };
                    all.push(one);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(all)
    }

    fn describe_kept(&self, kept: &mut Expunged) -> Result<KeptExpunge> {
        // Messages that cannot be read cannot be restored.
        let damaged =
            kept.count_damaged().or_else(|_| Ok::<_, Error>(kept.count().unwrap_or(1)))?;
        let from = kept.from();
        let state = match (self.presence(kept)?, from.left_out) {
            (Presence::All, _) => KeptState::NotMade,
            (_, Some(_)) => KeptState::NotKept,
            _ if damaged > 0 => KeptState::Damaged,
            (Presence::Some, None) => KeptState::Partial,
            (Presence::None | Presence::Unknown, None) => KeptState::Kept,
        };
        Ok(KeptExpunge {
            number: kept.number(),
            kept: Some(from.kept),
            until: Some(from.until),
            damaged: if from.left_out.is_some() { 0 } else { damaged },
            messages: from.left_out.map(|left_out| left_out.messages).or(kept.count()),
            bytes: from.left_out.map_or(kept.len(), |left_out| left_out.bytes),
            state,
        })
    }

    /// Sums up the kept expunges; reads no message.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn kept_summary(&self) -> Result<KeptSummary> {
        Ok(self.kept_folder().summary()?)
    }

    /// Forgets all kept expunges, including those of a mailbox that was at this path before;
    /// returns their number.
    ///
    /// # Errors
    /// [`crate::Error::ReadOnly`]; errors of the file system.
    pub fn discard_kept(&mut self) -> Result<u32> {
        self.check_writable(&ChangeOptions::default())?;
        self.under_pending_lock(&ChangeOptions::default(), |mailbox| {
            let folder = mailbox.kept_folder();
            let mut count = folder.discard()?;
            for former in folder.of_former()? {
                count += former.discard()?;
            }
            Ok(count)
        })
    }

    /// Returns `true` if there are kept expunges of a mailbox that was at this path before and was
    /// replaced by another file, so that they do not belong to this one: [`Undo::Replaced`]
    /// restores them.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn has_kept_of_replaced(&self) -> Result<bool> {
        Ok(!self.kept_folder().of_former()?.is_empty())
    }

    /// Restores the kept messages, in passes of some megabytes.
    pub(super) fn bring_back(&mut self, which: Undo, options: &ChangeOptions) -> Result<Changed> {
        if !options.dry_run {
            self.finish_unfinished()?;
            self.refresh()?;
        }
        let folder = match which {
            Undo::Last | Undo::Number(_) => Some(self.kept_folder()),
            Undo::Replaced => self.kept_folder().of_former()?.pop(),
        };
        let Some(folder) = folder else { return Err(self.nothing_to_undo()) };
        let number = match which {
            Undo::Number(number) => number,
            Undo::Last | Undo::Replaced => self.last_to_undo(&folder, options)?,
        };
        let mut changed = Changed::default();
        let mut seen = HashSet::new();
        for kept in self.with_those_continued(&folder, number)? {
            let total = kept.count().unwrap_or(0).into();
            let result = self.bring_back_one(kept, &mut seen, options, &mut changed);
            result.map_err(|error| match error {
                Error::Mailbox(FormatError::Stopped { path, .. }) => {
                    FormatError::Stopped { path, done: changed.appends.into(), total }.into()
                }
                error => error,
            })?;
        }
        changed.pending = self.pending();
        Ok(changed)
    }

    fn nothing_to_undo(&self) -> Error {
        let replaced = self.has_kept_of_replaced().unwrap_or(false);
        Error::NothingToUndo { path: self.path().to_owned(), replaced }
    }

    /// Returns the last expunge that was made. Later ones, which were not, are reported and
    /// removed.
    fn last_to_undo(&mut self, folder: &KeptFolder, options: &ChangeOptions) -> Result<u64> {
        let mut numbers = folder.numbers()?;
        while let Some(number) = numbers.pop() {
            let Some(kept) = folder.open(number)? else { continue };
            if self.presence(&kept)? != Presence::All {
                return match kept.from().left_out {
                    None => Ok(number),
                    Some(left_out) => Err(Error::NotKept {
                        path: self.path().to_owned(),
                        messages: left_out.messages,
                        bytes: left_out.bytes,
                        has_older: !numbers.is_empty(),
                    }),
                };
            }
            let text =
                format!("{}: an interrupted expunge removed no messages", self.path().display());
            self.notes.push(Note { kind: NoteKind::State, text });
            if !options.dry_run {
                kept.remove()?;
            }
        }
        Err(self.nothing_to_undo())
    }

    /// Returns an expunge and the earlier ones that it continues, the first of them first.
    fn with_those_continued(&self, folder: &KeptFolder, number: u64) -> Result<Vec<Expunged>> {
        let missing = || Error::NoSuchExpunge { path: self.path().to_owned(), number };
        let last = folder.open(number)?.ok_or_else(missing)?;
        if let Some(left_out) = last.from().left_out {
            return Err(Error::NotKept {
                path: self.path().to_owned(),
                messages: left_out.messages,
                bytes: left_out.bytes,
                has_older: folder.numbers()?.iter().any(|other| *other < number),
            });
        }
        let mut before = folder.numbers()?;
        before.retain(|other| *other < number);
        let mut all = vec![last];
        while all.last().is_some_and(|first| first.from().continues)
            && let Some(number) = before.pop()
        {
            // An unreadable expunge is undone by itself, or not at all.
            let Ok(Some(kept)) = folder.open(number) else { break };
            if kept.from().left_out.is_some() {
                break;
            }
            all.push(kept);
        }
        all.reverse();
        Ok(all)
    }

    fn bring_back_one(
        &mut self,
        mut kept: Expunged,
        seen: &mut HashSet<(Uid, MessageKey)>,
        options: &ChangeOptions,
        changed: &mut Changed,
    ) -> Result<()> {
        let from = kept.from().clone();
        let mut there = There::new(self, &from)?;
        let mut damaged = u32::from(kept.count().is_none());
        let (mut batch, mut batch_len): (Vec<Returning>, _) = (Vec::new(), 0);
        let mut altered = 0;
        loop {
            options.check_stop(self.path(), kept.count().unwrap_or(0).into())?;
            let next = kept.next()?;
            if !batch.is_empty() && (next.is_none() || batch_len >= UNDO_BATCH_LEN) {
                self.append_kept(&from, &batch, options, changed)?;
                batch.clear();
                batch_len = 0;
            }
            altered += u32::from(matches!(next, Some(Kept::Changed(_))));
            match next {
                Some(Kept::Message(message) | Kept::Changed(message)) => {
                    // Messages of an interrupted expunge and of the one that continued it occur
                    // twice.
                    let is_new = seen.insert((message.uid, message.key));
                    let large = KeptLargeMessage::of(&message)?;
                    let message = Returning { kept: *message, large };
                    if is_new && !there.has(self, &message)? {
                        batch_len = batch_len.saturating_add(message.size());
                        batch.push(message);
                    }
                }
                Some(Kept::Damaged { .. }) => damaged += 1,
                None => break,
            }
        }
        if altered > 0 {
            let path = self.path().display();
            let text = format!(
                "{path}: {altered} of the kept messages were changed in place after they were \
                 expunged; the changed versions are brought back"
            );
            self.notes.push(Note { kind: NoteKind::State, text });
        }
        match (options.dry_run, damaged) {
            (true, _) => {}
            (false, 0) => kept.remove()?,
            (false, _) => {
                let aside = kept.set_aside()?;
                let text = format!("{}: some kept messages are damaged", aside.display());
                self.notes.push(Note { kind: NoteKind::State, text });
            }
        }
        Ok(())
    }

    fn append_kept(
        &mut self,
        from: &KeptFrom,
        batch: &[Returning],
        options: &ChangeOptions,
        changed: &mut Changed,
    ) -> Result<()> {
        let is_as_then = self.format().stored_form == from.format;
        let appends: Vec<_> = batch.iter().map(|message| message.to_append(is_as_then)).collect();
        let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        let options = ChangeOptions { keep_expunged: KeepExpunged::No, ..options.clone() };
        let done = self.write(&request, &options)?;
        changed.appends += done.appends;
        changed.add_trouble(&done);
        changed.appended.extend(done.appended);
        changed.flagged += done.flagged;
        changed.asked += done.asked;
        super::add_figures(&mut changed.figures, &done.figures);
        Ok(())
    }
}

/// A message that is to be brought back.
struct Returning {
    kept: KeptMessage,
    large: Option<KeptLargeMessage>,
}

impl Returning {
    fn size(&self) -> u64 {
        self.kept.large.as_ref().map_or(self.kept.bytes.len() as u64, LargeKept::size)
    }

    fn to_append(&self, is_as_then: bool) -> NewMessage<'_> {
        let (kept, large) = (&self.kept, self.large.as_ref());
        let bytes = large.map_or(&kept.bytes, |large| &large.start);
        let stored = match kept.form {
            KeptForm::Stored { separator_len } if is_as_then => {
                Some(StoredMessage { bytes, separator_len: separator_len as usize })
            }
            _ => None,
        };
        NewMessage {
            bytes: text_of(kept.form, bytes),
            rest: large.map(|large| &large.rest as &dyn MessageRest),
            internal_date: Some(kept.internal_date),
            flags: kept.flags,
            keywords: kept.keywords.clone(),
            sender: kept.sender.as_deref(),
            stored,
            uid: None,
            uidnext: None,
        }
    }
}

/// The messages that need not be restored.
#[derive(Debug)]
struct There {
    same_uids: bool,
    /// Messages that an interrupted undo may have restored, by key, in a Maildir by size; each
    /// stands for one kept message.
    candidates: HashMap<u64, Vec<Uid>>,
}

impl There {
    /// Collects the messages with UIDs assigned since the expunge, or all if UIDs are not
    /// comparable.
    fn new(mailbox: &Mailbox, from: &KeptFrom) -> Result<Self> {
        let same_uids = mailbox.snapshot.meta().uidvalidity == from.uidvalidity;
        let first = if same_uids { mailbox.row_from(from.uidnext)? } else { 0 };
        let is_by_size = mailbox.format().has_message_files();
        let mut candidates: HashMap<u64, Vec<Uid>> = HashMap::new();
        mailbox.snapshot.cores(first..mailbox.len(), &mut |_, core| {
            let key = if is_by_size { core.size } else { core.key.0 };
            candidates.entry(key).or_default().push(core.uid);
        })?;
        Ok(Self { same_uids, candidates })
    }

    /// Returns `true` if a kept message is in the mailbox: under its UID if it was never expunged,
    /// or under another, byte by byte.
    fn has(&mut self, mailbox: &Mailbox, message: &Returning) -> Result<bool> {
        let kept = &message.kept;
        if self.same_uids
            && let Some(row) = mailbox.row_of(kept.uid)?
            && mailbox.snapshot.core(row)?.key == kept.key
        {
            return Ok(true);
        }
        let is_by_size = mailbox.format().has_message_files();
        let key = if is_by_size { message.size() } else { kept.key.0 };
        let Some(uids) = self.candidates.get_mut(&key) else { return Ok(false) };
        let own = own_bytes(kept.form, &kept.bytes);
        for at in 0..uids.len() {
            let Some(row) = mailbox.row_of(uids[at])? else { continue };
            let is_it = match &message.large {
                Some(large) => mailbox.is_large(row, kept.form, large)?,
                None if mailbox.snapshot.core(row)?.size > COPY_WHOLE_LEN_MAX * 2 => false,
                // The last message of an mbox may have had no line end, and has one since.
                None => without_end(&mailbox.own_bytes_of(uids[at])?) == without_end(&own),
            };
            if is_it {
                uids.remove(at);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn without_end(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

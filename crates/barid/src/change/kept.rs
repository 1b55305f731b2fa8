//! Keeping what is expunged, and bringing it back.

use std::collections::HashMap;
use std::sync::Arc;

use barid_formats::{Format, Location, NewMessage, ReadAs};
use barid_state::{Expunged, ExpungedWriter, Kept, KeptFrom, KeptMessage};
use barid_types::Uid;
use xxhash_rust::xxh3::xxh3_64;

use super::{ChangeOptions, ChangeRequest, Changed};
use crate::limits::UNDO_BATCH_LEN;
use crate::{Error, Mailbox, Note, NoteKind, Result};

impl Mailbox {
    /// The hash of a body, as pending changes have it.
    pub(super) fn body_hash(&self, uid: Uid) -> Result<u64> {
        let message = self.read_once(uid, ReadAs::Message)?;
        Ok(xxh3_64(message.bytes.get(message.header_len..).unwrap_or_default()))
    }

    /// Keeps messages that are about to be expunged, if they are to be kept and fit; returns their
    /// bytes. Durable when it returns. One message is in memory at a time.
    pub(super) fn keep_expunged(
        &mut self,
        expunge: &[Uid],
        options: &ChangeOptions,
    ) -> Result<Option<u64>> {
        let Some(most) = options.keep_expunged.filter(|_| !expunge.is_empty()) else {
            return Ok(None);
        };
        let mut total = 0_u64;
        super::resolve::there(&self.snapshot, expunge.iter().copied(), &mut |core| {
            total = total.saturating_add(core.size);
        })?;
        if total > most {
            return Ok(None);
        }
        let meta = self.snapshot.meta();
        let from =
            KeptFrom { uidvalidity: meta.uidvalidity, uidnext: meta.uidnext, kept: self.vfs.now() };
        let (vfs, dir) = (Arc::clone(&self.vfs), &self.options.state_dir);
        let mut writer = ExpungedWriter::create(vfs, dir, &self.identity, &from)?;
        for uid in expunge {
            writer.message(&self.message_to_keep(*uid)?)?;
        }
        Ok(Some(writer.finish()?))
    }

    /// A message with all that it takes to append it again.
    fn message_to_keep(&self, uid: Uid) -> Result<KeptMessage> {
        let gone = || Error::NoSuchMessage { path: self.path().to_owned(), uid };
        let row = self.row_of(uid)?.ok_or_else(gone)?;
        let core = self.snapshot.core(row)?;
        let (flags, keywords, _) = self.shown.of_message(&core);
        Ok(KeptMessage {
            uid,
            key: core.key,
            internal_date: core.internal_date,
            flags,
            keywords: self.keywords().select(keywords).cloned().collect(),
            sender: self.sender_of(row)?,
            bytes: self.bytes_of(uid)?,
        })
    }

    /// The bytes of a message, without the fields that belong to an mbox rather than to it.
    fn bytes_of(&self, uid: Uid) -> Result<Vec<u8>> {
        let bytes = self.read_once(uid, ReadAs::Message)?.bytes;
        if self.format() == Format::Maildir {
            return Ok(bytes);
        }
        Ok(barid_message::strip_owned(&bytes).into_owned())
    }

    /// The sender of the From_ line.
    fn sender_of(&self, row: u32) -> Result<Option<String>> {
        let Location::Span { offset, separator_len, .. } =
            self.snapshot.location(row, &mut Vec::new())?
        else {
            return Ok(None);
        };
        let line = Location::Span { offset, separator_len, header_len: 0, body_len: 0 };
        let mut bytes = Vec::new();
        let stamp = &self.snapshot.meta().stamp;
        self.format.read_known(&line, ReadAs::Stored, stamp, &mut bytes)?;
        let text = std::str::from_utf8(&bytes).ok().and_then(|line| line.strip_prefix("From "));
        let sender = text.and_then(|text| text.split_ascii_whitespace().next());
        Ok(sender.map(str::to_owned))
    }

    /// Brings back what was kept, in passes of some megabytes.
    pub(super) fn bring_back(&mut self, options: &ChangeOptions) -> Result<Changed> {
        let (vfs, dir) = (Arc::clone(&self.vfs), self.options.state_dir.clone());
        let Some(mut kept) = Expunged::open(vfs, &dir, &self.identity)? else {
            return Err(Error::NothingToUndo { path: self.path().to_owned() });
        };
        if !options.dry_run {
            self.finish_unfinished()?;
            self.refresh()?;
        }
        let mut there = There::new(self, kept.from())?;
        let mut changed = Changed::default();
        let mut damaged = u32::from(kept.count().is_none());
        let mut batch: Vec<KeptMessage> = Vec::new();
        loop {
            let next = kept.next()?;
            let len = batch.iter().map(|message| message.bytes.len()).sum::<usize>();
            if !batch.is_empty() && (next.is_none() || len >= UNDO_BATCH_LEN) {
                self.append_kept(&batch, options, &mut changed)?;
                batch.clear();
            }
            match next {
                Some(Kept::Message(message)) if there.has(self, &message)? => {}
                Some(Kept::Message(message)) => batch.push(*message),
                Some(Kept::Damaged { .. }) => damaged += 1,
                None => break,
            }
        }
        changed.pending = self.pending();
        match (options.dry_run, damaged) {
            (true, _) => {}
            (false, 0) => kept.remove()?,
            (false, _) => {
                let aside = kept.set_aside()?;
                let text = format!("{}: some kept messages are damaged", aside.display());
                self.notes.push(Note { kind: NoteKind::State, text });
            }
        }
        Ok(changed)
    }

    fn append_kept(
        &mut self,
        batch: &[KeptMessage],
        options: &ChangeOptions,
        changed: &mut Changed,
    ) -> Result<()> {
        let new = batch.iter().map(|message| NewMessage {
            bytes: &message.bytes,
            internal_date: Some(message.internal_date),
            flags: message.flags,
            keywords: message.keywords.clone(),
            sender: message.sender.as_deref(),
            stored: None,
        });
        let appends: Vec<NewMessage<'_>> = new.collect();
        let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        let options = ChangeOptions { keep_expunged: None, ..options.clone() };
        let done = self.write(&request, &options)?;
        changed.appends += done.appends;
        changed.appended.extend(done.appended);
        changed.flagged += done.flagged;
        changed.asked += done.asked;
        changed.ambiguous = done.ambiguous;
        changed.warnings.extend(done.warnings);
        changed.gone.extend(done.gone);
        changed.unwritable.extend(done.unwritable);
        changed.unwritable_count += done.unwritable_count;
        super::add_figures(&mut changed.figures, &done.figures);
        Ok(())
    }
}

/// What may have been brought back already, by an undo that was interrupted.
#[derive(Debug)]
struct There {
    same_uids: bool,
    /// Messages by key, in a Maildir by size; each stands for one kept message.
    candidates: HashMap<u64, Vec<Uid>>,
}

impl There {
    /// Looks at the messages with UIDs given out since, if these can be told.
    fn new(mailbox: &Mailbox, from: KeptFrom) -> Result<Self> {
        let same_uids = mailbox.snapshot.meta().uidvalidity == from.uidvalidity;
        let first = if same_uids { mailbox.row_from(from.uidnext)? } else { 0 };
        let is_maildir = mailbox.format() == Format::Maildir;
        let mut candidates: HashMap<u64, Vec<Uid>> = HashMap::new();
        mailbox.snapshot.cores(first..mailbox.len(), &mut |_, core| {
            let key = if is_maildir { core.size } else { core.key.0 };
            candidates.entry(key).or_default().push(core.uid);
        })?;
        Ok(Self { same_uids, candidates })
    }

    /// Whether a kept message is in the mailbox: under its UID if it was never expunged, or under
    /// another, byte by byte.
    fn has(&mut self, mailbox: &Mailbox, kept: &KeptMessage) -> Result<bool> {
        if self.same_uids
            && let Some(row) = mailbox.row_of(kept.uid)?
            && mailbox.snapshot.core(row)?.key == kept.key
        {
            return Ok(true);
        }
        let is_maildir = mailbox.format() == Format::Maildir;
        let key = if is_maildir { kept.bytes.len() as u64 } else { kept.key.0 };
        let Some(uids) = self.candidates.get_mut(&key) else { return Ok(false) };
        for at in 0..uids.len() {
            if mailbox.bytes_of(uids[at])? == kept.bytes {
                uids.remove(at);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

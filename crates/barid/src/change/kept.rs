//! Keeping expunged messages.
//!
//! Every expunge gets a file of its own, durable before the first byte of the mailbox changes, and
//! no older expunge has been touched by then: if the expunge fails, or the power does, both the
//! file and the messages exist, and the mailbox shows whether the expunge was made
//! (`Mailbox::presence`). Messages that are files are linked if the state folder is on their file
//! system, and neither read nor copied. Older expunges are removed after the change, and before it
//! only if the disk has no room for both.

use std::io::ErrorKind;
use std::sync::Arc;

use barid_mailbox::{Error as FormatError, ReadAs};
use barid_state::{
    Error as StateError, Expunged, ExpungedWriter, KeptBounds, KeptFolder, KeptForm, KeptFrom,
    KeptMessage, LeftOut,
};
use barid_types::Uid;
use barid_vfs::Timestamp;
use xxhash_rust::xxh3::Xxh3;

use super::resolve::there;
use super::{ChangeOptions, KeepExpunged, KeepLimits, KeepPlan};
use crate::limits::{COPY_WHOLE_LEN_MAX, KEPT_MAX, LEFT_OUT_NAMED};
use crate::{Error, LongOperation, Mailbox, Note, NoteKind, Progress, Result, Unit};

/// Messages kept of an expunge that is about to be made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Keeping {
    /// Number of its file.
    number: Option<u64>,
    /// Bytes that are kept.
    pub(super) bytes: Option<u64>,
    /// Time from which they may be dropped.
    pub(super) until: Option<Timestamp>,
    /// Bytes of the messages if they were to be kept and are too large for that.
    pub(super) too_large: Option<u64>,
    /// Bytes that all kept expunges may take; `None` for no bound.
    bytes_max: Option<u64>,
}

/// Presence of the messages of a kept expunge in the mailbox, under their old UIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// All: the expunge was not made.
    All,
    /// Some: the expunge was interrupted.
    Some,
    /// No message is present: the expunge was made.
    None,
    /// The UIDs are not comparable any more.
    Unknown,
}

impl Mailbox {
    /// Returns the hash of a body, as in pending changes.
    pub(super) fn body_hash(&self, uid: Uid) -> Result<u64> {
        let row = self.row_to_keep(uid)?;
        let (mut hash, mut is_header) = (Xxh3::new(), true);
        self.row_pieces(row, ReadAs::Message, &mut |piece| {
            if !std::mem::take(&mut is_header) {
                hash.update(piece);
            }
            true
        })?;
        Ok(hash.digest())
    }

    /// Returns the bytes of those messages that exist. This is about the size that an expunge of
    /// them must keep for [`Mailbox::undo`].
    ///
    /// # Errors
    /// A damaged cache.
    pub fn bytes_of_messages(&self, uids: &[Uid]) -> Result<u64> {
        let mut total = 0_u64;
        there(&self.snapshot, uids.iter().copied(), &mut |core| {
            total = total.saturating_add(core.size);
        })?;
        Ok(total)
    }

    /// Returns the folder of the kept expunges of this mailbox.
    pub(super) fn kept_folder(&self) -> KeptFolder {
        KeptFolder::new(Arc::clone(&self.vfs), &self.options.state_dir, &self.identity)
    }

    /// Keeps messages that are about to be expunged, if requested and if they fit; otherwise
    /// records at least that they are expunged. Durable when it returns. One message is in memory
    /// at a time.
    pub(super) fn keep_expunged(
        &mut self,
        expunge: &[Uid],
        options: &ChangeOptions,
    ) -> Result<Keeping> {
        // Messages that the format refuses to expunge are not read.
        if expunge.is_empty() || !self.storage.caps().expunge {
            return Ok(Keeping::default());
        }
        match options.keep_expunged {
            KeepExpunged::No if options.dry_run => Ok(Keeping::default()),
            KeepExpunged::No => self.leave_out(expunge, None),
            KeepExpunged::OrRefuse(limits) => {
                let plan = self.keep_plan(expunge, &limits)?;
                self.keep(expunge, &plan, options)
            }
            KeepExpunged::WherePossible(limits) => self.keep_if_possible(expunge, &limits, options),
        }
    }

    /// Keeps messages; a failure to keep them is not an error.
    fn keep_if_possible(
        &mut self,
        expunge: &[Uid],
        limits: &KeepLimits,
        options: &ChangeOptions,
    ) -> Result<Keeping> {
        let planned = self.keep_plan(expunge, limits);
        let kept = planned.and_then(|plan| self.keep(expunge, &plan, options));
        let error = match kept {
            Err(error @ (Error::CannotKeep { .. } | Error::State(_) | Error::Io { .. })) => error,
            Err(
                error
                @ Error::Mailbox(FormatError::MessageTooLarge { .. } | FormatError::Io { .. }),
            ) => error,
            kept => return kept,
        };
        let too_large = Some(self.bytes_of_messages(expunge)?);
        if options.dry_run {
            return Ok(Keeping { too_large, ..Keeping::default() });
        }
        let text = format!("the expunged messages are not kept for undo: {error}");
        self.notes.push(Note { kind: NoteKind::State, text });
        Ok(self.leave_out(expunge, too_large).unwrap_or_default())
    }

    /// Keeps messages; fails if there is no room for them.
    fn keep(
        &mut self,
        expunge: &[Uid],
        plan: &KeepPlan,
        options: &ChangeOptions,
    ) -> Result<Keeping> {
        if !plan.fits() {
            return Err(self.cannot_keep(expunge, plan));
        }
        let until = Some(plan.until);
        if options.dry_run {
            return Ok(Keeping { bytes: Some(plan.bytes), until, ..Keeping::default() });
        }
        let folder = self.kept_folder();
        if plan.is_tight {
            let bytes = plan.bytes_max - plan.bytes;
            let bounds = KeptBounds { bytes, count: KEPT_MAX, keeps_last: false };
            folder.prune(self.vfs.now(), &bounds)?;
        }
        let (number, writer) = self.begin_kept(&folder, plan.until, None)?;
        match self.write_kept(expunge, (plan, options), writer) {
            Err(Error::State(StateError::Io { source, .. }))
                if matches!(
                    source.kind(),
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
                ) =>
            {
                Err(self.cannot_keep(expunge, plan))
            }
            Err(error) => Err(error),
            Ok(bytes) => Ok(Keeping {
                number: Some(number),
                bytes: Some(bytes),
                until,
                too_large: None,
                bytes_max: Some(plan.bytes_max),
            }),
        }
    }

    fn cannot_keep(&self, expunge: &[Uid], plan: &KeepPlan) -> Error {
        Error::CannotKeep {
            path: self.path().to_owned(),
            messages: expunge.len() as u32,
            bytes: plan.bytes,
            bytes_max: plan.bytes_max,
        }
    }

    /// Writes all messages, as links if possible; returns their bytes.
    fn write_kept(
        &self,
        expunge: &[Uid],
        (plan, options): (&KeepPlan, &ChangeOptions),
        mut writer: ExpungedWriter,
    ) -> Result<u64> {
        if plan.is_linked {
            writer.begin_links(expunge.len())?;
        }
        let (mut copied, mut name) = (0_u64, Vec::new());
        let total = expunge.len() as u64;
        for (done, uid) in (0..).zip(expunge) {
            options.check_stop(self.path(), total)?;
            if let Some(tell) = &options.progress {
                tell(Progress { work: LongOperation::Keep, unit: Unit::Messages, done, total });
            }
            let row = self.row_to_keep(*uid)?;
            let location = self.snapshot.location(row, &mut name)?;
            let to = writer.link_path(*uid);
            let is_linked = plan.is_linked
                && self
                    .storage
                    .link(&location, &to)
                    .map_err(|error| match error {
                        FormatError::Io { path, source } if path == to => {
                            Error::State(StateError::Io { path, source })
                        }
                        error => error.into(),
                    })?
                    .is_some();
            if is_linked {
                writer.linked(&self.message_to_keep(*uid, row, false)?)?;
                continue;
            }
            let size = self.snapshot.core(row)?.size;
            copied = copied.saturating_add(size);
            if plan.is_linked && copied > plan.copied_max {
                return Err(self.cannot_keep(expunge, plan));
            }
            match size > COPY_WHOLE_LEN_MAX {
                true => self.write_large(*uid, row, options, &mut writer)?,
                false => writer.message(&self.message_to_keep(*uid, row, true)?)?,
            }
        }
        Ok(writer.finish()?)
    }

    /// Writes a message that is too large for memory.
    fn write_large(
        &self,
        uid: Uid,
        row: u32,
        options: &ChangeOptions,
        writer: &mut ExpungedWriter,
    ) -> Result<()> {
        let (mut is_begun, mut written) = (false, Ok(()));
        let mut write = |piece: &[u8]| -> Result<()> {
            if !std::mem::replace(&mut is_begun, true) {
                writer.begin_large(self.message_with(uid, row, self.form_of(row)?, piece)?)?;
            }
            options.check_stop(self.path(), 1)?;
            Ok(writer.piece(piece)?)
        };
        self.row_pieces(row, ReadAs::Stored, &mut |piece| {
            written = write(piece);
            written.is_ok()
        })?;
        written?;
        Ok(writer.end_large()?)
    }

    /// Records that messages are expunged and not kept, with the first of them to identify the
    /// expunge. If no expunge is kept, no other can be mistaken for this one.
    fn leave_out(&mut self, expunge: &[Uid], too_large: Option<u64>) -> Result<Keeping> {
        let folder = self.kept_folder();
        if too_large.is_none() && self.last_made(&folder)?.0.is_none() {
            return Ok(Keeping::default());
        }
        let bytes = self.bytes_of_messages(expunge)?;
        let left_out = LeftOut { messages: expunge.len() as u32, bytes };
        let age = KeepLimits::default().age_max.as_nanos() as i64;
        let until = Timestamp { unix_nanos: self.vfs.now().unix_nanos.saturating_add(age) };
        let (number, mut writer) = self.begin_kept(&folder, until, Some(left_out))?;
        for uid in &expunge[..expunge.len().min(LEFT_OUT_NAMED)] {
            let row = self.row_to_keep(*uid)?;
            writer.message(&self.message_to_keep(*uid, row, false)?)?;
        }
        writer.finish()?;
        Ok(Keeping { number: Some(number), too_large, ..Keeping::default() })
    }

    fn begin_kept(
        &self,
        folder: &KeptFolder,
        until: Timestamp,
        left_out: Option<LeftOut>,
    ) -> Result<(u64, ExpungedWriter)> {
        let (last, presence) = self.last_made(folder)?;
        let meta = self.snapshot.meta();
        let from = KeptFrom {
            path: self.identity.path.clone(),
            format: self.format().stored_form,
            uidvalidity: meta.uidvalidity,
            uidnext: meta.uidnext,
            kept: self.vfs.now(),
            until,
            continues: presence == Presence::Some,
            left_out,
        };
        Ok(folder.create(last, &from)?)
    }

    /// Returns the number and presence of the last kept expunge that was made; later ones, which
    /// were not made, are removed.
    fn last_made(&self, folder: &KeptFolder) -> Result<(Option<u64>, Presence)> {
        let mut numbers = folder.numbers()?;
        while let Some(number) = numbers.pop() {
            let presence = match folder.open(number) {
                Ok(Some(kept)) => self.presence(&kept)?,
                Ok(None) => continue,
                // A damaged file stays for inspection.
                Err(barid_state::Error::Damaged { .. } | barid_state::Error::Version { .. }) => {
                    Presence::Unknown
                }
                Err(error) => return Err(error.into()),
            };
            if presence != Presence::All {
                return Ok((Some(number), presence));
            }
            folder.remove(number)?;
        }
        Ok((None, Presence::Unknown))
    }

    /// Returns how many messages of a kept expunge exist under their old UIDs. Of one that was not
    /// kept only the first messages are known.
    pub(super) fn presence(&self, kept: &Expunged) -> Result<Presence> {
        if self.snapshot.meta().uidvalidity != kept.from().uidvalidity {
            return Ok(Presence::Unknown);
        }
        let Some(index) = kept.index()?.filter(|index| !index.is_empty()) else {
            return Ok(Presence::Unknown);
        };
        let mut found = 0;
        let mut rest = index.as_slice();
        there(&self.snapshot, index.iter().map(|(uid, _)| *uid), &mut |core| {
            let at = rest.partition_point(|(uid, _)| *uid < core.uid);
            rest = &rest[at..];
            found += usize::from(rest.first() == Some(&(core.uid, core.key)));
        })?;
        Ok(match found {
            0 => Presence::None,
            all if all == index.len() => Presence::All,
            _ => Presence::Some,
        })
    }

    /// Handles a failed expunge: removes the kept messages if certainly none of the expunge was
    /// made. Otherwise the mailbox shows that later.
    pub(super) fn drop_kept(&self, keeping: &Keeping, error: &Error) {
        use FormatError::{Changed, Io, Locked, MessageGone, NoSpace, Unsupported};
        let is_early = match error {
            Error::Mailbox(Io { source, .. }) => {
                matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
            }
            Error::Mailbox(error) => matches!(
                error,
                Locked { .. }
                    | Changed { .. }
                    | MessageGone { .. }
                    | NoSpace { .. }
                    | Unsupported { .. }
            ),
            _ => false,
        };
        if let Some(number) = keeping.number
            && is_early
            && !self.format().has_message_files()
        {
            // If it stays, it is recognised by its messages, which all exist.
            let _ = self.kept_folder().remove(number);
        }
    }

    /// Removes older kept expunges for which there is no room, after an expunge was made.
    pub(super) fn prune_kept(&mut self, keeping: &Keeping) {
        if keeping.number.is_none() {
            return;
        }
        let bytes = keeping.bytes_max.unwrap_or(u64::MAX);
        let bounds = KeptBounds { bytes, count: KEPT_MAX, keeps_last: true };
        let (folder, now) = (self.kept_folder(), self.vfs.now());
        let pruned = folder.prune(now, &bounds).and_then(|()| folder.prune_others(now));
        if let Err(error) = pruned {
            let text = format!("kept messages of older expunges cannot be removed: {error}");
            self.notes.push(Note { kind: NoteKind::State, text });
        }
    }

    fn row_to_keep(&self, uid: Uid) -> Result<u32> {
        let gone = || Error::NoSuchMessage { path: self.path().to_owned(), uid };
        self.row_of(uid)?.ok_or_else(gone)
    }

    /// Returns a message with everything needed to append it again; without its bytes, if not
    /// `whole`.
    fn message_to_keep(&self, uid: Uid, row: u32, whole: bool) -> Result<KeptMessage> {
        let (form, bytes) = match whole {
            true => self.stored_bytes_of(uid, row)?,
            false => (KeptForm::LeftOut, Vec::new()),
        };
        let message = self.message_with(uid, row, form, &bytes)?;
        Ok(KeptMessage { bytes, ..message })
    }

    /// Returns a message with everything needed to append it again except its bytes, which start
    /// with `start`.
    fn message_with(
        &self,
        uid: Uid,
        row: u32,
        form: KeptForm,
        start: &[u8],
    ) -> Result<KeptMessage> {
        let core = self.snapshot.core(row)?;
        let (flags, keywords, _) = self.shown.of_message(&core);
        let sender = match form {
            KeptForm::Stored { separator_len } => {
                start.get(..separator_len as usize).and_then(sender_in)
            }
            KeptForm::Message | KeptForm::LeftOut => None,
        };
        Ok(KeptMessage {
            uid,
            key: core.key,
            internal_date: core.internal_date,
            flags,
            keywords: self.keywords().select(keywords).cloned().collect(),
            sender,
            form,
            bytes: Vec::new(),
            large: None,
        })
    }

    /// Returns the form in which the message of a row is kept if it is not linked.
    pub(super) fn form_of(&self, row: u32) -> Result<KeptForm> {
        let separator_len = self.snapshot.location(row, &mut Vec::new())?.separator_len();
        Ok(separator_len.map_or(KeptForm::Message, |len| KeptForm::Stored { separator_len: len }))
    }

    /// Returns the bytes of a message as stored in the mailbox.
    fn stored_bytes_of(&self, uid: Uid, row: u32) -> Result<(KeptForm, Vec<u8>)> {
        match self.form_of(row)? {
            KeptForm::Stored { separator_len } => {
                let bytes = self.read_to_copy(uid, ReadAs::Stored)?.bytes;
                let separator_len = separator_len.min(bytes.len() as u32);
                Ok((KeptForm::Stored { separator_len }, bytes))
            }
            form => Ok((form, self.read_to_copy(uid, ReadAs::Message)?.bytes)),
        }
    }

    /// Returns the bytes of a message without its separator and the fields that belong to an mbox:
    /// they identify it.
    pub(super) fn own_bytes_of(&self, uid: Uid) -> Result<Vec<u8>> {
        let Some(row) = self.row_of(uid)? else { return Ok(Vec::new()) };
        let (form, bytes) = self.stored_bytes_of(uid, row)?;
        Ok(own_bytes(form, &bytes).into_owned())
    }
}

/// Returns a message without its separator.
pub(super) fn text_of(form: KeptForm, bytes: &[u8]) -> &[u8] {
    match form {
        KeptForm::Stored { separator_len } => &bytes[bytes.len().min(separator_len as usize)..],
        KeptForm::Message | KeptForm::LeftOut => bytes,
    }
}

/// Returns the bytes that belong to a message itself, and not to the mbox that contains it.
pub(super) fn own_bytes(form: KeptForm, bytes: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let text = text_of(form, bytes);
    match form {
        KeptForm::Stored { .. } => barid_message::strip_owned(text),
        KeptForm::Message | KeptForm::LeftOut => text.into(),
    }
}

/// Returns the sender of a From_ line.
fn sender_in(separator: &[u8]) -> Option<String> {
    let mut lines = separator.split(|byte| *byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(b"From "))?;
    let sender = std::str::from_utf8(line).ok()?.split_ascii_whitespace().next();
    sender.map(str::to_owned)
}

//! Reading messages of one mailbox and appending them to another, in batches.

use std::sync::atomic::Ordering;

use barid_mailbox::{Error as FormatError, FlagChanges, MessageRest, NewMessage};
use barid_types::{FlagSet, InternalDate, Keyword, KeywordMask, KeywordTable, Uid};

use super::ProofSide;
use super::dedupe::{Deduper, Dropped, message_id_of};
use super::existing::{Existing, TargetMatch};
use super::large::{LargeRest, LargeText};
use super::loss::{Hold, loses_senders};
use super::text::{Digest, TextTreatment};
use super::{ConvertEvent, ConvertOptions, ConvertReport, TellConvert};
use crate::limits::CONVERT_BATCH_MESSAGES;
use crate::reading::{Large, MessageRead, ReadOutcome, read_each, sender_of};
use crate::{ChangeOptions, ChangeRequest, Error, LongOperation, Mailbox, Progress, Result, Unit};

/// A message of the source that is in the target, or will be.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) uid: Uid,
    pub(super) digest: Digest,
    pub(super) flags: FlagSet,
    /// All its keywords in the source, by slots of [`Copied::names`].
    pub(super) keywords: KeywordMask,
    pub(super) internal_date: InternalDate,
    /// Its UID in the target.
    pub(super) after: Option<Uid>,
}

/// A message that is not written yet.
struct Waiting {
    /// Index of its entry.
    entry: usize,
    text: Vec<u8>,
    keywords: Vec<Keyword>,
    sender: Option<String>,
    likeness: Digest,
    message_id: Option<Vec<u8>>,
}

/// A duplicate of a message that is not written yet: it is dropped once that is stored, and
/// otherwise replaces it.
struct Like {
    /// Number of waiting messages before it.
    behind: usize,
    message: Prepared,
    dropped: Dropped,
}

/// A message prepared by a thread.
struct Prepared {
    read: MessageRead<'static>,
    digest: Digest,
    /// The digest for comparison with other messages.
    likeness: Digest,
    message_id: Option<Vec<u8>>,
    is_quoted: bool,
    /// Bytes of a large message after its header.
    rest_size: u64,
}

/// The result of copying.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) entries: Vec<Entry>,
    pub(super) texts: TextTreatment,
    pub(super) report: ConvertReport,
    names: KeywordTable,
}

impl Copied {
    /// Returns a message as it was read from the source.
    pub(super) fn before(&self, entry: &Entry) -> ProofSide {
        ProofSide {
            uid: entry.uid,
            sha256: entry.digest,
            flags: entry.flags,
            keywords: self.names.select(entry.keywords).cloned().collect(),
            internal_date: entry.internal_date,
        }
    }

    /// Returns `true` if the target cannot store a keyword.
    pub(super) fn is_refused(&self, keyword: &Keyword) -> bool {
        self.report.losses.keywords.iter().any(|(refused, ..)| refused == keyword)
    }
}

/// A copy in progress.
pub(super) struct Transfer<'a, 't> {
    target: &'a mut Mailbox,
    options: &'a ConvertOptions,
    tell: &'a mut TellConvert<'t>,
    texts: TextTreatment,
    hold: Hold,
    deduper: Option<Deduper>,
    /// `true` if messages must keep their UIDs.
    keeps_uids: bool,
    /// UIDNEXT for the target once it has its last message.
    uidnext: Option<Uid>,
    is_ours: bool,
    has_senders: bool,
    existing: Existing,
    entries: Vec<Entry>,
    /// Number of entries that are written; these are the first ones.
    written: usize,
    names: KeywordTable,
    /// Flag changes of messages that are in the target with other flags than in the source.
    changed: FlagChanges,
    waiting: Vec<Waiting>,
    likes: Vec<Like>,
    /// Bytes of both lists.
    waiting_len: usize,
    /// `true` once a message is missing in the target, and all after it are missing too.
    is_beyond: bool,
    total: u64,
    /// UID of the last message to copy.
    last: Option<Uid>,
    is_stopped: bool,
    deviates: bool,
    report: ConvertReport,
}

/// Result of a transfer.
#[derive(Debug)]
pub(super) enum End {
    /// Everything is written.
    Whole(Box<Copied>),
    /// The content of the target does not allow continuing.
    Deviates,
}

impl<'a, 't> Transfer<'a, 't> {
    pub(super) fn new(
        source: &Mailbox,
        target: &'a mut Mailbox,
        options: &'a ConvertOptions,
        tell: &'a mut TellConvert<'t>,
    ) -> Result<Self> {
        let (from, to) = (source.format(), target.format());
        let hold = Hold::of(target, source.keywords())?;
        let mut report = ConvertReport::new(from, to);
        report.losses.senders = loses_senders(from, to) && !source.is_empty();
        Ok(Self {
            target,
            options,
            tell,
            texts: TextTreatment::between(from, to),
            hold,
            deduper: options.dedupe.map(Deduper::new),
            keeps_uids: false,
            uidnext: None,
            is_ours: false,
            has_senders: from.has_senders && to.has_senders,
            existing: Existing::default(),
            entries: Vec::new(),
            written: 0,
            names: KeywordTable::default(),
            changed: FlagChanges::default(),
            waiting: Vec::new(),
            likes: Vec::new(),
            waiting_len: 0,
            is_beyond: false,
            total: 0,
            last: None,
            is_stopped: false,
            deviates: false,
            report,
        })
    }

    /// Makes messages keep their UIDs if possible, as they must in a target that is `ours`; the
    /// first of them may be in the target already.
    pub(super) fn going_on(mut self, ours: bool) -> Result<Self> {
        self.keeps_uids = true;
        self.report.wants_all = true;
        self.is_ours = ours;
        self.existing = Existing::read(self.target, self.texts)?;
        Ok(self)
    }

    /// Reads all messages of the target, if their duplicates are not to be copied.
    pub(super) fn looking_at_target(mut self) -> Result<Self> {
        let Some(deduper) = &mut self.deduper else { return Ok(self) };
        let (texts, wants_id) = (self.texts, deduper.wants_ids());
        let options = self.options;
        let stop = options.stop.as_deref();
        let make = move |mailbox: &Mailbox, read: MessageRead<'_>, scratch: &mut Vec<u8>| {
            let likeness = texts.likeness_of(mailbox, &read, scratch, stop)?;
            Ok((likeness, if wants_id { message_id_of(&read.text) } else { None }))
        };
        let uids = super::all_uids(self.target)?;
        read_each(self.target, (&uids, Large::Stream), &make, &mut |_, uid, outcome| {
            // An unreadable message has no duplicates.
            if let ReadOutcome::Made((likeness, id)) = outcome {
                deduper.has(uid, &likeness, id.as_deref());
            }
            Ok::<_, Error>(!options.is_stopped())
        })?;
        match options.is_stopped() {
            true => Err(self.stopped()),
            false => Ok(self),
        }
    }

    /// Copies messages.
    ///
    /// # Errors
    /// [`Error::ConversionStopped`]; errors of either mailbox.
    pub(super) fn run(mut self, source: &mut Mailbox, uids: &[Uid]) -> Result<End> {
        self.total = uids.len() as u64;
        self.last = uids.last().copied();
        self.entries.reserve(uids.len());
        let texts = self.texts;
        let wants_id = self.deduper.as_ref().is_some_and(Deduper::wants_ids);
        let compares = self.deduper.is_some();
        let wants_sender = self.has_senders;
        let stop = self.options.stop.clone();
        let stop = stop.as_deref();
        let make = move |mailbox: &Mailbox, mut read: MessageRead<'_>, scratch: &mut Vec<u8>| {
            let message_id = if wants_id { message_id_of(&read.text) } else { None };
            read.sender = if wants_sender { sender_of(mailbox, read.uid) } else { None };
            if let Some(row) = read.large {
                let text = texts.to_store(&read.text);
                let large = texts.read_large(mailbox, (row, &read.text), stop)?;
                let LargeText { digest, likeness, is_quoted, rest_size } = large;
                let (read, likeness) = (read.with_text(text), likeness.unwrap_or(digest));
                return Ok(Prepared { read, digest, likeness, message_id, is_quoted, rest_size });
            }
            let is_quoted = texts.is_quoted(&read.text);
            let likeness = if compares { texts.likeness(&read.text, scratch) } else { None };
            let (text, digest) = texts.prepare(&read.text, scratch);
            let (read, likeness) = (read.with_text(text), likeness.unwrap_or(digest));
            Ok(Prepared { read, digest, likeness, message_id, is_quoted, rest_size: 0 })
        };
        // A file cannot be read further while it is written.
        let large = if source.is_file_of(self.target) { Large::Refuse } else { Large::Stream };
        read_each(source, (uids, large), &make, &mut |source, uid, outcome| {
            self.take(source, uid, outcome)
        })?;
        if self.deviates || !self.is_stopped && self.existing.has_more() {
            return Ok(End::Deviates);
        }
        if self.is_stopped {
            return Err(self.stopped());
        }
        self.uidnext = self.keeps_uids.then(|| source.status().uidnext);
        self.write()?;
        self.write_changed()?;
        self.report.losses.keywords = self.hold.refused();
        let Self { entries, names, report, .. } = self;
        Ok(End::Whole(Box::new(Copied { entries, texts, report, names })))
    }

    /// Returns the error of a copy that ends before everything is written.
    fn stopped(&self) -> Error {
        let behind =
            || self.entries.last().and_then(|entry| Uid::new(entry.uid.get().saturating_add(1)));
        let next = self.entries.get(self.written).map(|entry| entry.uid).or_else(behind);
        let done = self.report.found + self.report.appended;
        let path = self.target.path().to_owned();
        Error::ConversionStopped { path, done, total: self.total, next }
    }

    fn take(&mut self, source: &Mailbox, uid: Uid, outcome: ReadOutcome<Prepared>) -> Result<bool> {
        let prepared = match outcome {
            ReadOutcome::Made(prepared) => prepared,
            ReadOutcome::Gone => {
                self.report.gone.push(uid);
                return Ok(true);
            }
            // It was stopped in the middle of a large message.
            ReadOutcome::Unreadable(Error::Mailbox(FormatError::Stopped { .. })) => {
                self.is_stopped = true;
                return Ok(false);
            }
            ReadOutcome::Unreadable(error) => {
                self.report.failed.push((uid, error));
                return Ok(true);
            }
        };
        if prepared.read.large.is_some() {
            // It is written at once, while the source is unchanged since it was read.
            self.write()?;
        }
        let large = self.large_of(source, &prepared);
        self.report.messages += 1;
        self.progress();
        match self.like_of(&prepared) {
            Some(dropped) => self.take_like(prepared, dropped)?,
            None => self.take_kept(prepared, large)?,
        }
        self.is_stopped = self.options.is_stopped();
        Ok(!self.deviates && !self.is_stopped)
    }

    /// Returns the reason to drop a message; `None` if it is kept from now on.
    fn like_of(&mut self, message: &Prepared) -> Option<Dropped> {
        let id = message.message_id.as_deref();
        self.deduper.as_mut()?.drops(message.read.uid, &message.likeness, id)
    }

    /// Handles a duplicate of a message that is stored or waits.
    fn take_like(&mut self, message: Prepared, dropped: Dropped) -> Result<()> {
        if self.waiting.is_empty() {
            self.report_dropped(&dropped);
            return Ok(());
        }
        self.waiting_len += message.read.text.len();
        self.likes.push(Like { behind: self.waiting.len(), message, dropped });
        match self.is_full(0) {
            true => self.write(),
            false => Ok(()),
        }
    }

    fn report_dropped(&mut self, dropped: &Dropped) {
        self.report.dropped += 1;
        (self.tell)(ConvertEvent::Dropped(dropped));
    }

    /// Returns the body of a message that is too large for memory. If it is the last one, there is
    /// no later message to raise UIDNEXT with.
    fn large_of<'m>(&mut self, source: &'m Mailbox, message: &Prepared) -> Option<LargeRest<'m>>
    where
        'a: 'm,
    {
        let row = message.read.large?;
        if self.keeps_uids && self.last == Some(message.read.uid) {
            self.uidnext = Some(source.status().uidnext);
        }
        let stop = self.options.stop.as_deref();
        Some(LargeRest::new(source, (row, message.rest_size), self.texts, stop))
    }

    /// Handles a message that is to be in the target.
    fn take_kept(&mut self, message: Prepared, large: Option<LargeRest<'_>>) -> Result<()> {
        let Prepared { read, digest, likeness, message_id, is_quoted, .. } = message;
        let uid = read.uid;
        self.report.losses.zones += u64::from(self.hold.loses_zone(read.internal_date));
        self.report.losses.quoted += u64::from(is_quoted);
        let mut keywords = KeywordMask::default();
        for keyword in &read.keywords {
            keywords.0 |= self.names.intern(keyword).map_or(0, |slot| 1 << slot);
        }
        let MessageRead { flags, internal_date, .. } = read;
        let entry = Entry { uid, digest, flags, keywords, internal_date, after: None };
        let keywords = self.hold.keep(read.keywords);
        let (text, sender, at) = (read.text.into_owned(), read.sender, self.entries.len());
        let wanted = self.is_ours.then_some(uid);
        match self.existing.take(wanted, &entry, &keywords) {
            TargetMatch::Same(after, change) => {
                self.report.found += 1;
                self.changed.extend(change.map(|change| (after, change)));
                self.entries.push(Entry { after: Some(after), ..entry });
            }
            TargetMatch::Nothing => {
                // A UID that was assigned already cannot be assigned again.
                if self.is_ours && !self.is_beyond {
                    self.deviates = uid < self.target.status().uidnext;
                }
                self.is_beyond = true;
                let message = Waiting { entry: at, text, keywords, sender, likeness, message_id };
                match large.filter(|_| !self.deviates) {
                    Some(large) => {
                        self.entries.push(entry);
                        self.append_one(&message, Some(large))?;
                    }
                    None => self.wait(entry, message)?,
                }
            }
            TargetMatch::Skipped => {
                let message = Waiting { entry: at, text, keywords, sender, likeness, message_id };
                self.entries.push(entry);
                // If it cannot be stored, its absence is expected.
                self.deviates = self.append_one(&message, large)?;
            }
            TargetMatch::Other => self.deviates = true,
        }
        Ok(())
    }

    /// Returns `true` if no further bytes can wait.
    fn is_full(&self, more: usize) -> bool {
        self.waiting_len + more > self.options.batch_len
            || self.waiting.len() + self.likes.len() >= CONVERT_BATCH_MESSAGES
    }

    /// Adds a message to those that wait; writes them before there are too many.
    fn wait(&mut self, entry: Entry, message: Waiting) -> Result<()> {
        self.entries.push(entry);
        if self.is_full(message.text.len()) && !self.deviates {
            self.write()?;
        }
        self.waiting_len += message.text.len();
        self.waiting.push(message);
        Ok(())
    }

    /// Writes the waiting messages.
    fn write(&mut self) -> Result<()> {
        self.waiting_len = 0;
        let waiting = std::mem::take(&mut self.waiting);
        let likes = std::mem::take(&mut self.likes);
        match self.append(&waiting, None) {
            // One of them cannot be stored; the others can.
            Err(Error::Mailbox(FormatError::Unsupported { .. })) => self.write_each(waiting, likes),
            result => {
                result?;
                likes.iter().for_each(|like| self.report_dropped(&like.dropped));
                Ok(())
            }
        }
    }

    /// Writes messages one by one. A duplicate of one that cannot be stored replaces it.
    fn write_each(&mut self, waiting: Vec<Waiting>, likes: Vec<Like>) -> Result<()> {
        let mut likes = likes.into_iter().peekable();
        for (at, message) in waiting.iter().enumerate() {
            self.append_one(message, None)?;
            while let Some(like) = likes.next_if(|like| like.behind == at + 1) {
                match self.like_of(&like.message) {
                    Some(dropped) => self.report_dropped(&dropped),
                    None => {
                        self.take_kept(like.message, None)?;
                        self.write()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes one message. Returns `true` if it was read and stored; otherwise it has no
    /// duplicates.
    fn append_one(&mut self, message: &Waiting, large: Option<LargeRest<'_>>) -> Result<bool> {
        let rest = large.as_ref().map(|large| large as &dyn MessageRest);
        let result = self.append(std::slice::from_ref(message), rest);
        let result = match (result, large.and_then(LargeRest::into_error)) {
            (Err(_), Some(error)) => Err((error, true)),
            (Err(error), None) => {
                use FormatError::{MessageTooLarge, Unsupported};
                let is_of_message =
                    matches!(error, Error::Mailbox(Unsupported { .. } | MessageTooLarge { .. }));
                Err((error, is_of_message))
            }
            (Ok(()), _) => Ok(()),
        };
        match result {
            Err((error, true)) => {
                let uid = self.entries[message.entry].uid;
                if let Some(deduper) = &mut self.deduper {
                    deduper.forget(uid, &message.likeness, message.message_id.as_deref());
                }
                self.report.failed.push((uid, error));
                Ok(false)
            }
            Err((error, false)) => Err(error),
            Ok(()) => Ok(true),
        }
    }

    /// Writes messages; `rest` is the body of the only one.
    fn append(&mut self, waiting: &[Waiting], rest: Option<&dyn MessageRest>) -> Result<()> {
        if waiting.is_empty() {
            return Ok(());
        }
        let last = waiting.last().map(|last| last.entry);
        let appends: Vec<NewMessage<'_>> = waiting
            .iter()
            .map(|message| {
                let entry = &self.entries[message.entry];
                NewMessage {
                    bytes: &message.text,
                    rest,
                    internal_date: Some(entry.internal_date),
                    flags: entry.flags,
                    keywords: message.keywords.clone(),
                    sender: message.sender.as_deref(),
                    uid: self.keeps_uids.then_some(entry.uid),
                    uidnext: self.uidnext.filter(|_| Some(message.entry) == last),
                    stored: None,
                }
            })
            .collect();
        let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        let changed = match self.target.change(&request, &self.change_options()) {
            Err(Error::Mailbox(FormatError::Stopped { .. })) => return Err(self.stopped()),
            result => result?,
        };
        self.report.appended += appends.len() as u64;
        self.written = waiting.last().map_or(self.written, |message| message.entry + 1);
        self.report.add(&changed);
        if changed.appended.len() == waiting.len() {
            for (message, after) in waiting.iter().zip(changed.appended) {
                let entry = &mut self.entries[message.entry];
                entry.after = Some(after);
                let is_lost = self.keeps_uids && after != entry.uid;
                self.report.losses.uids += u64::from(is_lost);
            }
        }
        Ok(())
    }

    /// A batch for a mailbox with a file per message may take long, and may end early.
    fn change_options(&self) -> ChangeOptions {
        let stop = self.options.stop.clone().filter(|_| self.target.format().has_message_files());
        ChangeOptions { stop, ..ChangeOptions::default() }
    }

    /// Changes the flags of messages that were in the target to those of the source.
    fn write_changed(&mut self) -> Result<()> {
        let flags = std::mem::take(&mut self.changed);
        if flags.is_empty() {
            return Ok(());
        }
        let request = ChangeRequest { flags, ..ChangeRequest::default() };
        let changed = self.target.change(&request, &ChangeOptions::default())?;
        self.report.add(&changed);
        Ok(())
    }

    fn progress(&self) {
        if let Some(tell) = &self.options.progress {
            let (unit, done, total) = (Unit::Messages, self.report.messages, self.total);
            tell(Progress { work: LongOperation::Convert, unit, done, total });
        }
    }
}

impl ConvertOptions {
    /// Returns `true` if the copy is to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use barid_formats::{CreateOptions, MailboxSpec};
    use barid_vfs::{MemVfs, Vfs};

    use super::super::Dedupe;
    use super::*;
    use crate::convert::format_named;
    use crate::{OpenOptions, create};

    /// Copies messages, each a text and its id; checks which are stored, which are dropped and as
    /// duplicates of which, and which fail.
    fn check(messages: &[(&str, u8)], stored: &[u32], dropped: &[(u32, u32)], failed: &[u32]) {
        for dedupe in [Dedupe::Content, Dedupe::MessageId] {
            for batch_len in [0, 3, usize::MAX] {
                let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
                let state = Path::new("/state");
                let open = OpenOptions::new(None, state.into());
                let [source, mut target] =
                    [("/from", format_named("mh")), ("/to", format_named("mix"))].map(
                        |(path, format)| {
                            let options = CreateOptions::default();
                            create(&vfs, Path::new(path), format, &options, state).unwrap();
                            let spec = MailboxSpec { path: path.into(), format: None };
                            Mailbox::open_in(Arc::clone(&vfs), &spec, &open).unwrap()
                        },
                    );
                let options =
                    ConvertOptions { dedupe: Some(dedupe), batch_len, ..ConvertOptions::default() };
                let mut told = Vec::new();
                let mut tell = |event: ConvertEvent<'_>| {
                    if let ConvertEvent::Dropped(it) = event {
                        told.push((it.uid.get(), it.like.get()));
                    }
                };
                let transfer = Transfer::new(&source, &mut target, &options, &mut tell).unwrap();
                let mut transfer = transfer.going_on(true).unwrap();
                for (uid, (text, known_by)) in (1..).zip(messages) {
                    let uid = Uid::new(uid).unwrap();
                    let read = MessageRead {
                        uid,
                        flags: FlagSet::EMPTY,
                        keywords: Vec::new(),
                        internal_date: InternalDate::default(),
                        text: text.as_bytes().to_vec().into(),
                        large: None,
                        sender: None,
                    };
                    let (digest, message_id) = ([*known_by; 32], Some(vec![*known_by]));
                    let likeness = digest;
                    let made = Prepared {
                        read,
                        digest,
                        likeness,
                        message_id,
                        is_quoted: false,
                        rest_size: 0,
                    };
                    assert!(transfer.take(&source, uid, ReadOutcome::Made(made)).unwrap());
                }
                transfer.write().unwrap();
                let report = transfer.report;
                let context = format!("{dedupe:?} {batch_len}");
                let not_stored: Vec<u32> = report.failed.iter().map(|(uid, _)| uid.get()).collect();
                assert_eq!(not_stored, failed, "{context}");
                assert_eq!(report.dropped as usize, dropped.len(), "{context}");
                assert_eq!(report.appended as usize, stored.len(), "{context}");
                assert_eq!(told, dropped, "{context}");
                assert_eq!(target.uids().unwrap(), stored, "{context}");
            }
        }
    }

    #[test]
    fn what_cannot_be_stored_takes_nothing_with_it() {
        // A mix holds no message of no bytes.
        check(&[("a", 1), ("b", 2), ("a", 1)], &[1, 2], &[(3, 1)], &[]);
        check(&[("", 1), ("a", 1)], &[2], &[], &[1]);
        check(
            &[("", 1), ("a", 1), ("b", 2), ("", 1), ("b", 2), ("c", 3)],
            &[2, 3, 6],
            &[(4, 2), (5, 3)],
            &[1],
        );
        check(&[("b", 2), ("", 1), ("", 1), ("a", 1), ("b", 2)], &[1, 4], &[(5, 1)], &[2, 3]);
    }
}

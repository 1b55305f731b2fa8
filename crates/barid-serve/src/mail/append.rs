//! Appending: messages are collected as they arrive, and those of several sessions for one mailbox
//! are written in one change, which waits for the disk once.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use barid::vfs::{File, OpenOptions, Vfs};
use barid::{
    Cancel, ChangeOptions, ChangeRequest, FileRest, FlagSet, InternalDate, Keyword, MessageRest,
    NewMessage, SharedMailbox,
};
use barid_imap::backend::{Answer, Appended, Refusal};
use barid_imap::command::AppendMessage;

use super::binary::encode_binary_parts;
use super::refusal::refused;
use crate::limits::{APPEND_GROUP_LEN_MAX, APPEND_MEMORY_LEN, BINARY_LEN_MAX};

/// A message that is being received, without the CR of its line ends.
pub(crate) struct Received {
    flags: FlagSet,
    keywords: Vec<Keyword>,
    internal_date: Option<InternalDate>,
    memory: Vec<u8>,
    file: Option<(Box<dyn File>, PathBuf)>,
    /// Bytes in the file.
    written: u64,
    /// `true` if parts of the encoding `binary` must be kept exactly: until the end all bytes stay
    /// in memory.
    is_binary: bool,
    /// `true` if the last byte was a CR, which is not stored yet.
    has_cr: bool,
    len: u64,
}

impl Received {
    pub(crate) fn new(message: &AppendMessage) -> Self {
        Self::with(message.flags.flags, message.flags.keywords.clone(), message.internal_date)
    }

    pub(crate) fn with(
        flags: FlagSet,
        keywords: Vec<Keyword>,
        internal_date: Option<InternalDate>,
    ) -> Self {
        let (memory, file, written, len) = (Vec::new(), None, 0, 0);
        let (is_binary, has_cr) = (false, false);
        Self { flags, keywords, internal_date, memory, file, written, is_binary, has_cr, len }
    }

    /// Keeps parts of the encoding `binary` exactly; the message must fit into memory.
    pub(crate) fn keep_binary(&mut self, len: u64) -> Answer<()> {
        self.check_binary_len(len)?;
        if self.file.is_some() {
            return Err(Refusal::new("CANNOT", "A literal8 cannot follow a large literal"));
        }
        if std::mem::take(&mut self.has_cr) {
            self.memory.push(b'\r');
        }
        self.is_binary = true;
        Ok(())
    }

    fn check_binary_len(&self, more: u64) -> Answer<()> {
        if self.len.saturating_add(more) <= BINARY_LEN_MAX {
            return Ok(());
        }
        let text = format!("At most {BINARY_LEN_MAX} bytes are possible with a literal8");
        Err(Refusal::new("TOOBIG", text))
    }

    /// Takes bytes as they are.
    pub(crate) fn push_exact(&mut self, bytes: &[u8], vfs: &dyn Vfs, dir: &Path) -> Answer<()> {
        self.len += bytes.len() as u64;
        self.memory.extend_from_slice(bytes);
        self.spill_if_large(vfs, dir)
    }

    /// Takes bytes of a client, whose lines end with CRLF.
    pub(crate) fn push(&mut self, bytes: &[u8], vfs: &dyn Vfs, dir: &Path) -> Answer<()> {
        if self.is_binary {
            self.check_binary_len(bytes.len() as u64)?;
            self.len += bytes.len() as u64;
            self.memory.extend_from_slice(bytes);
            return Ok(());
        }
        self.len += bytes.len() as u64;
        let mut from = 0;
        for at in memchr::memchr_iter(b'\n', bytes) {
            self.text(&bytes[from..at]);
            // The CR before a line feed is that of the protocol.
            self.has_cr = false;
            self.memory.push(b'\n');
            from = at + 1;
        }
        self.text(&bytes[from..]);
        self.spill_if_large(vfs, dir)
    }

    /// Moves the bytes to a file in `dir` if they are many.
    fn spill_if_large(&mut self, vfs: &dyn Vfs, dir: &Path) -> Answer<()> {
        if self.memory.len() < APPEND_MEMORY_LEN {
            return Ok(());
        }
        self.spill(vfs, dir).map_err(|error| unavailable(dir, &error))
    }

    /// Takes bytes without a line feed; a CR at their end waits for the next byte.
    fn text(&mut self, bytes: &[u8]) {
        let Some((last, before)) = bytes.split_last() else { return };
        if std::mem::take(&mut self.has_cr) {
            self.memory.push(b'\r');
        }
        self.has_cr = *last == b'\r';
        self.memory.extend_from_slice(if self.has_cr { before } else { bytes });
    }

    fn spill(&mut self, vfs: &dyn Vfs, dir: &Path) -> std::io::Result<()> {
        let (file, _) = match &mut self.file {
            Some(file) => file,
            none => {
                static NUMBER: AtomicU64 = AtomicU64::new(0);
                vfs.create_dir_all(dir, 0o700)?;
                let number = NUMBER.fetch_add(1, Ordering::Relaxed);
                let path = dir.join(format!("append-{}-{number}", std::process::id()));
                let file = vfs.open(&path, OpenOptions::create_new(0o600))?;
                // Nothing is left of it after a crash.
                vfs.remove_file(&path)?;
                none.insert((file, path))
            }
        };
        file.write_all_at(&self.memory, self.written)?;
        self.written += self.memory.len() as u64;
        self.memory.clear();
        Ok(())
    }

    fn finish(mut self, vfs: &dyn Vfs, dir: &Path) -> Answer<Complete> {
        if std::mem::take(&mut self.is_binary) {
            let message = encode_binary_parts(&std::mem::take(&mut self.memory));
            self.push(&message, vfs, dir)?;
        }
        if std::mem::take(&mut self.has_cr) {
            self.memory.push(b'\r');
        }
        if self.len == 0 {
            return Err(Refusal::new("CANNOT", "A message must have at least one byte"));
        }
        if self.file.is_some() {
            self.spill(vfs, dir).map_err(|error| unavailable(dir, &error))?;
        }
        let Self { flags, keywords, internal_date, memory, file, .. } = self;
        let (bytes, rest) = match file {
            None => (memory, None),
            Some((file, path)) => {
                let (start, rest) = FileRest::split(file, &path).map_err(refused)?;
                (start, Some(rest))
            }
        };
        Ok(Complete { bytes, rest, flags, keywords, internal_date })
    }
}

fn unavailable(dir: &Path, error: &std::io::Error) -> Refusal {
    Refusal::new("UNAVAILABLE", format!("{}: {error}", dir.display()))
}

/// A message that was received completely.
struct Complete {
    bytes: Vec<u8>,
    rest: Option<FileRest>,
    flags: FlagSet,
    keywords: Vec<Keyword>,
    internal_date: Option<InternalDate>,
}

impl Complete {
    fn as_new(&self) -> NewMessage<'_> {
        NewMessage {
            bytes: &self.bytes,
            rest: self.rest.as_ref().map(|rest| rest as &dyn MessageRest),
            internal_date: self.internal_date,
            flags: self.flags,
            keywords: self.keywords.clone(),
            ..NewMessage::default()
        }
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64 + self.rest.as_ref().map_or(0, MessageRest::size)
    }
}

/// The messages of one request, which are stored all or none.
struct AppendJob {
    messages: Vec<Complete>,
    outcome: Mutex<Option<Answer<Appended>>>,
}

impl AppendJob {
    fn outcome(&self) -> Option<Answer<Appended>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn complete(&self, outcome: Answer<Appended>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }

    fn len(&self) -> u64 {
        self.messages.iter().map(Complete::len).sum()
    }
}

/// Requests for one mailbox that wait to be written.
#[derive(Default)]
struct AppendQueue(Mutex<VecDeque<Arc<AppendJob>>>);

impl AppendQueue {
    fn push(&self, job: &Arc<AppendJob>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(Arc::clone(job));
    }

    /// Takes the requests that are written together; always one at least, if there is one.
    fn take_group(&self) -> Vec<Arc<AppendJob>> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut group, mut len) = (Vec::new(), 0);
        while let Some(job) = queue.front() {
            len += job.len();
            if !group.is_empty() && len > APPEND_GROUP_LEN_MAX {
                break;
            }
            group.extend(queue.pop_front());
        }
        group
    }

    fn remove(&self, job: &Arc<AppendJob>) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.retain(|other| !Arc::ptr_eq(other, job));
    }
}

/// The queues of all mailboxes of a user, by the identity of the mailbox.
#[derive(Default)]
pub(crate) struct AppendQueues(Mutex<HashMap<u128, Arc<AppendQueue>>>);

impl AppendQueues {
    /// Stores messages at the end of a mailbox, all or none; durable when this returns. Requests of
    /// other sessions that wait for the mailbox are written in the same change.
    pub(crate) fn append(
        &self,
        target: &SharedMailbox,
        messages: Vec<Received>,
        (vfs, dir): (&dyn Vfs, &Path),
        cancel: &Cancel,
    ) -> Answer<Appended> {
        let messages: Answer<Vec<_>> =
            messages.into_iter().map(|message| message.finish(vfs, dir)).collect();
        let job = Arc::new(AppendJob { messages: messages?, outcome: Mutex::default() });
        let queue = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(target.view().id()).or_default())
        };
        queue.push(&job);
        let updated = target.update(cancel, |mailbox, stop| {
            // Another session may have written it while this one waited.
            if job.outcome().is_none() {
                let options = ChangeOptions { stop: Some(Arc::clone(stop)), ..Default::default() };
                write_group(mailbox, &queue.take_group(), &options);
            }
            Ok(())
        });
        match job.outcome() {
            Some(outcome) => outcome,
            None => {
                queue.remove(&job);
                Err(updated.err().map_or_else(
                    || Refusal::new("UNAVAILABLE", "The message was not stored"),
                    refused,
                ))
            }
        }
    }
}

/// Writes the messages of several requests in one change. If it fails, all of them are refused; a
/// client that repeats its request may then have a message twice, but never not at all.
fn write_group(mailbox: &mut barid::Mailbox, group: &[Arc<AppendJob>], options: &ChangeOptions) {
    let messages = group.iter().flat_map(|job| &job.messages);
    let appends: Vec<NewMessage<'_>> = messages.map(Complete::as_new).collect();
    let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
    let written = mailbox.change(&request, options);
    let uidvalidity = mailbox.status().uidvalidity;
    match written {
        Ok(changed) => {
            let mut uids = changed.appended.into_iter();
            for job in group {
                let uids = uids.by_ref().take(job.messages.len()).collect();
                job.complete(Ok(Appended { uidvalidity, uids }));
            }
        }
        // One message that cannot be stored must not refuse those of others. Nothing was written.
        Err(
            barid::Error::Keyword { .. }
            | barid::Error::Mailbox(barid::FormatError::MessageTooLarge { .. }),
        ) if group.len() > 1 => {
            for job in group {
                write_group(mailbox, std::slice::from_ref(job), options);
            }
        }
        Err(error) => group.iter().for_each(|job| job.complete(Err(refused_again(&error)))),
    }
}

fn refused_again(error: &barid::Error) -> Refusal {
    let text = error.to_string();
    match error {
        barid::Error::Keyword { .. } => Refusal::new("LIMIT", text),
        _ => Refusal::new("UNAVAILABLE", text),
    }
}

//! Appending: messages are collected as they arrive, and those of several sessions for one mailbox
//! are written in one change, which waits for the disk once.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use barid::vfs::{File, OpenOptions, Vfs};
use barid::{
    Cancel, ChangeOptions, ChangeRequest, FileRest, FlagSet, InternalDate, Keyword, MessageRest,
    NewMessage, ProgressFn, SharedMailbox,
};
use barid_imap::backend::{Answer, Appended, Refusal};
use barid_imap::command::AppendMessage;

use super::binary::encode_binary_parts;
use super::refusal::refused;
use crate::limits::{APPEND_GROUP_LEN_MAX, APPEND_MEMORY_LEN, BINARY_LEN_MAX};

/// The file in which the messages of one APPEND are, as far as they are not in memory. It has no
/// name, so that nothing is left of it after a crash.
pub(crate) struct Spool {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    file: Option<(Arc<dyn File>, PathBuf)>,
    /// Bytes in the file.
    len: u64,
    /// Bytes of complete messages in memory.
    in_memory: usize,
}

impl Spool {
    /// Creates the spool of one request; the file is made in `dir` once it is needed.
    pub(crate) fn new(vfs: Arc<dyn Vfs>, dir: &Path) -> Self {
        Self { vfs, dir: dir.to_owned(), file: None, len: 0, in_memory: 0 }
    }

    /// Forgets all messages.
    pub(crate) fn clear(&mut self) {
        (self.file, self.len, self.in_memory) = (None, 0, 0);
    }

    fn file(&mut self) -> std::io::Result<&(Arc<dyn File>, PathBuf)> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        if self.file.is_none() {
            self.vfs.create_dir_all(&self.dir, 0o700)?;
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = self.dir.join(format!("append-{}-{number}", std::process::id()));
            let file = self.vfs.open(&path, OpenOptions::create_new(0o600))?;
            self.vfs.remove_file(&path)?;
            self.file = Some((Arc::from(file), path));
        }
        self.file.as_ref().ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    /// Appends bytes.
    fn write(&mut self, bytes: &[u8]) -> Answer<()> {
        let at = self.len;
        let written = self.file().and_then(|(file, _)| file.write_all_at(bytes, at));
        written.map_err(|error| unavailable(&self.dir, &error))?;
        self.len += bytes.len() as u64;
        Ok(())
    }
}

/// A message that is being received, without the CR of its line ends.
pub(crate) struct Received {
    flags: FlagSet,
    keywords: Vec<Keyword>,
    internal_date: Option<InternalDate>,
    memory: Vec<u8>,
    /// Offset of the message in the spool, if it is there; the bytes in memory follow.
    spooled: Option<u64>,
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
        let (memory, spooled, len) = (Vec::new(), None, 0);
        let (is_binary, has_cr) = (false, false);
        Self { flags, keywords, internal_date, memory, spooled, is_binary, has_cr, len }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Keeps parts of the encoding `binary` exactly; the message must fit into memory.
    pub(crate) fn keep_binary(&mut self, len: u64) -> Answer<()> {
        self.check_binary_len(len)?;
        if self.spooled.is_some() {
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
    pub(crate) fn push_exact(&mut self, bytes: &[u8], spool: &mut Spool) -> Answer<()> {
        self.len += bytes.len() as u64;
        self.memory.extend_from_slice(bytes);
        self.spill_if_large(spool)
    }

    /// Takes bytes of a client, whose lines end with CRLF.
    pub(crate) fn push(&mut self, bytes: &[u8], spool: &mut Spool) -> Answer<()> {
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
        self.spill_if_large(spool)
    }

    /// Moves the bytes to the spool if they are many.
    fn spill_if_large(&mut self, spool: &mut Spool) -> Answer<()> {
        match self.memory.len() < APPEND_MEMORY_LEN {
            true => Ok(()),
            false => self.spill(spool),
        }
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

    fn spill(&mut self, spool: &mut Spool) -> Answer<()> {
        self.spooled.get_or_insert(spool.len);
        spool.write(&self.memory)?;
        self.memory.clear();
        Ok(())
    }

    /// Ends the message: nothing of it stays in memory if the others have filled that.
    pub(crate) fn end(&mut self, spool: &mut Spool) -> Answer<()> {
        if std::mem::take(&mut self.is_binary) {
            let message = encode_binary_parts(&std::mem::take(&mut self.memory));
            self.push(&message, spool)?;
        }
        if std::mem::take(&mut self.has_cr) {
            self.memory.push(b'\r');
        }
        if self.len == 0 {
            return Err(Refusal::new("CANNOT", "A message must have at least one byte"));
        }
        let is_full = spool.in_memory + self.memory.len() > APPEND_MEMORY_LEN;
        if self.spooled.is_some() || is_full {
            self.spill(spool)?;
            self.memory = Vec::new();
        }
        self.len = self.memory.len() as u64;
        spool.in_memory += self.memory.len();
        if let Some(start) = self.spooled {
            self.len = spool.len - start;
        }
        Ok(())
    }

    /// Returns the message, which has ended; nothing is written to the spool any more.
    fn finish(self, spool: &Spool) -> Answer<Complete> {
        let Self { flags, keywords, internal_date, memory, spooled, len, .. } = self;
        let rest = match (&spool.file, spooled) {
            (Some((file, path)), Some(start)) => {
                let whole = FileRest::whole(Arc::clone(file), path, start..start + len);
                Some(Arc::new(whole.map_err(refused)?) as Rest)
            }
            _ => None,
        };
        Ok(Complete { bytes: memory, rest, flags, keywords, internal_date })
    }
}

/// Returns the messages of a request, all of which have ended.
pub(crate) fn finish_all(received: Vec<Received>, spool: &Spool) -> Answer<Vec<Complete>> {
    received.into_iter().map(|message| message.finish(spool)).collect()
}

fn unavailable(dir: &Path, error: &std::io::Error) -> Refusal {
    Refusal::new("UNAVAILABLE", format!("{}: {error}", dir.display()))
}

/// Bytes of a message that are not in memory.
pub(crate) type Rest = Arc<dyn MessageRest + Send>;

/// A message to be stored.
pub(crate) struct Complete {
    pub(crate) bytes: Vec<u8>,
    pub(crate) rest: Option<Rest>,
    pub(crate) flags: FlagSet,
    pub(crate) keywords: Vec<Keyword>,
    pub(crate) internal_date: Option<InternalDate>,
}

impl Complete {
    fn as_new(&self) -> NewMessage<'_> {
        NewMessage {
            bytes: &self.bytes,
            rest: self.rest.as_deref().map(|rest| rest as &dyn MessageRest),
            internal_date: self.internal_date,
            flags: self.flags,
            keywords: self.keywords.clone(),
            ..NewMessage::default()
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64 + self.rest.as_ref().map_or(0, |rest| rest.size())
    }
}

/// The messages of one request, which are stored all or none.
struct AppendJob {
    messages: Vec<Complete>,
    /// `true` if it is not written together with others: a source may fail meanwhile.
    is_alone: bool,
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
            if !group.is_empty() && (len > APPEND_GROUP_LEN_MAX || job.is_alone) {
                break;
            }
            let is_alone = job.is_alone;
            group.extend(queue.pop_front());
            if is_alone {
                break;
            }
        }
        group
    }

    fn remove(&self, job: &Arc<AppendJob>) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.retain(|other| !Arc::ptr_eq(other, job));
    }
}

/// The queues of all mailboxes of a user, by the identity of the mailbox and its path: one that was
/// renamed has other handles, and another may be at its former path.
pub(crate) struct AppendQueues {
    queues: Mutex<HashMap<(u128, PathBuf), Arc<AppendQueue>>>,
    progress: ProgressFn,
}

impl AppendQueues {
    pub(crate) fn new(progress: ProgressFn) -> Self {
        Self { queues: Mutex::default(), progress }
    }

    /// Stores messages at the end of a mailbox, all or none; durable when this returns. Requests of
    /// other sessions that wait for the mailbox are written in the same change. If no session has
    /// selected the mailbox, its open view need not have them.
    pub(crate) fn append(
        &self,
        target: &SharedMailbox,
        (messages, is_alone): (Vec<Complete>, bool),
        is_selected: bool,
        cancel: &Cancel,
    ) -> Answer<Appended> {
        let job = Arc::new(AppendJob { messages, is_alone, outcome: Mutex::default() });
        let queue = {
            let view = target.view();
            let mut all = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry((view.id(), view.path().to_owned())).or_default())
        };
        queue.push(&job);
        let updated = target.update(cancel, |mailbox, stop| {
            // Another session may have written it while this one waited.
            // Jobs before this one may be in groups of their own.
            while job.outcome().is_none() {
                let group = queue.take_group();
                if group.is_empty() {
                    break;
                }
                // The end of this session must not refuse the messages of others.
                let is_own = group.iter().all(|other| Arc::ptr_eq(other, &job));
                let stop = is_own.then(|| Arc::clone(stop));
                let progress = Some(Arc::clone(&self.progress));
                // Where nobody looks, the messages wait for the next look.
                let appends_unseen = !is_selected;
                let options =
                    ChangeOptions { stop, progress, appends_unseen, ..Default::default() };
                write_group(mailbox, &group, &options);
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
    match written {
        Ok(changed) => {
            let uidvalidity = changed.appended_under.unwrap_or(mailbox.status().uidvalidity);
            let mut uids = changed.appended.into_iter();
            for job in group {
                let uids = uids.by_ref().take(job.messages.len()).collect();
                job.complete(Ok(Appended { uidvalidity, uids }));
            }
        }
        // One message that cannot be stored must not refuse those of others. Nothing was written.
        Err(
            barid::Error::Keyword { .. }
            | barid::Error::Mailbox(
                barid::FormatError::MessageTooLarge { .. } | barid::FormatError::Unsupported { .. },
            ),
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
        barid::Error::Mailbox(barid::FormatError::Unsupported { .. }) => {
            Refusal::new("CANNOT", text)
        }
        _ => Refusal::new("UNAVAILABLE", text),
    }
}

#[cfg(test)]
mod tests {
    use barid::vfs::MemVfs;
    use barid::{CreateOptions, Mailbox, MailboxSpec, OpenOptions};

    use super::*;

    fn job(texts: &[&str]) -> Arc<AppendJob> {
        let complete = |text: &&str| Complete {
            bytes: text.as_bytes().to_vec(),
            rest: None,
            flags: FlagSet::EMPTY,
            keywords: Vec::new(),
            internal_date: None,
        };
        let messages = texts.iter().map(complete).collect();
        Arc::new(AppendJob { messages, is_alone: false, outcome: Mutex::default() })
    }

    #[test]
    fn a_message_that_the_format_cannot_store_refuses_its_request_only() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        vfs.create_dir_all(Path::new("/mail"), 0o700).unwrap();
        let spec = MailboxSpec::parse("mbx:/mail/box");
        let options = OpenOptions::new(None, "/state".into());
        let format = spec.format.as_ref().unwrap().format();
        let create = CreateOptions::default();
        barid::create(&vfs, &spec.path, format, &create, &options.state_dir).unwrap();
        let mut mailbox = Mailbox::open_in(vfs, &spec, &options).unwrap();
        // An mbx cannot store an empty message.
        let group = [job(&["a: 1\n\n"]), job(&["b: 2\n\n", ""]), job(&["c: 3\n\n"])];
        write_group(&mut mailbox, &group, &ChangeOptions::default());
        let [first, refused, last] = group.each_ref().map(|job| job.outcome().unwrap());
        assert_eq!((first.unwrap().uids.len(), last.unwrap().uids.len()), (1, 1));
        assert_eq!(refused.unwrap_err().code, Some("CANNOT"));
        assert_eq!(mailbox.len(), 2);
    }
}

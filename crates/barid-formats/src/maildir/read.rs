//! Reading new messages: `open`, `fstat`, `read`, `close` each, in chunks, from as many threads as
//! are allowed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use barid_mailbox::{
    ChangeProgress, DefectKind, Error, Location, MailboxDefect, MessageName, Result, ScanSink,
    ScannedMessage, Sinks, sink_error,
};
use barid_state::MessageKey;
use barid_types::{InternalDate, Uid};
use barid_vfs::{FileType, Metadata, OpenOptions, Timestamp, Workers};

use super::Dirs;
use super::keywords::LetterSlots;
use super::layout::{CHUNK_MESSAGES, DEFECTS_MAX, HEAD_LEN, HEADER_LEN_MAX};
use super::list::{MaildirListing, Sighting};
use super::name;
use super::relist::{Relisted, RenameSearch};
use super::unread::Unread;
use crate::files::{blank_line, header_end, is_ours, is_unfinished};

/// A message to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaildirRead {
    /// Its UID.
    pub(super) uid: Uid,
    /// Index of its sighting.
    pub(super) sighting: u32,
}

/// Result of reading, besides the messages.
#[derive(Debug, Default)]
pub(super) struct MaildirReadTotals {
    /// Number of messages passed to sinks.
    pub(super) messages: u64,
    /// Bytes read.
    pub(super) bytes: u64,
    /// Bytes of the messages.
    pub(super) size_bytes: u64,
    /// Keys of messages that were not read: they are gone, or the next scan looks for them.
    pub(super) lost: Vec<u64>,
    /// Number of messages that may be there under a name that no listing showed.
    pub(super) unsure: u64,
    /// Number of messages that exist only in part: other programs are writing them.
    pub(super) arriving: u64,
    /// Messages that could not be read.
    pub(super) unread: Unread,
    /// Defects found.
    pub(super) defects: Vec<MailboxDefect>,
}

impl MaildirReadTotals {
    /// Counts a message that was passed to a sink.
    fn count(&mut self, metadata: &Metadata) {
        self.messages += 1;
        self.size_bytes += metadata.size;
    }

    fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.size_bytes += other.size_bytes;
        self.lost.extend(other.lost);
        self.unsure += other.unsure;
        self.arriving += other.arriving;
        self.unread.append(other.unread);
        self.defects.extend(other.defects);
        self.defects.truncate(DEFECTS_MAX);
    }
}

/// Data shared by all threads.
pub(super) struct Reading<'a> {
    pub(super) dirs: &'a Dirs,
    pub(super) listing: &'a MaildirListing,
    pub(super) jobs: &'a [MaildirRead],
    pub(super) slots: &'a LetterSlots,
    pub(super) sinks: &'a dyn Sinks,
    pub(super) progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
    pub(super) threads: usize,
    /// Time at which the folders were listed.
    pub(super) now: Timestamp,
    /// `true` to pass the messages as they are listed, without reading them.
    pub(super) names_only: bool,
    /// Once `true`, no further chunk is read.
    pub(super) stop: Option<&'a AtomicBool>,
}

impl Reading<'_> {
    /// Reads all messages while `beside` runs. Both are done when this returns.
    pub(super) fn run<T: Send>(
        &self,
        beside: Option<impl FnOnce() -> Result<T> + Send>,
    ) -> Result<(MaildirReadTotals, Option<T>)> {
        let shared = SharedReads::default();
        let chunks = self.jobs.len().div_ceil(CHUNK_MESSAGES);
        let helpers = Workers::take(self.threads.min(chunks).saturating_sub(1));
        let (mut totals, done) = std::thread::scope(|scope| {
            let beside = beside.map(|work| scope.spawn(work));
            for _ in 0..helpers.count() {
                scope.spawn(|| self.work(&shared));
            }
            let totals = self.work(&shared);
            (totals, beside.map(join))
        });
        if let Some(error) = take(&shared.error) {
            return Err(error);
        }
        totals.add(lock(&shared.totals, std::mem::take));
        Ok((totals, done.transpose()?))
    }

    /// Processes chunks until there are no more. Returns the first worker's totals, which are those
    /// of the calling thread; helpers leave theirs in `shared`.
    fn work(&self, shared: &SharedReads) -> MaildirReadTotals {
        let mut reader = FileReader {
            reading: self,
            shared,
            head: vec![0; HEAD_LEN],
            long: Vec::new(),
            totals: MaildirReadTotals::default(),
        };
        while !shared.stop.load(Ordering::Relaxed) {
            let chunk = shared.next_chunk.fetch_add(1, Ordering::Relaxed);
            let from = chunk * CHUNK_MESSAGES;
            if from >= self.jobs.len() {
                break;
            }
            let jobs = &self.jobs[from..self.jobs.len().min(from + CHUNK_MESSAGES)];
            let read = self.check_stop().and_then(|()| reader.chunk(chunk as u32, jobs));
            if let Err(error) = read {
                shared.stop.store(true, Ordering::Relaxed);
                lock(&shared.error, |slot| slot.get_or_insert(error).to_string());
                break;
            }
            let done = shared.done.fetch_add(jobs.len(), Ordering::Relaxed) + jobs.len();
            if let Some(progress) = self.progress {
                progress(done as u64, self.jobs.len() as u64);
            }
        }
        lock(&shared.totals, |totals| totals.add(reader.totals));
        MaildirReadTotals::default()
    }

    /// Returns the data of a message that its name contains.
    fn message<'n>(
        &self,
        job: &MaildirRead,
        sighting: &Sighting,
        name: &'n [u8],
        in_new: bool,
    ) -> ScannedMessage<'n> {
        let letters = name::letters(name);
        let mut flags = letters.flags;
        if in_new {
            flags = flags.with(barid_types::Flag::Recent);
        }
        ScannedMessage {
            uid: Some(job.uid),
            location: Location::from(MessageName { name, in_new, mark: 0 }),
            header: &[],
            size: 0,
            rfc822_size: None,
            internal_date: InternalDate { unix_seconds: 0, zone_minutes: 0 },
            flags,
            keywords: self.slots.mask(letters),
            key: MessageKey(sighting.key),
        }
    }

    fn check_stop(&self) -> Result<()> {
        let steps = ChangeProgress::stopped_by(self.stop);
        self.dirs.paths[1].parent().map_or(Ok(()), |path| steps.check(path))
    }
}

fn join<T>(handle: std::thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    match handle.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[derive(Default)]
struct SharedReads {
    next_chunk: AtomicUsize,
    done: AtomicUsize,
    stop: AtomicBool,
    error: Mutex<Option<Error>>,
    totals: Mutex<MaildirReadTotals>,
    relisted: Mutex<Relisted>,
}

fn lock<T, R>(mutex: &Mutex<T>, work: impl FnOnce(&mut T) -> R) -> R {
    work(&mut mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

fn take<T>(mutex: &Mutex<Option<T>>) -> Option<T> {
    lock(mutex, Option::take)
}

/// One thread's buffers.
struct FileReader<'a> {
    reading: &'a Reading<'a>,
    shared: &'a SharedReads,
    head: Vec<u8>,
    long: Vec<u8>,
    totals: MaildirReadTotals,
}

impl FileReader<'_> {
    fn chunk(&mut self, chunk: u32, jobs: &[MaildirRead]) -> Result<()> {
        let mut sink = self.reading.sinks.sink(chunk);
        for job in jobs {
            self.message(job, sink.as_mut())?;
        }
        sink_error(sink.finish())
    }

    fn message(&mut self, job: &MaildirRead, sink: &mut dyn ScanSink) -> Result<()> {
        let reading = self.reading;
        let sighting = &reading.listing.sightings[job.sighting as usize];
        let name = reading.listing.names.get(sighting.name);
        if reading.names_only {
            let message = reading.message(job, sighting, name, sighting.in_new);
            return sink_error(sink.message(&message));
        }
        if self.read(job, sighting, name, sighting.in_new, sink)? {
            return Ok(());
        }
        let mut stale = name.to_vec();
        loop {
            match self.find_renamed(sighting, &stale)? {
                RenameSearch::Renamed(name, in_new) => {
                    if self.read(job, sighting, &name, in_new, sink)? {
                        return Ok(());
                    }
                    stale = name;
                }
                RenameSearch::Gone => break,
                RenameSearch::Unsure => {
                    self.totals.unsure += 1;
                    break;
                }
            }
        }
        self.totals.lost.push(sighting.key);
        Ok(())
    }

    /// Reads one file; returns `false` if there is no file of that name.
    fn read(
        &mut self,
        job: &MaildirRead,
        sighting: &Sighting,
        name: &[u8],
        in_new: bool,
        sink: &mut dyn ScanSink,
    ) -> Result<bool> {
        let Some((metadata, len)) = self.read_head(job, name, in_new)? else { return Ok(false) };
        self.totals.bytes += len as u64;
        let whole = len as u64 == metadata.size;
        let (end, owned) = match header_end(&self.head[..len]) {
            Some(found) => (Some(found.len), found.owned_len),
            None => (None, 0),
        };
        let mut in_long = false;
        let header_len = match end {
            Some(end) => end,
            None if len == 0 || whole || metadata.size <= len as u64 => len,
            None => {
                in_long = true;
                let Some(len) = self.read_long(job, name, in_new, &metadata, len)? else {
                    return Ok(false);
                };
                len
            }
        };
        let header = if in_long { &self.long[..header_len] } else { &self.head[..header_len] };
        if is_unfinished(header, &metadata, self.reading.now) {
            self.totals.lost.push(sighting.key);
            self.totals.arriving += 1;
            return Ok(true);
        }
        let rfc822_size = match whole {
            true => Some(barid_message::crlf_size(&self.head[..len]).saturating_sub(owned)),
            false => None,
        };
        let seconds = metadata.modified.unix_seconds();
        let message = ScannedMessage {
            location: Location::from(MessageName { name, in_new, mark: name::mark(&metadata) }),
            header,
            size: metadata.size,
            rfc822_size,
            internal_date: InternalDate { unix_seconds: seconds, zone_minutes: 0 },
            ..self.reading.message(job, sighting, name, in_new)
        };
        sink_error(sink.message(&message))?;
        self.totals.count(&metadata);
        if self.long.capacity() > 64 * HEAD_LEN {
            self.long = Vec::new();
        }
        Ok(true)
    }

    /// Reads the beginning of a file; returns `None` if there is no file of that name.
    fn read_head(
        &mut self,
        job: &MaildirRead,
        name: &[u8],
        in_new: bool,
    ) -> Result<Option<(Metadata, usize)>> {
        let at = usize::from(!in_new);
        let dir = &self.reading.dirs.handles[at];
        match dir.read_head(name, &mut self.head) {
            Ok(read) => Ok(Some(read)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) if is_ours(&source) => {
                let path = super::path_of(&self.reading.dirs.paths[at], name);
                Err(Error::at(&path)(source))
            }
            Err(source) => match dir.metadata(name) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                metadata => {
                    self.totals.unread.add(job.uid, in_new, name, &source);
                    Ok(Some((metadata.unwrap_or(UNKNOWN), 0)))
                }
            },
        }
    }

    /// Reads a header that is longer than the first read; returns its length in `long`, or `None`
    /// if there is no file of that name any more.
    fn read_long(
        &mut self,
        job: &MaildirRead,
        name: &[u8],
        in_new: bool,
        metadata: &Metadata,
        len: usize,
    ) -> Result<Option<usize>> {
        let at = usize::from(!in_new);
        let dir = &self.reading.dirs.handles[at];
        let path = || super::path_of(&self.reading.dirs.paths[at], name);
        self.long.clear();
        self.long.extend_from_slice(&self.head[..len]);
        let file = match dir.open(name, OpenOptions::READ) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) if is_ours(&source) => return Err(Error::at(&path())(source)),
            Err(source) => {
                self.totals.unread.add(job.uid, in_new, name, &source);
                return Ok(Some(len));
            }
        };
        let whole = usize::try_from(metadata.size).unwrap_or(usize::MAX).min(HEADER_LEN_MAX);
        while self.long.len() < whole {
            let from = self.long.len();
            let to = whole.min(from * 2);
            self.long.resize(to, 0);
            let more = match file.read_full_at(&mut self.long[from..], from as u64) {
                Ok(more) => more,
                Err(source) if is_ours(&source) => return Err(Error::at(&path())(source)),
                Err(source) => {
                    self.totals.unread.add(job.uid, in_new, name, &source);
                    0
                }
            };
            self.totals.bytes += more as u64;
            self.long.truncate(from + more);
            // The blank line may straddle the reads.
            if let Some(found) = blank_line(&self.long, from.saturating_sub(3)) {
                return Ok(Some(found));
            }
            if more == 0 {
                return Ok(Some(self.long.len()));
            }
        }
        if self.long.len() == HEADER_LEN_MAX {
            self.defect(
                job,
                format!("the header is longer than {HEADER_LEN_MAX} bytes and is cut"),
            );
        }
        Ok(Some(self.long.len()))
    }

    fn defect(&mut self, job: &MaildirRead, what: String) {
        if self.totals.defects.len() < DEFECTS_MAX {
            let (kind, uid) = (DefectKind::Structure, Some(job.uid));
            self.totals.defects.push(MailboxDefect { kind, offset: 0, uid, what });
        }
    }

    /// Looks for the file that was `stale` a moment ago.
    fn find_renamed(&self, sighting: &Sighting, stale: &[u8]) -> Result<RenameSearch> {
        // Of several files with one base name, only the next scan knows which is which.
        if self.reading.listing.twin_bases.contains(&sighting.name.hash) {
            return Ok(RenameSearch::Unsure);
        }
        let base = self.reading.listing.names.base(sighting.name);
        lock(&self.shared.relisted, |relisted| {
            relisted.find_renamed(self.reading.dirs, sighting.name.hash, base, stale)
        })
    }
}

/// Metadata of a file that cannot be read.
const UNKNOWN: Metadata = Metadata {
    file_type: FileType::File,
    inode: 0,
    device: 0,
    links: 1,
    size: 0,
    mode: 0,
    uid: 0,
    gid: 0,
    modified: Timestamp { unix_nanos: 0 },
    changed: Timestamp { unix_nanos: 0 },
    accessed: Timestamp { unix_nanos: 0 },
    allocated: 0,
};

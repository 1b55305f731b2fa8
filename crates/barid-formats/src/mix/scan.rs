//! Comparison of a mailbox with what is known of it.
//!
//! Unless the stamp shows that nothing changed, index and status are read completely, under their
//! locks: that takes a few milliseconds for 40,000 messages. Only new messages are read in the data
//! files. `.mixmeta` stays locked meanwhile, as by a session of c-client, so that nothing moves. If
//! messages have moved since the last scan, all are read again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use barid_mailbox::{
    ChangedMessage, DefectKind, Error, Known, MailboxDefect, Result, ScanContext, ScanReport,
    ScanStats, ScannedMessage, Sinks, sink_error,
};
use barid_state::MessageKey;
use barid_types::{Keyword, KeywordMask, KeywordTable, Uid, UidValidity};
use barid_vfs::{File, OpenOptions, on_threads};

use super::MixMailbox;
use super::layout::{CHUNK_LEN, HEADER_LEN_MAX, INDEX, MESSAGE_LINE_LEN_MAX, META, STATUS};
use super::lock::{Locks, MixLockPurpose};
use super::read::location;
use super::record::{MixMessage, parse_message_line, take_sequence};
use super::snapshot::Snapshot;
use crate::file_stamps::FileStamps;

/// State that a scan leaves for the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MixState {
    /// The sequences of index, status and meta.
    pub(super) seqs: [u32; 3],
    /// `true` if some messages could not be read.
    pub(super) has_unread: bool,
    pub(super) size_bytes: u64,
}

impl MixState {
    const LEN: usize = 3 * 4 + 1 + 8;

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::LEN);
        self.seqs.iter().for_each(|seq| bytes.extend_from_slice(&seq.to_le_bytes()));
        bytes.push(u8::from(self.has_unread));
        bytes.extend_from_slice(&self.size_bytes.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        let (numbers, rest) = bytes.as_chunks::<4>();
        let seqs = [0, 1, 2].map(|at: usize| u32::from_le_bytes(numbers[at]));
        let _ = rest;
        let mut size = [0; 8];
        size.copy_from_slice(&bytes[13..21]);
        let (has_unread, size_bytes) = (bytes[12] != 0, u64::from_le_bytes(size));
        Some(Self { seqs, has_unread, size_bytes })
    }

    /// Makes the state of a mailbox whose messages could all be read.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let seqs = [snapshot.index_seq, snapshot.status_seq, snapshot.meta.seq];
        let sizes = snapshot.messages.iter().map(|m| u64::from(m.size) + u64::from(m.line_len));
        Self { seqs, has_unread: false, size_bytes: sizes.sum() }
    }
}

/// Scans a mailbox.
pub(super) fn scan(
    mailbox: &MixMailbox,
    known: &dyn Known,
    sinks: &dyn Sinks,
    context: &mut ScanContext<'_>,
) -> Result<ScanReport> {
    if !context.full_check
        && let Some(report) = unchanged(mailbox, known)?
    {
        return Ok(report);
    }
    let locks = Locks::acquire(mailbox, MixLockPurpose::Read)?;
    let stamp = mailbox.file_stamps()?;
    let mut snapshot = Snapshot::load(mailbox, &locks)?;
    if mailbox.is_unfinished()? {
        snapshot.defect(0, None, "a change is unfinished".to_owned());
    }
    locks.release_records(mailbox)?;
    let reader = HeaderReader { mailbox, threads: context.thread_count() };
    let mut words = KeywordSlots::new(known.keywords().clone(), &mut snapshot);
    let compared = compare(&reader, known, &snapshot, &words, context.full_check)?;
    let is_reset = compared.is_none();
    if is_reset {
        words = KeywordSlots::new(KeywordTable::default(), &mut snapshot);
        sinks.expect_whole();
    }
    let compared = compared.unwrap_or_else(|| MixDifferences {
        new: (0..snapshot.messages.len() as u32).collect(),
        ..MixDifferences::default()
    });
    let totals = reader.read(&compared.new, &snapshot, &words, sinks, context)?;
    let mut defects = std::mem::take(&mut snapshot.defects);
    let state = MixState { has_unread: !totals.unread.is_empty(), ..MixState::of(&snapshot) };
    defects.extend(totals.unread);
    defects.truncate(super::layout::DEFECTS_MAX);
    Ok(ScanReport {
        stamp: stamp.into(),
        state: state.to_bytes(),
        uidvalidity: uidvalidity(&snapshot),
        uidnext: uidnext(snapshot.meta.uid_last),
        keywords: words.table,
        reset: is_reset,
        expunged: compared.expunged,
        changed: compared.changed,
        new_uids: Vec::new(),
        tail_verified: false,
        size_bytes: state.size_bytes,
        defects,
        stats: ScanStats {
            messages_read: compared.new.len() as u64,
            bytes_read: totals.bytes,
            dirs_listed: 0,
        },
    })
}

fn uidvalidity(snapshot: &Snapshot) -> UidValidity {
    UidValidity::new(snapshot.meta.uidvalidity).unwrap_or(UidValidity::MIN)
}

fn uidnext(last: u32) -> Uid {
    Uid::new(last.saturating_add(1)).unwrap_or(Uid::MIN)
}

/// Returns the report of an unchanged mailbox, if it is unchanged: its stamp is the same, and if
/// that proves nothing, so are the sequences, which every change raises.
fn unchanged(mailbox: &MixMailbox, known: &dyn Known) -> Result<Option<ScanReport>> {
    let state = MixState::from_bytes(known.state()).filter(|state| !state.has_unread);
    let (Some(before), Some(state)) = (FileStamps::of_known(known), state) else { return Ok(None) };
    let (Some(uidvalidity), Some(uidnext)) = (known.uidvalidity(), known.uidnext()) else {
        return Ok(None);
    };
    let stamp = mailbox.file_stamps()?;
    if !stamp.same_files(&before) {
        return Ok(None);
    }
    if !before.are_settled() && sequences(mailbox)? != Some(state.seqs) {
        return Ok(None);
    }
    Ok(Some(ScanReport {
        stamp: stamp.into(),
        state: known.state().to_vec(),
        uidvalidity,
        uidnext,
        keywords: known.keywords().clone(),
        reset: false,
        expunged: Vec::new(),
        changed: Vec::new(),
        new_uids: Vec::new(),
        tail_verified: false,
        size_bytes: state.size_bytes,
        defects: Vec::new(),
        stats: ScanStats::default(),
    }))
}

/// Returns the sequences of index, status and meta; `None` if one cannot be read.
fn sequences(mailbox: &MixMailbox) -> Result<Option<[u32; 3]>> {
    let mut seqs = [0; 3];
    for (name, seq) in [INDEX, STATUS, META].into_iter().zip(&mut seqs) {
        let path = mailbox.path.join(name);
        let mut head = [0; 16];
        let read = mailbox
            .vfs
            .open(&path, OpenOptions::READ)
            .and_then(|file| file.read_full_at(&mut head, 0));
        let Ok(len) = read else { return Ok(None) };
        let Some((found, _)) = take_sequence(&head[..len]) else { return Ok(None) };
        *seq = found;
    }
    Ok(Some(seqs))
}

/// The keyword slot of each bit of a status record.
pub(super) struct KeywordSlots {
    pub(super) table: KeywordTable,
    slots: Vec<Option<u32>>,
}

impl KeywordSlots {
    pub(super) fn new(mut table: KeywordTable, snapshot: &mut Snapshot) -> Self {
        let words = std::mem::take(&mut snapshot.meta.keywords);
        let slot = |word: &Vec<u8>| {
            let keyword = std::str::from_utf8(word).ok().and_then(Keyword::new);
            let slot = keyword.and_then(|keyword| table.intern(&keyword).ok());
            if slot.is_none() {
                let word = String::from_utf8_lossy(word);
                snapshot.defect(0, None, format!("{META}: {word:?} is not a valid keyword"));
            }
            slot
        };
        let slots = words.iter().map(slot).collect();
        snapshot.meta.keywords = words;
        Self { table, slots }
    }

    pub(super) fn mask(&self, bits: u32) -> KeywordMask {
        let slots = self.slots.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
        let slots = slots.filter_map(|(_, slot)| *slot);
        KeywordMask(slots.fold(0, |mask, slot| mask | 1 << slot))
    }
}

/// Differences between a mailbox and what is known of it.
#[derive(Default)]
struct MixDifferences {
    expunged: Vec<Uid>,
    changed: Vec<ChangedMessage>,
    /// Indexes of the new messages.
    new: Vec<u32>,
}

/// Compares; returns `None` if nothing known is valid any more.
fn compare(
    reader: &HeaderReader<'_>,
    known: &dyn Known,
    snapshot: &Snapshot,
    words: &KeywordSlots,
    full_check: bool,
) -> Result<Option<MixDifferences>> {
    let state = MixState::from_bytes(known.state());
    let is_usable = known.stamp().is_some()
        && known.uidvalidity() == Some(uidvalidity(snapshot))
        && state.is_some_and(|state| !state.has_unread);
    if !is_usable {
        return Ok(None);
    }
    let mut compared = MixDifferences::default();
    let (mut at, mut holds) = (0, true);
    let mut source = DataFileHeaders::default();
    let mut last_known = 0;
    sink_error(known.visit(0, &mut |old| {
        let uid = old.uid.get();
        last_known = uid;
        // A new message cannot come before the known ones.
        let message = snapshot.messages.get(at);
        match message.map(|message| message.uid.cmp(&uid)) {
            Some(std::cmp::Ordering::Less) => holds = false,
            Some(std::cmp::Ordering::Greater) | None => compared.expunged.push(old.uid),
            Some(std::cmp::Ordering::Equal) => {
                let message = &snapshot.messages[at];
                at += 1;
                holds = location(message) == old.location
                    && (!full_check || source.key(reader.mailbox, message) == Some(old.key));
                let now = (message.flag_set(), words.mask(message.keywords));
                if now != (old.flags, old.keywords) {
                    let (flags, keywords) = now;
                    let uid = old.uid;
                    compared.changed.push(ChangedMessage { uid, flags, keywords, file: None });
                }
            }
        }
        holds
    }))?;
    let is_after = |message: &MixMessage| message.uid > last_known;
    if !holds || !snapshot.messages[at..].iter().all(is_after) {
        return Ok(None);
    }
    compared.new = (at as u32..snapshot.messages.len() as u32).collect();
    Ok(Some(compared))
}

/// Reads headers in data files, the last of which stays open.
#[derive(Default)]
struct DataFileHeaders {
    file: Option<(u32, Box<dyn File>, u64)>,
    buffer: Vec<u8>,
}

impl DataFileHeaders {
    /// Returns the header of a message, up to the limit; otherwise the reason why it cannot be
    /// read.
    fn header(
        &mut self,
        mailbox: &MixMailbox,
        message: &MixMessage,
    ) -> std::result::Result<&[u8], String> {
        if self.file.as_ref().is_none_or(|(number, ..)| *number != message.file) {
            self.file = None;
            let path = mailbox.data_path(message.file);
            let open = || {
                let file = mailbox.vfs.open(&path, OpenOptions::READ)?;
                let size = file.metadata()?.size;
                Ok((message.file, file, size))
            };
            let opened = open().map_err(|error: std::io::Error| error.to_string());
            self.file = Some(opened.map_err(|error| format!("{}: {error}", path.display()))?);
        }
        let Some((_, file, size)) = &self.file else { return Err(String::new()) };
        let name = super::data::data_name(message.file);
        if message.end() > *size {
            return Err(format!("{name} ends before the message does"));
        }
        let header_len = message.header_len.min(message.size) as usize;
        let line_len = message.line_len as usize;
        if line_len > MESSAGE_LINE_LEN_MAX {
            return Err(format!("{name}: the line of a message is too long"));
        }
        let len = line_len + header_len.min(HEADER_LEN_MAX);
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
        let buffer = &mut self.buffer[..len];
        let read = file.read_exact_at(buffer, u64::from(message.pos));
        read.map_err(|error| format!("{name}: {error}"))?;
        let says = |line: &super::record::MessageLine| {
            line.uid == message.uid && line.len == message.line_len && line.size == message.size
        };
        match parse_message_line(buffer).filter(says) {
            Some(_) => Ok(&self.buffer[line_len..len]),
            None => Err(format!("{name}: the message is not at the offset in the index")),
        }
    }

    fn key(&mut self, mailbox: &MixMailbox, message: &MixMessage) -> Option<MessageKey> {
        self.header(mailbox, message)
            .ok()
            .map(|header| MessageKey(barid_message::header_key(header)))
    }
}

/// Result of reading.
#[derive(Default)]
struct HeadersRead {
    bytes: u64,
    unread: Vec<MailboxDefect>,
}

/// Reads the headers of new messages.
struct HeaderReader<'a> {
    mailbox: &'a MixMailbox,
    threads: usize,
}

impl HeaderReader<'_> {
    fn read(
        &self,
        new: &[u32],
        snapshot: &Snapshot,
        words: &KeywordSlots,
        sinks: &dyn Sinks,
        context: &ScanContext<'_>,
    ) -> Result<HeadersRead> {
        let chunks = new.len().div_ceil(CHUNK_LEN);
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let outcome: Mutex<(HeadersRead, Option<Error>)> = Mutex::default();
        let progress = context.progress;
        let work = || {
            let mut source = DataFileHeaders::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(chunk) = new.chunks(CHUNK_LEN).nth(number) else { break };
                let read = self.chunk(number as u32, chunk, snapshot, words, sinks, &mut source);
                let mut outcome = outcome.lock().expect("because no holder panics");
                match read {
                    Ok(totals) => {
                        outcome.0.bytes += totals.bytes;
                        outcome.0.unread.extend(totals.unread);
                    }
                    Err(error) => {
                        outcome.1.get_or_insert(error);
                        next.store(chunks, Ordering::Relaxed);
                        break;
                    }
                }
                drop(outcome);
                let done = done.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
                if let Some(progress) = progress {
                    progress(done as u64, new.len() as u64);
                }
            }
        };
        on_threads(self.threads.min(chunks), work);
        let (mut totals, error) = outcome.into_inner().expect("because no holder panics");
        totals.unread.sort_by_key(|defect| defect.uid);
        error.map_or(Ok(totals), Err)
    }

    fn chunk(
        &self,
        number: u32,
        places: &[u32],
        snapshot: &Snapshot,
        words: &KeywordSlots,
        sinks: &dyn Sinks,
        source: &mut DataFileHeaders,
    ) -> Result<HeadersRead> {
        let mut totals = HeadersRead::default();
        let mut sink = sinks.sink(number);
        for place in places {
            let message = &snapshot.messages[*place as usize];
            let header = match source.header(self.mailbox, message) {
                Ok(header) => header,
                Err(what) => {
                    totals.unread.push(MailboxDefect {
                        kind: DefectKind::Unreadable,
                        offset: u64::from(message.pos),
                        uid: Uid::new(message.uid),
                        what,
                    });
                    &[]
                }
            };
            totals.bytes += header.len() as u64 + u64::from(message.line_len);
            let scanned = ScannedMessage {
                uid: Uid::new(message.uid),
                location: location(message),
                header,
                size: message.size.into(),
                rfc822_size: barid_message::rfc822_size_of_crlf(header, message.size.into()),
                internal_date: message.internal_date(),
                flags: message.flag_set(),
                keywords: words.mask(message.keywords),
                key: MessageKey(barid_message::header_key(header)),
            };
            sink_error(sink.message(&scanned))?;
        }
        sink_error(sink.finish())?;
        Ok(totals)
    }
}

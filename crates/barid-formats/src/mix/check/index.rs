//! Check of `.mixindex` against the data files.
//!
//! The index contains the offset of each message, and the line before the message contains its UID.
//! If they disagree, the one that agrees with its neighbours is right: messages follow each other
//! without a gap.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use barid_mailbox::{Error, Result};
use barid_vfs::{File, OpenOptions};

use super::super::MixMailbox;
use super::super::data::data_name;
use super::super::layout::{INDEX, MESSAGE_LINE_LEN_MAX};
use super::super::rebuild::DataFileSearch;
use super::super::record::{self, MixMessage, message_line, parse_message_line, take_sequence};
use super::super::snapshot::lines;
use super::damage;
use super::lines::Statuses;
use crate::check::{Damage, Diagnosis, Severity};

/// Lines before messages that are to be written, by data file: offset and bytes.
type FreshLines = BTreeMap<u32, Vec<(u64, Vec<u8>)>>;

/// Present and new state of the index.
pub(super) struct Indexed {
    pub(super) seq: u32,
    /// The messages, ascending by UID.
    pub(super) messages: Vec<MixMessage>,
    /// The highest UID that it has listed, of any message.
    pub(super) highest: u32,
    pub(super) is_damaged: bool,
    pub(super) lines: FreshLines,
}

/// Content of the data files.
struct Data<'a> {
    mailbox: &'a MixMailbox,
    /// The files, and their sizes.
    files: HashMap<u32, (Box<dyn File>, u64)>,
    /// The messages with intact lines, by file and offset.
    at: BTreeMap<(u32, u32), MixMessage>,
    by_uid: HashMap<u32, Vec<MixMessage>>,
}

impl Indexed {
    /// Examines the index.
    pub(super) fn look(
        mailbox: &MixMailbox,
        text: Option<&[u8]>,
        statuses: &Statuses,
        diagnosis: &mut Diagnosis,
    ) -> Result<Self> {
        let data = Data::read(mailbox)?;
        let (messages, lines) = (Vec::new(), BTreeMap::new());
        let mut indexed = Self { seq: 0, messages, highest: 0, is_damaged: false, lines };
        let (records, is_incomplete) = indexed.parse(mailbox, text, diagnosis);
        let records = indexed.in_order(mailbox, records, diagnosis);
        indexed.highest = records.last().map_or(0, |(_, message)| message.uid);
        let mut look =
            RecordCheck { data: &data, records: &records, indexed: &mut indexed, diagnosis };
        for at in 0..records.len() {
            look.record(at)?;
        }
        look.find_lost(statuses, is_incomplete);
        // Of two messages with one UID, the later one was written last.
        let place = |message: &MixMessage| Reverse((message.file, message.pos));
        indexed.messages.sort_unstable_by_key(|message| (message.uid, place(message)));
        indexed.messages.dedup_by_key(|message| message.uid);
        indexed.lines.values_mut().for_each(|lines| lines.sort_unstable());
        Ok(indexed)
    }

    /// Returns the readable records with their offsets, and `true` if some cannot be read.
    fn parse(
        &mut self,
        mailbox: &MixMailbox,
        text: Option<&[u8]>,
        diagnosis: &mut Diagnosis,
    ) -> (Vec<(u64, MixMessage)>, bool) {
        let mut records = Vec::new();
        let damage = |kind, severity| damage(&mailbox.path, INDEX, kind, severity);
        let Some(text) = text else {
            let what = ".mixindex, which locates the messages, is missing";
            let damage = damage("index-missing", Severity::Error).what(what);
            diagnosis
                .note(damage.repair("the index is rebuilt from the messages in the data files"));
            self.is_damaged = true;
            return (records, true);
        };
        let mut is_incomplete = false;
        let mut lines = lines(text).peekable();
        match take_sequence(text) {
            Some((seq, _)) => {
                self.seq = seq;
                lines.next();
            }
            None => {
                self.is_damaged = true;
                let what = "it does not begin with a sequence number";
                let damage = damage("index-sequence", Severity::Error).at(0).what(what);
                diagnosis.note(damage.repair("a number above all others is added"));
                is_incomplete |=
                    lines.next_if(|(_, line, _)| line.first() != Some(&b':')).is_some();
            }
        }
        for (offset, line, _) in lines {
            match record::parse_index(line) {
                Some(message) => records.push((offset, message)),
                None => {
                    self.is_damaged = true;
                    is_incomplete |= !line.is_empty();
                    let what = "a record cannot be read, so that c-client refuses the mailbox";
                    let damage = damage("index-record", Severity::Error).at(offset).what(what);
                    diagnosis.note(damage.repair("its message is searched for in the data files"));
                }
            }
        }
        (records, is_incomplete)
    }

    /// Returns the records by UID; of two with one UID the right one stays.
    fn in_order(
        &mut self,
        mailbox: &MixMailbox,
        mut records: Vec<(u64, MixMessage)>,
        diagnosis: &mut Diagnosis,
    ) -> Vec<(u64, MixMessage)> {
        let mut last = 0;
        for (offset, message) in &records {
            if message.uid <= last {
                self.is_damaged = true;
                let what = "the UID does not ascend";
                let damage = damage(&mailbox.path, INDEX, "index-order", Severity::Error);
                let damage = damage.at(*offset).of(message.uid).what(what);
                diagnosis.note(damage.repair("records are sorted, and repeated ones removed"));
            }
            last = message.uid;
        }
        records.sort_by_key(|(_, message)| (message.uid, message.file, message.pos));
        records.dedup_by(|a, b| a.1 == b.1);
        records
    }
}

impl<'a> Data<'a> {
    fn read(mailbox: &'a MixMailbox) -> Result<Self> {
        let mut data =
            Self { mailbox, files: HashMap::new(), at: BTreeMap::new(), by_uid: HashMap::new() };
        for number in mailbox.data_files()? {
            let path = mailbox.data_path(number);
            let file = mailbox.vfs.open(&path, OpenOptions::READ).map_err(Error::at(&path))?;
            let size = file.metadata().map_err(Error::at(&path))?.size;
            let search = DataFileSearch { file: &*file, size: size.min(u32::MAX.into()), number };
            let mut broken = None;
            let add = |message: MixMessage| {
                data.at.insert((number, message.pos), message);
                data.by_uid.entry(message.uid).or_default().push(message);
            };
            search.all(add, &mut broken).map_err(Error::at(&path))?;
            data.files.insert(number, (file, size));
        }
        Ok(data)
    }

    /// Returns the message of a UID that was written last: one before it with the same UID was
    /// abandoned.
    fn last_of(&self, uid: u32) -> Option<MixMessage> {
        let found = self.by_uid.get(&uid)?;
        found.iter().max_by_key(|message| (message.file, message.pos)).copied()
    }

    /// Returns `true` if a message begins at an offset, or the file ends there.
    fn is_edge(&self, file: u32, pos: u64) -> bool {
        let Some((found, size)) = self.files.get(&file) else { return false };
        let mut bytes = [0; MESSAGE_LINE_LEN_MAX];
        let len = found.read_full_at(&mut bytes, pos).unwrap_or(0);
        *size == pos || parse_message_line(&bytes[..len]).is_some()
    }

    /// Returns the message at a location: the search skips one that another message's line covers.
    fn message_at(&self, message: &MixMessage) -> Result<Option<MixMessage>> {
        if let Some(found) = self.at.get(&(message.file, message.pos)) {
            return Ok(Some(*found));
        }
        let line = self.line(message)?;
        let Some(line) = parse_message_line(&line) else { return Ok(None) };
        let Some((_, size)) = self.files.get(&message.file) else { return Ok(None) };
        let (uid, date, line_len) = (line.uid, line.date, line.len);
        let found = MixMessage { uid, date, size: line.size, line_len, ..*message };
        Ok(Some(found).filter(|found| found.end() <= *size))
    }

    /// Returns the length of the header of a message in bytes, for a message whose line is wrong.
    fn header_len(&self, message: &MixMessage) -> Result<u32> {
        let Some((file, size)) = self.files.get(&message.file) else { return Ok(0) };
        let search = DataFileSearch { file: &**file, size: *size, number: message.file };
        let text = u64::from(message.pos) + u64::from(message.line_len);
        let path = self.mailbox.data_path(message.file);
        search.header_len(text, message.size).map_err(Error::at(&path))
    }

    /// Returns the bytes at a location.
    fn line(&self, message: &MixMessage) -> Result<Vec<u8>> {
        let Some((file, _)) = self.files.get(&message.file) else { return Ok(Vec::new()) };
        let mut bytes = vec![0; MESSAGE_LINE_LEN_MAX];
        let path = self.mailbox.data_path(message.file);
        let read = file.read_full_at(&mut bytes, message.pos.into());
        bytes.truncate(read.map_err(Error::at(&path))?);
        Ok(bytes)
    }
}

/// Examination of the records, one after the other.
struct RecordCheck<'a> {
    data: &'a Data<'a>,
    records: &'a [(u64, MixMessage)],
    indexed: &'a mut Indexed,
    diagnosis: &'a mut Diagnosis,
}

impl RecordCheck<'_> {
    fn of_index(&self, at: usize, kind: &'static str, severity: Severity) -> Damage {
        let (offset, message) = &self.records[at];
        let damage = damage(&self.data.mailbox.path, INDEX, kind, severity);
        damage.at(*offset).of(message.uid)
    }

    fn of_data(&self, message: &MixMessage, kind: &'static str, severity: Severity) -> Damage {
        let damage = damage(&self.data.mailbox.path, &data_name(message.file), kind, severity);
        damage.at(message.pos.into()).of(message.uid)
    }

    /// Adds a corrected message to the index.
    fn add_corrected(&mut self, message: MixMessage, damage: Damage) {
        self.diagnosis.note(damage);
        self.indexed.messages.push(message);
        self.indexed.is_damaged = true;
    }

    fn lost(&mut self, damage: Damage) {
        self.diagnosis.note(damage.repair("its record is removed from the index"));
        self.indexed.is_damaged = true;
    }

    fn has_twin(&self, at: usize) -> bool {
        let uid = self.records[at].1.uid;
        let is = |other: Option<&(u64, MixMessage)>| other.is_some_and(|other| other.1.uid == uid);
        is(at.checked_sub(1).and_then(|before| self.records.get(before)))
            || is(self.records.get(at + 1))
    }

    fn record(&mut self, at: usize) -> Result<()> {
        let message = self.records[at].1;
        let found = self.data.message_at(&message)?;
        match found {
            Some(found) if found.uid == message.uid => self.compare(at, &found)?,
            Some(found) if !self.names(found.uid) && !self.is_elsewhere(&message) => {
                let what =
                    format!("its UID is {}, but the message there has {}", message.uid, found.uid);
                let damage = self.of_index(at, "index-uid", Severity::Error).what(what);
                self.add_corrected(
                    found,
                    damage.repair("the UID of the message is written to the index"),
                );
            }
            _ => return self.misplaced(at),
        }
        Ok(())
    }

    fn names(&self, uid: u32) -> bool {
        self.records.binary_search_by_key(&uid, |(_, message)| message.uid).is_ok()
    }

    fn is_elsewhere(&self, message: &MixMessage) -> bool {
        self.data.by_uid.contains_key(&message.uid)
    }

    /// Compares a message that is where the index says.
    fn compare(&mut self, at: usize, found: &MixMessage) -> Result<()> {
        let message = self.records[at].1;
        if found.size != message.size || found.line_len != message.line_len {
            let is_index_right = found.line_len == message.line_len
                && self.data.is_edge(message.file, message.end())
                && !self.data.is_edge(found.file, found.end());
            if is_index_right {
                return self
                    .rewrite_line(message, "the size in the line before the message is wrong");
            }
            let what = format!(
                "the size in the index is {} bytes, but the message has {}",
                message.size, found.size
            );
            let damage = self.of_index(at, "index-size", Severity::Error).what(what);
            let found = MixMessage { date: message.date, ..*found };
            self.add_corrected(
                found,
                damage.repair("the size of the message is written to the index"),
            );
            return Ok(());
        }
        if found.header_len != message.header_len {
            let (old, new) = (message.header_len, found.header_len);
            let what = format!("the header has {new} bytes, but {old} in the index");
            let damage = self.of_index(at, "header-len", Severity::Warning).what(what);
            let found = MixMessage { date: message.date, ..*found };
            self.add_corrected(found, damage.repair("the right size is written to the index"));
            return Ok(());
        }
        if found.date != message.date {
            let what = "its internal date differs from that in the line before the message";
            let damage = self.of_index(at, "date", Severity::Note).what(what);
            self.diagnosis.note(damage);
        }
        self.indexed.messages.push(message);
        Ok(())
    }

    /// Rewrites the line before a message from the index.
    fn rewrite_line(&mut self, message: MixMessage, what: &str) -> Result<()> {
        let header_len = self.data.header_len(&message)?;
        self.indexed.is_damaged |= header_len != message.header_len;
        let message = MixMessage { header_len, ..message };
        let line = message_line(message.uid, &message.date, message.size);
        let damage = self.of_data(&message, "message-line", Severity::Error).what(what);
        self.diagnosis.note(damage.repair("the line is rewritten from the index"));
        let place = (u64::from(message.pos), line);
        self.indexed.lines.entry(message.file).or_default().push(place);
        self.indexed.messages.push(message);
        Ok(())
    }

    /// Handles a message that is not where the index says.
    fn misplaced(&mut self, at: usize) -> Result<()> {
        let message = self.records[at].1;
        if self.has_twin(at) {
            self.indexed.is_damaged = true;
            return Ok(());
        }
        if let Some(found) = self.data.last_of(message.uid) {
            let (pos, name) = (found.pos, data_name(found.file));
            let what = format!("the message is not there, but at {pos} of {name}");
            let damage = self.of_index(at, "index-place", Severity::Error).what(what);
            self.add_corrected(
                found,
                damage.repair("the place of the message is written to the index"),
            );
            return Ok(());
        }
        let Some((_, size)) = self.data.files.get(&message.file) else {
            let what = format!(
                "its data file {} is missing: the message is lost",
                data_name(message.file)
            );
            let damage = self.of_index(at, "data-missing", Severity::Error).what(what);
            self.lost(damage);
            return Ok(());
        };
        let size = *size;
        if message.end() > size {
            return self.cut(at, size);
        }
        let is_aligned = message.line_len == message_line(1, &message.date, 1).len() as u32
            && (self.begins(&message) || self.data.is_edge(message.file, message.end()));
        if is_aligned {
            return self.rewrite_line(message, "the line before the message cannot be read");
        }
        let what = "the message is not in any data file";
        let damage = self.of_index(at, "message-lost", Severity::Error).what(what);
        self.lost(damage);
        Ok(())
    }

    /// Returns `true` if a message ends where this one begins, or the file begins there.
    fn begins(&self, message: &MixMessage) -> bool {
        let ends_there = |(_, other): &(u64, MixMessage)| {
            other.file == message.file && other.end() == u64::from(message.pos)
        };
        message.pos == 0 || self.records.iter().any(ends_there)
    }

    /// Handles a message of which the data file lacks the end: the rest of it is kept.
    fn cut(&mut self, at: usize, size: u64) -> Result<()> {
        let message = self.records[at].1;
        let line = self.data.line(&message)?;
        let is_line = parse_message_line(&line)
            .is_some_and(|line| line.uid == message.uid && line.len == message.line_len);
        let text = u64::from(message.pos) + u64::from(message.line_len);
        let left = size.saturating_sub(text) as u32;
        if !is_line || left == 0 || message.line_len != 45 {
            let what = "its data file ends before the message begins: the message is lost";
            let damage = self.of_index(at, "data-short", Severity::Error).what(what);
            self.lost(damage);
            return Ok(());
        }
        let header_len = message.header_len.min(left);
        let short = MixMessage { size: left, header_len, ..message };
        let what = format!(
            "the file ends {} bytes before the end of its last message",
            message.end() - size
        );
        let damage = self.of_data(&message, "data-short", Severity::Error).what(what);
        self.diagnosis.note(damage.repair("the rest of the message is kept"));
        let place = (u64::from(message.pos), message_line(message.uid, &message.date, left));
        self.indexed.lines.entry(message.file).or_default().push(place);
        self.indexed.messages.push(short);
        self.indexed.is_damaged = true;
        Ok(())
    }

    /// Finds messages in data files that the index should list.
    fn find_lost(&mut self, statuses: &Statuses, is_incomplete: bool) {
        let mut known: Vec<u32> = self.indexed.messages.iter().map(|message| message.uid).collect();
        known.sort_unstable();
        let mut found: Vec<&MixMessage> = self.data.at.values().collect();
        found.sort_by_key(|message| (message.uid, Reverse((message.file, message.pos))));
        found.dedup_by_key(|message| message.uid);
        for message in found {
            let is_wanted =
                statuses.names(message.uid) || is_incomplete && statuses.may_be_there(message.uid);
            if is_wanted && known.binary_search(&message.uid).is_err() {
                let what = "the message is not in the index";
                let damage = self.of_data(message, "index-lost", Severity::Error).what(what);
                self.add_corrected(*message, damage.repair("the message is added to the index"));
            }
        }
    }
}

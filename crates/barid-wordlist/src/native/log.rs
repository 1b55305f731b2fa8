//! The log of a table: all later changes, one record each, made durable one by one.
//!
//! A record has the entries of tokens after the change, not the differences, so that only the
//! newest record with a token matters. A reader stops at the first record that is not whole, which
//! is a change that was never acknowledged. But if a whole record follows, or every sector of it
//! was written, it is damaged: it is skipped and reported.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::le::{u32_at, u64_at};
use barid_vfs::{File, OpenOptions, Vfs};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::header::{LOG_HEADER_LEN, LogHeader, NUMBER_MAX, NoHeader};
use super::table::FILE_MODE;
use crate::error::At;
use crate::limits::{DAMAGE_MAX, LOG_LEN_FULL};
use crate::{Counts, Damage, Error, Result, TokenEntry, varint};

/// The first bytes of a record.
const MAGIC: [u8; 4] = *b"BREC";
/// Length of a record's head: magic (4), number of tokens (4), length of the rest without the
/// checksum (8), sequence number (8), checksum (8).
const HEAD_LEN: usize = 32;
/// Length of the checksum at the end of a record, which covers everything before it.
const FOOT_LEN: usize = 8;
/// Bytes of a token in the directory of a record: a part of its hash, and its offset.
const PLACE_LEN: usize = 8;
/// Alignment of records, in bytes.
const ALIGN: usize = 8;
/// Bytes of a sector, which a disk writes as a unit.
const SECTOR_LEN: usize = 512;
/// Bits of the filter of the hashes that are looked up.
const FILTER_BITS: usize = 8192;

/// Description of the damage of a missing log, most often of a list that was copied without it.
const MISSING: &str = "the log with the newest changes is missing";

/// An open log, with its records up to the last refresh.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) path: PathBuf,
    /// The file; `None` if it is lost.
    file: Option<Arc<dyn File>>,
    header: LogHeader,
    /// The file from its start up to the last whole record.
    bytes: Vec<u8>,
    /// Offsets of the records' directories in `bytes`, and their numbers of tokens.
    records: Vec<(usize, usize)>,
    /// The sequence number of the last record.
    pub(crate) sequence: u64,
    /// The newest entry of every token, by its hash; built at the second lookup.
    index: Option<Index>,
    questions: u32,
    pub(crate) damage: Vec<Damage>,
}

fn hash(token: &[u8]) -> u32 {
    xxh3_64(token) as u32
}

impl Log {
    /// Creates a log, durable except for its name.
    pub(crate) fn create(vfs: &dyn Vfs, path: &Path, header: &LogHeader) -> Result<()> {
        let options = OpenOptions { truncate: true, ..OpenOptions::create(FILE_MODE) };
        let file = vfs.open(path, options).at(path)?;
        file.write_all_at(&header.encode(), 0).at(path)?;
        file.sync_all().at(path)
    }

    /// Opens and reads a log, which must have this header; `None` if it does not exist. Costs an
    /// `open`, an `fstat` and a read.
    pub(crate) fn open(vfs: &Arc<dyn Vfs>, path: &Path, header: LogHeader) -> Result<Option<Self>> {
        let file = match vfs.open(path, OpenOptions::READ) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.at(path)?,
        };
        let mut log = Self::lost(path, header);
        log.file = Some(Arc::from(file));
        log.damage.clear();
        log.follow()?;
        Ok(Some(log))
    }

    /// Returns a replacement for a missing log, without records.
    pub(crate) fn lost(path: &Path, header: LogHeader) -> Self {
        let damage = Damage { path: path.to_owned(), offset: 0, what: MISSING };
        Self {
            path: path.to_owned(),
            file: None,
            sequence: header.sequence,
            header,
            bytes: Vec::new(),
            records: Vec::new(),
            index: None,
            questions: 0,
            damage: vec![damage],
        }
    }

    /// Reads records that were appended since; returns `true` if there were any.
    pub(crate) fn follow(&mut self) -> Result<bool> {
        let Some(file) = self.file.clone() else { return Ok(false) };
        let size = file.metadata().at(&self.path)?.size;
        let mut old = self.bytes.len();
        // A record whose commit failed may have been cut off, and replaced by another one.
        if old > 0 {
            let mut foot = [0; FOOT_LEN];
            let len = file.read_full_at(&mut foot, (old - FOOT_LEN) as u64).at(&self.path)?;
            if len < FOOT_LEN || foot != self.bytes[old - FOOT_LEN..] {
                self.forget();
                old = 0;
            }
        }
        if size <= old as u64 && old > 0 {
            return Ok(false);
        }
        if size > 2 * LOG_LEN_FULL {
            return Err(Error::Damaged { path: self.path.clone(), what: "the log is too long" });
        }
        let mut tail = vec![0; size as usize - old];
        let len = file.read_full_at(&mut tail, old as u64).at(&self.path)?;
        self.bytes.extend_from_slice(&tail[..len]);
        if old == 0 {
            self.check_header()?;
        }
        let before = self.records.len();
        let end = self.parse(old.max(LOG_HEADER_LEN));
        self.bytes.truncate(end);
        Ok(self.records.len() > before)
    }

    fn forget(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.sequence = self.header.sequence;
        self.index = self.index.is_some().then(Index::default);
    }

    /// Checks the header against that of the table, which is used if the log's own is damaged.
    fn check_header(&mut self) -> Result<()> {
        let what = match LogHeader::decode(&self.bytes) {
            Ok(header) if header == self.header => return Ok(()),
            Err(NoHeader::Version(version)) => {
                return Err(Error::Version { path: self.path.clone(), version });
            }
            Ok(_) => "the log belongs to another list",
            Err(NoHeader::Damaged) => "the log's header",
        };
        self.damaged(0, what);
        if self.bytes.len() < LOG_HEADER_LEN {
            self.bytes.resize(LOG_HEADER_LEN, 0);
        }
        Ok(())
    }

    fn damaged(&mut self, at: usize, what: &'static str) {
        let damage = Damage { path: self.path.clone(), offset: at as u64, what };
        if !self.damage.contains(&damage) && self.damage.len() < DAMAGE_MAX {
            self.damage.push(damage);
        }
    }

    /// Parses the records from `at` on; returns the end of the last whole one.
    fn parse(&mut self, mut at: usize) -> usize {
        let salt = self.header.salt();
        loop {
            if let Some((end, sequence)) = whole(&self.bytes, at, salt)
                && sequence > self.sequence
            {
                self.sequence = sequence;
                let count = u32_at(&self.bytes, at + 4) as usize;
                self.records.push((at + HEAD_LEN, count));
                self.add_to_index(self.records.len() - 1);
                at = end;
                continue;
            }
            if at >= self.bytes.len() {
                return at.min(self.bytes.len());
            }
            let later = (at + ALIGN..self.bytes.len()).step_by(ALIGN).find(|later| {
                whole(&self.bytes, *later, salt)
                    .is_some_and(|(_, sequence)| sequence > self.sequence)
            });
            if later.is_some() || !is_torn(&self.bytes, at, salt) {
                self.damaged(at, "changes");
            }
            match later {
                Some(later) => at = later,
                None => return at,
            }
        }
    }

    /// Returns the offset at which the last whole record ends, in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Looks up tokens; leaves `found` unchanged for those that no record has.
    pub(crate) fn find(&mut self, tokens: &[&[u8]], found: &mut [Option<Counts>]) {
        if self.records.is_empty() {
            return;
        }
        self.questions = self.questions.saturating_add(1);
        if self.questions == 2 {
            self.index = Some(Index::default());
            (0..self.records.len()).for_each(|record| self.add_to_index(record));
        }
        if let Some(index) = &self.index {
            for (token, found) in tokens.iter().zip(found) {
                let at = index.get(hash(token), |at| text_at(&self.bytes, at) == Some(*token));
                *found = at.and_then(|at| entry_at(&self.bytes, at)).map(TokenEntry::counts);
            }
            return;
        }
        self.find_by_filter(tokens, found);
    }

    /// Looks up tokens in one pass over all directories, from old to new.
    fn find_by_filter(&self, tokens: &[&[u8]], found: &mut [Option<Counts>]) {
        let mut filter = [0_u64; FILTER_BITS / 64];
        let mut wanted: HashMap<u32, Vec<usize>> = HashMap::with_capacity(tokens.len());
        for (nth, token) in tokens.iter().enumerate() {
            let hash = hash(token);
            filter[hash as usize % FILTER_BITS / 64] |= 1 << (hash % 64);
            wanted.entry(hash).or_default().push(nth);
        }
        for &(start, count) in &self.records {
            let directory = &self.bytes[start..start + count * PLACE_LEN];
            for place in directory.chunks_exact(PLACE_LEN) {
                let hash = u32_at(place, 0);
                if filter[hash as usize % FILTER_BITS / 64] & 1 << (hash % 64) == 0 {
                    continue;
                }
                let at = start + u32_at(place, 4) as usize;
                for nth in wanted.get(&hash).into_iter().flatten() {
                    if text_at(&self.bytes, at) == Some(tokens[*nth]) {
                        found[*nth] = entry_at(&self.bytes, at).map(TokenEntry::counts);
                    }
                }
            }
        }
    }

    fn add_to_index(&mut self, record: usize) {
        let Some(index) = &mut self.index else { return };
        let (start, count) = self.records[record];
        for nth in 0..count {
            let place = start + nth * PLACE_LEN;
            let at = start + u32_at(&self.bytes, place + 4) as usize;
            let text = text_at(&self.bytes, at);
            let is_same = |other| text_at(&self.bytes, other) == text;
            index.put(u32_at(&self.bytes, place), at, &is_same);
        }
    }

    /// Returns the newest entry of a token in the log.
    pub(crate) fn entry(&self, token: &[u8]) -> Option<TokenEntry> {
        let wanted = hash(token);
        let mut newest = None;
        for &(start, count) in &self.records {
            for nth in 0..count {
                let place = start + nth * PLACE_LEN;
                let at = start + u32_at(&self.bytes, place + 4) as usize;
                if u32_at(&self.bytes, place) == wanted && text_at(&self.bytes, at) == Some(token) {
                    newest = entry_at(&self.bytes, at);
                }
            }
        }
        newest
    }

    /// Returns the newest entry of every token, sorted by token.
    pub(crate) fn sorted(&self) -> Vec<(&[u8], TokenEntry)> {
        let mut all = Vec::new();
        for &(start, count) in self.records.iter().rev() {
            for nth in 0..count {
                let at = start + u32_at(&self.bytes, start + nth * PLACE_LEN + 4) as usize;
                let (text, entry) = (text_at(&self.bytes, at), entry_at(&self.bytes, at));
                all.extend(text.zip(entry));
            }
        }
        // Stable: the newest comes first.
        all.sort_by(|one, two| one.0.cmp(two.0));
        all.dedup_by(|later, first| later.0 == first.0);
        all
    }

    /// Returns the number of tokens in its records, which counts some more than once.
    pub(crate) fn entries(&self) -> u64 {
        self.records.iter().map(|(_, count)| *count as u64).sum()
    }

    /// Appends a record of sorted tokens and makes it durable, which is the commit point. Before
    /// that, truncates the file after the last whole record.
    pub(crate) fn append(&mut self, vfs: &dyn Vfs, changes: &[(&[u8], TokenEntry)]) -> Result<()> {
        let record = encode(changes, self.sequence + 1, self.header.salt());
        let len = self.len();
        let file = vfs.open(&self.path, OpenOptions::WRITE).at(&self.path)?;
        if file.metadata().at(&self.path)?.size > len {
            file.set_len(len).at(&self.path)?;
            file.sync_all().at(&self.path)?;
        }
        let written = file.write_all_at(&record, len).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // The change was not acknowledged, so try to remove the record.
            let _ = file.set_len(len).and_then(|()| file.sync_data());
            return Err(error).at(&self.path);
        }
        self.bytes.extend_from_slice(&record);
        let end = self.parse(len as usize);
        self.bytes.truncate(end);
        Ok(())
    }
}

fn encode(changes: &[(&[u8], TokenEntry)], sequence: u64, salt: u64) -> Vec<u8> {
    let places = changes.len() * PLACE_LEN;
    let mut record = vec![0; HEAD_LEN + places];
    for (nth, (token, entry)) in changes.iter().enumerate() {
        let at = (record.len() - HEAD_LEN) as u32;
        let place = HEAD_LEN + nth * PLACE_LEN;
        record[place..place + 4].copy_from_slice(&hash(token).to_le_bytes());
        record[place + 4..place + 8].copy_from_slice(&at.to_le_bytes());
        varint::put(&mut record, token.len() as u64);
        record.extend_from_slice(token);
        for number in [entry.spam, entry.ham, entry.date] {
            varint::put(&mut record, u64::from(number));
        }
    }
    record.resize(record.len().next_multiple_of(ALIGN), 0);
    let len = (record.len() - HEAD_LEN) as u64;
    record[..4].copy_from_slice(&MAGIC);
    record[4..8].copy_from_slice(&(changes.len() as u32).to_le_bytes());
    record[8..16].copy_from_slice(&len.to_le_bytes());
    record[16..24].copy_from_slice(&sequence.to_le_bytes());
    let sum = xxh3_64_with_seed(&record[..24], salt);
    record[24..32].copy_from_slice(&sum.to_le_bytes());
    let sum = xxh3_64_with_seed(&record, salt);
    record.extend_from_slice(&sum.to_le_bytes());
    record
}

/// Returns the end of the record at `at`, according to its head, if that is whole.
fn end_of(bytes: &[u8], at: usize, salt: u64) -> Option<usize> {
    let head = bytes.get(at..at + HEAD_LEN)?;
    if head[..4] != MAGIC || u64_at(head, 24) != xxh3_64_with_seed(&head[..24], salt) {
        return None;
    }
    let rest = usize::try_from(u64_at(head, 8)).ok()?.checked_add(FOOT_LEN)?;
    (at + HEAD_LEN).checked_add(rest)
}

/// Returns the end of the record at `at` and its sequence number, if it is whole.
fn whole(bytes: &[u8], at: usize, salt: u64) -> Option<(usize, u64)> {
    let end = end_of(bytes, at, salt)?;
    let record = bytes.get(at..end)?;
    let (body, foot) = record.split_at(record.len() - FOOT_LEN);
    let count = u32_at(record, 4) as usize;
    let fits = count * PLACE_LEN <= body.len() - HEAD_LEN;
    let sum = || u64_at(foot, 0) == xxh3_64_with_seed(body, salt);
    let sequence = u64_at(record, 16);
    (fits && sequence < NUMBER_MAX && sum()).then_some((end, sequence))
}

/// Returns `true` if the bytes from `at` on can be a record whose write was interrupted: it is
/// truncated, or has a sector of zeros.
fn is_torn(bytes: &[u8], at: usize, salt: u64) -> bool {
    let known = end_of(bytes, at, salt);
    let end = known.unwrap_or(at + HEAD_LEN);
    if end > bytes.len() {
        return true;
    }
    let mut from = at;
    while from < end {
        let until = ((from / SECTOR_LEN + 1) * SECTOR_LEN).min(end);
        if bytes[from..until].iter().all(|byte| *byte == 0) {
            return true;
        }
        from = until;
    }
    false
}

/// Returns the token at `at`.
fn text_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let mut rest = bytes.get(at..)?;
    let len = usize::try_from(varint::take(&mut rest)?).ok()?;
    rest.get(..len)
}

/// Returns the entry of the token at `at`.
fn entry_at(bytes: &[u8], at: usize) -> Option<TokenEntry> {
    let mut rest = bytes.get(at..)?;
    let len = usize::try_from(varint::take(&mut rest)?).ok()?;
    rest = rest.get(len..)?;
    let mut number = || varint::take_u32(&mut rest);
    Some(TokenEntry { spam: number()?, ham: number()?, date: number()? })
}

/// A hash table of the offsets of tokens, with linear probing.
#[derive(Debug, Default)]
struct Index {
    /// Hashes and offsets; a slot with offset 0 is free.
    slots: Vec<(u32, usize)>,
    taken: usize,
}

impl Index {
    fn get(&self, hash: u32, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = hash as usize & mask;
        while self.slots[slot].1 != 0 {
            let (other, at) = self.slots[slot];
            if other == hash && is_it(at) {
                return Some(at);
            }
            slot = (slot + 1) & mask;
        }
        None
    }

    fn put(&mut self, hash: u32, at: usize, is_same: &dyn Fn(usize) -> bool) {
        if (self.taken + 1) * 2 > self.slots.len() {
            let len = (self.slots.len() * 2).max(1024);
            let old = std::mem::replace(&mut self.slots, vec![(0, 0); len]);
            self.taken = 0;
            let kept = old.into_iter().filter(|(_, at)| *at != 0);
            kept.for_each(|(hash, at)| self.put(hash, at, &|_| false));
        }
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot].1 != 0 {
            if self.slots[slot].0 == hash && is_same(self.slots[slot].1) {
                self.slots[slot].1 = at;
                return;
            }
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = (hash, at);
        self.taken += 1;
    }
}

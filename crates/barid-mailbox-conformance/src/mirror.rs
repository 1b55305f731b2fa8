//! The messages known of a storage, as a cache knows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use barid_mailbox::{
    Extent, Known, KnownMessage, Location, LocationParts, MessageName, MovedMessage, ScanReport,
    ScanSink, ScannedMessage, SinkError, Sinks, Stamp, SyncReport,
};
use barid_state::MessageKey;
use barid_types::{FlagSet, InternalDate, KeywordMask, KeywordTable, Uid, UidValidity};

/// A location that is stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MirrorLocation {
    /// A name, the backend's bit, and the backend's number.
    Name(Vec<u8>, bool, u32),
    /// Offset, lengths of separator, header and body.
    Extent(u64, u32, u32, u64),
}

impl MirrorLocation {
    /// Stores a location.
    pub fn new(location: &Location<'_>) -> Self {
        match *location.parts() {
            LocationParts::Name(MessageName { name, in_new, mark }) => {
                Self::Name(name.to_vec(), in_new, mark)
            }
            LocationParts::Extent(Extent { offset, separator_len, header_len, body_len }) => {
                Self::Extent(offset, separator_len, header_len, body_len)
            }
        }
    }

    /// Returns the location for the backend.
    pub fn get(&self) -> Location<'_> {
        match self {
            Self::Name(name, in_new, mark) => {
                MessageName { name, in_new: *in_new, mark: *mark }.into()
            }
            Self::Extent(offset, separator_len, header_len, body_len) => Extent {
                offset: *offset,
                separator_len: *separator_len,
                header_len: *header_len,
                body_len: *body_len,
            }
            .into(),
        }
    }
}

/// A known message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorRow {
    /// Its UID.
    pub uid: Uid,
    /// Its flags.
    pub flags: FlagSet,
    /// Its keywords, by slots of the table.
    pub keywords: KeywordMask,
    /// Its location.
    pub location: MirrorLocation,
    /// Its message key.
    pub key: MessageKey,
    /// Bytes as stored, without the separator.
    pub size: u64,
    /// RFC822.SIZE, if the scan found it.
    pub rfc822_size: Option<u64>,
    /// Its internal date.
    pub date: InternalDate,
    /// Its header as stored.
    pub header: Vec<u8>,
}

/// The messages known of a storage, which follow the reports of scans and changes. It panics if a
/// report contradicts the contract.
#[derive(Clone, Debug, Default)]
pub struct Mirror {
    rows: Vec<MirrorRow>,
    report: Option<ScanReport>,
    keywords: KeywordTable,
    /// Every UID ever seen under this UIDVALIDITY, and the key of its message.
    given: BTreeMap<Uid, MessageKey>,
}

impl Mirror {
    /// Returns the known messages, ascending by UID.
    pub fn rows(&self) -> &[MirrorRow] {
        &self.rows
    }

    /// Returns the known message of this UID.
    pub fn row(&self, uid: Uid) -> Option<&MirrorRow> {
        self.index(uid).map(|at| &self.rows[at])
    }

    /// Returns the keywords of a message, sorted.
    pub fn keywords_of(&self, row: &MirrorRow) -> Vec<String> {
        let names = self.keywords.select(row.keywords);
        let mut names: Vec<String> = names.map(|name| name.as_str().to_owned()).collect();
        names.sort();
        names
    }

    fn index(&self, uid: Uid) -> Option<usize> {
        self.rows.binary_search_by_key(&uid, |row| row.uid).ok()
    }

    /// Follows a scan.
    pub(crate) fn follow_scan(&mut self, report: &ScanReport, intake: Intake) {
        let rows = intake.into_rows(report);
        self.check_numbers(report, &rows);
        if report.reset {
            self.rows.clear();
        }
        self.remove(&report.expunged);
        assert!(report.changed.is_sorted_by(|a, b| a.uid < b.uid), "changed UIDs ascend");
        for changed in &report.changed {
            let at = self.index(changed.uid).expect("because a changed message is known");
            let row = &mut self.rows[at];
            let is_changed = row.flags != changed.flags
                || row.keywords != changed.keywords
                || changed.file.is_some();
            assert!(is_changed, "UID {} is reported as changed, and is not", changed.uid);
            (row.flags, row.keywords) = (changed.flags, changed.keywords);
            if let Some((new_name, now_in_new)) = &changed.file
                && let MirrorLocation::Name(name, in_new, _) = &mut row.location
            {
                (*name, *in_new) = (new_name.clone(), *now_in_new);
            }
        }
        self.given.extend(rows.iter().map(|row| (row.uid, row.key)));
        self.rows.extend(rows);
        assert!(self.rows.is_sorted_by(|a, b| a.uid < b.uid), "UIDs ascend in mailbox order");
        let locations: BTreeSet<_> = self.rows.iter().map(|row| &row.location).collect();
        assert_eq!(locations.len(), self.rows.len(), "no message is scanned twice");
        self.keywords = report.keywords.clone();
        self.report = Some(report.clone());
    }

    /// Checks UIDs, UIDVALIDITY and keywords of a report against everything that is known.
    fn check_numbers(&mut self, report: &ScanReport, rows: &[MirrorRow]) {
        let below = |row: &MirrorRow| row.uid < report.uidnext;
        assert!(rows.iter().all(below), "UIDs are below UIDNEXT");
        let Some(before) = &self.report else { return };
        if before.uidvalidity != report.uidvalidity {
            assert!(report.reset, "a new UIDVALIDITY voids what is known");
            assert!(before.uidvalidity < report.uidvalidity, "UIDVALIDITY rises");
            self.given.clear();
            return;
        }
        assert!(before.uidnext <= report.uidnext, "UIDNEXT does not fall");
        for row in rows {
            let earlier = self.given.get(&row.uid);
            let is_same = earlier.is_none_or(|key| *key == row.key);
            assert!(is_same, "UID {} has a new meaning", row.uid);
            let is_known = report.reset && self.row(row.uid).is_some();
            assert!(earlier.is_none() || is_known, "UID {} is given once more", row.uid);
        }
        if !report.reset {
            let slots = self.keywords.names();
            assert!(report.keywords.names().starts_with(slots), "keywords keep their slots");
        }
    }

    fn remove(&mut self, uids: &[Uid]) {
        assert!(uids.is_sorted_by(|a, b| a < b), "expunged UIDs ascend");
        for uid in uids {
            let at = self.index(*uid).expect("because an expunged message was known");
            self.rows.remove(at);
        }
    }

    /// Follows a change instead of a scan; returns `false` if only a scan can find the state after
    /// it.
    pub(crate) fn follow_change(&mut self, report: &SyncReport, moved: &[MovedMessage]) -> bool {
        let Some(state) = &report.cache else { return false };
        self.remove(&report.expunged);
        assert!(report.shifts.is_sorted_by(|a, b| a.old_offset + a.len <= b.old_offset));
        for row in &mut self.rows {
            let MirrorLocation::Extent(offset, ..) = &mut row.location else { continue };
            let of_row = |shift: &&barid_mailbox::Shift| {
                (shift.old_offset..shift.old_offset + shift.len).contains(offset)
            };
            if let Some(shift) = report.shifts.iter().find(of_row) {
                *offset = (*offset - shift.old_offset).wrapping_add(shift.new_offset);
            }
        }
        assert!(moved.is_sorted_by(|a, b| a.uid < b.uid), "moved in mailbox order");
        for moved in moved {
            let at = self.index(moved.uid).expect("because a moved message is known");
            let row = &mut self.rows[at];
            (row.flags, row.keywords) = (moved.flags, moved.keywords);
            if let Some(location) = &moved.location {
                row.location = MirrorLocation::new(location);
            }
        }
        let before = self.report.as_mut().expect("because a change refers to a scan");
        (before.stamp, before.state) = (state.stamp, state.state.clone());
        self.keywords = state.keywords.clone();
        true
    }
}

impl Known for Mirror {
    fn stamp(&self) -> Option<Stamp> {
        self.report.as_ref().map(|report| report.stamp)
    }
    fn state(&self) -> &[u8] {
        self.report.as_ref().map_or(&[], |report| &report.state)
    }
    fn uidvalidity(&self) -> Option<UidValidity> {
        self.report.as_ref().map(|report| report.uidvalidity)
    }
    fn uidnext(&self) -> Option<Uid> {
        self.report.as_ref().map(|report| report.uidnext)
    }
    fn keywords(&self) -> &KeywordTable {
        &self.keywords
    }
    fn tail_verified(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.tail_verified)
    }
    fn len(&self) -> u32 {
        self.rows.len() as u32
    }
    fn visit(
        &self,
        first: u32,
        visit: &mut dyn FnMut(&KnownMessage<'_>) -> bool,
    ) -> Result<(), SinkError> {
        let known = |row: &MirrorRow| {
            visit(&KnownMessage {
                uid: row.uid,
                flags: row.flags,
                keywords: row.keywords,
                location: row.location.get(),
                key: row.key,
                size: row.size,
            })
        };
        self.rows.iter().skip(first as usize).all(known);
        Ok(())
    }
}

/// New messages of one chunk, with the UIDs that the backend gave them.
type ChunkRows = Vec<(Option<Uid>, MirrorRow)>;

/// The finished chunks of a scan.
#[derive(Default)]
pub(crate) struct Intake(Mutex<Vec<(u32, ChunkRows)>>);

impl Intake {
    /// Returns the new messages in mailbox order, each with its UID.
    fn into_rows(self, report: &ScanReport) -> Vec<MirrorRow> {
        let mut chunks = self.0.into_inner().unwrap();
        chunks.sort_by_key(|(chunk, _)| *chunk);
        assert!(chunks.is_sorted_by(|a, b| a.0 < b.0), "a chunk is finished once");
        let mut new_uids = report.new_uids.iter();
        let rows = chunks.into_iter().flat_map(|(_, rows)| rows);
        let rows = rows.map(|(uid, row)| {
            let uid = uid.or_else(|| new_uids.next().copied());
            MirrorRow { uid: uid.expect("because every new message has a UID"), ..row }
        });
        let rows = rows.collect();
        assert_eq!(new_uids.next(), None, "no UID is left");
        rows
    }
}

struct ChunkSink<'a> {
    chunk: u32,
    rows: ChunkRows,
    intake: &'a Intake,
}

impl Sinks for Intake {
    fn sink(&self, chunk: u32) -> Box<dyn ScanSink + '_> {
        Box::new(ChunkSink { chunk, rows: Vec::new(), intake: self })
    }
}

impl ScanSink for ChunkSink<'_> {
    fn message(&mut self, message: &ScannedMessage<'_>) -> Result<(), SinkError> {
        let row = MirrorRow {
            uid: Uid::MIN,
            flags: message.flags,
            keywords: message.keywords,
            location: MirrorLocation::new(&message.location),
            key: message.key,
            size: message.size,
            rfc822_size: message.rfc822_size,
            date: message.internal_date,
            header: message.header.to_vec(),
        };
        self.rows.push((message.uid, row));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        self.intake.0.lock().unwrap().push((self.chunk, self.rows));
        Ok(())
    }
}

//! A mailbox in memory, a draft that is applied to bytes, and checks for every plan.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use barid_mailbox::{
    ChangeSet, Extent, FlagChange, Known, KnownMessage, Location, MovedMessage, Result,
    ScanContext, ScanReport, ScanSink, ScannedMessage, SinkError, Sinks, Storage,
};
use barid_state::{Access, Identity, Ledger, MessageKey};
use barid_types::{FlagSet, Keyword, KeywordMask, KeywordTable, Uid, UidValidity};
use barid_vfs::{MemVfs, OpenOptions, Timestamp, Vfs};

use crate::mbox::change::block::Fields;
use crate::mbox::change::draft::Draft;
use crate::mbox::change::pages::Pages;
use crate::mbox::change::plan::{PlanInput, Planned, plan};
use crate::mbox::layout::MboxScanState;
use crate::mbox::{MboxMailbox, MboxOptions, Variant};
use crate::remembered::{Remembered, known_of_remembered};

/// A message from a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) uid: Uid,
    pub(super) offset: u64,
    pub(super) separator_len: u32,
    pub(super) header_len: u32,
    pub(super) body_len: u64,
    pub(super) flags: FlagSet,
    pub(super) keywords: KeywordMask,
    pub(super) key: MessageKey,
}

impl Seen {
    pub(super) fn location(&self) -> Location<'static> {
        Location::from(Extent {
            offset: self.offset,
            separator_len: self.separator_len,
            header_len: self.header_len,
            body_len: self.body_len,
        })
    }

    pub(super) fn header<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let start = self.offset as usize + self.separator_len as usize;
        &bytes[start..start + self.header_len as usize]
    }

    fn body<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let start = self.offset as usize + self.separator_len as usize + self.header_len as usize;
        &bytes[start..start + self.body_len as usize]
    }

    fn separator<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.offset as usize..self.offset as usize + self.separator_len as usize]
    }
}

/// Result of a scan.
#[derive(Clone, Debug)]
pub(super) struct Scanned {
    pub(super) report: ScanReport,
    pub(super) seen: Vec<Seen>,
}

impl Scanned {
    pub(super) fn notes(&self) -> MboxScanState {
        MboxScanState::from_bytes(&self.report.state).unwrap()
    }

    fn names(&self, mask: KeywordMask) -> Vec<String> {
        names(&self.report.keywords, mask)
    }
}

fn names(table: &KeywordTable, mask: KeywordMask) -> Vec<String> {
    let mut names: Vec<_> =
        table.select(mask).map(|name| name.as_str().to_ascii_lowercase()).collect();
    names.sort();
    names
}

known_of_remembered!(Scanned);

impl Remembered for Scanned {
    fn report(&self) -> Option<&ScanReport> {
        Some(&self.report)
    }
    fn table(&self) -> &KeywordTable {
        &self.report.keywords
    }
    fn messages(&self) -> impl Iterator<Item = KnownMessage<'_>> {
        self.seen.iter().map(|seen| KnownMessage {
            uid: seen.uid,
            flags: seen.flags,
            keywords: seen.keywords,
            location: seen.location(),
            key: seen.key,
            size: u64::from(seen.header_len) + seen.body_len,
        })
    }
}

#[derive(Default)]
struct Remember(Mutex<Vec<(u32, Vec<Seen>)>>);

struct Chunk<'a>(u32, Vec<Seen>, &'a Remember);

impl Sinks for Remember {
    fn sink(&self, chunk: u32) -> Box<dyn ScanSink + '_> {
        Box::new(Chunk(chunk, Vec::new(), self))
    }
}

impl ScanSink for Chunk<'_> {
    fn message(&mut self, message: &ScannedMessage<'_>) -> std::result::Result<(), SinkError> {
        let Some(Extent { offset, separator_len, header_len, body_len }) =
            message.location.extent()
        else {
            unreachable!("because an mbox has spans");
        };
        let (flags, keywords, key) = (message.flags, message.keywords, message.key);
        let uid = Uid::MIN;
        self.1.push(Seen {
            uid,
            offset,
            separator_len,
            header_len,
            body_len,
            flags,
            keywords,
            key,
        });
        Ok(())
    }

    fn finish(self: Box<Self>) -> std::result::Result<(), SinkError> {
        self.2.0.lock().unwrap().push((self.0, self.1));
        Ok(())
    }
}

/// A draft that is applied to bytes.
pub(super) struct Applied<'b> {
    old: &'b [u8],
    at: usize,
    pub(super) new: Vec<u8>,
    collapsed: usize,
    block: Option<usize>,
    /// Number of bytes inserted.
    pub(super) inserted: usize,
    /// Number of bytes copied.
    pub(super) copied: usize,
    /// Offsets and lengths of the insertions.
    pub(super) places: Vec<(usize, usize)>,
}

impl<'b> Applied<'b> {
    fn new(old: &'b [u8], block: Option<usize>) -> Self {
        let new = Vec::with_capacity(old.len());
        let places = Vec::new();
        Self { old, at: 0, new, collapsed: 0, block, inserted: 0, copied: 0, places }
    }

    /// Returns the number of bytes collapsed.
    pub(super) fn collapsed(&self) -> usize {
        self.collapsed
    }

    fn take(&mut self, len: u64) -> &'b [u8] {
        assert!(len > 0, "no call is in vain");
        let bytes = &self.old[self.at..self.at + len as usize];
        self.at += len as usize;
        bytes
    }
}

impl Draft for Applied<'_> {
    fn stay(&mut self, len: u64) -> Result<()> {
        assert_eq!(self.shift(), 0, "only what does not move stays");
        let bytes = self.take(len);
        self.new.extend_from_slice(bytes);
        Ok(())
    }

    fn copy(&mut self, len: u64) -> Result<()> {
        let bytes = self.take(len);
        self.new.extend_from_slice(bytes);
        self.copied += bytes.len();
        Ok(())
    }

    fn skip(&mut self, len: u64) -> Result<()> {
        self.take(len);
        Ok(())
    }

    fn insert(&mut self, bytes: &[u8]) -> Result<()> {
        assert!(!bytes.is_empty(), "no call is in vain");
        self.places.push((self.new.len(), bytes.len()));
        self.new.extend_from_slice(bytes);
        self.inserted += bytes.len();
        Ok(())
    }

    fn collapse(&mut self, len: u64) -> Result<()> {
        let block = self.block.expect("because it is planned only where the file system can");
        assert_eq!((self.at - self.collapsed) % block, 0, "whole blocks");
        assert_eq!(len as usize % block, 0, "whole blocks");
        self.take(len);
        self.collapsed += len as usize;
        assert!(self.at < self.old.len(), "something must follow");
        Ok(())
    }

    fn shift(&self) -> i64 {
        (self.new.len() + self.collapsed) as i64 - self.at as i64
    }
}

/// A file in memory and its ledger.
pub(super) struct World {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    variant: Variant,
    /// Block size of its file system, if it can collapse.
    pub(super) block: Option<u64>,
    /// `true` if the stamp is not trusted.
    pub(super) verify: bool,
}

/// Result of a plan that was carried out.
pub(super) struct Done {
    pub(super) planned: Planned,
    pub(super) bytes: Vec<u8>,
    pub(super) inserted: usize,
    pub(super) copied: usize,
    pub(super) collapsed: usize,
    pub(super) places: Vec<(usize, usize)>,
    pub(super) after: Scanned,
}

impl World {
    pub(super) fn new(variant: Variant, bytes: &[u8]) -> Self {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        vfs.create_dir_all(Path::new("/mail"), 0o700).unwrap();
        vfs.create_dir_all(Path::new("/state"), 0o700).unwrap();
        let path = PathBuf::from("/mail/box");
        let world = Self { vfs, path, variant, block: None, verify: false };
        world.write(bytes);
        world
    }

    pub(super) fn write(&self, bytes: &[u8]) {
        let file = self.vfs.open(&self.path, OpenOptions::create(0o600)).unwrap();
        file.set_len(0).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        self.vfs.sleep(Duration::from_secs(3));
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let file = self.vfs.open(&self.path, OpenOptions::READ).unwrap();
        let mut bytes = vec![0; file.metadata().unwrap().size as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    fn mailbox(&self) -> MboxMailbox {
        let zone = Some(jiff::tz::TimeZone::UTC);
        let options = MboxOptions { zone, ..MboxOptions::default() };
        let vfs = Arc::clone(&self.vfs);
        MboxMailbox::open_with(vfs, &self.path, Some(self.variant), options).unwrap()
    }

    fn ledger(&self) -> Ledger {
        let identity = Identity { id: 7, path: self.path.clone(), inode: 1 };
        let vfs = Arc::clone(&self.vfs);
        Ledger::open(vfs, Path::new("/state"), &identity, Access::ReadWrite).unwrap()
    }

    /// Removes expunged messages from the ledger.
    fn forget(&self, uids: &[Uid]) {
        let mut ledger = self.ledger();
        ledger.lock(Duration::from_secs(1)).unwrap();
        ledger.expunge(uids);
        ledger.commit().unwrap();
    }

    pub(super) fn scan(&self) -> Scanned {
        self.try_scan().unwrap()
    }

    pub(super) fn try_scan(&self) -> Result<Scanned> {
        let mut ledger = self.ledger();
        let mut context = ScanContext {
            ledger: &mut ledger,
            read_only: false,
            full_check: true,
            will_rescan: false,
            threads: 1,
            progress: None,
        };
        let sinks = Remember::default();
        let known = barid_mailbox::EmptyKnown::default();
        let report = self.mailbox().scan(&known, &sinks, &mut context)?;
        ledger.commit().unwrap();
        let mut chunks = sinks.0.into_inner().unwrap();
        chunks.sort_by_key(|(chunk, _)| *chunk);
        let mut seen: Vec<Seen> = chunks.into_iter().flat_map(|(_, seen)| seen).collect();
        for (message, uid) in seen.iter_mut().zip(&report.new_uids) {
            message.uid = *uid;
        }
        Ok(Scanned { report, seen })
    }

    /// Plans a change of the file and applies it in memory.
    pub(super) fn try_plan(&self, known: &dyn Known, changes: &ChangeSet) -> Result<(Done, Told)> {
        let old = self.bytes();
        let file = self.vfs.open(&self.path, OpenOptions::READ).unwrap();
        let pages = Pages::new(&*file, old.len() as u64, 50);
        let input = PlanInput {
            path: &self.path,
            file: &*file,
            pages: old.len().is_multiple_of(2).then_some(&pages),
            size: old.len() as u64,
            separators: self.mailbox().separators(),
            known,
            changes,
            verify: self.verify,
            collapse: self.block,
            now: Timestamp { unix_nanos: 1_700_000_000_000_000_000 },
        };
        let mut draft = Applied::new(&old, self.block.map(|block| block as usize));
        let mut told: Vec<MovedMessage> = Vec::new();
        let planned = plan(&input, &mut draft, &mut |message| told.push(*message))?;
        assert_eq!(draft.at, old.len(), "the whole file is told");
        assert_eq!(planned.size, draft.new.len() as u64, "its new size");
        let after = Scanned { report: empty_report(), seen: Vec::new() };
        let (inserted, copied, collapsed) = (draft.inserted, draft.copied, draft.collapsed());
        let (bytes, places) = (draft.new, draft.places);
        let done = Done { planned, bytes, inserted, copied, collapsed, places, after };
        Ok((done, told))
    }

    /// Applies a change, and checks that the new file is as planned and wanted.
    pub(super) fn apply(&self, changes: &ChangeSet) -> Done {
        let before = self.scan();
        let old = self.bytes();
        let (mut done, told) = self.try_plan(&before, changes).unwrap();
        self.write(&done.bytes);
        self.forget(&done.planned.expunged);
        done.after = self.scan();
        check(&before, &old, changes, &done, &told);
        done
    }
}

/// Messages that the planner reported.
pub(super) type Told = Vec<MovedMessage>;

fn empty_report() -> ScanReport {
    ScanReport {
        stamp: barid_mailbox::Stamp::default(),
        state: Vec::new(),
        uidvalidity: UidValidity::MIN,
        uidnext: Uid::MIN,
        keywords: KeywordTable::default(),
        reset: true,
        expunged: Vec::new(),
        changed: Vec::new(),
        new_uids: Vec::new(),
        tail_verified: false,
        size_bytes: 0,
        defects: Vec::new(),
        stats: barid_mailbox::ScanStats::default(),
    }
}

/// Returns the messages, with the names of their keywords, according to the planner's reports.
fn followed(before: &Scanned, done: &Done, told: &Told) -> Vec<(Seen, Vec<String>)> {
    let planned = &done.planned;
    let table = &planned.keywords;
    for (slot, name) in before.report.keywords.names().iter().enumerate() {
        assert_eq!(table.names().get(slot), Some(name), "known keywords keep their slots");
    }
    assert!(told.windows(2).all(|pair| pair[0].uid < pair[1].uid), "told in order, once");
    assert!(planned.shifts.windows(2).all(|pair| pair[0].old_offset < pair[1].old_offset));
    let told: BTreeMap<Uid, &MovedMessage> = told.iter().map(|moved| (moved.uid, moved)).collect();
    let mut all = Vec::new();
    for seen in &before.seen {
        if planned.expunged.contains(&seen.uid) {
            assert!(!told.contains_key(&seen.uid), "what is expunged is not told");
            continue;
        }
        let mut now = seen.clone();
        if let Some(moved) = told.get(&seen.uid) {
            let Some(Extent { offset, separator_len, header_len, body_len }) =
                moved.location.and_then(|at| at.extent())
            else {
                unreachable!("because an mbox has spans");
            };
            now = Seen { offset, separator_len, header_len, body_len, ..now };
            (now.flags, now.keywords) = (moved.flags, moved.keywords);
        } else {
            let inside = |shift: &&barid_mailbox::Shift| {
                (shift.old_offset..shift.old_offset + shift.len).contains(&seen.offset)
            };
            if let Some(shift) = planned.shifts.iter().find(inside) {
                now.offset = seen.offset - shift.old_offset + shift.new_offset;
            }
        }
        let names = names(table, now.keywords);
        now.keywords = KeywordMask(0);
        all.push((now, names));
    }
    all
}

/// Returns the flags and keywords that a message should have.
fn wanted(before: &Scanned, seen: &Seen, changes: &ChangeSet) -> (FlagSet, Vec<String>) {
    let mut flags = seen.flags;
    let mut names = before.names(seen.keywords);
    let change = changes.flags.iter().find(|(uid, _)| *uid == seen.uid);
    if let Some((_, FlagChange { add, remove, add_keywords, remove_keywords })) = change {
        let lower = |name: &Keyword| name.as_str().to_ascii_lowercase();
        flags = FlagSet::from_bits((flags.bits() | add.bits()) & !remove.bits());
        names.extend(add_keywords.iter().map(lower));
        names.retain(|name| !remove_keywords.iter().any(|gone| lower(gone) == *name));
        names.sort();
        names.dedup();
    }
    if changes.drop_recent {
        flags = flags.without(barid_types::Flag::Recent);
    }
    (flags, names)
}

/// Returns a header without its owned fields and its blank line.
fn foreign(header: &[u8]) -> Vec<u8> {
    let (mut fields, mut out) = (Fields::default(), Vec::new());
    fields.read(header);
    fields.write_foreign(header, 0, &mut out);
    assert_eq!(out.len(), fields.foreign_len());
    out
}

/// Checks the rules for every plan.
fn check(before: &Scanned, old: &[u8], changes: &ChangeSet, done: &Done, told: &Told) {
    let (planned, after, new) = (&done.planned, &done.after, &done.bytes[..]);
    assert_eq!(planned.size, new.len() as u64);
    let kept: Vec<&Seen> =
        before.seen.iter().filter(|seen| !changes.expunge.contains(&seen.uid)).collect();
    assert_eq!(after.seen.len(), kept.len(), "the kept messages and no others");
    let followed = followed(before, done, told);
    for ((seen, was), (told, told_names)) in after.seen.iter().zip(&kept).zip(&followed) {
        let uid = was.uid;
        let is_writable = !planned.unwritable.contains(&uid);
        assert!(seen.uid == uid || !is_writable, "UID {uid}");
        assert_eq!(seen.key, was.key, "UID {uid}");
        assert_eq!(foreign(seen.header(new)), foreign(was.header(old)), "UID {uid}");
        assert_eq!(seen.body(new), was.body(old), "UID {uid}");
        assert_eq!(seen.separator(new), was.separator(old), "UID {uid}");
        if is_writable {
            let (flags, names) = wanted(before, was, changes);
            assert_eq!(seen.flags, flags, "UID {uid}");
            assert_eq!(after.names(seen.keywords), names, "UID {uid}");
        }
        assert_eq!(seen.location(), told.location(), "UID {uid}");
        assert_eq!(seen.flags, told.flags, "UID {uid}");
        assert_eq!(after.names(seen.keywords), *told_names, "UID {uid}");
    }
    let expunged: Vec<Uid> = before
        .seen
        .iter()
        .map(|seen| seen.uid)
        .filter(|uid| changes.expunge.contains(uid))
        .collect();
    assert_eq!(planned.expunged, expunged);
    check_whole(before, changes, done);
}

/// Checks the rules for the whole mailbox.
fn check_whole(before: &Scanned, changes: &ChangeSet, done: &Done) {
    let (planned, after) = (&done.planned, &done.after);
    assert_eq!(after.report.uidvalidity, before.report.uidvalidity);
    assert_eq!(after.report.uidnext, before.report.uidnext);
    let notes = MboxScanState { uids_through: 0, ..planned.notes };
    let mut found = after.notes();
    if !notes.tail_sound {
        // These notes do not matter for an end after which no tail is read.
        (found.tail_sound, found.tail_closed) = (false, notes.tail_closed);
    }
    if notes.tail_sound || notes.last_separator_len > 0 {
        assert_eq!(notes, found);
    }
    if !after.seen.is_empty() && planned.unwritable_count == 0 && changes.write_uids {
        assert!(planned.has_all_uids);
    }
    if planned.has_all_uids && changes.write_uids {
        for seen in &after.seen {
            let mut fields = Fields::default();
            fields.read(seen.header(&done.bytes));
            assert_eq!(fields.uid, Some(seen.uid.get()));
        }
    }
}

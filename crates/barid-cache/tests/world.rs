//! A model of a mailbox, messages to fill it with, and the comparison with a cache.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_cache::{
    Builder, CacheOptions, Delta, Finish, IdHash, Opened, Record, RecordBuf, Snapshot, StoreKind,
};
use barid_kv::Compression;
use barid_mailbox::{
    Extent, Known, Location, MessageName, ScanReport, ScanStats, ScannedMessage, Sinks, Stamp,
};
use barid_message::{
    HeaderFields, HeaderScan, Profile, base_subject, message_id, message_ids, parse_date,
};
use barid_state::{Identity, MessageKey};
use barid_types::{
    Flag, FlagSet, InternalDate, Keyword, KeywordMask, KeywordTable, ModSeq, Uid, UidValidity,
};
use barid_vfs::{MemVfs, Vfs};

pub(crate) const ID: u128 = 0x1234_5678_9abc_def0_0fed_cba9_8765_4321;

/// A message of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) uid: u32,
    pub(crate) header: Vec<u8>,
    /// A file name, or `None` for a span.
    pub(crate) name: Option<(Vec<u8>, bool)>,
    pub(crate) offset: u64,
    pub(crate) separator_len: u32,
    /// Bytes of the header that the scan did not pass: padding added later.
    pub(crate) padding: u32,
    pub(crate) body_len: u64,
    pub(crate) rfc822_size: Option<u64>,
    pub(crate) internal_date: InternalDate,
    pub(crate) flags: FlagSet,
    pub(crate) keywords: u64,
    pub(crate) key: u64,
    pub(crate) modseq: u64,
}

impl Message {
    fn size(&self) -> u64 {
        self.header.len() as u64 + u64::from(self.padding) + self.body_len
    }
}

/// A mailbox: messages ascending by UID.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) messages: Vec<Message>,
    pub(crate) uidnext: u32,
    pub(crate) highest_modseq: u64,
    pub(crate) step: u64,
    /// `true` if an empty mailbox gets its messages in one file.
    pub(crate) spans: bool,
}

impl Message {
    /// Changes flags and keywords; \Recent alone is no reason for another modseq.
    pub(crate) fn set_marks(&mut self, flags: FlagSet, keywords: u64, modseq: u64) {
        let lasting = |flags: FlagSet| flags.without(Flag::Recent);
        if lasting(flags) != lasting(self.flags) || keywords != self.keywords {
            self.modseq = modseq;
        }
        (self.flags, self.keywords) = (flags, keywords);
    }
}

impl Model {
    pub(crate) fn new() -> Self {
        Self { messages: Vec::new(), uidnext: 1, highest_modseq: 0, step: 0, spans: false }
    }

    /// Adds messages at the end.
    pub(crate) fn add(&mut self, rng: &mut fastrand::Rng, count: usize, files: bool, modseq: u64) {
        for _ in 0..count {
            let uid = self.uidnext;
            self.uidnext += 1 + u32::from(rng.u8(..) < 20) * rng.u32(..100);
            let mut message = message(rng, uid, files);
            message.modseq = modseq;
            let last = self.messages.last().map_or(0, |last| last.offset);
            message.offset = message.offset.max(last + 1000);
            self.messages.push(message);
        }
        self.highest_modseq = self.highest_modseq.max(modseq);
    }

    /// Returns the report of a scan of the current mailbox.
    pub(crate) fn report(&self) -> ScanReport {
        ScanReport {
            stamp: self.stamp(),
            state: format!("state {}", self.step).into_bytes(),
            uidvalidity: UidValidity::new(77).unwrap(),
            uidnext: Uid::new(self.uidnext).unwrap(),
            keywords: keywords(),
            reset: false,
            expunged: Vec::new(),
            changed: Vec::new(),
            new_uids: Vec::new(),
            tail_verified: self.step % 2 == 1,
            size_bytes: 1000,
            defects: Vec::new(),
            stats: ScanStats::default(),
        }
    }

    pub(crate) fn stamp(&self) -> Stamp {
        let mut content = [0; Stamp::CONTENT_LEN];
        content[0] = 7;
        content[8..16].copy_from_slice(&self.step.to_le_bytes());
        Stamp::new(content, 5)
    }
}

pub(crate) fn keywords() -> KeywordTable {
    ["Junk", "$Forwarded", "todo"].iter().map(|name| Keyword::new(name).unwrap()).collect()
}

pub(crate) fn identity() -> Identity {
    Identity { id: ID, path: PathBuf::from("/mail/inbox"), inode: 42 }
}

pub(crate) fn finish(identity: &Identity, modseq: u64) -> Finish<'_> {
    let modseq = ModSeq::new(modseq).unwrap();
    Finish { identity, format: "mboxrd", modseq, keep: None, unchanged: None }
}

pub(crate) fn cache_path() -> PathBuf {
    PathBuf::from("/cache/box.bhc")
}

pub(crate) fn mem() -> Arc<dyn Vfs> {
    Arc::new(MemVfs::new())
}

/// Returns a message with a header that is plain, odd, empty or large.
pub(crate) fn message(rng: &mut fastrand::Rng, uid: u32, files: bool) -> Message {
    let flag = |rng: &mut fastrand::Rng| FlagSet::from_bits(rng.u8(..64));
    let name = files.then(|| {
        let name = format!(
            "{}.M{}P{}.host:2,{}",
            rng.u32(..),
            rng.u32(..),
            uid,
            "S".repeat(uid as usize % 7)
        );
        (name.into_bytes(), rng.bool())
    });
    Message {
        uid,
        header: header(rng, uid),
        name,
        offset: u64::from(uid) * 5000,
        separator_len: 40 + uid % 10,
        padding: 0,
        body_len: rng.u64(..1 << 40),
        rfc822_size: rng.bool().then(|| rng.u64(..1 << 30)),
        internal_date: InternalDate {
            unix_seconds: rng.i64(-1000..2_000_000_000),
            zone_minutes: rng.i16(-720..720),
        },
        flags: flag(rng),
        keywords: rng.u64(..8),
        key: rng.u64(..),
        modseq: 0,
    }
}

fn header(rng: &mut fastrand::Rng, uid: u32) -> Vec<u8> {
    let id = |n: u32| format!("<{n}@example.org>");
    let mut text = format!("X-Other: {}\n", "x".repeat(rng.usize(..50)));
    if rng.u8(..10) > 0 {
        text += &format!("Date: Mon, {} Jan 2020 10:{:02}:00 +0100\n", rng.u8(1..28), rng.u8(..60));
    }
    if rng.u8(..10) > 0 {
        text += &format!("From: Sender {} <s{uid}@example.org>\n", rng.u8(..));
        text += &format!("To: a@example.org,\n\tb{}@example.org\n", rng.u8(..));
    }
    if rng.u8(..10) > 0 {
        let prefix = ["", "Re: ", "[list] ", "Fwd: "][rng.usize(..4)];
        text += &format!("Subject: {prefix}subject {}\n", rng.u8(..20));
    }
    if rng.u8(..10) > 0 {
        text += &format!("Message-ID: {}\n", id(uid));
    }
    if rng.bool() {
        text += "References:";
        for _ in 0..rng.usize(..5) {
            text += &format!("\n {}", id(rng.u32(1..uid + 2)));
        }
        text += "\n";
    }
    if rng.bool() {
        text += &format!("In-Reply-To: {} {}\n", id(rng.u32(1..uid + 2)), id(3));
    }
    if rng.u8(..100) == 0 {
        text += &format!("Cc: {}\n", "long@example.org, ".repeat(rng.usize(..6000)));
    }
    text += "\n";
    text.into_bytes()
}

/// Passes messages as a scan would: in chunks, in any order; UIDs with them or afterwards.
pub(crate) fn scan(sinks: &dyn Sinks, messages: &[Message], rng: &mut fastrand::Rng) -> Vec<Uid> {
    let late_uids = rng.bool();
    let mut chunks: Vec<(u32, &[Message])> = Vec::new();
    let mut rest = messages;
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(rng.usize(1..=rest.len().min(500)));
        chunks.push((chunks.len() as u32, chunk));
        rest = later;
    }
    rng.shuffle(&mut chunks);
    std::thread::scope(|scope| {
        for chunks in chunks.chunks(chunks.len() / 2 + 1) {
            scope.spawn(move || {
                for (number, messages) in chunks {
                    if *number % 3 == 0 {
                        // A sink that is dropped before it is finished is void.
                        let mut sink = sinks.sink(*number);
                        for message in messages.iter().take(20) {
                            sink.message(&scanned(message, late_uids)).unwrap();
                        }
                    }
                    let mut sink = sinks.sink(*number);
                    for message in *messages {
                        sink.message(&scanned(message, late_uids)).unwrap();
                    }
                    sink.finish().unwrap();
                }
            });
        }
    });
    let uid = |message: &Message| Uid::new(message.uid).unwrap();
    if late_uids { messages.iter().map(uid).collect() } else { Vec::new() }
}

fn scanned(message: &Message, late_uids: bool) -> ScannedMessage<'_> {
    ScannedMessage {
        uid: if late_uids { None } else { Uid::new(message.uid) },
        location: location(message),
        header: &message.header,
        size: message.size(),
        rfc822_size: message.rfc822_size,
        internal_date: message.internal_date,
        flags: message.flags,
        keywords: KeywordMask(message.keywords),
        key: MessageKey(message.key),
    }
}

pub(crate) fn location(message: &Message) -> Location<'_> {
    match &message.name {
        Some((name, in_new)) => Location::from(MessageName { name, in_new: *in_new, mark: 7 }),
        None => Location::from(Extent {
            offset: message.offset,
            separator_len: message.separator_len,
            header_len: message.header.len() as u32 + message.padding,
            body_len: message.body_len,
        }),
    }
}

/// Stores and compressions for caches in tests.
pub(crate) const KINDS: &[(&str, &str)] = &[
    ("native", "none"),
    ("native", "lz4"),
    ("native", "zstd:1"),
    ("memory", "none"),
    ("memory", "lz4"),
    ("memory", "zlib"),
    ("memory", "zstd:1"),
    ("memory", "zstd+dict"),
];

/// Returns the options with these names.
pub(crate) fn options((store, compression): (&str, &str)) -> CacheOptions {
    CacheOptions {
        store: StoreKind::parse(store).unwrap(),
        compression: Compression::parse(compression).unwrap(),
    }
}

/// Builds a cache of the whole model.
pub(crate) fn build(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
    model: &Model,
    rng: &mut fastrand::Rng,
) -> Snapshot {
    build_as(vfs, path, model, rng, &CacheOptions::default())
}

/// Builds a cache as [`build`] does, with options.
pub(crate) fn build_as(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
    model: &Model,
    rng: &mut fastrand::Rng,
    options: &CacheOptions,
) -> Snapshot {
    let builder = Builder::create(Arc::clone(vfs), path, options).unwrap();
    let new_uids = scan(&builder, &model.messages, rng);
    let report = ScanReport { new_uids, ..model.report() };
    let keep = |uid: Uid, _: FlagSet, _: KeywordMask| {
        let at = model.messages.binary_search_by_key(&uid.get(), |message| message.uid).ok()?;
        ModSeq::new(model.messages[at].modseq)
    };
    let identity = identity();
    let finish = Finish { keep: Some(&keep), ..finish(&identity, model.highest_modseq) };
    builder.finish(&report, &finish).unwrap()
}

/// Opens a cache that must exist.
pub(crate) fn open(vfs: &Arc<dyn Vfs>, path: &Path) -> Snapshot {
    match Snapshot::open(Arc::clone(vfs), path, ID).unwrap() {
        Opened::Fresh(snapshot) => snapshot,
        other => panic!("{other:?}"),
    }
}

/// Compares every value of a snapshot with the model; returns a failing read.
pub(crate) fn compare(
    snapshot: &Snapshot,
    model: &Model,
    rng: &mut fastrand::Rng,
) -> Result<(), barid_cache::Error> {
    compare_meta(snapshot, model);
    compare_rows(snapshot, model)?;
    compare_changed(snapshot, model, rng)?;
    compare_known(snapshot, model)?;
    compare_threads(snapshot, model)?;
    for _ in 0..20 {
        let uid = rng.u32(1..model.uidnext + 2);
        let expected = model.messages.binary_search_by_key(&uid, |message| message.uid);
        let found = snapshot.row_of_uid(Uid::new(uid).unwrap())?;
        assert_eq!(found, expected.ok().map(|row| row as u32), "uid {uid}");
        assert_eq!(snapshot.position(Uid::new(uid).unwrap()).unwrap(), found);
        let from = snapshot.row_from_uid(Uid::new(uid).unwrap())?;
        assert_eq!(from as usize, expected.unwrap_or_else(|row| row), "from uid {uid}");
    }
    let mut rows: Vec<u32> = (0..snapshot.len()).collect();
    for shuffled in [false, true] {
        if shuffled {
            rng.shuffle(&mut rows);
        }
        let mut visited = Vec::new();
        snapshot.records(&rows, &mut |row, core, record| {
            let message = &model.messages[row as usize];
            assert_eq!(core.uid.get(), message.uid);
            assert_eq!(*record, expected_record(message));
            visited.push(row);
        })?;
        assert_eq!(visited, rows);
    }
    Ok(())
}

/// Compares the mod-sequences that a scan from scratch would keep.
pub(crate) fn compare_kept(snapshot: &Snapshot, model: &Model, rng: &mut fastrand::Rng) {
    let mut uids: Vec<u32> = (1..model.uidnext + 2).filter(|_| rng.u8(..4) > 0).collect();
    uids.extend((0..20).map(|_| rng.u32(1..model.uidnext + 2)));
    let keeper = snapshot.modseq_keeper();
    for uid in uids {
        let at = model.messages.binary_search_by_key(&uid, |message| message.uid).ok();
        let Message { flags, keywords, modseq, .. } = match at {
            Some(at) => model.messages[at].clone(),
            None => message(rng, uid, false),
        };
        let kept = keeper(Uid::new(uid).unwrap(), flags, KeywordMask(keywords));
        assert_eq!(kept.map(ModSeq::get), at.map(|_| modseq), "uid {uid}");
        assert_eq!(keeper(Uid::new(uid).unwrap(), flags, KeywordMask(keywords + 1)), None);
    }
}

fn compare_meta(snapshot: &Snapshot, model: &Model) {
    let (meta, report) = (snapshot.meta(), model.report());
    let count = |flag, set| {
        let has = |message: &&Message| message.flags.contains(flag) == set;
        model.messages.iter().filter(has).count() as u32
    };
    assert_eq!(snapshot.len() as usize, model.messages.len());
    assert_eq!(meta.stamp, report.stamp);
    assert_eq!(meta.state, report.state);
    assert_eq!((meta.uidvalidity, meta.uidnext), (report.uidvalidity, report.uidnext));
    assert_eq!(meta.highest_modseq.get(), model.highest_modseq);
    assert_eq!(meta.keywords, report.keywords);
    assert_eq!((meta.size_bytes, meta.tail_verified), (report.size_bytes, report.tail_verified));
    assert_eq!((&*meta.format, meta.inode), ("mboxrd", 42));
    assert_eq!(meta.path, identity().path);
    assert_eq!(meta.recent, count(Flag::Recent, true));
    assert_eq!(meta.unseen, count(Flag::Seen, false));
}

fn compare_changed(
    snapshot: &Snapshot,
    model: &Model,
    rng: &mut fastrand::Rng,
) -> Result<(), barid_cache::Error> {
    for modseq in [1, rng.u64(1..model.highest_modseq + 2), model.highest_modseq] {
        let changed = snapshot.changed_since(ModSeq::new(modseq.max(1)).unwrap())?;
        let expected: Vec<(u32, u64)> = model
            .messages
            .iter()
            .filter(|message| message.modseq > modseq.max(1))
            .map(|message| (message.uid, message.modseq))
            .collect();
        let numbers = |(uid, modseq): &(Uid, ModSeq)| (uid.get(), modseq.get());
        assert_eq!(changed.iter().map(numbers).collect::<Vec<_>>(), expected);
    }
    Ok(())
}

fn expected_record(message: &Message) -> Record<'_> {
    Record::from(&HeaderScan::new(&message.header))
}

fn compare_rows(snapshot: &Snapshot, model: &Model) -> Result<(), barid_cache::Error> {
    let (mut name, mut buffer) = (Vec::new(), RecordBuf::default());
    let mut cores = Vec::new();
    snapshot.cores(0..u32::MAX, &mut |row, core| cores.push((row, *core)))?;
    assert_eq!(cores.len(), model.messages.len());
    for (index, message) in model.messages.iter().enumerate() {
        let row = index as u32;
        let core = snapshot.core(row)?;
        assert_eq!(cores[index], (row, core));
        let date = HeaderFields::scan(&message.header).date.and_then(parse_date);
        let sent = date.map_or(message.internal_date.unix_seconds, |date| date.unix_seconds);
        assert_eq!(core.uid.get(), message.uid);
        assert_eq!(core.flags, message.flags, "uid {}", message.uid);
        assert_eq!(core.keywords.0, message.keywords);
        assert_eq!(core.modseq.get(), message.modseq, "uid {}", message.uid);
        assert_eq!(core.internal_date, message.internal_date);
        assert_eq!((core.sent_date.unix_seconds, core.sent_date_own), (sent, date.is_some()));
        assert_eq!(core.size, message.size());
        // The size in CRLF is stored if it is near the stored size.
        let near = |size: &u64| i32::try_from(*size as i64 - core.size as i64).is_ok();
        assert_eq!(core.rfc822_size, message.rfc822_size.filter(near));
        assert_eq!(core.key.0, message.key);
        assert_eq!(core.nameless_location().is_none(), message.name.is_some());
        assert_eq!(snapshot.location(row, &mut name)?, location(message));
        assert_eq!(snapshot.record(row, &mut buffer)?, expected_record(message));
        assert_eq!(snapshot.row_of_physical(snapshot.physical_row(row)), Some(row));
    }
    Ok(())
}

fn compare_known(snapshot: &Snapshot, model: &Model) -> Result<(), barid_cache::Error> {
    let first = snapshot.len() / 3;
    let mut expected = model.messages[first as usize..].iter();
    let visited = snapshot.visit(first, &mut |known| {
        let message = expected.next().unwrap();
        assert_eq!(known.uid.get(), message.uid);
        assert_eq!((known.flags, known.keywords.0), (message.flags, message.keywords));
        assert_eq!(known.location, location(message));
        assert_eq!(known.key.0, message.key);
        true
    });
    match visited {
        Ok(()) => assert_eq!(expected.next(), None),
        Err(error) => return Err(*error.downcast::<barid_cache::Error>().unwrap()),
    }
    Ok(())
}

fn compare_threads(snapshot: &Snapshot, model: &Model) -> Result<(), barid_cache::Error> {
    let seed = snapshot.hash_seed();
    let mut rows = 0;
    snapshot.thread_rows(0..snapshot.len(), &mut |row, view| {
        let message = &model.messages[row as usize];
        let fields = HeaderFields::scan(&message.header);
        let id = fields.message_id.and_then(|raw| message_id(raw, Profile::Rfc));
        assert_eq!(view.message_id, id.map(|id| IdHash::of(seed, &id)));
        let subject = fields.subject.map(|raw| base_subject(raw, Profile::Rfc));
        let base = subject.as_ref().map(|subject| &subject.text).filter(|text| !text.is_empty());
        assert_eq!(view.subject, base.map(|text| IdHash::of(seed, text)));
        assert_eq!(view.is_reply, subject.is_some_and(|subject| subject.is_reply_or_forward));
        assert_eq!(view.references, references(&fields, seed));
        rows += 1;
    })?;
    assert_eq!(rows as usize, model.messages.len());
    Ok(())
}

fn references(fields: &HeaderFields<'_>, seed: u64) -> Vec<IdHash> {
    let ids = |raw: Option<&[u8]>| {
        let mut ids = Vec::new();
        if let Some(raw) = raw {
            message_ids(raw, Profile::Rfc, &mut |id: &[u8]| ids.push(IdHash::of(seed, id)));
        }
        ids
    };
    match ids(fields.references) {
        none if none.is_empty() => ids(fields.in_reply_to).into_iter().take(1).collect(),
        references => references,
    }
}

/// The models of a mailbox at every step of its history: a snapshot must equal that of its stamp.
#[derive(Default)]
pub(crate) struct History(pub(crate) Vec<Model>);

impl History {
    pub(crate) fn note(&mut self, model: &Model) {
        self.0.push(model.clone());
    }

    /// Opens the cache on a disk. Returns `None` if it is absent, unusable, or found to be damaged
    /// while it is read; else the step to which all its values belong.
    pub(crate) fn step_found(&self, vfs: &Arc<dyn Vfs>, rng: &mut fastrand::Rng) -> Option<u64> {
        let opened = Snapshot::open(Arc::clone(vfs), &cache_path(), ID).unwrap();
        let Opened::Fresh(snapshot) = opened else { return None };
        let model = self.model_of(&snapshot);
        match compare(&snapshot, &model, rng) {
            Ok(()) => Some(model.step),
            Err(error) => {
                assert!(error.is_damage(), "{error}");
                None
            }
        }
    }
}

impl History {
    /// Returns the model that a snapshot must equal.
    pub(crate) fn model_of(&self, snapshot: &Snapshot) -> Model {
        let stamp = snapshot.meta().stamp;
        let step = u64::from_le_bytes(stamp.content()[8..16].try_into().unwrap());
        self.0
            .iter()
            .rfind(|model| model.step == step)
            .expect("because a stamp is that of a step")
            .clone()
    }
}

/// Makes a scan that finds no changes; the next step of the history.
pub(crate) fn scan_nothing(
    known: &Snapshot,
    history: &mut History,
    rng: &mut fastrand::Rng,
) -> Snapshot {
    let mut model = history.model_of(known);
    model.step += 1;
    history.note(&model);
    let mut snapshot = known.clone();
    let report = model.report();
    if rng.bool() || report.tail_verified != known.meta().tail_verified {
        let identity = identity();
        let finish = finish(&identity, model.highest_modseq);
        snapshot = Delta::new(known).apply(&report, &finish).unwrap();
    } else {
        snapshot.restamp(report.stamp, &report.state).unwrap();
    }
    snapshot
}

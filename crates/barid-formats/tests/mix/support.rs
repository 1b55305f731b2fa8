//! What these tests share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use barid_formats::{
    ChangeSet, EmptyKnown, Error, FlagChange, Known, KnownMessage, Location, Mailbox, MailboxSpec,
    MovedMessage, NewMessage, ReadAs, ScanContext, ScanReport, ScanSink, ScannedMessage, SinkError,
    Sinks, Stamp, SyncContext, SyncReport,
};
use barid_state::{Access, Identity, Ledger, MessageKey};
use barid_types::{FlagSet, InternalDate, Keyword, KeywordMask, KeywordTable, Uid, UidValidity};
use barid_vfs::{MemVfs, OpenOptions, Vfs};

/// A message as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) uid: Uid,
    pub(super) location: Location<'static>,
    pub(super) size: u64,
    pub(super) date: InternalDate,
    pub(super) flags: FlagSet,
    pub(super) mask: KeywordMask,
    pub(super) key: MessageKey,
}

#[derive(Default)]
struct Collect(Mutex<Vec<(u32, Vec<Message>)>>);

struct Chunk<'a>(u32, Vec<Message>, &'a Collect);

impl Sinks for Collect {
    fn sink(&self, chunk: u32) -> Box<dyn ScanSink + '_> {
        Box::new(Chunk(chunk, Vec::new(), self))
    }
}

impl ScanSink for Chunk<'_> {
    fn message(&mut self, message: &ScannedMessage<'_>) -> Result<(), SinkError> {
        let Location::Span { offset, separator_len, header_len, body_len } = message.location
        else {
            return Err("no span".into());
        };
        self.1.push(Message {
            uid: message.uid.ok_or("no UID")?,
            location: Location::Span { offset, separator_len, header_len, body_len },
            size: message.size,
            date: message.internal_date,
            flags: message.flags,
            mask: message.keywords,
            key: message.key,
        });
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        self.2.0.lock().unwrap().push((self.0, self.1));
        Ok(())
    }
}

/// What a cache knows.
#[derive(Clone, Debug)]
pub(super) struct Cached {
    pub(super) report: ScanReport,
    pub(super) messages: Vec<Message>,
}

impl Known for Cached {
    fn stamp(&self) -> Option<Stamp> {
        Some(self.report.stamp)
    }
    fn state(&self) -> &[u8] {
        &self.report.state
    }
    fn uidvalidity(&self) -> Option<UidValidity> {
        Some(self.report.uidvalidity)
    }
    fn uidnext(&self) -> Option<Uid> {
        Some(self.report.uidnext)
    }
    fn keywords(&self) -> &KeywordTable {
        &self.report.keywords
    }
    fn len(&self) -> u32 {
        self.messages.len() as u32
    }
    fn visit(
        &self,
        first: u32,
        visit: &mut dyn FnMut(&KnownMessage<'_>) -> bool,
    ) -> Result<(), SinkError> {
        for message in self.messages.iter().skip(first as usize) {
            let known = KnownMessage {
                uid: message.uid,
                flags: message.flags,
                keywords: message.mask,
                location: message.location,
                key: message.key,
            };
            if !visit(&known) {
                break;
            }
        }
        Ok(())
    }
}

/// What a message is to the world: its flags, its keywords, its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) flags: FlagSet,
    pub(super) keywords: Vec<String>,
    pub(super) text: Vec<u8>,
}

pub(super) type Contents = BTreeMap<u32, Content>;

/// A mailbox under test.
pub(super) struct MixBox {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) path: PathBuf,
    pub(super) mailbox: Box<dyn Mailbox>,
}

impl MixBox {
    pub(super) fn open(vfs: Arc<dyn Vfs>, path: &Path) -> Self {
        let spec = MailboxSpec::parse(path.to_str().unwrap());
        let mailbox = barid_formats::open(Arc::clone(&vfs), &spec).unwrap();
        assert_eq!(mailbox.format().name(), "mix");
        Self { vfs, path: path.to_owned(), mailbox }
    }

    pub(super) fn scan_with(
        &self,
        known: &dyn Known,
        full_check: bool,
    ) -> Result<(ScanReport, Vec<Message>), Error> {
        let state: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        state.create_dir(Path::new("/state"), 0o700).unwrap();
        let identity = Identity { id: 1, path: self.path.clone(), inode: 1 };
        let mut ledger =
            Ledger::open(state, Path::new("/state"), &identity, Access::ReadWrite).unwrap();
        let mut context = ScanContext {
            ledger: &mut ledger,
            read_only: false,
            full_check,
            threads: 2,
            progress: None,
        };
        let sinks = Collect::default();
        let report = self.mailbox.scan(known, &sinks, &mut context)?;
        let mut chunks = sinks.0.into_inner().unwrap();
        chunks.sort_by_key(|(chunk, _)| *chunk);
        Ok((report, chunks.into_iter().flat_map(|(_, found)| found).collect()))
    }

    /// Scans without knowing anything.
    pub(super) fn scan(&self) -> Cached {
        let (report, messages) = self.scan_with(&EmptyKnown::default(), false).unwrap();
        assert!(report.reset);
        Cached { report, messages }
    }

    /// Scans on what is known; what a cache would know then must be what a whole scan finds.
    pub(super) fn rescan(&self, known: &Cached) -> (ScanReport, Cached) {
        let (report, new) = self.scan_with(known, false).unwrap();
        let mut messages = if report.reset { Vec::new() } else { known.messages.clone() };
        messages.retain(|message| !report.expunged.contains(&message.uid));
        for changed in &report.changed {
            let message = messages.iter_mut().find(|message| message.uid == changed.uid).unwrap();
            (message.flags, message.mask) = (changed.flags, changed.keywords);
        }
        messages.extend(new);
        let cached = Cached { report: report.clone(), messages };
        assert_eq!(self.contents(&cached), self.contents(&self.scan()));
        (report, cached)
    }

    pub(super) fn read(&self, message: &Message) -> Result<Vec<u8>, Error> {
        let mut buffer = Vec::new();
        let header_len = self.mailbox.read(&message.location, ReadAs::Message, &mut buffer)?;
        assert!(header_len <= buffer.len());
        Ok(buffer)
    }

    pub(super) fn try_contents(&self, cached: &Cached) -> Result<Contents, Error> {
        let mut contents = Contents::new();
        for message in &cached.messages {
            let text = self.read(message)?;
            assert_eq!(text.len() as u64, message.size);
            let keywords = cached.report.keywords.select(message.mask);
            let keywords = keywords.map(|keyword| keyword.as_str().to_owned()).collect();
            let content = Content { flags: message.flags, keywords, text };
            assert!(contents.insert(message.uid.get(), content).is_none());
        }
        Ok(contents)
    }

    pub(super) fn contents(&self, cached: &Cached) -> Contents {
        self.try_contents(cached).unwrap()
    }

    pub(super) fn now(&self) -> Contents {
        self.contents(&self.scan())
    }

    pub(super) fn sync(
        &mut self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
    ) -> Result<SyncReport, Error> {
        let known = self.scan();
        self.mailbox.sync(changes, appends, &mut SyncContext::new(&known))
    }

    /// Changes, and follows the change as a cache does: what it knows then must be what is there.
    pub(super) fn sync_following(
        &mut self,
        known: &Cached,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
    ) -> (SyncReport, Cached) {
        let mut moved = Vec::new();
        let mut take = |message: &MovedMessage| moved.push(*message);
        let mut context = SyncContext::new(known);
        context.moved = Some(&mut take);
        let report = self.mailbox.sync(changes, appends, &mut context).unwrap();
        let synced = report.cache.clone().unwrap();
        let mut cached = known.clone();
        cached.messages.retain(|message| !report.expunged.contains(&message.uid));
        for moved in moved {
            let found = cached.messages.iter_mut().find(|message| message.uid == moved.uid);
            let message = found.unwrap();
            (message.flags, message.mask) = (moved.flags, moved.keywords);
            message.location = moved.location;
        }
        cached.report.stamp = synced.stamp;
        cached.report.state = synced.state;
        cached.report.keywords = synced.keywords;
        let (scanned, after) = self.rescan(&cached);
        assert!(!scanned.reset && scanned.changed.is_empty() && scanned.expunged.is_empty());
        assert_eq!(scanned.stats.messages_read, appends.len() as u64);
        assert_eq!(after.report.stamp.files, synced.stamp_after.files);
        (report, after)
    }

    /// All files, by name.
    pub(super) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let dir = self.vfs.open_dir(&self.path).unwrap();
        let mut names = Vec::new();
        dir.list(&mut |name, _| names.push(String::from_utf8(name.to_vec()).unwrap())).unwrap();
        for name in names {
            let bytes = self.vfs.read(&self.path.join(&name), 1 << 30).unwrap();
            files.insert(name, bytes);
        }
        files
    }
}

/// Writes files to a folder.
pub(super) fn write_files<'a>(
    vfs: &dyn Vfs,
    path: &Path,
    files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) {
    vfs.create_dir_all(path, 0o700).unwrap();
    for (name, bytes) in files {
        let options = OpenOptions { truncate: true, ..OpenOptions::create(0o600) };
        let file = vfs.open(&path.join(name), options).unwrap();
        file.write_all_at(bytes, 0).unwrap();
    }
}

/// A mailbox as c-client creates it.
pub(super) fn create(vfs: &Arc<dyn Vfs>, path: &Path) -> MixBox {
    let meta = "S5f000000\r\nV5f000000\r\nL00000000\r\nN5f000000\r\n";
    let files: [(&str, &[u8]); 4] = [
        (".mix5f000000", b""),
        (".mixindex", b""),
        (".mixmeta", meta.as_bytes()),
        (".mixstatus", b""),
    ];
    write_files(&**vfs, path, files);
    MixBox::open(Arc::clone(vfs), path)
}

/// Appends a message as another program does that knows nothing of us; `false` if it refuses the
/// index.
pub(super) fn deliver(mailbox: &MixBox, text: &[u8]) -> bool {
    let files = mailbox.files();
    let read = |name: &str| String::from_utf8_lossy(&files[name]).into_owned();
    let (meta, index, status) = (read(".mixmeta"), read(".mixindex"), read(".mixstatus"));
    let number = |digits: &str| u32::from_str_radix(digits, 16).unwrap();
    let field = |key: char| {
        let line = meta.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        number(line)
    };
    let (mut end, mut last) = (0, 0);
    for line in index.lines().skip(1) {
        let fields: Vec<&str> = line.split(':').collect();
        if line.len() != 75 || fields.len() != 9 || number(fields[1]) <= last {
            return false;
        }
        last = number(fields[1]);
        if number(fields[4]) == field('N') {
            end = end.max(number(fields[5]) + number(fields[6]) + number(fields[3]));
        }
    }
    let current = format!(".mix{:08x}", field('N'));
    let data = files.get(&current).cloned().unwrap_or_default();
    let (current, mut data) = match data.len() >= end as usize {
        true => (current, data),
        false => (format!(".mix{:08x}", field('N') + 9), Vec::new()),
    };
    let (uid, len, pos) = (field('L') + 1, text.len(), data.len());
    let line = format!(":msg:{uid:08x}:20010909014640+0000:{len:08x}:\r\n");
    data.extend_from_slice(line.as_bytes());
    data.extend_from_slice(text);
    let seq = |text: &str| text.get(1..9).map_or(1, number) + 1;
    let rest = |text: &str| text.get(11..).unwrap_or_default().to_owned();
    let (file, line_len) = (&current[4..], line.len());
    let index = format!(
        "S{:08x}\r\n{}:{uid:08x}:20010909014640+0000:{len:08x}:{file}:{pos:08x}:{line_len:08x}:\
         {len:08x}:\r\n",
        seq(&index),
        rest(&index)
    );
    let status = format!(
        "S{:08x}\r\n{}:{uid:08x}:00000000:0000:{:08x}:\r\n",
        seq(&status),
        rest(&status),
        seq(&status)
    );
    let meta = format!(
        "S{:08x}\r\nV{:08x}\r\nL{uid:08x}\r\nN{file}\r\n{}",
        seq(&meta),
        field('V'),
        meta.lines()
            .filter(|line| line.starts_with('K'))
            .map(|k| format!("{k}\r\n"))
            .collect::<String>()
    );
    let files = [
        (current.as_str(), data.as_slice()),
        (".mixmeta", meta.as_bytes()),
        (".mixindex", index.as_bytes()),
        (".mixstatus", status.as_bytes()),
    ];
    write_files(&*mailbox.vfs, &mailbox.path, files);
    true
}

pub(super) fn new_message(bytes: &[u8]) -> NewMessage<'_> {
    NewMessage {
        bytes,
        internal_date: Some(InternalDate { unix_seconds: 1_000_000_000, zone_minutes: 60 }),
        flags: FlagSet::EMPTY,
        keywords: Vec::new(),
        ..NewMessage::default()
    }
}

pub(super) fn uid(number: u32) -> Uid {
    Uid::new(number).unwrap()
}

pub(super) fn keyword(name: &str) -> Keyword {
    Keyword::new(name).unwrap()
}

pub(super) fn add(number: u32, flags: FlagSet, keywords: &[&str]) -> (Uid, FlagChange) {
    let add_keywords = keywords.iter().map(|name| keyword(name)).collect();
    (uid(number), FlagChange { add: flags, add_keywords, ..FlagChange::default() })
}

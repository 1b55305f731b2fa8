//! A mailbox, the operations on it, and the expected damage.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use barid_formats::check::{self, CheckOptions, CheckReport, KeptRepairState};
use barid_formats::{MailboxSpec, MboxOptions};
use barid_mailbox::{
    EmptyKnown, Error, Location, LocationParts, MessageName, ReadAs, ScanContext, ScanSink,
    ScannedMessage, SinkError, Sinks, SyncContext,
};
use barid_state::{Access, Identity, Ledger};
use barid_vfs::{FileType, MemVfs, OpenOptions, Vfs};
use fastrand::Rng;

/// Folder of the bytes that a repair removes.
const SIDE: &str = "/side/1";

/// A kind of damage.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) format: &'static str,
    pub(super) name: &'static str,
    /// Makes a sound mailbox.
    pub(super) build: fn(&mut Rng) -> Box_,
    /// Damages the mailbox and returns the expected damage.
    pub(super) damage: fn(&mut Box_, &mut Rng) -> Expected,
}

/// An expected damage.
#[derive(Debug)]
pub(super) struct Expected {
    kind: &'static str,
    file: String,
    offset: Option<u64>,
    /// The messages that are not whole.
    pub(super) lost: Vec<usize>,
    /// `true` if it cannot be repaired.
    pub(super) is_hopeless: bool,
}

/// Makes an expected damage at an offset of a file.
pub(super) fn expect(kind: &'static str, file: &str, offset: impl Into<Option<u64>>) -> Expected {
    let (file, offset) = (file.to_owned(), offset.into());
    Expected { kind, file, offset, lost: Vec::new(), is_hopeless: false }
}

impl Expected {
    pub(super) fn lost(mut self, lost: impl IntoIterator<Item = usize>) -> Self {
        self.lost.extend(lost);
        self
    }

    pub(super) fn hopeless(mut self) -> Self {
        self.is_hopeless = true;
        self
    }
}

/// A mailbox on a disk.
pub(super) struct Box_ {
    pub(super) disk: MemVfs,
    /// Its name, with its format.
    pub(super) spec: String,
    /// Its folder, or the folder of its file.
    pub(super) folder: PathBuf,
    /// The texts of its messages.
    pub(super) texts: Vec<Vec<u8>>,
}

impl Box_ {
    pub(super) fn new(spec: &str, folder: &str, texts: Vec<Vec<u8>>) -> Self {
        let disk = MemVfs::new();
        for folder in [folder, "/state", "/side"] {
            disk.create_dir_all(Path::new(folder), 0o700).unwrap();
        }
        Self { disk, spec: spec.to_owned(), folder: folder.into(), texts }
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    pub(super) fn get(&self, file: &str) -> Vec<u8> {
        self.disk.read(&self.path(file), 1 << 30).unwrap()
    }

    pub(super) fn put(&self, file: &str, bytes: &[u8]) {
        let path = self.path(file);
        self.disk.create_dir_all(path.parent().unwrap(), 0o700).unwrap();
        let options = OpenOptions { truncate: true, ..OpenOptions::create(0o600) };
        self.disk.open(&path, options).unwrap().write_all_at(bytes, 0).unwrap();
    }

    pub(super) fn patch(&self, file: &str, offset: u64, bytes: &[u8]) {
        let file = self.disk.open(&self.path(file), OpenOptions::WRITE).unwrap();
        file.write_all_at(bytes, offset).unwrap();
    }

    /// Replaces a range of bytes.
    pub(super) fn splice(&self, file: &str, range: std::ops::Range<usize>, bytes: &[u8]) {
        let mut all = self.get(file);
        all.splice(range, bytes.iter().copied());
        self.put(file, &all);
    }

    pub(super) fn remove(&self, file: &str) {
        self.disk.remove_file(&self.path(file)).unwrap();
    }

    /// Returns the offset of a text.
    pub(super) fn find(&self, file: &str, text: &str) -> usize {
        let all = self.get(file);
        let found = all.windows(text.len()).position(|window| window == text.as_bytes());
        found.unwrap_or_else(|| panic!("{text:?} in {file}"))
    }
}

/// A disk and the mailbox on it.
pub(super) struct View {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) spec: MailboxSpec,
}

impl View {
    pub(super) fn of(disk: &MemVfs, spec: &str) -> Self {
        Self { vfs: Arc::new(disk.clone()), spec: MailboxSpec::parse(spec) }
    }

    fn options() -> CheckOptions {
        let lock_timeout = Duration::from_millis(500);
        let mbox = MboxOptions { lock_timeout, ..MboxOptions::default() };
        CheckOptions { mbox, state_dir: Some("/state".into()), ..CheckOptions::default() }
    }

    pub(super) fn check(&self) -> Result<CheckReport, Error> {
        check::check(&self.vfs, &self.spec, &Self::options())
    }

    pub(super) fn repair(&self) -> Result<check::RepairReport, Error> {
        check::repair(&self.vfs, &self.spec, &Self::options(), Path::new(SIDE))
    }

    pub(super) fn undo(&self) -> Result<Option<check::UndoReport>, Error> {
        check::undo(&self.vfs, &self.spec, &Self::options(), Path::new(SIDE))
    }

    /// Returns the states of the stored repairs, the last first.
    pub(super) fn kept(&self) -> Vec<KeptRepairState> {
        let all = check::kept_repairs(&*self.vfs, Path::new(SIDE)).unwrap();
        all.iter().map(|kept| kept.state).collect()
    }

    pub(super) fn discard(&self) -> Result<u64, Error> {
        check::discard_repairs(&*self.vfs, Path::new(SIDE))
    }

    /// Completes a change that a crash has interrupted.
    pub(super) fn recover(&self) -> Result<(), Error> {
        let mailbox = check::open(&self.vfs, &self.spec, &Self::options().mbox)?;
        if mailbox.unfinished(Some(Path::new("/state")))?.is_some() {
            let known = EmptyKnown::default();
            let mut context = SyncContext::new(&known);
            context.state_dir = Some(Path::new("/state"));
            let recovered = mailbox.recover(&mut context)?;
            assert_eq!(recovered.quarantined, None, "nobody else was here");
        }
        Ok(())
    }

    /// Returns the texts of all messages that can be read, in order.
    pub(super) fn texts(&self) -> Result<Vec<Vec<u8>>, Error> {
        let mailbox = barid_formats::open(Arc::clone(&self.vfs), &self.spec)?;
        let state: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        state.create_dir(Path::new("/state"), 0o700).unwrap();
        let identity = Identity { id: 1, path: self.spec.path.clone(), inode: 1 };
        let mut ledger =
            Ledger::open(state, Path::new("/state"), &identity, Access::ReadWrite).unwrap();
        let mut context = ScanContext {
            ledger: &mut ledger,
            read_only: true,
            full_check: true,
            will_rescan: false,
            threads: 1,
            progress: None,
        };
        let sinks = Collect::default();
        mailbox.scan(&EmptyKnown::default(), &sinks, &mut context)?;
        let mut chunks = sinks.0.into_inner().unwrap();
        chunks.sort_by_key(|(chunk, _)| *chunk);
        let places = chunks.into_iter().flat_map(|(_, places)| places);
        let read = |place: Place| {
            let mut bytes = Vec::new();
            mailbox.read(&place.location(), ReadAs::Message, &mut bytes).map(|_| bytes)
        };
        places.map(read).collect()
    }
}

/// An owned location.
enum Place {
    File { name: Vec<u8>, in_new: bool },
    Span(Location<'static>),
}

impl Place {
    fn location(&self) -> Location<'_> {
        match self {
            Self::File { name, in_new } => {
                Location::from(MessageName { name, in_new: *in_new, mark: 0 })
            }
            Self::Span(location) => *location,
        }
    }
}

#[derive(Default)]
struct Collect(Mutex<Vec<(u32, Vec<Place>)>>);

struct Chunk<'a>(u32, Vec<Place>, &'a Collect);

impl Sinks for Collect {
    fn sink(&self, chunk: u32) -> Box<dyn ScanSink + '_> {
        Box::new(Chunk(chunk, Vec::new(), self))
    }
}

impl ScanSink for Chunk<'_> {
    fn message(&mut self, message: &ScannedMessage<'_>) -> Result<(), SinkError> {
        self.1.push(match *message.location.parts() {
            LocationParts::Name(MessageName { name, in_new, .. }) => {
                Place::File { name: name.to_vec(), in_new }
            }
            LocationParts::Extent(extent) => Place::Span(extent.into()),
        });
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        self.2.0.lock().unwrap().push((self.0, self.1));
        Ok(())
    }
}

/// Returns all files below a folder, and the folders.
pub(super) fn image(disk: &MemVfs, folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut image = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let mut names = Vec::new();
        let dir = disk.open_dir(&folder).unwrap();
        dir.list(&mut |name, kind| names.push((name.to_vec(), kind))).unwrap();
        for (name, kind) in names {
            let path = folder.join(String::from_utf8(name).unwrap());
            match kind {
                FileType::Dir => {
                    image.insert(path.clone(), None);
                    folders.push(path);
                }
                _ => {
                    let bytes = disk.read(&path, 1 << 30).unwrap();
                    image.insert(path, Some(bytes));
                }
            }
        }
    }
    image
}

/// Returns the parts of a message that no format changes: its Message-ID and its body.
fn essence(text: &[u8]) -> Vec<u8> {
    let text: Vec<u8> = text.iter().copied().filter(|byte| *byte != b'\r').collect();
    let id = barid_message::field(&text, b"Message-ID").map(|field| field.body.to_vec());
    let body = text[barid_message::body_offset(&text)..].to_vec();
    [id.unwrap_or_default(), b"\n".to_vec(), body].concat()
}

/// Checks that every whole message exists exactly once.
pub(super) fn survivors(view: &View, texts: &[Vec<u8>], lost: &[usize]) -> Result<(), String> {
    let found = view.texts().map_err(|error| format!("it cannot be read: {error}"))?;
    let found: Vec<Vec<u8>> = found.iter().map(|text| essence(text)).collect();
    for (at, text) in texts.iter().enumerate().filter(|(at, _)| !lost.contains(at)) {
        let text = essence(text);
        let count = found.iter().filter(|found| **found == text).count();
        if count != 1 {
            return Err(format!("message {at} is there {count} times"));
        }
    }
    Ok(())
}

/// Damages a mailbox, checks that the damage is found, repairs it, and undoes the repair.
pub(super) fn run(case: &Case, seed: u64) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let mut mailbox = (case.build)(&mut rng);
    let view = View::of(&mailbox.disk, &mailbox.spec);
    let text = |error: Error| error.to_string();
    let sound = view.check().map_err(text)?;
    if !sound.damages.is_empty() || sound.is_repairable {
        return Err(format!("a sound mailbox: {:?}", sound.damages));
    }
    let expected = (case.damage)(&mut mailbox, &mut rng);
    let before = image(&mailbox.disk, &mailbox.folder);
    let found = view.check().map_err(text)?;
    found_as_expected(&found, &expected)?;
    if image(&mailbox.disk, &mailbox.folder) != before {
        return Err("looking has written".to_owned());
    }
    let repaired = view.repair().map_err(text)?;
    if expected.is_hopeless {
        return match repaired.kept {
            None => Ok(()),
            Some(_) => Err("nothing can be done, but something was".to_owned()),
        };
    }
    if repaired.kept.is_none() || repaired.found.damages != found.damages {
        return Err(format!("not repaired: {:?}", repaired.found.damages));
    }
    survivors(&view, &mailbox.texts, &expected.lost)?;
    if view.kept() != [KeptRepairState::Kept] {
        return Err(format!("{:?} are kept", view.kept()));
    }
    let again = view.check().map_err(text)?;
    if again.is_repairable {
        return Err(format!("something is still to be done: {:?}", again.damages));
    }
    let undone = view.undo().map_err(text)?;
    if undone.is_none() || image(&mailbox.disk, &mailbox.folder) != before {
        return Err("undone, but it is not what it was".to_owned());
    }
    if view.undo().map_err(text)?.is_some() || view.kept() != [KeptRepairState::Undone] {
        return Err("undone twice".to_owned());
    }
    match (view.discard().map_err(text)?, view.kept().len()) {
        (1, 0) => Ok(()),
        left => Err(format!("forgotten and left: {left:?}")),
    }
}

fn found_as_expected(found: &CheckReport, expected: &Expected) -> Result<(), String> {
    let is_it = |damage: &&check::Damage| {
        damage.kind == expected.kind
            && damage.file.ends_with(&expected.file)
            && (expected.offset.is_none() || damage.offset == expected.offset)
            && damage.repair.is_none() == expected.is_hopeless
            && !damage.what.is_empty()
    };
    match found.damages.iter().find(is_it) {
        Some(_) => Ok(()),
        None => Err(format!("{expected:?} not found: {:#?}", found.damages)),
    }
}

/// Returns some messages with this line end.
pub(super) fn texts(rng: &mut Rng, line_end: &str) -> Vec<Vec<u8>> {
    let count = rng.usize(4..9);
    let text = |number: usize, rng: &mut Rng| {
        let lines = rng.usize(1..30);
        let body: String = (0..lines).map(|line| format!("line {line} of {number}\n")).collect();
        let head = format!(
            "Date: Tue, {} Jan 2019 10:00:00 +0000\nFrom: ann@example.org\nSubject: {number}\n\
             Message-ID: <{number}.{}@example.org>\n\n",
            number + 1,
            rng.u32(..),
        );
        (head + &body).replace('\n', line_end).into_bytes()
    };
    (0..count).map(|number| text(number, rng)).collect()
}

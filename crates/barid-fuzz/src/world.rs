//! Mailboxes in memory, with cache and state, of which one file is replaced by an input.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::fetch::FetchItems;
use barid::query::SearchProgram;
use barid::{
    CacheOptions, ChangeOptions, ChangeRequest, Compression, CreateOptions, Flag, FlagChange,
    FlagSet, FormatName, KeepExpunged, KeepLimits, Keyword, Mailbox, MailboxSpec, NewMessage,
    OpenOptions, ReadAs, SortProgram, ThreadAlgorithm, Uid, UidSet, Window, WriteWhen, check,
};
use barid_vfs::{
    Fault, FaultVfs, FileType, Host, MemVfs, OpenOptions as FileOptions, Timestamp, Vfs,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::seeds;

/// Time of the first opening: 2023-11-14.
const START_NANOS: i64 = 1_700_000_000_000_000_000;
/// Long enough for every stamp to be old.
const QUIET_NANOS: i64 = 5_000_000_000;
/// Greatest length of a file of a world.
const FILE_LEN_MAX: u64 = 8 << 20;
/// Number of messages of a mailbox.
const MESSAGES: usize = 7;
/// Most calls of a change before which the disk is made to fail.
const CALLS_MAX: u64 = 2_000;
/// Most times that a cache is rebuilt for one answer.
const HEALINGS_MAX: usize = 4;
/// Folder of the mailbox, the caches and the states.
const FOLDERS: [&str; 3] = ["/mail", "/cache", "/state"];
const BOX: &str = "/mail/box";

/// A file system with one mailbox.
#[derive(Clone, Debug)]
pub(crate) struct World {
    memory: MemVfs,
    spec: MailboxSpec,
}

impl World {
    /// Creates an empty file system; `spec` names a mailbox at `/mail/box`.
    pub(crate) fn empty(spec: &str) -> Self {
        let memory = MemVfs::new();
        memory.set_now(Timestamp { unix_nanos: START_NANOS });
        for folder in FOLDERS {
            memory.create_dir(Path::new(folder), 0o700).expect("because the disk is empty");
        }
        Self { memory, spec: MailboxSpec::parse(spec) }
    }

    /// Creates a mailbox of a format with everything that a mailbox can have: messages with flags
    /// and keywords, a cache with derived columns, a ledger, kept expunges, pending changes.
    pub(crate) fn new(format: &str) -> Self {
        let world = Self::empty(&format!("{format}:{BOX}"));
        world.fill(format).expect("because a disk in memory does not fail");
        world.wait();
        world
    }

    fn fill(&self, format: &str) -> barid::Result<()> {
        let name = FormatName::named(format).expect("because the formats are registered");
        let (vfs, path) = (self.vfs(), Path::new(BOX));
        let options = CreateOptions::default();
        barid::create(&vfs, path, name.format(), &options, Path::new("/state"))?;
        let mut mailbox = self.open(&self.options())?;
        let messages = seeds::messages();
        let appends: Vec<_> =
            messages.iter().step_by(2).take(MESSAGES).map(|m| new_message(m)).collect();
        let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        let uids = mailbox.change(&request, &ChangeOptions::default())?.appended;
        self.wait();
        mailbox.refresh()?;
        drop(all_answers(&mut mailbox));
        let expunge = ChangeRequest { expunge: uids[1..3].to_vec(), ..ChangeRequest::default() };
        mailbox.change(&expunge, &keeping())?;
        let later = ChangeOptions { write: WriteWhen::Pending, ..ChangeOptions::default() };
        mailbox.change(&flag_request(&uids[3..5]), &later)?;
        self.wait();
        drop(all_answers(&mut self.open(&self.options())?));
        Ok(())
    }

    /// Returns the world as another one, in which a change of the mailbox was interrupted when it
    /// was halfway: with a journal.
    pub(crate) fn interrupted(&self) -> Option<Self> {
        let mut found = Vec::new();
        for call in 0..CALLS_MAX {
            let world = Self { memory: self.memory.snapshot(), spec: self.spec.clone() };
            let vfs = FaultVfs::new(world.memory.clone(), Fault::nth(call).forever());
            let mailbox = Mailbox::open_in(Arc::new(vfs.clone()), &world.spec, &world.options());
            if let Ok(mut mailbox) = mailbox {
                let uids = first_uids(&mailbox, 2);
                let flags = flag_request(&uids[uids.len().min(1)..]).flags;
                let expunge = uids.into_iter().take(1).collect();
                let request = ChangeRequest { flags, expunge, ..ChangeRequest::default() };
                // It fails, sooner or later.
                drop(mailbox.change(&request, &keeping()));
            }
            if !vfs.fired() {
                break;
            }
            if world.path_with("journal").is_some_and(|path| !world.bytes(&path).is_empty()) {
                world.wait();
                found.push(world);
            }
        }
        let middle = found.len() / 2;
        found.into_iter().nth(middle)
    }

    pub(crate) fn vfs(&self) -> Arc<dyn Vfs> {
        Arc::new(self.memory.clone())
    }

    /// Lets time pass until stamps are old.
    fn wait(&self) {
        let now = self.memory.now().unix_nanos;
        self.memory.set_now(Timestamp { unix_nanos: now + QUIET_NANOS });
    }

    /// Returns the name of the mailbox.
    pub(crate) fn spec(&self) -> &MailboxSpec {
        &self.spec
    }

    /// Returns the options with which the mailbox is opened.
    pub(crate) fn options(&self) -> OpenOptions {
        OpenOptions { threads: 1, ..OpenOptions::new(Some("/cache".into()), "/state".into()) }
    }

    fn without_cache(&self) -> OpenOptions {
        OpenOptions { cache_dir: None, spill_dir: None, ..self.options() }
    }

    /// Opens the mailbox.
    pub(crate) fn open(&self, options: &OpenOptions) -> barid::Result<Mailbox> {
        Mailbox::open_in(self.vfs(), &self.spec, options)
    }

    /// Rewrites the cache with another compression.
    pub(crate) fn compressed(self, compression: &str) -> Self {
        let compression: Compression = compression.parse().expect("because it is a method");
        let native = CacheOptions::default().store;
        let options =
            OpenOptions { compression: Some(compression), store: Some(native), ..self.options() };
        let mailbox = self.open(&options).expect("because a disk in memory does not fail");
        drop(mailbox);
        self
    }

    /// Returns all files, in the order of their paths.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let (mut files, mut folders) = (Vec::new(), vec![PathBuf::from("/")]);
        while let Some(folder) = folders.pop() {
            let listed = self.memory.open_dir(&folder).and_then(|dir| {
                dir.list(&mut |name, file_type| {
                    let path = folder.join(String::from_utf8_lossy(name).as_ref());
                    match file_type {
                        FileType::Dir => folders.push(path),
                        _ => files.push(path),
                    }
                })
            });
            listed.expect("because a disk in memory does not fail");
        }
        files.sort();
        files
    }

    /// Returns the first file with a text in its path.
    pub(crate) fn path_with(&self, text: &str) -> Option<PathBuf> {
        let is_it =
            |path: &&PathBuf| path.to_string_lossy().contains(text) && !self.bytes(path).is_empty();
        self.files().iter().find(is_it).cloned()
    }

    /// Returns the first file with a text in its path, which must exist.
    pub(crate) fn path(&self, text: &str) -> PathBuf {
        self.path_with(text).unwrap_or_else(|| panic!("no {text} in {:?}", self.files()))
    }

    /// Returns the content of a file.
    pub(crate) fn bytes(&self, path: &Path) -> Vec<u8> {
        self.memory.read(path, FILE_LEN_MAX).unwrap_or_default()
    }

    /// Returns a copy in which a file has another content, or exists.
    pub(crate) fn with(&self, path: &Path, bytes: &[u8]) -> Self {
        let copy = Self { memory: self.memory.snapshot(), spec: self.spec.clone() };
        let made = copy.memory.open(path, FileOptions::create(0o600));
        let file = made.expect("because a disk in memory does not fail");
        file.set_len(0).and_then(|()| file.write_all_at(bytes, 0)).expect("because it is open");
        drop(file);
        copy.wait();
        copy
    }

    /// Returns all that a mailbox answers, with the cache or without; `None` if it cannot be
    /// opened, or its messages cannot be read.
    pub(crate) fn answers(&self, with_cache: bool) -> Option<String> {
        let copy = Self { memory: self.memory.snapshot(), spec: self.spec.clone() };
        let options = if with_cache { copy.options() } else { copy.without_cache() };
        if with_cache {
            // It writes the cache that the second opening reads.
            drop(copy.open(&options));
        }
        let mut mailbox = copy.open(&options).ok()?;
        for _ in 0..HEALINGS_MAX {
            match all_answers(&mut mailbox) {
                Ok(answers) => return Some(answers),
                Err(error) => mailbox.heal(error).ok()?,
            }
        }
        panic!("the cache is damaged after it was made anew")
    }

    /// Asserts that the mailbox answers with its cache as without one: no answer depends on the
    /// cache. That holds unless another program has changed a message in its place.
    pub(crate) fn answers_alike(&self) {
        assert_eq!(self.answers(true), self.answers(false), "with the cache, and without");
    }

    /// Opens the mailbox, asks everything, changes it, takes that back, checks and repairs it, and
    /// opens it once more. Errors are answers, too.
    pub(crate) fn exercise(&self) {
        for _ in 0..2 {
            drop(self.open(&self.options()).and_then(|mut mailbox| all_answers(&mut mailbox)));
            self.wait();
        }
        if let Ok(mut mailbox) = self.open(&self.options()) {
            drop(change(&mut mailbox));
        }
        let (vfs, options) = (self.vfs(), self.options());
        drop(check::check(&vfs, &self.spec, &options));
        if check::repair(&vfs, &self.spec, &options).is_ok() {
            drop(self.open(&options).and_then(|mut mailbox| all_answers(&mut mailbox)));
            drop(check::undo_repair(&vfs, &self.spec, &options));
        }
    }
}

fn new_message(bytes: &[u8]) -> NewMessage<'_> {
    let flags = FlagSet::from_bits(bytes.len() as u8 & 0x1f);
    let keywords =
        Keyword::new("todo").into_iter().filter(|_| bytes.len().is_multiple_of(2)).collect();
    NewMessage { bytes, flags, keywords, ..NewMessage::default() }
}

fn keeping() -> ChangeOptions {
    let keep_expunged = KeepExpunged::WherePossible(KeepLimits::default());
    ChangeOptions { keep_expunged, ..ChangeOptions::default() }
}

fn flag_request(uids: &[Uid]) -> ChangeRequest<'static> {
    let mut request = ChangeRequest::default();
    let change = FlagChange {
        add: FlagSet::EMPTY.with(Flag::Flagged),
        remove: FlagSet::EMPTY.with(Flag::Seen),
        add_keywords: Keyword::new("later").into_iter().collect(),
        remove_keywords: Vec::new(),
    };
    request.flags.push_all(uids.iter().copied(), &change);
    request
}

fn first_uids(mailbox: &Mailbox, count: usize) -> Vec<Uid> {
    let uids = mailbox.uids().unwrap_or_default();
    uids.into_iter().take(count).filter_map(Uid::new).collect()
}

/// Flags, appends, expunges, writes what is pending, and takes the expunge back.
fn change(mailbox: &mut Mailbox) -> barid::Result<()> {
    let message = new_message(seeds::SEARCHED);
    let append = ChangeRequest { appends: &[message], ..ChangeRequest::default() };
    drop(mailbox.change(&append, &ChangeOptions::default()));
    drop(mailbox.change(&flag_request(&first_uids(mailbox, 1)), &ChangeOptions::default()));
    drop(mailbox.sync(&ChangeOptions::default()));
    let expunge = first_uids(mailbox, 2).into_iter().rev().take(1).collect();
    let request = ChangeRequest { expunge, ..ChangeRequest::default() };
    mailbox.change(&request, &keeping())?;
    drop(mailbox.kept_expunges());
    mailbox.undo(&ChangeOptions::default())?;
    all_answers(mailbox).map(drop)
}

/// Asks everything that a mailbox answers.
fn all_answers(mailbox: &mut Mailbox) -> barid::Result<String> {
    let mut out = String::new();
    let rows: Vec<u32> = (0..mailbox.len()).collect();
    let mut uids = Vec::new();
    mailbox.summaries(&rows, &mut |message| {
        uids.push(message.uid);
        let names: Vec<_> = message.keyword_names().collect();
        // Writing to a text does not fail.
        let _ = writeln!(
            out,
            "{} {:?} {names:?} {:?} {:?} {} {:?}",
            message.uid,
            message.flags,
            message.internal_date,
            message.sent_date,
            message.size,
            message.fields.subject,
        );
        true
    })?;
    for keys in ["date", "subject,reverse:arrival", "display-from,size"] {
        let program = keys.parse::<SortProgram>().expect("because these keys exist");
        let _ = writeln!(out, "{:?}", mailbox.sorted(&program, Window::Last(u32::MAX))?.rows);
    }
    for algorithm in [ThreadAlgorithm::References, ThreadAlgorithm::Refs] {
        let mut threads = Vec::new();
        mailbox.threads(algorithm)?.write_imap(|row| row + 1, &mut threads);
        let _ = writeln!(out, "{}", String::from_utf8_lossy(&threads));
    }
    let found = mailbox.search(&SearchProgram::all(), &UidSet::new())?;
    let _ = writeln!(out, "{:?}", found.rows);
    let items =
        FetchItems::parse("(RFC822.SIZE BODYSTRUCTURE ENVELOPE EMAILID PREVIEW BODY.PEEK[1])");
    let items = items.expect("because these items exist");
    let mut fetched = Vec::new();
    mailbox.fetch(&uids, &items, &|message, out| message.write_imap(out), &mut |bytes| {
        fetched.extend_from_slice(bytes);
        true
    })?;
    let _ = writeln!(out, "{:x}", xxh3_64(&fetched));
    for uid in uids {
        let text = mailbox.read(uid, ReadAs::Message).map(|message| xxh3_64(&message.bytes));
        let _ = writeln!(out, "{uid} {:x?}", text.ok());
    }
    Ok(out)
}

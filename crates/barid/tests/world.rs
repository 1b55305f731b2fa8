//! A mailbox in memory, changed as other programs change it, and opened by the library.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use barid::{FlagSet, InternalDate, Mailbox, MailboxSpec, OpenOptions, SortProgram};
use barid::{ThreadAlgorithm, Window};
use barid_testkit::boxes::{MboxOptions, MboxVariant, maildir_name};
use barid_testkit::corpus::{Corpus, GeneratedMessage};
use barid_vfs::{CountingVfs, File, Host as _, MemVfs, OpenOptions as FileOptions, Timestamp, Vfs};

/// A time after which every stamp is old, in nanoseconds.
const QUIET: i64 = 5_000_000_000;

/// A file system with one mailbox, a cache folder and a state folder.
pub(crate) struct World {
    pub(crate) memory: MemVfs,
    pub(crate) vfs: CountingVfs<MemVfs>,
    pub(crate) spec: MailboxSpec,
    pub(crate) corpus: Corpus,
    delivered: u64,
}

/// All reported properties of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) uid: u32,
    pub(crate) flags: FlagSet,
    pub(crate) keywords: Vec<String>,
    pub(crate) internal_date: InternalDate,
    pub(crate) sent_date: Option<i64>,
    pub(crate) size: u64,
    pub(crate) subject: Vec<u8>,
    pub(crate) from: Vec<u8>,
    pub(crate) message_id: Vec<u8>,
    pub(crate) references: Vec<u8>,
}

impl World {
    fn new(spec: &str, seed: u64) -> Self {
        let memory = MemVfs::new();
        memory.set_now(Timestamp { unix_nanos: 1_700_000_000_000_000_000 });
        memory.set_tick(Duration::from_micros(10));
        memory.create_dir(Path::new("/mail"), 0o700).unwrap();
        let vfs = CountingVfs::new(memory.clone());
        let corpus = Corpus::new(seed, 1_000_000);
        Self { memory, vfs, spec: MailboxSpec::parse(spec), corpus, delivered: 0 }
    }

    pub(crate) fn maildir(seed: u64) -> Self {
        let world = Self::new("/mail/box", seed);
        for folder in ["", "cur", "new", "tmp"] {
            world.memory.create_dir(&world.path().join(folder), 0o700).unwrap();
        }
        world
    }

    pub(crate) fn mbox(seed: u64) -> Self {
        let world = Self::new("mbox:/mail/box", seed);
        world.memory.open(world.path(), FileOptions::create(0o600)).unwrap();
        world
    }

    pub(crate) fn path(&self) -> &Path {
        &self.spec.path
    }

    pub(crate) fn is_maildir(&self) -> bool {
        self.memory.metadata(&self.path().join("cur")).is_ok()
    }

    /// Lets time pass until stamps are old.
    pub(crate) fn wait(&self) {
        let now = self.memory.now().unix_nanos;
        self.memory.set_now(Timestamp { unix_nanos: now + QUIET });
    }

    pub(crate) fn next_message(&mut self) -> GeneratedMessage {
        self.delivered += 1;
        self.corpus.message(self.delivered - 1)
    }

    /// Delivers `count` messages as a delivery agent does.
    pub(crate) fn deliver(&mut self, count: u64) {
        let is_maildir = self.is_maildir();
        let mut appended = Vec::new();
        for _ in 0..count {
            let message = self.next_message();
            if is_maildir {
                let name = maildir_name(self.delivered, &message);
                let path = self.path().join("new").join(name);
                let file = self.memory.open(&path, FileOptions::create_new(0o600)).unwrap();
                file.write_all_at(&message.bytes, 0).unwrap();
            } else {
                MboxOptions { status: false, ..MboxOptions::new(MboxVariant::Mboxrd) }
                    .render(&message, &mut appended);
            }
        }
        if !is_maildir {
            let file = self.mbox_file();
            let end = file.metadata().unwrap().size;
            file.write_all_at(&appended, end).unwrap();
        }
    }

    fn mbox_file(&self) -> Box<dyn File> {
        self.memory.open(self.path(), FileOptions::WRITE).unwrap()
    }

    pub(crate) fn read_mbox(&self) -> Vec<u8> {
        self.memory.read(self.path(), u64::MAX).unwrap()
    }

    pub(crate) fn write_mbox(&self, bytes: &[u8]) {
        let file = self.mbox_file();
        file.set_len(0).unwrap();
        file.write_all_at(bytes, 0).unwrap();
    }

    /// Returns the files of the Maildir, sorted.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for folder in ["cur", "new"] {
            let folder = self.path().join(folder);
            let dir = self.memory.open_dir(&folder).unwrap();
            let mut add = |name: &[u8], _| {
                files.push(folder.join(String::from_utf8(name.to_vec()).unwrap()));
            };
            dir.list(&mut add).unwrap();
        }
        files.sort();
        files
    }

    pub(crate) fn options(&self) -> OpenOptions {
        OpenOptions { threads: 2, ..OpenOptions::new(Some("/cache".into()), "/state".into()) }
    }

    pub(crate) fn open(&self) -> Mailbox {
        self.open_with(&self.options())
    }

    pub(crate) fn open_with(&self, options: &OpenOptions) -> Mailbox {
        Mailbox::open_in(Arc::new(self.vfs.clone()), &self.spec, options).unwrap()
    }

    /// Opens it without a cache, but with the ledger.
    pub(crate) fn open_from_scratch(&self) -> Mailbox {
        self.open_with(&OpenOptions { cache_dir: None, ..self.options() })
    }
}

/// Returns all reported properties of the messages of a mailbox.
pub(crate) fn told(mailbox: &Mailbox) -> Vec<Told> {
    let rows: Vec<u32> = (0..mailbox.len()).collect();
    let mut all = Vec::new();
    let bytes = |field: Option<&[u8]>| field.unwrap_or_default().to_vec();
    mailbox
        .summaries(&rows, &mut |message| {
            let mut keywords: Vec<_> = message.keyword_names().map(str::to_owned).collect();
            keywords.sort();
            all.push(Told {
                uid: message.uid.get(),
                flags: message.flags,
                keywords,
                internal_date: message.internal_date,
                sent_date: message.sent_date.map(|date| date.unix_seconds),
                size: message.size,
                subject: bytes(message.fields.subject),
                from: bytes(message.fields.from),
                message_id: bytes(message.fields.message_id),
                references: bytes(message.fields.references),
            });
            true
        })
        .unwrap();
    all
}

/// Returns every sort order and every threading.
pub(crate) fn orders(mailbox: &mut Mailbox) -> Vec<(String, Vec<u32>)> {
    let mut orders = Vec::new();
    for keys in ["arrival", "date", "reverse:date", "subject", "from", "to", "cc", "size"] {
        let program = SortProgram::parse([keys]).unwrap();
        let rows = mailbox.sorted(&program, Window::All).unwrap().rows;
        let last = mailbox.sorted(&program, Window::Last(7)).unwrap().rows;
        assert_eq!(last, rows[rows.len().saturating_sub(7)..], "{keys}, the last");
        let first = mailbox.sorted(&program, Window::First(7)).unwrap().rows;
        assert_eq!(first, rows[..rows.len().min(7)], "{keys}, the first");
        orders.push((keys.to_owned(), rows));
    }
    let algorithms =
        [ThreadAlgorithm::References, ThreadAlgorithm::Refs, ThreadAlgorithm::OrderedSubject];
    for algorithm in algorithms {
        let nodes = mailbox.threads(algorithm).unwrap();
        let flat = nodes.nodes().flat_map(|node| [node.row.unwrap_or(u32::MAX), node.depth]);
        orders.push((algorithm.to_string(), flat.collect()));
    }
    orders
}

//! A mailbox in memory, with a cache folder and a state folder.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use barid::vfs::{Host as _, MemVfs, OpenOptions as FileOptions, Timestamp, Vfs as _};
use barid::{Mailbox, MailboxSpec, OpenOptions};
use barid_testkit::boxes::{MboxOptions, MboxVariant, maildir_name};
use barid_testkit::corpus::Corpus;

/// A time after which every stamp is old, in nanoseconds.
const QUIET: i64 = 5_000_000_000;

/// A file system with one mailbox, to which generated messages are delivered.
pub(crate) struct World {
    pub(crate) memory: MemVfs,
    spec: MailboxSpec,
    corpus: Corpus,
    delivered: u64,
}

impl World {
    fn new(spec: &str, seed: u64) -> Self {
        let memory = MemVfs::new();
        memory.set_now(Timestamp { unix_nanos: 1_700_000_000_000_000_000 });
        memory.set_tick(Duration::from_micros(10));
        memory.create_dir(Path::new("/mail"), 0o700).unwrap();
        let corpus = Corpus::new(seed, 1_000_000);
        Self { memory, spec: MailboxSpec::parse(spec), corpus, delivered: 0 }
    }

    pub(crate) fn maildir(seed: u64) -> Self {
        let world = Self::new("maildir:/mail/box", seed);
        for folder in ["", "cur", "new", "tmp"] {
            world.memory.create_dir(&world.spec.path.join(folder), 0o700).unwrap();
        }
        world
    }

    pub(crate) fn mbox(seed: u64) -> Self {
        let world = Self::new("mbox:/mail/box", seed);
        world.memory.open(&world.spec.path, FileOptions::create(0o600)).unwrap();
        world
    }

    /// Lets time pass until stamps are old.
    pub(crate) fn wait(&self) {
        let now = self.memory.now().unix_nanos;
        self.memory.set_now(Timestamp { unix_nanos: now + QUIET });
    }

    /// Delivers `count` messages as a delivery agent does.
    pub(crate) fn deliver(&mut self, count: u64) {
        let path = &self.spec.path;
        let mut appended = Vec::new();
        for _ in 0..count {
            let message = self.corpus.message(self.delivered);
            self.delivered += 1;
            if self.memory.metadata(&path.join("new")).is_ok() {
                let path = path.join("new").join(maildir_name(self.delivered, &message));
                let file = self.memory.open(&path, FileOptions::create_new(0o600)).unwrap();
                file.write_all_at(&message.bytes, 0).unwrap();
            } else {
                MboxOptions { status: false, ..MboxOptions::new(MboxVariant::Mboxrd) }
                    .render(&message, &mut appended);
            }
        }
        if !appended.is_empty() {
            let file = self.memory.open(path, FileOptions::WRITE).unwrap();
            file.write_all_at(&appended, file.metadata().unwrap().size).unwrap();
        }
    }

    /// Returns the new files of the Maildir that were delivered, sorted.
    pub(crate) fn new_files(&self) -> Vec<PathBuf> {
        let folder = self.spec.path.join("new");
        let mut files = Vec::new();
        let mut add = |name: &[u8], _| files.push(folder.join(OsStr::from_bytes(name)));
        self.memory.open_dir(&folder).unwrap().list(&mut add).unwrap();
        files.sort();
        files
    }

    pub(crate) fn options(&self) -> OpenOptions {
        OpenOptions { threads: 2, ..OpenOptions::new(Some("/cache".into()), "/state".into()) }
    }

    pub(crate) fn open(&self) -> Mailbox {
        Mailbox::open_in(Arc::new(self.memory.clone()), &self.spec, &self.options()).unwrap()
    }
}

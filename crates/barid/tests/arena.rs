//! A mailbox that is changed, and its expected content.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::{
    ChangeOptions, ChangeRequest, Changed, Flag, FlagChange, FlagSet, Format, FormatName,
    InternalDate, KeepExpunged, KeepLimits, Keyword, Mailbox, MailboxSpec, NewMessage, OpenOptions,
    ReadAs, Uid, WriteWhen,
};
use barid_testkit::boxes::{MboxOptions, MboxVariant, maildir_name};
use barid_testkit::corpus::Corpus;
use barid_vfs::{MemVfs, OpenOptions as FileOptions, Timestamp, Vfs};

/// Keywords that tests use.
pub(crate) const KEYWORDS: [&str; 4] = ["Junk", "todo", "$Forwarded", "x-long-keyword-name"];

/// The formats that can be changed.
pub(crate) const FORMATS: [&str; 2] = ["maildir", "mboxrd"];

/// Returns the format with a name.
pub(crate) fn format_named(name: &str) -> Format {
    FormatName::named(name).unwrap().format()
}

/// A mailbox on some file system.
pub(crate) struct Arena {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) root: PathBuf,
    pub(crate) spec: MailboxSpec,
    pub(crate) is_maildir: bool,
    pub(crate) corpus: Corpus,
    pub(crate) delivered: u64,
}

/// An expected message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) uid: u32,
    /// Its number in the corpus.
    pub(crate) number: u64,
    pub(crate) flags: FlagSet,
    pub(crate) keywords: BTreeSet<String>,
    pub(crate) date: i64,
}

/// A message as a mailbox reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) uid: u32,
    pub(crate) flags: FlagSet,
    pub(crate) keywords: BTreeSet<String>,
    pub(crate) date: i64,
}

impl Expected {
    pub(crate) fn found(&self) -> Found {
        let Self { uid, flags, date, .. } = *self;
        Found { uid, flags, keywords: self.keywords.clone(), date }
    }

    pub(crate) fn apply(&mut self, change: &FlagChange) {
        let bits = (self.flags.bits() | change.add.bits()) & !change.remove.bits();
        self.flags = FlagSet::from_bits(bits);
        let names = |keywords: &[Keyword]| -> Vec<String> {
            keywords.iter().map(|keyword| keyword.as_str().to_owned()).collect()
        };
        self.keywords.extend(names(&change.add_keywords));
        for name in names(&change.remove_keywords) {
            self.keywords.remove(&name);
        }
    }
}

/// Returns a file system in memory whose clock runs.
pub(crate) fn memory() -> MemVfs {
    let memory = MemVfs::new();
    memory.set_now(Timestamp { unix_nanos: 1_700_000_000_123_456_789 });
    memory.set_tick(std::time::Duration::from_micros(10));
    memory
}

impl Arena {
    /// Creates an empty mailbox of `format` below `root`, which exists.
    pub(crate) fn new(vfs: Arc<dyn Vfs>, root: &Path, format: &str, seed: u64) -> Self {
        let spec = MailboxSpec::parse(&format!("{format}:{}", root.join("box").display()));
        let is_maildir = format == "maildir";
        if is_maildir {
            for folder in ["", "cur", "new", "tmp"] {
                vfs.create_dir(&spec.path.join(folder), 0o700).unwrap();
            }
        } else {
            vfs.open(&spec.path, FileOptions::create(0o600)).unwrap();
        }
        let corpus = Corpus::new(seed, 1_000_000);
        Self { vfs, root: root.to_owned(), spec, is_maildir, corpus, delivered: 0 }
    }

    pub(crate) fn in_memory(format: &str, seed: u64) -> Self {
        Self::new(Arc::new(memory()), Path::new("/"), format, seed)
    }

    /// Returns the same mailbox on another file system.
    pub(crate) fn on(&self, vfs: Arc<dyn Vfs>) -> Self {
        Self {
            vfs,
            root: self.root.clone(),
            spec: self.spec.clone(),
            corpus: self.corpus.clone(),
            ..*self
        }
    }

    pub(crate) fn options(&self) -> OpenOptions {
        let cache = Some(self.root.join("cache"));
        OpenOptions { threads: 1, ..OpenOptions::new(cache, self.root.join("state")) }
    }

    pub(crate) fn try_open(&self, options: &OpenOptions) -> barid::Result<Mailbox> {
        Mailbox::open_in(Arc::clone(&self.vfs), &self.spec, options)
    }

    pub(crate) fn open(&self) -> Mailbox {
        self.try_open(&self.options()).unwrap()
    }

    pub(crate) fn open_without_cache(&self) -> Mailbox {
        self.try_open(&OpenOptions { cache_dir: None, ..self.options() }).unwrap()
    }

    /// Returns the bytes of the mbox, or the names of the files of the Maildir.
    pub(crate) fn content(&self) -> Vec<u8> {
        if !self.is_maildir {
            return self.vfs.read(&self.spec.path, u64::MAX).unwrap();
        }
        let mut names = Vec::new();
        for folder in ["cur", "new"] {
            let dir = self.vfs.open_dir(&self.spec.path.join(folder)).unwrap();
            let mut found = BTreeSet::new();
            dir.list(&mut |name, _| found.extend([name.to_vec()])).unwrap();
            names.extend(
                found.into_iter().flat_map(|name| [folder.as_bytes(), b"/", &name, b"\n"].concat()),
            );
        }
        names
    }

    /// Returns the bytes of a message of the corpus; every one is different.
    pub(crate) fn text(&self, number: u64) -> Vec<u8> {
        self.corpus.message(number).bytes
    }

    /// Delivers messages as a delivery agent does; they have no flags. Returns their numbers.
    pub(crate) fn deliver(&mut self, count: u64) -> std::ops::Range<u64> {
        let first = self.delivered;
        let mut appended = Vec::new();
        for number in first..first + count {
            let message = self.corpus.message(number);
            if self.is_maildir {
                let path = self.spec.path.join("new").join(maildir_name(number, &message));
                let file = self.vfs.open(&path, FileOptions::create_new(0o600)).unwrap();
                file.write_all_at(&message.bytes, 0).unwrap();
                let time = Timestamp { unix_nanos: message.date * 1_000_000_000 };
                self.vfs.set_times(&path, time, time).unwrap();
            } else {
                MboxOptions { status: false, ..MboxOptions::new(MboxVariant::Mboxrd) }
                    .render(&message, &mut appended);
            }
        }
        if !self.is_maildir {
            let file = self.vfs.open(&self.spec.path, FileOptions::WRITE).unwrap();
            let end = file.metadata().unwrap().size;
            file.write_all_at(&appended, end).unwrap();
        }
        self.delivered += count;
        first..self.delivered
    }

    /// Appends messages with flags through the library.
    pub(crate) fn append(
        &mut self,
        mailbox: &mut Mailbox,
        extra: Vec<(FlagSet, Vec<Keyword>)>,
    ) -> (Changed, Vec<Expected>) {
        let first = self.delivered;
        self.delivered += extra.len() as u64;
        let messages: Vec<_> =
            (first..self.delivered).map(|number| self.corpus.message(number)).collect();
        let new = messages.iter().zip(&extra).map(|(message, (flags, keywords))| NewMessage {
            bytes: &message.bytes,
            internal_date: Some(InternalDate { unix_seconds: message.date, zone_minutes: 0 }),
            flags: *flags,
            keywords: keywords.clone(),
            sender: Some(&message.sender),
            stored: None,
            uid: None,
            uidnext: None,
            rest: None,
        });
        let appends: Vec<NewMessage<'_>> = new.collect();
        let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        let changed = mailbox.change(&request, &ChangeOptions::default()).unwrap();
        assert_eq!(changed.appended.len(), extra.len());
        let expected = (first..).zip(&messages).zip(extra).zip(&changed.appended);
        let expected = expected.map(|(((number, message), (flags, keywords)), uid)| Expected {
            uid: uid.get(),
            number,
            flags,
            keywords: keywords.iter().map(|keyword| keyword.as_str().to_owned()).collect(),
            date: message.date,
        });
        let expected = expected.collect();
        (changed, expected)
    }

    /// Checks every message byte by byte.
    pub(crate) fn check_texts(&self, mailbox: &mut Mailbox, expected: &[Expected]) {
        for message in expected {
            let found = mailbox.read(uid(message.uid), ReadAs::Message).unwrap().bytes;
            let stripped = barid::message::strip_owned(&found);
            let original = self.text(message.number);
            let original = barid::message::strip_owned(&original);
            assert_eq!(
                String::from_utf8_lossy(&stripped),
                String::from_utf8_lossy(&original),
                "UID {}",
                message.uid
            );
        }
    }
}

/// Returns the messages that a mailbox reports.
pub(crate) fn found(mailbox: &Mailbox) -> Vec<Found> {
    let rows: Vec<u32> = (0..mailbox.len()).collect();
    let mut all = Vec::new();
    let mut take = |message: &barid::Summary<'_>| {
        all.push(Found {
            uid: message.uid.get(),
            flags: message.flags.without(Flag::Recent),
            keywords: message.keyword_names().map(str::to_owned).collect(),
            date: message.internal_date.unix_seconds,
        });
        true
    };
    mailbox.summaries(&rows, &mut take).unwrap();
    all
}

pub(crate) fn uid(number: u32) -> Uid {
    Uid::new(number).unwrap()
}

pub(crate) fn keyword(name: &str) -> Keyword {
    Keyword::new(name).unwrap()
}

/// Returns a change of one flag.
pub(crate) fn add(flag: Flag) -> FlagChange {
    FlagChange { add: [flag].into_iter().collect(), ..FlagChange::default() }
}

/// Returns a request to change the flags of some messages.
pub(crate) fn flag(uids: &[u32], change: &FlagChange) -> ChangeRequest<'static> {
    let flags = uids.iter().map(|number| (uid(*number), change.clone())).collect();
    ChangeRequest { flags, ..ChangeRequest::default() }
}

pub(crate) fn expunge(uids: &[u32]) -> ChangeRequest<'static> {
    let expunge = uids.iter().map(|number| uid(*number)).collect();
    ChangeRequest { expunge, ..ChangeRequest::default() }
}

pub(crate) fn later() -> ChangeOptions {
    ChangeOptions { write: WriteWhen::Pending, ..ChangeOptions::default() }
}

pub(crate) fn now() -> ChangeOptions {
    ChangeOptions::default()
}

pub(crate) fn keeping() -> ChangeOptions {
    let keep_expunged = KeepExpunged::OrRefuse(KeepLimits::default());
    ChangeOptions { keep_expunged, ..ChangeOptions::default() }
}

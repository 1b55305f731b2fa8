//! Support for these tests.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use barid_formats::{MboxMailbox, MboxOptions, Variant, write_message};
use barid_mailbox::{
    EmptyKnown, Error, Extent, Location, NewMessage, ReadAs, ScanContext, ScanReport, ScanSink,
    ScannedMessage, SinkError, Sinks, Storage,
};
use barid_message::{HeaderFields, decode_words, strip_owned};
use barid_state::{Access, Identity, Ledger, MessageKey};
use barid_testkit::Scratch;
use barid_types::{FlagSet, InternalDate};
use barid_vfs::{MemVfs, OpenOptions, OsVfs, Vfs};
use jiff::tz::TimeZone;

/// A message as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) offset: u64,
    pub(crate) spans: (u32, u32, u64),
    pub(crate) subject: Option<String>,
    pub(crate) message_id: Option<String>,
    pub(crate) date: InternalDate,
    pub(crate) flags: FlagSet,
    pub(crate) keywords: Vec<String>,
    pub(crate) mask: u64,
    pub(crate) key: MessageKey,
}

impl Message {
    pub(crate) fn location(&self) -> Location<'static> {
        let (separator_len, header_len, body_len) = self.spans;
        Location::from(Extent { offset: self.offset, separator_len, header_len, body_len })
    }
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
        let Some(Extent { offset, separator_len, header_len, body_len }) =
            message.location.extent()
        else {
            return Err("no span".into());
        };
        let fields = HeaderFields::scan(message.header);
        let text = |field: Option<&[u8]>| field.map(|body| decode_words(body).into_owned());
        self.1.push(Message {
            offset,
            spans: (separator_len, header_len, body_len),
            subject: text(fields.subject),
            message_id: text(fields.message_id),
            date: message.internal_date,
            flags: message.flags,
            keywords: Vec::new(),
            mask: message.keywords.0,
            key: message.key,
        });
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        self.2.0.lock().expect("because no sink panics").push((self.0, self.1));
        Ok(())
    }
}

/// A mailbox under test, and the folder of its state.
pub(crate) struct Box_ {
    pub(crate) mailbox: MboxMailbox,
    vfs: Arc<dyn Vfs>,
    state: Arc<dyn Vfs>,
    path: PathBuf,
}

/// Result of a scan.
pub(crate) struct Found {
    pub(crate) messages: Vec<Message>,
    pub(crate) report: ScanReport,
}

impl Box_ {
    pub(crate) fn open(path: &Path, variant: Option<Variant>) -> Self {
        Self::with(Arc::new(OsVfs), path, variant, utc())
    }

    pub(crate) fn with(
        vfs: Arc<dyn Vfs>,
        path: &Path,
        variant: Option<Variant>,
        options: MboxOptions,
    ) -> Self {
        let mailbox = MboxMailbox::open_with(Arc::clone(&vfs), path, variant, options)
            .expect("because the file is there");
        let state: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        state.create_dir(Path::new("/state"), 0o700).expect("because the memory is empty");
        Self { mailbox, vfs, state, path: path.to_owned() }
    }

    /// Makes a mailbox in memory.
    pub(crate) fn of(bytes: &[u8], variant: Option<Variant>) -> Self {
        Self::of_with(bytes, variant, utc())
    }

    pub(crate) fn of_with(bytes: &[u8], variant: Option<Variant>, options: MboxOptions) -> Self {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let path = Path::new("/box");
        let file = vfs.open(path, OpenOptions::create(0o600)).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        Self::with(vfs, path, variant, options)
    }

    pub(crate) fn ledger(&self) -> Ledger {
        let identity = Identity { id: 1, path: self.path.clone(), inode: 1 };
        let state = Arc::clone(&self.state);
        Ledger::open(state, Path::new("/state"), &identity, Access::ReadWrite).unwrap()
    }

    pub(crate) fn try_scan(&self) -> Result<Found, Error> {
        let mut ledger = self.ledger();
        let mut context = ScanContext {
            ledger: &mut ledger,
            read_only: false,
            full_check: false,
            will_rescan: false,
            threads: 2,
            progress: None,
        };
        let sinks = Collect::default();
        let report = self.mailbox.scan(&EmptyKnown::default(), &sinks, &mut context)?;
        ledger.commit()?;
        let mut chunks = sinks.0.into_inner().expect("because no sink panics");
        chunks.sort_by_key(|(chunk, _)| *chunk);
        let mut messages: Vec<_> = chunks.into_iter().flat_map(|(_, found)| found).collect();
        for message in &mut messages {
            let names = report.keywords.select(barid_types::KeywordMask(message.mask));
            message.keywords = names.map(|name| name.as_str().to_owned()).collect();
            // Threads find the names in any order.
            message.keywords.sort();
        }
        assert_eq!(messages.len(), report.new_uids.len());
        Ok(Found { messages, report })
    }

    pub(crate) fn scan(&self) -> Found {
        self.try_scan().unwrap()
    }

    /// Returns a message without the fields that mailboxes own.
    pub(crate) fn same_bytes(&self, message: &Message) -> Vec<u8> {
        let mut buffer = Vec::new();
        self.mailbox.read(&message.location(), ReadAs::Message, &mut buffer).unwrap();
        strip_owned(&buffer).into_owned()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.vfs.read(&self.path, u64::MAX).unwrap()
    }
}

/// Returns options whose local zone is UTC, as that of the peers.
pub(crate) fn utc() -> MboxOptions {
    MboxOptions { zone: Some(TimeZone::UTC), ..MboxOptions::default() }
}

/// Writes messages as a file of `variant`.
pub(crate) fn render<'a>(
    variant: Variant,
    messages: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut file = Vec::new();
    for (number, bytes) in messages.into_iter().enumerate() {
        let date = InternalDate { unix_seconds: 1_000_000_000 + number as i64, zone_minutes: 0 };
        let message = NewMessage {
            bytes,
            internal_date: None,
            flags: FlagSet::EMPTY,
            keywords: Vec::new(),
            ..NewMessage::default()
        };
        write_message(variant, &message, date, &TimeZone::UTC, &mut file).unwrap();
    }
    file
}

/// Writes a file in a scratch folder.
pub(crate) fn file_in(scratch: &Scratch, name: &str, bytes: &[u8]) -> PathBuf {
    let path = scratch.path().join(name);
    let file = OsVfs.open(&path, OpenOptions::create(0o666)).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    path
}

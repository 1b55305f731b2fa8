//! Compares a mailbox with its known state: reads nothing, the tail, or the whole file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barid_mailbox::{
    DefectKind, Error, Extent, Known, Location, MailboxDefect, Result, ScanContext, ScanReport,
    ScanSink, ScanStats, ScannedMessage, Sinks,
};
use barid_state::MessageKey;
use barid_types::{InternalDate, KeywordMask, KeywordTable};
use barid_vfs::{File, FileStamp, OpenOptions};

use super::compressed::TextEnd;
use super::file_end::size_without_nuls;
use super::from_line::LocalZone;
use super::layout::{DEFECTS_MAX, LEADING_SPACE_MAX, LYING_LENGTHS_MAX, MboxScanState};
use super::lock::lock_for_reading;
use super::parallel::chunks;
use super::status::{HeadEnd, MailboxFields, Separators};
use super::uids::{self, Items, UidFields, UidsBefore};
use super::walk::{MboxWalker, Next, Separator, Walked};
use super::window::{FileSource, Window, WindowSource};
use super::{MboxMailbox, tail};
use crate::file_stamps::FileStamps;

/// Compares the mailbox with its known state: reads nothing, the tail, or the whole file.
pub(super) fn scan(
    mailbox: &MboxMailbox,
    known: &dyn Known,
    sinks: &dyn Sinks,
    context: &mut ScanContext<'_>,
) -> Result<ScanReport> {
    let mut opened = OpenedMbox::open(mailbox)?;
    if let Some(report) = tail::scan(mailbox, &mut opened, known, sinks, context)? {
        return Ok(report);
    }
    sinks.expect_whole();
    opened.find_end(mailbox)?;
    let whole = whole(mailbox, &opened, sinks, context)?;
    opened.check_not_cut(mailbox)?;
    report(mailbox, &opened.stamp, whole, known, context)
}

/// The file, locked for reading, with its stamp.
pub(super) struct OpenedMbox {
    /// The file.
    pub(super) file: Arc<dyn File>,
    /// Its stamp when it had just been locked.
    pub(super) stamp: FileStamps,
    /// Its size without NULs at the end.
    size: u64,
    damage: TextEnd,
}

impl OpenedMbox {
    fn open(mailbox: &MboxMailbox) -> Result<Self> {
        let at = || Error::at(&mailbox.path);
        let file = mailbox.vfs.open(&mailbox.path, OpenOptions::READ).map_err(at())?;
        let file: Arc<dyn File> = Arc::from(file);
        lock_for_reading(mailbox, &*file)?;
        let metadata = file.metadata().map_err(at())?;
        let stamp = mailbox.stamp_of(FileStamp::from(&metadata));
        Ok(Self { file, stamp, size: metadata.size, damage: TextEnd::default() })
    }

    /// Excludes NULs at the end from the size.
    pub(super) fn find_end(&mut self, mailbox: &MboxMailbox) -> Result<()> {
        if mailbox.compressed.is_some() {
            return Ok(());
        }
        match size_without_nuls(&*self.file, self.stamp.files[0].size) {
            // The file shrinks right now: the scan will notice.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {}
            size => self.size = size.map_err(Error::at(&mailbox.path))?,
        }
        Ok(())
    }

    /// Fails if the file was cut since it was stamped. (Replacing it changes the inode, and writing
    /// into it the stamp: the next scan will see either.)
    pub(super) fn check_not_cut(&self, mailbox: &MboxMailbox) -> Result<()> {
        let now = self.file.metadata().map_err(Error::at(&mailbox.path))?;
        match now.size < self.stamp.files[0].size {
            true => Err(Error::Changed { path: mailbox.path.clone() }),
            false => Ok(()),
        }
    }

    /// Returns the size when the file was stamped, without NULs that an interrupted append left.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns a source of the text, for a window.
    pub(super) fn source<'s>(&'s self, mailbox: &'s MboxMailbox) -> Box<dyn WindowSource + 's> {
        match &mailbox.compressed {
            None => Box::new(FileSource { file: &*self.file, size: self.size() }),
            Some(text) => Box::new(text.source(&self.file, &self.stamp.files[0], &self.damage)),
        }
    }
}

/// State shared by the threads of a scan.
pub(super) struct SharedScan<'a> {
    pub(super) mailbox: &'a MboxMailbox,
    pub(super) sinks: &'a dyn Sinks,
    /// The keywords: first those of X-IMAPbase, then those that only messages name.
    pub(super) keywords: Mutex<KeywordTable>,
    /// Offset of the pseudo message, which is not shown.
    pub(super) pseudo_offset: Option<u64>,
}

impl SharedScan<'_> {
    /// Returns `true` if a Content-Length that leads nowhere is reported: it is ignored in MMDF,
    /// and not always followed in a compressed file.
    fn reports_wrong_lengths(&self) -> bool {
        let mailbox = self.mailbox;
        mailbox.separators() != Separators::Mmdf && mailbox.compressed.is_none()
    }
}

/// Results of one chunk, or of all.
#[derive(Default)]
pub(super) struct ScannedMessages {
    pub(super) items: Items,
    pub(super) last: Option<LastMessage>,
    /// Defects that leave it in doubt where messages begin.
    pub(super) defects: Vec<MailboxDefect>,
    pub(super) messages: u64,
    lying_lengths: LyingLengths,
}

/// Messages whose `Content-Length` leads nowhere. They end at the next From_ line, so the message
/// boundaries are as certain as without the field.
#[derive(Default)]
struct LyingLengths {
    count: u64,
    /// Offsets of the first [`LYING_LENGTHS_MAX`] of them.
    offsets: Vec<u64>,
}

impl LyingLengths {
    fn add(&mut self, offset: u64) {
        self.count += 1;
        if self.offsets.len() < LYING_LENGTHS_MAX {
            self.offsets.push(offset);
        }
    }

    fn append(&mut self, next: Self) {
        self.count += next.count;
        let room = LYING_LENGTHS_MAX - self.offsets.len();
        self.offsets.extend(next.offsets.into_iter().take(room));
    }

    fn defects(self) -> impl Iterator<Item = MailboxDefect> {
        let more = self.count - self.offsets.len() as u64;
        let last = self.offsets.last().copied().unwrap_or_default();
        let messages = if more == 1 { "message" } else { "messages" };
        let what =
            format!("Content-Length does not lead to a From_ line in {more} more {messages}");
        let rest = (more > 0).then(|| structure(last, what));
        let named =
            |offset| structure(offset, "Content-Length does not lead to a From_ line".to_owned());
        self.offsets.into_iter().map(named).chain(rest)
    }
}

fn structure(offset: u64, what: String) -> MailboxDefect {
    MailboxDefect { kind: DefectKind::Structure, offset, uid: None, what }
}

/// The last message of a chunk.
#[derive(Clone, Copy)]
pub(super) struct LastMessage {
    separator: Separator,
    header_len: u32,
    key: MessageKey,
    is_sound: bool,
    is_closed: bool,
}

impl ScannedMessages {
    /// Adds the results of the chunk that follows.
    pub(super) fn append(&mut self, next: Self) {
        self.items.append(next.items);
        self.last = next.last.or(self.last);
        self.messages += next.messages;
        let room = DEFECTS_MAX.saturating_sub(self.defects.len());
        self.defects.extend(next.defects.into_iter().take(room));
        self.lying_lengths.append(next.lying_lengths);
    }

    /// Returns all defects to report.
    pub(super) fn into_defects(self) -> Vec<MailboxDefect> {
        let mut defects = self.defects;
        defects.extend(self.lying_lengths.defects());
        defects
    }

    /// Writes the last message into the notes.
    pub(super) fn note(&self, notes: &mut MboxScanState) {
        if let Some(last) = &self.last {
            notes.last_offset = last.separator.offset;
            notes.last_separator_len = last.separator.len;
            notes.last_header_len = last.header_len;
            notes.last_key = last.key;
            notes.tail_sound = last.is_sound;
            notes.tail_closed = last.is_closed;
        }
    }
}

/// The reader of one thread.
pub(super) struct ChunkReader<'a> {
    pub(super) shared: &'a SharedScan<'a>,
    pub(super) walker: MboxWalker<'a>,
    tools: ChunkSink<'a>,
}

/// State of a thread beside its walker.
struct ChunkSink<'a> {
    zone: LocalZone<'a>,
    /// The thread's copy of the shared keywords, which may lack new ones.
    keywords: KeywordTable,
    scratch: Vec<u8>,
}

impl<'a> ChunkReader<'a> {
    pub(super) fn new(shared: &'a SharedScan<'a>, source: Box<dyn WindowSource + 'a>) -> Self {
        let options = &shared.mailbox.options;
        let window = Window::new(source, options.window_len);
        Self {
            shared,
            walker: MboxWalker::new(window, shared.mailbox.separators()),
            tools: ChunkSink {
                zone: LocalZone::new(shared.mailbox),
                keywords: lock(&shared.keywords).clone(),
                scratch: Vec::new(),
            },
        }
    }

    /// Walks from `first` to the last message that starts before `limit`; returns what follows it.
    pub(super) fn walk(
        &mut self,
        first: Separator,
        limit: u64,
        sink: &mut dyn ScanSink,
        found: &mut ScannedMessages,
    ) -> Result<Next> {
        let mut next = Next::Message(first);
        while let Next::Message(separator) = next
            && separator.offset < limit
        {
            let (shared, tools) = (self.shared, &mut self.tools);
            next = self
                .walker
                .message(separator, |walked| {
                    take(shared, tools, walked, sink, found).map_err(WalkError::Mailbox)
                })
                .map_err(|error| error.at(shared.mailbox))?;
        }
        Ok(next)
    }
}

/// An error of a walker or of its visitor.
enum WalkError {
    Io(std::io::Error),
    Mailbox(Error),
}

impl From<std::io::Error> for WalkError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl WalkError {
    fn at(self, mailbox: &MboxMailbox) -> Error {
        match self {
            Self::Io(source) => Error::Io { path: mailbox.path.clone(), source },
            Self::Mailbox(error) => error,
        }
    }
}

/// Passes one message to the sink.
fn take(
    shared: &SharedScan<'_>,
    tools: &mut ChunkSink,
    walked: &Walked<'_>,
    sink: &mut dyn ScanSink,
    found: &mut ScannedMessages,
) -> Result<()> {
    let key = walked.owned.key(walked.header, &mut tools.scratch);
    let offset = walked.separator.offset;
    let header_len = walked.header.len() as u32;
    found.last = Some(LastMessage {
        separator: walked.separator,
        header_len,
        key,
        is_sound: walked.head_end == HeadEnd::Blank && !walked.length_lies,
        is_closed: walked.blank_after,
    });
    if walked.head_end == HeadEnd::Cut && found.defects.len() < DEFECTS_MAX {
        let what = format!("the header is longer than {header_len} bytes and was cut");
        found.defects.push(structure(offset, what));
    }
    if shared.pseudo_offset == Some(offset) {
        return Ok(());
    }
    let has_body = walked.head_end == HeadEnd::Blank;
    if walked.length_lies && has_body && shared.reports_wrong_lengths() {
        found.lying_lengths.add(offset);
    }
    let owned = &walked.owned;
    let keywords = match owned.has_keywords() {
        true => owned.keywords(walked.header, |name| slot_of(shared, &mut tools.keywords, name)),
        false => KeywordMask(0),
    };
    found.items.push(UidFields { key, uid: owned.uid.unwrap_or(0) });
    found.messages += 1;
    sink.message(&ScannedMessage {
        uid: None,
        location: Location::from(Extent {
            offset,
            separator_len: walked.separator.len,
            header_len,
            body_len: walked.body_len,
        }),
        header: walked.header,
        size: u64::from(header_len) + walked.body_len,
        rfc822_size: None,
        internal_date: internal_date(&tools.zone, &walked.separator),
        flags: owned.flags(),
        keywords,
        key,
    })
    .map_err(Error::Sink)
}

/// Returns the date of a From_ line; 1970 if it has none.
fn internal_date(zone: &LocalZone<'_>, separator: &Separator) -> InternalDate {
    separator.date.and_then(|date| zone.resolve(&date)).unwrap_or_default()
}

/// Returns the message key of a header.
pub(super) fn key_of(header: &[u8]) -> MessageKey {
    MessageKey(barid_message::header_key(header))
}

fn slot_of(
    shared: &SharedScan<'_>,
    keywords: &mut KeywordTable,
    name: &barid_types::Keyword,
) -> Option<u32> {
    keywords.slot(name).or_else(|| {
        let mut all = lock(&shared.keywords);
        let slot = all.intern(name).ok();
        keywords.clone_from(&all);
        slot
    })
}

/// Locks a mutex. A poisoned one means that another thread panicked; the scope of this one then
/// panics too.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Results of a scan of the whole file.
struct WholeScan {
    found: ScannedMessages,
    base: Option<MailboxFields>,
    notes: MboxScanState,
    keywords: KeywordTable,
    bytes_read: u64,
}

/// Reads the whole file.
fn whole(
    mailbox: &MboxMailbox,
    opened: &OpenedMbox,
    sinks: &dyn Sinks,
    context: &ScanContext<'_>,
) -> Result<WholeScan> {
    let at = || Error::at(&mailbox.path);
    let mut notes = MboxScanState {
        variant: mailbox.variant,
        profile: mailbox.options.profile,
        ..MboxScanState::default()
    };
    let window = Window::new(opened.source(mailbox), LEADING_SPACE_MAX);
    let mut walker = MboxWalker::new(window, mailbox.separators());
    let first = walker.first().map_err(at())?.ok_or_else(|| Error::NotAMailbox {
        path: mailbox.path.clone(),
        reason: "it does not start with a From_ line",
    })?;
    let Next::Message(first) = first else {
        if opened.damage.offset().is_some() {
            let reason = "it cannot be decompressed";
            return Err(Error::NotAMailbox { path: mailbox.path.clone(), reason });
        }
        let keywords = KeywordTable::default();
        return Ok(WholeScan {
            found: ScannedMessages::default(),
            base: None,
            notes,
            keywords,
            bytes_read: 0,
        });
    };
    let (head, owned) = walker.head(&first).map_err(at())?;
    notes.base_offset = head.start;
    notes.base_len = (head.end - head.start) as u32;
    let base = owned.base(walker.window.range(head));
    drop(walker);
    notes.pseudo = base.as_ref().is_some_and(|base| base.pseudo);
    notes.base_validity = base.as_ref().map(|base| base.validity);
    let shared = SharedScan {
        mailbox,
        sinks,
        keywords: Mutex::new(base.as_ref().map(|base| base.keywords.clone()).unwrap_or_default()),
        pseudo_offset: notes.pseudo.then_some(first.offset),
    };
    let (mut found, bytes_read) = chunks(&shared, opened, first, context)?;
    if let Some(offset) = opened.damage.offset() {
        let what = "the rest cannot be decompressed".to_owned();
        let kind = DefectKind::Unreadable;
        found.defects.push(MailboxDefect { kind, offset, uid: None, what });
    }
    found.note(&mut notes);
    let keywords = shared.keywords.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(WholeScan { found, base, notes, keywords, bytes_read })
}

/// Assigns UIDs and builds the report.
fn report(
    mailbox: &MboxMailbox,
    stamp: &FileStamps,
    whole: WholeScan,
    known: &dyn Known,
    context: &mut ScanContext<'_>,
) -> Result<ScanReport> {
    let (validity, uidnext) = (known.uidvalidity(), mailbox.told_uidnext(known));
    let before = UidsBefore { validity, uidnext, last: 0 };
    let is_settled = || {
        mailbox
            .file_stamps()
            .is_ok_and(|now| now.same_files(stamp) && whole.found.defects.is_empty())
    };
    let assigned = with_ledger(mailbox, context, |ledger| {
        uids::assign(
            ledger,
            whole.base.as_ref(),
            &whole.found.items,
            before,
            mailbox.vfs.now(),
            &is_settled,
        )
    })?
    .expect("because all items were given, nothing more can be asked for");
    let is_cut_short =
        whole.found.defects.iter().any(|defect| defect.kind == DefectKind::Unreadable);
    Ok(ScanReport {
        stamp: (*stamp).into(),
        // Without notes the next opening scans, and reports, again.
        state: if is_cut_short { Vec::new() } else { whole.notes.to_bytes() },
        uidvalidity: assigned.validity,
        uidnext: assigned.uidnext,
        keywords: whole.keywords,
        reset: true,
        expunged: Vec::new(),
        changed: Vec::new(),
        new_uids: assigned.uids,
        tail_verified: false,
        size_bytes: stamp.files[0].size,
        stats: ScanStats {
            messages_read: whole.found.messages,
            bytes_read: whole.bytes_read,
            dirs_listed: 0,
        },
        defects: whole.found.into_defects(),
    })
}

/// Runs with the ledger locked. It stays locked for the caller's commit if UIDs were assigned.
pub(super) fn with_ledger<T>(
    mailbox: &MboxMailbox,
    context: &mut ScanContext<'_>,
    run: impl FnOnce(&mut barid_state::Ledger) -> Result<Option<T>>,
) -> Result<Option<T>> {
    context.ledger.lock(mailbox.options.lock_timeout)?;
    let result = run(context.ledger);
    if !matches!(result, Ok(Some(_))) {
        context.ledger.unlock();
    }
    result
}

//! A handle of a storage, and the messages that it knows.

use std::collections::BTreeMap;
use std::time::Duration;

use barid_mailbox::{
    ChangeSet, Error, MovedMessage, NewMessage, ReadAs, Recovered, Result, ScanContext, ScanReport,
    Storage, SyncContext, SyncReport,
};
use barid_message::header_key;
use barid_state::Ledger;
use barid_types::{Flag, FlagSet, Uid};

use crate::fixture::Fixture;
use crate::mirror::{Intake, Mirror, MirrorRow};
use crate::texts::canonical;

/// Number of times that a scan or a change is repeated while others change the storage.
const ATTEMPTS_MAX: u32 = 10_000;

/// Longest wait for the lock of the ledger.
const LEDGER_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Content of a message, as every handle finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageContent {
    /// Its flags, without \Recent.
    pub flags: FlagSet,
    /// Its keywords, sorted.
    pub keywords: Vec<String>,
    /// Its canonical text.
    pub text: Vec<u8>,
}

/// Messages by UID.
pub type Contents = BTreeMap<Uid, MessageContent>;

/// A handle of a storage, and the messages that it knows, which follow scans and changes.
pub struct StorageHandle<'f> {
    fixture: &'f dyn Fixture,
    /// The handle.
    pub storage: Box<dyn Storage>,
    /// The known messages.
    pub known: Mirror,
}

impl<'f> StorageHandle<'f> {
    /// Opens the storage and completes an unfinished change; nothing is known yet.
    pub fn open(fixture: &'f dyn Fixture) -> Self {
        let mut session = Self { fixture, storage: fixture.open(), known: Mirror::default() };
        if session.storage.unfinished(fixture.state_dir()).unwrap().is_some() {
            session.recover();
        }
        session
    }

    /// Opens the storage and scans it.
    pub fn scanned(fixture: &'f dyn Fixture) -> Self {
        let mut session = Self::open(fixture);
        session.scan();
        session
    }

    /// Completes an unfinished change, or waits for the handle that is making it.
    fn recover(&mut self) {
        for _ in 0..ATTEMPTS_MAX {
            match self.try_recover() {
                Err(error) if is_worth_a_retry(&error) => std::thread::yield_now(),
                recovered => {
                    assert_eq!(recovered.unwrap().quarantined, None, "no journal is put aside");
                    return;
                }
            }
        }
        panic!("the storage stays locked");
    }

    fn try_recover(&mut self) -> Result<Recovered> {
        let mut ledger = self.fixture.ledger();
        let mut context = SyncContext::new(&self.known);
        context.ledger = Some(&mut ledger);
        context.state_dir = self.fixture.state_dir();
        self.storage.recover(&mut context)
    }

    /// Forgets everything, as if the cache had been deleted.
    pub fn forget(&mut self) {
        self.known = Mirror::default();
    }

    /// Scans for changes since the last scan, also where the backend at first reads only what was
    /// appended.
    pub fn scan(&mut self) -> ScanReport {
        let report = self.scan_with(false);
        if !report.tail_verified {
            return report;
        }
        let whole = self.scan_with(true);
        ScanReport {
            reset: report.reset || whole.reset,
            expunged: [report.expunged, whole.expunged].concat(),
            changed: [report.changed, whole.changed].concat(),
            ..whole
        }
    }

    /// Scans, and compares every message with `full_check`.
    pub fn scan_with(&mut self, full_check: bool) -> ScanReport {
        for _ in 0..ATTEMPTS_MAX {
            match self.try_scan(full_check) {
                Err(error) if is_worth_a_retry(&error) => std::thread::yield_now(),
                report => return report.unwrap(),
            }
        }
        panic!("the storage keeps changing");
    }

    /// Scans once.
    ///
    /// # Errors
    /// Errors of the storage and of the ledger.
    pub fn try_scan(&mut self, full_check: bool) -> Result<ScanReport> {
        let intake = Intake::default();
        let mut ledger = self.fixture.ledger();
        let mut context = ScanContext {
            ledger: &mut ledger,
            read_only: false,
            full_check,
            will_rescan: false,
            threads: 2,
            progress: None,
        };
        let report = self.storage.scan(&self.known, &intake, &mut context)?;
        ledger.commit()?;
        ledger.unlock();
        self.known.follow_scan(&report, intake);
        Ok(report)
    }

    /// Makes a change, and scans; if others changed the storage first, scans and makes it again.
    pub fn sync(&mut self, changes: &ChangeSet, appends: &[NewMessage<'_>]) -> SyncReport {
        for _ in 0..ATTEMPTS_MAX {
            match self.try_sync(changes, appends) {
                Ok(report) => {
                    self.scan();
                    return report;
                }
                Err(error) if is_worth_a_retry(&error) => {
                    std::thread::yield_now();
                    self.scan_with(matches!(error, Error::Changed { .. }));
                }
                Err(error) => panic!("{error}"),
            }
        }
        panic!("the storage keeps changing");
    }

    /// Makes a change; the known messages follow it where the report allows that.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn try_sync(
        &mut self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
    ) -> Result<SyncReport> {
        let (report, moved) = self.change(changes, appends, false)?;
        // What another handle's lock delays is done another time.
        let is_delayed = |what: &String| what.contains("locked by another process");
        assert!(report.failed.iter().all(is_delayed), "{:?}", report.failed);
        assert_eq!(report.unwritable_count, 0);
        assert_eq!(report.appended.len(), appends.len());
        self.known.follow_change(&report, &moved);
        Ok(report)
    }

    /// Finds out what a change would do.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn dry_run(
        &mut self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
    ) -> Result<SyncReport> {
        self.change(changes, appends, true).map(|(report, _)| report)
    }

    fn change(
        &mut self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
        dry_run: bool,
    ) -> Result<(SyncReport, Vec<MovedMessage>)> {
        let mut moved = Vec::new();
        let mut take = |message: &MovedMessage| moved.push(*message);
        let mut ledger = self.fixture.ledger();
        let mut context = SyncContext::new(&self.known);
        context.ledger = Some(&mut ledger);
        context.state_dir = self.fixture.state_dir();
        context.moved = Some(&mut take);
        context.dry_run = dry_run;
        let report = self.storage.sync(changes, appends, &mut context)?;
        if !dry_run {
            commit(&mut ledger)?;
        }
        Ok((report, moved))
    }

    /// Appends one message; returns its UID.
    pub fn append(&mut self, text: &[u8]) -> Uid {
        let last = self.known.rows().last().map(|row| row.uid);
        self.sync(&ChangeSet::default(), &[NewMessage { bytes: text, ..NewMessage::default() }]);
        let uid = self.known.rows().last().map(|row| row.uid);
        assert!(uid > last, "the message was appended");
        uid.unwrap()
    }

    /// Returns the UIDs of the known messages.
    pub fn uids(&self) -> Vec<Uid> {
        self.known.rows().iter().map(|row| row.uid).collect()
    }

    /// Reads a known message.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn read(&self, row: &MirrorRow, read_as: ReadAs) -> Result<(Vec<u8>, usize)> {
        let stamp = barid_mailbox::Known::stamp(&self.known).unwrap();
        let mut bytes = Vec::new();
        let location = row.location.get();
        let header_len = self.storage.read_known(&location, read_as, &stamp, &mut bytes)?;
        Ok((bytes, header_len))
    }

    /// Returns the known messages with their texts.
    pub fn contents(&self) -> Contents {
        let content = |row: &MirrorRow| {
            let (bytes, _) = self.read(row, ReadAs::Message).unwrap();
            (row.uid, MessageContent { text: canonical(&bytes), ..self.state_of(row) })
        };
        self.known.rows().iter().map(content).collect()
    }

    /// Returns the known messages that are still where they were, with their texts.
    pub fn contents_in_place(&self) -> Contents {
        let content = |row: &MirrorRow| {
            let (quoted, header_len) = self.read(row, ReadAs::Quoted).ok()?;
            let names_messages = self.storage.names_messages();
            let is_it = names_messages || header_key(&quoted[..header_len]) == row.key.0;
            let mut bytes = quoted;
            self.storage.unquote(&mut bytes, header_len);
            let content = MessageContent { text: canonical(&bytes), ..self.state_of(row) };
            is_it.then_some((row.uid, content))
        };
        self.known.rows().iter().filter_map(content).collect()
    }

    /// Returns flags and keywords of a known message.
    pub fn state_of(&self, row: &MirrorRow) -> MessageContent {
        let flags = row.flags.without(Flag::Recent);
        MessageContent { flags, keywords: self.known.keywords_of(row), text: Vec::new() }
    }
}

/// Commits what a change left pending in the ledger, which others may have locked for a while. The
/// change itself is done.
fn commit(ledger: &mut Ledger) -> Result<()> {
    for _ in 0..ATTEMPTS_MAX {
        match ledger.lock(LEDGER_LOCK_TIMEOUT) {
            Err(barid_state::Error::Locked { .. }) => std::thread::yield_now(),
            locked => {
                locked?;
                ledger.commit()?;
                ledger.unlock();
                return Ok(());
            }
        }
    }
    panic!("the ledger stays locked");
}

/// Returns `true` if an error only says that others are changing the storage at this moment.
fn is_worth_a_retry(error: &Error) -> bool {
    match error {
        Error::Changed { .. } | Error::Locked { .. } => true,
        Error::State(error) => matches!(error, barid_state::Error::Locked { .. }),
        _ => false,
    }
}

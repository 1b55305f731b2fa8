//! Changing a mailbox.
//!
//! Under the locks of c-client the three files are read, changed in memory as c-client changes
//! them, and the bytes that differ are written in place through a redo journal, so that a crash
//! leaves all of a change or nothing. Order: flags, keywords and expunges in one such change, which
//! is their commit point; then the space of expunged messages in data files is reclaimed if no
//! session has the mailbox open (`burp.rs`); then appends (`append.rs`).

use barid_mailbox::{
    ChangeSet, EmptyKnown, Error, MovedMessage, NewMessage, Result, SyncContext, SyncFigures,
    SyncReport, SyncedState,
};
use barid_types::{Keyword, Uid};
use barid_vfs::{File, Ownership};

use super::MixMailbox;
use super::layout::{INDEX, KEYWORD_LEN_MAX, KEYWORDS_MAX, META, STATUS, bits};
use super::lock::{Locks, MixLockPurpose};
use super::read::location;
use super::record::{MixMessage, write_index, write_meta, write_status};
use super::scan::{KeywordSlots, MixState};
use super::snapshot::{Snapshot, SnapshotBytes};
use super::{append, burp};
use crate::file_stamps::FileStamps;
use crate::redo::{self, Change, Cost, FileChange, JournalSearch};

/// Maximum number of journals that are completed because others leave them meanwhile.
const RECOVERIES_MAX: u32 = 10;
/// Bytes that are compared, and written, together.
const BLOCK_LEN: usize = 64;

/// Applies changes and appends.
pub(super) fn sync(
    mailbox: &MixMailbox,
    changes: &ChangeSet,
    appends: &[NewMessage<'_>],
    context: &mut SyncContext<'_>,
) -> Result<SyncReport> {
    let locks = acquire(mailbox, context)?;
    if context.is_stopped() {
        let source = std::io::Error::other("stopped before anything was changed");
        return Err(Error::at(&mailbox.path)(source));
    }
    let snapshot = Snapshot::load(mailbox, &locks)?;
    check_usable(mailbox, &locks, &snapshot, context)?;
    let follows = Follows::of(mailbox, &snapshot, context)?;
    let mut work = MixChange::new(mailbox, &locks, snapshot, context.dry_run);
    work.report.figures.size_before = work.size();
    append::check(mailbox, appends)?;
    // Including those of messages to be appended: a mailbox without room for them changes nothing.
    let of_changes = changes.flags.changes().flat_map(|change| &change.add_keywords);
    let of_appends = appends.iter().flat_map(|message| &message.keywords);
    work.list_keywords(of_changes.chain(&changes.keywords).chain(of_appends))?;
    work.change_flags(changes)?;
    work.expunge(changes);
    let drop_pending = context.drop_pending.as_deref_mut().map(|drop| drop as _);
    let pending = (context.pending_through, drop_pending);
    work.commit(pending)?;
    if !work.report.expunged.is_empty() && !work.dry_run {
        burp::burp(&mut work, context)?;
    }
    let mut synced = match follows {
        Some(follows) => Some(follows.report(&mut work, context)?),
        None => None,
    };
    if !appends.is_empty() {
        let is_changed = !changes.is_empty();
        if is_changed && context.is_stopped() {
            let (path, what) = (mailbox.path.clone(), "stopped".to_owned());
            return Err(Error::NotAppended { path, what });
        }
        let appended = append::append(&mut work, appends);
        appended.map_err(|error| match (is_changed, error) {
            (true, error @ Error::Unfinished { .. }) | (false, error) => error,
            (true, error) => {
                Error::NotAppended { path: mailbox.path.clone(), what: error.to_string() }
            }
        })?;
    }
    work.report.figures.size_after = work.size();
    if let Some(synced) = &mut synced {
        synced.stamp_after = mailbox.file_stamps()?.into();
    }
    work.report.cache = synced;
    Ok(work.report)
}

/// Data with which a cache follows a change without a scan.
struct Follows {
    /// The messages before the change.
    before: Vec<MixMessage>,
}

impl Follows {
    /// Loads the messages; `None` if a scan is needed anyway, because the mailbox differs from what
    /// is known.
    fn of(
        mailbox: &MixMailbox,
        snapshot: &Snapshot,
        context: &SyncContext<'_>,
    ) -> Result<Option<Self>> {
        let known = context.known;
        let state = MixState::from_bytes(known.state());
        let is_same = match (FileStamps::of_known(known), state) {
            (Some(stamp), Some(state)) => {
                state.seqs == MixState::of(snapshot).seqs
                    && !state.has_unread
                    && stamp.same_files(&mailbox.file_stamps()?)
            }
            _ => false,
        };
        let is_followed = is_same && !context.dry_run;
        Ok(is_followed.then(|| Self { before: snapshot.messages.clone() }))
    }

    /// Reports the messages with other flags or another location; returns the state of the mailbox
    /// now.
    fn report(
        self,
        work: &mut MixChange<'_>,
        context: &mut SyncContext<'_>,
    ) -> Result<SyncedState> {
        let words = KeywordSlots::new(context.known.keywords().clone(), &mut work.now);
        let mut before = self.before.iter();
        for message in &work.now.messages {
            let Some(old) = before.find(|old| old.uid == message.uid) else { break };
            let told = |m: &MixMessage| (m.flags, m.keywords, m.pos);
            let uid = Uid::new(message.uid).filter(|_| told(old) != told(message));
            if let (Some(moved), Some(uid)) = (&mut context.moved, uid) {
                moved(&MovedMessage {
                    uid,
                    flags: message.flag_set(),
                    keywords: words.mask(message.keywords),
                    location: Some(location(message)),
                });
            }
        }
        let stamp = work.mailbox.file_stamps()?;
        let state = MixState::of(&work.now).to_bytes();
        Ok(SyncedState {
            stamp: stamp.into(),
            stamp_after: stamp.into(),
            state,
            keywords: words.table,
        })
    }
}

/// See [`MixMailbox::repair_index`].
pub(super) fn repair_index(mailbox: &MixMailbox) -> Result<u32> {
    let known = EmptyKnown::default();
    let mut context = SyncContext::new(&known);
    // A byte that cannot be parsed: an empty index would be an index of no messages.
    make_file(mailbox, INDEX, b"?")?;
    make_file(mailbox, STATUS, b"")?;
    let locks = acquire(mailbox, &mut context)?;
    let mut snapshot = Snapshot::load(mailbox, &locks)?;
    let Some(damage) = snapshot.damage.take() else { return Ok(0) };
    let sound = memchr::memchr_iter(b'\n', &snapshot.texts.index[..damage.offset as usize]).count();
    let found = snapshot.messages.len().saturating_sub(sound.saturating_sub(1));
    // A sequence that was damaged, too, is unknown.
    snapshot.index_seq = snapshot.index_seq.max(snapshot.meta.seq);
    snapshot.status_seq = snapshot.status_seq.max(snapshot.meta.seq);
    let mut work = MixChange::new(mailbox, &locks, snapshot, false);
    work.changed = Changed { meta: true, index: true, status: true };
    work.commit((None, None))?;
    Ok(found as u32)
}

/// Makes a file if it is missing.
fn make_file(mailbox: &MixMailbox, name: &str, bytes: &[u8]) -> Result<()> {
    let path = mailbox.path.join(name);
    let meta = mailbox.path.join(META);
    let meta = mailbox.vfs.metadata(&meta).map_err(Error::at(&meta))?;
    let file = match Ownership::of_file(&meta).create(mailbox.vfs.as_ref(), &path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(Error::at(&path)(error)),
    };
    file.write_all_at(bytes, 0).and_then(|()| file.sync_all()).map_err(Error::at(&path))?;
    mailbox.vfs.sync_dir(&mailbox.path).map_err(Error::at(&mailbox.path))
}

/// Takes the locks, after completing an unfinished change.
fn acquire(mailbox: &MixMailbox, context: &mut SyncContext<'_>) -> Result<Locks> {
    if context.dry_run {
        return Locks::acquire(mailbox, MixLockPurpose::Read);
    }
    for _ in 0..RECOVERIES_MAX {
        mailbox.recover_with(context)?;
        let locks = Locks::acquire(mailbox, MixLockPurpose::Write)?;
        if mailbox.place().look(&*mailbox.vfs)? == JournalSearch::Nothing {
            return Ok(locks);
        }
    }
    let what = format!("{} is in the way", mailbox.place().journal().display());
    Err(Error::Unrecoverable { path: mailbox.path.clone(), what })
}

fn check_usable(
    mailbox: &MixMailbox,
    locks: &Locks,
    snapshot: &Snapshot,
    context: &SyncContext<'_>,
) -> Result<()> {
    if let Some(damage) = snapshot.damage {
        let path = mailbox.path.join(INDEX);
        return Err(Error::Damaged { path, offset: damage.offset, kind: damage.kind });
    }
    if locks.status().is_none() {
        let path = mailbox.path.join(STATUS);
        return Err(Error::Damaged { path, offset: 0, kind: "it is missing" });
    }
    let validity = context.known.uidvalidity();
    if validity.is_some_and(|validity| validity.get() != snapshot.meta.uidvalidity) {
        return Err(Error::Changed { path: mailbox.path.clone() });
    }
    Ok(())
}

/// The pending changes of a change ([`SyncContext`]).
type PendingThrough<'a> = (Option<u64>, Option<&'a mut (dyn FnMut(u64) -> Result<()> + 'a)>);

/// A mailbox that is being changed.
pub(super) struct MixChange<'a> {
    pub(super) mailbox: &'a MixMailbox,
    pub(super) locks: &'a Locks,
    /// The new state; its texts are the present content of the files.
    pub(super) now: Snapshot,
    pub(super) report: SyncReport,
    pub(super) dry_run: bool,
    changed: Changed,
}

/// The files to be written.
#[derive(Clone, Copy, Debug, Default)]
struct Changed {
    meta: bool,
    index: bool,
    status: bool,
}

impl<'a> MixChange<'a> {
    pub(super) fn new(
        mailbox: &'a MixMailbox,
        locks: &'a Locks,
        now: Snapshot,
        dry_run: bool,
    ) -> Self {
        let (report, changed) = (SyncReport::default(), Changed::default());
        Self { mailbox, locks, now, report, dry_run, changed }
    }

    /// Returns the bytes of all messages, their lines included.
    fn size(&self) -> u64 {
        self.now.messages.iter().map(|m| u64::from(m.line_len) + u64::from(m.size)).sum()
    }

    /// Returns the next value of a sequence: the time, or one more than `seq` if the time is not
    /// above it.
    pub(super) fn next_seq(&self, seq: u32) -> u32 {
        let now = u32::try_from(self.mailbox.vfs.now().unix_seconds()).unwrap_or(0);
        now.max(seq.saturating_add(1))
    }

    fn list_keywords<'k>(&mut self, keywords: impl Iterator<Item = &'k Keyword>) -> Result<()> {
        let unsupported = |what| Error::Unsupported { path: self.mailbox.path.clone(), what };
        for keyword in keywords {
            if self.bit_of(keyword).is_some() {
                continue;
            }
            if keyword.as_str().len() > KEYWORD_LEN_MAX {
                return Err(unsupported("a keyword of a mix mailbox has at most 50 bytes"));
            }
            if self.now.meta.keywords.len() >= KEYWORDS_MAX {
                return Err(unsupported("a mix mailbox can store at most 30 keywords"));
            }
            self.now.meta.keywords.push(keyword.as_str().as_bytes().to_vec());
            self.changed.meta = true;
        }
        Ok(())
    }

    /// Returns the bit of a keyword, which is found without regard to case, as by c-client.
    pub(super) fn bit_of(&self, keyword: &Keyword) -> Option<u32> {
        let name = keyword.as_str().as_bytes();
        let mut words = self.now.meta.keywords.iter();
        words.position(|word| word.eq_ignore_ascii_case(name)).map(|at| at as u32)
    }

    pub(super) fn mask_of(&self, keywords: &[Keyword]) -> u32 {
        keywords
            .iter()
            .filter_map(|keyword| self.bit_of(keyword))
            .fold(0, |mask, bit| mask | 1 << bit)
    }

    fn change_flags(&mut self, changes: &ChangeSet) -> Result<()> {
        if changes.drop_recent {
            let next = |work: &Self, seq| work.next_seq(seq);
            for at in 0..self.now.messages.len() {
                let message = self.now.messages[at];
                if message.is_recent() {
                    let modseq = next(self, message.modseq);
                    let message = &mut self.now.messages[at];
                    message.flags |= bits::OLD;
                    message.modseq = modseq;
                    self.changed.status = true;
                    self.report.figures.messages_written += 1;
                }
            }
        }
        let seq = self.next_seq(self.now.status_seq);
        for (uid, change) in changes.flags.iter() {
            let Some(at) = self.now.find(uid.get()) else {
                self.report.gone.push(uid);
                continue;
            };
            let add = (Snapshot::flags_of(change.add), self.mask_of(&change.add_keywords));
            let remove = (Snapshot::flags_of(change.remove), self.mask_of(&change.remove_keywords));
            let message = &mut self.now.messages[at];
            let flags = (message.flags | add.0) & !remove.0;
            let keywords = (message.keywords | add.1) & !remove.1;
            if (flags, keywords) != (message.flags, message.keywords) {
                (message.flags, message.keywords) = (flags, keywords);
                message.modseq = seq;
                self.changed.status = true;
                self.report.figures.messages_written += 1;
            }
        }
        Ok(())
    }

    fn expunge(&mut self, changes: &ChangeSet) {
        let mut expunge = changes.expunge.iter().peekable();
        let (gone, expunged) = (&mut self.report.gone, &mut self.report.expunged);
        self.now.messages.retain(|message| {
            while let Some(uid) = expunge.next_if(|uid| uid.get() < message.uid) {
                gone.push(*uid);
            }
            match expunge.next_if(|uid| uid.get() == message.uid) {
                Some(uid) => {
                    expunged.push(*uid);
                    false
                }
                None => true,
            }
        });
        gone.extend(expunge);
        gone.sort_unstable();
        gone.dedup();
        if !expunged.is_empty() {
            self.report.figures.messages_expunged = expunged.len() as u64;
            self.changed.index = true;
            self.changed.status = true;
        }
    }

    /// Gives the changed files their next sequences, and writes them.
    fn commit(&mut self, pending: PendingThrough<'_>) -> Result<()> {
        if self.changed.meta {
            self.now.meta.seq = self.next_seq(self.now.meta.seq);
        }
        if self.changed.index {
            self.now.index_seq = self.next_seq(self.now.index_seq);
        }
        if self.changed.status {
            self.now.status_seq = self.next_seq(self.now.status_seq);
        }
        let Changed { meta, index, status } = std::mem::take(&mut self.changed);
        self.write([meta, index, status], None, pending)
    }

    /// Writes those of meta, index and status that are selected, together with a data file.
    pub(super) fn write(
        &mut self,
        [meta, index, status]: [bool; 3],
        data: Option<FileChange>,
        (pending_through, drop_pending): PendingThrough<'_>,
    ) -> Result<()> {
        let mut change = Change::new(pending_through);
        if let Some(data) = data {
            change.add(data);
        }
        let mut texts = SnapshotBytes::default();
        if meta {
            texts.meta = write_meta(&self.now.meta);
            change.add(self.diff(META, self.locks.meta(), &self.now.texts.meta, &texts.meta)?);
        }
        if let (true, Some(file)) = (index, self.locks.index()) {
            texts.index = write_index(self.now.index_seq, &self.now.messages);
            change.add(self.diff(INDEX, file, &self.now.texts.index, &texts.index)?);
        }
        if let (true, Some(file)) = (status, self.locks.status()) {
            let seq = self.now.status_seq;
            // All written records have one, as in c-client.
            self.now.messages.iter_mut().filter(|m| m.modseq == 0).for_each(|m| m.modseq = seq);
            texts.status = write_status(seq, &self.now.messages);
            change.add(self.diff(STATUS, file, &self.now.texts.status, &texts.status)?);
        }
        let figures: &mut SyncFigures = &mut self.report.figures;
        figures.bytes_in_place += change.bytes_written();
        if !self.dry_run {
            let mode = self.locks.meta().metadata().map_err(Error::at(&self.mailbox.path))?.mode;
            let (vfs, place) = (&*self.mailbox.vfs, self.mailbox.place());
            let drop_pending = drop_pending.map(|drop| drop as &mut dyn FnMut(u64) -> Result<()>);
            let cost = redo::apply(vfs, &place, &change, mode, drop_pending)?;
            let Cost { barriers, bytes_journaled } = cost;
            figures.barriers += barriers;
            figures.bytes_journaled += bytes_journaled;
        }
        let is_written = [meta, index, status];
        let SnapshotBytes { meta, index, status } = &mut self.now.texts;
        let pairs = [(meta, texts.meta), (index, texts.index), (status, texts.status)];
        for ((text, new), is_written) in pairs.into_iter().zip(is_written) {
            if is_written {
                *text = new;
            }
        }
        Ok(())
    }

    fn diff(&self, name: &str, file: &dyn File, old: &[u8], new: &[u8]) -> Result<FileChange> {
        diff(name, file, old, new).map_err(Error::at(&self.mailbox.path.join(name)))
    }
}

/// Returns the change that turns the text of a file into another.
pub(super) fn diff(
    name: &str,
    file: &dyn File,
    old: &[u8],
    new: &[u8],
) -> std::io::Result<FileChange> {
    let mut change = FileChange::new(name.as_bytes(), old.len() as u64);
    let common = old.len().min(new.len());
    let mut dirty: Option<usize> = None;
    let mut at = 0;
    while at < common {
        let end = (at + BLOCK_LEN).min(common);
        if old[at..end] == new[at..end] {
            if let Some(from) = dirty.take() {
                change.write(from as u64, &old[from..at], &new[from..at]);
            }
            if at == 0 {
                // This contains the sequence, which every other program changes.
                change.expect(0, &old[..end]);
            }
        } else {
            dirty.get_or_insert(at);
        }
        at = end;
    }
    match dirty {
        _ if new.len() > old.len() => {
            let from = dirty.unwrap_or(common);
            change.write(from as u64, &old[from..], &new[from..]);
        }
        Some(from) => change.write(from as u64, &old[from..common], &new[from..common]),
        None => {}
    }
    if new.len() < old.len() {
        change.cut(new.len() as u64, file)?;
    }
    Ok(change)
}

//! Changes of a mailbox: flags, expunges, appends.
//!
//! Order, with all locks held: complete an unfinished change; cut off a torn end; write the names
//! of new keywords and all flags whose bytes could tear, through the journal; write the other flags
//! and the process id, `fsync`; expunge (`expunge.rs`); append (`append.rs`). Each step is durable
//! before the next begins, and each line is written whole or not at all: after a crash each message
//! has its old flags or its new ones.
//!
//! The modification time is set so that c-client's open sessions notice changed flags: they compare
//! seconds, so it differs by at least a second from before.

use std::path::PathBuf;

use barid_mailbox::{
    ChangeSet, Error, Known, MovedMessage, NewMessage, Result, SyncContext, SyncFigures,
    SyncReport, SyncedState,
};
use barid_types::{KeywordTable, Uid};
use barid_vfs::{File, FileStamp, OpenOptions, Timestamp};

use super::MbxMailbox;
use super::expunge::Slide;
use super::journal::{apply, file_name, recover_locked};
use super::layout::{MbxHeader, MbxScanState, PID_OFFSET, UIDVALIDITY_OFFSET};
use super::lock::{MbxWriteLocks, try_exclusive};
use super::plan::{ChangeTarget, FlagPlan, Patch, add_keywords, named, plan_flags, targets};
use super::repair::cut_torn_end;
use super::scan::{ScannedLines, read_header};
use super::{append, lock};
use crate::file_stamps::FileStamps;
use crate::redo::{Change, FileChange};

/// See [`barid_mailbox::Storage::sync`].
pub(super) fn sync(
    mailbox: &MbxMailbox,
    changes: &ChangeSet,
    appends: &[NewMessage<'_>],
    context: &mut SyncContext<'_>,
) -> Result<SyncReport> {
    append::check(mailbox, appends)?;
    if context.dry_run {
        return dry_run(mailbox, changes, appends, context);
    }
    let locks = MbxWriteLocks::acquire(mailbox)?;
    if context.is_stopped() {
        let source = std::io::Error::other("stopped before anything was changed");
        return Err(Error::at(&mailbox.path)(source));
    }
    let recovered = recover_locked(mailbox, &locks, context)?;
    let is_recovered = recovered.completed || recovered.quarantined.is_some();
    let mut figures = SyncFigures::default();
    let mut base = MbxBefore::read(mailbox, &*locks.file, (changes, context.known))?;
    let kept = base.settle(mailbox, &locks, context, &mut figures)?;
    if is_recovered && !base.is_known && !changes.is_empty() {
        return Err(Error::Changed { path: mailbox.path.clone() });
    }
    figures.size_before = base.size;
    figures.size_after = base.end;
    let mut session = MbxChange { mailbox, locks, base, figures };
    let mut report = session.run(changes, appends, context)?;
    report.failed.extend(kept.map(|copy| {
        let what = "the rest of an interrupted append was cut off, and is saved in";
        format!("{}: {what} {}", mailbox.path.display(), copy.display())
    }));
    Ok(report)
}

/// The mailbox at the beginning of a change.
struct MbxBefore {
    stamp: FileStamps,
    header: MbxHeader,
    /// All lines, if they had to be read.
    found: Option<ScannedLines>,
    /// `true` if the known messages equal those in the file.
    is_known: bool,
    /// Offset at which the last message ends, followed by the size of the file.
    end: u64,
    size: u64,
    /// Highest UID of any line, followed by the last one given out.
    last_uid: u32,
    uid_last: u32,
}

impl MbxBefore {
    /// Trusts the known messages if the stamp allows that, otherwise reads all lines.
    fn read(
        mailbox: &MbxMailbox,
        file: &dyn File,
        (changes, known): (&ChangeSet, &dyn Known),
    ) -> Result<Self> {
        let metadata = file.metadata().map_err(Error::at(&mailbox.path))?;
        let stamp = mailbox.stamp_of(FileStamp::from(&metadata));
        let size = metadata.size;
        let is_same = FileStamps::of_known(known)
            .is_some_and(|known| known.same_files(&stamp) && known.are_settled());
        let notes = MbxScanState::from_bytes(known.state())
            .filter(|notes| is_same && !notes.is_torn && notes.end == size);
        let given = known.uidnext().map_or(0, |uid| uid.get() - 1);
        if let Some(notes) = notes {
            let header = read_header(mailbox, file)?;
            let (uid_last, last_uid) = (header.uid_last.max(given), notes.last_uid);
            let (found, is_known, end) = (None, true, size);
            return Ok(Self { stamp, header, found, is_known, end, size, last_uid, uid_last });
        }
        let found = ScannedLines::read_all(mailbox, file)?;
        found.check_sound(mailbox, file, known)?;
        let is_known = found.is_known(known)? && !found.needs_numbers();
        if !is_known && !changes.is_empty() {
            return Err(Error::Changed { path: mailbox.path.clone() });
        }
        let (header, end, last_uid) = (found.header.clone(), found.end, found.last_uid);
        let is_same_series =
            known.uidvalidity().map(barid_types::UidValidity::get) == Some(header.uidvalidity);
        let uid_last = header.uid_last.max(if is_same_series { given } else { 0 });
        Ok(Self { stamp, header, found: Some(found), is_known, end, size, last_uid, uid_last })
    }

    /// Cuts off a torn end, and numbers messages that others have appended. Returns the path of the
    /// copy of the removed bytes.
    fn settle(
        &mut self,
        mailbox: &MbxMailbox,
        locks: &MbxWriteLocks,
        context: &SyncContext<'_>,
        figures: &mut SyncFigures,
    ) -> Result<Option<PathBuf>> {
        let mut kept = None;
        if self.end < self.size {
            let range = (self.end, self.size);
            kept = cut_torn_end(mailbox, locks, range, context.state_dir, figures)?;
        }
        let Some(found) = &mut self.found else { return Ok(kept) };
        found.fault = None;
        if found.needs_numbers() || found.header.uidvalidity == 0 {
            let numbered = found.number(mailbox, context.known)?;
            found.write_numbers(mailbox, &*locks.file, &numbered)?;
            figures.barriers += 2;
            (self.header, self.last_uid) = (found.header.clone(), found.last_uid);
            self.uid_last = found.uid_last;
        }
        Ok(kept)
    }
}

/// A change in progress.
struct MbxChange<'a> {
    mailbox: &'a MbxMailbox,
    locks: MbxWriteLocks,
    base: MbxBefore,
    figures: SyncFigures,
}

impl MbxChange<'_> {
    fn run(
        &mut self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
        context: &mut SyncContext<'_>,
    ) -> Result<SyncReport> {
        let known = context.known;
        let targets = targets(known, &named(changes), changes.drop_recent)?;
        let expunge = expunged(changes, &targets);
        let old_header = self.base.header.clone();
        add_keywords(&mut self.base.header, changes, appends);
        let slide = self.plan_slide(&expunge)?;
        let mut table = known.keywords().clone();
        let hides = slide.is_none();
        let plan = plan_flags(
            self.mailbox,
            &*self.locks.file,
            (&targets, changes),
            (&self.base.header, &mut table),
            hides,
        )?;
        if let Some(moved) = &mut context.moved {
            report_moves(&plan, slide.as_ref(), *moved);
        }
        let is_changed = !plan.patches.is_empty()
            || self.base.header != old_header
            || slide.as_ref().is_some_and(|_| !expunge.is_empty());
        self.write_flags(&plan, &old_header)?;
        if let Some(slide) = slide.as_ref().filter(|_| !expunge.is_empty()) {
            slide.run(self.mailbox, &self.locks, &mut self.figures)?;
            self.base.end = slide.new_size;
            self.figures.size_after = slide.new_size;
        }
        if !expunge.is_empty() {
            self.locks.share(self.mailbox)?;
        }
        self.figures.messages_written = plan.written.len() as u64;
        self.figures.messages_expunged = expunge.len() as u64;
        let modified = match is_changed {
            true => self.renew_times(),
            false => None,
        };
        let stamp = self.stamp(modified)?;
        let mut report = SyncReport {
            gone: plan.gone,
            unwritable_count: plan.unwritable.len() as u64,
            unwritable: plan.unwritable,
            expunged: expunge,
            shifts: slide.map(|slide| slide.shifts).unwrap_or_default(),
            ..SyncReport::default()
        };
        let stamp_after = self.append(appends, (stamp, is_changed), &mut report, context)?;
        if self.base.is_known {
            let state = self.notes().to_bytes();
            report.cache = Some(SyncedState {
                stamp: stamp.into(),
                stamp_after: stamp_after.into(),
                state,
                keywords: table,
            });
        }
        report.figures = self.figures;
        Ok(report)
    }

    /// Returns the notes for the mailbox before messages are appended.
    fn notes(&self) -> MbxScanState {
        MbxScanState {
            end: self.base.end,
            last_uid: self.base.last_uid,
            pid: self.base.header.pid,
            is_torn: false,
        }
    }

    /// Plans how messages are removed. Returns `None` if they must be hidden instead. Takes the
    /// session lock exclusively.
    fn plan_slide(&mut self, expunge: &[Uid]) -> Result<Option<Slide>> {
        if expunge.is_empty() {
            return Ok(Some(Slide::default()));
        }
        if !try_exclusive(self.mailbox, &*self.locks.file)? {
            return Ok(None);
        }
        let found = match self.base.found.take() {
            Some(found) => found,
            None => ScannedLines::read_all(self.mailbox, &*self.locks.file)?,
        };
        if found.fault.is_some() || found.end != self.base.end {
            let (offset, kind) = (found.end, "messages do not end where expected");
            return Err(Error::Damaged { path: self.mailbox.path.clone(), offset, kind });
        }
        let slide = Slide::plan(&found.records, self.base.end, expunge);
        self.base.found = Some(found);
        Ok(slide)
    }

    /// Writes keywords and flags.
    fn write_flags(&mut self, plan: &FlagPlan, old_header: &MbxHeader) -> Result<()> {
        let at = || Error::at(&self.mailbox.path);
        let has_keywords = self.base.header != *old_header;
        if plan.patches.is_empty() && !has_keywords {
            return Ok(());
        }
        let (journaled, direct): (Vec<&Patch>, Vec<&Patch>) =
            plan.patches.iter().partition(|patch| patch.may_tear());
        let mut file = FileChange::new(file_name(&self.locks.path), self.base.end);
        if has_keywords || !journaled.is_empty() {
            // In a file restored from a copy, or in another mailbox, this change must not be
            // replayed.
            let mut series = [0; 8];
            self.locks.file.read_exact_at(&mut series, UIDVALIDITY_OFFSET).map_err(at())?;
            file.expect(UIDVALIDITY_OFFSET, &series);
        }
        if has_keywords {
            let end = PID_OFFSET as usize;
            let (old, new) = (old_header.to_bytes(), self.base.header.to_bytes());
            let names = Patch::between(0, &old[..end], &new[..end]);
            if let Some(patch) = names {
                // Another program may have written the same names differently.
                let mut there = vec![0; patch.new.len()];
                self.locks.file.read_exact_at(&mut there, patch.offset).map_err(at())?;
                file.write(patch.offset, &there, &patch.new);
            }
        }
        for patch in journaled {
            patch.write_to(&mut file);
        }
        let mut change = Change::new(None);
        change.add(file);
        apply(self.mailbox, &self.locks, &change, &mut self.figures)?;
        for patch in &direct {
            self.locks.file.write_all_at(&patch.new, patch.offset).map_err(at())?;
        }
        let pid = self.mailbox.vfs.process().pid;
        if has_keywords || self.base.header.pid != pid {
            let text = format!("{pid:08x}\r\n");
            self.locks.file.write_all_at(text.as_bytes(), PID_OFFSET).map_err(at())?;
            self.base.header.pid = pid;
        }
        self.locks.file.sync_all().map_err(at())?;
        self.figures.barriers += 1;
        let bytes: usize = plan.patches.iter().map(|patch| patch.new.len()).sum();
        self.figures.bytes_in_place += bytes as u64 + change.bytes_written();
        Ok(())
    }

    /// Sets the modification time. A failure only makes others read all flags again. Returns the
    /// time if the file has it afterwards.
    fn renew_times(&self) -> Option<Timestamp> {
        const SECOND: i64 = 1_000_000_000;
        let (vfs, file) = (&self.mailbox.vfs, &self.locks.file);
        let (now, before) = (vfs.now(), self.locks.modified().unix_seconds());
        let second = now.unix_seconds();
        let second = if before >= second { (before + 1).min(second + 1) } else { second };
        // A fraction that no other program sets, so that no later change leaves the same time.
        let mut fraction = [0; 4];
        vfs.random(&mut fraction).ok()?;
        let fraction = 1 + i64::from(u32::from_le_bytes(fraction)) % (SECOND - 1);
        let modified = Timestamp { unix_nanos: second * SECOND + fraction };
        file.set_times(now, modified).ok()?;
        let found = file.metadata().ok()?.modified;
        (found == modified).then_some(modified)
    }

    /// Takes the stamp. If the file has the time that was set, every later change gives another
    /// stamp; otherwise it is as racy as any.
    fn stamp(&self, modified: Option<Timestamp>) -> Result<FileStamps> {
        if self.figures.barriers == 0 {
            return Ok(self.base.stamp);
        }
        let metadata = self.locks.file.metadata().map_err(Error::at(&self.mailbox.path))?;
        let mut stamp = self.mailbox.stamp_of(FileStamp::from(&metadata));
        let file = stamp.files[0];
        if modified == Some(file.modified) {
            let latest = file.modified.max(file.changed).max(stamp.taken).unix_nanos;
            let unix_nanos = latest.saturating_add(FileStamps::RACY_INTERVAL_NANOS);
            stamp.taken = Timestamp { unix_nanos };
        }
        Ok(stamp)
    }

    /// Appends messages. Returns the final stamp.
    fn append(
        &mut self,
        appends: &[NewMessage<'_>],
        (before, is_changed): (FileStamps, bool),
        report: &mut SyncReport,
        context: &SyncContext<'_>,
    ) -> Result<FileStamps> {
        if appends.is_empty() {
            return Ok(before);
        }
        if is_changed && context.is_stopped() {
            let (path, what) = (self.mailbox.path.clone(), "stopped".to_owned());
            return Err(Error::NotAppended { path, what });
        }
        let total = appends.iter().map(NewMessage::size).sum();
        context.report(0, total);
        let at = (self.base.end, self.base.uid_last);
        let header = &self.base.header;
        let appended =
            append::append(self.mailbox, &self.locks, header, at, appends, &mut self.figures);
        match appended {
            Ok(uids) => report.appended = uids.into_iter().map(Some).collect(),
            Err(error) if is_changed => {
                let (path, what) = (self.mailbox.path.clone(), error.to_string());
                return Err(Error::NotAppended { path, what });
            }
            Err(error) => return Err(error),
        }
        context.report(total, total);
        append::keep_times(self.mailbox, &self.locks, before.files[0].modified);
        let metadata = self.locks.file.metadata().map_err(Error::at(&self.mailbox.path))?;
        Ok(self.mailbox.stamp_of(FileStamp::from(&metadata)))
    }
}

/// Returns the UIDs to be expunged that exist, ascending.
fn expunged(changes: &ChangeSet, targets: &[ChangeTarget]) -> Vec<Uid> {
    let is_there = |uid: &Uid| targets.binary_search_by_key(uid, |target| target.uid).is_ok();
    changes.expunge.iter().copied().filter(is_there).collect()
}

/// Reports the messages whose flags will change.
fn report_moves(plan: &FlagPlan, slide: Option<&Slide>, moved: &mut dyn FnMut(&MovedMessage)) {
    for written in &plan.written {
        let offset = written.target.offset;
        let offset = slide.map_or(offset, |slide| slide.new_offset(offset));
        moved(&MovedMessage {
            uid: written.target.uid,
            flags: written.flags,
            keywords: written.keywords,
            location: Some(written.target.location(offset)),
        });
    }
}

/// Plans and counts without writing.
fn dry_run(
    mailbox: &MbxMailbox,
    changes: &ChangeSet,
    appends: &[NewMessage<'_>],
    context: &SyncContext<'_>,
) -> Result<SyncReport> {
    if let Some(found) = super::journal::unfinished(mailbox)? {
        let (path, journal) = (mailbox.path.clone(), found.journal.unwrap_or_default());
        return Err(Error::Unfinished { path, journal, what: found.what });
    }
    let at = || Error::at(&mailbox.path);
    let file = mailbox.vfs.open(&mailbox.path, OpenOptions::READ).map_err(at())?;
    lock::lock_shared(mailbox, &*file)?;
    let base = MbxBefore::read(mailbox, &*file, (changes, context.known))?;
    let targets = targets(context.known, &named(changes), changes.drop_recent)?;
    let expunge = expunged(changes, &targets);
    let mut header = base.header.clone();
    add_keywords(&mut header, changes, appends);
    let mut table: KeywordTable = context.known.keywords().clone();
    let plan = plan_flags(mailbox, &*file, (&targets, changes), (&header, &mut table), false)?;
    let mut figures = SyncFigures {
        messages_written: plan.written.len() as u64,
        messages_expunged: expunge.len() as u64,
        bytes_in_place: plan.patches.iter().map(|patch| patch.new.len() as u64).sum(),
        bytes_appended: append::len_of(appends)?,
        size_before: base.size,
        size_after: base.end,
        ..SyncFigures::default()
    };
    figures.barriers = u64::from(!plan.patches.is_empty()) + if appends.is_empty() { 0 } else { 2 };
    if !expunge.is_empty() {
        let found = match base.found {
            Some(found) => found,
            None => ScannedLines::read_all(mailbox, &*file)?,
        };
        if let Some(slide) = Slide::plan(&found.records, base.end, &expunge) {
            figures.bytes_moved = slide.bytes_moved();
            figures.size_after = slide.new_size;
            figures.barriers += 4;
        }
    }
    figures.size_after += figures.bytes_appended;
    let (gone, unwritable) = (plan.gone, plan.unwritable);
    let unwritable_count = unwritable.len() as u64;
    Ok(SyncReport {
        gone,
        unwritable,
        unwritable_count,
        expunged: expunge,
        figures,
        ..SyncReport::default()
    })
}

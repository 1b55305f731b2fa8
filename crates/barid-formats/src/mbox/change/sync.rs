//! Changes of a mailbox: locks, recovery, plan, journal, steps, ledger, appends.

use std::borrow::Cow;

use barid_mailbox::{
    ChangeSet, Error, Known, NewMessage, Result, SyncContext, SyncFigures, SyncReport, SyncedState,
    sink_error,
};
use barid_state::Ledger;
use barid_types::Uid;
use barid_vfs::{File, FileStamp, OpenOptions, Timestamp};

use super::collapse;
use super::journal::Places;
use super::plan::{PlanInput, Planned, plan};
use super::recover::{Outcome, recover, recover_mailbox, unfinished};
use super::run::renew_times;
use super::work::places_of;
use super::write::{PlannerInput, WriteResult, write};
use crate::file_stamps::FileStamps;
use crate::mbox::MboxMailbox;
use crate::mbox::append::{self, Base, Believed, FirstBase, UnseenAppends};
use crate::mbox::lock::{MboxLockPurpose, MboxWriteLocks};

/// Changes messages and appends others. `docs/design/mbox-writing.md` describes the order and the
/// states that a crash leaves.
pub(in crate::mbox) fn sync(
    mailbox: &MboxMailbox,
    changes: &ChangeSet,
    appends: &[NewMessage<'_>],
    context: &mut SyncContext<'_>,
) -> Result<SyncReport> {
    if context.dry_run {
        return dry_run(mailbox, changes, appends, context);
    }
    let not_stored = |error| not_stored(error, appends);
    let (locks, recovered) =
        lock_and_recover(mailbox, changes.is_empty(), context).map_err(not_stored)?;
    if let Some(ledger) = &mut context.ledger {
        // Others may have given out UIDs since it was opened.
        ledger.refresh()?;
    }
    let believed = Believed::of(mailbox, &locks, context.known, context.ledger.as_deref())?;
    let first = FirstBase::of(mailbox, &locks, (changes, appends), context)?;
    let changes = &*with_keywords(mailbox, &locks, believed.as_ref(), changes, appends)?;
    let before = stamp_of(mailbox, locks.file())?;
    if changes.is_empty() || first.is_some() {
        let base = Base::of(believed.as_ref(), first.as_ref());
        let mut report = append_only(mailbox, &locks, appends, base, before, context)?;
        report.figures.barriers += recovered.barriers;
        return Ok(report);
    }
    let places = places_of(mailbox, &locks, context.state_dir);
    let written = write(mailbox, places, locks.file(), Some(&locks), context, |room, context| {
        plan_with(mailbox, changes, &before, room, context)
    });
    let WriteResult { planned, mut figures, is_written, times } = written.map_err(not_stored)?;
    figures.barriers += recovered.barriers;
    figures.messages_written = planned.messages_written;
    figures.messages_expunged = planned.expunged.len() as u64;
    // From here on the changes are durable, and no error may deny that.
    let state = follow(mailbox, &locks, &planned, before, is_written.then_some(times));
    let mut report = SyncReport {
        gone: planned.gone.clone(),
        unwritable: planned.unwritable.clone(),
        unwritable_count: planned.unwritable_count,
        expunged: planned.expunged.clone(),
        shifts: planned.shifts.clone(),
        figures,
        ..SyncReport::default()
    };
    if let Some(ledger) = &mut context.ledger {
        if !planned.has_all_uids {
            // Otherwise an equal message that comes before the next scan of the whole file would
            // get the UID back. Durable with the mod-sequence of the change.
            ledger.expunge(&planned.expunged);
        } else if let Err(error) = forget_written(mailbox, ledger, context.known) {
            report.failed.push(error.to_string());
        }
    }
    match state {
        Ok(state) => report.cache = Some(state),
        Err(error) => report.failed.push(error.to_string()),
    }
    match append_to(mailbox, &locks, &planned, appends, context, &mut report) {
        Ok(()) => Ok(report),
        Err(error) if is_written => {
            Err(Error::NotAppended { path: mailbox.path.clone(), what: error.to_string() })
        }
        Err(error) => Err(error),
    }
}

/// Takes the locks and completes an unfinished change.
fn lock_and_recover(
    mailbox: &MboxMailbox,
    only_appends: bool,
    context: &mut SyncContext<'_>,
) -> Result<(MboxWriteLocks, Outcome)> {
    let purpose = if only_appends { MboxLockPurpose::Append } else { MboxLockPurpose::Change };
    loop {
        let locks = MboxWriteLocks::acquire(mailbox, purpose)?;
        let outcome = recover(mailbox, &locks, context)?;
        if !outcome.is_blocked {
            return Ok((locks, outcome));
        }
        drop(locks);
        recover_mailbox(mailbox, context)?;
    }
}

/// Adds to the error of an unfinished change that its messages were not appended: the recovery will
/// not append them.
fn not_stored(error: Error, appends: &[NewMessage<'_>]) -> Error {
    match error {
        Error::Unfinished { path, journal, what } if !appends.is_empty() => {
            let what = format!("{what}; no message was appended");
            Error::Unfinished { path, journal, what }
        }
        error => error,
    }
}

/// Returns the changes, with the unlisted keywords of messages to be appended, if keywords can be
/// listed now: open c-client sessions must find their messages where they were.
fn with_keywords<'c>(
    mailbox: &MboxMailbox,
    locks: &MboxWriteLocks,
    believed: Option<&Believed>,
    changes: &'c ChangeSet,
    appends: &[NewMessage<'_>],
) -> Result<Cow<'c, ChangeSet>> {
    let Some(believed) = believed.filter(|_| locks.excludes_sessions()) else {
        return Ok(Cow::Borrowed(changes));
    };
    let mut keywords = append::unlisted_keywords(mailbox, locks, believed, appends)?;
    if keywords.is_empty() {
        return Ok(Cow::Borrowed(changes));
    }
    keywords.extend_from_slice(&changes.keywords);
    Ok(Cow::Owned(ChangeSet { keywords, ..changes.clone() }))
}

/// Plans and counts without writing.
fn dry_run(
    mailbox: &MboxMailbox,
    changes: &ChangeSet,
    appends: &[NewMessage<'_>],
    context: &mut SyncContext<'_>,
) -> Result<SyncReport> {
    if let Some(found) = unfinished(mailbox, context.state_dir)? {
        let journal = found.journal.unwrap_or_default();
        return Err(Error::Unfinished { path: mailbox.path.clone(), journal, what: found.what });
    }
    let at = || Error::at(&mailbox.path);
    let path = mailbox.vfs.canonicalize(&mailbox.path).map_err(at())?;
    let places = Places { vfs: &*mailbox.vfs, mailbox: &path, state_dir: context.state_dir };
    let file = mailbox.vfs.open(&path, OpenOptions::READ).map_err(at())?;
    let before = stamp_of(mailbox, &*file)?;
    let WriteResult { planned, mut figures, .. } =
        write(mailbox, places, &*file, None, context, |room, context| {
            plan_with(mailbox, changes, &before, room, context)
        })?;
    figures.messages_written = planned.messages_written;
    figures.messages_expunged = planned.expunged.len() as u64;
    figures.bytes_appended = append::len_of(mailbox, appends)?;
    figures.size_after += figures.bytes_appended;
    figures.barriers += if appends.is_empty() { 0 } else { 3 };
    let growth = figures.size_after.saturating_sub(figures.size_before);
    places.check_space(growth + figures.bytes_journaled)?;
    let Planned { gone, unwritable, unwritable_count, expunged, shifts, .. } = planned;
    let report = SyncReport {
        gone,
        unwritable,
        unwritable_count,
        expunged,
        shifts,
        figures,
        ..SyncReport::default()
    };
    Ok(report)
}

fn plan_with(
    mailbox: &MboxMailbox,
    changes: &ChangeSet,
    stamp: &FileStamps,
    room: PlannerInput<'_, '_>,
    context: &mut SyncContext<'_>,
) -> Result<Planned> {
    let PlannerInput { places, file, pages, draft } = room;
    let size = stamp.files[0].size;
    let input = PlanInput {
        path: &mailbox.path,
        file,
        pages: Some(pages),
        size,
        separators: mailbox.separators(),
        known: context.known,
        changes,
        verify: !is_known(context.known, stamp),
        collapse: match changes.expunge.is_empty() {
            true => None,
            false => collapse::block(places.vfs, places.mailbox, file, size),
        },
        now: mailbox.vfs.now(),
    };
    match &mut context.moved {
        Some(moved) => plan(&input, draft, *moved),
        None => plan(&input, draft, &mut |_| {}),
    }
}

/// Returns `true` if the known messages are certain to be those of a file with this stamp.
fn is_known(known: &dyn Known, stamp: &FileStamps) -> bool {
    let is_same = |known: FileStamps| known.same_files(stamp) && known.are_settled();
    FileStamps::of_known(known).is_some_and(is_same) && !known.tail_verified()
}

fn stamp_of(mailbox: &MboxMailbox, file: &dyn File) -> Result<FileStamps> {
    let metadata = file.metadata().map_err(Error::at(&mailbox.path))?;
    Ok(mailbox.stamp_of(FileStamp::from(&metadata)))
}

/// Returns the stamp of a file that was given the time `times`. If it has that time, every later
/// change gives another stamp, however soon; else it is as racy as any.
fn settled(mailbox: &MboxMailbox, file: &dyn File, times: Option<Timestamp>) -> Result<FileStamps> {
    let mut stamp = stamp_of(mailbox, file)?;
    let FileStamp { modified, changed, .. } = stamp.files[0];
    if times != Some(modified) {
        return Ok(stamp);
    }
    let latest = modified.max(changed).max(stamp.taken).unix_nanos;
    let unix_nanos = latest.saturating_add(FileStamps::RACY_INTERVAL_NANOS);
    stamp.taken = Timestamp { unix_nanos };
    Ok(stamp)
}

/// Returns the new state for a cache; `written` is the time that the mailbox was given, if it was
/// written.
fn follow(
    mailbox: &MboxMailbox,
    locks: &MboxWriteLocks,
    planned: &Planned,
    before: FileStamps,
    written: Option<Option<Timestamp>>,
) -> Result<SyncedState> {
    let mut stamp = match written {
        None => before,
        Some(times) => settled(mailbox, locks.file(), times)?,
    };
    // Mail that others delivered after the known messages is found by the next scan, as growth.
    stamp.files[0].size = stamp.files[0].size.min(planned.known_end);
    Ok(SyncedState {
        stamp: stamp.into(),
        stamp_after: stamp.into(),
        state: planned.notes.to_bytes(),
        keywords: planned.keywords.clone(),
    })
}

/// Removes the ledger's entries of messages whose UIDs are in the file now. The UIDs stay assigned.
fn forget_written(mailbox: &MboxMailbox, ledger: &mut Ledger, known: &dyn Known) -> Result<()> {
    ledger.lock(mailbox.options.lock_timeout)?;
    let done = forget_under_lock(ledger, known);
    ledger.unlock();
    done
}

fn forget_under_lock(ledger: &mut Ledger, known: &dyn Known) -> Result<()> {
    let (Some(validity), Some(uidnext)) = (known.uidvalidity(), known.uidnext()) else {
        return Ok(());
    };
    let Some(last) = ledger.uid_last().filter(|_| ledger.uidvalidity() == Some(validity)) else {
        return Ok(());
    };
    let rest = match last < uidnext {
        // Entries that are all dropped need not be read.
        true => Vec::new(),
        false => ledger.entries()?.iter().copied().filter(|entry| entry.uid >= uidnext).collect(),
    };
    ledger.replace(validity, rest);
    ledger.raise_uidnext(uidnext);
    Ok(ledger.commit()?)
}

/// Appends messages to a mailbox that has no other changes.
fn append_only(
    mailbox: &MboxMailbox,
    locks: &MboxWriteLocks,
    appends: &[NewMessage<'_>],
    base: Base<'_>,
    before: FileStamps,
    context: &SyncContext<'_>,
) -> Result<SyncReport> {
    let size_before = before.files[0].size;
    if appends.is_empty() {
        let figures =
            SyncFigures { size_before, size_after: size_before, ..SyncFigures::default() };
        return Ok(SyncReport { figures, ..SyncReport::default() });
    }
    let appended = append::append_locked(mailbox, locks, appends, base, context.state_dir)?;
    let is_known = is_known(context.known, &before);
    let is_certain = is_known || UnseenAppends::of(mailbox, context.known, &before).is_some();
    let stamp_after = if is_certain { settle(mailbox, locks) } else { None };
    let appended_under = stamp_after
        .filter(|_| context.unseen)
        .and_then(|after| UnseenAppends::record(mailbox, context.known, base, (&appended, after)));
    let cache = stamp_after.filter(|_| is_known).map(|stamp_after| {
        let mut stamp = before;
        // NULs after it were cut off.
        stamp.files[0].size = size_before.min(appended.size - appended.bytes);
        let (state, keywords) = (context.known.state().to_vec(), context.known.keywords().clone());
        SyncedState { stamp: stamp.into(), stamp_after: stamp_after.into(), state, keywords }
    });
    let figures = SyncFigures {
        barriers: appended.barriers,
        bytes_appended: appended.bytes,
        size_before,
        size_after: appended.size,
        ..SyncFigures::default()
    };
    let appended = appended.uids;
    Ok(SyncReport { appended, appended_under, cache, figures, ..SyncReport::default() })
}

/// Sets the times of a mailbox after an append; returns its stamp. The messages are durable
/// already: if this fails, the next scan finds them.
fn settle(mailbox: &MboxMailbox, locks: &MboxWriteLocks) -> Option<FileStamps> {
    // Not synced: after a crash the next scan just finds another stamp.
    let times = renew_times(&*mailbox.vfs, locks.file(), locks.modified(), true).ok()?;
    settled(mailbox, locks.file(), times).ok()
}

/// Appends messages after those that were just changed.
fn append_to(
    mailbox: &MboxMailbox,
    locks: &MboxWriteLocks,
    planned: &Planned,
    appends: &[NewMessage<'_>],
    context: &SyncContext<'_>,
    report: &mut SyncReport,
) -> Result<()> {
    if appends.is_empty() {
        return Ok(());
    }
    let is_known = planned.known_end == planned.size && planned.has_all_uids;
    let believed = match context.known.uidnext().filter(|_| is_known) {
        Some(uidnext) => {
            let given = context.ledger.as_ref().and_then(|ledger| ledger.uidnext());
            let uidnext = uidnext.max(given.unwrap_or(uidnext));
            let last = last_kept(context.known, &planned.expunged)?;
            Some(Believed { notes: planned.notes, last, uidnext })
        }
        None => None,
    };
    let base = Base::of(believed.as_ref(), None);
    let appended = append::append_locked(mailbox, locks, appends, base, context.state_dir)?;
    report.appended = appended.uids;
    report.figures.bytes_appended = appended.bytes;
    report.figures.barriers += appended.barriers;
    report.figures.size_after = appended.size;
    let stamp = settle(mailbox, locks);
    match &mut report.cache {
        Some(cache) if planned.known_end == planned.size => match stamp {
            Some(stamp) => cache.stamp_after = stamp.into(),
            None => report.cache = None,
        },
        _ => {}
    }
    Ok(())
}

/// Returns the UID of the last known message that was not expunged.
fn last_kept(known: &dyn Known, expunged: &[Uid]) -> Result<Option<Uid>> {
    let mut index = known.len();
    while let Some(before) = index.checked_sub(1) {
        let mut last = None;
        sink_error(known.visit(before, &mut |message| {
            last = Some(message.uid);
            false
        }))?;
        match last {
            Some(uid) if expunged.binary_search(&uid).is_ok() => index = before,
            last => return Ok(last),
        }
    }
    Ok(None)
}

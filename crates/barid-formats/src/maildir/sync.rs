//! Changing messages: flags by renames, expunges by unlinks, `new` to `cur`.
//!
//! A change links nothing, so no message ever exists twice. A file that is no longer where it was
//! is searched for by its base name, since another program may have changed its flags; the change
//! is then applied to its present flags. If nothing of this happens, a change of known messages is
//! reported as a scan would find it (`expected.rs`). If the search does not show whether the file
//! exists, everything else is done, and the error [`Error::Changed`] asks for a scan and another
//! attempt.
//!
//! Order: keyword letters (durable), renames and unlinks, fsync of the directories; then appends
//! (see `append.rs`). Commit point of each change: its rename or unlink; all are acknowledged by
//! the fsync of the directories. After a crash each message is under its old name or its new one.
//! A request to stop is noticed between two files: the remaining files are left unchanged, and the
//! changes made so far become durable as usual.

use std::io::ErrorKind;
use std::path::Path;

use barid_mailbox::{
    ChangeProgress, ChangeSet, Error, FlagChanges, Known, MessageName, NewMessage, Result,
    SyncContext, SyncFigures, SyncReport, sink_error,
};
use barid_types::{Flag, Keyword, Uid};
use barid_vfs::DotLock;

use super::expected::ExpectedReport;
use super::keywords::Keywords;
use super::layout::{EXPUNGE_BATCH, NAME_TRIES_MAX};
use super::name::{self, Letters};
use super::relist::{Relisted, RenameSearch};
use super::{Dirs, Maildir, append, path_of, uids};

/// Applies changes and appends.
pub(super) fn sync(
    maildir: &Maildir,
    changes: &ChangeSet,
    appends: &[NewMessage<'_>],
    context: &mut SyncContext<'_>,
) -> Result<SyncReport> {
    let mut report = SyncReport::default();
    let known = context.known;
    let dry_run = context.dry_run;
    let of_changes = changes.flags.len() + changes.expunge.len();
    let steps = context.steps(of_changes);
    let is_expected = context.will_rescan && appends.is_empty() && !dry_run;
    let expected = if is_expected { ExpectedReport::begin(maildir, known)? } else { None };
    let keywords = give_letters(maildir, changes, appends, dry_run, &steps)?;
    let mut work = MaildirChange::new(maildir, steps, keywords, dry_run)?;
    work.expected = expected;
    work.change_flags(known, &changes.flags)?;
    work.expunge(known, &changes.expunge)?;
    if changes.drop_recent {
        work.drop_recent(known)?;
    }
    work.make_durable()?;
    let ChangeProgress { done, total, .. } = work.steps;
    if done < total {
        return Err(Error::Stopped { path: maildir.path.clone(), done, total });
    }
    work.unsure.sort_unstable();
    let expunges = !changes.expunge.is_empty() && !dry_run;
    if let Some(ledger) = context.ledger.as_deref_mut().filter(|_| expunges)
        && !ledger.entries()?.is_empty()
    {
        let is_sure = |uid: &Uid| work.unsure.binary_search(uid).is_err();
        let expunged: Vec<Uid> = changes.expunge.iter().copied().filter(is_sure).collect();
        ledger.expunge(&expunged);
        ledger.commit()?;
    }
    if !work.unsure.is_empty() {
        // They stay as they are: a scan finds out which are there.
        return Err(Error::Changed { path: maildir.path.clone() });
    }
    if let Some(expected) = work.expected.filter(|_| work.gone.is_empty()) {
        report.expected = expected.finish(maildir, work.touched, known)?.map(Box::new);
    }
    work.gone.sort_unstable();
    work.gone.dedup();
    report.gone = work.gone;
    report.figures = work.figures;
    report.figures.barriers += match dry_run {
        true => append::barriers(appends),
        false => {
            let appended = append::append(maildir, context, &work.keywords, appends);
            let appended = appended.map_err(|error| match error {
                Error::Stopped { path, .. } if of_changes > 0 => {
                    Error::NotAppended { path, what: "stopped".to_owned() }
                }
                error => error,
            })?;
            report.appended = appended.uids;
            report.appended_under = appended.uidvalidity;
            report.appended_keys = appended.keys;
            appended.barriers
        }
    };
    report.figures.bytes_appended = appends.iter().map(NewMessage::size).sum();
    Ok(report)
}

/// Reads the keyword letters and gives one to each keyword that is to be set and has none.
fn give_letters(
    maildir: &Maildir,
    changes: &ChangeSet,
    appends: &[NewMessage<'_>],
    dry_run: bool,
    steps: &ChangeProgress<'_>,
) -> Result<Keywords> {
    let vfs = maildir.vfs.as_ref();
    let path = &maildir.paths.keywords;
    let of_changes = changes.flags.changes().flat_map(|change| &change.add_keywords);
    let of_appends = appends.iter().flat_map(|message| &message.keywords);
    let wanted: Vec<&Keyword> = of_changes.chain(&changes.keywords).chain(of_appends).collect();
    let keywords = Keywords::read(vfs, path)?;
    if wanted.iter().all(|keyword| keywords.letter(keyword).is_some()) {
        return Ok(keywords);
    }
    let unsupported = |what| Error::Unsupported { path: path.clone(), what };
    let _lock: Option<DotLock> = match dry_run {
        true => None,
        false => Some(
            uids::take_lock_unless(&maildir.vfs, &maildir.paths.uidlist, steps)?
                .ok_or_else(|| unsupported("dovecot-keywords cannot be written"))?,
        ),
    };
    let mut keywords = Keywords::read(vfs, path)?;
    for keyword in wanted {
        if keywords.add(keyword).is_none() {
            return Err(unsupported("a Maildir can store at most 26 keywords"));
        }
    }
    if !dry_run {
        keywords.write(vfs, &maildir.path, path)?;
    }
    Ok(keywords)
}

/// A file to be changed.
struct FileToChange {
    uid: Uid,
    name: Vec<u8>,
    in_new: bool,
    twin: bool,
    /// The mark of the file ([`name::mark`]), 0 if it is not known.
    mark: u32,
    key: u64,
}

/// Result of a change of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileOutcome {
    /// It is made.
    Made,
    /// There is no such file.
    Gone,
    /// The file was not found, but may be there under another name.
    Unsure,
}

struct MaildirChange<'a> {
    steps: ChangeProgress<'a>,
    maildir: &'a Maildir,
    dirs: Dirs,
    keywords: Keywords,
    relisted: Relisted,
    /// `true` for each of `new` and `cur` that changed.
    touched: [bool; 2],
    gone: Vec<Uid>,
    /// Messages that were not found, but may exist.
    unsure: Vec<Uid>,
    /// The report of a scan, as long as all is as it was known.
    expected: Option<ExpectedReport>,
    figures: SyncFigures,
    /// `true` if the files are only located, and not changed.
    dry_run: bool,
}

impl<'a> MaildirChange<'a> {
    fn new(
        maildir: &'a Maildir,
        steps: ChangeProgress<'a>,
        keywords: Keywords,
        dry_run: bool,
    ) -> Result<Self> {
        Ok(Self {
            steps,
            maildir,
            dirs: maildir.open_dirs()?,
            keywords,
            relisted: Relisted::default(),
            touched: [false; 2],
            gone: Vec::new(),
            unsure: Vec::new(),
            expected: None,
            figures: SyncFigures::default(),
            dry_run,
        })
    }

    fn change_flags(&mut self, known: &dyn Known, changes: &FlagChanges) -> Result<()> {
        let uids: Vec<Uid> = changes.uids().collect();
        for ((uid, change), target) in changes.iter().zip(locate(known, &uids)?) {
            if self.steps.is_stopped() {
                break;
            }
            self.steps.advance(1);
            let Some(target) = target else {
                self.gone.push(uid);
                continue;
            };
            let add = self.keywords.letters(&change.add_keywords);
            let remove = self.keywords.letters(&change.remove_keywords);
            let changed = |name: &[u8]| {
                let old = name::letters(name);
                let added = old.flags.bits() | change.add.bits();
                let flags = barid_types::FlagSet::from_bits(added & !change.remove.bits());
                let keywords = (old.keywords | add) & !remove;
                Letters { flags: flags.without(Flag::Recent), keywords }
            };
            let done = self.on_file(&target, |work, name, in_new| {
                let letters = changed(name);
                if letters == name::letters(name) {
                    // Nothing to do, as long as the file is there.
                    return work.exists(name, in_new);
                }
                work.rename(&target, (name, in_new), &name::with_letters(name, letters))
            })?;
            self.note(uid, done);
        }
        Ok(())
    }

    /// Notes the result for a message that is not changed.
    fn note(&mut self, uid: Uid, done: FileOutcome) {
        match done {
            FileOutcome::Made => {}
            FileOutcome::Gone => self.gone.push(uid),
            FileOutcome::Unsure => self.unsure.push(uid),
        }
    }

    fn expunge(&mut self, known: &dyn Known, uids: &[Uid]) -> Result<()> {
        let targets = locate(known, uids)?;
        let batches = uids.chunks(EXPUNGE_BATCH).zip(targets.chunks(EXPUNGE_BATCH));
        for (uids, targets) in batches {
            if self.steps.is_stopped() {
                break;
            }
            self.expunge_batch(uids, targets)?;
            self.steps.advance(uids.len());
        }
        Ok(())
    }

    /// Removes files together; then searches for those that are elsewhere, one by one.
    fn expunge_batch(&mut self, uids: &[Uid], targets: &[Option<FileToChange>]) -> Result<()> {
        let there = targets.iter().flatten();
        let paths: Vec<_> = there
            .map(|target| path_of(&self.dirs.paths[usize::from(!target.in_new)], &target.name))
            .collect();
        let mut removed = match self.dry_run {
            true => Vec::new(),
            false => self.maildir.vfs.remove_files(&paths),
        }
        .into_iter()
        .zip(paths);
        for (uid, target) in uids.iter().zip(targets) {
            let Some(target) = target else {
                self.gone.push(*uid);
                continue;
            };
            let mut first = removed.next();
            let done = self.on_file(target, |work, name, in_new| {
                let at = usize::from(!in_new);
                let path = path_of(&work.dirs.paths[at], name);
                let done = match (work.dry_run, first.take()) {
                    (true, _) => work.exists(name, in_new)?,
                    (false, Some((result, path))) => found(result, &path)?,
                    (false, None) => found(work.maildir.vfs.remove_file(&path), &path)?,
                };
                work.touched[at] |= done;
                work.figures.messages_expunged += u64::from(done);
                match &mut work.expected {
                    expected if target.twin => *expected = None,
                    Some(expected) if done => expected.expunged(target.uid, target.key),
                    _ => {}
                }
                Ok(done)
            })?;
            self.note(*uid, done);
        }
        Ok(())
    }

    /// Moves the known messages of `new` to `cur`, under the lock of the UIDs as Dovecot does, and
    /// gives twins names of their own.
    fn drop_recent(&mut self, known: &dyn Known) -> Result<()> {
        let mut targets = Vec::new();
        sink_error(known.visit(0, &mut |message| {
            if let Some(MessageName { name, in_new, .. }) = message.location.message_name() {
                let twin = name::is_twin(name, message.key.0);
                if in_new || twin {
                    targets.extend(target(message));
                }
            }
            true
        }))?;
        if targets.is_empty() {
            return Ok(());
        }
        self.steps.total += targets.len() as u64;
        let _lock = match self.dry_run {
            true => None,
            false => {
                let Maildir { vfs, paths, .. } = self.maildir;
                match uids::take_lock_unless(vfs, &paths.uidlist, &self.steps) {
                    // Earlier changes are reported, and made durable.
                    Err(Error::Stopped { .. }) => return Ok(()),
                    lock => lock?,
                }
            }
        };
        for target in targets {
            if self.steps.is_stopped() {
                break;
            }
            self.steps.advance(1);
            self.on_file(&target, |work, name, in_new| {
                if !in_new && !target.twin {
                    return Ok(true);
                }
                let mut new_name = if target.twin { work.own_name(name) } else { name.to_vec() };
                if !new_name.contains(&super::layout::INFO_SEP) {
                    new_name.extend_from_slice(b":2,");
                }
                work.rename(&target, (name, in_new), &new_name)
            })?;
        }
        Ok(())
    }

    /// Returns a base name of its own for a twin; sizes and flags stay.
    fn own_name(&self, name: &[u8]) -> Vec<u8> {
        let vfs = self.maildir.vfs.as_ref();
        let mut own = append::unique_stem(vfs.now(), &vfs.process());
        let rest = memchr::memchr2(super::layout::FLAGS_SEP, super::layout::INFO_SEP, name);
        own.extend_from_slice(&name[rest.unwrap_or(name.len())..]);
        own
    }

    /// Changes a file by its name; searches for it elsewhere as long as `change` reports that it is
    /// not there.
    fn on_file(
        &mut self,
        target: &FileToChange,
        mut change: impl FnMut(&mut Self, &[u8], bool) -> Result<bool>,
    ) -> Result<FileOutcome> {
        let (mut name, mut in_new) = (target.name.clone(), target.in_new);
        let base = name::base(&target.name);
        let hash = name::base_hash(base);
        let mut is_it = true;
        loop {
            if is_it && change(self, &name, in_new)? {
                return Ok(FileOutcome::Made);
            }
            // The scan tells files of one base name apart.
            if target.twin {
                return Ok(FileOutcome::Unsure);
            }
            // Another program has changed something.
            self.expected = None;
            match self.relisted.find_renamed(&self.dirs, hash, base, &name)? {
                RenameSearch::Renamed(now, is_new) => (name, in_new) = (now, is_new),
                RenameSearch::Gone => return Ok(FileOutcome::Gone),
                RenameSearch::Unsure => return Ok(FileOutcome::Unsure),
            }
            match self.mark(&name, in_new)? {
                Some(mark) if target.mark != 0 && mark != target.mark => {
                    return Ok(FileOutcome::Unsure);
                }
                mark => is_it = mark.is_some(),
            }
        }
    }

    /// Returns the mark of a file; `None` if it is not there.
    fn mark(&self, name: &[u8], in_new: bool) -> Result<Option<u32>> {
        let at = usize::from(!in_new);
        match self.dirs.handles[at].metadata(name) {
            Ok(metadata) => Ok(Some(name::mark(&metadata))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::at(&path_of(&self.dirs.paths[at], name))(source)),
        }
    }

    fn exists(&self, name: &[u8], in_new: bool) -> Result<bool> {
        let at = usize::from(!in_new);
        let stat = self.dirs.handles[at].metadata(name).map(drop);
        found(stat, &path_of(&self.dirs.paths[at], name))
    }

    /// Renames the file of a message into `cur`; returns `false` if it is not there.
    fn rename(
        &mut self,
        target: &FileToChange,
        (name, in_new): (&[u8], bool),
        new_name: &[u8],
    ) -> Result<bool> {
        let done = if self.dry_run {
            self.exists(name, in_new)?
        } else {
            let from = path_of(&self.dirs.paths[usize::from(!in_new)], name);
            let renamed = self.rename_to_free_name(&from, new_name)?;
            let done = renamed.is_some();
            match (&mut self.expected, renamed) {
                // The key of a twin follows its name.
                (expected, Some(_)) if target.twin => *expected = None,
                (Some(expected), Some(renamed)) => expected.renamed(target.uid, renamed),
                _ => {}
            }
            done
        };
        if done {
            self.figures.messages_written += 1;
            self.touched[0] |= in_new;
            self.touched[1] = true;
        }
        Ok(done)
    }

    /// Renames a file into `cur`; adds a number after the flags if a message has that name, which
    /// is another one with the same base name. Returns the name; `None` if the file is not there.
    fn rename_to_free_name(&self, from: &Path, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let cur = &self.dirs.paths[1];
        let mut to = name.to_vec();
        let mut result = self.maildir.vfs.rename_new(from, &path_of(cur, &to));
        for number in 1..NAME_TRIES_MAX {
            if !result.as_ref().is_err_and(|error| error.kind() == ErrorKind::AlreadyExists) {
                break;
            }
            to = [name, format!(",{number}").as_bytes()].concat();
            result = self.maildir.vfs.rename_new(from, &path_of(cur, &to));
        }
        Ok(found(result, from)?.then_some(to))
    }

    fn make_durable(&mut self) -> Result<()> {
        self.figures.barriers += self.touched.iter().filter(|touched| **touched).count() as u64;
        // The target first: a file must not be removed from one directory before it is in the
        // other.
        for at in [1, 0] {
            if self.touched[at] && !self.dry_run {
                let path = &self.dirs.paths[at];
                self.maildir.vfs.sync_dir(path).map_err(Error::at(path))?;
            }
        }
        Ok(())
    }
}

/// Returns `true` if a call found its file.
fn found(result: std::io::Result<()>, path: &Path) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Error::at(path)(source)),
    }
}

/// Finds the files of some UIDs, which ascend: by binary search, or by one pass over all messages
/// if that is faster.
fn locate(known: &dyn Known, uids: &[Uid]) -> Result<Vec<Option<FileToChange>>> {
    let mut found: Vec<Option<FileToChange>> = Vec::with_capacity(uids.len());
    let walk = uids.len() > 16 && uids.len() as u64 * 32 > u64::from(known.len());
    if walk {
        let mut wanted = uids.iter().peekable();
        sink_error(known.visit(0, &mut |message| {
            while wanted.next_if(|uid| **uid < message.uid).is_some() {
                found.push(None);
            }
            if wanted.next_if(|uid| **uid == message.uid).is_some() {
                found.push(target(message));
            }
            wanted.peek().is_some()
        }))?;
        found.resize_with(uids.len(), || None);
        return Ok(found);
    }
    let mut from = 0;
    for uid in uids {
        let (mut low, mut high) = (from, known.len());
        let mut hit = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let mut order = std::cmp::Ordering::Equal;
            sink_error(known.visit(middle, &mut |message| {
                order = message.uid.cmp(uid);
                if order.is_eq() {
                    hit = target(message);
                }
                false
            }))?;
            match order {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => break,
            }
        }
        from = low;
        found.push(hit);
    }
    Ok(found)
}

fn target(message: &barid_mailbox::KnownMessage<'_>) -> Option<FileToChange> {
    let MessageName { name, in_new, mark } = message.location.message_name()?;
    let twin = name::is_twin(name, message.key.0);
    let (uid, key) = (message.uid, message.key.0);
    Some(FileToChange { uid, name: name.to_vec(), in_new, twin, mark, key })
}

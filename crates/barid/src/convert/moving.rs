//! Moving messages: they are durable in the target before they leave the source.
//!
//! The steps: a note of the messages is made durable; they are copied ([`super::copy`]); the copied
//! ones are expunged ([`Mailbox::change`]); the note is removed. After a crash at any point every
//! message is in the source, in the target or in both, and the same call ends the move: messages of
//! the note whose copies it finds in the target, compared as texts, are only expunged
//! (`docs/design/moving.md`).

use std::collections::HashMap;

use barid_mailbox::{FlagChange, FlagChanges};
use barid_types::{FlagSet, Keyword, Uid, UidSet};

use super::large::stopped_error;
use super::locked_note::LockedNote;
use super::loss::Hold;
use super::move_note::MoveNote;
use super::text::{Digest, TextTreatment};
use super::{ConvertEvent, ConvertOptions, ConvertReport, TellConvert, copy};
use crate::limits::MOVE_NOTE_LEN_MAX;
use crate::reading::{Large, MessageRead, ReadOutcome, read_each};
use crate::{
    ChangeOptions, ChangeRequest, Changed, Error, KeepExpunged, KeepLimits, Mailbox, Result, View,
};

/// Report of a move.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Moved {
    /// The messages that left the source: their UIDs there, and in the target.
    pub uids: Vec<(Uid, Uid)>,
    /// Number of them that an interrupted move had copied before.
    pub found: u64,
    /// Result of the copy; `None` if there was nothing to copy.
    pub copied: Option<ConvertReport>,
    /// Results of the expunges: of all messages but the last one of a file, and of that one, which
    /// is kept for [`Mailbox::undo`].
    pub changed: Vec<Changed>,
    /// Messages whose proof failed, and which stay in the source; their copies stay, too.
    pub unproven: Vec<Uid>,
}

impl Moved {
    /// Returns `true` if every message that still existed was moved.
    pub fn is_whole(&self) -> bool {
        self.unproven.is_empty() && self.copied.as_ref().is_none_or(ConvertReport::has_all)
    }
}

/// Moves messages to another mailbox, where they get new UIDs.
///
/// With [`ConvertOptions::proof`] only messages that were read back and are the same leave the
/// source; [`ConvertOptions::dedupe`] is not used. The expunged messages are not kept for
/// [`Mailbox::undo`], since they are in the target, but for the last one of a file, whose end may
/// come while it is moved. **Commit points:** the note; each batch of copied messages; the
/// expunge, and that of the last message.
///
/// # Errors
/// [`Error::MoveRunning`]; [`Error::ConversionStopped`], after which the same call continues;
/// [`Error::NotRemoved`] if the copies are durable and the source cannot be changed, after which
/// the same call expunges them; [`Error::TargetInTheWay`] if both are the same mailbox; errors of
/// either mailbox.
pub fn move_messages(
    source: &mut Mailbox,
    uids: &[Uid],
    target: &mut Mailbox,
    options: &ConvertOptions,
    tell: &mut TellConvert<'_>,
) -> Result<Moved> {
    check(source, target)?;
    if uids.is_empty() {
        return Ok(Moved::default());
    }
    let vfs = std::sync::Arc::clone(&source.vfs);
    let name = MoveNote::name(source.id(), target.id());
    let Some(place) = LockedNote::lock(&*vfs, source.state_dir(), &name)? else {
        return Err(Error::MoveRunning { path: source.path().to_owned() });
    };
    let earlier = place.read(MOVE_NOTE_LEN_MAX)?.and_then(|bytes| MoveNote::decode(&bytes));
    let plan = Plan::new(source, target, uids, earlier);
    place.write(&plan.note.encode())?;
    let validity = source.status().uidvalidity;
    let before = source.view().checks_of(uids)?;
    let mut moved = Moved { uids: plan.find_copies(source, target, options)?, ..Moved::default() };
    moved.found = moved.uids.len() as u64;
    if moved.found > 0 {
        sync_names(target)?;
    }
    let there: UidSet = moved.uids.iter().map(|(uid, _)| *uid).collect();
    let to_copy: Vec<Uid> = uids.iter().copied().filter(|uid| !there.contains(*uid)).collect();
    if !to_copy.is_empty() {
        let how = ConvertOptions { dedupe: None, ..options.clone() };
        let mut differing = UidSet::new();
        let copied = copy(source, &to_copy, target, &how, &mut |event| {
            if let ConvertEvent::Proof(proof) = &event
                && !proof.differences.is_empty()
            {
                let sides = [&proof.before, &proof.after].into_iter().flatten();
                sides.take(1).for_each(|side| differing.insert(side.uid));
            }
            tell(event);
        })?;
        let (unproven, proven): (Vec<_>, Vec<_>) =
            copied.uids.iter().copied().partition(|(uid, _)| differing.contains(*uid));
        moved.unproven = unproven.into_iter().map(|(uid, _)| uid).collect();
        moved.uids.extend(proven);
        moved.copied = Some(copied);
    }
    if !moved.uids.is_empty() {
        // Another program may have renumbered or changed the source without a scan having noticed
        // it: a message that is no longer what was copied stays.
        source.catch_up()?;
        source.check_numbering(validity)?;
        let now = source.view().checks_of(uids)?;
        let is_same = |uid: &Uid| now.get(uid).is_none_or(|check| before.get(uid) == Some(check));
        let (same, changed): (Vec<_>, Vec<_>) =
            moved.uids.iter().copied().partition(|(uid, _)| is_same(uid));
        moved.uids = same;
        moved.unproven.extend(changed.into_iter().map(|(uid, _)| uid));
        if let Err(error) = expunge(source, &moved.uids, options, &mut moved.changed) {
            let gone: u64 = moved.changed.iter().map(|done| u64::from(done.expunged)).sum();
            return Err(Error::NotRemoved {
                path: source.path().to_owned(),
                messages: (moved.uids.len() as u64).saturating_sub(gone),
                source: Box::new(error),
            });
        }
    }
    plan.finish(source, uids, (&moved, &place))?;
    moved.uids.sort_unstable();
    Ok(moved)
}

/// Checks that messages can leave one mailbox for the other, if both are opened for writing.
///
/// # Errors
/// [`Error::TargetInTheWay`] if both are the same mailbox; [`Error::ReadOnly`] if the source cannot
/// lose messages, or the target cannot get any.
pub fn check_move(source: &View, target: &View) -> Result<()> {
    if source.id() == target.id() {
        let (path, what) = (target.path().to_owned(), "the target is the mailbox itself");
        return Err(Error::TargetInTheWay { path, what });
    }
    for (mailbox, can) in [(source, source.caps().expunge), (target, target.caps().append)] {
        if !can {
            return Err(Error::ReadOnly { path: mailbox.path().to_owned() });
        }
    }
    Ok(())
}

/// Fails if messages cannot leave one mailbox for the other.
fn check(source: &Mailbox, target: &Mailbox) -> Result<()> {
    check_move(source, target)?;
    match [source, target].into_iter().find(|mailbox| mailbox.options.read_only) {
        Some(mailbox) => Err(Error::ReadOnly { path: mailbox.path().to_owned() }),
        None => Ok(()),
    }
}

/// The messages that a move has to compare and copy.
struct Plan {
    note: MoveNote,
    /// Messages that may have been copied by an interrupted move.
    begun: Vec<Uid>,
    /// The lowest UID of their copies.
    from: Uid,
    /// Messages of an interrupted move that are not moved now.
    left: UidSet,
}

impl Plan {
    fn new(source: &Mailbox, target: &Mailbox, uids: &[Uid], earlier: Option<MoveNote>) -> Self {
        let (ours, theirs) = (source.status(), target.status());
        let mut note = MoveNote {
            source: source.id(),
            source_validity: ours.uidvalidity.get(),
            target: target.id(),
            target_validity: theirs.uidvalidity.get(),
            uidnext: theirs.uidnext.get(),
            uids: uids.iter().copied().collect(),
        };
        let (mut begun, mut from, mut left) = (Vec::new(), Uid::MIN, UidSet::new());
        let is_pair =
            |earlier: &MoveNote| (earlier.source, earlier.target) == (note.source, note.target);
        if let Some(earlier) = earlier.filter(is_pair) {
            // A mailbox whose messages were renumbered is compared completely.
            let is_same = earlier.source_validity == note.source_validity;
            begun = uids.to_vec();
            begun.retain(|uid| !is_same || earlier.uids.contains(*uid));
            let is_numbered = earlier.target_validity == note.target_validity;
            note.uidnext = if is_numbered { earlier.uidnext.min(note.uidnext) } else { 1 };
            from = Uid::new(note.uidnext).unwrap_or(Uid::MIN);
            if is_same {
                left = earlier.uids;
                note.uids.insert_all(&left);
            }
        }
        Self { note, begun, from, left }
    }

    /// Finds the copies that an interrupted move has made, and gives them the flags of their
    /// messages, which it may not have written.
    fn find_copies(
        &self,
        source: &mut Mailbox,
        target: &mut Mailbox,
        options: &ConvertOptions,
    ) -> Result<Vec<(Uid, Uid)>> {
        if self.begun.is_empty() {
            return Ok(Vec::new());
        }
        let rows = target.row_from(self.from)?..target.len();
        let copies = rows.map(|row| target.uid_of(row)).collect::<Result<Vec<_>>>()?;
        if copies.is_empty() {
            return Ok(Vec::new());
        }
        let texts = TextTreatment::between(source.format(), target.format());
        let mut hold = Hold::of(target, source.keywords())?;
        let mut known: HashMap<Digest, Vec<Copy>> = HashMap::new();
        each(target, &copies, texts, options, &mut |uid, digest, flags, keywords| {
            known.entry(digest).or_default().push(Copy { uid, flags, keywords });
        })?;
        // The first copy is that of the first message.
        known.values_mut().for_each(|copies| copies.reverse());
        let (mut found, mut changes) = (Vec::new(), FlagChanges::default());
        each(source, &self.begun, texts, options, &mut |uid, digest, flags, keywords| {
            let Some(copy) = known.get_mut(&digest).and_then(Vec::pop) else { return };
            found.push((uid, copy.uid));
            let missing = FlagSet::from_bits(flags.bits() & !copy.flags.bits());
            let mut add_keywords = hold.keep(keywords);
            add_keywords.retain(|keyword| !copy.keywords.contains(keyword));
            let change = FlagChange { add: missing, add_keywords, ..FlagChange::default() };
            if change != FlagChange::default() {
                changes.extend([(copy.uid, change)]);
            }
        })?;
        if !changes.is_empty() {
            let request = ChangeRequest { flags: changes, ..ChangeRequest::default() };
            target.change(&request, &ChangeOptions::default())?;
        }
        Ok(found)
    }

    /// Removes the note, or leaves in it the messages that still exist of an interrupted move, and
    /// those that are in the target under UIDs that are not known.
    fn finish(
        &self,
        source: &Mailbox,
        uids: &[Uid],
        (moved, place): (&Moved, &LockedNote<'_>),
    ) -> Result<()> {
        let copied = moved.copied.iter();
        let failed = copied.flat_map(|copied| copied.failed.iter().map(|(uid, _)| *uid));
        let settled = moved.uids.iter().map(|(uid, _)| *uid).chain(failed);
        let settled: UidSet = settled.chain(moved.unproven.iter().copied()).collect();
        if self.left.is_empty() && uids.iter().all(|uid| settled.contains(*uid)) {
            return place.remove();
        }
        let ours: UidSet = uids.iter().copied().collect();
        let is_left = |uid: &Uid| match ours.contains(*uid) {
            true => !settled.contains(*uid),
            false => self.left.contains(*uid),
        };
        let there = source.uids()?.into_iter().filter_map(Uid::new);
        let left: UidSet = there.filter(is_left).collect();
        match left.is_empty() {
            true => place.remove(),
            false => place.write(&MoveNote { uids: left, ..self.note.clone() }.encode()),
        }
    }
}

/// A message of the target.
struct Copy {
    uid: Uid,
    flags: FlagSet,
    keywords: Vec<Keyword>,
}

/// Reads messages, and reports the digest by which a message and its copy are compared. Unreadable
/// ones are passed over.
fn each(
    mailbox: &mut Mailbox,
    uids: &[Uid],
    texts: TextTreatment,
    options: &ConvertOptions,
    take: &mut dyn FnMut(Uid, Digest, FlagSet, Vec<Keyword>),
) -> Result<()> {
    let stop = options.stop.as_deref();
    let make = move |mailbox: &Mailbox, read: MessageRead<'_>, scratch: &mut Vec<u8>| {
        // Quoting that the target does not undo makes another text of the copy.
        let digest = texts.likeness_of(mailbox, &read, scratch, stop)?;
        Ok((digest, read.flags, read.keywords))
    };
    read_each(mailbox, (uids, Large::Stream), &make, &mut |_, uid, outcome| {
        if let ReadOutcome::Made((digest, flags, keywords)) = outcome {
            take(uid, digest, flags, keywords);
        }
        Ok::<_, Error>(!options.is_stopped())
    })?;
    match options.is_stopped() {
        true => Err(stopped_error(mailbox).into()),
        false => Ok(()),
    }
}

/// Makes the names durable under which an interrupted move has stored copies: it may have ended
/// before it did. Contents are durable before they get a name.
fn sync_names(target: &Mailbox) -> Result<()> {
    let path = target.path();
    let metadata = target.vfs.metadata(path);
    let is_folder = metadata.is_ok_and(|it| it.file_type == barid_vfs::FileType::Dir);
    let within = target.format().message_folders.iter().map(|folder| path.join(folder));
    for folder in is_folder.then(|| path.to_owned()).into_iter().chain(within) {
        target.vfs.sync_dir(&folder).map_err(Error::at(&folder))?;
    }
    Ok(())
}

/// Expunges the messages that are durable in the target.
///
/// Another program may be writing the last message of a file under a lock that readers do not take:
/// what came after it was copied is kept with it.
fn expunge(
    source: &mut Mailbox,
    moved: &[(Uid, Uid)],
    options: &ConvertOptions,
    changed: &mut Vec<Changed>,
) -> Result<()> {
    let last = match source.storage.names_messages() {
        true => None,
        false => source.len().checked_sub(1).map(|row| source.uid_of(row)).transpose()?,
    };
    let (growing, whole): (Vec<Uid>, Vec<Uid>) =
        moved.iter().map(|(uid, _)| *uid).partition(|uid| Some(*uid) == last);
    let keep_last = KeepExpunged::OrRefuse(KeepLimits::default());
    for (expunge, keep) in [(whole, KeepExpunged::No), (growing, keep_last)] {
        if expunge.is_empty() {
            continue;
        }
        let request = ChangeRequest { expunge, ..ChangeRequest::default() };
        let (stop, progress) = (options.stop.clone(), options.progress.clone());
        let how = ChangeOptions { stop, progress, keep_expunged: keep, ..ChangeOptions::default() };
        changed.push(source.change(&request, &how)?);
    }
    Ok(())
}

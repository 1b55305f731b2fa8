//! The plan of a change: the new flags of each message.

use barid_mailbox::{
    ChangeSet, Error, Extent, FlagChange, Known, KnownMessage, Location, NewMessage, Result,
    sink_error,
};
use barid_types::{Flag, FlagSet, Keyword, KeywordMask, KeywordTable, Uid};
use barid_vfs::File;

use super::MbxMailbox;
use super::layout::{
    DELETED, EXPUNGED, MbxHeader, MbxRecord, OLD, SECTOR_LEN, STATUS_FROM_END, UID_FROM_END,
    bits_of, flags_of,
};
use crate::redo::FileChange;

/// Bytes from the `;` of a line to its end.
const TAIL_LEN: u64 = STATUS_FROM_END + 1;
/// Maximum number of targets that are looked up one by one; for more, all known messages are
/// visited once.
const SEARCHES_MAX: usize = 64;

/// A known message that a change refers to.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangeTarget {
    pub(super) uid: Uid,
    pub(super) offset: u64,
    line_len: u32,
    header_len: u32,
    body_len: u64,
    recent: bool,
}

impl ChangeTarget {
    fn of(message: &KnownMessage<'_>) -> Option<Self> {
        let Extent { offset, separator_len, header_len, body_len } = message.location.extent()?;
        let (line_len, recent) = (separator_len, message.flags.contains(Flag::Recent));
        Some(Self { uid: message.uid, offset, line_len, header_len, body_len, recent })
    }

    /// Returns its location after it has moved to `offset`.
    pub(super) fn location(&self, offset: u64) -> Location<'static> {
        Location::from(Extent {
            offset,
            separator_len: self.line_len,
            header_len: self.header_len,
            body_len: self.body_len,
        })
    }
}

/// The new flags of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewFlags {
    pub(super) target: ChangeTarget,
    pub(super) flags: FlagSet,
    pub(super) keywords: KeywordMask,
}

/// Bytes that replace others of the same length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Patch {
    pub(super) offset: u64,
    pub(super) old: Vec<u8>,
    pub(super) new: Vec<u8>,
    /// Bytes of the same line that do not change, with their offsets; filled only if the patch may
    /// tear.
    around: Vec<(u64, Vec<u8>)>,
}

impl Patch {
    /// Returns the part that differs between `old` and `new`, which have the same length and begin
    /// at `offset`, or `None` if they are equal.
    pub(super) fn between(offset: u64, old: &[u8], new: &[u8]) -> Option<Self> {
        let differs = |(old, new): (&u8, &u8)| old != new;
        let first = old.iter().zip(new).position(differs)?;
        let last = old.iter().zip(new).rposition(differs)?;
        let (old, new) = (old[first..=last].to_vec(), new[first..=last].to_vec());
        Some(Self { offset: offset + first as u64, old, new, around: Vec::new() })
    }

    /// Records the line around the patch, which begins at `offset`, if the patch may tear.
    fn within(mut self, offset: u64, line: &[u8]) -> Self {
        if self.may_tear() {
            let status = line.len() - STATUS_FROM_END as usize;
            let uid = line.len() - UID_FROM_END as usize - 1;
            self.around = vec![
                (offset, line[..status].to_vec()),
                (offset + uid as u64, line[uid..].to_vec()),
            ];
        }
        self
    }

    /// Adds the patch to `file`, on the condition that the line around it is unchanged.
    pub(super) fn write_to(&self, file: &mut FileChange) {
        let (before, behind): (Vec<_>, Vec<_>) =
            self.around.iter().partition(|(offset, _)| *offset < self.offset);
        before.iter().for_each(|(offset, bytes)| file.expect(*offset, bytes));
        file.write(self.offset, &self.old, &self.new);
        behind.iter().for_each(|(offset, bytes)| file.expect(*offset, bytes));
    }

    /// Returns `true` if a crash may leave part of the patch written.
    pub(super) fn may_tear(&self) -> bool {
        let end = self.offset + self.new.len() as u64;
        self.offset / SECTOR_LEN != (end - 1) / SECTOR_LEN
    }
}

/// The planned changes of flags.
#[derive(Debug, Default)]
pub(super) struct FlagPlan {
    /// Patches in file order.
    pub(super) patches: Vec<Patch>,
    /// Messages whose flags change, with their new flags.
    pub(super) written: Vec<NewFlags>,
    /// Messages for which a keyword could not be added.
    pub(super) unwritable: Vec<Uid>,
    /// Messages that are gone.
    pub(super) gone: Vec<Uid>,
}

/// Returns the known messages that a change refers to, in mailbox order: those of `uids`, which
/// ascend, and with `all_recent` also those that are \Recent.
pub(super) fn targets(
    known: &dyn Known,
    uids: &[Uid],
    all_recent: bool,
) -> Result<Vec<ChangeTarget>> {
    let mut found = Vec::with_capacity(uids.len());
    if !all_recent && uids.len() <= SEARCHES_MAX {
        for uid in uids {
            if let Some(at) = sink_error(known.position(*uid))? {
                sink_error(known.visit(at, &mut |message| {
                    found.extend(ChangeTarget::of(message));
                    false
                }))?;
            }
        }
        return Ok(found);
    }
    let mut uids = uids.iter().peekable();
    sink_error(known.visit(0, &mut |message| {
        while uids.next_if(|uid| **uid < message.uid).is_some() {}
        let is_named = uids.next_if(|uid| **uid == message.uid).is_some();
        let is_recent = all_recent && message.flags.contains(Flag::Recent);
        if is_named || is_recent {
            found.extend(ChangeTarget::of(message));
        }
        all_recent || uids.peek().is_some()
    }))?;
    Ok(found)
}

/// Returns the UIDs that a change names, ascending.
pub(super) fn named(changes: &ChangeSet) -> Vec<Uid> {
    let flagged = changes.flags.uids();
    let mut uids: Vec<Uid> = flagged.chain(changes.expunge.iter().copied()).collect();
    uids.sort_unstable();
    uids.dedup();
    uids
}

/// Adds the keywords of the change to the header if there is room for them.
pub(super) fn add_keywords(
    header: &mut MbxHeader,
    changes: &ChangeSet,
    appends: &[NewMessage<'_>],
) {
    let of_flags = changes.flags.changes().flat_map(|change| &change.add_keywords);
    let of_appends = appends.iter().flat_map(|message| &message.keywords);
    for keyword in changes.keywords.iter().chain(of_flags).chain(of_appends) {
        header.add(keyword);
    }
}

/// Plans the flags of all targets. With `hides`, expunged targets are marked as hidden; otherwise
/// they are skipped.
pub(super) fn plan_flags(
    mailbox: &MbxMailbox,
    file: &dyn File,
    (targets, changes): (&[ChangeTarget], &ChangeSet),
    (header, table): (&MbxHeader, &mut KeywordTable),
    hides: bool,
) -> Result<FlagPlan> {
    let slots = header.slots(table);
    let mut plan = FlagPlan::default();
    let found = |uid: &Uid| targets.binary_search_by_key(uid, |target| target.uid).is_ok();
    plan.gone = named(changes).into_iter().filter(|uid| !found(uid)).collect();
    let mut flags = changes.flags.iter().peekable();
    for target in targets {
        while flags.next_if(|(uid, _)| *uid < target.uid).is_some() {}
        let change = flags.next_if(|(uid, _)| *uid == target.uid).map(|(_, change)| change);
        let is_expunged = changes.expunge.binary_search(&target.uid).is_ok();
        if is_expunged && !hides {
            continue;
        }
        let (before, line) = status(mailbox, file, target)?;
        let mut after = before;
        if is_expunged {
            after.flags |= EXPUNGED | DELETED | OLD;
        } else {
            if !change.is_none_or(|change| fits(header, change)) {
                plan.unwritable.push(target.uid);
            }
            if let Some(change) = change {
                apply(change, header, &mut after);
            }
            if changes.drop_recent && target.recent {
                after.flags |= OLD;
            }
        }
        let offset = target.offset + u64::from(target.line_len) - STATUS_FROM_END;
        let (old, new) = (before.status(), after.status());
        let Some(patch) = Patch::between(offset, old.as_bytes(), new.as_bytes()) else { continue };
        plan.patches.push(patch.within(target.offset, &line));
        if !is_expunged {
            let (flags, keywords) = (flags_of(after.flags), slots.mask(after.keywords));
            let keywords = KeywordMask(keywords);
            plan.written.push(NewFlags { target: *target, flags, keywords });
        }
    }
    Ok(plan)
}

fn fits(header: &MbxHeader, change: &FlagChange) -> bool {
    change.add_keywords.iter().all(|keyword| header.slot(keyword).is_some())
}

fn apply(change: &FlagChange, header: &MbxHeader, record: &mut MbxRecord) {
    record.flags = record.flags & !bits_of(change.remove) | bits_of(change.add);
    if change.remove.contains(Flag::Recent) {
        record.flags |= OLD;
    }
    record.keywords &= !bits_of_keywords(header, &change.remove_keywords);
    record.keywords |= bits_of_keywords(header, &change.add_keywords);
}

/// Returns the bits of keywords; keywords that the header does not list are ignored.
pub(super) fn bits_of_keywords(header: &MbxHeader, keywords: &[Keyword]) -> u32 {
    let slots = keywords.iter().filter_map(|keyword| header.slot(keyword));
    slots.fold(0, |bits, slot| bits | 1 << slot)
}

/// Reads the line of a message. Returns it parsed and raw.
fn status(
    mailbox: &MbxMailbox,
    file: &dyn File,
    target: &ChangeTarget,
) -> Result<(MbxRecord, Vec<u8>)> {
    let mut line = vec![0; target.line_len as usize];
    let changed = || Error::Changed { path: mailbox.path.clone() };
    if u64::from(target.line_len) < TAIL_LEN {
        return Err(changed());
    }
    let read = file.read_full_at(&mut line, target.offset).map_err(Error::at(&mailbox.path))?;
    let record = MbxRecord::parse(&line[..read], target.offset).map_err(|_| changed())?;
    let size = u64::from(target.header_len) + target.body_len;
    let is_it = record.uid == target.uid.get()
        && u32::from(record.line_len) == target.line_len
        && record.size == size
        && !record.is_hidden();
    if is_it { Ok((record, line)) } else { Err(changed()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_what_differs() {
        let check = |old: &str, new: &str, expected: Option<(u64, &str)>| {
            let found = Patch::between(500, old.as_bytes(), new.as_bytes());
            let found = found.map(|patch| (patch.offset, patch.new));
            assert_eq!(found, expected.map(|(at, new)| (at, new.as_bytes().to_vec())));
        };
        check("000000000000", "000000000000", None);
        check("000000000000", "000000000011", Some((510, "11")));
        check("000000000000", "100000000001", Some((500, "100000000001")));
    }

    #[test]
    fn a_patch_may_tear_at_the_edge_of_a_sector() {
        let patch = |offset, len| Patch {
            offset,
            old: vec![0; len],
            new: vec![1; len],
            around: Vec::new(),
        };
        assert!(!patch(500, 12).may_tear());
        assert!(patch(500, 13).may_tear());
        assert!(!patch(512, 12).may_tear());
    }
}

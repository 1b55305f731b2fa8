//! Following a change that this library made: without a scan or a read of the mailbox.

use barid_mailbox::{Extent, MovedMessage, Shift, Stamp};
use barid_types::{KeywordTable, ModSeq, Uid};

use crate::core_row::{Core, RowLocation};
use crate::delta::Tally;
use crate::error::{Error, Result, ScanFault};
use crate::limits::{FOLLOW_HELD_LEN, FOLLOW_ROWS_MAX};
use crate::log::{ChangedPlace, ChangedRow, LogEntry};
use crate::meta::Meta;
use crate::restate::{RESTATED_LEN, Restated};
use crate::rewrite::Revision;
use crate::shifts::{RowShift, Shifts};
use crate::snapshot::Snapshot;
use crate::spool::Spool;

/// The effects of a change of the mailbox, except for the moved messages that [`Follower::moved`]
/// received. Most of them come from a [`barid_mailbox::SyncReport`] and its
/// [`barid_mailbox::SyncedState`].
#[derive(Clone, Copy, Debug)]
pub struct Follow<'a> {
    /// Messages that are gone, ascending.
    pub expunged: &'a [Uid],
    /// Parts of the file that moved, ascending and disjoint. Every message whose separator started
    /// in one moves with it, unless [`Follower::moved`] received it.
    pub shifts: &'a [Shift],
    /// The current stamp of the mailbox. It must not cover appended messages, which are still
    /// unknown: with appends it is the stamp before them ([`barid_mailbox::SyncedState::stamp`]).
    pub stamp: Stamp,
    /// The format's notes for the next scan.
    pub state: &'a [u8],
    /// The keywords; known ones keep their slots.
    pub keywords: &'a KeywordTable,
    /// The lowest unassigned UID.
    pub uidnext: Uid,
    /// The modseq of messages whose flags or keywords changed, and of expunges. A message that only
    /// moved keeps its own. [`Meta::highest_modseq`] rises to it in any case.
    pub modseq: ModSeq,
    /// Bytes of the mailbox on disk.
    pub size_bytes: u64,
    /// As [`barid_mailbox::ScanReport::tail_verified`]: `false` if the change verified, or could
    /// trust, the position of every message.
    pub tail_verified: bool,
}

/// A collector of the effects of a planned change on messages; they take effect only when it is
/// finished.
///
/// Some thousands of messages are stored in memory, more of them in an unnamed file in the folder
/// of the cache. Dropping it discards everything.
#[derive(Debug)]
pub struct Follower<'a> {
    known: &'a Snapshot,
    /// The last messages; earlier ones are in the spool.
    held: Vec<u8>,
    spool: Option<Spool>,
    last: Option<Uid>,
    fault: Option<Error>,
}

impl<'a> Follower<'a> {
    /// Prepares for a change of the mailbox of the snapshot `known`. Costs nothing.
    pub fn new(known: &'a Snapshot) -> Self {
        Self { known, held: Vec::new(), spool: None, last: None, fault: None }
    }

    /// Records a message that will have other flags or another position; called in mailbox order.
    /// Only a message in a stretch of bytes can be given a position.
    ///
    /// An error is stored for [`Follower::finish`].
    pub fn moved(&mut self, message: &MovedMessage) {
        if self.fault.is_none()
            && let Err(error) = self.take(message)
        {
            self.fault = Some(error);
        }
    }

    fn take(&mut self, message: &MovedMessage) -> Result<()> {
        if self.last.replace(message.uid).is_some_and(|last| last >= message.uid) {
            return Err(Error::Scan(ScanFault::UidOrder));
        }
        let restated = Restated::of(message)?;
        if self.held.len() >= FOLLOW_HELD_LEN {
            let spool = match &mut self.spool {
                Some(spool) => spool,
                None => {
                    let spool = Spool::create(&*self.known.vfs, self.known.path())?;
                    self.spool.insert(spool)
                }
            };
            spool.write(&self.held, spool.reserve(self.held.len() as u64))?;
            self.held.clear();
        }
        restated.encode(&mut self.held);
        Ok(())
    }

    /// Returns the snapshot of the mailbox after the change.
    ///
    /// For few messages one record is appended to the file. The cost is proportional to the change
    /// and independent of the size of the mailbox, as for [`crate::Delta::apply`]; a failing append
    /// is reported in the same way ([`Snapshot::store_error`]). For many messages a new file is
    /// written from the old one and renamed; that takes memory only for its buffers.
    ///
    /// # Errors
    /// Returns [`Error::Overtaken`] if a new file is needed and another process has changed the
    /// cache or is changing it; [`Error::Scan`] if the change contradicts itself or the known
    /// state; errors of reading the old file, of writing the new one, and of the store. After any
    /// error the cache is unchanged: it describes the mailbox before the change. Open it and scan.
    pub fn finish(self, follow: &Follow<'_>) -> Result<Snapshot> {
        if let Some(error) = self.fault {
            return Err(error);
        }
        let ascend = follow.expunged.is_sorted_by(|a, b| a < b);
        let apart = |a: &Shift, b: &Shift| a.old_offset.saturating_add(a.len) <= b.old_offset;
        if !ascend || !follow.shifts.is_sorted_by(apart) {
            return Err(Error::Scan(ScanFault::UidOrder));
        }
        let rows = follow.expunged.len() + follow.shifts.len();
        if self.spool.is_none() && rows <= FOLLOW_ROWS_MAX {
            return append(self.known, &self.held, follow);
        }
        let overtaken = || Error::Overtaken { path: self.known.path().to_owned() };
        let moved = MovedRows::new(&self.held, self.spool.as_ref());
        let gone = follow.expunged.len() as u32;
        let mut revision = Following { follow, moved, expunged: follow.expunged };
        self.known.revised(gone, &mut revision)?.ok_or_else(overtaken)
    }
}

/// The messages that a follower received, in their order.
struct MovedRows<'a> {
    held: &'a [u8],
    spool: Option<&'a Spool>,
    /// A piece of the spool or of the messages in memory, and the offset of the next one.
    piece: Vec<u8>,
    piece_at: usize,
    /// Bytes of the spool that were read.
    spool_at: u64,
}

impl<'a> MovedRows<'a> {
    fn new(held: &'a [u8], spool: Option<&'a Spool>) -> Self {
        Self { held, spool, piece: Vec::new(), piece_at: 0, spool_at: 0 }
    }

    /// Returns the next message, without advancing; see [`MovedRows::advance`].
    fn peek(&mut self) -> Result<Option<Restated>> {
        if self.piece_at == self.piece.len() {
            self.piece_at = 0;
            let left = self.spool.map_or(0, |spool| spool.len() - self.spool_at);
            if let (Some(spool), 1..) = (self.spool, left) {
                self.piece.resize(left.min(FOLLOW_HELD_LEN as u64) as usize, 0);
                spool.read(&mut self.piece, self.spool_at)?;
                self.spool_at += self.piece.len() as u64;
            } else {
                self.piece.clear();
                self.piece.extend_from_slice(std::mem::take(&mut self.held));
            }
        }
        let next = self.piece.get(self.piece_at..self.piece_at + RESTATED_LEN);
        Ok(next.and_then(Restated::decode))
    }

    fn advance(&mut self) {
        self.piece_at += RESTATED_LEN;
    }
}

/// The revision of a new file that follows a change.
struct Following<'a> {
    follow: &'a Follow<'a>,
    moved: MovedRows<'a>,
    /// Expunged messages that were not reached yet.
    expunged: &'a [Uid],
}

impl Revision for Following<'_> {
    fn revise(&mut self, core: &mut Core) -> Result<bool> {
        let unknown = Error::Scan(ScanFault::UnknownUid);
        let moved = self.moved.peek()?;
        if let Some((uid, rest)) = self.expunged.split_first()
            && *uid <= core.uid
        {
            if *uid < core.uid || moved.is_some_and(|moved| moved.uid == *uid) {
                return Err(unknown);
            }
            self.expunged = rest;
            return Ok(false);
        }
        match moved {
            Some(moved) if moved.uid < core.uid => return Err(unknown),
            Some(moved) if moved.uid == core.uid => {
                moved.flags_in(core, self.follow.modseq);
                match (moved.place(0), core.location) {
                    (None, _) => shift(self.follow.shifts, core),
                    (Some(_), RowLocation::Name { .. }) => {
                        return Err(Error::Scan(ScanFault::NoSpan));
                    }
                    (Some(place), RowLocation::Extent(_)) => place.state_in(core),
                }
                self.moved.advance();
            }
            _ => shift(self.follow.shifts, core),
        }
        Ok(true)
    }

    fn finish(&mut self, meta: &Meta) -> Result<Meta> {
        if !self.expunged.is_empty() || self.moved.peek()?.is_some() {
            return Err(Error::Scan(ScanFault::UnknownUid));
        }
        Ok(self.follow.meta(meta))
    }
}

/// Moves a message with the part of the file in which it starts.
fn shift(shifts: &[Shift], core: &mut Core) {
    let RowLocation::Extent(Extent { offset, .. }) = &mut core.location else { return };
    let after = shifts.partition_point(|shift| shift.old_offset <= *offset);
    let Some(shift) = after.checked_sub(1).map(|index| shifts[index]) else { return };
    if *offset - shift.old_offset < shift.len {
        *offset = (*offset - shift.old_offset).wrapping_add(shift.new_offset);
    }
}

impl Follow<'_> {
    /// Returns the metadata of the mailbox after the change; the counts are those before.
    pub(crate) fn meta(&self, known: &Meta) -> Meta {
        Meta {
            stamp: self.stamp,
            state: self.state.to_vec(),
            keywords: self.keywords.clone(),
            uidnext: self.uidnext,
            size_bytes: self.size_bytes,
            tail_verified: self.tail_verified,
            highest_modseq: known.highest_modseq.max(self.modseq),
            ..known.clone()
        }
    }
}

/// Follows a change of few messages with a record of the log.
fn append(known: &Snapshot, moved: &[u8], follow: &Follow<'_>) -> Result<Snapshot> {
    let mut tally = Tally { meta: follow.meta(&known.meta), modseq: follow.modseq };
    let expunged = known.rows_of(follow.expunged)?;
    for physical in &expunged {
        tally.remove(known.core_of(*physical)?.flags);
    }
    let shifts = known.row_shifts(follow.shifts)?;
    let mut moves = Shifts::default();
    moves.add(&shifts);
    let (mut changed, mut places) = (Vec::new(), Vec::new());
    for restated in moved.chunks_exact(RESTATED_LEN) {
        let restated = Restated::decode(restated).ok_or(Error::Scan(ScanFault::UnknownUid))?;
        let physical = known.row_known(restated.uid)?;
        if expunged.binary_search(&physical).is_ok() {
            return Err(Error::Scan(ScanFault::UnknownUid));
        }
        let core = known.core_of(physical)?;
        if !restated.keeps_flags(&core) {
            tally.remove(core.flags);
            tally.add(restated.flags);
            changed.push(ChangedRow {
                physical,
                flags: restated.flags.bits(),
                keywords: restated.keywords.0,
                modseq: core.modseq_with(restated.flags, restated.keywords, follow.modseq).get(),
                file: None,
            });
        }
        if let Some(place) = restated.place(physical)
            && place_after(&core, physical, &moves)? != place
        {
            places.push(place);
        }
    }
    let entry = LogEntry {
        expunged: &expunged,
        changed: &changed,
        shifts: &shifts,
        places: &places,
        ..LogEntry::default()
    };
    let mut snapshot = known.clone();
    snapshot.write(&tally.meta, &entry)?;
    Ok(snapshot)
}

/// Returns the position of a message after its neighbours have moved.
fn place_after(core: &Core, physical: u32, moves: &Shifts) -> Result<ChangedPlace> {
    let RowLocation::Extent(Extent { offset, separator_len, header_len, body_len }) = core.location
    else {
        return Err(Error::Scan(ScanFault::NoSpan));
    };
    let offset = offset.wrapping_add(moves.by(physical));
    Ok(ChangedPlace { physical, separator_len, offset, header_len, body_len })
}

impl Snapshot {
    /// Follows a change that moved only `moved`, in mailbox order: see [`Follower`].
    ///
    /// # Errors
    /// As [`Follower::finish`].
    pub fn follow(&self, moved: &[MovedMessage], follow: &Follow<'_>) -> Result<Self> {
        let mut follower = Follower::new(self);
        moved.iter().for_each(|message| follower.moved(message));
        follower.finish(follow)
    }

    /// Returns the rows in parts of the file, which ascend.
    fn row_shifts(&self, shifts: &[Shift]) -> Result<Vec<RowShift>> {
        let mut rows: Vec<RowShift> = Vec::new();
        let mut from = 0;
        for shift in shifts {
            let first = self.row_from_offset(from, shift.old_offset)?;
            let end = self.row_from_offset(first, shift.old_offset.saturating_add(shift.len))?;
            from = end;
            if first == end {
                continue;
            }
            let physical = |row: u32| match row < self.len() {
                true => self.physical_row(row),
                false => self.physical_len(),
            };
            let by = shift.new_offset.wrapping_sub(shift.old_offset);
            let shift = RowShift { first: physical(first), end: physical(end), by };
            match rows.last_mut() {
                Some(last) if last.end == shift.first && last.by == by => last.end = shift.end,
                _ => rows.push(shift),
            }
        }
        Ok(rows)
    }

    /// Returns the first row at or after row `from` whose separator starts at or after `offset`;
    /// reads O(log rows) rows.
    fn row_from_offset(&self, from: u32, offset: u64) -> Result<u32> {
        let is_before = |row| match self.core(row)?.location {
            RowLocation::Extent(Extent { offset: found, .. }) => Ok(found < offset),
            RowLocation::Name { .. } => Err(Error::Scan(ScanFault::NoSpan)),
        };
        let (mut low, mut high) = (from, self.len());
        // Most parts extend to the end of the file.
        if low < high && is_before(high - 1)? {
            return Ok(high);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(middle)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

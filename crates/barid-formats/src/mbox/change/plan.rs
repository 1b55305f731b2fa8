//! The planner: decides how the new mbox is composed from the old one.

use std::ops::Range;
use std::path::Path;

use barid_mailbox::{ChangeSet, Error, Extent, Known, Location, MovedMessage, Result, Shift};
use barid_types::{Flag, KeywordTable, Uid};
use barid_vfs::{File, Timestamp};

use super::base;
use super::cursor::CursorMessage;
use super::draft::Draft;
use super::edit::Editor;
use super::measure::{Context, HeaderReaders, Home, Measured};
use super::pages::Pages;
use super::prepare::{Prepared, pseudo_item};
use super::room::{self, HeaderLength, Mode, RoomSearch};
use crate::mbox::layout::{
    ABSORB_TOTAL_MAX, ABSORB_TOTAL_MIN, COLLAPSE_FRACTION, COLLAPSE_MIN, COLLAPSES_MAX,
    MMDF_SEPARATOR, MOVE_FRACTION, MboxScanState, UNWRITABLE_MAX,
};
use crate::mbox::status::Separators;

/// Input of a plan.
pub(super) struct PlanInput<'a> {
    /// Path of the mailbox, for errors.
    pub(super) path: &'a Path,
    /// The file, with all locks held.
    pub(super) file: &'a dyn File,
    /// Pages of the file that are kept for the reader after the planner, if there is one.
    pub(super) pages: Option<&'a Pages<'a>>,
    /// Bytes of the file, NULs at the end included. They may be more than when it was scanned:
    /// messages delivered since stay after the known ones, unread.
    pub(super) size: u64,
    /// Kind of separator between its messages.
    pub(super) separators: Separators,
    /// The known messages. Their state must be the notes of a scan with these separators, else the
    /// plan fails with [`Error::Changed`].
    pub(super) known: &'a dyn Known,
    /// The changes.
    pub(super) changes: &'a ChangeSet,
    /// `true` if the stamp is not trusted. Then the separator and the header key of every known
    /// message are checked, and also that a separator is at the known end if the file is
    /// longer. Any difference is [`Error::Changed`], even after much was drafted.
    pub(super) verify: bool,
    /// Block size of the file system, if it can collapse ranges of this file.
    pub(super) collapse: Option<u64>,
    /// Current time, for the pseudo message.
    pub(super) now: Timestamp,
}

/// Result of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Planned {
    /// Bytes of the new file, as drafted.
    pub(super) size: u64,
    /// Moves of the messages that `moved` did not report, ascending; at most one more than there
    /// are messages that the changes name.
    pub(super) shifts: Vec<Shift>,
    /// Known messages that are expunged, ascending.
    pub(super) expunged: Vec<Uid>,
    /// Messages to change or expunge that are not known, ascending.
    pub(super) gone: Vec<Uid>,
    /// Messages that had to stay unchanged, ascending: their header is too long, or ends in the
    /// middle of a line with no place for a field. At most [`UNWRITABLE_MAX`] are named.
    pub(super) unwritable: Vec<Uid>,
    /// Number of all such messages.
    pub(super) unwritable_count: u64,
    /// The keywords; known slots keep their place.
    pub(super) keywords: KeywordTable,
    /// Number of messages of which a field was written to the file.
    pub(super) messages_written: u64,
    /// End of the known messages in the new file: its size, unless others delivered since. The
    /// notes describe the file up to here.
    pub(super) known_end: u64,
    /// The notes for the next scan.
    pub(super) notes: MboxScanState,
    /// `true` if every known message has its UID in the file, and X-IMAPbase covers them.
    pub(super) has_all_uids: bool,
}

/// Plans a change: writes the whole file into `draft`, and reports to `moved`, in mailbox order,
/// every message with new flags, or with another shift than the messages beside it.
///
/// If nothing is to be written, the draft only stays, and [`Planned::size`] is the given size.
///
/// Memory does not depend on the number of messages, except those that `changes` names. If the
/// stamp is trusted and little is changed, only the headers to be changed are read, and those
/// nearby whose padding is used.
///
/// # Errors
/// [`Error::Unsupported`] if the format cannot keep a keyword. After any error, nothing may
/// be written.
pub(super) fn plan(
    input: &PlanInput<'_>,
    draft: &mut dyn Draft,
    moved: &mut dyn FnMut(&MovedMessage),
) -> Result<Planned> {
    let mut planner = Planner::new(input, draft, moved)?;
    planner.run()?;
    planner.finish()
}

/// State of the planner.
pub(super) struct Planner<'p> {
    pub(super) context: Context<'p>,
    pub(super) tools: HeaderReaders<'p>,
    search: RoomSearch<'p>,
    pub(super) editor: Editor<'p>,
    moved: &'p mut dyn FnMut(&MovedMessage),
    mode: Mode,
    /// Notes of the scan.
    pub(super) notes: MboxScanState,
    /// End of the last known message, with its separator from others.
    pub(super) known_end: u64,
    /// Size of the file when it was scanned.
    pub(super) known_size: u64,
    /// Index of the first message whose UID may not be in its header.
    unwritten_from: u32,
    /// Offset up to which messages were handled and reported.
    told: u64,
    /// Bytes of messages that are still to be expunged.
    expunged_left: u64,
    collapses: u32,
    /// Offset and length of the header with X-IMAPbase in the new file, if they have changed.
    pub(super) base_header: Option<(u64, u32)>,
    /// UID of the message before the current one; 0 if that was not read.
    previous: u32,
    /// The last message that was handled and is kept, as it will be.
    pub(super) last: Option<MovedMessage>,
    /// Displacement of the messages before the last run of expunged ones.
    pub(super) shift_before: i64,
    /// The new pseudo message: offset of its separator, its bytes, and the range of its header.
    pub(super) new_pseudo: Option<(u64, Vec<u8>, Range<usize>)>,
    composed: Vec<u8>,
    pub(super) planned: Planned,
}

impl<'p> Planner<'p> {
    fn new(
        input: &'p PlanInput<'p>,
        draft: &'p mut dyn Draft,
        moved: &'p mut dyn FnMut(&MovedMessage),
    ) -> Result<Self> {
        let mut prepared = Prepared::new(input)?;
        prepared.tools.headers.share(input.pages);
        Ok(Self {
            context: prepared.context,
            tools: prepared.tools,
            search: RoomSearch::new(input),
            editor: Editor::new(draft),
            moved,
            mode: Mode::Local,
            notes: prepared.notes,
            known_end: prepared.known_end,
            known_size: prepared.known_size,
            unwritten_from: prepared.unwritten_from,
            told: prepared.known_start,
            expunged_left: prepared.expunged_len,
            collapses: 0,
            base_header: None,
            previous: 0,
            last: None,
            shift_before: 0,
            new_pseudo: None,
            composed: Vec::new(),
            planned: Planned::default(),
        })
    }

    fn run(&mut self) -> Result<()> {
        if self.context.home == Home::Pseudo {
            self.pseudo()?;
        }
        let mut index = 0;
        while let Some(next) = self.next(index) {
            let Some(item) = self.tools.cursor.get(next)? else { break };
            self.check_place(next, &item)?;
            self.pass(item.offset);
            if self.context.home == Home::New(next) {
                self.insert_pseudo(&item, next)?;
            }
            index = if self.context.targets.is_expunged(next) {
                self.expunge(next, &item)?
            } else {
                self.keep(next, &item)?;
                next + 1
            };
        }
        self.pass(self.known_end);
        Ok(())
    }

    /// Fails unless a message lies between its neighbours.
    fn check_place(&mut self, index: u32, item: &CursorMessage) -> Result<()> {
        let is_after = item.offset >= self.told && item.offset >= self.editor.at();
        match is_after && item.end() <= self.end_of(index)? {
            true => Ok(()),
            false => Err(self.context.changed()),
        }
    }

    /// Returns the next message from `index` on that must be handled by itself.
    fn next(&self, index: u32) -> Option<u32> {
        let changes = self.context.input.changes;
        let is_dense = self.context.input.verify || changes.drop_recent || self.reads();
        let unwritten = if changes.write_uids { self.unwritten_from } else { u32::MAX };
        let home = match self.context.home {
            Home::Message(home) if self.context.base.is_changed || home > 0 => Some(home),
            Home::New(home) => Some(home),
            _ => None,
        };
        let is_exposed = index > 0 && self.context.targets.is_expunged(index - 1);
        let next = match is_dense || is_exposed || index >= unwritten {
            true => Some(index),
            false => {
                let named = self.context.targets.next(index);
                let home = home.filter(|home| *home >= index);
                named.into_iter().chain(home).chain([unwritten]).min()
            }
        };
        next.filter(|next| *next < self.tools.cursor.len())
    }

    /// Returns `true` if every header is read in the current mode.
    fn reads(&self) -> bool {
        match self.mode {
            Mode::Rewrite => true,
            Mode::Local | Mode::Borrow(_) => self.editor.shift() != 0,
            Mode::Move => false,
        }
    }

    /// Records that the messages before `offset` that were not reported move together.
    fn pass(&mut self, offset: u64) {
        if offset > self.told && self.editor.displacement() != 0 {
            let old_offset = self.told;
            let new_offset = self.editor.moved(old_offset);
            let len = offset - old_offset;
            self.planned.shifts.push(Shift { old_offset, len, new_offset });
        }
        self.told = self.told.max(offset);
    }

    /// Returns the end of the message at `index`, with its separator from the next.
    pub(super) fn end_of(&mut self, index: u32) -> Result<u64> {
        let next = self.tools.cursor.get(index + 1)?;
        Ok(next.map_or(self.known_end, |next| next.offset))
    }

    /// Handles a message that is kept.
    fn keep(&mut self, index: u32, item: &CursorMessage) -> Result<()> {
        let input = self.context.input;
        if input.verify {
            self.tools.verify(&self.context, item)?;
        }
        let is_home = self.context.home == Home::Message(index);
        let is_read = is_home
            || (index > 0 && self.context.targets.is_expunged(index - 1))
            || input.verify
            || self.context.targets.next(index) == Some(index)
            || (input.changes.drop_recent && item.flags.contains(Flag::Recent))
            || (input.changes.write_uids && index >= self.unwritten_from)
            || self.reads();
        let mut now = moved_by(item, self.editor.displacement());
        let header = self.editor.moved(item.header());
        if is_read {
            let measured = self.tools.measure(&self.context, index, item)?;
            self.check_uid(item, &measured)?;
            let (len, is_written) = self.rewrite(index + 1, item, &measured)?;
            (now.flags, now.keywords) = match is_written {
                true => (measured.all_flags(), measured.keywords),
                false => measured.was,
            };
            let extent = now.location.and_then(|at| at.extent());
            let extent = extent.map(|extent| Extent { header_len: len as u32, ..extent });
            now.location = extent.map(Location::from);
            if is_home {
                self.base_header = Some((header, len as u32));
            }
        }
        if now != moved_by(item, 0) {
            (self.moved)(&now);
        }
        self.last = Some(now);
        self.previous = item.uid.get();
        self.told = self.end_of(index)?;
        Ok(())
    }

    /// Fails if the stamp is not trusted and a credible X-UID differs from the known UID: another
    /// program has numbered the messages.
    fn check_uid(&self, item: &CursorMessage, measured: &Measured) -> Result<()> {
        let previous = self.previous;
        let is_other = |uid: u32| {
            uid != item.uid.get() && uid > previous && uid <= self.context.base.uid_last_found
        };
        match self.context.input.verify && measured.found_uid.is_some_and(is_other) {
            true => Err(self.context.changed()),
            false => Ok(()),
        }
    }

    /// Writes the new header of a message, which `next` follows. Returns its length, and `true` if
    /// its fields now have their new values.
    fn rewrite(
        &mut self,
        next: u32,
        item: &CursorMessage,
        measured: &Measured,
    ) -> Result<(usize, bool)> {
        let shift = self.editor.shift();
        if !measured.is_writable() {
            if measured.is_changed {
                self.unwritable(item);
            }
            return Ok((measured.old_len, false));
        }
        let len = match room::length(self.mode, shift, measured) {
            HeaderLength::Is(len) => len,
            HeaderLength::Grows => {
                let missing = |kept| room::missing(shift, measured, kept);
                self.mode = self.search.find(&self.context, next, &missing)?;
                room::grown(self.mode, measured)
            }
        };
        if len != measured.old_len || measured.is_changed {
            let Self { tools, context, composed, editor, .. } = self;
            let (header, from) = tools.compose(context, item, measured, len, composed)?;
            editor.replace(item.header() + from as u64, &header[from..], composed)?;
            self.planned.messages_written += u64::from(measured.is_changed);
        }
        self.settle(item.body())?;
        Ok((len, true))
    }

    /// Leaves [`Mode::Borrow`] when no bytes are missing any more.
    fn settle(&mut self, offset: u64) -> Result<()> {
        if matches!(self.mode, Mode::Borrow(_)) && self.editor.shift() <= 0 {
            self.mode = Mode::Local;
        }
        debug_assert!(self.editor.at() <= offset, "a header ends before its body");
        Ok(())
    }

    fn unwritable(&mut self, item: &CursorMessage) {
        self.planned.unwritable_count += 1;
        if self.planned.unwritable.len() < UNWRITABLE_MAX {
            self.planned.unwritable.push(item.uid);
        }
    }

    /// Leaves out a run of expunged messages; returns the first message after it.
    fn expunge(&mut self, first: u32, item: &CursorMessage) -> Result<u32> {
        let kept = self.context.targets.kept_from(first).min(self.tools.cursor.len());
        for index in first..kept {
            let Some(item) = self.tools.cursor.get(index)? else { break };
            self.check_place(index, &item)?;
            if self.context.input.verify {
                self.tools.verify(&self.context, &item)?;
            }
            self.planned.expunged.push(item.uid);
            self.previous = item.uid.get();
        }
        let start = item.offset + self.closing_len(first, item)?;
        let run = start..self.end_of(kept - 1)?;
        let len = run.end - run.start;
        self.shift_before = self.editor.displacement();
        let surplus = len as i64 - self.editor.shift();
        let mut cut = run.end..run.end;
        if surplus > 0 && matches!(self.mode, Mode::Local | Mode::Borrow(_)) {
            (self.mode, cut) = self.use_surplus(kept, &run, surplus as u64)?;
        }
        self.editor.keep_until(run.start)?;
        self.editor.skip(cut.start - run.start)?;
        if !cut.is_empty() {
            self.collapses += 1;
            self.editor.collapse(cut.end - cut.start)?;
        }
        self.editor.skip(run.end - cut.end)?;
        self.expunged_left = self.expunged_left.saturating_sub(len);
        self.told = run.end;
        Ok(kept)
    }

    /// Returns the length of the part of the separator before the message at `index` that also
    /// closes the message before it: in MMDF, one separator may do both.
    fn closing_len(&mut self, index: u32, item: &CursorMessage) -> Result<u64> {
        if self.context.input.separators != Separators::Mmdf || index == 0 {
            return Ok(0);
        }
        let before = self.tools.cursor.get(index - 1)?;
        let is_shared = before.is_some_and(|before| before.end() == item.offset);
        Ok(if is_shared { MMDF_SEPARATOR.len() as u64 } else { 0 })
    }

    /// Decides how the space of a run before the message `kept` is used: returns the new mode, and
    /// the range to collapse, which may be empty.
    fn use_surplus(
        &mut self,
        kept: u32,
        run: &Range<u64>,
        surplus: u64,
    ) -> Result<(Mode, Range<u64>)> {
        let nothing = run.end..run.end;
        let after = self.context.input.size - run.end;
        let is_much = self.expunged_left.saturating_mul(MOVE_FRACTION) >= after;
        if is_much || kept == self.tools.cursor.len() {
            return Ok((Mode::Move, nothing));
        }
        let worth = after / COLLAPSE_FRACTION;
        let absorbed_max = worth.clamp(ABSORB_TOTAL_MIN, ABSORB_TOTAL_MAX);
        let mut can = |surplus| self.search.can_absorb(&self.context, kept, surplus, absorbed_max);
        if surplus <= worth && can(surplus)? {
            return Ok((Mode::Local, nothing));
        }
        if let Some(block) = self.context.input.collapse.filter(|block| *block > 0)
            && surplus >= COLLAPSE_MIN
            && self.collapses < COLLAPSES_MAX
        {
            let from = run.start.next_multiple_of(block);
            let whole = (run.end - run.end % block).saturating_sub(from);
            let len = whole.min(surplus - surplus % block);
            if len > 0 && can(surplus - len)? {
                return Ok((Mode::Local, from..from + len));
            }
        }
        match can(surplus)? {
            true => Ok((Mode::Local, nothing)),
            false => Ok((Mode::Move, nothing)),
        }
    }

    /// Writes the new header of the pseudo message.
    fn pseudo(&mut self) -> Result<()> {
        if !self.context.base.is_changed {
            return Ok(());
        }
        let item = pseudo_item(&self.notes);
        if item.end() > self.told {
            return Err(self.context.changed());
        }
        let measured = self.tools.measure_pseudo(&self.context, &item)?;
        if !measured.is_writable() {
            let what = "the message that holds the mailbox's UIDVALIDITY cannot be written";
            return Err(Error::Unsupported { path: self.context.input.path.to_owned(), what });
        }
        let (len, _) = self.rewrite(0, &item, &measured)?;
        self.planned.messages_written = 0;
        self.base_header = Some((item.offset, len as u32));
        Ok(())
    }

    /// Inserts a pseudo message before the message at `index`.
    fn insert_pseudo(&mut self, item: &CursorMessage, index: u32) -> Result<()> {
        let input = self.context.input;
        let value = self.context.base.value.as_deref().unwrap_or_default();
        let (text, header) = base::pseudo_message(value, input.now, input.separators);
        self.editor.keep_until(item.offset)?;
        let offset = self.editor.moved(item.offset);
        self.editor.insert(&text)?;
        self.base_header = Some((offset + header.start as u64, header.len() as u32));
        self.new_pseudo = Some((offset, text, header));
        let shift = self.editor.shift();
        if self.mode == Mode::Local && shift > 0 {
            self.mode = self.search.find(&self.context, index, &|_| shift)?;
        }
        Ok(())
    }
}

/// Returns the message with no change except `shift`.
pub(super) fn moved_by(item: &CursorMessage, shift: i64) -> MovedMessage {
    MovedMessage {
        uid: item.uid,
        flags: item.flags,
        keywords: item.keywords,
        location: Some(Location::from(Extent {
            offset: item.offset.saturating_add_signed(shift),
            separator_len: item.separator_len,
            header_len: item.header_len,
            body_len: item.body_len,
        })),
    }
}

#[cfg(test)]
mod tests;

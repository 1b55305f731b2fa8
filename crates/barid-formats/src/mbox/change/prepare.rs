//! Preparation of a plan.

use std::cell::RefCell;

use barid_mailbox::{Error, Result};
use barid_state::MessageKey;
use barid_types::{FlagSet, KeywordMask, Uid};

use super::base::{BasePlan, Wish};
use super::block::Fields;
use super::cursor::{CursorMessage, KnownCursor};
use super::measure::{Context, HeaderReaders, Home};
use super::plan::PlanInput;
use super::targets::Targets;
use crate::file_stamps::FileStamps;
use crate::mbox::layout::{MMDF_SEPARATOR, MboxScanState, PEEK_LEN};
use crate::mbox::status::Separators;
use crate::mbox::walk::separator_in;

/// Initial state of the planner.
pub(super) struct Prepared<'p> {
    pub(super) context: Context<'p>,
    pub(super) tools: HeaderReaders<'p>,
    pub(super) notes: MboxScanState,
    /// Offset of the first known message.
    pub(super) known_start: u64,
    /// End of the last one, with its separator from others.
    pub(super) known_end: u64,
    /// Size of the file when it was scanned.
    pub(super) known_size: u64,
    /// The first message that may not have its UID in its header.
    pub(super) unwritten_from: u32,
    /// Bytes of the messages to be expunged.
    pub(super) expunged_len: u64,
}

impl<'p> Prepared<'p> {
    pub(super) fn new(input: &'p PlanInput<'p>) -> Result<Self> {
        let changed = || Error::Changed { path: input.path.to_owned() };
        let known = input.known;
        let notes = MboxScanState::from_bytes(known.state()).ok_or_else(changed)?;
        let scanned = FileStamps::of_known(known).ok_or_else(changed)?.files[0].size;
        if input.size < scanned || (input.size > scanned && !input.verify) {
            return Err(changed());
        }
        let mut tools = HeaderReaders::new(input);
        let targets = Targets::find(input.changes, known)?;
        let last = known.len().checked_sub(1);
        let last = last.map(|last| tools.cursor.get(last)).transpose()?.flatten();
        let known_end = match last {
            Some(last) => end_of_last(input, &mut tools, &last, scanned)?,
            None => scanned,
        };
        let known_start = tools.cursor.get(0)?.map_or(known_end, |first| first.offset);
        let expunged_len = expunged_len(&targets, &mut tools.cursor, known_end)?;
        let uids_through = if input.verify { 0 } else { notes.uids_through };
        let unwritten_from = first_above(&mut tools.cursor, uids_through)?;
        let context = Context {
            input,
            targets,
            base: BasePlan::default(),
            home: Home::Message(0),
            table: RefCell::new(known.keywords().clone()),
        };
        let mut prepared = Self {
            context,
            tools,
            notes,
            known_start,
            known_end,
            known_size: scanned,
            unwritten_from,
            expunged_len,
        };
        prepared.find_home()?;
        Ok(prepared)
    }

    /// Plans X-IMAPbase and finds the message for it.
    fn find_home(&mut self) -> Result<()> {
        let Self { context, tools, notes, .. } = self;
        let len = tools.cursor.len();
        let first_kept = context.targets.kept_from(0);
        let is_last_home = !notes.pseudo && len > 0 && first_kept >= len;
        let wish = Wish {
            path: context.input.path,
            known: context.input.known,
            changes: context.input.changes,
            targets: &context.targets,
            is_last_home,
        };
        let first = match notes.pseudo {
            true => Some(pseudo_item(notes)),
            false => tools.cursor.get(0)?,
        };
        let Some(first) = first else { return Ok(()) };
        let header = tools.headers.get(first.header(), first.header_len as usize)?;
        let mut fields = Fields::default();
        fields.read(header);
        context.base = wish.plan(header, &fields, &mut context.table.borrow_mut())?;
        if context.input.verify && context.base.validity_found != notes.base_validity {
            return Err(context.changed());
        }
        context.home = match notes.pseudo {
            true => Home::Pseudo,
            false if is_last_home => Home::New(0),
            false => Home::Message(first_kept),
        };
        if let Home::Message(home) = context.home
            && let Some(item) = tools.cursor.get(home)?
        {
            let measured = tools.measure(context, home, &item)?;
            if measured.is_changed && !measured.is_writable() {
                context.home = Home::New(home);
                self.force_base(first)?;
            }
        }
        Ok(())
    }

    /// Makes sure that there is an X-IMAPbase for a new pseudo message.
    fn force_base(&mut self, first: CursorMessage) -> Result<()> {
        let Self { context, tools, .. } = self;
        if context.base.value.is_none() {
            let header = tools.headers.get(first.header(), first.header_len as usize)?;
            let mut fields = Fields::default();
            fields.read(header);
            let wish = Wish {
                path: context.input.path,
                known: context.input.known,
                changes: context.input.changes,
                targets: &context.targets,
                is_last_home: true,
            };
            context.base = wish.plan(header, &fields, &mut context.table.borrow_mut())?;
        }
        Ok(())
    }
}

/// Returns the pseudo message as an item that covers only its header.
pub(super) fn pseudo_item(notes: &MboxScanState) -> CursorMessage {
    CursorMessage {
        uid: Uid::MIN,
        flags: FlagSet::EMPTY,
        keywords: KeywordMask(0),
        key: MessageKey::default(),
        offset: notes.base_offset,
        separator_len: 0,
        header_len: notes.base_len,
        body_len: 0,
    }
}

/// Returns the end of the last known message, with its separator. At the end of the file, a line
/// end may have been added since the scan, or a whole delivery.
fn end_of_last(
    input: &PlanInput<'_>,
    tools: &mut HeaderReaders<'_>,
    last: &CursorMessage,
    scanned: u64,
) -> Result<u64> {
    let end = last.end();
    let changed = || Error::Changed { path: input.path.to_owned() };
    if end > scanned {
        return Err(changed());
    }
    let after = tools.headers.get_some(end, PEEK_LEN)?;
    let starts = |with: &[u8]| after.starts_with(with);
    let len = match input.separators {
        Separators::Mmdf if starts(MMDF_SEPARATOR) => {
            let second = &after[MMDF_SEPARATOR.len()..];
            let is_own = second.iter().all(|byte| *byte == 0) || second.starts_with(MMDF_SEPARATOR);
            if is_own { MMDF_SEPARATOR.len() } else { 0 }
        }
        Separators::From(_) if starts(b"\n") => 1,
        Separators::From(_) if starts(b"\r\n") => 2,
        _ => 0,
    };
    let rest = &after[len..];
    let follows = separator_in(rest, true, input.separators).flatten().is_some();
    let is_known = if input.size > scanned && follows {
        end + len as u64 >= scanned
    } else {
        rest.iter().all(|byte| *byte == 0)
    };
    if is_known { Ok(end + len as u64) } else { Err(changed()) }
}

/// Returns the number of bytes of all messages to be expunged.
fn expunged_len(targets: &Targets, cursor: &mut KnownCursor<'_>, known_end: u64) -> Result<u64> {
    let (mut len, mut next) = (0, 0);
    while let Some(index) = targets.next(next) {
        let kept = targets.kept_from(index);
        if kept > index {
            let start = cursor.get(index)?.map_or(known_end, |item| item.offset);
            let end = cursor.get(kept)?.map_or(known_end, |item| item.offset);
            len += end.saturating_sub(start);
        }
        next = kept.max(index + 1);
    }
    Ok(len)
}

/// Returns the index of the first message whose UID is above `uid`.
fn first_above(cursor: &mut KnownCursor<'_>, uid: u32) -> Result<u32> {
    let (mut low, mut high) = (0, if uid == 0 { 0 } else { cursor.len() });
    while low < high {
        let middle = low + (high - low) / 2;
        match cursor.get(middle)? {
            Some(item) if item.uid.get() <= uid => low = middle + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

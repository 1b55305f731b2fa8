//! The end of a plan: the end of the file, and the notes for the next scan.

use barid_mailbox::{Extent, Result};
use barid_state::MessageKey;

use super::cursor::CursorMessage;
use super::measure::Home;
use super::plan::{Planned, Planner, moved_by};
use crate::mbox::layout::MboxScanState;
use crate::mbox::status::{self, HeadEnd, Owned, Separators};

impl Planner<'_> {
    /// Drafts the rest of the file and returns the plan.
    pub(super) fn finish(mut self) -> Result<Planned> {
        let input = self.context.input;
        let last = self.last_kept()?;
        self.editor.keep_until(self.known_end)?;
        let known_end = self.editor.moved(self.known_end);
        let is_whole = self.known_size == input.size;
        self.editor.keep_until(input.size)?;
        let notes = self.notes(last)?;
        let mut planned = self.planned;
        planned.size = self.editor.moved(input.size);
        planned.known_end = if is_whole { planned.size } else { known_end };
        planned.notes = notes;
        planned.gone = std::mem::take(&mut self.context.targets.gone);
        planned.keywords = self.context.table.take();
        planned.has_all_uids = last.is_none_or(|(_, item)| item.uid.get() <= notes.uids_through);
        Ok(planned)
    }

    /// Returns the last message that is kept, with its index.
    fn last_kept(&mut self) -> Result<Option<(u32, CursorMessage)>> {
        let mut index = self.tools.cursor.len();
        while let Some(before) = index.checked_sub(1) {
            if !self.context.targets.is_expunged(before) {
                let item = self.tools.cursor.get(before)?;
                return Ok(item.map(|item| (before, item)));
            }
            index = before;
        }
        Ok(None)
    }

    fn notes(&mut self, last: Option<(u32, CursorMessage)>) -> Result<MboxScanState> {
        let mut notes = self.notes;
        if let Some((offset, len)) = self.base_header {
            (notes.base_offset, notes.base_len) = (offset, len);
        }
        let base = &self.context.base;
        notes.base_validity = base.value.as_ref().and(base.validity).or(base.validity_found);
        notes.pseudo = matches!(self.context.home, Home::Pseudo | Home::New(_));
        let input = self.context.input;
        if input.changes.write_uids && self.planned.unwritable_count == 0 {
            notes.uids_through = last.map_or(0, |(_, item)| item.uid.get());
        } else if input.verify {
            notes.uids_through = 0;
        }
        let Some((index, item)) = last else {
            return Ok(self.notes_without_messages(notes));
        };
        let is_new_end = index + 1 < self.tools.cursor.len();
        let shift = if is_new_end { self.shift_before } else { self.editor.displacement() };
        let now = self.last.filter(|last| last.uid == item.uid);
        let now = now.unwrap_or_else(|| moved_by(&item, shift));
        let extent = now.location.and_then(|at| at.extent());
        if let Some(Extent { offset, separator_len, header_len, .. }) = extent {
            notes.last_offset = offset;
            notes.last_separator_len = separator_len;
            notes.last_header_len = header_len;
            notes.last_key = item.key;
        }
        if is_new_end {
            (notes.tail_sound, notes.tail_closed) = self.judge_end(index, &item)?;
        }
        Ok(notes)
    }

    /// Returns `true` if the end of a message stays where it is when others append, and `true` if a
    /// blank line or a separator of its own ends the message.
    fn judge_end(&mut self, index: u32, item: &CursorMessage) -> Result<(bool, bool)> {
        let separator_len = self.end_of(index)? - item.end();
        let mut owned = Owned::default();
        let header = self.tools.headers.get(item.header(), item.header_len as usize)?;
        let end = status::head(header, true, self.context.input.separators, &mut owned);
        let is_sound = end.map(|(_, end)| end) == Some(HeadEnd::Blank);
        let is_mmdf = self.context.input.separators == Separators::Mmdf;
        let is_true = owned.content_length.is_none_or(|len| {
            !is_mmdf && (len == item.body_len || len == item.body_len + separator_len)
        });
        Ok((is_sound && is_true, separator_len > 0 || is_mmdf))
    }

    /// Returns the notes for a mailbox in which nothing, or only a pseudo message, is left.
    fn notes_without_messages(&self, notes: MboxScanState) -> MboxScanState {
        let mut notes = MboxScanState {
            tail_sound: false,
            tail_closed: false,
            last_offset: 0,
            last_separator_len: 0,
            last_header_len: 0,
            last_key: MessageKey::default(),
            ..notes
        };
        if let Some((offset, text, header)) = &self.new_pseudo {
            notes.last_offset = *offset;
            notes.last_separator_len = header.start as u32;
            notes.last_header_len = header.len() as u32;
            notes.last_key = MessageKey(barid_message::header_key(&text[header.clone()]));
            (notes.tail_sound, notes.tail_closed) = (true, true);
        }
        notes
    }
}

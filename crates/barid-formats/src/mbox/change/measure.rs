//! The new content of a message's header, and the lengths that it can have.

use std::cell::RefCell;

use barid_mailbox::{Error, Result};
use barid_types::{Flag, FlagSet, KeywordMask, KeywordTable};

use super::base::BasePlan;
use super::block::{BlockRange, FieldBlock, Fields};
use super::cursor::{CursorMessage, Headers, KnownCursor};
use super::plan::PlanInput;
use super::targets::Targets;
use crate::mbox::layout::{HEADER_LEN_MAX, PEEK_LEN};
use crate::mbox::status::{self, Owned, Separators, keyword, words_of};
use crate::mbox::walk::separator_in;

/// Message that carries X-IMAPbase in the new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// The existing pseudo message.
    Pseudo,
    /// The message at this index.
    Message(u32),
    /// A new pseudo message, before the message at this index.
    New(u32),
}

/// State that is constant while planning, except `table`.
pub(super) struct Context<'p> {
    pub(super) input: &'p PlanInput<'p>,
    pub(super) targets: Targets,
    pub(super) base: BasePlan,
    pub(super) home: Home,
    /// The keywords; unknown ones in headers are added.
    pub(super) table: RefCell<KeywordTable>,
}

/// Readers of headers. There are two sets: the other one looks ahead.
pub(super) struct HeaderReaders<'p> {
    pub(super) cursor: KnownCursor<'p>,
    pub(super) headers: Headers<'p>,
    pub(super) fields: Fields,
    keywords: Vec<u8>,
}

/// New content of a message's header, and its possible lengths in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// Present length.
    pub(super) old_len: usize,
    /// Length with a full block without padding.
    pub(super) full: usize,
    /// The least length.
    pub(super) compact: usize,
    /// Place of the block; `None` if the header cannot be written.
    pub(super) place: Option<BlockRange>,
    /// `true` if the new content differs from the present one.
    pub(super) is_changed: bool,
    /// `true` if a blank line is added, so that c-client sees the end of the header.
    pub(super) adds_blank: bool,
    pub(super) flags: FlagSet,
    pub(super) is_old: bool,
    pub(super) keywords: KeywordMask,
    pub(super) uid: Option<u32>,
    /// Present flags and keywords.
    pub(super) was: (FlagSet, KeywordMask),
    /// Present X-UID.
    pub(super) found_uid: Option<u32>,
    /// `true` if it carries X-IMAPbase.
    has_base: bool,
    is_pseudo: bool,
}

impl Measured {
    /// Returns the flags, with \Recent where it applies.
    pub(super) fn all_flags(&self) -> FlagSet {
        recent(self.flags, self.is_old)
    }

    /// Returns the greatest length.
    pub(super) fn max(&self) -> usize {
        HEADER_LEN_MAX - 1
    }

    /// Returns `true` if the header can be written at all.
    pub(super) fn is_writable(&self) -> bool {
        self.place.is_some() && self.compact <= self.max()
    }
}

fn recent(flags: FlagSet, is_old: bool) -> FlagSet {
    if is_old { flags } else { flags.with(Flag::Recent) }
}

/// End of a header without a blank line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenHeader {
    Separator { adds_blank: bool },
    Eof,
    Cut,
}

impl<'p> HeaderReaders<'p> {
    pub(super) fn new(input: &'p PlanInput<'p>) -> Self {
        Self {
            cursor: KnownCursor::new(input.known, input.path),
            headers: Headers::new(input.file, input.path, input.size),
            fields: Fields::default(),
            keywords: Vec::new(),
        }
    }

    /// Measures the message at `index`. Leaves its header in `headers` and its fields in `fields`.
    pub(super) fn measure(
        &mut self,
        context: &Context<'_>,
        index: u32,
        item: &CursorMessage,
    ) -> Result<Measured> {
        let open = self.read(context, item)?;
        let (input, fields) = (context.input, &self.fields);
        let header = self.headers.get(item.header(), item.header_len as usize)?;
        let text = fields.keywords.clone().map_or(&b""[..], |text| header[text].trim_ascii());
        let had_keywords = !text.is_empty();
        let mut mask = if had_keywords { mask_of(text, &context.table) } else { 0 };
        let (old_mask, old_flags, was_old) = (mask, fields.flags, fields.is_old);
        let (mut flags, mut is_old) = (old_flags, was_old || input.changes.drop_recent);
        if let Some(change) = context.targets.change(index, input.changes) {
            let bits = (flags.bits() | change.add.bits()) & !change.remove.bits();
            flags = FlagSet::from_bits(bits).without(Flag::Recent);
            is_old |= change.remove.contains(Flag::Recent);
            // Added keywords have their slots since the base was planned.
            let table = context.table.borrow();
            let slot = |name| table.slot(name).map_or(0, |slot| 1_u64 << slot);
            change.add_keywords.iter().for_each(|name| mask |= slot(name));
            change.remove_keywords.iter().for_each(|name| mask &= !slot(name));
        }
        let own_uid = item.uid.get();
        let has_uid = fields.uid == Some(own_uid);
        let uid = (has_uid || input.changes.write_uids).then_some(own_uid);
        let is_home = context.home == Home::Message(index);
        self.keywords.clear();
        if mask != 0 {
            for name in context.table.borrow().select(KeywordMask(mask)) {
                self.keywords.push(b' ');
                self.keywords.extend_from_slice(name.as_str().as_bytes());
            }
        }
        if had_keywords {
            keep_others(text, &context.table.borrow(), &mut self.keywords);
        }
        // An X-UID that was ignored because of the UIDs before it may become credible when those
        // are expunged.
        let is_exposed = index > 0
            && context.targets.is_expunged(index - 1)
            && !has_uid
            && fields.uid.is_some_and(|uid| uid <= context.base.uid_last_found);
        let misses_uid = is_exposed || (uid.is_some() && !has_uid);
        let moves_in = index > 0 && (context.base.value.is_some() || fields.base.is_some());
        let is_changed = (flags, is_old, mask) != (old_flags, was_old, old_mask)
            || misses_uid
            || (is_home && (context.base.is_changed || moves_in));
        let mut measured = Measured {
            old_len: header.len(),
            full: 0,
            compact: 0,
            place: if open == Some(OpenHeader::Cut) { None } else { fields.place(header) },
            is_changed,
            adds_blank: open == Some(OpenHeader::Separator { adds_blank: true }),
            flags,
            is_old,
            keywords: KeywordMask(mask),
            uid,
            was: (recent(old_flags, was_old), KeywordMask(old_mask)),
            found_uid: fields.uid,
            has_base: is_home,
            is_pseudo: false,
        };
        self.size(context, &mut measured);
        Ok(measured)
    }

    /// Measures the pseudo message.
    pub(super) fn measure_pseudo(
        &mut self,
        context: &Context<'_>,
        item: &CursorMessage,
    ) -> Result<Measured> {
        let open = self.read(context, item)?;
        let header = self.headers.get(item.header(), item.header_len as usize)?;
        self.keywords.clear();
        let mut measured = Measured {
            old_len: header.len(),
            full: 0,
            compact: 0,
            place: if open == Some(OpenHeader::Cut) { None } else { self.fields.place(header) },
            is_changed: context.base.is_changed,
            adds_blank: false,
            flags: self.fields.flags.with(Flag::Seen),
            is_old: true,
            keywords: KeywordMask(0),
            uid: None,
            was: (FlagSet::EMPTY, KeywordMask(0)),
            found_uid: None,
            has_base: true,
            is_pseudo: true,
        };
        self.size(context, &mut measured);
        Ok(measured)
    }

    fn size(&self, context: &Context<'_>, measured: &mut Measured) {
        let block = block(&self.fields, &self.keywords, context, measured);
        let (full, compact) = (block.full_len(), block.compact_len());
        let rest = self.fields.foreign_len() + blank_len(&self.fields, measured);
        measured.full = rest + full;
        measured.compact = rest + compact;
    }

    /// Composes the header of the message that was measured last, with a length of `len` bytes.
    /// Returns its present bytes and the offset of the first change; the new bytes from there on go
    /// to `out`.
    pub(super) fn compose(
        &mut self,
        context: &Context<'_>,
        item: &CursorMessage,
        measured: &Measured,
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(&[u8], usize)> {
        let Self { headers, fields, keywords, .. } = self;
        let header = headers.get(item.header(), item.header_len as usize)?;
        let block = block(fields, keywords, context, measured);
        let block_len = len - fields.foreign_len() - blank_len(fields, measured);
        out.clear();
        let mut from = 0;
        if measured.place == Some(BlockRange::First) {
            block.write(block_len, out);
            fields.write_foreign(header, 0, out);
        } else {
            from = fields.stretches.first().map_or(fields.text_end, |owned| owned.start);
            fields.write_foreign(header, from, out);
            block.write(block_len, out);
        }
        out.extend_from_slice(&header[fields.text_end..]);
        if measured.adds_blank {
            out.extend_from_slice(if fields.is_crlf { b"\r\n" } else { b"\n" });
        }
        Ok((header, from))
    }

    /// Parses the fields of a header; returns its end unless that is a blank line.
    fn read(&mut self, context: &Context<'_>, item: &CursorMessage) -> Result<Option<OpenHeader>> {
        let len = item.header_len as usize;
        self.fields.read(self.headers.get(item.header(), len)?);
        if self.fields.text_end < len {
            return Ok(None);
        }
        if len >= HEADER_LEN_MAX {
            return Ok(Some(OpenHeader::Cut));
        }
        let separators = context.input.separators;
        let mut owned = Owned::default();
        status::head(self.headers.get(item.header(), len)?, true, separators, &mut owned);
        let after = self.headers.get_some(item.body(), PEEK_LEN)?;
        let open = match separator_in(after, true, separators).flatten() {
            Some(_) => {
                let is_mbox = separators != Separators::Mmdf;
                let adds_blank = is_mbox && owned.content_length.is_none();
                OpenHeader::Separator { adds_blank }
            }
            None if after.iter().all(|byte| *byte == 0) => OpenHeader::Eof,
            None => return Err(context.changed()),
        };
        Ok(Some(open))
    }

    /// Fails unless the message in the file has the known separator, header length and key.
    pub(super) fn verify(&mut self, context: &Context<'_>, item: &CursorMessage) -> Result<()> {
        let separators = context.input.separators;
        let head_len = item.separator_len as usize + item.header_len as usize;
        let bytes = self.headers.get_some(item.offset, head_len)?;
        let separator = separator_in(bytes, true, separators).flatten().map(|(len, _)| len);
        if separator != Some(item.separator_len) || bytes.len() < head_len {
            return Err(context.changed());
        }
        let header = &bytes[item.separator_len as usize..head_len];
        let mut owned = Owned::default();
        let found = status::head(header, true, separators, &mut owned).map(|(len, _)| len);
        let key = owned.key(header, &mut self.keywords);
        if found != Some(header.len()) || key != item.key {
            return Err(context.changed());
        }
        Ok(())
    }
}

impl Context<'_> {
    /// Returns the error for a mailbox that is not in the known state.
    pub(super) fn changed(&self) -> Error {
        Error::Changed { path: self.input.path.to_owned() }
    }
}

/// Returns the length of the blank line in the new header.
fn blank_len(fields: &Fields, measured: &Measured) -> usize {
    match measured.adds_blank {
        true if fields.is_crlf => 2,
        true => 1,
        false => measured.old_len - fields.text_end,
    }
}

/// Returns the block of a message.
fn block<'b>(
    fields: &'b Fields,
    keywords: &'b [u8],
    context: &'b Context<'_>,
    measured: &Measured,
) -> FieldBlock<'b> {
    FieldBlock {
        base: context.base.value.as_deref().filter(|_| measured.has_base),
        is_pseudo: measured.is_pseudo,
        fields,
        flags: measured.flags,
        is_old: measured.is_old,
        keywords,
        uid: measured.uid,
    }
}

/// Returns the mask of the keywords of a text; new ones are added to the table.
fn mask_of(text: &[u8], table: &RefCell<KeywordTable>) -> u64 {
    let mut table = table.borrow_mut();
    let slots = words_of(text).filter_map(keyword).filter_map(|name| table.intern(&name).ok());
    slots.fold(0, |mask, slot| mask | 1 << slot)
}

/// Keeps words that are not valid keywords or have no slot.
fn keep_others(text: &[u8], table: &KeywordTable, out: &mut Vec<u8>) {
    for word in words_of(text) {
        if keyword(word).is_none_or(|name| table.slot(&name).is_none()) {
            out.push(b' ');
            out.extend_from_slice(word);
        }
    }
}

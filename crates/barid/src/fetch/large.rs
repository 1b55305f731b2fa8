//! Fetching from messages that are too large to be read as a whole: only what is asked for is read.

use barid_formats::{Error as FormatError, WHOLE_LEN_MAX};
use barid_message::{Section, SectionText, wire_message};
use barid_types::BodyStructure;

use super::{FetchItem, FetchItems, Partial};
use crate::{Error, Mailbox, Result};

/// As much of a large message as items need.
#[derive(Debug, Default)]
pub(super) struct LargeMessage {
    /// The message as it goes over the wire: its beginning, or all of it but the bodies of parts
    /// that nothing asks for.
    pub(super) wire: Vec<u8>,
    /// Its beginning, if that is asked for beside parts.
    pub(super) prefix: Option<Vec<u8>>,
    /// The structure of the whole message, if it is asked for.
    pub(super) structure: Option<BodyStructure>,
    /// RFC822.SIZE, if it is asked for and was not known.
    pub(super) size: Option<u64>,
}

/// What items need of the bytes of a message.
#[derive(Debug, Default)]
struct Wanted<'i> {
    /// How many bytes behind the header.
    body_len: u64,
    parts: Vec<&'i Section>,
}

impl<'i> Wanted<'i> {
    /// Returns `None` if more bytes are asked for than are read at once.
    fn of(items: &'i FetchItems) -> Option<Self> {
        let mut wanted = Self::default();
        for item in items.items() {
            match item {
                FetchItem::Section { section, partial, .. }
                | FetchItem::Binary { section, partial } => wanted.add(section, *partial)?,
                FetchItem::BinarySize(section) => wanted.add(section, None)?,
                _ => {}
            }
        }
        (wanted.body_len <= WHOLE_LEN_MAX).then_some(wanted)
    }

    fn add(&mut self, section: &'i Section, partial: Option<Partial>) -> Option<()> {
        match section.text {
            _ if section.needs_structure() => self.parts.push(section),
            SectionText::Header | SectionText::HeaderFields { .. } | SectionText::Mime => {}
            SectionText::Whole | SectionText::Text => {
                let Partial { first, count } = partial?;
                self.body_len = self.body_len.max(first.checked_add(count?)?);
            }
        }
        Some(())
    }
}

/// Reads what items need of the message of a row; `knows_size` if RFC822.SIZE is known.
pub(super) fn read_large(
    mailbox: &Mailbox,
    row: u32,
    items: &FetchItems,
    knows_size: bool,
) -> Result<LargeMessage> {
    let Some(wanted) = Wanted::of(items) else { return Err(mailbox.too_large(row)?) };
    let mut large = LargeMessage::default();
    let mut bytes = Vec::new();
    let has_parts = !wanted.parts.is_empty();
    if has_parts || items.has_structure() {
        let structure = mailbox.reduced_row(row, &|_| false)?.structure;
        if has_parts {
            let found = wanted.parts.iter().filter_map(|section| section.part_of(&structure));
            let ranges: Vec<_> = found.map(|part| part.header_offset..part.body_end).collect();
            let keeps = |part: &BodyStructure| {
                ranges.iter().any(|range| range.contains(&part.header_offset))
            };
            bytes = mailbox.reduced_row(row, &keeps)?.bytes;
        }
        large.structure = items.has_structure().then_some(structure);
    }
    let mut prefix = Vec::new();
    if !has_parts || wanted.body_len > 0 {
        mailbox.row_prefix(row, wanted.body_len, &mut prefix)?;
    }
    let prefix = wire_message(&prefix).into_owned();
    if has_parts {
        large.wire = wire_message(&bytes).into_owned();
        large.prefix = (wanted.body_len > 0).then_some(prefix);
    } else {
        large.wire = prefix;
    }
    if items.has(&FetchItem::Rfc822Size) && !knows_size {
        large.size = Some(mailbox.row_rfc822_size(row)?);
    }
    Ok(large)
}

/// Returns `true` if an error says that a message is not where it was.
pub(super) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Mailbox(FormatError::MessageGone { .. }))
}

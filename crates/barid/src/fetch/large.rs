//! Fetching from messages that are too large to be read as a whole: only the requested bytes are in
//! memory.

use std::ops::Range;

use barid_mailbox::{ReadAs, WHOLE_LEN_MAX};
use barid_message::{CrlfPieces, Section, SectionText, wire_message};
use barid_types::BodyStructure;

use super::{FetchItem, FetchItems, Partial};
use crate::{Result, View};

/// The parts of a large message that items need.
#[derive(Debug, Default)]
pub(super) struct FetchedLargeMessage {
    /// The message in wire form: its header alone, or all of it except the bodies of parts that no
    /// item needs.
    pub(super) wire: Vec<u8>,
    /// The header in wire form, if `wire` has more.
    pub(super) header: Option<Vec<u8>>,
    /// The structure of the whole message, if it is requested.
    pub(super) structure: Option<BodyStructure>,
    /// RFC822.SIZE, if it is requested and was not known.
    pub(super) size: Option<u64>,
    /// Byte ranges of sections, in the order of their items.
    ranges: Vec<(Section, Partial, Vec<u8>)>,
}

impl FetchedLargeMessage {
    /// Returns a requested byte range of a section.
    pub(super) fn range(&self, section: &Section, partial: Partial) -> Option<&[u8]> {
        let is_it =
            |range: &&(Section, Partial, Vec<u8>)| range.0 == *section && range.1 == partial;
        self.ranges.iter().find(is_it).map(|(.., bytes)| bytes.as_slice())
    }
}

/// The bytes of a message that items need.
#[derive(Debug, Default)]
struct Wanted<'i> {
    /// Byte ranges of bodies, which are cut out while the message is read.
    ranges: Vec<(&'i Section, Partial)>,
    /// Bytes of all ranges.
    ranges_len: u64,
    /// Sections of parts, which are held as a whole.
    parts: Vec<&'i Section>,
    /// `true` if the header is needed.
    header: bool,
}

impl<'i> Wanted<'i> {
    /// Returns `None` if more bytes are requested than may be held at once.
    fn of(items: &'i FetchItems) -> Option<Self> {
        let mut wanted = Self::default();
        for item in items.items() {
            match item {
                FetchItem::Section { section, partial, .. } => wanted.add(section, *partial)?,
                FetchItem::Binary { section, .. } | FetchItem::BinarySize(section) => {
                    if !section.needs_structure() {
                        return None;
                    }
                    wanted.parts.push(section);
                }
                _ => {}
            }
        }
        (wanted.ranges_len <= WHOLE_LEN_MAX).then_some(wanted)
    }

    fn add(&mut self, section: &'i Section, partial: Option<Partial>) -> Option<()> {
        let is_body = match section.text {
            SectionText::Whole => true,
            SectionText::Text => !section.needs_structure(),
            _ => false,
        };
        let count = partial.and_then(|partial| partial.count);
        match (partial, count) {
            (Some(partial), Some(count)) if is_body => {
                self.ranges.push((section, partial));
                self.ranges_len = self.ranges_len.checked_add(count)?;
            }
            _ if section.needs_structure() => self.parts.push(section),
            _ if is_body => return None,
            _ => self.header = true,
        }
        Some(())
    }
}

/// Reads what items need of the message of a row; `knows_size` if RFC822.SIZE is known.
pub(super) fn read_large(
    view: &View,
    row: u32,
    items: &FetchItems,
    knows_size: bool,
) -> Result<FetchedLargeMessage> {
    let Some(wanted) = Wanted::of(items) else { return Err(view.too_large(row)?) };
    let mut large = FetchedLargeMessage::default();
    let has_parts = !wanted.parts.is_empty();
    let needs_structure = wanted.ranges.iter().any(|(section, _)| section.needs_structure());
    let structure = match has_parts || needs_structure || items.has_structure() {
        true => Some(view.reduced_row(row, &|_| false)?.structure),
        false => None,
    };
    if let Some(structure) = structure.as_ref().filter(|_| has_parts) {
        let found = wanted.parts.iter().filter_map(|section| section.part_of(structure));
        let bodies: Vec<_> = found.map(|part| part.header_offset..part.body_end).collect();
        let keeps =
            |part: &BodyStructure| bodies.iter().any(|body| body.contains(&part.header_offset));
        large.wire = wire_message(&view.reduced_row(row, &keeps)?.bytes).into_owned();
        large.header = if wanted.header { Some(read_header(view, row)?) } else { None };
    } else {
        large.wire = read_header(view, row)?;
    }
    for (section, partial) in wanted.ranges {
        let bytes = match body_of(section, structure.as_ref()) {
            Some(body) => read_range(view, row, body, partial)?,
            None => Vec::new(),
        };
        large.ranges.push((section.clone(), partial, bytes));
    }
    large.structure = structure.filter(|_| items.has_structure());
    if items.has(&FetchItem::Rfc822Size) && !knows_size {
        large.size = Some(view.row_rfc822_size(row)?);
    }
    Ok(large)
}

/// Reads the header in wire form.
fn read_header(view: &View, row: u32) -> Result<Vec<u8>> {
    let mut header = Vec::new();
    view.row_pieces(row, ReadAs::Message, &mut |piece| {
        header = wire_message(piece).into_owned();
        false
    })?;
    Ok(header)
}

/// A body from which a byte range is cut.
enum Body {
    /// The message, header included.
    Message,
    /// The body of the message.
    Text,
    /// Offsets of a part's body in the message.
    Part(Range<u64>),
}

/// Returns the body of a section; `None` if the message has no such part.
fn body_of(section: &Section, structure: Option<&BodyStructure>) -> Option<Body> {
    if section.needs_structure() {
        let part = section.part_of(structure?)?;
        return Some(Body::Part(part.body_offset..part.body_end));
    }
    Some(if section.text == SectionText::Text { Body::Text } else { Body::Message })
}

/// Reads a byte range of a body in wire form. The message is read up to the end of the range, which
/// alone is held.
fn read_range(view: &View, row: u32, body: Body, partial: Partial) -> Result<Vec<u8>> {
    let mut cut = Cut { left: partial, out: Vec::new() };
    let (mut offset, mut crlf, mut wire) = (0_u64, CrlfPieces::default(), Vec::new());
    let mut range = match &body {
        Body::Message | Body::Text => 0..u64::MAX,
        Body::Part(range) => range.clone(),
    };
    view.row_pieces(row, ReadAs::Message, &mut |piece| {
        let (start, is_header) = (offset, offset == 0);
        offset += piece.len() as u64;
        match body {
            Body::Message if is_header => cut.push(&wire_message(piece)),
            Body::Text if is_header => range.start = offset,
            _ => {
                let at = |end: u64| (end.clamp(start, offset) - start) as usize;
                wire.clear();
                crlf.push(&piece[at(range.start)..at(range.end)], &mut wire);
                cut.push(&wire);
            }
        }
        cut.left.count != Some(0) && offset < range.end
    })?;
    Ok(cut.out)
}

/// A byte range that is cut out of bytes that come in pieces.
struct Cut {
    /// The range, counted from the next piece.
    left: Partial,
    out: Vec<u8>,
}

impl Cut {
    fn push(&mut self, piece: &[u8]) {
        let bytes = self.left.of(piece);
        self.out.extend_from_slice(bytes);
        let len = bytes.len() as u64;
        self.left.first = self.left.first.saturating_sub(piece.len() as u64);
        self.left.count = self.left.count.map(|count| count - len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_out_of_pieces() {
        let text: Vec<u8> = (0..60).collect();
        for (first, count) in [(0, 60), (0, 1), (7, 20), (13, 13), (59, 9), (60, 1), (99, 2)] {
            let partial = Partial { first, count: Some(count) };
            for len in [1, 7, 13, 60] {
                let mut cut = Cut { left: partial, out: Vec::new() };
                text.chunks(len).for_each(|piece| cut.push(piece));
                assert_eq!(cut.out, partial.of(&text), "{first}, {count}, {len}");
            }
        }
    }
}

//! Reading many messages of one file: neighbours are read with one call.

use std::path::Path;

use barid_mailbox::{Error, Extent, Location, ReadAs, ReadMessage, Result, Stamp, Storage};

/// The most bytes that are read with one call; a larger message is read alone.
const TOGETHER_LEN: u64 = 256 << 10;
/// The most unwanted bytes between neighbours that are read with them.
const GAP_LEN: u64 = 4 << 10;

/// Returns the extent of a message in the mailbox at `path`.
///
/// # Errors
/// [`Error::Unsupported`] if the location has a name instead, which another format gives.
pub(crate) fn extent_of(path: &Path, location: &Location<'_>) -> Result<Extent> {
    let what = "the message is located in another format";
    location.extent().ok_or_else(|| Error::Unsupported { path: path.to_owned(), what })
}

/// Place of a message in a file, or in files that are numbered in the upper half of the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Offset of its separator.
    pub(crate) offset: u64,
    /// Bytes of the separator.
    pub(crate) separator_len: u32,
    /// Bytes of the header.
    pub(crate) header_len: u32,
    /// Bytes of header and body.
    pub(crate) len: u64,
}

impl Span {
    /// Returns the span of a location; `None` if it is too long to be read with others, or is not a
    /// span.
    fn of(location: &Location<'_>) -> Option<Self> {
        let Extent { offset, separator_len, header_len, body_len } = location.extent()?;
        let len = u64::from(header_len).checked_add(body_len)?;
        let span = Self { offset, separator_len, header_len, len };
        let is_short = u64::from(separator_len).checked_add(len)? <= TOGETHER_LEN;
        (is_short && offset.checked_add(TOGETHER_LEN).is_some()).then_some(span)
    }

    fn end(&self) -> u64 {
        self.offset + u64::from(self.separator_len) + self.len
    }

    /// Returns `true` if the other message may be read with the same call.
    fn is_neighbour(&self, next: &Self) -> bool {
        let is_same_file = self.offset >> 32 == next.offset >> 32;
        let gap = next.offset.checked_sub(self.end());
        is_same_file && gap.is_some_and(|gap| gap <= GAP_LEN)
    }
}

/// Files in which messages follow one another.
pub(crate) trait Spans {
    /// Number of bytes before a separator that are needed to recognise it.
    const LEAD_LEN: u64;

    /// Fills the buffer from `offset` on; returns `false` if the bytes may not be those of the
    /// scan.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> bool;

    /// Returns `true` if the separator at `at` of `bytes` is that of the message.
    fn stands(&self, bytes: &[u8], at: usize, span: &Span) -> bool;
}

/// Implements [`Storage::read_many`]. A message that may have changed is read alone, which reports
/// what happened to it.
pub(crate) fn read_many<S: Spans>(
    mailbox: &dyn Storage,
    mut files: Option<S>,
    locations: &[Location<'_>],
    (read_as, stamp): (ReadAs, &Stamp),
    buffer: &mut Vec<u8>,
) -> Vec<Result<ReadMessage>> {
    // The buffer is longer than `used`, so that it need not be filled with zeros each time.
    let mut used = 0;
    let mut read = Vec::with_capacity(locations.len());
    let mut spans: Vec<Span> = Vec::new();
    while let Some(rest @ [_, ..]) = locations.get(read.len()..) {
        together(rest, &mut spans);
        let done = match &mut files {
            Some(files) => read_together(files, &spans, read_as, buffer, &mut used, &mut read),
            None => None,
        };
        let alone = match done {
            Some(done) if done == spans.len() && done > 0 => 0..0,
            Some(done) => done..done + 1,
            None => 0..spans.len().max(1),
        };
        for location in &rest[alone] {
            buffer.truncate(used);
            let header_len = mailbox.read_known(location, read_as, stamp, buffer);
            let range = used..buffer.len();
            used = buffer.len();
            read.push(header_len.map(|header_len| ReadMessage { range, header_len }));
        }
    }
    read
}

/// Collects the first messages, as many as can be read with one call.
fn together(locations: &[Location<'_>], spans: &mut Vec<Span>) {
    spans.clear();
    for span in locations.iter().map_while(Span::of) {
        let is_near = match (spans.first(), spans.last()) {
            (Some(first), Some(last)) => {
                last.is_neighbour(&span) && span.end() - first.offset <= TOGETHER_LEN
            }
            _ => true,
        };
        if !is_near {
            break;
        }
        spans.push(span);
    }
}

/// Reads neighbours; returns how many of them are unchanged, or `None` if this cannot be
/// determined.
fn read_together<S: Spans>(
    files: &mut S,
    spans: &[Span],
    read_as: ReadAs,
    buffer: &mut Vec<u8>,
    used: &mut usize,
    read: &mut Vec<Result<ReadMessage>>,
) -> Option<usize> {
    let (first, last) = (spans.first()?, spans.last()?);
    let from = first.offset - S::LEAD_LEN.min(first.offset & u64::from(u32::MAX));
    let start = *used;
    let end = start + (last.end() - from) as usize;
    if buffer.len() < end {
        buffer.resize(end, 0);
    }
    if !files.read(from, &mut buffer[start..end]) {
        return None;
    }
    *used = end;
    let found = &buffer[start..end];
    let done =
        spans.iter().take_while(|span| files.stands(found, (span.offset - from) as usize, span));
    let before = read.len();
    read.extend(done.map(|span| {
        let head = start + (span.offset - from) as usize;
        let text = head + span.separator_len as usize;
        let end = text + span.len as usize;
        let header_end = text + span.header_len as usize;
        let first = if read_as == ReadAs::Stored { head } else { text };
        Ok(ReadMessage { range: first..end, header_len: header_end - first })
    }));
    Some(read.len() - before)
}

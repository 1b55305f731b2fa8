//! Reading a ledger: the tail in a moment, all of it when something is wrong or the entries are
//! wanted.

use std::io;

use barid_vfs::File;

use super::LedgerEntry;
use super::layout::{
    self, BATCH_HEAD_LEN, ENTRY_LEN, FOOTER_LEN, FOOTER_MAGIC, Footer, HEADER_LEN, Header, Records,
    Summary,
};
use crate::limits::{LOAD_BUFFER_LEN, SCAN_BUFFER_LEN, TAIL_LEN};

/// What a file turned out to be.
#[derive(Debug)]
pub(super) enum Opened {
    /// A ledger whose last whole batch ends at `end`; what follows is torn and may be cut.
    Good { summary: Summary, end: u64 },
    /// A durable batch is damaged or the file is no ledger of this mailbox; the summary holds the
    /// highest numbers still found.
    Lost(Summary),
    /// Another version's.
    Version(u32),
}

/// Reads the summary: one read of the tail, unless that is torn.
pub(super) fn open(file: &dyn File, size: u64, id: u128) -> io::Result<Opened> {
    let mut buffer = [0; TAIL_LEN];
    let tail_len = size.min(TAIL_LEN as u64) as usize;
    let tail_offset = size - tail_len as u64;
    let len = file.read_full_at(&mut buffer[..tail_len], tail_offset)?;
    if let Some(footer) = footer_of_tail(&buffer[..len], tail_offset, id) {
        return Ok(Opened::Good { summary: footer.summary, end: size });
    }
    let len = file.read_full_at(&mut buffer[..HEADER_LEN as usize], 0)?;
    match Header::decode(&buffer[..len], id) {
        Header::Ours => scan(file, size, id),
        Header::Version(version) => Ok(Opened::Version(version)),
        Header::Foreign => Ok(Opened::Lost(best_footer(file, 0, size, id)?)),
    }
}

/// The footer that ends the tail. Of a short batch the payload is verified too; a longer one was
/// durable before its footer was written.
fn footer_of_tail(tail: &[u8], tail_offset: u64, id: u128) -> Option<Footer> {
    let footer = Footer::decode(tail.last_chunk()?, id)?;
    if footer.end() != tail_offset + tail.len() as u64 {
        return None;
    }
    let len = BATCH_HEAD_LEN + footer.payload_len as usize + FOOTER_LEN;
    if len <= TAIL_LEN {
        let batch = &tail[tail.len().checked_sub(len)?..tail.len() - FOOTER_LEN];
        if layout::hash(batch) != footer.payload_hash {
            return None;
        }
    }
    Some(footer)
}

/// Walks the batches from the start to the first bad one. If a later batch is whole, the bad one
/// was durable once: the ledger is lost.
fn scan(file: &dyn File, size: u64, id: u128) -> io::Result<Opened> {
    let mut summary = Summary::default();
    let mut end = HEADER_LEN;
    let mut buffer = vec![0; SCAN_BUFFER_LEN];
    while let Some(footer) = verify_batch(file, end, size, id, &mut buffer)? {
        if footer.summary.sequence <= summary.sequence {
            break;
        }
        summary = footer.summary;
        end = footer.end();
    }
    let best = best_footer(file, end, size, id)?;
    let lost = summary.sequence == 0 || best.sequence > summary.sequence + 1;
    match lost {
        true => Ok(Opened::Lost(if best.sequence > summary.sequence { best } else { summary })),
        false => Ok(Opened::Good { summary, end }),
    }
}

/// Verifies the batch at `offset` in bounded memory; `None` if it is not whole.
fn verify_batch(
    file: &dyn File,
    offset: u64,
    size: u64,
    id: u128,
    buffer: &mut [u8],
) -> io::Result<Option<Footer>> {
    let mut head = [0; BATCH_HEAD_LEN];
    if file.read_full_at(&mut head, offset)? < head.len() {
        return Ok(None);
    }
    let Some(payload_len) = layout::payload_len(&head) else { return Ok(None) };
    let mut left = u64::from(payload_len);
    let mut at = offset + BATCH_HEAD_LEN as u64;
    if at + left + FOOTER_LEN as u64 > size {
        return Ok(None);
    }
    let mut hasher = layout::hasher();
    hasher.update(&head);
    while left > 0 {
        let wanted = left.min(buffer.len() as u64) as usize;
        let len = file.read_full_at(&mut buffer[..wanted], at)?;
        if len < wanted {
            return Ok(None);
        }
        hasher.update(&buffer[..len]);
        at += len as u64;
        left -= len as u64;
    }
    let mut footer = [0; FOOTER_LEN];
    if file.read_full_at(&mut footer, at)? < footer.len() {
        return Ok(None);
    }
    let footer = Footer::decode(&footer, id);
    Ok(footer.filter(|f| f.batch_offset == offset && f.payload_hash == hasher.digest()))
}

/// The summary with the highest sequence among all footers from `offset` to `size`, wherever they
/// stand. What another process appends meanwhile is not looked at: it would seem to stand behind a
/// bad batch.
fn best_footer(file: &dyn File, mut offset: u64, size: u64, id: u128) -> io::Result<Summary> {
    let mut best = Summary::default();
    let mut buffer = vec![0; SCAN_BUFFER_LEN];
    loop {
        let wanted = size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let len = file.read_full_at(&mut buffer[..wanted], offset)?;
        let bytes = &buffer[..len];
        for (at, window) in bytes.windows(FOOTER_LEN).enumerate() {
            if !window.starts_with(FOOTER_MAGIC) {
                continue;
            }
            let footer = window.first_chunk().and_then(|window| Footer::decode(window, id));
            let Some(footer) = footer else { continue };
            let stands = footer.end() == offset + (at + FOOTER_LEN) as u64;
            if stands && footer.summary.sequence > best.sequence {
                best = footer.summary;
            }
        }
        if len < buffer.len() {
            return Ok(best);
        }
        offset += (len - (FOOTER_LEN - 1)) as u64;
    }
}

/// Reads all entries up to `end`; `Err` in the inner result names the damaged batch.
pub(super) fn load(
    file: &dyn File,
    summary: &Summary,
    end: u64,
    id: u128,
) -> io::Result<Result<Vec<LedgerEntry>, u64>> {
    let live_max = (end - summary.entries_offset.min(end)) / ENTRY_LEN as u64;
    let mut entries = Vec::with_capacity(summary.live.min(live_max) as usize);
    let mut window = Window { file, bytes: Vec::new(), offset: 0, end };
    let mut offset = summary.entries_offset;
    while offset < end {
        let head = window.get(offset, BATCH_HEAD_LEN)?.and_then(|head| head.first_chunk());
        let Some(payload_len) = head.and_then(layout::payload_len) else {
            return Ok(Err(offset));
        };
        let len = BATCH_HEAD_LEN + payload_len as usize + FOOTER_LEN;
        if len > LOAD_BUFFER_LEN && len as u64 <= end - offset {
            if load_long(file, offset, payload_len, id, &mut entries)?.is_none() {
                return Ok(Err(offset));
            }
            offset += len as u64;
            continue;
        }
        let Some(batch) = window.get(offset, len)? else { return Ok(Err(offset)) };
        let (body, footer) = batch.split_at(len - FOOTER_LEN);
        let footer = footer.first_chunk().and_then(|footer| Footer::decode(footer, id));
        let good = footer.is_some_and(|footer| footer.payload_hash == layout::hash(body))
            && layout::apply(&body[BATCH_HEAD_LEN..], &mut entries).is_some();
        if !good {
            return Ok(Err(offset));
        }
        offset += len as u64;
    }
    Ok(Ok(entries))
}

/// Applies a batch piece by piece, reading it once; `None` if it is damaged, and then the entries
/// are of no use.
fn load_long(
    file: &dyn File,
    offset: u64,
    payload_len: u32,
    id: u128,
    entries: &mut Vec<LedgerEntry>,
) -> io::Result<Option<()>> {
    let mut left = BATCH_HEAD_LEN as u64 + u64::from(payload_len);
    let (mut at, mut hasher) = (offset, layout::hasher());
    // What is read and not yet applied begins with the head of the batch, which is no record.
    let (mut bytes, mut skip) = (Vec::new(), BATCH_HEAD_LEN);
    let mut records = Records::default();
    while left > 0 {
        let kept = bytes.len();
        let now = left.min(LOAD_BUFFER_LEN as u64);
        bytes.resize(kept + now as usize, 0);
        file.read_exact_at(&mut bytes[kept..], at)?;
        hasher.update(&bytes[kept..]);
        (at, left) = (at + now, left - now);
        let Some(applied) = records.apply(&bytes[skip..], entries) else { return Ok(None) };
        bytes.drain(..skip + applied);
        skip = 0;
    }
    let mut footer = [0; FOOTER_LEN];
    file.read_exact_at(&mut footer, at)?;
    let good = Footer::decode(&footer, id).is_some_and(|f| f.payload_hash == hasher.digest());
    Ok((good && bytes.is_empty() && records.is_between()).then_some(()))
}

/// A stretch of the file in memory: many small batches cost one read.
#[derive(Debug)]
struct Window<'a> {
    file: &'a dyn File,
    bytes: Vec<u8>,
    offset: u64,
    end: u64,
}

impl Window<'_> {
    /// The bytes of a range; `None` if it goes beyond the end.
    fn get(&mut self, offset: u64, len: usize) -> io::Result<Option<&[u8]>> {
        if len as u64 > self.end.saturating_sub(offset) {
            return Ok(None);
        }
        let start = offset.wrapping_sub(self.offset);
        if offset < self.offset || start + len as u64 > self.bytes.len() as u64 {
            let wanted = (self.end - offset).min(len.max(SCAN_BUFFER_LEN) as u64) as usize;
            self.bytes.resize(wanted, 0);
            let found = self.file.read_full_at(&mut self.bytes, offset)?;
            self.bytes.truncate(found);
            self.offset = offset;
        }
        let start = (offset - self.offset) as usize;
        Ok(self.bytes.get(start..start + len))
    }
}

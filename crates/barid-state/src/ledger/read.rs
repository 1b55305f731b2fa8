//! Reading a ledger: its tail, or all of it if something is wrong or the entries are needed.
//!
//! A batch is valid if one of its copies is whole. A copy that is not whole is torn if a part of it
//! never reached the disk (a crash before the barrier), and otherwise damaged.

use std::io;

use barid_vfs::File;

use super::layout::{
    self, BATCH_HEAD_LEN, Contents, ENTRY_LEN, FOOTER_MAGIC, HEADER_LEN, LedgerFooter,
    LedgerHeader, LedgerLayout, Records, Summary, VANISHED_LEN, Wanted,
};
use super::twice::{BLOCK_LEN, Stream};
use crate::bytes::has_unwritten_sector;
use crate::limits::{LOAD_BUFFER_LEN, SCAN_BUFFER_LEN, TAIL_LEN};

/// A flaw of a file that can still be read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// The file is of an earlier version.
    Old,
    /// A write was interrupted.
    Torn,
    /// One copy of a batch is damaged, near this offset of the file.
    Damaged(u64),
}

/// The result of opening a ledger file.
#[derive(Debug)]
pub(super) enum Opened {
    /// A ledger whose last whole batch ends at `end` of the stream. With a flaw, the next commit
    /// must rewrite the file instead of appending to it.
    Good { summary: Summary, layout: LedgerLayout, end: u64, flaw: Option<Flaw> },
    /// A durable batch is damaged in all copies, near this offset of the file, or the file is not a
    /// ledger of this mailbox. The summary holds the highest numbers that could still be read.
    Lost { summary: Summary, offset: u64 },
    /// A ledger of another version.
    Version(u32),
}

/// Reads the summary. Costs one read of the tail, unless the file is torn or of an earlier version.
pub(super) fn open(file: &dyn File, size: u64, id: u128) -> io::Result<Opened> {
    let stream = Stream::new(file, LedgerLayout::V3, size);
    let second = Stream::new(file, LedgerLayout::V2, size);
    let tail_len = stream.len.min(TAIL_LEN as u64);
    let tail = stream.read(stream.len - tail_len, tail_len as usize)?;
    for (stream, flaw) in [(&stream, None), (&second, Some(Flaw::Old))] {
        let footers = [0, 1].map(|copy| footer_of_tail(&tail[copy], stream, id));
        if let Some(footer) = footers[0].filter(|_| footers[0] == footers[1]) {
            return Ok(Opened::good(&footer, stream.layout, flaw));
        }
    }
    let old = Stream::new(file, LedgerLayout::V1, size);
    let tail_len = size.min(TAIL_LEN as u64);
    let [tail, _] = old.read(size - tail_len, tail_len as usize)?;
    if let Some(footer) = footer_of_tail(&tail, &old, id) {
        return Ok(Opened::good(&footer, LedgerLayout::V1, Some(Flaw::Old)));
    }
    let mut found = LedgerHeader::Foreign;
    for offset in [BLOCK_LEN, 0] {
        let [header, _] = old.read(offset, HEADER_LEN as usize)?;
        match LedgerHeader::decode(&header, id) {
            LedgerHeader::Foreign => {}
            header => found = header,
        }
    }
    old.check_readable().or_else(|error| match found {
        LedgerHeader::Foreign => Err(error),
        _ => Ok(()),
    })?;
    match found {
        LedgerHeader::Ours(LedgerLayout::V1) => scan(&old, id),
        LedgerHeader::Ours(LedgerLayout::V2) => scan(&second, id),
        LedgerHeader::Ours(LedgerLayout::V3) => scan(&stream, id),
        LedgerHeader::Version(version) => Ok(Opened::Version(version)),
        LedgerHeader::Foreign => {
            let mut summary: Option<Summary> = None;
            for stream in [&old, &second, &stream] {
                let best = best_footer(stream, 0, id)?.map(|footer| footer.summary);
                summary = summary.into_iter().chain(best).max_by_key(|found| found.sequence);
                stream.check_readable()?;
            }
            Ok(Opened::Lost { summary: summary.unwrap_or_default(), offset: 0 })
        }
    }
}

impl Opened {
    fn good(footer: &LedgerFooter, layout: LedgerLayout, flaw: Option<Flaw>) -> Self {
        Self::Good { summary: footer.summary, layout, end: footer.end(layout), flaw }
    }
}

/// Decodes the footer at the end of the tail. The payload of a short batch is verified, too; that
/// of a longer one was durable before its footer was written.
fn footer_of_tail(tail: &[u8], stream: &Stream<'_>, id: u128) -> Option<LedgerFooter> {
    let footer_len = stream.layout.footer_len();
    let at = tail.len().checked_sub(footer_len)?;
    let footer = LedgerFooter::decode(&tail[at..], stream.layout, id)?;
    if footer.end(stream.layout) != stream.len {
        return None;
    }
    let len = BATCH_HEAD_LEN + footer.payload_len as usize + footer_len;
    if len <= TAIL_LEN {
        let batch = &tail[tail.len().checked_sub(len)?..at];
        if layout::hash(batch) != footer.payload_hash {
            return None;
        }
    }
    Some(footer)
}

/// Walks the batches from the start to the first that is whole in no copy. If that batch is not
/// torn, or a later one is whole, it was durable once: the ledger is lost.
fn scan(stream: &Stream<'_>, id: u128) -> io::Result<Opened> {
    let mut summary = Summary::default();
    let (mut end, mut flaw) = (HEADER_LEN, None);
    loop {
        let batch = Checked::read(stream, end, stream.len, id)?;
        let Some(footer) = batch.footer().filter(|f| f.summary.sequence > summary.sequence) else {
            break;
        };
        if batch.is_flawed() {
            let len = footer.end(stream.layout) - end;
            let is_torn = is_torn(stream, end, len)?;
            let found = if is_torn { Flaw::Torn } else { Flaw::Damaged(stream.file_offset(end)) };
            flaw = flaw.filter(|flaw| *flaw != Flaw::Torn).or(Some(found));
        }
        summary = footer.summary;
        end = footer.end(stream.layout);
    }
    let best = best_footer(stream, end, id)?;
    let rest = stream.len - end.min(stream.len);
    let is_damaged = match best {
        // The footer is in place, so the batch is complete, whatever length its head has.
        Some(footer) if footer.batch_offset == end => !lacks_sector(stream, end, rest)?,
        Some(_) => true,
        None => rest > 0 && !is_torn(stream, end, rest)?,
    };
    if is_damaged || summary.sequence == 0 {
        stream.check_readable()?;
        let best = best.map(|footer| footer.summary);
        let summary = best.filter(|best| best.sequence > summary.sequence).unwrap_or(summary);
        return Ok(Opened::Lost { summary, offset: stream.file_offset(end) });
    }
    let old = (stream.layout != LedgerLayout::V3).then_some(Flaw::Old);
    let torn = (rest > 0).then_some(Flaw::Torn);
    let flaw = flaw.or(torn).or(old).or(Some(Flaw::Torn));
    Ok(Opened::Good { summary, layout: stream.layout, end, flaw })
}

/// Returns `true` if a part of a batch may never have reached the disk: the range is shorter than
/// any batch or than a head states, or a copy of it has a sector of zeros.
fn is_torn(stream: &Stream<'_>, at: u64, len: u64) -> io::Result<bool> {
    let least = (BATCH_HEAD_LEN + stream.layout.footer_len()) as u64;
    if len < least {
        return Ok(true);
    }
    let heads = stream.read(at, BATCH_HEAD_LEN)?;
    let mut lens = heads.iter().filter_map(|head| layout::payload_len(head));
    if lens.any(|payload_len| u64::from(payload_len) + least > len) {
        return Ok(true);
    }
    lacks_sector(stream, at, len)
}

/// Returns `true` if a copy of the range has a sector of zeros, or if the part of its footer in one
/// sector is zeros: the footer is written by itself.
fn lacks_sector(stream: &Stream<'_>, at: u64, len: u64) -> io::Result<bool> {
    let footer_at = at + len.saturating_sub(stream.layout.footer_len() as u64);
    let footers = stream.read(footer_at, (at + len - footer_at) as usize)?;
    let is_unwritten = |footer: &Vec<u8>| has_unwritten_sector(footer, footer_at);
    if footers[..stream.copies()].iter().any(is_unwritten) {
        return Ok(true);
    }
    let mut done = 0;
    while done < len {
        // Ends at a block, so that no sector is checked in two parts.
        let room = LOAD_BUFFER_LEN as u64 - (at + done) % BLOCK_LEN;
        let now = (len - done).min(room);
        let copies = stream.read(at + done, now as usize)?;
        for bytes in &copies[..stream.copies()] {
            if has_unwritten_sector(bytes, at + done) {
                return Ok(true);
            }
        }
        done += now;
    }
    Ok(false)
}

/// The result of verifying each copy of a batch.
struct Checked {
    copies: usize,
    footers: [Option<LedgerFooter>; 2],
}

impl Checked {
    /// Verifies the batch at `offset` of the stream, which ends by `end`, in bounded memory.
    fn read(stream: &Stream<'_>, offset: u64, end: u64, id: u128) -> io::Result<Self> {
        let mut checked = Self { copies: stream.copies(), footers: [None; 2] };
        for payload_len in lengths(stream, offset, end)? {
            let mut nothing = |_: &[Vec<u8>; 2]| {};
            checked.footers = verify(stream, offset, payload_len, id, &mut nothing)?;
            if checked.footer().is_some() {
                break;
            }
        }
        Ok(checked)
    }

    fn footer(&self) -> Option<LedgerFooter> {
        self.footers.iter().flatten().next().copied()
    }

    /// Returns `true` if a copy is not whole, or differs from the first.
    fn is_flawed(&self) -> bool {
        self.footers[..self.copies].iter().any(|footer| *footer != self.footer())
    }
}

/// Returns the payload lengths in the heads of the copies of the batch at `offset`, without those
/// with which it would end after `end`.
fn lengths(stream: &Stream<'_>, offset: u64, end: u64) -> io::Result<Vec<u32>> {
    let least = (BATCH_HEAD_LEN + stream.layout.footer_len()) as u64;
    let room = end.saturating_sub(offset);
    if room < least {
        return Ok(Vec::new());
    }
    let heads = stream.read(offset, BATCH_HEAD_LEN)?;
    let lens = heads.iter().filter_map(|head| layout::payload_len(head));
    let mut lens: Vec<u32> = lens.filter(|len| u64::from(*len) <= room - least).collect();
    lens.dedup();
    Ok(lens)
}

/// Reads a batch piece by piece, and calls `visit` with each piece in both copies; returns the
/// footer of each copy that is whole.
fn verify(
    stream: &Stream<'_>,
    offset: u64,
    payload_len: u32,
    id: u128,
    visit: &mut dyn FnMut(&[Vec<u8>; 2]),
) -> io::Result<[Option<LedgerFooter>; 2]> {
    let mut left = BATCH_HEAD_LEN as u64 + u64::from(payload_len);
    let (mut at, mut hashers) = (offset, [layout::hasher(), layout::hasher()]);
    while left > 0 {
        let now = left.min(LOAD_BUFFER_LEN as u64);
        let copies = stream.read(at, now as usize)?;
        hashers.iter_mut().zip(&copies).for_each(|(hasher, copy)| hasher.update(copy));
        visit(&copies);
        (at, left) = (at + now, left - now);
    }
    let footers = stream.read(at, stream.layout.footer_len())?;
    let mut found = [None; 2];
    for (copy, footer) in footers.iter().enumerate() {
        let footer = LedgerFooter::decode(footer, stream.layout, id);
        let hash = hashers[copy].digest();
        found[copy] = footer.filter(|f| f.batch_offset == offset && f.payload_hash == hash);
    }
    Ok(found)
}

/// Searches for the footer with the highest sequence number from `offset` of the stream on, in any
/// copy. Ignores what another process appends in the meantime, which would seem to follow a bad
/// batch.
fn best_footer(stream: &Stream<'_>, mut offset: u64, id: u128) -> io::Result<Option<LedgerFooter>> {
    let mut best: Option<LedgerFooter> = None;
    let footer_len = stream.layout.footer_len();
    loop {
        let left = stream.len.saturating_sub(offset);
        let wanted = left.min(SCAN_BUFFER_LEN as u64) as usize;
        let copies = stream.read(offset, wanted)?;
        for bytes in &copies {
            for (at, window) in bytes.windows(footer_len).enumerate() {
                if !window.starts_with(FOOTER_MAGIC) {
                    continue;
                }
                let Some(footer) = LedgerFooter::decode(window, stream.layout, id) else {
                    continue;
                };
                let stands = footer.end(stream.layout) == offset + (at + footer_len) as u64;
                let sequence = footer.summary.sequence;
                if stands && best.is_none_or(|best| best.summary.sequence < sequence) {
                    best = Some(footer);
                }
            }
        }
        if left <= SCAN_BUFFER_LEN as u64 {
            return Ok(best);
        }
        offset += (wanted - (footer_len - 1)) as u64;
    }
}

/// The records read from all batches of a ledger.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) contents: Contents,
    /// Offset in the file near which one copy of a batch is damaged.
    pub(super) damage: Option<u64>,
}

/// Reads all records of one kind up to `end` of the stream. The inner `Err` is the offset in the
/// file of a batch that is whole in no copy. With [`Flaw::Torn`], a last batch that is whole in one
/// copy only is not damaged: a crash interrupted its commit.
pub(super) fn load(
    stream: &Stream<'_>,
    summary: &Summary,
    (end, found): (u64, Option<Flaw>),
    id: u128,
    wanted: Wanted,
) -> io::Result<Result<Loaded, u64>> {
    let mut loaded = Loaded { contents: Contents::new(wanted), damage: None };
    let mut offset = match wanted {
        Wanted::Entries => summary.entries_offset,
        Wanted::Vanished => summary.vanished_offset,
    };
    let room = end - offset.min(end);
    match wanted {
        Wanted::Entries => {
            let count = summary.live.min(room / ENTRY_LEN as u64);
            loaded.contents.entries.reserve_exact(count as usize);
        }
        Wanted::Vanished => {
            let count = u64::from(summary.vanished_count).min(room / VANISHED_LEN as u64);
            loaded.contents.vanished.reserve_exact(count as usize);
        }
    }
    let mut window = Window { stream, bytes: Default::default(), offset: 0, end };
    while offset < end {
        match load_batch(&mut window, offset, id, &mut loaded.contents)? {
            Some((len, is_flawed)) => {
                let is_torn = found == Some(Flaw::Torn) && offset + len == end;
                let damage = (is_flawed && !is_torn).then(|| stream.file_offset(offset));
                loaded.damage = loaded.damage.or(damage);
                offset += len;
            }
            None => {
                stream.check_readable()?;
                return Ok(Err(stream.file_offset(offset)));
            }
        }
    }
    Ok(Ok(loaded))
}

/// Applies a batch; returns its length in bytes, and `true` if one of its copies is damaged.
/// Returns `None` if no copy is whole; then the contents are undefined.
fn load_batch(
    window: &mut Window<'_>,
    offset: u64,
    id: u128,
    contents: &mut Contents,
) -> io::Result<Option<(u64, bool)>> {
    let stream = window.stream;
    let footer_len = stream.layout.footer_len();
    for payload_len in window.lengths(offset)? {
        let len = BATCH_HEAD_LEN + payload_len as usize + footer_len;
        if len > LOAD_BUFFER_LEN {
            if let Some(is_flawed) = load_long(stream, offset, payload_len, id, contents)? {
                return Ok(Some((len as u64, is_flawed)));
            }
            continue;
        }
        let Some(copies) = window.get(offset, len)? else { continue };
        let is_whole = |batch: &&[u8]| {
            let (body, footer) = batch.split_at(len - footer_len);
            let footer = LedgerFooter::decode(footer, stream.layout, id);
            footer.is_some_and(|footer| footer.payload_hash == layout::hash(body))
        };
        let whole: Vec<&[u8]> = copies.into_iter().flatten().filter(is_whole).collect();
        let Some(batch) = whole.first() else { continue };
        let applied = layout::apply(&batch[BATCH_HEAD_LEN..len - footer_len], contents);
        let is_flawed = whole.len() < stream.copies();
        return Ok(applied.map(|()| (len as u64, is_flawed)));
    }
    Ok(None)
}

/// Applies a long batch piece by piece, reading it once unless the first copy is damaged. Returns
/// `true` if one copy is damaged; `None` if no copy is whole, and then the contents are unchanged.
fn load_long(
    stream: &Stream<'_>,
    offset: u64,
    payload_len: u32,
    id: u128,
    contents: &mut Contents,
) -> io::Result<Option<bool>> {
    let before = contents.clone();
    for copy in 0..stream.copies() {
        // The first bytes are the head of the batch, which is not a record.
        let (mut bytes, mut skip, mut is_sound) = (Vec::new(), BATCH_HEAD_LEN, true);
        let mut records = Records::default();
        let mut apply = |copies: &[Vec<u8>; 2]| {
            bytes.extend_from_slice(&copies[copy]);
            match records.apply(&bytes[skip..], contents).filter(|_| is_sound) {
                Some(applied) => drop(bytes.drain(..skip + applied)),
                None => (is_sound, bytes) = (false, vec![0; skip]),
            }
            skip = 0;
        };
        let footers = verify(stream, offset, payload_len, id, &mut apply)?;
        if footers[copy].is_some() && is_sound && bytes.is_empty() && records.is_between() {
            let whole = footers.iter().flatten().count();
            return Ok(Some(whole < stream.copies()));
        }
        contents.clone_from(&before);
    }
    Ok(None)
}

/// A range of the stream in memory, so that many small batches cost one read.
#[derive(Debug)]
struct Window<'a> {
    stream: &'a Stream<'a>,
    bytes: [Vec<u8>; 2],
    offset: u64,
    end: u64,
}

impl Window<'_> {
    /// Returns a range in each copy; `None` if it extends beyond the end.
    fn get(&mut self, offset: u64, len: usize) -> io::Result<Option<[Option<&[u8]>; 2]>> {
        if len as u64 > self.end.saturating_sub(offset) {
            return Ok(None);
        }
        let start = offset.wrapping_sub(self.offset);
        if offset < self.offset || start + len as u64 > self.bytes[0].len() as u64 {
            let wanted = (self.end - offset).min(len.max(SCAN_BUFFER_LEN) as u64) as usize;
            self.bytes = self.stream.read(offset, wanted)?;
            self.offset = offset;
        }
        let start = (offset - self.offset) as usize;
        Ok(Some([0, 1].map(|copy| self.bytes[copy].get(start..start + len))))
    }

    /// Returns the payload lengths in the heads of the copies of the batch at `offset`.
    fn lengths(&mut self, offset: u64) -> io::Result<Vec<u32>> {
        let least = (BATCH_HEAD_LEN + self.stream.layout.footer_len()) as u64;
        let room = self.end.saturating_sub(offset);
        let Some(heads) = self.get(offset, BATCH_HEAD_LEN)? else { return Ok(Vec::new()) };
        let lens = heads.iter().flatten().filter_map(|head| layout::payload_len(head));
        let mut lens: Vec<u32> = lens.filter(|len| u64::from(*len) + least <= room).collect();
        lens.dedup();
        Ok(lens)
    }
}

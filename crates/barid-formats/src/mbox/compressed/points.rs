//! Restart points: positions in a compressed file from which it can be decompressed without the
//! bytes before (`docs/formats/derived.md`, "Restart points").
//!
//! They are noted while a text is decompressed, at a fixed distance in the text; the distance
//! doubles when they exceed a memory bound. They are valid for one state of one file, identified by
//! its stamp. They are kept beside the cache, and the window of a point is read from there when it
//! is needed. Without them reading is slower, but gives the same result.

use std::io;
use std::ops::Range;

use barid_mailbox::ReadKept;
use barid_vfs::le::LeReader;
use barid_vfs::{FileStamp, Timestamp};

use super::super::layout::{POINT_DISTANCE, POINTS_LEN_MAX};
use super::Compression;
use super::gzip::WINDOW_LEN;

/// The version of [`Points::take_bytes`].
const VERSION: u32 = 2;
/// Zstandard level for windows.
const WINDOW_LEVEL: i32 = 1;
/// Points are written again when more than one in this many is new.
const NEW_PART: usize = 4;
/// Bytes before the entries.
const HEAD_LEN: u64 = 4 + 4 + 6 * 8;
/// Bytes of an entry without its window.
const ENTRY_LEN: usize = 8 + 8 + 4 + 4;

/// A place in a compressed file from which decoding can begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::mbox) struct DecodeStart {
    /// Offset in the file.
    pub(super) raw: u64,
    /// State of the decoder between two blocks; `None` at the beginning of a member, frame or
    /// stream.
    pub(super) block: Option<BlockStart>,
}

/// State at a boundary between two compressed blocks, of gzip or bzip2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockStart {
    /// Bits of the byte before the place that belong to the next block.
    pub(super) bit_count: u8,
    /// The values of these bits.
    pub(super) bits: u8,
    /// Up to 32 KB of text before the place.
    pub(super) window: Vec<u8>,
}

/// A window, compressed.
enum CompressedWindow {
    Held(Vec<u8>),
    /// Its range in the kept bytes.
    Kept(Range<u64>),
}

/// A restart point in memory.
struct Point {
    text: u64,
    raw: u64,
    /// Bit count and bits.
    block: Option<(u8, u8)>,
    window: CompressedWindow,
}

impl Point {
    fn len(&self) -> usize {
        let window_len = match &self.window {
            CompressedWindow::Held(window) => window.len(),
            CompressedWindow::Kept(range) => (range.end - range.start) as usize,
        };
        ENTRY_LEN + window_len
    }
}

/// The restart points of one state of a file.
pub(in crate::mbox) struct Points {
    compression: Compression,
    stamp: FileStamp,
    distance: u64,
    points: Vec<Point>,
    len: usize,
    /// Number of points not yet returned by [`Points::take_bytes`].
    new: usize,
    /// Reads the kept bytes.
    kept: Option<Box<ReadKept>>,
}

impl Points {
    pub(super) fn new(compression: Compression, stamp: FileStamp) -> Self {
        let (distance, points) = (POINT_DISTANCE, Vec::new());
        Self { compression, stamp, distance, points, len: 0, new: 0, kept: None }
    }

    /// Returns `true` if they are valid for the file with this stamp.
    pub(super) fn are_of(&self, stamp: &FileStamp) -> bool {
        self.stamp == *stamp
    }

    /// Returns `true` if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Returns `true` if enough points were added since [`Points::take_bytes`] to make writing
    /// worth it.
    pub(super) fn are_worth_keeping(&self) -> bool {
        self.new > self.points.len() / NEW_PART
    }

    /// Returns `true` if a point at this offset of the text would be far enough from the others.
    pub(super) fn wants(&self, text: u64) -> bool {
        let next = self.points.partition_point(|point| point.text <= text);
        let before = next.checked_sub(1).map_or(0, |before| self.points[before].text);
        let is_far = |after: &Point| after.text - text >= self.distance;
        text - before >= self.distance && self.points.get(next).is_none_or(is_far)
    }

    /// Adds a place at an offset of the text, unless another is near.
    pub(super) fn add(&mut self, text: u64, place: &DecodeStart) -> io::Result<()> {
        if !self.wants(text) {
            return Ok(());
        }
        let (block, window) = match &place.block {
            Some(BlockStart { bit_count, bits, window }) => {
                (Some((*bit_count, *bits)), zstd::bulk::compress(window, WINDOW_LEVEL)?)
            }
            None => (None, Vec::new()),
        };
        let point = Point { text, raw: place.raw, block, window: CompressedWindow::Held(window) };
        let at = self.points.partition_point(|other| other.text <= text);
        self.len += point.len();
        self.points.insert(at, point);
        self.new += 1;
        if self.len > POINTS_LEN_MAX {
            self.thin_out();
        }
        Ok(())
    }

    /// Doubles the distance and drops the points that are then too near to each other.
    fn thin_out(&mut self) {
        self.distance *= 2;
        let (mut before, distance) = (0, self.distance);
        self.points.retain(|point| {
            let is_kept = point.text - before >= distance;
            before = if is_kept { point.text } else { before };
            is_kept
        });
        self.len = self.points.iter().map(Point::len).sum();
    }

    /// Returns the offset of the last point at or before an offset of the text; 0 if there is none.
    pub(super) fn offset_before(&self, text: u64) -> u64 {
        let next = self.points.partition_point(|point| point.text <= text);
        next.checked_sub(1).map_or(0, |before| self.points[before].text)
    }

    /// Returns the last place at or before an offset of the text, and its offset in the text.
    pub(super) fn before(&self, text: u64) -> (u64, DecodeStart) {
        let next = self.points.partition_point(|point| point.text <= text);
        let found = next.checked_sub(1).and_then(|before| self.place(&self.points[before]));
        found.unwrap_or_default()
    }

    fn place(&self, point: &Point) -> Option<(u64, DecodeStart)> {
        let block = match point.block {
            None => None,
            Some((bit_count, bits)) => {
                let window = match self.window(point)? {
                    window if window.is_empty() => window,
                    window => zstd::bulk::decompress(&window, WINDOW_LEN).ok()?,
                };
                Some(BlockStart { bit_count, bits, window })
            }
        };
        Some((point.text, DecodeStart { raw: point.raw, block }))
    }

    /// Returns the window of a point; `None` if it must be read and cannot be.
    fn window(&self, point: &Point) -> Option<Vec<u8>> {
        match &point.window {
            CompressedWindow::Held(window) => Some(window.clone()),
            CompressedWindow::Kept(range) => {
                let window = self.kept.as_ref()?(range.clone())?;
                (window.len() as u64 == range.end - range.start).then_some(window)
            }
        }
    }

    /// Encodes them for the cache, and counts none as new.
    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        self.new = 0;
        let windows: Vec<_> = self.points.iter().map(|point| self.window(point)).collect();
        let all = || self.points.iter().zip(&windows);
        let all = || all().filter_map(|(point, window)| Some((point, window.as_ref()?)));
        let mut out = Vec::with_capacity(self.len + 64);
        out.extend(VERSION.to_le_bytes());
        out.extend((self.compression as u32).to_le_bytes());
        let FileStamp { inode, size, modified, changed } = self.stamp;
        let times = [modified.unix_nanos as u64, changed.unix_nanos as u64];
        for word in [inode, size, times[0], times[1], self.distance, all().count() as u64] {
            out.extend(word.to_le_bytes());
        }
        for (point, window) in all() {
            out.extend(point.text.to_le_bytes());
            out.extend(point.raw.to_le_bytes());
            let (bit_count, bits) = point.block.unwrap_or_default();
            out.extend([u8::from(point.block.is_some()), bit_count, bits, 0]);
            out.extend((window.len() as u32).to_le_bytes());
        }
        all().for_each(|(_, window)| out.extend_from_slice(window));
        out
    }

    /// Decodes the `len` bytes of [`Points::take_bytes`]; `None` for another version or
    /// compression, or damage.
    pub(super) fn open(len: u64, kept: Box<ReadKept>, compression: Compression) -> Option<Self> {
        let head = kept(0..HEAD_LEN)?;
        let mut head = LeReader(&head);
        let is_known = head.u32()? == VERSION && head.u32()? == compression as u32;
        let (inode, size) = (head.u64()?, head.u64()?);
        let mut time = || Some(Timestamp { unix_nanos: head.u64()? as i64 });
        let stamp = FileStamp { inode, size, modified: time()?, changed: time()? };
        let (distance, count) = (head.u64()?, head.u64()?);
        if !is_known || distance < POINT_DISTANCE || count > len / ENTRY_LEN as u64 {
            return None;
        }
        let mut window_at = HEAD_LEN + count * ENTRY_LEN as u64;
        let entries = kept(HEAD_LEN..window_at)?;
        let (mut entries, mut points) =
            (LeReader(&entries), Vec::<Point>::with_capacity(count as usize));
        for _ in 0..count {
            let (text, raw) = (entries.u64()?, entries.u64()?);
            let [has_block, bit_count, bits, _] = entries.u32()?.to_le_bytes();
            let end = window_at + u64::from(entries.u32()?);
            let ascends = points.last().is_none_or(|last| last.text < text);
            (bit_count < 8 && ascends && end <= len).then_some(())?;
            let block = (has_block != 0).then_some((bit_count, bits));
            points.push(Point { text, raw, block, window: CompressedWindow::Kept(window_at..end) });
            window_at = end;
        }
        let len = points.iter().map(Point::len).sum();
        Some(Self { compression, stamp, distance, points, len, new: 0, kept: Some(kept) })
    }
}

//! Restart points: places of a compressed file from which it can be decompressed without what comes
//! before (`docs/formats/derived.md`, "Restart points").
//!
//! They are noted while a text is decompressed, a fixed distance of text apart; the distance doubles
//! when they take more than a bounded memory. They hold for one state of one file, which its stamp
//! tells, and are kept beside the cache. Without them reading is slower, never different.

use std::io;

use barid_vfs::{FileStamp, Timestamp};

use super::super::layout::{POINT_DISTANCE, POINTS_LEN_MAX};
use super::Compression;
use super::gzip::WINDOW_LEN;

/// The version of [`Points::take_bytes`].
const VERSION: u32 = 1;
/// The level by which windows are compressed.
const WINDOW_LEVEL: i32 = 1;
/// Points are worth writing when one in so many is new.
const NEW_PART: usize = 4;
/// Bytes of an entry without its window.
const ENTRY_LEN: usize = 8 + 8 + 4 + 4;

/// A place in a compressed file from which decoding can begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::mbox) struct Place {
    /// Offset in the file.
    pub(super) raw: u64,
    /// What is to be known inside of a gzip member; `None` at the beginning of a member or frame.
    pub(super) block: Option<Block>,
}

/// A place between two blocks of a deflated text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// Bits of the byte before the place that belong to the next block.
    pub(super) bit_count: u8,
    /// These bits.
    pub(super) bits: u8,
    /// The text before, up to 32 KB of it.
    pub(super) window: Vec<u8>,
}

/// A place as it is held: its window is compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Point {
    text: u64,
    raw: u64,
    /// Bit count and bits.
    block: Option<(u8, u8)>,
    window: Vec<u8>,
}

impl Point {
    fn len(&self) -> usize {
        ENTRY_LEN + self.window.len()
    }
}

/// The restart points of one state of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::mbox) struct Points {
    compression: Compression,
    stamp: FileStamp,
    distance: u64,
    points: Vec<Point>,
    len: usize,
    /// Number of points that [`Points::take_bytes`] has not returned.
    new: usize,
}

impl Points {
    pub(super) fn new(compression: Compression, stamp: FileStamp) -> Self {
        let (distance, points) = (POINT_DISTANCE, Vec::new());
        Self { compression, stamp, distance, points, len: 0, new: 0 }
    }

    /// Returns `true` if they hold for the file with this stamp.
    pub(super) fn are_of(&self, stamp: &FileStamp) -> bool {
        self.stamp == *stamp
    }

    /// Returns `true` if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Returns `true` if so many were added since [`Points::take_bytes`] that it is worth writing all.
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

    /// Adds a place where the text has reached an offset, unless others are near.
    pub(super) fn add(&mut self, text: u64, place: &Place) -> io::Result<()> {
        if !self.wants(text) {
            return Ok(());
        }
        let (block, window) = match &place.block {
            Some(Block { bit_count, bits, window }) => {
                (Some((*bit_count, *bits)), zstd::bulk::compress(window, WINDOW_LEVEL)?)
            }
            None => (None, Vec::new()),
        };
        let point = Point { text, raw: place.raw, block, window };
        let at = self.points.partition_point(|other| other.text <= text);
        self.len += point.len();
        self.points.insert(at, point);
        self.new += 1;
        if self.len > POINTS_LEN_MAX {
            self.thin_out();
        }
        Ok(())
    }

    /// Doubles the distance and drops the points that are too near then.
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

    /// Returns the last place at or before an offset of the text, and its own offset.
    pub(super) fn before(&self, text: u64) -> (u64, Place) {
        let next = self.points.partition_point(|point| point.text <= text);
        let found = next.checked_sub(1).and_then(|before| self.points[before].place());
        found.unwrap_or_default()
    }

    /// Writes them for the cache.
    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        self.new = 0;
        let mut out = Vec::with_capacity(self.len + 64);
        out.extend(VERSION.to_le_bytes());
        out.extend((self.compression as u32).to_le_bytes());
        let FileStamp { inode, size, modified, changed } = self.stamp;
        let times = [modified.unix_nanos as u64, changed.unix_nanos as u64];
        for word in [inode, size, times[0], times[1], self.distance, self.points.len() as u64] {
            out.extend(word.to_le_bytes());
        }
        for point in &self.points {
            out.extend(point.text.to_le_bytes());
            out.extend(point.raw.to_le_bytes());
            let (bit_count, bits) = point.block.unwrap_or_default();
            out.extend([u8::from(point.block.is_some()), bit_count, bits, 0]);
            out.extend((point.window.len() as u32).to_le_bytes());
        }
        self.points.iter().for_each(|point| out.extend_from_slice(&point.window));
        out
    }

    /// Reads [`Points::take_bytes`]; `None` if they are of another version or compression.
    pub(super) fn from_bytes(bytes: &[u8], compression: Compression) -> Option<Self> {
        let mut bytes = Take(bytes);
        let is_known = bytes.u32()? == VERSION && bytes.u32()? == compression as u32;
        let (inode, size) = (bytes.u64()?, bytes.u64()?);
        let mut time = || Some(Timestamp { unix_nanos: bytes.u64()? as i64 });
        let stamp = FileStamp { inode, size, modified: time()?, changed: time()? };
        let (distance, count) = (bytes.u64()?, bytes.u64()? as usize);
        if !is_known || distance < POINT_DISTANCE || count > bytes.0.len() / ENTRY_LEN {
            return None;
        }
        let (entries, mut windows) = bytes.0.split_at(count * ENTRY_LEN);
        let (mut entries, mut points) = (Take(entries), Vec::<Point>::with_capacity(count));
        for _ in 0..count {
            let (text, raw) = (entries.u64()?, entries.u64()?);
            let [has_block, bit_count, bits, _] = entries.u32()?.to_le_bytes();
            let (window, rest) = windows.split_at_checked(entries.u32()? as usize)?;
            windows = rest;
            let is_sound = bit_count < 8 && points.last().is_none_or(|last| last.text < text);
            is_sound.then_some(())?;
            let block = (has_block != 0).then_some((bit_count, bits));
            points.push(Point { text, raw, block, window: window.to_vec() });
        }
        let len = points.iter().map(Point::len).sum();
        Some(Self { compression, stamp, distance, points, len, new: 0 })
    }
}

impl Point {
    fn place(&self) -> Option<(u64, Place)> {
        let block = match self.block {
            None => None,
            Some((bit_count, bits)) => {
                let window = zstd::bulk::decompress(&self.window, WINDOW_LEN).ok()?;
                Some(Block { bit_count, bits, window })
            }
        };
        Some((self.text, Place { raw: self.raw, block }))
    }
}

/// Takes numbers from the front.
struct Take<'a>(&'a [u8]);

impl Take<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

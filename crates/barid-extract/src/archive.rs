//! Members of a zip archive in memory (PKWARE APPNOTE 6.3.10), as office documents use it.
//!
//! Only the central directory at the end counts: it is walked once, within bounds, and members are
//! found by their exact names. Sizes that the archive declares are never trusted for anything but
//! the place of the compressed bytes; what inflates is counted. Zip64, which archives of less than
//! 4 GB do not need, is not read.

use std::cell::Cell;
use std::io::{self, Read};

use flate2::read::DeflateDecoder;

use crate::Failure;
use crate::limits::{
    INFLATE_RATIO_FROM, INFLATE_RATIO_MAX, INFLATED_LEN_MAX, MEMBER_NAME_LEN_MAX, MEMBERS_MAX,
};

/// An archive and its directory.
#[derive(Debug)]
pub(crate) struct Archive<'a> {
    bytes: &'a [u8],
    members: Vec<Member<'a>>,
    /// Bytes inflated so far.
    inflated: Cell<u64>,
}

/// An entry of the central directory.
#[derive(Clone, Copy, Debug)]
struct Member<'a> {
    name: &'a [u8],
    is_encrypted: bool,
    method: u16,
    compressed_len: usize,
    header_at: usize,
}

impl<'a> Archive<'a> {
    /// Reads the directory. O(members).
    ///
    /// # Errors
    /// [`Failure::BadArchive`], [`Failure::TooManyMembers`].
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Failure> {
        let end_at = end_record(bytes).ok_or(Failure::BadArchive)?;
        let count = u16_at(bytes, end_at + 10).ok_or(Failure::BadArchive)?;
        if usize::from(count) > MEMBERS_MAX {
            return Err(Failure::TooManyMembers);
        }
        let len = u32_at(bytes, end_at + 12).ok_or(Failure::BadArchive)? as usize;
        let stated_at = u32_at(bytes, end_at + 16).ok_or(Failure::BadArchive)? as usize;
        let start = end_at.checked_sub(len).ok_or(Failure::BadArchive)?;
        // Bytes before the archive move everything; offsets are as stated without them.
        let moved = start.checked_sub(stated_at).ok_or(Failure::BadArchive)?;
        let mut members = Vec::new();
        let mut rest = &bytes[start..end_at];
        while !rest.is_empty() {
            let (member, after) = member(rest, moved).ok_or(Failure::BadArchive)?;
            if members.len() == MEMBERS_MAX {
                return Err(Failure::TooManyMembers);
            }
            members.push(member);
            rest = after;
        }
        Ok(Self { bytes, members, inflated: Cell::new(0) })
    }

    /// Returns `true` if there is a member with this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns the numbers N for which there is a member `{before}{N}{after}`, ascending.
    pub(crate) fn numbers(&self, before: &str, after: &str) -> Vec<u32> {
        let number = |member: &Member<'_>| {
            let digits = member.name.strip_prefix(before.as_bytes())?;
            let digits = std::str::from_utf8(digits.strip_suffix(after.as_bytes())?).ok()?;
            // The exact name is made from the number again.
            digits.parse().ok().filter(|number: &u32| number.to_string() == digits)
        };
        let mut numbers: Vec<u32> = self.members.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Opens a member; `None` if there is none of this name.
    ///
    /// # Errors
    /// [`Failure::BadArchive`], [`Failure::Encrypted`], [`Failure::UnknownCompression`].
    pub(crate) fn open(&self, name: &str) -> Result<Option<MemberReader<'_>>, Failure> {
        let Some(member) = self.find(name) else { return Ok(None) };
        if member.is_encrypted {
            return Err(Failure::Encrypted);
        }
        let data = self.data(member).ok_or(Failure::BadArchive)?;
        let source = match member.method {
            0 => Source::Stored(data),
            8 => Source::Deflated(DeflateDecoder::new(data)),
            _ => return Err(Failure::UnknownCompression),
        };
        let ratio_max = (data.len() as u64).saturating_mul(INFLATE_RATIO_MAX);
        let len_max = ratio_max.max(INFLATE_RATIO_FROM);
        Ok(Some(MemberReader { source, len: 0, len_max, inflated: &self.inflated }))
    }

    fn find(&self, name: &str) -> Option<&Member<'a>> {
        self.members.iter().find(|member| member.name == name.as_bytes())
    }

    /// Returns the compressed bytes, which follow the member's own header.
    fn data(&self, member: &Member<'_>) -> Option<&'a [u8]> {
        let header = self.bytes.get(member.header_at..)?;
        if !header.starts_with(b"PK\x03\x04") {
            return None;
        }
        let names = usize::from(u16_at(header, 26)?) + usize::from(u16_at(header, 28)?);
        header.get(30 + names..)?.get(..member.compressed_len)
    }
}

/// Returns the name of the first member of an archive, without looking at anything else.
pub(crate) fn first_name(bytes: &[u8]) -> Option<&[u8]> {
    let header = bytes.strip_prefix(b"PK\x03\x04")?;
    let len = u16_at(header, 22)?;
    header.get(26..26 + usize::from(len))
}

/// Returns the offset of the end record. The comment after it has at most 64 KB.
fn end_record(bytes: &[u8]) -> Option<usize> {
    let last = bytes.len().checked_sub(22)?;
    let first = last.saturating_sub(usize::from(u16::MAX));
    let fits = |at: &usize| {
        let comment_len = u16_at(bytes, at + 20).map(usize::from);
        comment_len.is_some_and(|len| at + 22 + len <= bytes.len())
    };
    memchr::memmem::rfind_iter(&bytes[first..], b"PK\x05\x06").map(|at| first + at).find(fits)
}

/// Returns the first entry of a directory, and the rest.
fn member(entry: &[u8], moved: usize) -> Option<(Member<'_>, &[u8])> {
    if !entry.starts_with(b"PK\x01\x02") {
        return None;
    }
    let lens = [28, 30, 32].map(|at| u16_at(entry, at).map(usize::from));
    let [Some(name_len), Some(extra_len), Some(comment_len)] = lens else { return None };
    let name = entry.get(46..46 + name_len)?;
    let member = Member {
        // A name that nobody looks for.
        name: if name_len > MEMBER_NAME_LEN_MAX { b"" } else { name },
        is_encrypted: u16_at(entry, 8)? & 1 != 0,
        method: u16_at(entry, 10)?,
        compressed_len: u32_at(entry, 20)? as usize,
        header_at: (u32_at(entry, 42)? as usize).checked_add(moved)?,
    };
    Some((member, entry.get(46 + name_len + extra_len + comment_len..)?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The inflated bytes of a member, counted.
#[derive(Debug)]
pub(crate) struct MemberReader<'a> {
    source: Source<'a>,
    len: u64,
    len_max: u64,
    inflated: &'a Cell<u64>,
}

#[derive(Debug)]
enum Source<'a> {
    Stored(&'a [u8]),
    Deflated(DeflateDecoder<&'a [u8]>),
}

impl Read for MemberReader<'_> {
    /// Fails with a [`Failure`] inside the error.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.source {
            Source::Stored(bytes) => bytes.read(buffer),
            Source::Deflated(inflater) => inflater.read(buffer),
        };
        let count = read.map_err(|_| io::Error::other(Failure::BadArchive))?;
        self.len += count as u64;
        self.inflated.set(self.inflated.get() + count as u64);
        if self.inflated.get() > INFLATED_LEN_MAX {
            return Err(io::Error::other(Failure::InflatedTooLong));
        }
        if self.len > self.len_max {
            return Err(io::Error::other(Failure::RatioTooHigh));
        }
        Ok(count)
    }
}

//! The walk from line to line, which finds the messages.
//!
//! Each line gives the length of its message, so only the lines are read. The walk ends at a line
//! that is invalid, or whose message is longer than the rest of the file. If whole messages follow
//! up to the end of the file, the file is damaged in the middle; otherwise an append was
//! interrupted, and its remains are the *torn end*. Others may have delivered mail after an
//! interrupted append of ours; then its remains are a *hole*, which gets a line that marks it as
//! expunged.

use std::collections::HashSet;
use std::io;

use barid_vfs::File;

use super::date;
use super::layout::{
    LINE_LEN_MAX, MbxRecord, OLD, RESYNC_READ_LEN, RESYNC_WALKED_MAX, WALK_READ_LEN, WALK_SMALL_LEN,
};

/// A reader of the lines of a file.
pub(super) struct MbxWalker<'f> {
    file: &'f dyn File,
    /// Size of the part of the file that is walked.
    size: u64,
    window: Vec<u8>,
    window_offset: u64,
    /// Number of bytes read.
    pub(super) bytes_read: u64,
}

/// The problem at which a walk ends before the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WalkEnd {
    /// Offset of the problem.
    pub(super) offset: u64,
    /// Description of the problem.
    pub(super) what: &'static str,
    /// `true` if all of the message is there, so that this is not a torn end.
    pub(super) is_whole: bool,
}

impl<'f> MbxWalker<'f> {
    /// Creates a walker over a file of `size` bytes.
    pub(super) fn new(file: &'f dyn File, size: u64) -> Self {
        Self { file, size, window: Vec::new(), window_offset: 0, bytes_read: 0 }
    }

    /// Reads the line at `offset`, which is before the end.
    pub(super) fn record(&mut self, offset: u64) -> io::Result<Result<MbxRecord, WalkEnd>> {
        let want = (self.size - offset).min(LINE_LEN_MAX as u64) as usize;
        let line = self.bytes(offset, want)?;
        let fault = |what, is_whole| Err(WalkEnd { offset, what, is_whole });
        let record = match MbxRecord::parse(line, offset) {
            Ok(record) => record,
            Err(what) => return Ok(fault(what, false)),
        };
        let has_date = record.is_hidden() || date::parse(&line[..record.date_len.into()]).is_some();
        Ok(match record.end() > self.size {
            true => fault("the message runs past the end of the file", false),
            false if !has_date => fault("the date of the message cannot be read", true),
            false => Ok(record),
        })
    }

    fn bytes(&mut self, offset: u64, want: usize) -> io::Result<&[u8]> {
        let at = offset.checked_sub(self.window_offset).map(|at| at as usize);
        let held = at.filter(|at| at.saturating_add(want) <= self.window.len());
        let at = match held {
            Some(at) => at,
            None => {
                // If the last line was near, its message is small, and so the next ones may be.
                let near = offset.wrapping_sub(self.window_offset) < WALK_SMALL_LEN * 4;
                let len = if near { WALK_READ_LEN } else { want };
                let len = (self.size - offset).min(len as u64) as usize;
                self.window.resize(len, 0);
                let read = self.file.read_full_at(&mut self.window, offset)?;
                self.window.truncate(read);
                self.window_offset = offset;
                self.bytes_read += read as u64;
                0
            }
        };
        Ok(&self.window[at..(at + want).min(self.window.len())])
    }

    /// Walks from `offset` on and passes every record to `visit`. Returns the offset at which the
    /// last one ends, and the fault there if it is not the end of the file.
    pub(super) fn walk(
        &mut self,
        mut offset: u64,
        visit: &mut dyn FnMut(MbxRecord),
    ) -> io::Result<(u64, Option<WalkEnd>)> {
        while offset < self.size {
            match self.record(offset)? {
                Ok(record) => {
                    offset = record.end();
                    visit(record);
                }
                Err(fault) => return Ok((offset, Some(fault))),
            }
        }
        Ok((offset, None))
    }

    /// Returns `true` if the bytes at a fault are the remains of an interrupted append: a line
    /// without all of its message, the beginning of a line, or zeros. No whole messages may follow,
    /// except, after zeros, those of the same append: a power failure may lose its first line
    /// only.
    pub(super) fn is_torn_end(&mut self, fault: &WalkEnd, uids: UidsSeen) -> io::Result<bool> {
        Ok(self.tail_found(fault, uids)? == TailFound::Nothing)
    }

    /// Returns the hidden message that replaces the remains of an append of ours, if others have
    /// delivered mail after it.
    pub(super) fn hole(
        &mut self,
        fault: &WalkEnd,
        uids: UidsSeen,
    ) -> io::Result<Option<MbxRecord>> {
        if fault.is_whole || !self.at_fault(fault)?.contains(&0) {
            return Ok(None);
        }
        Ok(match self.tail_found(fault, uids)? {
            TailFound::Mail(end) => MbxRecord::hidden(fault.offset, end),
            TailFound::Nothing | TailFound::Messages => None,
        })
    }

    fn at_fault(&mut self, fault: &WalkEnd) -> io::Result<&[u8]> {
        let want = (self.size - fault.offset).min(LINE_LEN_MAX as u64) as usize;
        self.bytes(fault.offset, want)
    }

    /// Determines what follows a fault.
    fn tail_found(&mut self, fault: &WalkEnd, uids: UidsSeen) -> io::Result<TailFound> {
        let bytes = self.at_fault(fault)?;
        let is_line = MbxRecord::parse(bytes, fault.offset).is_ok() || is_line_start(bytes);
        // Only our appends leave zeros, because they write their first line last.
        let ours = bytes.contains(&0).then_some(uids);
        match is_line && !fault.is_whole {
            true => self.search(fault.offset + 1, ours),
            false => Ok(TailFound::Messages),
        }
    }

    /// Searches from `from` on for an offset from which only whole messages follow up to the end.
    /// Reads the rest of the file.
    fn search(&mut self, mut from: u64, ours: Option<UidsSeen>) -> io::Result<TailFound> {
        let mut walked = HashSet::new();
        let mut buffer = vec![0; RESYNC_READ_LEN];
        while from < self.size {
            let len = self.file.read_full_at(&mut buffer, from)?;
            self.bytes_read += len as u64;
            if len == 0 {
                break;
            }
            for end in memchr::memmem::find_iter(&buffer[..len], b"\r\n") {
                // A line ends with `;KKKKKKKKFFFF-UUUUUUUU`; its start must be searched for.
                let is_status = end >= 22 && buffer[end - 22] == b';' && buffer[end - 9] == b'-';
                if !is_status {
                    continue;
                }
                for start in end.saturating_sub(LINE_LEN_MAX - 2)..=end - 22 {
                    let at = from + start as u64;
                    let is_start = matches!(buffer[start], b' ' | b'0'..=b'9')
                        && MbxRecord::parse(&buffer[start..len], at).is_ok();
                    if is_start {
                        match self.chain(at, ours, &mut walked)? {
                            TailFound::Nothing => {}
                            found => return Ok(found),
                        }
                    }
                }
            }
            // A line may cross two reads.
            let step = if len > LINE_LEN_MAX { len - LINE_LEN_MAX } else { len };
            from += step as u64;
        }
        Ok(TailFound::Nothing)
    }

    /// Classifies the messages from `offset` on, if they are whole up to the end. Offsets that were
    /// visited before end the walk, so that lines in a message that lead to each other cost no more
    /// than their number.
    fn chain(
        &mut self,
        mut offset: u64,
        ours: Option<UidsSeen>,
        walked: &mut HashSet<u64>,
    ) -> io::Result<TailFound> {
        let mut found = TailFound::Nothing;
        while offset < self.size {
            if !walked.insert(offset) {
                return Ok(TailFound::Nothing);
            }
            if walked.len() > RESYNC_WALKED_MAX {
                return Ok(TailFound::Messages);
            }
            match self.record(offset)? {
                Ok(record) => {
                    found = found.with(&record, ours);
                    offset = record.end();
                }
                // All of the message is there, so others may follow up to the end.
                Err(fault) if fault.is_whole && ours.is_none() => return Ok(TailFound::Messages),
                Err(fault) if fault.is_whole => return Ok(found),
                Err(_) => return Ok(TailFound::Nothing),
            }
        }
        Ok(found)
    }
}

/// The highest UID before a fault, and the last one given out.
#[derive(Clone, Copy, Debug)]
pub(super) struct UidsSeen {
    pub(super) before: u32,
    pub(super) given: u32,
}

/// The content after a fault, up to the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TailFound {
    /// No whole messages, or only those of the interrupted append.
    Nothing,
    /// Messages without a UID from this offset on, which our appends never write.
    Mail(u64),
    /// Messages that have been announced, or may have been.
    Messages,
}

impl TailFound {
    /// Takes one more message into account. A UID that cannot follow the interrupted append means
    /// that the line is part of the text of a message.
    fn with(self, record: &MbxRecord, ours: Option<UidsSeen>) -> Self {
        let Some(uids) = ours else { return Self::Messages };
        let is_old = record.flags & OLD != 0;
        let is_possible = record.uid > uids.before.saturating_add(1) && record.uid <= uids.given;
        match (self, record.uid) {
            (Self::Nothing, 0) if !is_old => Self::Mail(record.offset),
            (Self::Mail(from), 0) if !is_old => Self::Mail(from),
            (Self::Nothing, uid) if uid != 0 && !(is_old && is_possible) => Self::Nothing,
            _ => Self::Messages,
        }
    }
}

/// Returns `true` if the bytes look like a line, up to their end or up to zeros.
fn is_line_start(bytes: &[u8]) -> bool {
    const DATE: &[u8] = b"99-aaa-9999 99:99:99 +9999,";
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    if end == LINE_LEN_MAX {
        return false;
    }
    let is_like = |(at, byte): (usize, &u8)| match DATE.get(at) {
        Some(b'9') => byte.is_ascii_digit() || at == 0 && *byte == b' ',
        Some(b'a') => byte.is_ascii_alphabetic(),
        Some(b'+') => matches!(byte, b'+' | b'-'),
        Some(expected) => byte == expected,
        None => byte.is_ascii_hexdigit() || b";-\r\n".contains(byte),
    };
    bytes[..end].iter().enumerate().all(is_like)
}

#[cfg(test)]
mod tests {
    use barid_vfs::{MemVfs, OpenOptions, Vfs};

    use super::*;

    #[test]
    fn lines_that_lead_to_each_other_are_read_once() {
        let vfs = MemVfs::new();
        let file = vfs.open("/box".as_ref(), OpenOptions::create_new(0o600)).unwrap();
        let line = b" 2-Dec-1992 05:53:22 -0700,2;000000000000-00000000\r\nab";
        let mut bytes = vec![0; 100];
        for _ in 0..4000 {
            bytes.extend_from_slice(line);
        }
        // The last line states a size beyond the end of the file.
        bytes.truncate(bytes.len() - 1);
        file.write_all_at(&bytes, 0).unwrap();
        let size = bytes.len() as u64;
        let mut walker = MbxWalker::new(&*file, size);
        let fault = WalkEnd { offset: 0, what: "", is_whole: false };
        assert!(walker.is_torn_end(&fault, UidsSeen { before: 0, given: 1 }).unwrap());
        assert!(walker.bytes_read < size * 4, "{} of {size}", walker.bytes_read);
    }

    #[test]
    fn the_start_of_a_line_is_told() {
        let line = b" 2-Dec-1992 05:53:22 -0700,80;0000000a0013-0000002b\r\n";
        for end in 0..line.len() {
            assert!(is_line_start(&line[..end]));
            assert!(is_line_start(&[&line[..end], &[0, 7]].concat()));
            assert!(!is_line_start(&[&line[..end], b"_"].concat()));
        }
        assert!(!is_line_start(b"Subject: x"));
        assert!(!is_line_start(&[b'1'; 64]));
    }
}

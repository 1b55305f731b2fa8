//! The lines before messages: sound lines, damaged lines, and bytes that are not a line.
//!
//! Each line gives the offset of the next one. If there is no line at that offset, either the
//! length is wrong, or the next line is damaged, or other bytes lie between. The next sound line,
//! whose message is followed by another one or by the end of the file, shows which it is.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::path::Path;

use barid_types::InternalDate;
use barid_vfs::File;

use super::super::date::{self, Day};
use super::super::layout::{
    EXPUNGED, HEADER_LEN, LINE_LEN_MAX, MbxRecord, OLD, RESYNC_READ_LEN, RESYNC_WALKED_MAX, hex,
};
use super::super::walk::MbxWalker;
use crate::check::{Damage, Diagnosis, Severity, sent_date};

/// Length in bytes of a line without the digits of the size.
const LINE_LEN_FIXED: u64 = 51;
/// Maximum number of offsets after damage that are tried for whole messages.
const RESYNC_TRIES_MAX: u32 = 10_000;
/// Bytes of the beginning of a message that are examined.
const TEXT_LEN: usize = 4096;

/// A message with its line.
pub(super) struct MbxMessageLine {
    /// The content of its line, with repairs.
    pub(super) record: MbxRecord,
    /// Offset of the text, followed by the offset of its end.
    pub(super) text: u64,
    pub(super) end: u64,
    /// The line that replaces the present one.
    pub(super) fresh: Option<Vec<u8>>,
    /// `true` if the damage of the line has been reported.
    pub(super) is_told: bool,
}

impl MbxMessageLine {
    fn of(record: MbxRecord) -> Self {
        let (text, end) = (record.text_offset(), record.end());
        Self { record, text, end, fresh: None, is_told: false }
    }

    /// Rewrites keywords, flags and UID.
    pub(super) fn renew_status(&mut self, file: &dyn File) -> io::Result<()> {
        let status = format!("{}-{:08x}", self.record.status(), self.record.uid);
        let line = self.bytes(file)?;
        let at = line.len() - 23;
        line[at..at + 21].copy_from_slice(status.as_bytes());
        Ok(())
    }

    /// Changes the size in the line.
    fn renew_size(&mut self, file: &dyn File, end: u64) -> io::Result<()> {
        self.end = end;
        self.record.size = end - self.text;
        let size = self.record.size;
        let line = self.bytes(file)?;
        let comma = memchr::memchr(b',', line).unwrap_or(0) + 1;
        let semicolon = line.len() - 24;
        let digits = format!("{size:0width$}", width = semicolon - comma);
        line.splice(comma..semicolon, digits.into_bytes());
        Ok(())
    }

    /// Returns the new line, which starts as a copy of the present one.
    fn bytes(&mut self, file: &dyn File) -> io::Result<&mut Vec<u8>> {
        if self.fresh.is_none() {
            let mut line = vec![0; (self.text - self.record.offset) as usize];
            file.read_exact_at(&mut line, self.record.offset)?;
            self.fresh = Some(line);
        }
        Ok(self.fresh.as_mut().expect("because it was just set"))
    }
}

/// All lines of a file.
pub(super) struct Lines<'a> {
    path: &'a Path,
    file: &'a dyn File,
    size: u64,
    walker: MbxWalker<'a>,
    diagnosis: &'a mut Diagnosis,
    pub(super) lines: Vec<MbxMessageLine>,
    /// Ranges that are not messages.
    pub(super) gaps: Vec<Range<u64>>,
}

impl<'a> Lines<'a> {
    /// Reads all lines.
    pub(super) fn look(
        path: &'a Path,
        file: &'a dyn File,
        size: u64,
        diagnosis: &'a mut Diagnosis,
    ) -> io::Result<Self> {
        let walker = MbxWalker::new(file, size);
        let (lines, gaps) = (Vec::new(), Vec::new());
        let mut all = Self { path, file, size, walker, diagnosis, lines, gaps };
        let mut at = HEADER_LEN;
        while at < size {
            let next = match all.walker.record(at)? {
                Ok(record) => match all.is_cut(&record)? {
                    true => all.trouble(at)?,
                    false => {
                        all.lines.push(MbxMessageLine::of(record));
                        record.end()
                    }
                },
                Err(fault) if fault.is_whole => all.without_date(at)?,
                Err(_) => all.trouble(at)?,
            };
            debug_assert!(next > at || all.lines.last().is_some_and(|line| line.end == next));
            at = next;
        }
        Ok(all)
    }

    /// Returns `true` if the size of the previous message is too large by one, so that the first
    /// space of this line counts as its last byte.
    fn is_cut(&mut self, record: &MbxRecord) -> io::Result<bool> {
        let at = record.offset;
        let is_short = record.date_len < 26 && self.lines.last().is_some_and(|line| line.end == at);
        Ok(is_short && self.find(at - 2, at, Some(at))?.is_some())
    }

    fn read(&self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let len = self.file.read_full_at(&mut bytes, at)?;
        bytes.truncate(len);
        Ok(bytes)
    }

    fn damage(&mut self, kind: &'static str, severity: Severity, at: u64) -> Damage {
        Damage::new(kind, severity, self.path).at(at)
    }

    /// Handles a message whose date cannot be read and whose line is otherwise sound. Returns its
    /// end.
    fn without_date(&mut self, at: u64) -> io::Result<u64> {
        if let Some(next) = self.within_the_last(at)? {
            return self.resize(next);
        }
        let bytes = self.read(at, LINE_LEN_MAX)?;
        let Ok(record) = MbxRecord::parse(&bytes, at) else { return self.trouble(at) };
        let mut line = MbxMessageLine::of(record);
        let date = self.date_of(line.text, line.end)?;
        let text = date::format(date, Day::Spaced);
        let fresh = line.bytes(self.file)?;
        fresh.splice(..usize::from(record.date_len), text.into_bytes());
        line.is_told = true;
        let end = line.end;
        self.lines.push(line);
        let damage = self
            .damage("date", Severity::Warning, at)
            .of(record.uid)
            .what("its internal date cannot be read, so that c-client refuses the mailbox")
            .repair("the date of its header is used");
        self.diagnosis.note(damage);
        Ok(end)
    }

    /// Returns the date in the header of the message, or that of the previous message.
    fn date_of(&self, text: u64, end: u64) -> io::Result<InternalDate> {
        let bytes = self.read(text, TEXT_LEN.min((end - text) as usize))?;
        let before = || {
            let line = self.lines.last()?;
            let bytes = self.read(line.record.offset, line.record.date_len.into()).ok()?;
            date::parse(&bytes)
        };
        Ok(sent_date(&bytes).or_else(before).unwrap_or_default())
    }

    /// Handles an offset without a valid message. Returns the offset of the next one.
    fn trouble(&mut self, at: u64) -> io::Result<u64> {
        if let Some(next) = self.within_the_last(at)? {
            return self.resize(next);
        }
        let bytes = self.read(at, LINE_LEN_MAX)?;
        if let Ok(record) = MbxRecord::parse(&bytes, at) {
            return self.runs_past_the_end(record);
        }
        let next = self.find(at + 1, self.size, None)?;
        let end = next.unwrap_or(self.size);
        if let Some(line) = self.make_out(at, end, &bytes)? {
            let damage = self
                .damage("line", Severity::Error, at)
                .of(line.record.uid)
                .what("the line before a message cannot be read")
                .repair("it is rewritten with its readable parts");
            self.diagnosis.note(damage);
            self.lines.push(line);
            return Ok(end);
        }
        self.gap(at, next)
    }

    /// Returns the offset of the next line, if the size of the previous message reaches beyond it.
    fn within_the_last(&mut self, at: u64) -> io::Result<Option<u64>> {
        let text = self.lines.last().map(|before| before.text);
        text.map_or(Ok(None), |text| self.find(text + 1, at, Some(at)))
    }

    /// Corrects the size of the last message, whose successor is at `next`.
    fn resize(&mut self, next: u64) -> io::Result<u64> {
        let file = self.file;
        let Some(line) = self.lines.last_mut() else { return Ok(next) };
        let (offset, uid, old) = (line.record.offset, line.record.uid, line.record.size);
        line.renew_size(file, next)?;
        let new = line.record.size;
        let damage = self
            .damage("size", Severity::Error, offset)
            .of(uid)
            .what(format!("the message has {new} bytes, but its line states {old}"))
            .repair("the right size is written to the line");
        self.diagnosis.note(damage);
        Ok(next)
    }

    fn runs_past_the_end(&mut self, record: MbxRecord) -> io::Result<u64> {
        let next = self.find(record.text_offset() + 1, self.size, None)?;
        let left = self.size - record.text_offset();
        // A message that a session has seen was whole once.
        if next.is_some() || record.flags & OLD != 0 && left > 0 {
            let mut line = MbxMessageLine::of(record);
            line.end = line.text;
            self.lines.push(line);
            return self.resize(next.unwrap_or(self.size));
        }
        self.torn_end(record.offset)
    }

    fn torn_end(&mut self, at: u64) -> io::Result<u64> {
        let bytes = self.size - at;
        let damage = self
            .damage("torn-end", Severity::Error, at)
            .what(format!("an append was interrupted: {bytes} bytes are not a whole message"))
            .repair("they are cut off");
        self.diagnosis.note(damage);
        self.gaps.push(at..self.size);
        Ok(self.size)
    }

    /// Handles bytes from `at` to the next message, or to the end, that are neither message nor
    /// line.
    fn gap(&mut self, at: u64, next: Option<u64>) -> io::Result<u64> {
        let end = next.unwrap_or(self.size);
        let bytes = self.read(at, TEXT_LEN.min((end - at) as usize))?;
        let is_zero = bytes.iter().all(|byte| *byte == 0);
        let is_text = !bytes.contains(&0);
        if next.is_some() && is_text && self.lines.last().is_some_and(|line| line.end == at) {
            return self.resize(end);
        }
        let (kind, what) = match (next, is_zero) {
            (None, true) => ("zeros-at-end", "zeros follow the last message"),
            (None, false) if self.is_cut_line(&bytes) => return self.torn_end(at),
            (None, false) => ("garbage", "the bytes after the last message are not a message"),
            (Some(_), _) => ("garbage", "the bytes before the next message are not a message"),
        };
        let damage = self
            .damage(kind, Severity::Error, at)
            .what(format!("{what}: {} bytes", end - at))
            .repair("they are removed");
        self.diagnosis.note(damage);
        self.gaps.push(at..end);
        Ok(end)
    }

    fn is_cut_line(&self, bytes: &[u8]) -> bool {
        bytes.len() < LINE_LEN_MAX && likeness(bytes) > 0 || date_likeness(bytes) >= 12
    }

    /// Returns the first offset in `from..to` with a sound line. Its message must be followed by
    /// another one or by the end of the file. With `beyond`, the messages must follow each other up
    /// to that offset.
    fn find(&mut self, from: u64, to: u64, beyond: Option<u64>) -> io::Result<Option<u64>> {
        let mut tries = 0;
        let mut from = from;
        let mut weak = None;
        let mut walked = HashSet::new();
        let mut buffer = vec![0; RESYNC_READ_LEN];
        while from < to && tries < RESYNC_TRIES_MAX {
            let len = self.file.read_full_at(&mut buffer, from)?;
            if len == 0 {
                break;
            }
            for end in memchr::memmem::find_iter(&buffer[..len], b"\r\n") {
                if end < 22 || buffer[end - 22] != b';' || buffer[end - 9] != b'-' {
                    continue;
                }
                tries += 1;
                let starts = end.saturating_sub(LINE_LEN_MAX - 2)..=end - 22;
                let Some(at) = self.line_start(&buffer[..len], starts, from)? else { continue };
                match beyond {
                    _ if at >= to => {}
                    Some(beyond) if self.leads_beyond(at, beyond, &mut walked)? => {
                        return Ok(Some(at));
                    }
                    None if self.is_followed(at)? => return Ok(Some(at)),
                    None if weak.is_none() => weak = Some(at),
                    _ => {}
                }
            }
            from += if len > LINE_LEN_MAX { len - LINE_LEN_MAX } else { len } as u64;
        }
        Ok(weak)
    }

    /// Finds the start of a line among `starts`, preferring one with a date as long as c-client's.
    fn line_start(
        &mut self,
        bytes: &[u8],
        starts: std::ops::RangeInclusive<usize>,
        offset: u64,
    ) -> io::Result<Option<u64>> {
        let mut found = None;
        for start in starts {
            let at = offset + start as u64;
            let Ok(record) = MbxRecord::parse(&bytes[start..], at) else { continue };
            let date = &bytes[start..start + usize::from(record.date_len)];
            if date::parse(date).is_none() || record.end() > self.size {
                continue;
            }
            if record.date_len == 26 {
                return Ok(Some(at));
            }
            found.get_or_insert(at);
        }
        Ok(found)
    }

    fn is_followed(&mut self, at: u64) -> io::Result<bool> {
        let Ok(record) = self.walker.record(at)? else { return Ok(false) };
        Ok(record.end() == self.size || self.walker.record(record.end())?.is_ok())
    }

    /// Returns `true` if messages follow each other from `at` to `beyond`. Offsets walked before
    /// failed, and are not walked again.
    fn leads_beyond(
        &mut self,
        mut at: u64,
        beyond: u64,
        walked: &mut HashSet<u64>,
    ) -> io::Result<bool> {
        while at < self.size {
            if walked.len() >= RESYNC_WALKED_MAX || !walked.insert(at) {
                return Ok(false);
            }
            match self.walker.record(at)? {
                Ok(record) if at >= beyond && record.end() > at => return Ok(true),
                Ok(record) => at = record.end(),
                Err(_) => return Ok(false),
            }
        }
        Ok(at == self.size)
    }

    /// Reconstructs a damaged line at `at` whose message ends at `end`.
    fn make_out(&self, at: u64, end: u64, bytes: &[u8]) -> io::Result<Option<MbxMessageLine>> {
        let line_end = memchr::memmem::find(bytes, b"\r\n").map(|end| end + 2);
        let line_len = match line_end.filter(|len| likeness(&bytes[..*len]) >= 2) {
            Some(len) => len as u64,
            None => match self.line_len(at, end)? {
                Some(len) => len,
                None => return Ok(None),
            },
        };
        let text = at + line_len;
        if text >= end {
            return Ok(None);
        }
        let raw = &bytes[..(line_len as usize).min(bytes.len())];
        let comma = memchr::memchr(b',', raw).unwrap_or(0);
        let date = match date::parse(&raw[..comma]) {
            Some(date) => date,
            None => self.date_of(text, end)?,
        };
        let (size, status) = (end - text, LineStatus::of(raw));
        let width = line_len.saturating_sub(LINE_LEN_FIXED) as usize;
        let fresh = new_line(date, size, width, &status);
        let record = MbxRecord {
            offset: at,
            size,
            uid: status.uid,
            keywords: status.keywords,
            flags: status.flags,
            line_len: line_len as u8,
            date_len: 26,
        };
        Ok(Some(MbxMessageLine { record, text, end, fresh: Some(fresh), is_told: true }))
    }

    /// Returns the length of a line of which nothing is readable. It follows from the number of
    /// digits of the size of the rest, if that begins like a message.
    fn line_len(&self, at: u64, end: u64) -> io::Result<Option<u64>> {
        // Text that continues in the middle of a line is not a message of its own.
        let before = self.read(at - 2, LINE_LEN_MAX)?;
        let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\r' | b'\n' | b'\t');
        if at > HEADER_LEN && !before.starts_with(b"\r\n") && before[2..].iter().all(is_text) {
            return Ok(None);
        }
        for digits in 1..=10 {
            let line_len = LINE_LEN_FIXED + digits;
            let text = at + line_len;
            let Some(size) = end.checked_sub(text).filter(|size| *size > 0) else { break };
            if u64::from(size.ilog10()) + 1 != digits {
                continue;
            }
            let bytes = self.read(text, 256)?;
            let name = bytes.iter().take_while(|byte| matches!(byte, 33..=57 | 59..=126)).count();
            if name > 0 && bytes.get(name) == Some(&b':') {
                return Ok(Some(line_len));
            }
        }
        Ok(None)
    }
}

/// The fields at the end of a line.
struct LineStatus {
    keywords: u32,
    flags: u16,
    uid: u32,
}

impl LineStatus {
    /// Parses the fields that are readable. A message that has lost its flags counts as seen by a
    /// session.
    fn of(raw: &[u8]) -> Self {
        let number = |from_end: usize, len: usize| {
            let at = raw.len().checked_sub(from_end)?;
            hex(raw.get(at..at + len)?)
        };
        let flags = number(15, 4).map_or(OLD, |flags| flags as u16);
        Self {
            keywords: number(23, 8).unwrap_or(0),
            flags: if flags & !0x803f == 0 { flags } else { OLD },
            uid: number(10, 8).unwrap_or(0),
        }
    }
}

fn new_line(date: InternalDate, size: u64, width: usize, status: &LineStatus) -> Vec<u8> {
    let date = date::format(date, Day::Spaced);
    let LineStatus { keywords, flags, uid } = status;
    format!("{date},{size:0width$};{keywords:08x}{flags:04x}-{uid:08x}\r\n").into_bytes()
}

/// Returns a line that turns `len` bytes into an expunged message, or `None` if they are too few.
pub(super) fn hidden_line(len: u64) -> Option<Vec<u8>> {
    let status = LineStatus { keywords: 0, flags: EXPUNGED | OLD, uid: 0 };
    (1..=10).find_map(|digits: u64| {
        let size = len.checked_sub(LINE_LEN_FIXED + digits).filter(|size| *size > 0)?;
        let fits = u64::from(size.ilog10()) < digits;
        fits.then(|| new_line(InternalDate::default(), size, digits as usize, &status))
    })
}

/// Returns the number of features of a line in the bytes, which end with CRLF.
fn likeness(bytes: &[u8]) -> u32 {
    let from_end = |count: usize| bytes.len().checked_sub(count).map(|at| bytes[at]);
    u32::from(from_end(24) == Some(b';'))
        + u32::from(from_end(11) == Some(b'-'))
        + u32::from(bytes.get(26) == Some(&b','))
        + u32::from(date_likeness(bytes) >= 18)
}

/// Returns the number of bytes that fit the pattern of a date.
fn date_likeness(bytes: &[u8]) -> usize {
    const DATE: &[u8] = b"99-aaa-9999 99:99:99 +9999";
    let is_like = |(byte, like): &(&u8, &u8)| match like {
        b'9' => byte.is_ascii_digit(),
        b'a' => byte.is_ascii_alphabetic(),
        b'+' => matches!(byte, b'+' | b'-'),
        _ => byte == like,
    };
    bytes.iter().zip(DATE).filter(is_like).count()
}

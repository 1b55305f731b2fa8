//! Reading of the headers of new messages, on several threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use barid_mailbox::{
    Error, Extent, Location, Result, ScanContext, ScanSink, ScannedMessage, Sinks,
};
use barid_state::MessageKey;
use barid_types::{InternalDate, Uid};
use barid_vfs::{File, on_threads};

use super::layout::{
    CHUNK_MESSAGES_MIN, CHUNKS_PER_THREAD, HEADER_LEN_LIMIT, HEADER_READ_LEN, HEADERS_READ_LEN,
    HEADERS_SMALL_LEN, KeywordBits, MbxRecord,
};
use super::scan::{damaged, visible_flags};
use super::{MbxMailbox, date};

/// Passes messages to sinks, chunk by chunk. Returns the number of bytes read.
pub(super) fn hand_out(
    mailbox: &MbxMailbox,
    file: &dyn File,
    records: &[MbxRecord],
    slots: &KeywordBits,
    sinks: &dyn Sinks,
    context: &ScanContext<'_>,
) -> Result<u64> {
    if records.is_empty() {
        return Ok(0);
    }
    let is_one = records.len() <= CHUNK_MESSAGES_MIN;
    let threads = if is_one { 1 } else { context.thread_count() };
    let len = records.len().div_ceil(threads * CHUNKS_PER_THREAD).max(CHUNK_MESSAGES_MIN);
    let chunks = records.len().div_ceil(len);
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let bytes_total = records.last().map_or(0, MbxRecord::end);
    let work = || {
        let mut reader =
            ThreadReader { mailbox, file, slots, window: Vec::new(), offset: 0, read: 0 };
        let mut done = Ok(());
        while !failed.load(Ordering::Relaxed) {
            let chunk = next.fetch_add(1, Ordering::Relaxed);
            let Some(of_chunk) = records.chunks(len).nth(chunk) else { break };
            done = reader.chunk(of_chunk, sinks.sink(chunk as u32));
            if done.is_err() {
                failed.store(true, Ordering::Relaxed);
                break;
            }
            context.report(of_chunk.last().map_or(0, MbxRecord::end), bytes_total);
        }
        done.map(|()| reader.read)
    };
    on_threads(threads.min(chunks), work).into_iter().sum()
}

/// The file and buffers of one thread.
struct ThreadReader<'a> {
    mailbox: &'a MbxMailbox,
    file: &'a dyn File,
    slots: &'a KeywordBits,
    window: Vec<u8>,
    /// Offset in the file at which the window starts.
    offset: u64,
    /// Number of bytes read.
    read: u64,
}

impl ThreadReader<'_> {
    fn chunk(&mut self, records: &[MbxRecord], mut sink: Box<dyn ScanSink + '_>) -> Result<()> {
        for record in records {
            self.message(record, &mut *sink)?;
        }
        sink.finish().map_err(Error::Sink)
    }

    fn message(&mut self, record: &MbxRecord, sink: &mut dyn ScanSink) -> Result<()> {
        let (flags, keywords) = visible_flags(record, self.slots);
        let (date, header) = self.head(record)?;
        let header_len = header.len() as u32;
        let message = ScannedMessage {
            uid: Uid::new(record.uid),
            location: Location::from(Extent {
                offset: record.offset,
                separator_len: record.line_len.into(),
                header_len,
                body_len: record.size - u64::from(header_len),
            }),
            header,
            size: record.size,
            rfc822_size: barid_message::rfc822_size_of_crlf(header, record.size),
            internal_date: date,
            flags,
            keywords,
            key: MessageKey(barid_message::header_key(header)),
        };
        sink.message(&message).map_err(Error::Sink)
    }

    /// Returns the date and the header of a message.
    fn head(&mut self, record: &MbxRecord) -> Result<(InternalDate, &[u8])> {
        let line_len = usize::from(record.line_len);
        let most = record.size.min(HEADER_LEN_LIMIT as u64) as usize + line_len;
        let mut want = most.min(HEADER_READ_LEN);
        let len = loop {
            self.fill(record, want)?;
            let at = (record.offset - self.offset) as usize;
            let held = &self.window[at..(at + most).min(self.window.len())];
            if held.len() < line_len {
                return Err(Error::Changed { path: self.mailbox.path.clone() });
            }
            match header_end(&held[line_len..]) {
                Some(len) => break len,
                None if held.len() >= most || held.len() < want => break held.len() - line_len,
                None => want = (held.len() * 2).min(most),
            }
        };
        let at = (record.offset - self.offset) as usize;
        let date = date::parse(&self.window[at..at + usize::from(record.date_len)]);
        let what = "the date of the message cannot be read";
        let date = date.ok_or_else(|| damaged(self.mailbox, record.offset, what))?;
        Ok((date, &self.window[at + line_len..at + line_len + len]))
    }

    /// Fills the window with at least `want` bytes of a record, if the file has them.
    fn fill(&mut self, record: &MbxRecord, want: usize) -> Result<()> {
        let end = record.offset + want as u64;
        let is_held = self.offset <= record.offset && end <= self.offset + self.window.len() as u64;
        if is_held {
            return Ok(());
        }
        let len = match record.size < HEADERS_SMALL_LEN {
            true => want.max(HEADERS_READ_LEN),
            false => want,
        };
        self.window.resize(len, 0);
        let read = self.file.read_full_at(&mut self.window, record.offset);
        let read = read.map_err(Error::at(&self.mailbox.path))?;
        self.window.truncate(read);
        self.offset = record.offset;
        self.read += read as u64;
        Ok(())
    }
}

/// Returns the length of a header with its blank line, or `None` if the header does not end.
fn header_end(text: &[u8]) -> Option<usize> {
    let blank = |at: usize| match &text[at..] {
        [b'\n', ..] => Some(at + 1),
        [b'\r', b'\n', ..] => Some(at + 2),
        _ => None,
    };
    let after = memchr::memchr_iter(b'\n', text).find_map(|at| blank(at + 1));
    blank(0).or(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_ends_with_a_blank_line() {
        for (text, expected) in [
            ("A: b\r\n\r\nbody", Some(8)),
            ("A: b\n\nbody", Some(6)),
            ("\r\nbody", Some(2)),
            ("\nbody\n\n", Some(1)),
            ("A: b\r\n", None),
            ("A: b\r\n\r", None),
            ("", None),
        ] {
            assert_eq!(header_end(text.as_bytes()), expected, "{text:?}");
        }
    }
}

//! Appending messages.
//!
//! Order: the messages after the others in a data file, fsync; then meta, index and status through
//! the journal, which is the commit point. A crash before it leaves bytes in a data file that
//! belong to no message: the next append writes after them, and the next expunge removes them.

use std::path::Path;

use barid_mailbox::{Error, NewMessage, Result};
use barid_message::CrlfPieces;
use barid_types::{InternalDate, Uid};
use barid_vfs::{File, OpenOptions, Ownership};

use super::MixMailbox;
use super::layout::{DATA_LEN_ROLL, META, ROLL_TRIES_MAX, WRITE_LEN};
use super::record::{MixMessage, bits_of, message_line, write_date};
use super::sync::MixChange;
use crate::given::given_uids;

/// Length of the line before a message, in bytes, as c-client calculates it.
const LINE_LEN: u64 = 45;

/// Size of the largest message with CRLF, in bytes.
pub(super) const LEN_MAX: u64 = u32::MAX as u64 - LINE_LEN;

/// Refuses messages that cannot be appended.
pub(super) fn check(mailbox: &MixMailbox, appends: &[NewMessage<'_>]) -> Result<()> {
    let unsupported = |what| Error::Unsupported { path: mailbox.path.clone(), what };
    for message in appends {
        if message.size() == 0 {
            return Err(unsupported("a mix mailbox cannot store empty messages"));
        }
        // Line ends at most double it.
        message.check_size(&mailbox.path, LEN_MAX)?;
        let is_near = message.size() > LEN_MAX / 2;
        if is_near && message.crlf_size()? > LEN_MAX {
            return Err(unsupported("a mix mailbox cannot store messages of 4 GiB or more"));
        }
    }
    Ok(())
}

/// Counts the bytes up to and including the blank line, as c-client finds it: c-client misses one
/// after CR CR LF.
#[derive(Default)]
struct HeaderCounter {
    len: u64,
    state: u8,
}

impl HeaderCounter {
    const ENDED: u8 = 4;

    /// Reads the next bytes of a text.
    fn push(&mut self, text: &[u8]) {
        let mut from = 0;
        while self.state != Self::ENDED && from < text.len() {
            if self.state == 0 {
                let found = memchr::memchr(b'\r', &text[from..]);
                from = found.map_or(text.len(), |found| from + found + 1);
                self.state = u8::from(found.is_some());
                continue;
            }
            // A CR directly after a CR starts nothing, as in c-client.
            self.state = match (self.state, text[from]) {
                (2, b'\r') => 3,
                (1, b'\n') => 2,
                (3, b'\n') => Self::ENDED,
                _ => 0,
            };
            from += 1;
        }
        self.len += from as u64;
    }
}

/// Appends; reports the UIDs.
pub(super) fn append(work: &mut MixChange<'_>, messages: &[NewMessage<'_>]) -> Result<()> {
    let given = work.now.meta.uid_last.checked_add(1).and_then(|next| given_uids(next, messages));
    let Some(given) = given else {
        let what = "no UIDs are left";
        return Err(Error::Unsupported { path: work.mailbox.path.clone(), what });
    };
    let now = &work.now;
    let mut seq = work.next_seq(now.meta.seq);
    for other in [now.index_seq, now.status_seq] {
        if other > seq {
            seq = other.saturating_add(1);
        }
    }
    if work.dry_run {
        let lens = messages.iter().map(|message| Ok(message.crlf_size()? + LINE_LEN));
        work.report.figures.bytes_appended = lens.sum::<Result<u64>>()?;
        work.report.appended = vec![None; messages.len()];
        return Ok(());
    }
    let target = AppendFile::open(work, messages[0].crlf_size()?)?;
    let before = (work.now.meta.clone(), work.now.messages.len());
    let written = write_all(work, messages, &given.uids, &target, seq)
        .and_then(|end| target.make_durable(work).map(|()| end))
        // Not later: files that a journal names, even one that failed, must stay.
        .inspect_err(|_| target.give_up(work.mailbox));
    let committed = written.and_then(|end| {
        work.report.figures.bytes_appended = end - target.size;
        work.now.meta.current = target.number;
        work.now.meta.uid_last = given.last;
        work.now.index_seq = seq;
        work.now.status_seq = seq;
        work.now.meta.seq = work.next_seq(seq);
        work.write([true; 3], None, (None, None))
    });
    if committed.is_err() {
        work.report.appended.clear();
        work.now.meta = before.0;
        work.now.messages.truncate(before.1);
    }
    committed
}

/// The data file to which messages are appended.
struct AppendFile {
    number: u32,
    file: Box<dyn File>,
    size: u64,
    /// `true` if it was made for these messages.
    is_new: bool,
}

impl AppendFile {
    /// Chooses the file as c-client does: the current one unless it would become too long, or is
    /// shorter than it should be.
    fn open(work: &MixChange<'_>, first_len: u64) -> Result<Self> {
        let mailbox = work.mailbox;
        let current = work.now.meta.current;
        let last = work.now.messages.last().filter(|last| last.file == current);
        let end = last.map_or(0, MixMessage::end);
        let metadata = work.locks.meta().metadata();
        let mut like = metadata.map_err(Error::at(&mailbox.path.join(META)))?;
        let path = mailbox.data_path(current);
        let vfs = mailbox.vfs.as_ref();
        let opened = vfs.open(&path, OpenOptions { no_follow: true, ..OpenOptions::WRITE });
        let opened = match opened {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && end == 0 => {
                Ownership::of_file(&like).create(vfs, &path)
            }
            opened => opened,
        };
        match opened {
            Ok(file) => {
                let metadata = file.metadata().map_err(Error::at(&path))?;
                let size = metadata.size;
                like = metadata;
                let is_short = size + LINE_LEN + first_len <= DATA_LEN_ROLL;
                if end <= size && (size == 0 || is_short) {
                    return Ok(Self { number: current, file, size, is_new: false });
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::at(&path)(error)),
        }
        Self::roll(work, current, &Ownership::of_file(&like))
    }

    /// Makes a new file, with owner, group and mode of the one before.
    fn roll(work: &MixChange<'_>, current: u32, ownership: &Ownership) -> Result<Self> {
        let mut number = current;
        for _ in 0..ROLL_TRIES_MAX {
            number = work.next_seq(number);
            let path = work.mailbox.data_path(number);
            match ownership.create(work.mailbox.vfs.as_ref(), &path) {
                Ok(file) => return Ok(Self { number, file, size: 0, is_new: true }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::at(&path)(error)),
            }
        }
        let what = "no free name for a new data file";
        Err(Error::Unsupported { path: work.mailbox.path.clone(), what })
    }

    /// Syncs content and name: the name of a journal may reach the disk before an older name.
    fn make_durable(&self, work: &mut MixChange<'_>) -> Result<()> {
        let mailbox = work.mailbox;
        self.file.sync_all().map_err(Error::at(&mailbox.data_path(self.number)))?;
        work.report.figures.barriers += 1;
        // An empty file may also have been made just now.
        if self.size == 0 {
            mailbox.vfs.sync_dir(&mailbox.path).map_err(Error::at(&mailbox.path))?;
            work.report.figures.barriers += 1;
        }
        Ok(())
    }

    /// Removes the bytes without a message; if this fails, they do no harm.
    fn give_up(&self, mailbox: &MixMailbox) {
        let _ = match self.is_new {
            true => mailbox.vfs.remove_file(&mailbox.data_path(self.number)),
            false => self.file.set_len(self.size),
        };
    }
}

/// Writes messages to the data file and lists them; returns the offset of their end.
fn write_all(
    work: &mut MixChange<'_>,
    messages: &[NewMessage<'_>],
    uids: &[Uid],
    target: &AppendFile,
    seq: u32,
) -> Result<u64> {
    let path = work.mailbox.data_path(target.number);
    let mut writer = DataFileWriter { path: &path, target, written: target.size, out: Vec::new() };
    let now = work.mailbox.vfs.now().unix_seconds();
    let now = InternalDate { unix_seconds: now, zone_minutes: 0 };
    let mut pos = target.size;
    for (new, uid) in messages.iter().zip(uids) {
        let date = write_date(new.internal_date.unwrap_or(now));
        let size = new.crlf_size()? as u32;
        let line = message_line(uid.get(), &date, size);
        let end = pos + line.len() as u64 + u64::from(size);
        if end > u64::from(u32::MAX) {
            let what = "the data file would be longer than 4 GiB";
            return Err(Error::Unsupported { path, what });
        }
        writer.out.extend_from_slice(&line);
        let header_len = writer.write(new)?;
        let message = MixMessage {
            uid: uid.get(),
            date,
            size,
            file: target.number,
            pos: pos as u32,
            line_len: line.len() as u32,
            header_len: header_len as u32,
            keywords: work.mask_of(&new.keywords),
            flags: bits_of(new.flags),
            modseq: seq,
        };
        work.now.meta.uid_last = uid.get();
        work.now.messages.push(message);
        work.report.appended.push(Some(*uid));
        pos = end;
    }
    writer.flush()?;
    Ok(pos)
}

/// Writes to a data file.
struct DataFileWriter<'a> {
    path: &'a Path,
    target: &'a AppendFile,
    /// Offset of `out`.
    written: u64,
    out: Vec<u8>,
}

impl DataFileWriter<'_> {
    /// Writes a message with CRLF; returns the length of its header.
    fn write(&mut self, message: &NewMessage<'_>) -> Result<u64> {
        let (mut pieces, mut header) = (CrlfPieces::default(), HeaderCounter::default());
        let mut push = |piece: &[u8]| {
            let from = self.out.len();
            pieces.push(piece, &mut self.out);
            header.push(&self.out[from..]);
            if self.out.len() >= WRITE_LEN { self.flush() } else { Ok(()) }
        };
        push(message.bytes)?;
        message.read_rest(&mut push)?;
        Ok(header.len)
    }

    fn flush(&mut self) -> Result<()> {
        let file = &self.target.file;
        file.write_all_at(&self.out, self.written).map_err(Error::at(self.path))?;
        self.written += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the length of a header that is read in pieces of up to `most` bytes.
    fn header_len(text: &[u8], most: usize) -> usize {
        let mut header = HeaderCounter::default();
        text.chunks(most).for_each(|piece| header.push(piece));
        header.len as usize
    }

    #[test]
    fn headers_end_where_c_client_sees_it() {
        for (text, expected) in [
            ("a: b\r\n\r\nc", 8),
            ("a: b\r\nc", 7),
            ("\r\n\r\nx", 4),
            ("a\r\r\n\r\nb\r\n\r\nc", 11),
            ("a\n\nb", 4),
        ] {
            for most in 1..9 {
                assert_eq!(header_len(text.as_bytes(), most), expected, "{text:?}");
            }
        }
    }

    #[test]
    fn headers_end_where_its_automaton_does() {
        let by_state = |text: &[u8]| {
            let mut state = 0;
            for (at, byte) in text.iter().enumerate() {
                state = match (state, byte) {
                    (0 | 2, b'\r') => state + 1,
                    (1, b'\n') => 2,
                    (3, b'\n') => return at + 1,
                    _ => 0,
                };
            }
            text.len()
        };
        let mut rng = fastrand::Rng::with_seed(4);
        for _ in 0..20_000 {
            let len = rng.usize(..16);
            let text: Vec<u8> = (0..len).map(|_| *rng.choice(b"\r\n\r\na").unwrap()).collect();
            let most = rng.usize(1..17);
            assert_eq!(
                header_len(&text, most),
                by_state(&text),
                "{:?}",
                String::from_utf8_lossy(&text)
            );
        }
    }
}

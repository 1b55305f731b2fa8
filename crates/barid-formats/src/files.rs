//! Shared code of formats with a file per message: reading the beginning of many small files, and
//! sharing such work among threads.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use barid_mailbox::{DefectKind, Error, MailboxDefect, NewMessage, OpenMessage, Result};
use barid_vfs::{Dir, File, FileType, Metadata, OpenOptions, Timestamp, Vfs, on_threads};

/// Number of bytes in the first read of a message; most messages are shorter.
const HEAD_LEN: usize = 16 << 10;
/// Header length in bytes at or above which only one header is in memory at a time.
pub(crate) const LONG_LEN: usize = 1 << 20;
/// Noted size of a message up to which it is believed before it is read, in bytes.
const NOTED_LEN_MAX: u64 = 1 << 20;
/// The longest header that is read, in bytes; the rest is left out, which is a defect.
pub(crate) const HEADER_LEN_MAX: usize = 16 << 20;

/// Appends a message of `size` bytes, which is a file of its own; returns the length of its header.
pub(crate) fn read_message(
    path: &Path,
    file: &dyn File,
    size: u64,
    buffer: &mut Vec<u8>,
) -> Result<usize> {
    Error::check_size(path, 0, size)?;
    let from = buffer.len();
    buffer.resize(from + size as usize, 0);
    let len = file.read_full_at(&mut buffer[from..], 0).map_err(Error::at(path))?;
    buffer.truncate(from + len);
    Ok(header_end(&buffer[from..]).map_or(len, |end| end.len))
}

/// Appends a message as [`read_message`] does if it has the size that was noted of it, as one read
/// shows; otherwise returns `None`, and appends nothing.
pub(crate) fn read_noted(
    path: &Path,
    file: &dyn File,
    noted: u64,
    buffer: &mut Vec<u8>,
) -> Result<Option<usize>> {
    if noted > NOTED_LEN_MAX {
        return Ok(None);
    }
    let (from, noted) = (buffer.len(), noted as usize);
    // A read that ends before the end of the buffer ends at the end of the file.
    buffer.resize(from + noted + 1, 0);
    let len = file.read_at(&mut buffer[from..], 0).map_err(Error::at(path))?;
    if len != noted {
        buffer.truncate(from);
        return Ok(None);
    }
    buffer.truncate(from + len);
    Ok(Some(header_end(&buffer[from..]).map_or(len, |end| end.len)))
}

/// Opens a message that is a file of its own.
pub(crate) fn open_message<'m>(path: PathBuf, file: Box<dyn File>, size: u64) -> OpenMessage<'m> {
    OpenMessage::new(0, size, move |buffer, offset| {
        match file.read_full_at(buffer, offset).map_err(Error::at(&path))? {
            len if len == buffer.len() => Ok(()),
            _ => Err(Error::MessageGone { path: path.clone(), offset: 0 }),
        }
    })
}

/// Writes a message to its new file, which is at `path`.
pub(crate) fn write_message_file(
    message: &NewMessage<'_>,
    file: &dyn File,
    path: &Path,
) -> Result<()> {
    file.write_all_at(message.bytes, 0).map_err(Error::at(path))?;
    let mut offset = message.bytes.len() as u64;
    message.read_rest(&mut |piece| {
        file.write_all_at(piece, offset).map_err(Error::at(path))?;
        offset += piece.len() as u64;
        Ok(())
    })
}

/// Gives the file of a message a second name; returns its metadata afterwards. Returns `None`, and
/// leaves no second name, if the file system does not allow it, or if the name does not belong to a
/// regular file: a symbolic link is not followed.
pub(crate) fn link(vfs: &dyn Vfs, path: &Path, to: &Path) -> Result<Option<Metadata>> {
    let gone = || Error::MessageGone { path: path.to_owned(), offset: 0 };
    match vfs.hard_link(path, to) {
        Ok(()) => linked_file(vfs, to),
        Err(error) => match error.kind() {
            ErrorKind::NotFound => Err(gone()),
            ErrorKind::CrossesDevices
            | ErrorKind::PermissionDenied
            | ErrorKind::TooManyLinks
            | ErrorKind::Unsupported => Ok(None),
            _ => Err(Error::at(to)(error)),
        },
    }
}

/// Returns the metadata of the regular file that was linked to `to`. Removes the link to anything
/// else, and one that cannot be looked at.
fn linked_file(vfs: &dyn Vfs, to: &Path) -> Result<Option<Metadata>> {
    let found = vfs.symlink_metadata(to);
    if let Ok(found) = &found
        && found.file_type == FileType::File
    {
        return Ok(Some(*found));
    }
    let removed = remove_link(vfs, to);
    found.and(removed).map_err(Error::at(to))?;
    Ok(None)
}

/// Removes a link that was just made. Nobody knows that there is one if this fails, so it is tried
/// twice.
pub(crate) fn remove_link(vfs: &dyn Vfs, path: &Path) -> io::Result<()> {
    vfs.remove_file(path).or_else(|error| vfs.remove_file(path).and(Err(error)))
}

/// End of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeaderEnd {
    /// Length of the header in bytes, the blank line included.
    pub(crate) len: usize,
    /// RFC822 bytes of the fields in it that mailbox formats own.
    pub(crate) owned_len: u64,
}

/// Finds the blank line, and before it the fields that mailbox formats own.
pub(crate) fn header_end(text: &[u8]) -> Option<HeaderEnd> {
    let (mut at, mut owned_len, mut owned) = (0, 0, false);
    loop {
        let line = &text[at..];
        let len = memchr::memchr(b'\n', line)? + 1;
        match line[0] {
            b'\n' => return Some(HeaderEnd { len: at + 1, owned_len }),
            b'\r' if len == 2 => return Some(HeaderEnd { len: at + 2, owned_len }),
            b' ' | b'\t' => {}
            b's' | b'S' | b'x' | b'X' => owned = is_owned(&line[..len]),
            _ => owned = false,
        }
        if owned {
            owned_len += barid_message::crlf_size(&line[..len]);
        }
        at += len;
    }
}

/// Returns the end of the header if its blank line starts at or after `from`.
pub(crate) fn blank_line(text: &[u8], from: usize) -> Option<usize> {
    memchr::memchr_iter(b'\n', &text[from..]).map(|at| from + at).find_map(|at| {
        match &text[at + 1..] {
            [b'\n', ..] => Some(at + 2),
            [b'\r', b'\n', ..] => Some(at + 3),
            _ => None,
        }
    })
}

/// Returns `true` if a line starts a field that mailbox formats own.
fn is_owned(line: &[u8]) -> bool {
    let Some(colon) = memchr::memchr(b':', &line[..line.len().min(16)]) else {
        return false;
    };
    barid_message::is_owned_field(line[..colon].trim_ascii_end())
}

/// Returns `true` if an error concerns this process rather than the file: too many open files, no
/// memory.
pub(crate) fn is_ours(error: &io::Error) -> bool {
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENOMEM | ENFILE | EMFILE))
}

/// Facts found in the beginning of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileStart {
    /// `fstat` of what was read.
    pub(crate) metadata: Metadata,
    /// Bytes of the header, the blank line included.
    pub(crate) header_len: usize,
    /// RFC822.SIZE, if the whole message was read.
    pub(crate) rfc822_size: Option<u64>,
    /// Bytes read.
    pub(crate) bytes_read: u64,
    /// The header is longer than [`HEADER_LEN_MAX`].
    pub(crate) is_cut: bool,
    in_long: bool,
}

/// Reads headers into its own buffers.
pub(crate) struct HeadReader {
    head: Vec<u8>,
    long: Vec<u8>,
    /// Kept after a long header until the next read.
    turn: Option<LongTurn>,
}

/// The right to have a long header in memory, which one thread has at a time.
pub(crate) type LongTurn = MutexGuard<'static, ()>;

/// Waits for the right to read more than [`LONG_LEN`] bytes of a header. The thread that has it
/// does not wait for another.
pub(crate) fn long_turn() -> LongTurn {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HeadReader {
    /// Makes a reader.
    pub(crate) fn new() -> Self {
        Self { head: vec![0; HEAD_LEN], long: Vec::new(), turn: None }
    }

    /// Reads the header of a file: `open`, `fstat`, `read`, `close`, and some more reads for a long
    /// header.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) fn read(&mut self, dir: &dyn Dir, name: &[u8]) -> io::Result<FileStart> {
        if self.turn.is_some() {
            self.long = Vec::new();
            self.turn = None;
        }
        let (metadata, len) = dir.read_head(name, &mut self.head)?;
        let is_whole = len as u64 == metadata.size;
        let found = header_end(&self.head[..len]);
        let mut head = FileStart {
            metadata,
            header_len: found.map_or(len, |found| found.len),
            rfc822_size: None,
            bytes_read: len as u64,
            is_cut: false,
            in_long: false,
        };
        if is_whole {
            let owned = found.map_or(0, |found| found.owned_len);
            head.rfc822_size =
                Some(barid_message::crlf_size(&self.head[..len]).saturating_sub(owned));
        } else if found.is_none() && len > 0 && metadata.size > len as u64 {
            self.read_long(dir, name, &mut head)?;
        }
        Ok(head)
    }

    /// Returns the header that was read last.
    pub(crate) fn header(&self, head: &FileStart) -> &[u8] {
        let bytes = if head.in_long { &self.long } else { &self.head };
        &bytes[..head.header_len]
    }

    fn read_long(&mut self, dir: &dyn Dir, name: &[u8], head: &mut FileStart) -> io::Result<()> {
        head.in_long = true;
        let file = dir.open(name, OpenOptions::READ)?;
        let whole = usize::try_from(head.metadata.size).unwrap_or(usize::MAX).min(HEADER_LEN_MAX);
        self.long = self.head[..head.header_len].to_vec();
        while self.long.len() < whole {
            let from = self.long.len();
            if from >= LONG_LEN && self.turn.is_none() {
                self.turn = Some(long_turn());
            }
            self.long.resize(whole.min(from * 2), 0);
            let more = file.read_full_at(&mut self.long[from..], from as u64)?;
            head.bytes_read += more as u64;
            self.long.truncate(from + more);
            // The blank line may straddle the reads.
            if let Some(end) = blank_line(&self.long, from.saturating_sub(3)) {
                head.header_len = end;
                return Ok(());
            }
            if more == 0 {
                break;
            }
        }
        head.header_len = self.long.len();
        head.is_cut = self.long.len() == HEADER_LEN_MAX;
        Ok(())
    }
}

/// Age of the last change, in nanoseconds, below which a file may still be being written.
const UNFINISHED_NANOS: u64 = 2_000_000_000;

/// Returns `true` if another program seems to be writing a message under its final name: the file
/// ends within its header, and its last change, a moment before `now`, was one of its content. A
/// program that writes elsewhere and renames or links the file changes its metadata last.
pub(crate) fn is_unfinished(header: &[u8], metadata: &Metadata, now: Timestamp) -> bool {
    let is_ended = [&b"\n\n"[..], b"\n\r\n"].iter().any(|end| header.ends_with(end))
        || [&b"\n"[..], b"\r\n"].contains(&header);
    !is_ended && metadata.size <= header.len() as u64 && is_changing(metadata, now)
}

/// Returns `true` if the last change of a file, a moment before `now`, was one of its content.
pub(crate) fn is_changing(metadata: &Metadata, now: Timestamp) -> bool {
    let age = now.unix_nanos.abs_diff(metadata.changed.unix_nanos);
    metadata.modified == metadata.changed && age < UNFINISHED_NANOS
}

/// Returns the defect of a mailbox with messages that are left out because they are being written.
pub(crate) fn arriving_defect(count: u64) -> Option<MailboxDefect> {
    let messages = match count {
        1 => "a message that seems to be still being written is",
        _ => "messages that seem to be still being written are",
    };
    let what = format!("{messages} not shown yet: {count}");
    let defect = MailboxDefect { kind: DefectKind::Arriving, offset: 0, uid: None, what };
    (count > 0).then_some(defect)
}

/// Returns the defect of a mailbox with messages that are left out because other programs renamed
/// or removed them and keep changing the folder, so that no listing shows which.
pub(crate) fn unsure_defect(count: u64) -> Option<MailboxDefect> {
    let messages = if count == 1 { "a message was" } else { "messages were" };
    let what = format!(
        "{messages} renamed or removed while others keep changing the folder, and left out for a \
         moment: {count}"
    );
    let defect = MailboxDefect { kind: DefectKind::Arriving, offset: 0, uid: None, what };
    (count > 0).then_some(defect)
}

/// Work on a chunk, given its number and range and the tool of the thread.
pub(crate) type ChunkWork<'a, T> = dyn Fn(&mut T, u32, Range<usize>) -> Result<()> + Sync + 'a;

/// Works on `count` items in chunks of `chunk_len`, from the given number of threads, including the
/// calling one. Every thread makes a tool of its own. Stops at the first error.
pub(crate) fn in_chunks<T>(
    count: usize,
    chunk_len: usize,
    threads: usize,
    make_tool: &(dyn Fn() -> T + Sync),
    work: &ChunkWork<'_, T>,
) -> Result<()> {
    let chunks = count.div_ceil(chunk_len);
    let (next, stop, failed) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
    let run = || {
        let mut tool = make_tool();
        while !stop.load(Ordering::Relaxed) {
            let chunk = next.fetch_add(1, Ordering::Relaxed);
            if chunk >= chunks {
                break;
            }
            let range = chunk * chunk_len..count.min((chunk + 1) * chunk_len);
            if let Err(error) = work(&mut tool, chunk as u32, range) {
                stop.store(true, Ordering::Relaxed);
                failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(error);
            }
        }
    };
    on_threads(threads.min(chunks), run);
    let failed: Option<Error> = failed.into_inner().unwrap_or_else(|poison| poison.into_inner());
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbolic_link_is_no_message() {
        let vfs = barid_vfs::MemVfs::new();
        let (secret, to) = (Path::new("/secret"), Path::new("/to"));
        vfs.open(secret, OpenOptions::create_new(0o600)).unwrap();
        vfs.symlink(secret, Path::new("/message")).unwrap();
        assert!(link(&vfs, Path::new("/message"), to).unwrap().is_none());
        // It replaced the message after the caller looked.
        vfs.hard_link(Path::new("/message"), to).unwrap();
        assert!(linked_file(&vfs, to).unwrap().is_none() && vfs.symlink_metadata(to).is_err());
        assert!(link(&vfs, secret, to).unwrap().is_some());
    }

    #[test]
    fn a_header_ends_with_its_blank_line() {
        let check = |text: &str, expected: Option<(usize, u64)>| {
            let found = header_end(text.as_bytes()).map(|end| (end.len, end.owned_len));
            assert_eq!(found, expected, "{text:?}");
        };
        check("a: b\n\nbody\n", Some((6, 0)));
        check("a: b\r\n\r\nbody\n", Some((8, 0)));
        check("\nbody", Some((1, 0)));
        check("\r\nbody", Some((2, 0)));
        check("a: b\n", None);
        check("", None);
        check("Status: RO\nx-uid : 1\n 2\nSubject: s\n\n", Some((36, 27)));
        check("x-status-not: 1\n\n", Some((17, 0)));
    }

    #[test]
    fn a_blank_line_may_straddle() {
        assert_eq!(blank_line(b"ab\n\nc", 2), Some(4));
        assert_eq!(blank_line(b"ab\r\n\r\nc", 1), Some(6));
        assert_eq!(blank_line(b"ab\nc\n", 0), None);
    }

    #[test]
    fn work_is_done_once() {
        let seen = Mutex::new(Vec::new());
        let work = |(): &mut (), chunk: u32, range: Range<usize>| {
            seen.lock().unwrap().push((chunk, range));
            Ok(())
        };
        in_chunks(7, 3, 2, &|| (), &work).unwrap();
        let mut seen = seen.into_inner().unwrap();
        seen.sort_by_key(|(chunk, _)| *chunk);
        assert_eq!(seen, [(0, 0..3), (1, 3..6), (2, 6..7)]);
    }
}

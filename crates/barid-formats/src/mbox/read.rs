//! Reading one message.

use std::io;
use std::ops::Range;

use barid_mailbox::{Error, Extent, Location, OpenMessage, ReadAs, Result};
use barid_vfs::{File, FileStamp, OpenOptions};

use super::change;
use super::lock::lock_for_reading;
use super::status::{self, Owned, Separators};
use super::walk::separator_in;
use super::window::{FileSource, WindowSource};
use super::{MboxMailbox, Variant};
use crate::spans::{Span, Spans, extent_of};

/// Appends the bytes of a message to `buffer` after checking that its separator is still in place.
/// Returns the length of its header among these bytes. Costs an open, an fstat, one read and a
/// close; in a compressed file, the cost of
/// [`SharedText::append_range`](super::compressed::SharedText::append_range).
///
/// `found` is the stamp of the file when the message was located. If the file has another one now,
/// the message is read again under the lock: a process may have been moving messages meanwhile.
pub(super) fn read(
    mailbox: &MboxMailbox,
    location: &Location<'_>,
    read_as: ReadAs,
    found: Option<&FileStamp>,
    buffer: &mut Vec<u8>,
) -> Result<usize> {
    let Extent { offset, separator_len, header_len, body_len } =
        extent_of(&mailbox.path, location)?;
    let at = || Error::at(&mailbox.path);
    let gone = || Error::MessageGone { path: mailbox.path.clone(), offset };
    let head_len = u64::from(separator_len) + u64::from(header_len);
    let len = head_len.checked_add(body_len).ok_or_else(gone)?;
    let end = offset.checked_add(len).ok_or_else(gone)?;
    Error::check_size(&mailbox.path, offset, len)?;
    let before = offset.saturating_sub(1);
    let start = buffer.len();
    let open = || mailbox.vfs.open(&mailbox.path, OpenOptions::READ).map_err(at());
    if let Some(text) = &mailbox.compressed {
        text.append_range((&mailbox.vfs, &*mailbox.path), before..end, buffer).map_err(at())?;
    } else if let Some(found) = found {
        let file = open()?;
        if !read_unchanged(&*file, found, before..end, buffer).map_err(at())? {
            buffer.truncate(start);
            read_locked(mailbox, &*file, before..end, gone, buffer)?;
            let head = (offset - before) as usize + separator_len as usize;
            if !has_header(&buffer[start..], head, header_len, true, mailbox.separators()) {
                buffer.truncate(start);
                return Err(gone());
            }
        }
    } else {
        let file = open()?;
        let size = file.metadata().map_err(at())?.size;
        if end > size {
            return Err(gone());
        }
        append_range(&mut FileSource { file: &*file, size }, before..end, buffer).map_err(at())?;
    }
    let lead = (offset - before) as usize;
    let found = &buffer[start..];
    let stands = found.len() as u64 == end - before
        && (mailbox.separators() == Separators::Mmdf || lead == 0 || matches!(found[0], b'\n' | 0))
        && is_separator(&found[lead..lead + separator_len as usize], mailbox.separators());
    if !stands {
        buffer.truncate(start);
        return Err(gone());
    }
    if read_as == ReadAs::Stored {
        buffer.drain(start..start + lead);
        return Ok(head_len as usize);
    }
    buffer.drain(start..start + lead + separator_len as usize);
    match read_as {
        ReadAs::Message => Ok(unquote(mailbox, buffer, start, header_len as usize)),
        _ => Ok(header_len as usize),
    }
}

/// Opens a message for reading in pieces after checking that its separator is still in place.
///
/// If the stamp of the file is not `found`, its stamp when the message was located, the file stays
/// locked while the message is open, so that nothing moves; and the header is read, which must
/// still have its length.
pub(super) fn open<'m>(
    mailbox: &'m MboxMailbox,
    location: &Location<'_>,
    found: &FileStamp,
) -> Result<OpenMessage<'m>> {
    let Extent { offset, separator_len, header_len, body_len } =
        extent_of(&mailbox.path, location)?;
    let at = || Error::at(&mailbox.path);
    let gone = move || Error::MessageGone { path: mailbox.path.clone(), offset };
    let head_len = u64::from(separator_len) + u64::from(header_len);
    let len = head_len.checked_add(body_len).ok_or_else(gone)?;
    let end = offset.checked_add(len).ok_or_else(gone)?;
    let file = mailbox.vfs.open(&mailbox.path, OpenOptions::READ).map_err(at())?;
    let mut stamp = FileStamp::from(&file.metadata().map_err(at())?);
    let is_changed = stamp != *found && mailbox.compressed.is_none();
    if is_changed {
        lock_for_reading(mailbox, &*file)?;
        stamp = FileStamp::from(&file.metadata().map_err(at())?);
        if end > stamp.size || change::unfinished(mailbox, None)?.is_some() {
            return Err(gone());
        }
    }
    let mut message = OpenMessage::new(separator_len.into(), len, move |buffer, from| {
        let read = match &mailbox.compressed {
            Some(text) => {
                let place = (&mailbox.vfs, &*mailbox.path);
                text.read_full_at(place, buffer, offset + from).map_err(at())?
            }
            None => file.read_full_at(buffer, offset + from).map_err(at())?,
        };
        // Checked after reading, so that a write during the read is noticed.
        let now = FileStamp::from(&mailbox.vfs.metadata(&mailbox.path).map_err(at())?);
        if read == buffer.len() && now == stamp { Ok(()) } else { Err(gone()) }
    });
    let separator_len = separator_len as usize;
    let start_len =
        if is_changed { len.min(head_len + AFTER_HEADER) as usize } else { separator_len };
    let mut start = vec![0; start_len];
    message.read_at(&mut start, 0)?;
    let is_whole = start.len() as u64 == len;
    let separators = mailbox.separators();
    let stands = is_separator(&start[..separator_len], separators)
        && (!is_changed || has_header(&start, separator_len, header_len, is_whole, separators));
    match stands {
        true => Ok(message),
        false => Err(gone()),
    }
}

/// Bytes after a header that show whether it ends there.
const AFTER_HEADER: u64 = 4096;

/// An open file of which many messages are read.
pub(super) struct MboxBatch<'m> {
    mailbox: &'m MboxMailbox,
    /// `None` if the mailbox is compressed.
    file: Option<Box<dyn File>>,
    read_as: ReadAs,
    found: &'m FileStamp,
}

impl<'m> MboxBatch<'m> {
    /// Opens the file; returns `None` if it cannot be opened.
    pub(super) fn open(
        mailbox: &'m MboxMailbox,
        read_as: ReadAs,
        found: &'m FileStamp,
    ) -> Option<Self> {
        let file = match &mailbox.compressed {
            Some(_) => None,
            None => Some(mailbox.vfs.open(&mailbox.path, OpenOptions::READ).ok()?),
        };
        Some(Self { mailbox, file, read_as, found })
    }
}

impl Spans for MboxBatch<'_> {
    const LEAD_LEN: u64 = 1;

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> bool {
        let Self { mailbox, file, .. } = self;
        if let Some(text) = &mailbox.compressed {
            let read = text.read_full_at((&mailbox.vfs, &*mailbox.path), buffer, offset);
            return read.is_ok_and(|len| len == buffer.len());
        }
        let Some(file) = file else { return false };
        let read = file.read_full_at(buffer, offset);
        // Checked after reading, so that a write during the read is noticed.
        let now = file.metadata().map(|now| FileStamp::from(&now));
        matches!((read, now), (Ok(len), Ok(now)) if len == buffer.len() && now == *self.found)
    }

    fn stands(&self, bytes: &[u8], at: usize, span: &Span) -> bool {
        let separators = self.mailbox.separators();
        let text = at + span.separator_len as usize;
        let follows = match at.checked_sub(1) {
            Some(before) => separators == Separators::Mmdf || matches!(bytes[before], b'\n' | 0),
            None => span.offset == 0,
        };
        follows
            && is_separator(&bytes[at..text], separators)
            && !(self.read_as == ReadAs::Message
                && is_quoted(self.mailbox, &bytes[text..text + span.len as usize]))
    }
}

/// Reads a range of a file; returns `false` if its stamp is no longer `found`.
fn read_unchanged(
    file: &dyn File,
    found: &FileStamp,
    range: Range<u64>,
    buffer: &mut Vec<u8>,
) -> io::Result<bool> {
    if range.end > found.size {
        return Ok(false);
    }
    append_range(&mut FileSource { file, size: found.size }, range, buffer)?;
    // Checked after reading, so that a write during the read is noticed.
    Ok(FileStamp::from(&file.metadata()?) == *found)
}

/// Reads a range under the read lock. Fails if a crash has left a change unfinished, since messages
/// may then be half moved.
fn read_locked(
    mailbox: &MboxMailbox,
    file: &dyn File,
    range: Range<u64>,
    gone: impl Fn() -> Error,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    let at = || Error::at(&mailbox.path);
    lock_for_reading(mailbox, file)?;
    let size = file.metadata().map_err(at())?.size;
    if range.end > size || change::unfinished(mailbox, None)?.is_some() {
        return Err(gone());
    }
    append_range(&mut FileSource { file, size }, range, buffer).map_err(at())
}

/// Returns `true` if the header at `start` still has `header_len` bytes. Fields that are not part
/// of the message key may have grown in it. `is_whole` means that the message ends with `bytes`.
fn has_header(
    bytes: &[u8],
    start: usize,
    header_len: u32,
    is_whole: bool,
    separators: Separators,
) -> bool {
    let Some(message) = bytes.get(start..) else { return false };
    let found = status::head(message, is_whole, separators, &mut Owned::default());
    header_len == 0 || found.is_some_and(|(len, _)| len == header_len as usize)
}

fn is_separator(bytes: &[u8], separators: Separators) -> bool {
    let found = separator_in(bytes, true, separators).flatten();
    found.is_some_and(|(len, _)| len as usize == bytes.len())
}

/// Appends a range of the file, or the part of it that exists.
fn append_range(
    source: &mut FileSource<'_>,
    range: Range<u64>,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    let start = buffer.len();
    buffer.resize(start + (range.end - range.start) as usize, 0);
    let read = source.read_full_at(&mut buffer[start..], range.start)?;
    buffer.truncate(start + read);
    Ok(())
}

/// Removes one `>` from every quoted line from `start` on if the variant is mboxrd, where quoting
/// is unambiguous. Returns the new length of the first `header_len` bytes.
pub(super) fn unquote(
    mailbox: &MboxMailbox,
    buffer: &mut Vec<u8>,
    start: usize,
    header_len: usize,
) -> usize {
    let mut unquoted_header_len = header_len;
    if mailbox.variant != Some(Variant::Mboxrd) {
        return unquoted_header_len;
    }
    let Some(first) = next_quoted(buffer, start, start) else { return unquoted_header_len };
    let (mut read, mut write) = (first, first);
    let mut quoted = Some(first);
    while let Some(at) = quoted {
        buffer.copy_within(read..at, write);
        write += at - read;
        read = at + 1;
        if at < start + header_len {
            unquoted_header_len -= 1;
        }
        quoted = next_quoted(buffer, start, read);
    }
    let len = buffer.len();
    buffer.copy_within(read..len, write);
    buffer.truncate(write + (len - read));
    unquoted_header_len
}

/// Returns `true` if [`unquote`] would change the text.
pub(super) fn is_quoted(mailbox: &MboxMailbox, text: &[u8]) -> bool {
    mailbox.variant == Some(Variant::Mboxrd) && next_quoted(text, 0, 0).is_some()
}

/// Returns the start of the next line at or after `from` that begins with `>`s and `From `.
fn next_quoted(buffer: &[u8], start: usize, from: usize) -> Option<usize> {
    let is_quoted = |at: usize| {
        let line = &buffer[at..];
        let marks = line.iter().take_while(|byte| **byte == b'>').count();
        marks > 0 && line[marks..].starts_with(b"From ")
    };
    if from == start && is_quoted(from) {
        return Some(from);
    }
    memchr::memmem::find_iter(&buffer[from..], b"\n>")
        .map(|at| from + at + 1)
        .find(|at| is_quoted(*at))
}

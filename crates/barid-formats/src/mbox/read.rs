//! Reading one message.

use std::ops::Range;

use barid_vfs::{File, OpenOptions};

use super::layout::MMDF_SEPARATOR;
use super::status::Separators;
use super::walk::separator_in;
use super::{MboxMailbox, Variant};
use crate::{Error, Location, ReadAs, Result};

/// Appends the bytes of a message to `buffer`; checks that its separator is still where it was.
pub(super) fn read(
    mailbox: &MboxMailbox,
    location: &Location<'_>,
    read_as: ReadAs,
    buffer: &mut Vec<u8>,
) -> Result<usize> {
    let Location::Span { offset, separator_len, header_len, body_len } = *location else {
        return Err(Error::Unsupported {
            path: mailbox.path.clone(),
            what: "the message is located in another format",
        });
    };
    let file =
        mailbox.vfs.open(&mailbox.path, OpenOptions::READ).map_err(Error::at(&mailbox.path))?;
    let gone = || Error::MessageGone { path: mailbox.path.clone(), offset };
    let len = u64::from(separator_len) + u64::from(header_len) + body_len;
    let size = file.metadata().map_err(Error::at(&mailbox.path))?.size;
    if offset.checked_add(len).is_none_or(|end| end > size) {
        return Err(gone());
    }
    let start = buffer.len();
    append_range(mailbox, &*file, offset..offset + len, buffer)?;
    let stored = &buffer[start..];
    let separator = stored.get(..separator_len as usize).unwrap_or_default();
    let is_separator = stored.len() as u64 == len && is_separator(separator, mailbox.separators());
    let starts_line = offset == 0 || follows_line_end(mailbox, &*file, offset)?;
    if !is_separator || !starts_line {
        buffer.truncate(start);
        return Err(gone());
    }
    if read_as == ReadAs::Stored {
        return Ok((separator_len + header_len) as usize);
    }
    buffer.drain(start..start + separator_len as usize);
    if mailbox.variant == Some(Variant::Mboxrd) {
        let header_len = unquote(buffer, start, header_len as usize);
        return Ok(header_len);
    }
    Ok(header_len as usize)
}

fn is_separator(bytes: &[u8], separators: Separators) -> bool {
    let found = separator_in(bytes, true, separators).flatten();
    found.is_some_and(|(len, _)| len as usize == bytes.len())
}

/// The separator of MMDF may stand behind text that has no line end.
fn follows_line_end(mailbox: &MboxMailbox, file: &dyn File, offset: u64) -> Result<bool> {
    let mut byte = [0];
    let read = file.read_full_at(&mut byte, offset - 1).map_err(Error::at(&mailbox.path))?;
    let mmdf = mailbox.separators() == Separators::Mmdf;
    Ok(read == 1 && (byte[0] == b'\n' || (mmdf && MMDF_SEPARATOR.len() == 5)))
}

fn append_range(
    mailbox: &MboxMailbox,
    file: &dyn File,
    range: Range<u64>,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    let start = buffer.len();
    buffer.resize(start + (range.end - range.start) as usize, 0);
    let read =
        file.read_full_at(&mut buffer[start..], range.start).map_err(Error::at(&mailbox.path))?;
    buffer.truncate(start + read);
    Ok(())
}

/// Takes one `>` from every line from `start` on that is quoted; returns how long the first
/// `header_len` of these bytes are now.
fn unquote(buffer: &mut Vec<u8>, start: usize, header_len: usize) -> usize {
    let mut unquoted_header_len = header_len;
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

/// The next line at or after `from` that starts with `>`s and `From `.
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

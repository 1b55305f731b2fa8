//! Reading one message.

use std::sync::Arc;

use barid_mailbox::{Error, Extent, Location, OpenMessage, ReadAs, Result};
use barid_vfs::File;

use super::MixMailbox;
use super::held::Entered;
use super::layout::MESSAGE_LINE_LEN_MAX;
use super::record::parse_message_line;
use crate::spans::{Span, Spans, extent_of};

/// Returns the location of a message: the number of its data file, and the offset in it.
pub(super) fn location(message: &super::record::MixMessage) -> Location<'static> {
    Location::from(Extent {
        offset: u64::from(message.file) << 32 | u64::from(message.pos),
        separator_len: message.line_len,
        header_len: message.header_len.min(message.size),
        body_len: u64::from(message.size.saturating_sub(message.header_len)),
    })
}

/// Appends the bytes of a message to `buffer`; checks that the line before it is there and has its
/// size. Costs one read, and an `fstat` or an open.
pub(super) fn read(
    mailbox: &MixMailbox,
    location: &Location<'_>,
    read_as: ReadAs,
    buffer: &mut Vec<u8>,
) -> Result<usize> {
    let Extent { offset, separator_len, header_len, body_len } =
        extent_of(&mailbox.path, location)?;
    let path = mailbox.data_path((offset >> 32) as u32);
    let pos = offset & u64::from(u32::MAX);
    let gone = || Error::MessageGone { path: path.clone(), offset: pos };
    let size = u64::from(header_len).checked_add(body_len).ok_or_else(gone)?;
    let is_possible = separator_len as usize <= MESSAGE_LINE_LEN_MAX && size <= u32::MAX.into();
    if !is_possible {
        return Err(gone());
    }
    Error::check_size(&path, pos, size)?;
    let file = data_file(mailbox, offset)?;
    let start = buffer.len();
    let len = (u64::from(separator_len) + size) as usize;
    if len > SURE_LEN && file.metadata().map_err(Error::at(&path))?.size < pos + len as u64 {
        return Err(gone());
    }
    buffer.resize(start + len, 0);
    let found = file.read_full_at(&mut buffer[start..], pos).map_err(Error::at(&path));
    let line = parse_message_line(&buffer[start..(start + len).min(start + MESSAGE_LINE_LEN_MAX)]);
    let stands = |found: usize| {
        let says = |line: super::record::MessageLine| {
            line.len == separator_len && u64::from(line.size) == size
        };
        found == len && line.is_some_and(says)
    };
    match found {
        Ok(found) if stands(found) => {}
        Ok(_) => {
            buffer.truncate(start);
            return Err(gone());
        }
        Err(error) => {
            buffer.truncate(start);
            return Err(error);
        }
    }
    if read_as == ReadAs::Stored {
        return Ok((separator_len + header_len) as usize);
    }
    buffer.drain(start..start + separator_len as usize);
    Ok(header_len as usize)
}

/// Opens the data file of an offset.
fn data_file(mailbox: &MixMailbox, offset: u64) -> Result<Arc<dyn File>> {
    let number = (offset >> 32) as u32;
    mailbox.held.data(mailbox, number).map_err(|error| match error {
        Error::Io { source, path } if source.kind() == std::io::ErrorKind::NotFound => {
            Error::MessageGone { path, offset: offset & u64::from(u32::MAX) }
        }
        error => error,
    })
}

/// Opens a message for reading piece by piece; checks that the line before it is there and has its
/// size. Nobody moves messages as long as it is open.
pub(super) fn open<'m>(
    mailbox: &'m MixMailbox,
    location: &Location<'_>,
) -> Result<OpenMessage<'m>> {
    let Extent { offset, separator_len, header_len, body_len } =
        extent_of(&mailbox.path, location)?;
    let path = mailbox.data_path((offset >> 32) as u32);
    let pos = offset & u64::from(u32::MAX);
    let gone = move || Error::MessageGone { path: path.clone(), offset: pos };
    let entered = mailbox.held.enter(mailbox)?;
    let size = u64::from(header_len).checked_add(body_len).ok_or_else(&gone)?;
    if mailbox.is_half_moved()? || separator_len as usize > MESSAGE_LINE_LEN_MAX {
        return Err(gone());
    }
    let file = data_file(mailbox, offset)?;
    let mut line = vec![0; separator_len as usize];
    let at = move |source| Error::at(&mailbox.data_path((offset >> 32) as u32))(source);
    let read = file.read_full_at(&mut line, pos).map_err(at)?;
    let is_it = parse_message_line(&line[..read])
        .is_some_and(|line| line.len == separator_len && u64::from(line.size) == size);
    if !is_it {
        return Err(gone());
    }
    let len = u64::from(separator_len) + size;
    Ok(OpenMessage::new(separator_len.into(), len, move |buffer, from| {
        let _entered = &entered;
        let read = file.read_full_at(buffer, pos + from).map_err(at)?;
        if read == buffer.len() { Ok(()) } else { Err(gone()) }
    }))
}

/// Message length in bytes up to which memory is allocated without a look at the file.
const SURE_LEN: usize = 1 << 20;

/// Reads as [`read`] does while nobody moves messages: that takes an exclusive lock of `.mixmeta`.
pub(super) fn read_unmoved(
    mailbox: &MixMailbox,
    location: &Location<'_>,
    read_as: ReadAs,
    buffer: &mut Vec<u8>,
) -> Result<usize> {
    let _entered = mailbox.held.enter(mailbox)?;
    if mailbox.is_half_moved()? {
        let path = mailbox.path.clone();
        return Err(Error::MessageGone { path, offset: 0 });
    }
    read(mailbox, location, read_as, buffer)
}

/// Data files from which many messages are read.
pub(super) struct ReadDataFiles<'m> {
    mailbox: &'m MixMailbox,
    _entered: Entered<'m>,
}

impl<'m> ReadDataFiles<'m> {
    /// Keeps others from moving messages; `None` if messages are half moved, or are being moved.
    pub(super) fn enter(mailbox: &'m MixMailbox) -> Option<Self> {
        let entered = mailbox.held.enter(mailbox).ok()?;
        let is_sure = matches!(entered, Entered::Together(_)) && !mailbox.is_half_moved().ok()?;
        is_sure.then_some(Self { mailbox, _entered: entered })
    }
}

impl Spans for ReadDataFiles<'_> {
    const LEAD_LEN: u64 = 0;

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> bool {
        let file = self.mailbox.held.data(self.mailbox, (offset >> 32) as u32);
        let read = file.map(|file| file.read_full_at(buffer, offset & u64::from(u32::MAX)));
        matches!(read, Ok(Ok(len)) if len == buffer.len())
    }

    fn stands(&self, bytes: &[u8], at: usize, span: &Span) -> bool {
        let text = at + span.separator_len as usize;
        let end = bytes.len().min(at + MESSAGE_LINE_LEN_MAX);
        parse_message_line(&bytes[at..end])
            .is_some_and(|line| at + line.len as usize == text && u64::from(line.size) == span.len)
    }
}

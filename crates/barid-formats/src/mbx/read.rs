//! Reading of messages.

use barid_mailbox::{Error, Extent, Location, OpenMessage, ReadAs, Result};
use barid_vfs::{File, FileStamp, OpenOptions};

use super::MbxMailbox;
use super::journal::is_half_moved;
use super::layout::{LINE_LEN_MAX, MbxRecord};
use super::lock::lock_shared;
use crate::spans::{Span, Spans, extent_of};

/// Appends the bytes of a message to `buffer`, after checking that its line is still at its place.
/// Costs an open, two reads and a close.
///
/// If `found`, the stamp of the file when the message was found, is given and still current, no
/// lock is taken; otherwise the session lock is, so that nothing moves meanwhile.
pub(super) fn read(
    mailbox: &MbxMailbox,
    location: &Location<'_>,
    read_as: ReadAs,
    found: Option<&FileStamp>,
    buffer: &mut Vec<u8>,
) -> Result<usize> {
    let Extent { offset, separator_len, header_len, body_len } =
        extent_of(&mailbox.path, location)?;
    let at = || Error::at(&mailbox.path);
    let gone = || Error::MessageGone { path: mailbox.path.clone(), offset };
    if separator_len as usize > LINE_LEN_MAX {
        return Err(gone());
    }
    let file = mailbox.vfs.open(&mailbox.path, OpenOptions::READ).map_err(at())?;
    let place = MessagePlace {
        offset,
        line_len: separator_len as usize,
        len: u64::from(header_len).checked_add(body_len).ok_or_else(gone)?,
    };
    Error::check_size(&mailbox.path, offset, place.len)?;
    let start = buffer.len();
    let mut is_read = false;
    if let Some(found) = found {
        is_read = place.append_to(&*file, buffer).map_err(at())?;
        // The stamp is compared after the read, so that it covers everything that was read.
        let now = file.metadata().map_err(at())?;
        is_read &= FileStamp::from(&now) == *found;
    }
    if !is_read {
        buffer.truncate(start);
        lock_shared(mailbox, &*file)?;
        if is_half_moved(mailbox)? || !place.append_to(&*file, buffer).map_err(at())? {
            buffer.truncate(start);
            return Err(gone());
        }
    }
    match read_as {
        ReadAs::Stored => Ok(place.line_len + header_len as usize),
        ReadAs::Message | ReadAs::Quoted => {
            buffer.drain(start..start + place.line_len);
            Ok(header_len as usize)
        }
    }
}

/// Opens a message for reading in pieces, after checking that its line is still at its place.
///
/// If the file has changed since `found`, the stamp when the message was found, the session lock is
/// kept while the message is open, so that nothing moves meanwhile.
pub(super) fn open<'m>(
    mailbox: &'m MbxMailbox,
    location: &Location<'_>,
    found: &FileStamp,
) -> Result<OpenMessage<'m>> {
    let Extent { offset, separator_len, header_len, body_len } =
        extent_of(&mailbox.path, location)?;
    let at = || Error::at(&mailbox.path);
    let gone = move || Error::MessageGone { path: mailbox.path.clone(), offset };
    let line_len = separator_len as usize;
    let len = u64::from(header_len).checked_add(body_len).ok_or_else(gone)?;
    if line_len > LINE_LEN_MAX || offset.checked_add(len).is_none() {
        return Err(gone());
    }
    let file = mailbox.vfs.open(&mailbox.path, OpenOptions::READ).map_err(at())?;
    let mut stamp = FileStamp::from(&file.metadata().map_err(at())?);
    let is_locked = stamp != *found;
    if is_locked {
        lock_shared(mailbox, &*file)?;
        stamp = FileStamp::from(&file.metadata().map_err(at())?);
        if is_half_moved(mailbox)? {
            return Err(gone());
        }
    }
    let mut line = vec![0; line_len];
    let read = file.read_full_at(&mut line, offset).map_err(at())?;
    let is_it = MbxRecord::parse(&line[..read], offset)
        .is_ok_and(|line| usize::from(line.line_len) == line_len && line.size == len);
    if !is_it {
        return Err(gone());
    }
    let len = u64::from(separator_len) + len;
    Ok(OpenMessage::new(separator_len.into(), len, move |buffer, from| {
        let read = file.read_full_at(buffer, offset + from).map_err(at())?;
        // Compared after the read, which it must cover. Under the lock, flags may still change.
        let now = FileStamp::from(&file.metadata().map_err(at())?);
        let is_same = is_locked || now == stamp;
        if read == buffer.len() && is_same { Ok(()) } else { Err(gone()) }
    }))
}

/// The expected place of a message.
struct MessagePlace {
    offset: u64,
    line_len: usize,
    /// Length of the message in bytes; 0 if only its line is wanted.
    len: u64,
}

impl MessagePlace {
    /// Appends line and message. Returns `false` if they are not there. An invalid location
    /// allocates no more than the file can hold.
    fn append_to(&self, file: &dyn File, buffer: &mut Vec<u8>) -> std::io::Result<bool> {
        let start = buffer.len();
        buffer.resize(start + self.line_len, 0);
        let line_len = file.read_full_at(&mut buffer[start..], self.offset)?;
        let line = MbxRecord::parse(&buffer[start..start + line_len], self.offset);
        let is_it = line.is_ok_and(|line| {
            usize::from(line.line_len) == self.line_len && (self.len == 0 || line.size == self.len)
        });
        let text = self.offset.saturating_add(self.line_len as u64);
        if !is_it || text.saturating_add(self.len) > file.metadata()?.size {
            return Ok(false);
        }
        buffer.resize(start + self.line_len + self.len as usize, 0);
        let read = file.read_full_at(&mut buffer[start + self.line_len..], text)?;
        Ok(read as u64 == self.len)
    }
}

/// A file from which many messages are read.
pub(super) struct MbxBatch<'m> {
    file: Box<dyn File>,
    found: &'m FileStamp,
}

impl<'m> MbxBatch<'m> {
    /// Opens the file. Returns `None` if it cannot be read.
    pub(super) fn open(mailbox: &MbxMailbox, found: &'m FileStamp) -> Option<Self> {
        let file = mailbox.vfs.open(&mailbox.path, OpenOptions::READ).ok()?;
        Some(Self { file, found })
    }
}

impl Spans for MbxBatch<'_> {
    const LEAD_LEN: u64 = 0;

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> bool {
        let read = self.file.read_full_at(buffer, offset);
        // Compared after the read, which it must cover.
        let now = self.file.metadata().map(|now| FileStamp::from(&now));
        matches!((read, now), (Ok(len), Ok(now)) if len == buffer.len() && now == *self.found)
    }

    fn stands(&self, bytes: &[u8], at: usize, span: &Span) -> bool {
        let line_len = span.separator_len as usize;
        let line = MbxRecord::parse(&bytes[at..at + line_len], span.offset);
        line.is_ok_and(|line| usize::from(line.line_len) == line_len && line.size == span.len)
    }
}

//! Appending messages.
//!
//! What is written can be read by all three programs of `from_line.rs`: a From_ line of the form
//! that all accept, and the owned fields at the end of the header as c-client writes them. A
//! message loses the owned fields that it came with, as at Dovecot, and its `Content-Length`.
//!
//! **Order of writing.** All locks held: (1) a missing line end, the blank line of a separator, the
//! first From_ line and, where the messages get UIDs (`number.rs`), the raised last UID of
//! `X-IMAPbase`; `fdatasync`; (2) everything else, `fsync`, which is the commit point. A crash
//! before (1) leaves the old file; during (1), the old file with NULs or a piece of a From_ line at
//! its end; during (2), all old messages and behind them what came of the new ones. NULs at the end
//! count to no message, and the next append cuts them off. An error cuts the file back to its old
//! size, unless another has written behind it meanwhile.
//!
//! **Line ends.** Where the first line of the file ends with CRLF, so does all that is written, the
//! lines of messages that came with LF included. In any other file a message keeps its line ends.
//!
//! **UIDs.** A crash or an error after the last UID was raised wastes the UIDs up to it and no
//! more: nobody was told of them, and none is given out again, since no `X-UID` is on the disk
//! before the last UID that covers it.

mod compose;
mod number;

use std::io;

use barid_types::{InternalDate, Uid};
use barid_vfs::File;

pub use self::compose::write_message;
use self::compose::{Form, Numbered, write_numbered};
use self::number::Numbers;
pub(super) use self::number::{Believed, FirstBase, listed_keywords, unlisted_keywords};
use super::layout::{MMDF_SEPARATOR, NULS_MAX, WRITE_LEN};
#[cfg(test)]
use super::lock::Purpose;
use super::lock::WriteLocks;
use super::{MboxMailbox, Variant};
#[cfg(test)]
use crate::Known;
use crate::{Error, NewMessage, Result};

/// Bytes at the end of a file that tell what is missing there.
const TAIL_LEN: u64 = 8;
/// What is read to find out how lines end: a From_ line.
const FIRST_LINE_LEN: u64 = 512;
/// What an append did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Appended {
    /// The UIDs of the messages, durable in the mailbox; `None` where a scan is to give them.
    pub(super) uids: Vec<Option<Uid>>,
    /// Bytes by which the file grew, and those changed in it.
    pub(super) bytes: u64,
    /// The size of the file then.
    pub(super) size: u64,
    /// How often was waited for the disk.
    pub(super) barriers: u64,
}

/// Takes the locks and appends messages.
#[cfg(test)]
pub(super) fn append(
    mailbox: &MboxMailbox,
    messages: &[NewMessage<'_>],
    known: &dyn Known,
) -> Result<Appended> {
    if messages.is_empty() {
        return Ok(Appended::default());
    }
    let locks = WriteLocks::acquire(mailbox, Purpose::Append)?;
    let believed = Believed::of(mailbox, &locks, known)?;
    append_locked(mailbox, &locks, messages, Base::of(believed.as_ref(), None))
}

/// What UIDs of messages to be appended are founded on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base<'a> {
    /// On what is believed of the mailbox.
    Believed(&'a Believed),
    /// On nothing, since it is empty.
    First(&'a FirstBase),
    /// The next scan is to give UIDs.
    None,
}

impl<'a> Base<'a> {
    pub(super) fn of(believed: Option<&'a Believed>, first: Option<&'a FirstBase>) -> Self {
        match (first, believed) {
            (Some(first), _) => Self::First(first),
            (None, Some(believed)) => Self::Believed(believed),
            (None, None) => Self::None,
        }
    }
}

/// Appends messages to the file whose locks are held; the module's text says in which order. They
/// get UIDs if what is believed of the file is true and allows it, or if it is empty and `base`
/// tells of that. Costs two barriers.
///
/// # Errors
/// [`Error::Io`]; the file is then as it was, but that UIDs may be wasted.
pub(super) fn append_locked(
    mailbox: &MboxMailbox,
    locks: &WriteLocks,
    messages: &[NewMessage<'_>],
    base: Base<'_>,
) -> Result<Appended> {
    if messages.is_empty() {
        return Ok(Appended::default());
    }
    let at = || Error::at(&mailbox.path);
    let size = locks.file().metadata().map_err(at())?.size;
    let end = End::find(locks.file(), size).map_err(at())?;
    let numbers = match base {
        Base::Believed(believed) => Numbers::plan(mailbox, locks, believed, messages)?,
        Base::First(first) => Numbers::first(first, messages),
        Base::None => None,
    };
    let mut writer = Writer { mailbox, locks, offset: end.size, numbers, out: Vec::new() };
    match writer.write(&end, messages) {
        Ok(()) => {
            let uid = |index| writer.numbers.as_ref().and_then(|numbers| numbers.uid(index));
            let uids = (0..messages.len()).map(uid).collect();
            let (bytes, size) = (writer.offset - end.size, writer.offset);
            Ok(Appended { uids, bytes, size, barriers: 2 })
        }
        Err(error) => {
            // The error is what matters; what cannot be cut back now is for the next append.
            let now = locks.file().metadata().map_or(u64::MAX, |metadata| metadata.size);
            if now <= writer.offset + writer.out.len() as u64 {
                let _ = locks.file().set_len(size);
            }
            Err(error)
        }
    }
}

/// The size of a file without the NULs that an interrupted append left behind its last line end, or
/// instead of everything. Costs one read of one byte where there are none.
pub(super) fn size_without_nuls(file: &dyn File, size: u64) -> io::Result<u64> {
    let mut end = size;
    let mut len = 1;
    while end > 0 {
        let start = end.saturating_sub(len as u64);
        let mut bytes = vec![0; (end - start) as usize];
        file.read_exact_at(&mut bytes, start)?;
        let nuls = bytes.iter().rev().take_while(|byte| **byte == 0).count();
        end -= nuls as u64;
        match bytes.len().checked_sub(nuls + 1) {
            Some(last) if bytes[last] == b'\n' => return Ok(end),
            Some(_) => return Ok(size),
            None => len = NULS_MAX,
        }
    }
    Ok(0)
}

/// The end of a file before an append.
struct End {
    /// Where its last byte that counts is.
    size: u64,
    /// The bytes that stand there.
    tail: Vec<u8>,
    /// The first line of the file ends with CRLF.
    is_crlf: bool,
}

impl End {
    fn find(file: &dyn File, size: u64) -> io::Result<Self> {
        let size = size_without_nuls(file, size)?;
        let mut tail = vec![0; size.min(TAIL_LEN) as usize];
        let start = size - tail.len() as u64;
        file.read_exact_at(&mut tail, start)?;
        let mut first = vec![0; size.min(FIRST_LINE_LEN) as usize];
        file.read_exact_at(&mut first, 0)?;
        let line = memchr::memchr(b'\n', &first).map_or(&first[..0], |end| &first[..end]);
        Ok(Self { size, tail, is_crlf: line.ends_with(b"\r") })
    }

    /// What must stand before the next separator.
    fn missing(&self, variant: Variant) -> &'static [u8] {
        if self.tail.is_empty() {
            return b"";
        }
        let ends = |with: &[u8]| self.tail.ends_with(with);
        if variant == Variant::Mmdf {
            return match () {
                () if ends(MMDF_SEPARATOR) => b"",
                () if ends(b"\n") => MMDF_SEPARATOR,
                () => b"\n\x01\x01\x01\x01\n",
            };
        }
        match () {
            () if ends(b"\n\n") || ends(b"\n\r\n") || self.tail == b"\n" => b"",
            () if ends(b"\n") && self.is_crlf => b"\r\n",
            () if self.is_crlf => b"\r\n\r\n",
            () if ends(b"\n") => b"\n",
            () => b"\n\n",
        }
    }
}

/// Writes messages behind the end of a file.
struct Writer<'a> {
    mailbox: &'a MboxMailbox,
    locks: &'a WriteLocks,
    /// Where `out` belongs.
    offset: u64,
    numbers: Option<Numbers>,
    out: Vec<u8>,
}

impl Writer<'_> {
    fn write(&mut self, end: &End, messages: &[NewMessage<'_>]) -> Result<()> {
        let at = || Error::at(&self.mailbox.path);
        let (mailbox, file) = (self.mailbox, self.locks.file());
        let variant = mailbox.variant.unwrap_or(Variant::Mboxo);
        let now = InternalDate { unix_seconds: mailbox.vfs.now().unix_seconds(), zone_minutes: 0 };
        if end.size < file.metadata().map_err(at())?.size {
            file.set_len(end.size).map_err(at())?;
        }
        self.out.extend_from_slice(end.missing(variant));
        let form = Form { variant, is_crlf: end.is_crlf, zone: mailbox.zone() };
        for (index, message) in messages.iter().enumerate() {
            let date = message.internal_date.unwrap_or(now);
            let start = self.out.len();
            let numbers = self.numbers.as_ref();
            let base = numbers.and_then(Numbers::base).filter(|_| index == 0);
            let uid = numbers.and_then(|numbers| numbers.uid(index));
            write_numbered(&form, message, Numbered { uid, base }, date, &mut self.out);
            if index == 0 {
                self.begin(variant, start).map_err(at())?;
            }
            if self.out.len() >= WRITE_LEN || index + 1 == messages.len() {
                file.write_all_at(&self.out, self.offset).map_err(at())?;
                self.offset += self.out.len() as u64;
                self.out.clear();
            }
            self.locks.touch()?;
        }
        file.sync_all().map_err(at())
    }

    /// Step (1): what ends the file up to the From_ line of the first message, which starts at
    /// `start` of what is to be written, with an `X-IMAPbase` behind it; and the raised last UID.
    fn begin(&mut self, variant: Variant, start: usize) -> io::Result<()> {
        let file = self.locks.file();
        let skip = if variant == Variant::Mmdf { MMDF_SEPARATOR.len() } else { 0 };
        let line = memchr::memchr(b'\n', &self.out[start + skip..]).map_or(0, |at| at + 1);
        let base = self.numbers.as_ref().and_then(Numbers::base).map_or(0, str::len);
        let first = start + skip + line + base;
        if let Some(numbers) = &self.numbers {
            numbers.raise(file)?;
        }
        file.write_all_at(&self.out[..first], self.offset)?;
        file.sync_data()?;
        self.offset += first as u64;
        self.out.drain(..first);
        Ok(())
    }
}

//! Appending messages.
//!
//! **Order of writing**, with all locks held:
//!
//! 1. The last UID in the header of the file, and all new bytes except the first line, in whose
//!    place zeros are written; `fdatasync`.
//! 2. The first line; `fsync`. This is the commit point.
//!
//! A crash before the commit point leaves bytes after the end that are not a message; the next
//! change cuts them off (`repair.rs`). UIDs that were reserved but not used are lost.
//!
//! Lines are byte for byte those of c-client. As in c-client, an append keeps the modification
//! time, by which other programs distinguish flag changes from new mail, and sets the access time
//! to one second ago, by which they detect new mail.

use barid_mailbox::{Error, NewMessage, Result, SyncFigures};
use barid_message::CrlfPieces;
use barid_types::{InternalDate, Uid};
use barid_vfs::{File, Timestamp};

use super::layout::{MbxHeader, UID_LAST_OFFSET, WRITE_LEN, bits_of};
use super::lock::MbxWriteLocks;
use super::plan::bits_of_keywords;
use super::{MbxMailbox, date};
use crate::given::{GivenUids, given_uids};

/// Rejects messages that cannot be appended.
pub(super) fn check(mailbox: &MbxMailbox, messages: &[NewMessage<'_>]) -> Result<()> {
    match messages.iter().any(|message| text_of(message).is_empty()) {
        true => {
            let what = "an empty message cannot be stored in an mbx";
            Err(Error::Unsupported { path: mailbox.path.clone(), what })
        }
        false => Ok(()),
    }
}

/// Returns the number of bytes that the messages take in the file.
///
/// # Errors
/// Errors of reading large messages.
pub(super) fn len_of(messages: &[NewMessage<'_>]) -> Result<u64> {
    let len = |message: &NewMessage<'_>| {
        let size = message.crlf_size_from(text_of(message))?;
        Ok(line(message, size, 0, 0, InternalDate::default()).len() as u64 + size)
    };
    messages.iter().map(len).sum()
}

/// Returns the bytes of a message that are in memory, without the rest of a large one.
fn text_of<'a>(message: &NewMessage<'a>) -> &'a [u8] {
    let stored = message.stored.and_then(|stored| stored.bytes.get(stored.separator_len..));
    stored.unwrap_or(message.bytes)
}

/// Returns the line before a message.
fn line(message: &NewMessage<'_>, size: u64, keywords: u32, uid: u32, now: InternalDate) -> String {
    let (date, day) = match message.internal_date {
        Some(date) => (date, date::Day::Spaced),
        None => (now, date::Day::Zeroed),
    };
    let date = date::format(date, day);
    format!("{date},{size};{keywords:08x}{:04x}-{uid:08x}\r\n", bits_of(message.flags))
}

/// Appends messages at `end`, which is the end of the file, with UIDs above `uid_last`, and returns
/// their UIDs. Costs two barriers.
///
/// # Errors
/// The file is unchanged; some UIDs may have been used up.
pub(super) fn append(
    mailbox: &MbxMailbox,
    locks: &MbxWriteLocks,
    header: &MbxHeader,
    (end, uid_last): (u64, u32),
    messages: &[NewMessage<'_>],
    figures: &mut SyncFigures,
) -> Result<Vec<Uid>> {
    let given = uid_last.checked_add(1).and_then(|next| given_uids(next, messages));
    let Some(given) = given else {
        let what = "no UIDs are left";
        return Err(Error::Unsupported { path: mailbox.path.clone(), what });
    };
    let mut writer = MbxWriter { mailbox, file: &*locks.file, offset: end, out: Vec::new() };
    let now = InternalDate { unix_seconds: mailbox.vfs.now().unix_seconds(), zone_minutes: 0 };
    match writer.write(header, &given, messages, now) {
        Ok(()) => {}
        Err(error) => {
            // The first error matters; bytes that cannot be cut off now are left to the next
            // change.
            let _ = locks.file.set_len(end).and_then(|()| locks.file.sync_all());
            return Err(error);
        }
    }
    figures.barriers += 2;
    figures.bytes_appended = writer.offset - end;
    figures.size_after = writer.offset;
    Ok(given.uids)
}

/// Keeps the modification time. A failure only makes other programs read all flags again.
pub(super) fn keep_times(mailbox: &MbxMailbox, locks: &MbxWriteLocks, modified: Timestamp) {
    const SECOND: i64 = 1_000_000_000;
    let accessed = Timestamp { unix_nanos: mailbox.vfs.now().unix_nanos.saturating_sub(SECOND) };
    let _ = locks.file.set_times(accessed, modified);
}

/// A writer after the end of a file.
struct MbxWriter<'a> {
    mailbox: &'a MbxMailbox,
    file: &'a dyn File,
    /// Offset in the file at which `out` belongs.
    offset: u64,
    out: Vec<u8>,
}

impl MbxWriter<'_> {
    fn write(
        &mut self,
        header: &MbxHeader,
        given: &GivenUids,
        messages: &[NewMessage<'_>],
        now: InternalDate,
    ) -> Result<()> {
        let first_offset = self.offset;
        let mut first = String::new();
        for (message, uid) in messages.iter().zip(&given.uids) {
            let keywords = bits_of_keywords(header, &message.keywords);
            let size = message.crlf_size_from(text_of(message))?;
            let line = line(message, size, keywords, uid.get(), now);
            match first.is_empty() {
                true => {
                    self.offset += line.len() as u64;
                    first = line;
                }
                false => self.out.extend_from_slice(line.as_bytes()),
            }
            let mut pieces = CrlfPieces::default();
            pieces.push(text_of(message), &mut self.out);
            self.flush_if_full()?;
            message.read_rest(&mut |piece| {
                pieces.push(piece, &mut self.out);
                self.flush_if_full()
            })?;
        }
        self.flush()?;
        let uid_last = given.last;
        let commit = || {
            self.file.write_all_at(format!("{uid_last:08x}").as_bytes(), UID_LAST_OFFSET)?;
            self.file.sync_data()?;
            self.file.write_all_at(first.as_bytes(), first_offset)?;
            self.file.sync_all()
        };
        commit().map_err(Error::at(&self.mailbox.path))
    }

    fn flush_if_full(&mut self) -> Result<()> {
        if self.out.len() >= WRITE_LEN { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let written = self.file.write_all_at(&self.out, self.offset);
        written.map_err(Error::at(&self.mailbox.path))?;
        self.offset += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }
}

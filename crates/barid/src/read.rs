//! The bytes of a message.

use std::borrow::Cow;

use barid_cache::{Core, Place};
use barid_formats::{Error as FormatError, Location, ReadAs, ReadMessage};
use barid_state::MessageKey;
use barid_types::Uid;

use crate::limits::READ_ROOM_KEPT_LEN;
use crate::{Error, Mailbox, Result};

/// The bytes of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawMessage {
    /// From_ line if asked for, header, blank line, body.
    pub bytes: Vec<u8>,
    /// Number of bytes before the body.
    pub header_len: usize,
}

/// Buffers into which many messages are read, one after another.
#[derive(Debug, Default)]
pub(crate) struct ReadRoom {
    names: Vec<Vec<u8>>,
    bytes: Vec<u8>,
}

/// Number of attempts to read a message that has moved.
const ATTEMPTS_MAX: u32 = 5;

impl Mailbox {
    /// Reads a message.
    ///
    /// If the message has moved, or another one is in its place, the mailbox is scanned again and
    /// the message is located by its UID; rows are then renumbered.
    ///
    /// # Errors
    /// [`Error::NoSuchMessage`] if it is gone; [`Error::Renumbered`] if the UID then means another;
    /// errors of the file system.
    pub fn read(&mut self, uid: Uid, read_as: ReadAs) -> Result<RawMessage> {
        self.with_row(uid, &mut |mailbox, row| mailbox.read_row_alone(row, read_as))
    }

    /// Runs `work` on the row of a message. If the message has moved, the mailbox is scanned again
    /// and the work is repeated.
    pub(crate) fn with_row<T>(
        &mut self,
        uid: Uid,
        work: &mut dyn FnMut(&Self, u32) -> Result<T>,
    ) -> Result<T> {
        let uidvalidity = self.snapshot.meta().uidvalidity;
        for attempt in 1.. {
            let done = self.row_once(uid).and_then(|row| work(self, row));
            self.keep_restart_points();
            match done {
                Err(Error::Mailbox(FormatError::MessageGone { .. })) if attempt < ATTEMPTS_MAX => {
                    // A mailbox that looks unchanged may have been read at its end only.
                    self.rescan(attempt > 1)?;
                }
                Err(error @ Error::Cache(_)) if attempt < ATTEMPTS_MAX => self.heal(error)?,
                result => return result,
            }
            self.check_numbering(uidvalidity)?;
        }
        Err(Error::KeepsChanging { path: self.path().to_owned() })
    }

    /// Reads a message that is to be kept or compared as a whole.
    pub(crate) fn read_to_copy(&self, uid: Uid, read_as: ReadAs) -> Result<RawMessage> {
        self.read_row_alone(self.row_once(uid)?, read_as)
    }

    fn row_once(&self, uid: Uid) -> Result<u32> {
        let gone = || Error::NoSuchMessage { path: self.path().to_owned(), uid };
        self.row_of(uid)?.ok_or_else(gone)
    }

    fn read_row_alone(&self, row: u32, read_as: ReadAs) -> Result<RawMessage> {
        let (mut name, mut bytes) = (Vec::new(), Vec::new());
        let header_len = self.read_row(row, read_as, &mut name, &mut bytes)?;
        Ok(RawMessage { bytes, header_len })
    }

    /// Reads the message of a row into `bytes`, which must be empty; returns the number of bytes
    /// before the body. Checks that it is still the same message where its place does not prove
    /// that. `name` is a buffer for its place.
    pub(crate) fn read_row(
        &self,
        row: u32,
        read_as: ReadAs,
        name: &mut Vec<u8>,
        bytes: &mut Vec<u8>,
    ) -> Result<usize> {
        self.load_restart_points();
        let location = self.snapshot.location(row, name)?;
        let stamp = &self.snapshot.meta().stamp;
        let Location::Span { offset, separator_len, .. } = location else {
            return Ok(self.format.read_known(&location, read_as, stamp, bytes)?);
        };
        // The key is of the header as it is stored.
        let (read_first, from) = match read_as {
            ReadAs::Message | ReadAs::Quoted => (ReadAs::Quoted, 0),
            ReadAs::Stored => (ReadAs::Stored, separator_len as usize),
        };
        let header_len = self.format.read_known(&location, read_first, stamp, bytes)?;
        let header = bytes.get(from..header_len).unwrap_or_default();
        // Another message may be there now: then it is looked for.
        if MessageKey(barid_message::header_key(header)) != self.snapshot.core(row)?.key {
            let path = self.path().to_owned();
            return Err(FormatError::MessageGone { path, offset }.into());
        }
        Ok(match read_as {
            ReadAs::Message => self.format.unquote(bytes, header_len),
            ReadAs::Quoted | ReadAs::Stored => header_len,
        })
    }

    /// Reads the messages of `rows`, whose cores are given, as [`Mailbox::read_row`] does with
    /// [`ReadAs::Message`]; [`Mailbox::text`] returns their text. Costs least if the rows ascend.
    pub(crate) fn read_rows(
        &self,
        rows: &[(u32, Core)],
        room: &mut ReadRoom,
    ) -> Result<Vec<Result<ReadMessage>>> {
        let ReadRoom { names, bytes } = room;
        bytes.truncate(READ_ROOM_KEPT_LEN);
        bytes.shrink_to(READ_ROOM_KEPT_LEN);
        names.resize_with(rows.len().max(names.len()), Vec::new);
        let mut locations = Vec::with_capacity(rows.len());
        for ((row, core), name) in rows.iter().zip(names) {
            locations.push(match core.place {
                Place::Span { offset, separator_len, header_len, body_len } => {
                    Location::Span { offset, separator_len, header_len, body_len }
                }
                Place::File { .. } => self.snapshot.location(*row, name)?,
            });
        }
        self.load_restart_points();
        let stamp = &self.snapshot.meta().stamp;
        let mut read = self.format.read_many(&locations, ReadAs::Quoted, stamp, bytes);
        for (found, (_, core)) in read.iter_mut().zip(rows) {
            let (Ok(message), Place::Span { offset, .. }) = (&found, core.place) else { continue };
            let header = &bytes[message.range.start..message.range.start + message.header_len];
            // Another message may be there now: then it is looked for.
            if MessageKey(barid_message::header_key(header)) != core.key {
                let path = self.path().to_owned();
                *found = Err(FormatError::MessageGone { path, offset });
            }
        }
        Ok(read.into_iter().map(|found| found.map_err(Error::from)).collect())
    }

    /// Returns the text of a message that was read into `room`.
    pub(crate) fn text<'r>(&self, message: &ReadMessage, room: &'r ReadRoom) -> Cow<'r, [u8]> {
        let text = &room.bytes[message.range.clone()];
        if !self.format.is_quoted(text) {
            return Cow::Borrowed(text);
        }
        let mut text = text.to_vec();
        self.format.unquote(&mut text, message.header_len);
        Cow::Owned(text)
    }
}

//! The bytes of a message.

use std::borrow::Cow;
use std::path::PathBuf;

use barid_cache::Core;
use barid_mailbox::{Error as FormatError, ReadAs, ReadMessage};
use barid_state::MessageKey;
use barid_types::Uid;

use crate::limits::{HEALINGS_MAX, READ_ROOM_KEPT_LEN};
use crate::{Error, Mailbox, Result, View};

/// The bytes of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawMessage {
    /// From_ line if requested, header, blank line, body.
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

impl Mailbox {
    /// Reads a message as [`View::read`] does; rebuilds the cache if it is damaged.
    ///
    /// # Errors
    /// As [`View::read`].
    pub fn read(&mut self, uid: Uid, read_as: ReadAs) -> Result<RawMessage> {
        self.healing(&mut |view| view.read(uid, read_as))
    }

    /// Runs `work` on the newest view. If the cache turns out to be damaged, rebuilds it and runs
    /// `work` again.
    pub(crate) fn healing<T>(&mut self, work: &mut dyn FnMut(&View) -> Result<T>) -> Result<T> {
        let uidvalidity = self.snapshot.meta().uidvalidity;
        for attempt in 1..HEALINGS_MAX {
            match work(&self.view) {
                Err(error @ (Error::Cache(_) | Error::Superseded { .. })) => self.heal(error)?,
                // The view has followed a message without the ledger of this mailbox.
                Err(Error::Renumbered { .. }) if attempt == 1 => self.rescan(false)?,
                result => return result,
            }
            self.check_numbering(uidvalidity)?;
        }
        work(&self.view)
    }
}

impl View {
    /// Reads a message; if it has moved, it is followed.
    ///
    /// # Errors
    /// A damaged cache; [`Error::NoSuchMessage`] if the message is gone; [`Error::Renumbered`] if
    /// it has moved and its UID means another message now; errors of the file system.
    pub fn read(&self, uid: Uid, read_as: ReadAs) -> Result<RawMessage> {
        let row = self.existing_row(uid)?;
        let read = self.follow(row, &mut |view, row| view.read_row_alone(row, read_as));
        self.keep_restart_points();
        read?
    }

    /// Reads a message that is to be kept or compared as a whole.
    pub(crate) fn read_to_copy(&self, uid: Uid, read_as: ReadAs) -> Result<RawMessage> {
        self.read_row_alone(self.existing_row(uid)?, read_as)
    }

    /// Returns the row of a message, or [`Error::NoSuchMessage`].
    pub(crate) fn existing_row(&self, uid: Uid) -> Result<u32> {
        let gone = || Error::NoSuchMessage { path: self.path().to_owned(), uid };
        self.row_of(uid)?.ok_or_else(gone)
    }

    fn read_row_alone(&self, row: u32, read_as: ReadAs) -> Result<RawMessage> {
        let (mut name, mut bytes) = (Vec::new(), Vec::new());
        let header_len = self.read_row(row, read_as, &mut name, &mut bytes)?;
        Ok(RawMessage { bytes, header_len })
    }

    /// Returns the path of the file that contains only this message; `None` if messages of the
    /// mailbox are not files. Another program may have renamed the file since the view was made.
    ///
    /// # Errors
    /// A damaged cache, or a row that does not exist.
    pub fn message_file(&self, row: u32) -> Result<Option<PathBuf>> {
        self.check_read()?;
        let mut name = Vec::new();
        let location = self.snapshot.location(row, &mut name)?;
        Ok(self.storage.message_file(&location))
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
        if self.storage.names_messages() {
            return Ok(self.storage.read_known(&location, read_as, stamp, bytes)?);
        }
        // The key is of the header as it is stored.
        let (read_first, from) = match read_as {
            ReadAs::Message | ReadAs::Quoted => (ReadAs::Quoted, 0),
            ReadAs::Stored => (ReadAs::Stored, location.separator_len().unwrap_or(0) as usize),
        };
        let header_len = self.storage.read_known(&location, read_first, stamp, bytes)?;
        let header = bytes.get(from..header_len).unwrap_or_default();
        // Another message may be there now: then search it.
        if MessageKey(barid_message::header_key(header)) != self.snapshot.core(row)?.key {
            let path = self.path().to_owned();
            return Err(FormatError::MessageGone { path, offset: location.offset() }.into());
        }
        Ok(match read_as {
            ReadAs::Message => self.storage.unquote(bytes, header_len),
            ReadAs::Quoted | ReadAs::Stored => header_len,
        })
    }

    /// Reads the messages of `rows`, whose cores are given, as [`View::read_row`] does with
    /// [`ReadAs::Message`]; [`View::text`] returns their text. Costs least if the rows ascend.
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
            locations.push(match core.nameless_location() {
                Some(location) => location,
                None => self.snapshot.location(*row, name)?,
            });
        }
        self.load_restart_points();
        let stamp = &self.snapshot.meta().stamp;
        let mut read = self.storage.read_many(&locations, ReadAs::Quoted, stamp, bytes);
        let may_be_others = !self.storage.names_messages();
        for ((found, location), (_, core)) in read.iter_mut().zip(&locations).zip(rows) {
            let (Ok(message), true) = (&found, may_be_others) else { continue };
            let header = &bytes[message.range.start..message.range.start + message.header_len];
            // Another message may be there now: then search it.
            if MessageKey(barid_message::header_key(header)) != core.key {
                let path = self.path().to_owned();
                *found = Err(FormatError::MessageGone { path, offset: location.offset() });
            }
        }
        Ok(read.into_iter().map(|found| found.map_err(Error::from)).collect())
    }

    /// Reads the message of a row, as [`View::read_rows`] does, and appends it to those in `room`.
    pub(crate) fn append_row(&self, row: u32, room: &mut ReadRoom) -> Result<ReadMessage> {
        let (mut name, mut bytes) = (Vec::new(), Vec::new());
        let header_len = self.read_row(row, ReadAs::Quoted, &mut name, &mut bytes)?;
        let start = room.bytes.len();
        room.bytes.append(&mut bytes);
        Ok(ReadMessage { range: start..room.bytes.len(), header_len })
    }

    /// Returns the text of a message that was read into `room`.
    pub(crate) fn text<'r>(&self, message: &ReadMessage, room: &'r ReadRoom) -> Cow<'r, [u8]> {
        let text = &room.bytes[message.range.clone()];
        if !self.storage.is_quoted(text) {
            return Cow::Borrowed(text);
        }
        let mut text = text.to_vec();
        self.storage.unquote(&mut text, message.header_len);
        Cow::Owned(text)
    }
}

//! Messages that are too large for memory, for appending them to another mailbox.

use std::sync::atomic::AtomicBool;

use barid_mailbox::MessageRest;
use barid_message::strip_owned;
use barid_types::Uid;

use crate::convert::large::LargeRest;
use crate::limits::{COPY_WHOLE_LEN_MAX, FOLLOWS_MAX};
use crate::view::has_moved;
use crate::{Mailbox, Result};

/// A message that is appended to another mailbox without being read into memory.
#[derive(Debug)]
pub struct LargeMessage<'m> {
    /// The header with its blank line, without the fields that an mbox keeps for itself.
    pub header: Vec<u8>,
    rest: LargeRest<'m>,
}

impl LargeMessage<'_> {
    /// Returns the bytes after the header, for [`NewMessage::rest`](crate::NewMessage::rest).
    pub fn rest(&self) -> &dyn MessageRest {
        &self.rest
    }
}

impl Mailbox {
    /// Returns a message of more than 4 MB for appending it to `target`; `None` if it must be read
    /// with [`Mailbox::read`]: it is smaller, its header has no end, or both mailboxes are one
    /// file, which cannot be read further while it is written. Reads the header, or all of the
    /// message if the format undoes quoting; and the message for each reading of
    /// [`LargeMessage::rest`].
    ///
    /// # Errors
    /// As [`Mailbox::read`]; [`FormatError::Stopped`](crate::FormatError::Stopped) once `stop` is
    /// `true`.
    pub fn large_message<'m>(
        &'m mut self,
        uid: Uid,
        target: &Self,
        stop: Option<&'m AtomicBool>,
    ) -> Result<Option<LargeMessage<'m>>> {
        if self.is_file_of(target) {
            return Ok(None);
        }
        let uidvalidity = self.snapshot.meta().uidvalidity;
        let (mut found, mut attempt) = (self.large_header(uid), 1);
        // The rest is read from where the message is now.
        while let Err(error) = &found
            && has_moved(error)
            && attempt < FOLLOWS_MAX
        {
            // A mailbox that looks unchanged may have been read at its end only.
            self.rescan(attempt > 1)?;
            self.check_numbering(uidvalidity)?;
            (found, attempt) = (self.large_header(uid), attempt + 1);
        }
        let Some((row, header)) = found? else { return Ok(None) };
        let rest = LargeRest::as_read(self, row, stop)?;
        Ok(Some(LargeMessage { header: strip_owned(&header).into_owned(), rest }))
    }

    /// Returns the row and the header of a message that is large.
    fn large_header(&mut self, uid: Uid) -> Result<Option<(u32, Vec<u8>)>> {
        self.healing(&mut |view| {
            let row = view.existing_row(uid)?;
            if view.snapshot.core(row)?.size <= COPY_WHOLE_LEN_MAX {
                return Ok(None);
            }
            let header = view.row_header(row)?;
            view.keep_restart_points();
            Ok(header.map(|header| (row, header)))
        })
    }

    /// Returns `true` if all messages of both mailboxes are in the same file.
    pub(crate) fn is_file_of(&self, other: &Self) -> bool {
        !self.format().has_message_files() && self.identity.path == other.identity.path
    }
}

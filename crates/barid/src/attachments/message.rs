//! Messages of any size whose attachments are read.

use barid_mailbox::ReadAs;
use barid_message::{Attachment, body_structure, part_by_number};
use barid_types::{BodyStructure, Uid};

use super::part::StructuredMessage;
use super::reader::AttachmentToRead;
use crate::large::{TakePiece, is_too_large};
use crate::{Mailbox, Result, View};

/// A message of any size whose attachments are read.
#[derive(Clone, Debug)]
pub struct AttachedMessage {
    view: View,
    uid: Uid,
    structure: BodyStructure,
    /// The message; `None` if it is too large, so that it is read for each of its parts.
    bytes: Option<Vec<u8>>,
}

impl Mailbox {
    /// Reads a message as [`View::attached_message`] does; rebuilds the cache if it is damaged.
    ///
    /// # Errors
    /// As [`View::read`].
    pub fn attached_message(&mut self, uid: Uid) -> Result<AttachedMessage> {
        self.healing(&mut |view| view.attached_message(uid))
    }
}

impl View {
    /// Reads a message whose attachments are to be read; of one that is too large, the structure.
    ///
    /// # Errors
    /// As [`View::read`].
    pub fn attached_message(&self, uid: Uid) -> Result<AttachedMessage> {
        let (structure, bytes) = match self.read(uid, ReadAs::Message) {
            Ok(message) => (body_structure(&message.bytes).0, Some(message.bytes)),
            Err(error) if is_too_large(&error) => {
                (self.read_reduced(uid, &|_| false)?.structure, None)
            }
            Err(error) => return Err(error),
        };
        Ok(AttachedMessage { view: self.clone(), uid, structure, bytes })
    }
}

impl AttachedMessage {
    /// Returns the UID.
    pub fn uid(&self) -> Uid {
        self.uid
    }

    /// Returns the structure of the whole message.
    pub fn structure(&self) -> &BodyStructure {
        &self.structure
    }

    /// Passes the decoded bytes of a part to `take`, in pieces, until it returns `false`; nothing
    /// if no part has this number. Returns `true` if its transfer encoding is known; otherwise the
    /// bytes are passed as they are. Reads a large message up to the end of the part.
    ///
    /// # Errors
    /// As [`View::read_pieces`].
    pub fn read_part(&self, number: &str, take: &mut TakePiece<'_>) -> Result<bool> {
        let Some(part) = part_by_number(&self.structure, number) else { return Ok(true) };
        self.structured().read_part(part, take)
    }

    /// Reads an attachment whose text is to be read, up to a byte more than `len_max`, which says
    /// that it is longer.
    ///
    /// # Errors
    /// As [`View::read_pieces`].
    pub fn to_read(&self, attachment: Attachment, len_max: usize) -> Result<AttachmentToRead> {
        self.structured().to_read(attachment, len_max)
    }

    fn structured(&self) -> StructuredMessage<'_> {
        let Self { view, uid, structure, bytes } = self;
        StructuredMessage { view, uid: *uid, structure, bytes: bytes.as_deref() }
    }
}

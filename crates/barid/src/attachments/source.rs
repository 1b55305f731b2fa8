//! The texts of the attachments of a message that was read for a search or an index.

use std::sync::atomic::Ordering;

use barid_message::{attachments, body_structure};
use barid_types::{BodyStructure, Uid};

use super::part::StructuredMessage;
use super::reader::{AttachmentReader, AttachmentText};
use crate::{Error, Result, View};

/// A message whose attachments are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttachmentSource<'a> {
    pub(crate) view: &'a View,
    pub(crate) uid: Uid,
    /// The message, or the part of it that is searched.
    pub(crate) bytes: &'a [u8],
    /// The structure of the whole message, if `bytes` lacks some bodies.
    pub(crate) whole: Option<&'a BodyStructure>,
}

/// The outcome of reading attachments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadTexts {
    /// `true` if one could not be read.
    pub(crate) has_unread: bool,
    /// `true` if one of these may be read later.
    pub(crate) may_change: bool,
}

impl AttachmentSource<'_> {
    /// Passes the texts of the attachments to `take` until it returns `false`. One attachment is in
    /// memory at a time.
    ///
    /// # Errors
    /// [`Error::Stopped`] if `OpenOptions::stop` is `true`; as [`View::read_pieces`], for a message
    /// that is too large.
    pub(crate) fn each_text(
        &self,
        reader: &dyn AttachmentReader,
        take: &mut dyn FnMut(&str) -> bool,
    ) -> Result<ReadTexts> {
        let parsed;
        let structure = match self.whole {
            Some(whole) => whole,
            None => {
                parsed = body_structure(self.bytes).0;
                &parsed
            }
        };
        let bytes = self.whole.is_none().then_some(self.bytes);
        let message = StructuredMessage { view: self.view, uid: self.uid, structure, bytes };
        let stop = self.view.options.stop.as_ref();
        let mut read = ReadTexts::default();
        for attachment in attachments(structure) {
            let text = reader.read(message.to_read(attachment, reader.len_max())?, stop);
            if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(Error::Stopped);
            }
            match text {
                AttachmentText::Text(text) if take(&text) => {}
                // Nothing depends on the others.
                AttachmentText::Text(_) => return Ok(ReadTexts::default()),
                AttachmentText::NoText => {}
                AttachmentText::Failed => read.has_unread = true,
                AttachmentText::FailedNow => {
                    read = ReadTexts { has_unread: true, may_change: true };
                }
            }
        }
        Ok(read)
    }
}

//! A message with the texts of its attachments, where the mailbox was opened with a reader of them.

use barid_query::search::{CachedField, Facts, FieldText, MessageView, SearchView};

use crate::Error;
use crate::attachments::AttachmentSource;

/// A message that was read, whose attachments are read when they are asked for.
pub(super) struct AttachedView<'a> {
    message: MessageView<'a>,
    source: AttachmentSource<'a>,
    /// `true` if an attachment could not be read, and no other decided.
    pub(super) has_unread: bool,
    /// The error of reading the message again.
    pub(super) error: Option<Error>,
}

impl<'a> AttachedView<'a> {
    pub(super) fn new(facts: Facts, source: AttachmentSource<'a>) -> Self {
        let message = MessageView::new(facts, source.bytes);
        Self { message, source, has_unread: false, error: None }
    }
}

impl SearchView for AttachedView<'_> {
    fn facts(&self) -> &Facts {
        self.message.facts()
    }

    fn any_field(
        &mut self,
        field: CachedField,
        holds: &mut dyn FnMut(FieldText<'_>) -> Option<bool>,
    ) -> Option<bool> {
        self.message.any_field(field, holds)
    }

    fn message(&mut self) -> Option<&[u8]> {
        self.message.message()
    }

    fn attachment_texts(&mut self, take: &mut dyn FnMut(&str) -> bool) -> bool {
        let Some(reader) = &self.source.view.options.attachments else { return true };
        match self.source.each_text(&**reader, take) {
            Ok(read) => {
                self.has_unread |= read.has_unread;
                true
            }
            Err(error) => {
                self.error = Some(error);
                false
            }
        }
    }
}

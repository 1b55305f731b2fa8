//! The contract of readers of attachments.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// An attachment whose text is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentToRead {
    /// `type/subtype` in lower case.
    pub media_type: String,
    /// The decoded file name.
    pub name: Option<String>,
    /// The declared charset.
    pub charset: Option<String>,
    /// The bytes without their transfer encoding, at most [`AttachmentReader::len_max`] and one
    /// more: one that is longer has that length.
    pub bytes: Vec<u8>,
}

/// The result of reading an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachmentText {
    /// It has this text.
    Text(String),
    /// Nothing of its type has a text.
    NoText,
    /// Its text cannot be read, and reading it again fails again, as long as
    /// [`AttachmentReader::id`] is the same.
    Failed,
    /// Its text could not be read now.
    FailedNow,
}

/// A reader of the texts of attachments, such as PDF.
///
/// Documents come from anybody: an implementation reads them in a process without mail. The same
/// attachment has the same text as long as the identity is the same, since text indexes keep them.
pub trait AttachmentReader: fmt::Debug + Send + Sync {
    /// Returns the identity of the programs that read, not 0. Texts in an index that others have
    /// read are not used.
    fn id(&self) -> u32;

    /// Returns the length in bytes of the largest attachment that can be read.
    fn len_max(&self) -> usize;

    /// Reads an attachment; called from several threads. Returns [`AttachmentText::FailedNow`] soon
    /// once `stop` is `true`.
    fn read(&self, attachment: AttachmentToRead, stop: Option<&Arc<AtomicBool>>) -> AttachmentText;
}

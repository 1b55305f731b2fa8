//! Attachments: their bytes, and their texts, which a program outside this library reads.

mod message;
mod part;
mod reader;
mod source;

pub use message::AttachedMessage;
pub use reader::{AttachmentReader, AttachmentText, AttachmentToRead};

pub(crate) use source::AttachmentSource;

//! Mailboxes on disk: Maildir, mbox in its variants, MMDF; from generated or other mail.

mod maildir;
mod mbox;
mod parallel;

pub use maildir::{MaildirWriter, maildir_name};
pub use mbox::{MboxOptions, MboxVariant, MboxWriter};

use std::io;
use std::path::Path;

use crate::corpus::Corpus;

/// Size of the written mail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Messages.
    pub messages: u64,
    /// Bytes of the mailbox.
    pub bytes: u64,
}

impl Corpus {
    /// Writes all messages as a new Maildir, from all cores.
    ///
    /// Names are those of Dovecot's and of qmail's delivery, modification times are the dates of
    /// arrival; \Recent messages are in `new`. Nothing is synced.
    pub fn write_maildir(&self, path: &Path) -> io::Result<Written> {
        let writer = MaildirWriter::create(path)?;
        parallel::for_each_chunk(self, |number, message| {
            let name = maildir_name(number, message);
            writer.deliver(&name, message).map(|()| message.bytes.len() as u64)
        })
    }

    /// Writes all messages as a new mbox file. Nothing is synced.
    pub fn write_mbox(&self, path: &Path, options: MboxOptions) -> io::Result<Written> {
        self.write_to(MboxWriter::create(path, options)?, options)
    }

    /// Appends all messages to an mbox file, which is created if it is missing; `bytes` counts the
    /// appended bytes. Nothing is synced.
    pub fn append_mbox(&self, path: &Path, options: MboxOptions) -> io::Result<Written> {
        self.write_to(MboxWriter::append_to(path, options)?, options)
    }

    fn write_to(&self, mut writer: MboxWriter, options: MboxOptions) -> io::Result<Written> {
        let render = |message: &_, out: &mut Vec<u8>| options.render(message, out);
        parallel::in_order(self, render, |bytes| writer.write_rendered(bytes))?;
        Ok(Written { messages: self.len(), bytes: writer.finish()? })
    }
}

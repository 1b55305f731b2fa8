//! Writers: those that change the mailbox of the model.

use std::io;

use fastrand::Rng;

use super::maildir::MaildirWriter;
use super::mbox::MboxWriter;
use super::mbsync::MbsyncWriter;
use super::own::OwnWriter;
use super::real::{MuttWriter, ProcmailWriter};
use crate::server::{MailFormat, Server, Transport};

/// Kind of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterKind {
    /// A session with the server.
    Own,
    /// A program that knows files: it delivers, changes flags and removes messages.
    Foreign,
    /// procmail, which delivers.
    Procmail,
    /// mutt, which changes flags and removes messages.
    Mutt,
    /// mbsync, which does both over IMAP, with a Maildir of its own.
    Mbsync,
}

/// Someone who changes INBOX.
pub(super) trait Writer: Send {
    /// Returns the name for reports.
    fn name(&self) -> &str;

    /// Changes something. Returns the number of changes.
    ///
    /// # Errors
    /// Errors of the file system, or a server that refuses what it must not refuse.
    fn act(&mut self, rng: &mut Rng) -> io::Result<u64>;
}

/// Makes a writer.
pub(super) fn writer<'s>(
    kind: WriterKind,
    server: &'s dyn Server,
    user: u32,
    transport: Transport,
    number: usize,
) -> Box<dyn Writer + 's> {
    let path = server.mailbox_path(user, "INBOX");
    match (kind, server.format()) {
        (WriterKind::Own, _) => Box::new(OwnWriter::new(server, user, transport, number)),
        (WriterKind::Foreign, MailFormat::Maildir | MailFormat::Nested) => {
            Box::new(MaildirWriter::new(path, number))
        }
        (WriterKind::Foreign, MailFormat::Mbox) => Box::new(MboxWriter::new(path, number)),
        // Nothing but c-client writes these files, and it locks as the server does.
        (WriterKind::Foreign, MailFormat::Mbx | MailFormat::Mix) => {
            Box::new(OwnWriter::new(server, user, transport, number))
        }
        (WriterKind::Procmail, format) => Box::new(ProcmailWriter::new(path, format)),
        (WriterKind::Mbsync, _) => Box::new(MbsyncWriter::new(server, user, number)),
        (WriterKind::Mutt, format) => Box::new(MuttWriter::new(path, format)),
    }
}

/// Returns the text of a message, with LF.
pub(super) fn message(rng: &mut Rng, writer: &str) -> String {
    let number = rng.u32(..);
    format!(
        "Date: Mon, 1 Jan 2024 10:00:00 +0000\nFrom: {writer} <w@example.org>\nSubject: {number}\n\
         Message-ID: <{number}.{writer}@example.org>\n\n{}\n",
        "text of a message\n".repeat(rng.usize(0..20))
    )
}

//! The recipients and deliveries of a connection of LMTP.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use barid::vfs::OsVfs;
use barid_lmtp::{Envelope, LmtpBackend, LmtpReply};

use super::{LmtpProcess, unavailable};
use crate::delivery::{DeliveryError, DeliveryErrorKind, SpooledMessage};
use crate::limits::{DELIVERY_RESULT_LEN_MAX, LOOKUP_TIMEOUT};
use crate::lmtp::reply_of;
use crate::server::messages::{
    DeliveryOutcome, DeliveryReport, DeliveryResult, FromLmtp, Level, LmtpAnswer, LogLine,
    MessagePrelude,
};

/// The backend of a connection.
pub(super) struct RemoteBackend<'a> {
    process: &'a LmtpProcess,
    session: u64,
    recipients: Vec<String>,
    sender: String,
    message: Option<SpooledMessage>,
}

impl<'a> RemoteBackend<'a> {
    pub(super) fn new(process: &'a LmtpProcess, session: u64) -> Self {
        let (recipients, sender, message) = (Vec::new(), String::new(), None);
        Self { process, session, recipients, sender, message }
    }

    fn log(&self, level: Level, text: String) {
        self.process.log(LogLine { session: Some(self.session), ..LogLine::new(level, text) });
    }

    /// Gives a message to a process that delivers it to one recipient.
    fn deliver(
        &self,
        address: &str,
        message: &SpooledMessage,
    ) -> Result<DeliveryResult, DeliveryError> {
        let question = |id| FromLmtp::Deliver { id, address: address.to_owned() };
        let answer = self.process.ask(question, LOOKUP_TIMEOUT).ok_or_else(unavailable)?;
        let stream = match answer {
            (LmtpAnswer::Stream, Some(fd)) => UnixStream::from(fd),
            (LmtpAnswer::Failed { kind, text }, _) => return Err(DeliveryError::new(kind, text)),
            (LmtpAnswer::Stream | LmtpAnswer::Recipient, _) => return Err(unavailable()),
        };
        // The supervisor ends the process before.
        let timeout = self.process.settings.timeout + Duration::from_secs(5);
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let prelude = MessagePrelude {
            sender: self.sender.clone(),
            recipient: address.to_owned(),
            len: message.len(),
        };
        let prelude = serde_json::to_vec(&prelude).map_err(std::io::Error::other)?;
        let mut out = &stream;
        let sent = out.write_all(&(prelude.len() as u32).to_le_bytes());
        let sent = sent.and_then(|()| out.write_all(&prelude));
        // A process that refuses the message need not read it, and says why.
        let _ = sent.and_then(|()| message.read(&mut |piece| out.write_all(piece)));
        let mut bytes = Vec::new();
        let read = (&stream).take(DELIVERY_RESULT_LEN_MAX).read_to_end(&mut bytes);
        // One that has ended before it had read everything resets the stream behind its result.
        if bytes.is_empty() {
            read?;
        }
        let died = |_| DeliveryError::temporary("the delivery process has died, or taken too long");
        let DeliveryReport { result, warnings } = serde_json::from_slice(&bytes).map_err(died)?;
        warnings.iter().for_each(|text| self.process.warn_once(text));
        Ok(result)
    }

    fn reply(&self, address: &str, result: Result<DeliveryResult, DeliveryError>) -> LmtpReply {
        let sender = &self.sender;
        match result {
            Ok(DeliveryResult::Stored { mailbox, notes }) => {
                let notes = [&[mailbox], notes.as_slice()].concat().join("; ");
                self.log(Level::Info, format!("delivered to {address} from {sender}: {notes}"));
                self.process.count(DeliveryOutcome::Stored);
                LmtpReply::new(250, "2.0.0", "delivered")
            }
            Ok(DeliveryResult::Duplicate) => {
                self.log(Level::Info, format!("delivered before to {address} from {sender}"));
                self.process.count(DeliveryOutcome::Duplicate);
                LmtpReply::new(250, "2.0.0", "delivered before")
            }
            Ok(DeliveryResult::Failed { kind, text }) => {
                self.failed(address, &DeliveryError::new(kind, text))
            }
            Err(error) => self.failed(address, &error),
        }
    }

    fn failed(&self, address: &str, error: &DeliveryError) -> LmtpReply {
        let sender = &self.sender;
        let text = format!("not delivered to {address} from {sender}: {}", error.text);
        self.log(Level::Warning, text);
        let reply = reply_of(error);
        self.process.count(match reply.code {
            400..500 => DeliveryOutcome::Deferred,
            _ => DeliveryOutcome::Refused,
        });
        reply
    }
}

impl LmtpBackend for RemoteBackend<'_> {
    fn recipient(&mut self, address: &str) -> LmtpReply {
        let question = |id| FromLmtp::Recipient { id, address: address.to_owned() };
        let later = || LmtpReply::new(451, "4.3.0", "users cannot be looked up now");
        match self.process.ask(question, LOOKUP_TIMEOUT) {
            Some((LmtpAnswer::Recipient, _)) => {
                self.recipients.push(address.to_owned());
                LmtpReply::new(250, "2.1.5", "recipient accepted")
            }
            Some((LmtpAnswer::Failed { kind: DeliveryErrorKind::UnknownUser, text }, _)) => {
                self.log(Level::Info, format!("recipient {address} refused: {text}"));
                reply_of(&DeliveryError::new(DeliveryErrorKind::UnknownUser, text))
            }
            // The reason is for the log: it may name files of the server.
            Some((LmtpAnswer::Failed { text, .. }, _)) => {
                self.log(Level::Warning, format!("recipient {address} refused: {text}"));
                later()
            }
            Some((LmtpAnswer::Stream, _)) | None => later(),
        }
    }

    fn begin(&mut self, envelope: &Envelope) -> Result<(), LmtpReply> {
        self.sender.clone_from(&envelope.sender);
        let settings = &self.process.settings;
        let (folder, len_max) = (settings.folder.clone(), settings.size_max);
        self.message = Some(SpooledMessage::new(Arc::new(OsVfs), folder, len_max));
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> Result<(), LmtpReply> {
        let Some(message) = &mut self.message else { return Ok(()) };
        message.push(bytes).map_err(|error| reply_of(&error.into()))
    }

    fn end(&mut self) -> Vec<LmtpReply> {
        let Some(message) = self.message.take() else { return Vec::new() };
        let reply = |address: &String| self.reply(address, self.deliver(address, &message));
        self.recipients.iter().map(reply).collect()
    }

    fn reset(&mut self) {
        self.recipients.clear();
        self.message = None;
    }
}

//! The recipients and deliveries of a session.

use std::sync::Arc;

use barid_lmtp::{Envelope, LmtpBackend, LmtpReply};

use super::{LmtpServer, reply_of};
use crate::config::LogLevel;
use crate::delivery::{
    Delivered, Delivery, DeliveryEnvelope, DeliveryError, DeliveryErrorKind, DeliveryOrder,
    DeliveryRequest, DeliveryWishes, Recipient, Recipients, SpooledMessage,
};
use crate::log::{LogEvent, Metrics};

/// The backend of a session.
pub(super) struct ServerBackend<'a> {
    server: &'a LmtpServer,
    session: &'a str,
    recipients: Vec<(String, Recipient)>,
    sender: String,
    message: Option<SpooledMessage>,
}

impl<'a> ServerBackend<'a> {
    pub(super) fn new(server: &'a LmtpServer, session: &'a str) -> Self {
        Self { server, session, recipients: Vec::new(), sender: String::new(), message: None }
    }

    fn deliver(
        &self,
        address: &str,
        recipient: &Recipient,
        message: &SpooledMessage,
    ) -> Result<Delivered, DeliveryError> {
        let server = self.server;
        if server.uid == 0 {
            let owner = server.config.owner_of(&recipient.user)?;
            let order = DeliveryOrder {
                config_path: server.config.path.clone(),
                config: server.config_text.clone(),
                user: recipient.user.clone(),
                envelope: DeliveryEnvelope {
                    sender: Some(self.sender.clone()),
                    recipient: Some(address.to_owned()),
                    mailbox: None,
                    detail: recipient.detail.clone(),
                },
                wishes: DeliveryWishes::default(),
                message_len: message.len(),
            };
            let timeout = server.config.delivery.timeout;
            return order.run_as(&server.program, owner, message, timeout);
        }
        if server.config.owner_of(&recipient.user)?.0 != server.uid {
            let text = format!("user {}: the server must run as root", recipient.user.name);
            return Err(DeliveryError::new(DeliveryErrorKind::Forbidden, text));
        }
        let delivery = Delivery {
            vfs: Arc::clone(&server.vfs),
            user: &recipient.user,
            options: server.config.user_options(&recipient.user)?,
            settings: &server.config.delivery,
            spam: server.spam.as_deref(),
        };
        delivery.deliver(&DeliveryRequest {
            message,
            sender: Some(&self.sender),
            recipient: Some(address),
            mailbox: None,
            detail: recipient.detail.as_deref(),
        })
    }

    /// Logs and counts the result of a delivery; returns the reply.
    fn record(
        &self,
        address: &str,
        recipient: &Recipient,
        result: Result<Delivered, DeliveryError>,
    ) -> LmtpReply {
        let metrics = &self.server.metrics;
        let (level, name, text, reply) = match result {
            Ok(Delivered::Stored { mailbox, is_spam, notes }) => {
                Metrics::up(&metrics.delivered);
                if is_spam {
                    Metrics::up(&metrics.delivered_spam);
                }
                let text = [&[mailbox], notes.as_slice()].concat().join("; ");
                (LogLevel::Info, "delivered", text, LmtpReply::new(250, "2.0.0", "delivered"))
            }
            Ok(Delivered::Duplicate) => {
                Metrics::up(&metrics.duplicates);
                let reply = LmtpReply::new(250, "2.0.0", "delivered before");
                (LogLevel::Info, "duplicate", String::new(), reply)
            }
            Err(error) => {
                let reply = reply_of(&error);
                Metrics::up(match reply.code {
                    400..500 => &metrics.deliveries_deferred,
                    _ => &metrics.deliveries_refused,
                });
                (LogLevel::Warn, "not_delivered", error.text, reply)
            }
        };
        let event = LogEvent::new(level, name).text("to", address).text("from", &self.sender);
        let event = event.text("what", &text);
        let user = Some(recipient.user.name.as_str());
        self.server.log.write(&LogEvent { session: Some(self.session), user, ..event });
        reply
    }

    fn folder(&self) -> std::path::PathBuf {
        match self.server.uid {
            0 => self.server.config.server.state_dir.join("spool"),
            _ => self.server.config.server.cache_dir.join("spool"),
        }
    }
}

impl LmtpBackend for ServerBackend<'_> {
    fn recipient(&mut self, address: &str) -> LmtpReply {
        let recipients = Recipients::new(&self.server.config, Arc::clone(&self.server.vfs));
        match recipients.find(address) {
            Ok(recipient) => {
                self.recipients.push((address.to_owned(), recipient));
                LmtpReply::new(250, "2.1.5", "recipient accepted")
            }
            Err(error) => {
                let event = LogEvent::new(LogLevel::Info, "recipient_refused");
                let event = event.text("to", address).text("error", &error.text);
                self.server.log.write(&LogEvent { session: Some(self.session), ..event });
                match error.kind {
                    DeliveryErrorKind::UnknownUser => reply_of(&error),
                    // The reason is for the log: it may name files of the server.
                    _ => LmtpReply::new(451, "4.3.0", "users cannot be looked up now"),
                }
            }
        }
    }

    fn begin(&mut self, envelope: &Envelope) -> Result<(), LmtpReply> {
        self.sender.clone_from(&envelope.sender);
        let limit = self.server.config.limits.message_size;
        let vfs = Arc::clone(&self.server.vfs);
        self.message = Some(SpooledMessage::new(vfs, self.folder(), limit));
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> Result<(), LmtpReply> {
        let Some(message) = &mut self.message else { return Ok(()) };
        message.push(bytes).map_err(|error| reply_of(&error.into()))
    }

    fn end(&mut self) -> Vec<LmtpReply> {
        let Some(message) = self.message.take() else { return Vec::new() };
        let deliveries = self.recipients.iter().map(|(address, recipient)| {
            let result = self.deliver(address, recipient, &message);
            self.record(address, recipient, result)
        });
        deliveries.collect()
    }

    fn reset(&mut self) {
        self.recipients.clear();
        self.message = None;
    }
}

//! LMTP (RFC 2033) without sockets: the session of a server that takes mail from a mail server of
//! the same site.
//!
//! [`LmtpSession::receive`] takes bytes as they arrive and appends replies to a buffer; messages
//! and recipients go to an [`LmtpBackend`]. After a message there is a reply for each recipient.
//! Extensions: PIPELINING, 8BITMIME, SMTPUTF8, ENHANCEDSTATUSCODES, SIZE, CHUNKING.
//!
//! Only CR LF `.` CR LF ends a message, so that nobody can smuggle a second one into it by line
//! ends that mail servers read differently.

mod command;
mod data;
pub mod limits;
mod reply;
mod session;

pub use self::reply::LmtpReply;
pub use self::session::{Envelope, LmtpBackend, LmtpSession, LmtpSettings, SessionState};

//! The wire: bytes of a client to events, one at a time and within bounds.
//!
//! [`Decoder`] takes bytes as they arrive. It finds the end of a command, asks for literals, and
//! gives a complete command to the parser, which works on a slice and never waits. Messages of
//! APPEND and REPLACE are not kept: their bytes leave the decoder as they come.
//!
//! ```text
//! command = tag SP name *(SP argument) CRLF
//! literal = ["~"] "{" number64 ["+"] "}" CRLF *OCTET      ; RFC 9051 §4.3, RFC 7888, RFC 3516
//! ```

mod append;
mod decoder;
mod event;
mod input;
mod literal;
pub(crate) mod parser;

pub use barid_message::{decode_utf7, encode_utf7};

pub use self::decoder::Decoder;
pub use self::event::Event;

#[cfg(test)]
mod tests;

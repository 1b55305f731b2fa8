//! Identifiers of the content of messages (EMAILID, RFC 8474), computed when they are asked for and
//! stored beside the cache.
//!
//! `docs/design/objectid.md` has the reasons.

use std::fmt;
use std::sync::Arc;

use barid_cache::Core;
use barid_mailbox::ReadAs;
use barid_message::{CrlfPieces, wire_message};
use sha2::{Digest as _, Sha256};

use crate::Result;
use crate::limits::EMAIL_IDS_LEN_MAX;
use crate::stored_values::{NewValues, StoredValues, ValueKind};
use crate::view::View;

/// Bytes of an identifier.
const ID_LEN: usize = 20;
const EMAIL_IDS: ValueKind =
    ValueKind { name: "email-ids", value_len_max: ID_LEN, len_max: EMAIL_IDS_LEN_MAX };

/// The identifier of the content of a message: the beginning of the SHA-256 of its wire form, so
/// that nobody can send a message with the identifier of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EmailId([u8; ID_LEN]);

impl EmailId {
    /// Computes the identifier of a message in wire form.
    #[must_use]
    pub fn of_wire(message: &[u8]) -> Self {
        Self::of(Sha256::new().chain_update(message))
    }

    fn of(hash: Sha256) -> Self {
        let mut id = [0; ID_LEN];
        id.copy_from_slice(&hash.finalize()[..ID_LEN]);
        Self(id)
    }

    /// Parses the output of [`fmt::Display`]; `None` for an identifier that no message has.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('M')?.as_bytes();
        let (pairs, []) = digits.as_chunks::<2>() else { return None };
        let mut id = [0; ID_LEN];
        if pairs.len() != ID_LEN {
            return None;
        }
        for (byte, pair) in id.iter_mut().zip(pairs) {
            let digit = |digit: u8| match digit {
                b'0'..=b'9' => Some(digit - b'0'),
                b'a'..=b'f' => Some(digit - b'a' + 10),
                _ => None,
            };
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(id))
    }
}

impl fmt::Display for EmailId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("M")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Known identifiers.
#[derive(Debug, Default)]
pub(crate) struct EmailIds(Arc<StoredValues>);

/// New identifiers, to be stored.
#[derive(Debug, Default)]
pub(crate) struct NewEmailIds(NewValues);

impl EmailIds {
    /// Returns the identifier of a message, if it is known. O(log identifiers).
    pub(crate) fn of(&self, core: &Core) -> Option<EmailId> {
        Some(EmailId(self.0.of(core)?.try_into().ok()?))
    }
}

impl NewEmailIds {
    /// Adds the identifier of a message.
    pub(crate) fn add(&mut self, core: &Core, id: EmailId) {
        self.0.add(&EMAIL_IDS, core, |out| out.extend_from_slice(&id.0));
    }

    /// Adds the identifiers of another thread.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.append(&EMAIL_IDS, other.0);
    }
}

impl View {
    /// Returns the known identifiers; they are read once while the mailbox is open.
    pub(crate) fn email_ids(&self) -> EmailIds {
        EmailIds(self.cached_values(&self.email_ids_in_memory, &EMAIL_IDS))
    }

    /// Keeps and stores new identifiers.
    pub(crate) fn keep_email_ids(&self, new: &NewEmailIds) {
        self.add_stored_values(&self.email_ids_in_memory, &EMAIL_IDS, &new.0);
    }

    /// Computes the identifier of the message of a row piece by piece.
    pub(crate) fn row_email_id(&self, row: u32) -> Result<EmailId> {
        let (mut hash, mut is_header) = (Sha256::new(), true);
        let (mut crlf, mut wire) = (CrlfPieces::default(), Vec::new());
        self.row_pieces(row, ReadAs::Message, &mut |piece| {
            if std::mem::take(&mut is_header) {
                hash.update(wire_message(piece));
            } else {
                wire.clear();
                crlf.push(piece, &mut wire);
                hash.update(&wire);
            }
            true
        })?;
        Ok(EmailId::of(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_read_as_they_are_written() {
        let id = EmailId::of_wire(b"a: b\r\n\r\nc\r\n");
        let text = id.to_string();
        assert_eq!(text.len(), 41);
        assert_eq!(EmailId::parse(&text), Some(id));
        for wrong in ["", "M", &text[1..], &text[..40], &text.to_uppercase(), "F1-2"] {
            assert_eq!(EmailId::parse(wrong), None, "{wrong}");
        }
        assert_ne!(EmailId::of_wire(b"a: b\r\n\r\nd\r\n"), id);
    }
}

//! Identifiers of the content of messages (EMAILID, RFC 8474), computed when they are asked for and
//! stored beside the cache.
//!
//! `docs/design/objectid.md` has the reasons. Stored identifiers are found by UID and UIDVALIDITY;
//! the hash of the header and the length of the body prove that a message is the one that was read.
//! The file may vanish at any moment (`docs/formats/derived.md`).

use std::fmt;

use barid_cache::Core;
use barid_mailbox::ReadAs;
use barid_message::{CrlfPieces, wire_message};
use barid_types::Uid;
use barid_vfs::le::{LeReader, PutLe};
use sha2::{Digest as _, Sha256};

use crate::Result;
use crate::kept::DerivedSnapshot;
use crate::limits::{EMAIL_IDS_FILE_LEN_MAX, EMAIL_IDS_KEPT_PART};
use crate::view::{View, check_of};

const KIND: &str = "email-ids";
/// Bytes of an identifier.
const ID_LEN: usize = 20;
/// Bytes of UIDVALIDITY and count.
const HEAD_LEN: usize = 8;
/// Bytes of an entry: UID, check, identifier.
const ENTRY_LEN: usize = 8 + ID_LEN;

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

/// UID of a message, its check, and its identifier.
pub(crate) type EmailIdEntry = (Uid, u32, EmailId);

/// Identifiers that are known: entries as they are stored, ascending by UID.
#[derive(Debug, Default)]
pub(crate) struct EmailIds(Vec<u8>);

impl EmailIds {
    /// Returns the identifier of a message, if it is known. O(log entries).
    pub(crate) fn of(&self, core: &Core) -> Option<EmailId> {
        let (entries, _) = self.0.as_chunks::<ENTRY_LEN>();
        let uid_of = |entry: &[u8; ENTRY_LEN]| LeReader(entry).u32();
        let wanted = Some(core.uid.get());
        let at = entries.binary_search_by(|entry| uid_of(entry).cmp(&wanted)).ok()?;
        let (_, check, id) = entry(&entries[at])?;
        (check == check_of(core)).then_some(id)
    }

    fn entries(&self) -> impl Iterator<Item = EmailIdEntry> {
        self.0.as_chunks::<ENTRY_LEN>().0.iter().filter_map(entry)
    }

    fn from_bytes(mut bytes: Vec<u8>, uidvalidity: u32) -> Option<Self> {
        let mut take = LeReader(&bytes);
        let (same, count) = (take.u32()? == uidvalidity, take.u32()? as usize);
        if !same || take.0.len() != count.checked_mul(ENTRY_LEN)? {
            return None;
        }
        bytes.drain(..HEAD_LEN);
        Some(Self(bytes))
    }
}

fn entry(bytes: &[u8; ENTRY_LEN]) -> Option<EmailIdEntry> {
    let mut take = LeReader(bytes);
    let (uid, check) = (Uid::new(take.u32()?)?, take.u32()?);
    Some((uid, check, EmailId(take.0.try_into().ok()?)))
}

impl View {
    /// Loads the stored identifiers; none if the file is missing or damaged.
    pub(crate) fn email_ids(&self) -> EmailIds {
        let uidvalidity = self.snapshot.meta().uidvalidity.get();
        let bytes = self.kept_email_ids().load_lasting(EMAIL_IDS_FILE_LEN_MAX);
        bytes.and_then(|bytes| EmailIds::from_bytes(bytes, uidvalidity)).unwrap_or_default()
    }

    /// Stores new identifiers, if they are many compared with the stored ones.
    pub(crate) fn keep_email_ids(&self, new: &[EmailIdEntry]) {
        if new.is_empty() || !self.place.on_disk {
            return;
        }
        let old = self.email_ids();
        if new.len() < old.0.len() / ENTRY_LEN / EMAIL_IDS_KEPT_PART {
            return;
        }
        let Ok(uids) = self.uids() else { return };
        let mut entries: Vec<EmailIdEntry> = new.iter().copied().chain(old.entries()).collect();
        // The sort is stable: of two for one message the new one stays.
        entries.sort_by_key(|(uid, ..)| *uid);
        entries.dedup_by_key(|(uid, ..)| *uid);
        entries.retain(|(uid, ..)| uids.binary_search(&uid.get()).is_ok());
        let mut out = Vec::with_capacity(HEAD_LEN + entries.len() * ENTRY_LEN);
        out.put_u32(self.snapshot.meta().uidvalidity.get());
        out.put_u32(entries.len() as u32);
        for (uid, check, id) in entries {
            out.put_u32(uid.get());
            out.put_u32(check);
            out.extend_from_slice(&id.0);
        }
        if out.len() as u64 <= EMAIL_IDS_FILE_LEN_MAX {
            self.kept_email_ids().store(out);
        }
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

    fn kept_email_ids(&self) -> DerivedSnapshot<'_> {
        DerivedSnapshot::new(&self.place, &self.snapshot, KIND.to_owned())
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

    #[test]
    fn damaged_files_are_not_read() {
        let mut bytes = Vec::new();
        bytes.put_u32(7);
        bytes.put_u32(1);
        bytes.put_u32(3);
        bytes.put_u32(9);
        bytes.extend_from_slice(&[1; ID_LEN]);
        let read = EmailIds::from_bytes(bytes.clone(), 7).unwrap();
        let id = EmailId([1; ID_LEN]);
        assert_eq!(read.entries().collect::<Vec<_>>(), [(Uid::new(3).unwrap(), 9, id)]);
        assert!(EmailIds::from_bytes(bytes.clone(), 8).is_none());
        for len in 0..bytes.len() {
            assert!(EmailIds::from_bytes(bytes[..len].to_vec(), 7).is_none(), "{len}");
        }
    }
}

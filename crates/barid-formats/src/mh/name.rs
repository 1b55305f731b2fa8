//! The name of a message, and the mark by which its file is recognised.
//!
//! A number is not an identity: `sortm` and `folder -pack` renumber messages, and the number of the
//! last message is given out again. So the location of a message stores its number and a hash of
//! inode, size and modification time, all of which a rename leaves alone: `NUMBER:MARK`, the mark
//! in hexadecimal.

use barid_state::MessageKey;
use barid_vfs::Metadata;
use xxhash_rust::xxh3::xxh3_64;

/// The number of a message.
pub(super) type Number = u32;

/// Parses a file name: decimal, without leading zeros; anything else is not a message.
pub(super) fn number(name: &[u8]) -> Option<Number> {
    if !matches!(name.first(), Some(b'1'..=b'9')) || !name.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(name).ok()?.parse().ok()
}

/// Returns the file name of a number.
pub(super) fn file_name(number: Number) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// Returns the mark by which a file is recognised, whatever its name.
pub(super) fn mark(metadata: &Metadata) -> u64 {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&metadata.inode.to_le_bytes());
    bytes[8..16].copy_from_slice(&metadata.size.to_le_bytes());
    bytes[16..].copy_from_slice(&metadata.modified.unix_nanos.to_le_bytes());
    xxh3_64(&bytes)
}

/// Returns the place of a message, as the name in its location.
pub(super) fn place(number: Number, mark: u64) -> Vec<u8> {
    format!("{number}:{mark:016x}").into_bytes()
}

/// Parses the result of [`place`].
pub(super) fn parse_place(place: &[u8]) -> Option<(Number, u64)> {
    let colon = memchr::memchr(b':', place)?;
    let digits = std::str::from_utf8(&place[colon + 1..]).ok()?;
    Some((number(&place[..colon])?, u64::from_str_radix(digits, 16).ok()?))
}

/// Returns the key of a message, which does not depend on its file: it hashes the header, without
/// the fields that mailbox formats own, and the length of the body.
pub(super) fn key(header: &[u8], size: u64) -> MessageKey {
    let body_len = size.saturating_sub(header.len() as u64);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&barid_message::header_key(header).to_le_bytes());
    bytes[8..].copy_from_slice(&body_len.to_le_bytes());
    MessageKey(xxh3_64(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_plain_decimals() {
        let check = |name: &str, expected: Option<u32>| {
            assert_eq!(number(name.as_bytes()), expected, "{name}");
        };
        check("1", Some(1));
        check("4294967295", Some(u32::MAX));
        for none in ["", "0", "01", "+1", "-1", "1a", ",1", "#1", "4294967296", ".1", "1 "] {
            check(none, None);
        }
    }

    #[test]
    fn a_place_is_read_back() {
        for (number, mark) in [(1, 0), (77, u64::MAX), (u32::MAX, 42)] {
            assert_eq!(parse_place(&place(number, mark)), Some((number, mark)));
        }
        for none in ["", "1", ":1", "x:1", "1:", "1:g"] {
            assert_eq!(parse_place(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn a_key_is_that_of_header_and_length() {
        let key = |text: &str, body: u64| key(text.as_bytes(), text.len() as u64 + body);
        assert_eq!(key("Subject: a\n\n", 5), key("Status: RO\nSubject: a\n\n", 5));
        assert_ne!(key("Subject: a\n\n", 5), key("Subject: a\n\n", 6));
        assert_ne!(key("Subject: a\n\n", 5), key("Subject: b\n\n", 5));
    }
}

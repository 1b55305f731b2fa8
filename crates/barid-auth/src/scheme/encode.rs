//! Base64 and hexadecimal forms of hashes.

use base64ct::{Base64, Base64Unpadded, Encoding as _};

/// Returns the bytes of a text in Base64, with or without its padding.
pub(crate) fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    Base64Unpadded::decode_vec(text.trim_end_matches('=')).ok()
}

/// Returns bytes in Base64 with padding.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    Base64::encode_string(bytes)
}

/// Returns the bytes of hexadecimal digits.
pub(crate) fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pair = |pair: &[u8]| u8::try_from(digit(&pair[0])? * 16 + digit(&pair[1])?).ok();
    text.chunks_exact(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_round_trip() {
        for bytes in [&b""[..], b"a", b"ab", b"abc", b"\0\xff\x80\x7f"] {
            assert_eq!(from_base64(to_base64(bytes).as_bytes()).as_deref(), Some(bytes));
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(from_hex(hex.as_bytes()).as_deref(), Some(bytes));
        }
        assert_eq!(from_base64(b"YQ").as_deref(), Some(&b"a"[..]));
        assert_eq!(from_base64(b"Y*=="), None);
        assert_eq!(from_hex(b"0"), None);
        assert_eq!(from_hex(b"0x"), None);
        assert_eq!(from_hex(b"Ff").as_deref(), Some(&b"\xff"[..]));
    }
}

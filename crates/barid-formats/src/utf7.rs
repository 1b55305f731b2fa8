//! Mailbox names in modified UTF-7 (RFC 3501 §5.1.3).

use base64::alphabet::IMAP_MUTF7;
use base64::engine::{Engine as _, GeneralPurpose, general_purpose::NO_PAD};

/// The base64 between `&` and `-`.
const SHIFTED: GeneralPurpose = GeneralPurpose::new(&IMAP_MUTF7, NO_PAD);

/// Decodes a mailbox name in modified UTF-7 (RFC 3501 §5.1.3); an invalid name is returned as it
/// is.
pub fn decode_utf7(name: &[u8]) -> String {
    try_utf7(name).unwrap_or_else(|| String::from_utf8_lossy(name).into_owned())
}

fn try_utf7(name: &[u8]) -> Option<String> {
    let mut text = String::new();
    let mut rest = name;
    while let Some((&byte, tail)) = rest.split_first() {
        match byte {
            b'&' => {
                let end = memchr::memchr(b'-', tail)?;
                match end {
                    0 => text.push('&'),
                    _ => decode_shifted(&tail[..end], &mut text)?,
                }
                rest = &tail[end + 1..];
            }
            0x20..=0x7e => {
                text.push(char::from(byte));
                rest = tail;
            }
            _ => return None,
        }
    }
    Some(text)
}

/// Decodes UTF-16 in base64 with `,` for `/` and without padding.
fn decode_shifted(shifted: &[u8], text: &mut String) -> Option<()> {
    let bytes = SHIFTED.decode(shifted).ok()?;
    let (units, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return None;
    }
    for unit in char::decode_utf16(units.iter().copied().map(u16::from_be_bytes)) {
        text.push(unit.ok()?);
    }
    Some(())
}

/// Encodes a mailbox name.
pub(crate) fn encode_utf7(name: &str) -> String {
    let (mut text, mut shifted): (String, Vec<u16>) = Default::default();
    for c in name.chars() {
        if !matches!(c, ' '..='~') {
            shifted.extend_from_slice(c.encode_utf16(&mut [0; 2]));
            continue;
        }
        encode_shifted(&std::mem::take(&mut shifted), &mut text);
        text.push(c);
        if c == '&' {
            text.push('-');
        }
    }
    encode_shifted(&shifted, &mut text);
    text
}

/// Encodes UTF-16 in base64 with `,` for `/` and without padding, between `&` and `-`.
fn encode_shifted(units: &[u16], text: &mut String) {
    if units.is_empty() {
        return;
    }
    let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
    text.push('&');
    SHIFTED.encode_string(bytes, text);
    text.push('-');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_modified_utf7() {
        for (name, expected) in [
            ("INBOX", "INBOX"),
            ("&AOQ-x", "äx"),
            ("a&-b", "a&b"),
            ("~peter/mail/&ZeVnLIqe-/&U,BTFw-", "~peter/mail/日本語/台北"),
            ("&", "&"),
            ("&!!!-", "&!!!-"),
            ("&2AA-", "&2AA-"),
            // Digits of a byte and a half, bits that are not zero at the end, padding.
            ("&AOQA-", "&AOQA-"),
            ("&AOR-", "&AOR-"),
            ("&AOQ=-", "&AOQ=-"),
            ("&A-", "&A-"),
        ] {
            assert_eq!(decode_utf7(name.as_bytes()), expected);
        }
        assert_eq!(decode_utf7("ä".as_bytes()), "ä");
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for name in ["INBOX", "Entwürfe", "a&b", "日本語/台北", "𝄞 x", "ä", "äö", "äöü", "~&~"]
        {
            let encoded = encode_utf7(name);
            assert!(encoded.is_ascii());
            assert_eq!(decode_utf7(encoded.as_bytes()), name);
        }
        assert_eq!(encode_utf7("~peter/mail/日本語/台北"), "~peter/mail/&ZeVnLIqe-/&U,BTFw-");
        assert_eq!(encode_utf7("Entwürfe"), "Entw&APw-rfe");
    }
}

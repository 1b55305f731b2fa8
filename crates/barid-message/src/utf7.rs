//! Mailbox names in modified UTF-7 (RFC 3501 §5.1.3).

/// Decodes a mailbox name in modified UTF-7 (RFC 3501 §5.1.3); `None` if it is not valid. Names
/// that [`encode_utf7`] would write otherwise are valid, such as `&AGE-` for `a`.
pub fn decode_utf7(name: &[u8]) -> Option<String> {
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
    let (mut bits, mut len) = (0_u32, 0);
    let mut units = Vec::new();
    for &byte in shifted {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b',' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        len += 6;
        if len >= 16 {
            len -= 16;
            units.push((bits >> len) as u16);
            bits &= (1 << len) - 1;
        }
    }
    if len >= 6 || bits != 0 {
        return None;
    }
    for unit in char::decode_utf16(units) {
        text.push(unit.ok()?);
    }
    Some(())
}

/// Encodes a mailbox name in modified UTF-7 (RFC 3501 §5.1.3).
pub fn encode_utf7(name: &str) -> String {
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
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+,";
    if units.is_empty() {
        return;
    }
    text.push('&');
    let (mut bits, mut len) = (0_u32, 0);
    for unit in units {
        bits = bits << 16 | u32::from(*unit);
        len += 16;
        while len >= 6 {
            len -= 6;
            text.push(char::from(DIGITS[(bits >> len & 63) as usize]));
        }
        bits &= (1 << len) - 1;
    }
    if len > 0 {
        text.push(char::from(DIGITS[(bits << (6 - len) & 63) as usize]));
    }
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
            ("&AGE-", "a"),
        ] {
            assert_eq!(decode_utf7(name.as_bytes()).as_deref(), Some(expected));
        }
        for bad in ["&", "&!!!-", "&2AA-", "&AOR-", "&A-", "\t", "ä"] {
            assert_eq!(decode_utf7(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for name in ["INBOX", "Entwürfe", "a&b", "日本語/台北", "𝄞 x", "ä", "äö", "äöü", "~&~"]
        {
            let encoded = encode_utf7(name);
            assert!(encoded.is_ascii());
            assert_eq!(decode_utf7(encoded.as_bytes()).as_deref(), Some(name));
        }
        assert_eq!(encode_utf7("~peter/mail/日本語/台北"), "~peter/mail/&ZeVnLIqe-/&U,BTFw-");
        assert_eq!(encode_utf7("Entwürfe"), "Entw&APw-rfe");
    }
}

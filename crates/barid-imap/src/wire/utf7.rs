//! Mailbox names in modified UTF-7 (RFC 3501 §5.1.3).

/// Decodes a mailbox name in modified UTF-7; `None` if it is not valid.
pub(crate) fn decode_utf7(name: &[u8]) -> Option<String> {
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

/// Encodes a mailbox name in modified UTF-7.
pub(crate) fn encode_utf7(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let is_plain = |c: char| (' '..='~').contains(&c);
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let len = rest.find(|c| is_plain(c) != is_plain(first)).unwrap_or(rest.len());
        let (run, tail) = rest.split_at(len);
        match is_plain(first) {
            true => text.push_str(&run.replace('&', "&-")),
            false => encode_shifted(run, &mut text),
        }
        rest = tail;
    }
    text
}

fn encode_shifted(run: &str, text: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+,";
    text.push('&');
    let (mut bits, mut len) = (0_u32, 0);
    for unit in run.encode_utf16() {
        (bits, len) = (bits << 16 | u32::from(unit), len + 16);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_and_decoded() {
        let check = |name: &str, encoded: &str| {
            assert_eq!(encode_utf7(name), encoded);
            assert_eq!(decode_utf7(encoded.as_bytes()).as_deref(), Some(name));
        };
        check("Entw\u{fc}rfe", "Entw&APw-rfe");
        check("a & b", "a &- b");
        check(
            "~peter/mail/\u{53f0}\u{5317}/\u{65e5}\u{672c}\u{8a9e}",
            "~peter/mail/&U,BTFw-/&ZeVnLIqe-",
        );
        check("\u{1f4e7}x\u{1f4e7}", "&2D3c5w-x&2D3c5w-");
        check("", "");
    }
}

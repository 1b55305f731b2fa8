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

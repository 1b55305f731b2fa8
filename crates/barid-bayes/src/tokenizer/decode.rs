//! Transfer encodings, decoded a line at a time; broken lines are read as bogofilter reads them.

/// Value of bytes that occur in no line of base64.
const NO_DIGIT: u8 = 0xFF;
/// Value of `=`, which ends base64.
const PAD: u8 = 0x7F;

static BASE64: [u8; 256] = {
    let mut table = barid_charset::base64_values(NO_DIGIT);
    // Line ends inside a group count as zeros, a NUL as one bit too many.
    table[b'\n' as usize] = 0;
    table[b'\r' as usize] = 0;
    table[0] = 64;
    table[b'=' as usize] = PAD;
    table
};

/// Decodes a line of base64 to the end of `to`, broken groups as bogofilter decodes them. Returns
/// `false` if the line has any other byte.
pub(super) fn base64(line: &[u8], to: &mut Vec<u8>) -> bool {
    if line.iter().any(|&byte| BASE64[usize::from(byte)] == NO_DIGIT) {
        return false;
    }
    let (mut at, mut left) = (0, line.len());
    loop {
        while left > 0 && matches!(line[at], b'\r' | b'\n') {
            at += 1;
            left -= 1;
        }
        if left < 4 {
            return true;
        }
        left -= 4;
        at += group(&line[at..], to);
    }
}

/// Decodes a group of four digits. Returns the number of bytes that it takes, fewer than four if
/// padding comes too early.
fn group(digits: &[u8], to: &mut Vec<u8>) -> usize {
    let mut value = 0_u32;
    for (index, &digit) in digits.iter().take(4).enumerate() {
        let digit = BASE64[usize::from(digit)];
        if digit == PAD {
            match index {
                2 => to.push((value >> 4) as u8),
                3 => to.extend_from_slice(&[(value >> 10) as u8, (value >> 2) as u8]),
                _ => {}
            }
            return if index == 2 { 4 } else { index + 1 };
        }
        value = value << 6 | u32::from(digit);
    }
    to.extend_from_slice(&[(value >> 16) as u8, (value >> 8) as u8, value as u8]);
    4
}

/// Decodes quoted-printable (RFC 2045 §6.7) to the end of `to`, invalid escapes as they are; in an
/// encoded word (RFC 2047 §4.2) `_` is a space and no line end can be escaped.
pub(super) fn quoted_printable(text: &[u8], in_word: bool, to: &mut Vec<u8>) {
    let mut rest = text;
    let next = |rest: &[u8]| match in_word {
        true => memchr::memchr2(b'=', b'_', rest),
        false => memchr::memchr(b'=', rest),
    };
    while let Some(at) = next(rest) {
        to.extend_from_slice(&rest[..at]);
        let mark = rest[at];
        rest = &rest[at + 1..];
        if mark == b'_' {
            to.push(b' ');
            continue;
        }
        rest = match *rest {
            [b'\n', ref rest @ ..] | [b'\r', b'\n', ref rest @ ..] if !in_word => rest,
            [high, low, ref after @ ..] => match (hex(high), hex(low)) {
                (Some(high), Some(low)) => {
                    to.push(high << 4 | low);
                    after
                }
                _ => {
                    to.push(b'=');
                    rest
                }
            },
            _ => {
                to.push(b'=');
                rest
            }
        };
    }
    to.extend_from_slice(rest);
}

/// Returns `true` if the text of an encoded word can be in Q encoding: visible ASCII except `?`.
pub(super) fn is_quoted_word(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b'!'..=b'~') && *byte != b'?')
}

/// Returns the value of a hexadecimal digit.
pub(super) fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// Decodes a line of uuencoded text to the end of `to`: the count in front is ignored, and up to
/// four bytes at the end are copied. Returns `false` for lines that are not decoded.
pub(super) fn uuencode(line: &[u8], to: &mut Vec<u8>) -> bool {
    let starts =
        |word: &[u8]| line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let Some((&count, mut rest)) = line.split_first() else { return false };
    if count & 0x7F < b' ' || starts(b"begin ") || starts(b"end") {
        return false;
    }
    while rest.len() > 4 {
        let (group, after) = rest.split_at(4);
        let value = group
            .iter()
            .fold(0_u32, |value, &byte| value << 6 | u32::from(byte.wrapping_sub(b' ') & 0x3F));
        to.extend_from_slice(&[(value >> 16) as u8, (value >> 8) as u8, value as u8]);
        rest = after;
    }
    to.extend_from_slice(rest);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_base64(line: &[u8], expected: Option<&[u8]>) {
        let mut to = Vec::new();
        let is_base64 = base64(line, &mut to);
        assert_eq!(is_base64.then_some(&to[..]), expected, "{line:?}");
    }

    #[test]
    fn base64_lines() {
        check_base64(b"aGVsbG8=\n", Some(b"hello"));
        check_base64(b"aGVsbA==\r\n", Some(b"hell"));
        check_base64(b"aGVsbG8gd29y\r\nbGQ=\n", Some(b"hello world"));
        check_base64(b"aGVsbG8gd29ybG\n", Some(b"hello wor"));
        check_base64(b"aGVs bG8=\n", None);
        check_base64(b"====\n", Some(b""));
    }

    fn check_quoted(text: &[u8], in_word: bool, expected: &[u8]) {
        let mut to = Vec::new();
        quoted_printable(text, in_word, &mut to);
        assert_eq!(to, expected, "{text:?}");
    }

    #[test]
    fn quoted_printable_lines() {
        check_quoted(b"caf=E9 =3d=zz =\r\n", false, b"caf\xE9 ==zz ");
        check_quoted(b"a_b=20c=", true, b"a b c=");
        check_quoted(b"a_b=\n", false, b"a_b");
        check_quoted(b"a=4", false, b"a=4");
    }

    #[test]
    fn uuencoded_lines() {
        let mut to = Vec::new();
        assert!(uuencode(b"#0V%T\n", &mut to));
        assert_eq!(to, b"Cat\n");
        to.clear();
        assert!(uuencode(b"#0V%T", &mut to));
        assert_eq!(to, b"0V%T");
        assert!(!uuencode(b"begin 644 cat.txt\n", &mut to));
        assert!(!uuencode(b"end\n", &mut to));
    }
}

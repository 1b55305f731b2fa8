//! Escaping of mail texts, so that they cannot control a terminal.
//!
//! C0 controls and DEL appear in caret notation (`^[`), other characters that move, hide or reorder
//! their surroundings as their code point (`<U+202E>`). Bytes that are not UTF-8 become U+FFFD.

/// The white space that stays in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// The text is one line: line ends, tabs and runs of white space become one space each.
    OneLine,
    /// The text has lines: line feeds and tabs stay, carriage returns before a line feed go.
    Lines,
}

/// Returns `true` if a character beyond ASCII is a control instead of a visible character: C1
/// controls, line and paragraph separators, bidirectional marks, embeddings, overrides and isolates
/// (UAX #9), and interlinear annotation.
pub(crate) const fn steers(c: char) -> bool {
    matches!(c, '\u{80}'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// Appends `text` to `out` with all controls made visible.
pub(crate) fn write_visible(out: &mut Vec<u8>, text: &[u8], space: Space) {
    for chunk in text.utf8_chunks() {
        write_visible_str(out, chunk.valid(), space);
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

/// Does the same as [`write_visible`], for text known to be UTF-8.
pub(crate) fn write_visible_str(out: &mut Vec<u8>, text: &str, space: Space) {
    let bytes = text.as_bytes();
    let mut rest = 0;
    while let Some(len) = bytes[rest..].iter().position(|byte| !(b'!'..0x7f).contains(byte)) {
        out.extend_from_slice(&bytes[rest..rest + len]);
        rest += len;
        rest += match bytes[rest] {
            b' ' | b'\t' | b'\r' | b'\n' => write_space(out, &bytes[rest..], space),
            control @ (0..=0x1f | 0x7f) => {
                out.extend_from_slice(&[b'^', control ^ 0x40]);
                1
            }
            _ => write_wide(out, &text[rest..]),
        };
    }
    out.extend_from_slice(&bytes[rest..]);
}

/// Writes the white space at the start of `bytes`; returns the number of bytes consumed.
fn write_space(out: &mut Vec<u8>, bytes: &[u8], space: Space) -> usize {
    match space {
        Space::OneLine => {
            out.push(b' ');
            let end = bytes.iter().position(|byte| !b" \t\r\n".contains(byte));
            end.unwrap_or(bytes.len())
        }
        Space::Lines if bytes[0] == b'\r' => {
            if bytes.get(1) != Some(&b'\n') {
                out.extend_from_slice(b"^M");
            }
            1
        }
        Space::Lines => {
            out.push(bytes[0]);
            1
        }
    }
}

/// Writes the run of characters beyond ASCII at the start of `text`; returns its length in bytes.
fn write_wide(out: &mut Vec<u8>, text: &str) -> usize {
    let end = text.find(|c: char| c.is_ascii()).unwrap_or(text.len());
    for c in text[..end].chars() {
        if steers(c) {
            out.extend_from_slice(format!("<U+{:04X}>", c as u32).as_bytes());
        } else {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    end
}

/// Returns `text` on one line with all controls made visible.
pub(crate) fn visible(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    write_visible(&mut out, text, Space::OneLine);
    String::from_utf8(out).expect("because write_visible writes UTF-8 only")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], one_line: &str, lines: &str) {
        for (space, expected) in [(Space::OneLine, one_line), (Space::Lines, lines)] {
            let mut out = Vec::new();
            write_visible(&mut out, input, space);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{space:?}");
        }
    }

    #[test]
    fn control_characters_become_visible() {
        check(b"plain text", "plain text", "plain text");
        check(b"\x1b[31mred\x07\0\x7f", "^[[31mred^G^@^?", "^[[31mred^G^@^?");
        check("\u{9b}2J".as_bytes(), "<U+009B>2J", "<U+009B>2J");
        check("a\u{202e}b\u{2066}".as_bytes(), "a<U+202E>b<U+2066>", "a<U+202E>b<U+2066>");
    }

    #[test]
    fn white_space_keeps_its_place() {
        check(b"a\r\n b\tc", "a b c", "a\n b\tc");
        check(b"a\rb", "a b", "a^Mb");
        check(b" \r\n", " ", " \n");
    }

    #[test]
    fn text_of_the_world_stays() {
        let text = "Grüße, 日本語 👩\u{200d}💻";
        check(text.as_bytes(), text, text);
        check(b"caf\xe9 ol\xc3", "caf\u{fffd} ol\u{fffd}", "caf\u{fffd} ol\u{fffd}");
    }

    #[test]
    fn nothing_written_can_steer() {
        let mut random = 1_u64;
        for _ in 0..200 {
            let mut bytes = [0; 64];
            for byte in &mut bytes {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (random >> 56) as u8;
            }
            let text = visible(&bytes);
            assert!(!text.chars().any(|c| c.is_control() || steers(c)), "{text:?}");
        }
    }
}

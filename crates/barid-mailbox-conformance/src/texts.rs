//! Messages for the checks.

use barid_message::strip_owned;
use fastrand::Rng;

/// Makes message `number`, with LF; its header is that of no other number, and its body is random.
pub fn text(number: u32, rng: &mut Rng) -> Vec<u8> {
    let mut text = format!("Subject: message {number}\nMessage-ID: <{number}@example.org>\n\n");
    let lines = if rng.u32(..16) == 0 { rng.usize(..2_000) } else { rng.usize(..30) };
    for _ in 0..lines {
        let line = rng.choice(LINES).copied().unwrap_or_default();
        text.push_str(line);
        text.push('\n');
    }
    text.push_str("the end\n");
    text.into_bytes()
}

/// Returns the bytes that every backend preserves: without the fields that formats own, and with
/// LF.
pub fn canonical(text: &[u8]) -> Vec<u8> {
    let own = strip_owned(text);
    let mut canonical = Vec::with_capacity(own.len());
    let mut in_header = true;
    for line in own.split_inclusive(|byte| *byte == b'\n') {
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        in_header &= !content.is_empty();
        // Written by some variants of mbox.
        if !(in_header && content.to_ascii_lowercase().starts_with(b"content-length:")) {
            canonical.extend_from_slice(content);
            canonical.push(b'\n');
        }
    }
    canonical
}

/// Lines of bodies; none begins with `From `, which some variants of mbox cannot preserve.
const LINES: &[&str] = &[
    "",
    "a line of the text",
    "caf\u{e9}, 8-bit text that no header announces",
    ".",
    "Status: RO",
    "\u{1}\u{1}\u{1} not a separator",
    " From me, with a space before it",
    "a longer line, 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 012345",
];

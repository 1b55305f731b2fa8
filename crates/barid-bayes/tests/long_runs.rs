//! Very long words, which fill bogofilter's buffer: the tokenizer stops reading where it does.

use barid_testkit::peers::Bogofilter;
use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::peer;

/// Texts that are repeated, and their charset.
const TEXTS: [(&[u8], &str); 6] = [
    ("\u{e9}".as_bytes(), "utf-8"),
    ("\u{4f60}\u{597d}".as_bytes(), "utf-8"),
    ("a\u{1f600}".as_bytes(), "utf-8"),
    (b"\xE9", "iso-8859-1"),
    (b"\xC4\xE3", "gb2312"),
    (b"\xE9", "us-ascii"),
];

/// Lengths of the word in bytes, around those at which bogofilter's buffer is full.
const LENGTHS: [usize; 8] = [8_191, 16_372, 16_377, 16_384, 16_390, 16_401, 16_500, 32_768];

fn base64(bytes: &[u8], width: usize) -> Vec<u8> {
    let digits = BASE64_STANDARD.encode(bytes).into_bytes();
    let lines: Vec<&[u8]> = digits.chunks(width).collect();
    lines.join(&b'\n')
}

fn quoted(bytes: &[u8], width: usize) -> Vec<u8> {
    let lines: Vec<String> = bytes
        .chunks(width / 3)
        .map(|line| line.iter().map(|byte| format!("={byte:02X}")).collect::<String>() + "=")
        .collect();
    lines.join("\n").into_bytes()
}

#[test]
fn runs_without_end() {
    let Some(peer) = Bogofilter::new() else { return };
    let (mut messages, mut tokens, mut lost) = (0, 0, 0);
    for (text, charset) in TEXTS {
        for (at, len) in LENGTHS.into_iter().enumerate() {
            let run = text.repeat(len.div_ceil(text.len()));
            let body = [b"before ", &run[..], b" behind the run\n"].concat();
            // Lines of decoded bytes that are even, odd, and few.
            let mut encoded = vec![("quoted-printable", quoted(&body, 72))];
            encoded
                .extend([76, 60, 4 + 4 * (at % 3)].map(|width| ("base64", base64(&body, width))));
            for (name, encoded) in encoded {
                let head = format!(
                    "Content-Type: text/plain; charset={charset}\n\
                     Content-Transfer-Encoding: {name}\n\n"
                );
                let message = [head.as_bytes(), &encoded, b"\n\nlast line\n"].concat();
                let count = peer::check(&peer, &[], &message, &format!("{charset} {name} {len}"));
                (messages, tokens) = (messages + 1, tokens + count);
                lost += usize::from(count < 10);
            }
        }
    }
    eprintln!("{messages} messages, {tokens} tokens, all equal; {lost} are cut short");
    assert!(messages >= 190 && lost >= 10, "{messages} {lost}");
}

//! Prepared text for bodies.

use std::fmt::Write;

use base64::alphabet::STANDARD;

use super::names::{FOREIGN_WORDS, WORDS};
use super::random::{self, Random};

/// Length of a prepared text in bytes.
const TEXT_LEN: usize = 1 << 18;
/// Lines are broken at about this width.
const LINE_LEN: u64 = 68;

/// A text and the offsets of its lines.
#[derive(Debug)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// Offset of each line, and the end.
    starts: Vec<u32>,
}

impl Lines {
    fn new(text: String) -> Self {
        let bytes = text.into_bytes();
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at as u32 + 1)).collect();
        Self { bytes, starts }
    }

    /// Returns a run of `count` lines, or a little less at the end of the text.
    pub(crate) fn run(&self, random: &mut Random, count: usize) -> &[u8] {
        let first = random.below(self.starts.len() as u64 - 1) as usize;
        let last = (first + count).min(self.starts.len() - 1);
        &self.bytes[self.starts[first] as usize..self.starts[last] as usize]
    }
}

/// All prepared texts.
#[derive(Debug)]
pub(crate) struct Texts {
    /// ASCII prose.
    pub(crate) plain: Lines,
    /// UTF-8 prose.
    pub(crate) utf8: Lines,
    /// The same in quoted-printable.
    pub(crate) quoted_printable: Lines,
    /// Lines of base64.
    pub(crate) base64: Lines,
    /// A patch.
    pub(crate) diff: Lines,
}

impl Texts {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, 0, random::MESSAGE);
        let utf8 = prose(&mut random, &FOREIGN_WORDS);
        let quoted = quoted_printable(&utf8);
        Self {
            plain: Lines::new(prose(&mut random, &[])),
            utf8: Lines::new(utf8),
            quoted_printable: Lines::new(quoted),
            base64: Lines::new(base64(&mut random)),
            diff: Lines::new(diff(&mut random)),
        }
    }
}

fn prose(random: &mut Random, foreign: &[&str]) -> String {
    let mut text = String::with_capacity(TEXT_LEN + 128);
    while text.len() < TEXT_LEN {
        let line_end = text.len() + (random.below(20) + LINE_LEN - 16) as usize;
        let mut separator = "";
        while text.len() < line_end {
            let from_foreign = !foreign.is_empty() && random.per_mille(300);
            text.push_str(separator);
            text.push_str(if from_foreign { random.pick(foreign) } else { random.pick(&WORDS) });
            separator = if random.per_mille(60) { ", " } else { " " };
        }
        text.push('\n');
    }
    text
}

fn quoted_printable(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() * 2);
    for line in text.lines() {
        let mut column = 0;
        for byte in line.bytes() {
            if column > 70 {
                quoted.push_str("=\n");
                column = 0;
            }
            if byte == b'=' || !(b' '..0x7f).contains(&byte) {
                write!(quoted, "={byte:02X}").expect("because writing to a string does not fail");
                column += 3;
            } else {
                quoted.push(byte as char);
                column += 1;
            }
        }
        quoted.push('\n');
    }
    quoted
}

/// Returns lines of 76 characters, each decoding to 57 bytes.
fn base64(random: &mut Random) -> String {
    let mut text = String::with_capacity(TEXT_LEN + 128);
    while text.len() < TEXT_LEN {
        push_base64(random, 76, &mut text);
        text.push('\n');
    }
    text
}

/// Appends `len` digits of base64.
pub(crate) fn push_base64(random: &mut Random, len: usize, text: &mut String) {
    let digits = STANDARD.as_str().as_bytes();
    let mut bits = 0;
    for i in 0..len {
        if i % 10 == 0 {
            bits = random.u64();
        }
        text.push(digits[bits as usize & 63] as char);
        bits >>= 6;
    }
}

fn diff(random: &mut Random) -> String {
    let mut text = String::with_capacity(TEXT_LEN + 128);
    while text.len() < TEXT_LEN {
        let line = random.below(2_000);
        let name = random.pick(&WORDS);
        let head = format!("--- a/{name}.c\n+++ b/{name}.c\n@@ -{line},7 +{line},9 @@\n");
        text.push_str(&head);
        for _ in 0..random.below(12) {
            text.push_str(random.pick(&[" ", " ", "+", "-"]));
            for _ in 0..2 + random.below(6) {
                text.push_str(random.pick(&WORDS));
                text.push_str(random.pick(&[" = ", "(", ", ", "->", ");", " "]));
            }
            text.push('\n');
        }
    }
    text
}

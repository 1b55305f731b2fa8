//! Classes of bytes. Bytes from 0x80 on count as letters, whatever the charset.

use super::work;

pub(super) const FRONT: u16 = 1;
pub(super) const MID: u16 = 2;
pub(super) const BACK: u16 = 4;
pub(super) const BLANK: u16 = 8;
pub(super) const BOUNDARY: u16 = 16;
pub(super) const ALNUM: u16 = 32;
pub(super) const HEX: u16 = 64;
/// Bytes that begin no word and no rule: in any state, in text, in HTML, and in tags. `-` is in the
/// last three, although it begins a rule at the start of a line and in strict comments.
pub(super) const IDLE: u16 = 128;
pub(super) const IDLE_TEXT: u16 = 256;
pub(super) const IDLE_HTML: u16 = 512;
pub(super) const IDLE_TAG: u16 = 1024;

static CLASSES: [u16; 256] = classes();

/// Returns `true` if a byte is in any of the classes.
#[inline]
pub(super) fn is(byte: u8, classes: u16) -> bool {
    CLASSES[usize::from(byte)] & classes != 0
}

/// Returns the length of the run of bytes at the start of `text` that are in any of the classes.
#[inline]
pub(super) fn run(text: &[u8], classes: u16) -> usize {
    let len = text.iter().position(|&byte| !is(byte, classes)).unwrap_or(text.len());
    work::note(len + 1);
    len
}

const fn classes() -> [u16; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let byte = index as u8;
        let letter = byte.is_ascii_alphabetic() || byte >= 0x80;
        let mut class = 0;
        if letter {
            class |= FRONT;
        }
        if letter || byte.is_ascii_digit() || matches!(byte, b'!') {
            class |= MID | BACK;
        }
        if matches!(byte, b'\'' | b'-' | b'.' | b'_' | b'~' | b'`') {
            class |= MID;
        }
        if matches!(byte, b' ' | b'\t') {
            class |= BLANK;
        }
        if byte.is_ascii_alphanumeric() || is_boundary_mark(byte) {
            class |= BOUNDARY;
        }
        if byte.is_ascii_alphanumeric() {
            class |= ALNUM;
        }
        if byte.is_ascii_hexdigit() {
            class |= HEX;
        }
        if !letter && !byte.is_ascii_digit() && !is_mark(byte) {
            class |= IDLE | IDLE_TEXT | IDLE_HTML | IDLE_TAG;
        }
        if matches!(byte, b' ' | b'\t' | b'=' | b'-') {
            class |= IDLE_TEXT | IDLE_HTML | IDLE_TAG;
        }
        if matches!(byte, b'>' | b'/') {
            class |= IDLE_TEXT | IDLE_HTML;
        }
        if matches!(byte, b'&') {
            class |= IDLE_TEXT | IDLE_TAG;
        }
        table[index] = class;
        index += 1;
    }
    table
}

const fn is_boundary_mark(byte: u8) -> bool {
    matches!(byte, b'(' | b')' | b'+' | b'_' | b',' | b'-' | b'.' | b'/' | b':' | b'=' | b'?')
        || matches!(byte, b'#' | b'\'' | b' ')
}

/// Returns `true` for bytes other than letters and digits with which some rule begins.
const fn is_mark(byte: u8) -> bool {
    matches!(byte, b'\n' | b'<' | b'>' | b'[' | b'$' | b'-' | b'=' | b' ' | b'\t' | b'&' | b'/')
}

/// Returns the length of the run of [`MID`] bytes at the start of `text`, and the length up to the
/// last [`BACK`] byte in it.
#[inline]
pub(super) fn word(text: &[u8]) -> (usize, usize) {
    let mut back = 0;
    for (index, &byte) in text.iter().enumerate() {
        let class = CLASSES[usize::from(byte)];
        if class & MID == 0 {
            work::note(index + 1);
            return (index, back);
        }
        if class & BACK != 0 {
            back = index + 1;
        }
    }
    work::note(text.len() + 1);
    (text.len(), back)
}

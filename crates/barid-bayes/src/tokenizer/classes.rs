//! Classes of bytes. Bytes from 0x80 on count as letters, whatever the charset.

pub(super) const FRONT: u8 = 1;
pub(super) const MID: u8 = 2;
pub(super) const BACK: u8 = 4;
pub(super) const BLANK: u8 = 8;
pub(super) const BOUNDARY: u8 = 16;
pub(super) const ALNUM: u8 = 32;
pub(super) const HEX: u8 = 64;
/// Of no meaning by itself in any state, at no place of a line.
pub(super) const IDLE: u8 = 128;

static CLASSES: [u8; 256] = classes();

/// Whether a byte is in one of the classes.
#[inline]
pub(super) fn is(byte: u8, classes: u8) -> bool {
    CLASSES[usize::from(byte)] & classes != 0
}

/// The length of the run of bytes in the classes at the start of `text`.
#[inline]
pub(super) fn run(text: &[u8], classes: u8) -> usize {
    text.iter().position(|&byte| !is(byte, classes)).unwrap_or(text.len())
}

const fn classes() -> [u8; 256] {
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
            class |= IDLE;
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

/// What some rule begins with.
const fn is_mark(byte: u8) -> bool {
    matches!(byte, b'\n' | b'<' | b'>' | b'[' | b'$' | b'-' | b'=' | b' ' | b'\t' | b'&' | b'/')
}

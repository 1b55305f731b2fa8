//! Texts of capitals and digits in two thirds of their length.
//!
//! Terms of fields that only programs read are mostly unlike any other, in letters and digits at
//! random: there is nothing to compress but that a byte has few values. Three of 40 values fit into
//! 16 bits. A text is cut into three parts of equal length, and the words hold the bytes of the
//! parts at the same place, so that unpacking is the same few operations on many words at once.

use crate::terms::{CUT, END};

/// Values of a byte.
const VALUES: u16 = 40;
const LETTERS: u16 = 10;
const OF_END: u16 = LETTERS + 26;
const OF_CUT: u16 = OF_END + 1;
/// Beyond the end of the text in the last part.
const OF_NOTHING: u16 = OF_CUT + 1;

fn value_of(byte: u8) -> Option<u16> {
    Some(match byte {
        b'0'..=b'9' => u16::from(byte - b'0'),
        b'A'..=b'Z' => u16::from(byte - b'A') + LETTERS,
        END => OF_END,
        CUT => OF_CUT,
        _ => return None,
    })
}

fn byte_of(value: u16) -> u8 {
    // Without branches, so that many are computed at once.
    let digit = b'0' + value as u8;
    let letter = b'A'.wrapping_add((value as u8).wrapping_sub(LETTERS as u8));
    let other = (value as u8).wrapping_sub(OF_END as u8);
    let plain = if value < LETTERS { digit } else { letter };
    if value < OF_END { plain } else { other }
}

/// Appends a text as words of 2 bytes; `false`, with nothing appended, if it has other bytes.
pub(crate) fn pack(text: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let third = text.len().div_ceil(3);
    let value = |at: usize| text.get(at).map_or(Some(OF_NOTHING), |byte| value_of(*byte));
    for at in 0..third {
        let (Some(one), Some(two), Some(three)) =
            (value(at), value(at + third), value(at + 2 * third))
        else {
            out.truncate(start);
            return false;
        };
        let word = (one * VALUES + two) * VALUES + three;
        out.extend_from_slice(&word.to_le_bytes());
    }
    true
}

/// Returns the number of bytes that a text of `len` bytes takes.
pub(crate) fn packed_len(len: usize) -> usize {
    len.div_ceil(3) * 2
}

/// Replaces `text` by the text of `len` bytes that `packed` holds.
pub(crate) fn unpack(packed: &[u8], len: usize, text: &mut Vec<u8>) {
    let third = len.div_ceil(3);
    text.resize(3 * third, END);
    let (one, rest) = text.split_at_mut(third);
    let (two, three) = rest.split_at_mut(third);
    let words = packed.chunks_exact(2).map(|word| u16::from_le_bytes([word[0], word[1]]));
    for (((word, one), two), three) in words.zip(one).zip(two).zip(three) {
        let upper = word / VALUES;
        *one = byte_of(upper / VALUES);
        *two = byte_of(upper % VALUES);
        *three = byte_of(word % VALUES);
    }
    text.truncate(len);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_unpacked_as_they_were_packed() {
        let mut random = fastrand::Rng::with_seed(3);
        let bytes = [b'0', b'9', b'A', b'Z', b'Q', END, CUT];
        for len in (0..200).chain([65_536]) {
            let text: Vec<u8> = (0..len).map(|_| bytes[random.usize(..bytes.len())]).collect();
            let mut packed = Vec::new();
            assert!(pack(&text, &mut packed));
            assert_eq!(packed.len(), packed_len(len));
            let mut out = vec![1; 7];
            unpack(&packed, len, &mut out);
            assert_eq!(out, text);
        }
        let mut packed = vec![1];
        assert!(!pack("AB\u{e9}".as_bytes(), &mut packed));
        assert_eq!(packed, [1]);
    }
}

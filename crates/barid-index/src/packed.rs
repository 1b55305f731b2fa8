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
/// Number of words that are unpacked at once.
const AT_ONCE: usize = 32;

fn value_of(byte: u8) -> Option<u16> {
    Some(match byte {
        b'0'..=b'9' => u16::from(byte - b'0'),
        b'A'..=b'Z' => u16::from(byte - b'A') + LETTERS,
        END => OF_END,
        CUT => OF_CUT,
        _ => return None,
    })
}

/// Computes without branches, so that many are computed at once.
#[inline(always)]
fn byte_of(value: u16) -> u8 {
    let value = value as u8;
    let digit = b'0'.wrapping_add(value);
    let letter = (b'A' - LETTERS as u8).wrapping_add(value);
    let other = value.wrapping_sub(OF_END as u8);
    let plain = if value < LETTERS as u8 { digit } else { letter };
    if value < OF_END as u8 { plain } else { other }
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

/// Replaces `text` by the text of `len` bytes that `packed` holds. About 3 GB a second.
pub(crate) fn unpack(packed: &[u8], len: usize, text: &mut Vec<u8>) {
    let third = len.div_ceil(3);
    text.resize(3 * third, END);
    let (mut one, rest) = text.split_at_mut(third);
    let (mut two, mut three) = rest.split_at_mut(third);
    let (many, few) = packed.as_chunks::<{ 2 * AT_ONCE }>();
    for words in many {
        let (first, second, third);
        (first, one) = one.split_at_mut(AT_ONCE);
        (second, two) = two.split_at_mut(AT_ONCE);
        (third, three) = three.split_at_mut(AT_ONCE);
        unpack_words(words, first, second, third);
    }
    let mut last = [0; 2 * AT_ONCE];
    last[..few.len()].copy_from_slice(few);
    let mut ends = [[0; AT_ONCE]; 3];
    let [first, second, third] = &mut ends;
    unpack_words(&last, first, second, third);
    for (part, end) in [one, two, three].into_iter().zip(ends) {
        part.copy_from_slice(&end[..part.len()]);
    }
    text.truncate(len);
}

/// Unpacks some words into the same place of the three parts: one loop for each step, which
/// compilers turn into operations on many words.
#[inline(always)]
fn unpack_words(packed: &[u8; 2 * AT_ONCE], one: &mut [u8], two: &mut [u8], three: &mut [u8]) {
    let (mut words, mut uppers, mut tops) = ([0_u16; AT_ONCE], [0; AT_ONCE], [0; AT_ONCE]);
    for (word, bytes) in words.iter_mut().zip(packed.as_chunks::<2>().0) {
        *word = u16::from_le_bytes(*bytes);
    }
    for (upper, word) in uppers.iter_mut().zip(&words) {
        *upper = word / VALUES;
    }
    for (top, upper) in tops.iter_mut().zip(&uppers) {
        *top = upper / VALUES;
    }
    for (byte, top) in one.iter_mut().zip(&tops) {
        *byte = byte_of(*top);
    }
    for (byte, (upper, top)) in two.iter_mut().zip(uppers.iter().zip(&tops)) {
        *byte = byte_of(upper.wrapping_sub(top.wrapping_mul(VALUES)));
    }
    for (byte, (word, upper)) in three.iter_mut().zip(words.iter().zip(&uppers)) {
        *byte = byte_of(word.wrapping_sub(upper.wrapping_mul(VALUES)));
    }
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

//! Inputs made from seeds and a number.

use fastrand::Rng;
use xxhash_rust::xxh3::xxh3_64;

use crate::Target;
use crate::limits::{COPIES_MAX, INPUT_LEN_MAX, MUTATIONS_MAX};

/// Numbers at which lengths, counts and offsets are likely to be handled wrongly.
const NUMBERS: [u64; 16] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
];
/// Bytes with a meaning in most grammars.
const SIGNS: &[u8] = b"()<>[]{}\"'\\,;:.@=?_*%/-+!#&|~^$ \t\r\n\0\x01\x7f\x80\xc3\xa9\xff09azAZ";

/// Returns input `number` of a target: a seed as it is for the first numbers, then mutated ones.
/// The same number gives the same input as long as target and seeds stay the same.
#[must_use]
pub fn input(target: &Target, seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let as_it_is = usize::try_from(number).ok().and_then(|at| seeds.get(at));
    if let Some(seed) = as_it_is {
        return seed.clone();
    }
    let mut random = Rng::with_seed(xxh3_64(target.name.as_bytes()) ^ number);
    let mut bytes = pick(&mut random, seeds).to_vec();
    let mutations = 1 + (random.u32(..) | 1 << 31).trailing_zeros().min(MUTATIONS_MAX - 1);
    for _ in 0..mutations {
        mutate(&mut random, target.words, seeds, &mut bytes);
        bytes.truncate(INPUT_LEN_MAX);
    }
    bytes
}

fn pick<'s>(random: &mut Rng, seeds: &'s [Vec<u8>]) -> &'s [u8] {
    if seeds.is_empty() { &[] } else { &seeds[random.usize(..seeds.len())] }
}

/// Makes one change at a random place.
fn mutate(random: &mut Rng, words: &[&str], seeds: &[Vec<u8>], bytes: &mut Vec<u8>) {
    let at = random.usize(..=bytes.len());
    let len = len_up_to(random, bytes.len() - at);
    match random.u32(..12) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.u32(..8),
        1 if at < bytes.len() => bytes[at] = random.u8(..),
        2 if at < bytes.len() => bytes[at] = SIGNS[random.usize(..SIGNS.len())],
        3 => overwrite(bytes, at, &number(random)),
        4 => drop(bytes.drain(at..at + len)),
        5 => bytes.truncate(at),
        6 => {
            let piece = bytes[at..at + len].to_vec();
            insert_copies(random, bytes, at, &piece);
        }
        7 => {
            let other = pick(random, seeds).to_vec();
            splice(random, bytes, at, &other);
        }
        8 if !words.is_empty() => {
            let word = words[random.usize(..words.len())].as_bytes();
            insert_copies(random, bytes, at, word);
        }
        9 if !words.is_empty() => {
            let word = words[random.usize(..words.len())].as_bytes();
            overwrite(bytes, at, word);
        }
        10 => {
            let to = random.usize(..=bytes.len());
            let piece = bytes[at..at + len].to_vec();
            overwrite(bytes, to, &piece);
        }
        _ => drop(bytes.splice(at..at, [SIGNS[random.usize(..SIGNS.len())]])),
    }
}

/// Returns a length up to `most`, short ones more often.
fn len_up_to(random: &mut Rng, most: usize) -> usize {
    let most = most >> random.u32(..12).min(usize::BITS - 1);
    random.usize(..=most)
}

/// Returns a number of [`NUMBERS`], or close to one, in binary or in digits.
fn number(random: &mut Rng) -> Vec<u8> {
    let near = NUMBERS[random.usize(..NUMBERS.len())];
    let number = near.wrapping_add(random.u64(..4)).wrapping_sub(2);
    match random.u32(..6) {
        0 => (number as u16).to_le_bytes().to_vec(),
        1 => (number as u32).to_le_bytes().to_vec(),
        2 => (number as u32).to_be_bytes().to_vec(),
        3 => number.to_le_bytes().to_vec(),
        4 => number.to_string().into_bytes(),
        _ => format!("-{number}").into_bytes(),
    }
}

fn overwrite(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    let end = (at + piece.len()).min(bytes.len());
    drop(bytes.splice(at..end, piece.iter().copied()));
}

/// Inserts a piece, seldom very often.
fn insert_copies(random: &mut Rng, bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    let copies = match random.u32(..16) {
        0 => random.usize(1..=COPIES_MAX),
        1 | 2 => random.usize(1..16),
        _ => 1,
    };
    let copies = copies.min(INPUT_LEN_MAX / piece.len().max(1));
    drop(bytes.splice(at..at, piece.repeat(copies)));
}

/// Goes on with a part of another input: to the end, or for a while.
fn splice(random: &mut Rng, bytes: &mut Vec<u8>, at: usize, other: &[u8]) {
    let from = random.usize(..=other.len());
    let len = len_up_to(random, other.len() - from);
    if random.bool() {
        bytes.truncate(at);
        bytes.extend_from_slice(&other[from..]);
    } else {
        drop(bytes.splice(at..at, other[from..from + len].iter().copied()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TARGETS;

    #[test]
    fn inputs_come_from_their_numbers_alone() {
        let target = &TARGETS[0];
        let seeds = vec![b"one two three".to_vec(), b"four".to_vec()];
        assert_eq!(input(target, &seeds, 1), b"four");
        let made: Vec<_> = (2..500).map(|number| input(target, &seeds, number)).collect();
        let again: Vec<_> = (2..500).map(|number| input(target, &seeds, number)).collect();
        assert_eq!(made, again);
        let mut different = made.clone();
        different.sort();
        different.dedup();
        assert!(different.len() > 350, "only {} of {} differ", different.len(), made.len());
        assert!(made.iter().any(|bytes| bytes.len() > 1_000));
        assert!(made.iter().all(|bytes| bytes.len() <= INPUT_LEN_MAX));
    }
}

//! The hashed part of a table: the counts of every token, found by its hash with one read.
//!
//! It has blocks of [`BLOCK_LEN`] bytes. The hash of a token determines its home block and a number
//! of 46 bits, the tag. Blocks are filled in the order of the hashes; an entry that does not fit in
//! its home is stored in the next block, at most three further on, and the full blocks are marked.
//! If two tokens of a list would have the same home and tag, another seed is chosen, so a token of
//! the list is never mistaken for another; for an unknown token, the probability of that is below
//! 10^-11.
//!
//! A large table stores the most frequent tokens a second time, in separate blocks: three of four
//! words of a message are among 8,192 tokens, whose blocks are read in one call and stay in the
//! processor's cache.

use barid_vfs::le::{u16_at, u32_at, u64_at};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::header::{Header, Part};
use crate::Counts;
use crate::limits::WHOLE_LEN_MAX;

/// Length of a block in bytes.
pub(crate) const BLOCK_LEN: usize = 1024;
/// Length of a block's head: checksum (4), number of tokens (2), 1 if the next block has more (2).
const HEAD_LEN: usize = 8;
/// Length of an entry, a 64-bit number: ham and spam in the two lowest bytes, and above them the
/// tag and 3 minus the distance from home in blocks, so that the farthest come first. A lookup
/// reads one or two cache lines.
const ENTRY_LEN: usize = 8;
const TAG_BITS: u32 = 46;
const COUNT_BITS: u32 = 16;
/// Value instead of spam for large counts, which are at the index that is stored instead of ham.
const LARGE: u32 = 0xff;
/// Length of large counts, which follow the entries: spam (4), ham (4).
const LARGE_LEN: usize = 8;
/// The largest distance of a token from its home, in blocks.
const DISTANCE_MAX: u64 = 3;
/// Bytes of a cache line.
const LINE_LEN: usize = 64;
/// Fill level of blocks, in percent.
const FILL: u64 = 87;
/// The most tokens that are stored twice.
const FREQUENT_MAX: usize = 8_192;
/// Number of different weights by which the most frequent tokens are chosen.
const WEIGHTS: usize = 25 << WEIGHT_BITS;
/// Number of leading bits of a message count that its weight keeps.
const WEIGHT_BITS: u32 = 8;
/// The most blocks of frequent tokens, which is enough if all have large counts and blocks are half
/// full.
pub(crate) const FREQUENT_BLOCKS_MAX: u32 =
    (FREQUENT_MAX * (ENTRY_LEN + LARGE_LEN) * 2).div_ceil(BLOCK_LEN) as u32;

/// The hash and counts of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hashed {
    pub(crate) hash: u64,
    pub(crate) counts: Counts,
}

/// The error that two tokens have the same home and tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Collision;

/// Returns the hash of a token.
pub(crate) fn hash(header: &Header, token: &[u8]) -> u64 {
    xxh3_64_with_seed(token, header.seed)
}

/// A region of hashed blocks: those of all tokens, or of the most frequent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) part: Part,
    pub(crate) blocks: u32,
    /// Number of these blocks that are homes; the others take the overflow of the last home.
    pub(crate) homes: u32,
}

impl Region {
    /// Returns its length in bytes.
    pub(crate) fn len(self) -> u64 {
        u64::from(self.blocks) * BLOCK_LEN as u64
    }
}

/// Returns the home block and the tag of a hash.
fn place(hash: u64, blocks: u32) -> (u32, u64) {
    let product = u128::from(hash) * u128::from(blocks);
    ((product >> 64) as u32, product as u64 >> (64 - TAG_BITS))
}

fn sum(header: &Header, part: Part, block: u32, bytes: &[u8]) -> u32 {
    xxh3_64_with_seed(&bytes[4..], header.block_seed(part, block)) as u32
}

/// Appends the blocks of all tokens and those of the most frequent ones to `out`, and sets their
/// numbers in the header. `receipts` are the hashes of keys that are never frequent.
pub(crate) fn build(
    header: &mut Header,
    mut tokens: Vec<Hashed>,
    receipts: Vec<u64>,
    out: &mut Vec<u8>,
) -> Result<(), Collision> {
    tokens.sort_unstable_by_key(|token| token.hash);
    let all = build_region(header, Part::Hashed, &tokens, out)?;
    (header.hashed_blocks, header.homes) = (all.blocks, all.homes);
    let frequent = match all.len() > WHOLE_LEN_MAX {
        true => build_frequent(header, &tokens, receipts, out)?,
        false => None,
    };
    (header.frequent_blocks, header.frequent_homes) =
        frequent.map_or((0, 0), |region| (region.blocks, region.homes));
    Ok(())
}

/// Appends the blocks of the most frequent tokens; `None` if there are none or they take too much
/// space.
fn build_frequent(
    header: &Header,
    tokens: &[Hashed],
    mut receipts: Vec<u64>,
    out: &mut Vec<u8>,
) -> Result<Option<Region>, Collision> {
    receipts.sort_unstable();
    let words = || {
        let mut receipts = receipts.iter().peekable();
        let is_word = move |token: &&Hashed| receipts.next_if_eq(&&token.hash).is_none();
        tokens.iter().filter(is_word)
    };
    let least = least_of_frequent(words());
    let frequent: Vec<Hashed> = words().copied().filter(|word| weight(word) >= least).collect();
    let start = out.len();
    let region = build_region(header, Part::Frequent, &frequent, out)?;
    if frequent.is_empty() || region.blocks > FREQUENT_BLOCKS_MAX {
        out.truncate(start);
        return Ok(None);
    }
    // No other token of the list may be mistaken for a frequent one.
    let is_taken = |word: &Hashed| {
        let at = tokens.partition_point(|token| token.hash < word.hash);
        let beside = [at.checked_sub(1), at.checked_add(1)].into_iter().flatten();
        let places = beside.filter_map(|at| Some(place(tokens.get(at)?.hash, region.homes)));
        places.into_iter().any(|beside| beside == place(word.hash, region.homes))
    };
    if frequent.iter().any(is_taken) { Err(Collision) } else { Ok(Some(region)) }
}

/// Returns a number below [`WEIGHTS`] that increases with the number of messages of a token.
fn weight(token: &Hashed) -> usize {
    let Counts { spam, ham } = token.counts;
    let messages = spam.saturating_add(ham);
    let shift = messages.checked_ilog2().unwrap_or(0).saturating_sub(WEIGHT_BITS);
    ((shift << WEIGHT_BITS) + (messages >> shift)) as usize
}

/// Returns the lowest weight such that at most [`FREQUENT_MAX`] tokens have it or a higher one.
fn least_of_frequent<'a>(words: impl Iterator<Item = &'a Hashed>) -> usize {
    let mut by_weight = [0_usize; WEIGHTS];
    words.for_each(|word| by_weight[weight(word)] += 1);
    let mut count = 0;
    let fits = |weight: &usize| {
        count += by_weight[*weight];
        count <= FREQUENT_MAX
    };
    (0..WEIGHTS).rev().take_while(fits).last().unwrap_or(WEIGHTS)
}

/// Appends the blocks of tokens, which are sorted by hash.
fn build_region(
    header: &Header,
    part: Part,
    tokens: &[Hashed],
    out: &mut Vec<u8>,
) -> Result<Region, Collision> {
    let total: u64 = tokens.iter().map(|token| len(token.counts) as u64).sum();
    let mut homes = (total * 100).div_ceil((BLOCK_LEN - HEAD_LEN) as u64 * FILL).max(1) as u32;
    let start = out.len();
    loop {
        match fill(header, part, tokens, homes, out) {
            Filled::Blocks(blocks) => return Ok(Region { part, blocks, homes }),
            Filled::Collision => return Err(Collision),
            // Hashes are distributed so unevenly only if there are few tokens.
            Filled::TooFar => homes += homes / 8 + 1,
        }
        out.truncate(start);
    }
}

fn is_large(counts: Counts) -> bool {
    counts.spam >= LARGE || counts.ham > 0xff
}

/// Returns the bytes that a token takes in a block.
fn len(counts: Counts) -> usize {
    ENTRY_LEN + if is_large(counts) { LARGE_LEN } else { 0 }
}

enum Filled {
    Blocks(u32),
    Collision,
    TooFar,
}

fn fill(header: &Header, part: Part, tokens: &[Hashed], homes: u32, out: &mut Vec<u8>) -> Filled {
    let (mut entries, mut large) = (Vec::new(), Vec::new());
    let (mut block, mut next) = (0_u32, 0);
    let mut last = None;
    while block < homes || next < tokens.len() {
        entries.clear();
        large.clear();
        let mut more = false;
        while let Some(token) = tokens.get(next) {
            // Blocks after the last home take overflow only.
            let (home, tag) = place(token.hash, homes);
            if home > block {
                break;
            }
            let distance = u64::from(block - home);
            if distance > DISTANCE_MAX {
                return Filled::TooFar;
            }
            if HEAD_LEN + entries.len() + large.len() + len(token.counts) > BLOCK_LEN {
                more = true;
                break;
            }
            if last == Some((home, tag)) {
                return Filled::Collision;
            }
            last = Some((home, tag));
            let key = (DISTANCE_MAX - distance) << TAG_BITS | tag;
            let entry = key << COUNT_BITS | u64::from(packed(token.counts, &mut large));
            entries.extend_from_slice(&entry.to_le_bytes());
            next += 1;
        }
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&((entries.len() / ENTRY_LEN) as u16).to_le_bytes());
        out.extend_from_slice(&u16::from(more).to_le_bytes());
        out.extend_from_slice(&entries);
        out.extend_from_slice(&large);
        out.resize(start + BLOCK_LEN, 0);
        let sum = sum(header, part, block, &out[start..]);
        out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
        block += 1;
    }
    Filled::Blocks(block)
}

/// Returns spam and ham in two bytes, or appends them to the large counts and returns their index.
fn packed(counts: Counts, large: &mut Vec<u8>) -> u16 {
    let Counts { spam, ham } = counts;
    if !is_large(counts) {
        return (spam << 8 | ham) as u16;
    }
    let place = large.len() / LARGE_LEN;
    large.extend_from_slice(&spam.to_le_bytes());
    large.extend_from_slice(&ham.to_le_bytes());
    (LARGE << 8) as u16 | place as u16
}

/// The result of looking up a token in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The block has the token.
    Found(Counts),
    /// The list does not have the token.
    Absent,
    /// The token may be in the next block.
    Next,
    /// The block is damaged.
    Damaged,
}

/// Returns `true` if a block has the right checksum.
pub(crate) fn is_sound(header: &Header, part: Part, block: u32, bytes: &[u8]) -> bool {
    u32_at(bytes, 0) == sum(header, part, block, bytes)
        && HEAD_LEN + usize::from(u16_at(bytes, 4)) * ENTRY_LEN <= BLOCK_LEN
}

impl Region {
    /// Returns the home block of a hash.
    pub(crate) fn home(self, hash: u64) -> u32 {
        place(hash, self.homes).0
    }

    /// Looks up a hash in `bytes`, all blocks of the region, which must be sound.
    pub(crate) fn find_in(self, hash: u64, bytes: &[u8]) -> Answer {
        let blocks = bytes.chunks_exact(BLOCK_LEN).skip(self.home(hash) as usize);
        for (distance, block) in (0..).zip(blocks) {
            match find(self, hash, distance, block) {
                Answer::Next => {}
                answer => return answer,
            }
        }
        Answer::Absent
    }
}

/// Reads the memory that [`find`] will probably read, so that the cache misses of many lookups
/// overlap instead of following each other.
#[inline]
pub(crate) fn touch(header: &Header, hash: u64, bytes: &[u8]) -> u8 {
    let (home, tag) = place(hash, header.homes);
    let Some(block) = bytes.chunks_exact(BLOCK_LEN).nth(home as usize) else { return 0 };
    let most = (BLOCK_LEN - HEAD_LEN) / ENTRY_LEN;
    let count = (header.entries / u64::from(header.homes.max(1))).min(most as u64) as usize;
    let at = HEAD_LEN + nth_of(tag, count) * ENTRY_LEN;
    block[0] ^ block[at.saturating_sub(LINE_LEN / 2)] ^ block[(at + LINE_LEN / 2) % BLOCK_LEN]
}

/// Estimates the index of a tag among `count` sorted tags, which are distributed evenly.
fn nth_of(tag: u64, count: usize) -> usize {
    ((u128::from(tag) * count as u128) >> TAG_BITS) as usize
}

/// Looks up a hash in a sound block, which is `distance` blocks after its home.
#[inline]
pub(crate) fn find(region: Region, hash: u64, distance: u32, bytes: &[u8]) -> Answer {
    let count = usize::from(u16_at(bytes, 4));
    let (_, tag) = place(hash, region.homes);
    let wanted = DISTANCE_MAX.saturating_sub(u64::from(distance)) << TAG_BITS | tag;
    let entry_at = |nth: usize| u64_at(bytes, HEAD_LEN + nth * ENTRY_LEN);
    let mut low = nth_of(tag, count);
    while low > 0 && entry_at(low - 1) >> COUNT_BITS >= wanted {
        low -= 1;
    }
    while low < count && entry_at(low) >> COUNT_BITS < wanted {
        low += 1;
    }
    if low == count || entry_at(low) >> COUNT_BITS != wanted {
        return match u16_at(bytes, 6) {
            1 if u64::from(distance) < DISTANCE_MAX && low == count => Answer::Next,
            _ => Answer::Absent,
        };
    }
    let [ham, spam, ..] = entry_at(low).to_le_bytes().map(u32::from);
    if spam < LARGE {
        return Answer::Found(Counts { spam, ham });
    }
    let at = HEAD_LEN + count * ENTRY_LEN + ham as usize * LARGE_LEN;
    match bytes.get(at..at + LARGE_LEN) {
        Some(large) => Answer::Found(Counts { spam: u32_at(large, 0), ham: u32_at(large, 4) }),
        None => Answer::Damaged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(count: u32, bits: u32) {
        let mut header = Header { generation: 9, seed: 4, ..Header::default() };
        let token = |number: u32| number.to_le_bytes();
        let counts = |number: u32| {
            Counts::new(number.wrapping_mul(0x9e37_79b9) >> (32 - bits), number % 3 * number)
        };
        let hashed = |header: &Header, number: u32| Hashed {
            hash: hash(header, &token(number)),
            counts: counts(number),
        };
        let all = (0..count).map(|number| hashed(&header, number)).collect();
        let mut out = Vec::new();
        build(&mut header, all, Vec::new(), &mut out).unwrap();
        let [region, frequent] = [Part::Hashed, Part::Frequent].map(|part| header.region(part));
        let (out, twice) = out.split_at(region.len() as usize);
        assert_eq!(twice.len() as u64, frequent.len());
        for (region, bytes) in [(region, out), (frequent, twice)] {
            for (block, bytes) in bytes.chunks(BLOCK_LEN).enumerate() {
                assert!(is_sound(&header, region.part, block as u32, bytes));
            }
        }
        let mut seen = 0;
        for number in 0..count {
            let hash_of = |number: u32| hash(&header, &token(number));
            let found = region.find_in(hash_of(number), out);
            assert_eq!(found, Answer::Found(counts(number)), "{number} of {count}");
            assert_eq!(region.find_in(hash_of(number | 1 << 31), out), Answer::Absent);
            let again = frequent.find_in(hash_of(number), twice);
            seen += usize::from(again == found);
            assert!(again == found || again == Answer::Absent, "{number} of {count}");
        }
        let is_long = region.len() > WHOLE_LEN_MAX;
        assert!(if is_long { (1..=FREQUENT_MAX).contains(&seen) } else { seen == 0 }, "{seen}");
    }

    #[test]
    fn every_token_is_found_and_no_other() {
        check(0, 1);
        for count in [1, 2, 50, 127, 128, 300, 5_000] {
            check(count, 1);
            check(count, 9);
            check(count, 32);
        }
        check(100_000, 4);
    }

    #[test]
    fn receipts_are_not_frequent() {
        let mut header = Header::default();
        let of = |number: u32, spam| {
            let hash = hash(&Header::default(), &number.to_le_bytes());
            Hashed { hash, counts: Counts { spam, ham: 1 } }
        };
        let receipts: Vec<Hashed> = (0..10_000).map(|number| of(number, 1 << 30)).collect();
        let words = (10_000..40_000).map(|number| of(number, number % 50));
        let all = receipts.iter().copied().chain(words).collect();
        let mut out = Vec::new();
        let hashes = receipts.iter().map(|receipt| receipt.hash).collect();
        build(&mut header, all, hashes, &mut out).unwrap();
        let frequent = header.region(Part::Frequent);
        let bytes = &out[header.region(Part::Hashed).len() as usize..];
        let is_there = |token: Hashed| frequent.find_in(token.hash, bytes) != Answer::Absent;
        assert!(receipts.into_iter().all(|receipt| !is_there(receipt)));
        assert!((10_000..40_000).all(|number| is_there(of(number, 0)) == (number % 50 > 36)));
    }

    #[test]
    fn two_of_one_hash_are_told() {
        let mut header = Header::default();
        let token = Hashed { hash: 7, counts: Counts::default() };
        assert_eq!(
            build(&mut header, vec![token, token], Vec::new(), &mut Vec::new()),
            Err(Collision)
        );
    }

    #[test]
    fn forged_blocks_are_answered() {
        let header = Header { hashed_blocks: 3, homes: 2, entries: 99, ..Header::default() };
        let mut random = fastrand::Rng::with_seed(4);
        let mut looked = 0;
        for _ in 0..5_000 {
            let mut block: Vec<u8> = (0..BLOCK_LEN).map(|_| random.u8(..)).collect();
            block[4..6].copy_from_slice(&random.u16(0..140).to_le_bytes());
            let sum = sum(&header, Part::Hashed, 1, &block);
            block[..4].copy_from_slice(&sum.to_le_bytes());
            if is_sound(&header, Part::Hashed, 1, &block) {
                find(header.region(Part::Hashed), random.u64(..), random.u32(0..9), &block);
                touch(&header, random.u64(..), &block);
                looked += 1;
            }
        }
        assert!(looked > 4_000, "{looked}");
    }
}

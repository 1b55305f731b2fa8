//! Lists of documents as bits.
//!
//! A list is a byte that names its form, then the gaps between its documents in the shortest of
//! three forms: Rice codes, which suit documents at random, exponential Golomb codes, which suit
//! documents that stand together, or a bit for each document of the segment.

use barid_query::search::BitSet;

/// Bits of the form byte that are the parameter of a code.
const PARAMETER_BITS: u8 = 5;
const RICE: u8 = 0;
const GOLOMB: u8 = 1 << PARAMETER_BITS;
const BITMAP: u8 = 2 << PARAMETER_BITS;
/// Longest run of zeros that a Rice code begins with.
const ZEROS_MAX: u32 = 40;
/// Highest parameter that is tried.
const PARAMETER_MAX: u32 = 24;

/// Appends a list of ascending documents below `len`.
pub(crate) fn encode(docs: &[u32], len: u32, out: &mut Vec<u8>) {
    let (form, bits) = shortest(docs);
    let bitmap_bits = u64::from(len.div_ceil(8)) * 8;
    if bits >= bitmap_bits {
        out.push(BITMAP);
        let start = out.len();
        out.resize(start + len.div_ceil(8) as usize, 0);
        docs.iter().for_each(|doc| out[start + *doc as usize / 8] |= 1 << (doc % 8));
        return;
    }
    out.push(form);
    let parameter = u32::from(form & (GOLOMB - 1));
    let mut writer = BitWriter { out, bits: 0, len: 0 };
    for gap in gaps(docs) {
        let high = gap >> parameter;
        if form & GOLOMB == 0 {
            writer.put(1 << high, high + 1);
        } else {
            let zeros = (high + 1).ilog2();
            writer.put(1 << zeros, zeros + 1);
            writer.put(u64::from(high + 1) & ((1 << zeros) - 1), zeros);
        }
        writer.put(u64::from(gap) & ((1 << parameter) - 1), parameter);
    }
    writer.finish();
}

/// Returns the documents between one and the one before it.
fn gaps(docs: &[u32]) -> impl Iterator<Item = u32> + '_ {
    let mut next = 0;
    docs.iter().map(move |doc| {
        let gap = doc - next;
        next = doc + 1;
        gap
    })
}

/// Returns the code of the fewest bits, and their number.
fn shortest(docs: &[u32]) -> (u8, u64) {
    let mean = docs.last().map_or(0, |last| last / docs.len() as u32).max(1);
    let usual = mean.ilog2();
    let mut best = (GOLOMB, u64::MAX);
    for parameter in usual.saturating_sub(8)..=(usual + 1).min(PARAMETER_MAX) {
        let (mut rice, mut golomb, mut highest) = (0_u64, 0_u64, 0);
        for gap in gaps(docs) {
            let high = gap >> parameter;
            highest = highest.max(high);
            rice += u64::from(high + 1 + parameter);
            golomb += u64::from(2 * (high + 1).ilog2() + 1 + parameter);
        }
        if highest <= ZEROS_MAX && rice < best.1 {
            best = (RICE | parameter as u8, rice);
        }
        if golomb < best.1 {
            best = (GOLOMB | parameter as u8, golomb);
        }
    }
    best
}

struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    bits: u64,
    len: u32,
}

impl BitWriter<'_> {
    /// Appends the `len` lower bits of `bits`, at most 41; those above them are zero.
    fn put(&mut self, bits: u64, len: u32) {
        self.bits |= bits << self.len;
        self.len += len;
        while self.len >= 8 {
            self.out.push(self.bits as u8);
            self.bits >>= 8;
            self.len -= 8;
        }
    }

    fn finish(self) {
        if self.len > 0 {
            self.out.push(self.bits as u8);
        }
    }
}

/// Adds a list of `count` documents to a set; `None` if the bytes are not such a list.
pub(crate) fn decode_into(bytes: &[u8], count: u32, set: &mut BitSet) -> Option<()> {
    let (form, bytes) = bytes.split_first()?;
    if *form == BITMAP {
        let (whole, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        for (word, bytes) in set.words_mut().iter_mut().zip(whole.iter().chain([&last])) {
            *word |= u64::from_le_bytes(*bytes);
        }
        return Some(());
    }
    let parameter = u32::from(form & (GOLOMB - 1));
    let is_golomb = form & GOLOMB != 0;
    let mut reader = BitReader { bytes, at: 0 };
    let mut doc = 0_u32;
    for _ in 0..count {
        let zeros = reader.zeros()?;
        let high = match is_golomb {
            true => (1 << zeros | reader.take(zeros)) - 1,
            false => u64::from(zeros),
        };
        let gap = high << parameter | reader.take(parameter);
        doc = doc.checked_add(u32::try_from(gap).ok()?)?;
        set.insert(doc);
        doc = doc.saturating_add(1);
    }
    Some(())
}

struct BitReader<'a> {
    bytes: &'a [u8],
    /// Number of bits that were read.
    at: usize,
}

impl BitReader<'_> {
    /// Returns at least 57 bits from the current one on; those beyond the end are zero.
    #[inline]
    fn peek(&self) -> u64 {
        let at = self.at / 8;
        let rest = self.bytes.get(at..).unwrap_or_default();
        let whole = rest.first_chunk().copied().unwrap_or_else(|| {
            let mut whole = [0; 8];
            whole[..rest.len()].copy_from_slice(rest);
            whole
        });
        u64::from_le_bytes(whole) >> (self.at % 8)
    }

    /// Reads zeros up to a one, which is read too; `None` if there are too many.
    #[inline]
    fn zeros(&mut self) -> Option<u32> {
        let zeros = self.peek().trailing_zeros();
        self.at += zeros as usize + 1;
        (zeros <= ZEROS_MAX).then_some(zeros)
    }

    #[inline]
    fn take(&mut self, len: u32) -> u64 {
        let bits = self.peek() & ((1 << len) - 1);
        self.at += len as usize;
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(docs: &[u32], len: u32) -> usize {
        let mut bytes = Vec::new();
        encode(docs, len, &mut bytes);
        let mut set = BitSet::none(len);
        decode_into(&bytes, docs.len() as u32, &mut set).unwrap();
        let found: Vec<u32> = (0..len).filter(|doc| set.contains(*doc)).collect();
        assert_eq!(found, docs);
        bytes.len()
    }

    #[test]
    fn lists_are_read_as_they_were_written() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..2_000 {
            let len = random.u32(1..5_000);
            let share = random.f64();
            let docs: Vec<u32> =
                (0..len).filter(|_| random.f64() < share * share * share).collect();
            if !docs.is_empty() {
                check(&docs, len);
            }
        }
        check(&[131_071], 131_072);
        check(&[0, 1, 2, 131_000, 131_001], 131_072);
        check(&[0], 1);
    }

    #[test]
    fn lists_are_short() {
        let every: Vec<u32> = (0..10_000).step_by(100).collect();
        assert!(check(&every, 10_000) < 103);
        let together: Vec<u32> = (5_000..5_100).collect();
        assert!(check(&together, 10_000) < 20);
        let most: Vec<u32> = (0..10_000).filter(|doc| doc % 3 > 0).collect();
        assert!(check(&most, 10_000) <= 1_251);
    }

    #[test]
    fn damaged_lists_end() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..2_000 {
            let bytes: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
            let _ = decode_into(&bytes, random.u32(..100), &mut BitSet::none(1_000));
        }
    }
}

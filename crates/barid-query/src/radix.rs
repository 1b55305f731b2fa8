//! A radix sort of rows by 64-bit keys that skips the digits all keys share.

const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Below this number of rows a comparison sort is faster.
const RADIX_MIN: usize = 2048;

/// Turns a signed key into an unsigned one with the same order.
#[inline]
pub(crate) fn ordered(key: i64) -> u64 {
    (key as u64) ^ (1 << 63)
}

/// Sorts (key, row) pairs by key; rows of one key keep their order.
///
/// Linear in the pairs for each digit in which keys differ; pairs in order already are not moved.
pub(crate) fn sort_pairs(pairs: &mut Vec<(u64, u32)>) {
    if pairs.is_sorted_by_key(|pair| pair.0) {
        return;
    }
    if pairs.len() < RADIX_MIN {
        pairs.sort_by_key(|pair| pair.0);
        return;
    }
    let (low, differ) = spread(pairs);
    let mut other = vec![(0, 0); pairs.len()];
    let mut shift = 0;
    while shift < 64 && differ >> shift != 0 {
        if (differ >> shift) & (DIGITS as u64 - 1) != 0 {
            pass(pairs, &mut other, low, shift);
            std::mem::swap(pairs, &mut other);
        }
        shift += DIGIT_BITS;
    }
}

/// Returns the least key, and the bits in which the distances from it differ.
fn spread(pairs: &[(u64, u32)]) -> (u64, u64) {
    let low = pairs.iter().map(|pair| pair.0).min().unwrap_or(0);
    let differ = pairs.iter().fold(0, |bits, pair| bits | (pair.0 - low));
    (low, differ)
}

fn pass(from: &[(u64, u32)], to: &mut [(u64, u32)], low: u64, shift: u32) {
    let digit = |key: u64| ((key - low) >> shift) as usize & (DIGITS - 1);
    let mut starts = [0u32; DIGITS];
    for pair in from {
        starts[digit(pair.0)] += 1;
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += std::mem::replace(start, sum);
    }
    for pair in from {
        let start = &mut starts[digit(pair.0)];
        to[*start as usize] = *pair;
        *start += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: impl Iterator<Item = i64>) {
        let mut pairs: Vec<_> = keys.zip(0u32..).map(|(key, row)| (ordered(key), row)).collect();
        let mut expected = pairs.clone();
        expected.sort();
        sort_pairs(&mut pairs);
        assert_eq!(pairs, expected);
    }

    #[test]
    fn like_a_stable_sort() {
        let mut random = fastrand::Rng::with_seed(7);
        for len in [0, 1, 2, 100, RADIX_MIN, 10_000] {
            check((0..len).map(|_| random.i64(..)));
            check((0..len).map(|_| random.i64(-5..5)));
            check((0..len).map(|at| at as i64));
            check((0..len).map(|at| 1_700_000_000 - (at as i64) * 60 + random.i64(0..600)));
        }
        check([i64::MAX, i64::MIN, 0, -1, 1].into_iter().cycle().take(RADIX_MIN * 2));
    }
}

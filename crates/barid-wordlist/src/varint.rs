//! Variable-length integers (LEB128): seven bits per byte, the lowest first.

/// Appends a number.
pub(crate) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number from the front; `None` if it is truncated or too large.
#[inline]
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, mut rest) = bytes.split_first()?;
    let mut number = u64::from(first & 0x7f);
    let (mut byte, mut shift) = (first, 7);
    while byte >= 0x80 {
        let (&next, after) = rest.split_first()?;
        if shift > 56 {
            return None;
        }
        number |= u64::from(next & 0x7f) << shift;
        (byte, rest, shift) = (next, after, shift + 7);
    }
    *bytes = rest;
    Some(number)
}

/// Takes a number from the front; `None` if it is truncated or exceeds 32 bits.
#[inline]
pub(crate) fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    u32::try_from(take(bytes)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let check = |number: u64, expected_len: usize| {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            assert_eq!(bytes.len(), expected_len, "{number}");
            if let Ok(short) = u32::try_from(number) {
                assert_eq!(take_u32(&mut &bytes[..]), Some(short));
            }
            let mut rest = &bytes[..];
            assert_eq!((take(&mut rest), rest), (Some(number), &[][..]));
            assert_eq!(take(&mut &bytes[..expected_len - 1]), None);
        };
        check(0, 1);
        check(127, 1);
        check(128, 2);
        check(16_383, 2);
        check(16_384, 3);
        check(u64::from(u32::MAX), 5);
        check(1 << 50, 8);
        assert_eq!(take(&mut &[0xff; 12][..]), None);
        assert_eq!(take_u32(&mut &[0xff, 0xff, 0xff, 0xff, 0x1f][..]), None);
    }
}

//! LEB128 lengths.

/// The most bytes of a length.
pub(super) const LEN_MAX: usize = 5;

/// Appends `value`.
pub(super) fn put(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads the shortest form of a length at the front; returns it and the rest.
pub(super) fn take(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0u32;
    for (index, &byte) in bytes.iter().take(LEN_MAX).enumerate() {
        let bits = u32::from(byte & 0x7f);
        value |= bits.checked_mul(1 << (7 * index))?;
        if byte < 0x80 {
            let shortest = index == 0 || byte != 0;
            return shortest.then_some((value, &bytes[index + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_come_back() {
        for value in [0, 1, 127, 128, 300, 16_383, 16_384, 1 << 28, u32::MAX] {
            let mut bytes = Vec::new();
            put(value, &mut bytes);
            for len in 0..bytes.len() {
                assert_eq!(take(&bytes[..len]), None);
            }
            bytes.push(7);
            assert_eq!(take(&bytes), Some((value, &[7][..])));
        }
        for bad in [&[0x80, 0][..], &[0xff; 5], &[0xff, 0xff, 0xff, 0xff, 0x1f], &[0x80; 6]] {
            assert_eq!(take(bad), None, "{bad:?}");
        }
    }
}

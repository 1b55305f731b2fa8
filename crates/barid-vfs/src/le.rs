//! Little-endian numbers, as the formats of barid's own files have them.

/// Returns the number at offset `at`.
///
/// # Panics
/// If `bytes` is too short: the rows and headers of files have fixed lengths.
#[inline]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Returns the number at offset `at`.
///
/// # Panics
/// As [`u16_at`].
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Returns the number at offset `at`.
///
/// # Panics
/// As [`u16_at`].
#[inline]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Appends numbers, and bytes with their length.
pub trait PutLe {
    /// Appends a byte.
    fn put_u8(&mut self, value: u8);
    /// Appends 2 bytes.
    fn put_u16(&mut self, value: u16);
    /// Appends 4 bytes.
    fn put_u32(&mut self, value: u32);
    /// Appends 8 bytes.
    fn put_u64(&mut self, value: u64);
    /// Appends 16 bytes.
    fn put_u128(&mut self, value: u128);
    /// Appends a length of 4 bytes, then the bytes.
    fn put_bytes(&mut self, bytes: &[u8]);
    /// Appends a length of 8 bytes, then the bytes.
    fn put_long_bytes(&mut self, bytes: &[u8]);
    /// Appends LEB128.
    fn put_varint(&mut self, value: usize);
}

impl PutLe for Vec<u8> {
    #[inline]
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }
    #[inline]
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    #[inline]
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    #[inline]
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    #[inline]
    fn put_u128(&mut self, value: u128) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    #[inline]
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_u32(bytes.len() as u32);
        self.extend_from_slice(bytes);
    }
    #[inline]
    fn put_long_bytes(&mut self, bytes: &[u8]) {
        self.put_u64(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
    #[inline]
    fn put_varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }
}

/// A reader of the bytes that [`PutLe`] appends, from the front of a slice. Its methods return
/// `None` if the rest is too short.
#[derive(Clone, Copy, Debug)]
pub struct LeReader<'a>(pub &'a [u8]);

impl<'a> LeReader<'a> {
    /// Reads the next `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    /// Reads a byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads 2 bytes.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads 4 bytes.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads 8 bytes.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads 16 bytes.
    #[inline]
    pub fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// Reads what [`PutLe::put_bytes`] appended.
    #[inline]
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    /// Reads what [`PutLe::put_long_bytes`] appended.
    pub fn long_bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.count(1)?;
        self.take(len)
    }

    /// Reads 8 bytes, the number of items of `len` bytes each that follow; `None` if the rest is
    /// too short for them.
    pub fn count(&mut self, len: usize) -> Option<usize> {
        let count = usize::try_from(self.u64()?).ok()?;
        (count.checked_mul(len)? <= self.0.len()).then_some(count)
    }

    /// Reads LEB128 of at most 28 bits.
    #[inline]
    pub fn varint(&mut self) -> Option<usize> {
        let mut value = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.u8()?;
            value |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_put() {
        let mut bytes = Vec::new();
        bytes.put_u8(1);
        bytes.put_u16(0x0203);
        bytes.put_u32(0x0405_0607);
        bytes.put_u64(0x0809_0a0b_0c0d_0e0f);
        bytes.put_u128(0x1112 << 64 | 0x1314);
        bytes.put_bytes(b"short");
        bytes.put_long_bytes(b"long");
        bytes.put_varint(0x0fff_ffff);
        assert_eq!(bytes[..7], [1, 3, 2, 7, 6, 5, 4]);
        assert_eq!(u16_at(&bytes, 1), 0x0203);
        assert_eq!(u32_at(&bytes, 3), 0x0405_0607);
        assert_eq!(u64_at(&bytes, 7), 0x0809_0a0b_0c0d_0e0f);
        assert_eq!(bytes[15..31], [0x14, 0x13, 0, 0, 0, 0, 0, 0, 0x12, 0x11, 0, 0, 0, 0, 0, 0]);
        let read = |bytes| {
            let mut reader = LeReader(bytes);
            let numbers = (reader.u8()?, reader.u16()?, reader.u32()?, reader.u64()?);
            let numbers = (numbers, reader.u128()?);
            Some((numbers, reader.bytes()?, reader.long_bytes()?, reader.varint()?, reader.0))
        };
        let numbers = ((1, 0x0203, 0x0405_0607, 0x0809_0a0b_0c0d_0e0f), 0x1112 << 64 | 0x1314);
        let expected = (numbers, &b"short"[..], &b"long"[..], 0x0fff_ffff, &b""[..]);
        assert_eq!(read(&bytes), Some(expected));
        for len in 0..bytes.len() {
            assert_eq!(read(&bytes[..len]), None);
        }
        assert_eq!(LeReader(&[0x80; 5]).varint(), None);
        assert_eq!(LeReader(&[0xff; 8]).count(2), None);
    }
}

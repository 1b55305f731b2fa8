//! Little-endian values in byte slices, written and read with bounds.

/// Appends values to a buffer.
pub(crate) trait Put {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    /// Writes a u32 length and the bytes.
    fn put_bytes(&mut self, bytes: &[u8]);
    /// Writes LEB128.
    fn put_varint(&mut self, value: usize);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_u32(bytes.len() as u32);
        self.extend_from_slice(bytes);
    }
    fn put_varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }
}

/// A reader of values from the front of a slice; `None` if it is too short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
    /// Reads a u32 length and the bytes.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()? as usize;
        self.take(len)
    }
    /// Reads LEB128 of at most 28 bits.
    pub(crate) fn varint(&mut self) -> Option<usize> {
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

/// Returns the u32 at `at` of a row; rows have fixed lengths.
pub(crate) fn u32_at(row: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&row[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Returns the u16 at `at` of a row.
pub(crate) fn u16_at(row: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([row[at], row[at + 1]])
}

/// Returns the u64 at `at` of a row.
pub(crate) fn u64_at(row: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&row[at..at + 8]);
    u64::from_le_bytes(word)
}

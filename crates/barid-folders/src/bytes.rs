//! Little-endian numbers and texts with their lengths, in bytes of state files.

use barid_vfs::le::{LeReader, PutLe as _};
use xxhash_rust::xxh3::xxh3_64;

/// Appends values to a buffer.
#[derive(Debug, Default)]
pub(crate) struct ByteWriter(Vec<u8>);

impl ByteWriter {
    /// Begins a file with its magic and version.
    pub(crate) fn begin(magic: [u8; 8], version: u32) -> Self {
        let mut writer = Self(magic.to_vec());
        writer.put_u32(version);
        writer
    }

    pub(crate) fn put_u32(&mut self, value: u32) {
        self.0.put_u32(value);
    }

    pub(crate) fn put_u64(&mut self, value: u64) {
        self.0.put_u64(value);
    }

    pub(crate) fn put_u128(&mut self, value: u128) {
        self.0.put_u128(value);
    }

    /// Appends the length and the bytes.
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        self.0.put_bytes(bytes);
    }

    /// Appends the number of values.
    pub(crate) fn put_count(&mut self, count: usize) {
        self.put_u32(count as u32);
    }

    /// Ends a file with the checksum of all before.
    pub(crate) fn end(mut self) -> Vec<u8> {
        let checksum = xxh3_64(&self.0);
        self.put_u64(checksum);
        self.0
    }
}

/// Reason for which a state file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It is damaged.
    Damaged,
    /// A later version wrote it.
    Version,
}

impl Unreadable {
    /// Returns the description for an error.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Damaged => "the file is damaged; move it away to go on without what it has",
            Self::Version => "a later version of this program wrote the file",
        }
    }
}

/// Takes values from the front of bytes.
#[derive(Debug)]
pub(crate) struct ByteReader<'a>(LeReader<'a>);

impl<'a> ByteReader<'a> {
    /// Begins to read a file: checks magic, version and checksum.
    pub(crate) fn begin(bytes: &'a [u8], magic: [u8; 8], version: u32) -> Result<Self, Unreadable> {
        let (body, checksum) = bytes.split_last_chunk::<8>().ok_or(Unreadable::Damaged)?;
        if body.get(..8) != Some(&magic[..]) || u64::from_le_bytes(*checksum) != xxh3_64(body) {
            return Err(Unreadable::Damaged);
        }
        let mut reader = Self(LeReader(&body[8..]));
        match reader.u32() {
            Some(found) if found == version => Ok(reader),
            Some(_) => Err(Unreadable::Version),
            None => Err(Unreadable::Damaged),
        }
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.0.u32()
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.0.u64()
    }

    pub(crate) fn u128(&mut self) -> Option<u128> {
        self.0.u128()
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        self.0.bytes()
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        Some(std::str::from_utf8(self.bytes()?).ok()?.to_owned())
    }

    /// Reads a number of values, and as many values.
    pub(crate) fn many<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.u32()?;
        // Every value takes some bytes, so a wrong count ends soon, and nothing is reserved for it.
        let mut values = Vec::new();
        for _ in 0..count {
            if self.is_at_end() {
                return None;
            }
            values.push(read(self)?);
        }
        Some(values)
    }

    /// Returns `true` if nothing is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.0.0.is_empty()
    }
}

//! Archives as writers make them, and as no writer should.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// A member of an archive.
pub(crate) struct Entry {
    name: String,
    method: u16,
    flags: u16,
    data: Vec<u8>,
    /// The length that is declared as inflated.
    stated_len: u32,
}

impl Entry {
    /// Compresses a member.
    pub(crate) fn deflated(name: &str, bytes: &[u8]) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        Self::with_data(name, 8, encoder.finish().unwrap(), bytes.len())
    }

    /// Makes a member that inflates to `before`, `len` times `fill`, and `after`.
    pub(crate) fn filled(name: &str, before: &[u8], fill: &[u8], len: usize, after: &[u8]) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(before).unwrap();
        let piece = fill.repeat(len.min(1 << 16));
        for _ in 0..len / len.min(1 << 16) {
            encoder.write_all(&piece).unwrap();
        }
        encoder.write_all(after).unwrap();
        Self::with_data(name, 8, encoder.finish().unwrap(), len)
    }

    pub(crate) fn stored(name: &str, bytes: &[u8]) -> Self {
        Self::with_data(name, 0, bytes.to_vec(), bytes.len())
    }

    pub(crate) fn with_data(name: &str, method: u16, data: Vec<u8>, len: usize) -> Self {
        let stated_len = u32::try_from(len).unwrap();
        Self { name: name.to_owned(), method, flags: 0, data, stated_len }
    }

    /// Declares another length.
    pub(crate) fn stating(self, stated_len: u32) -> Self {
        Self { stated_len, ..self }
    }

    pub(crate) fn encrypted(self) -> Self {
        Self { flags: 1, ..self }
    }
}

/// Returns the archive of some members.
pub(crate) fn archive(entries: &[Entry]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for Entry { name, method, flags, data, stated_len } in entries {
        let at = u32::try_from(bytes.len()).unwrap();
        let name_len = u16::try_from(name.len()).unwrap();
        let len = u32::try_from(data.len()).unwrap();
        let mut common = Vec::new();
        for number in [20, *flags, *method, 0, 0] {
            common.extend(number.to_le_bytes());
        }
        for number in [0, len, *stated_len] {
            common.extend(number.to_le_bytes());
        }
        common.extend(name_len.to_le_bytes());
        common.extend(0_u16.to_le_bytes());
        bytes.extend(b"PK\x03\x04");
        bytes.extend(&common);
        bytes.extend(name.as_bytes());
        bytes.extend(data);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let count = u16::try_from(entries.len().min(usize::from(u16::MAX))).unwrap();
    let at = u32::try_from(bytes.len()).unwrap();
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend(count.to_le_bytes());
    bytes.extend(count.to_le_bytes());
    bytes.extend(u32::try_from(directory.len()).unwrap().to_le_bytes());
    bytes.extend(at.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

/// Returns an archive of one compressed member.
pub(crate) fn of_one(name: &str, text: &str) -> Vec<u8> {
    archive(&[Entry::deflated(name, text.as_bytes())])
}

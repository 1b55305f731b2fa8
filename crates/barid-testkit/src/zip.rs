//! Zip archives as writers make them, and as no writer should.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// Archives and their members are smaller than 4 GB.
fn number(len: usize) -> u32 {
    u32::try_from(len).expect("because tests make small archives")
}

/// A member of an archive.
#[derive(Clone, Debug)]
pub struct Entry {
    name: String,
    method: u16,
    flags: u16,
    data: Vec<u8>,
    /// The length that is declared as inflated.
    stated_len: u32,
}

impl Entry {
    /// Compresses a member.
    ///
    /// # Panics
    /// If it has 4 GB.
    pub fn deflated(name: &str, bytes: &[u8]) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("because memory takes any bytes");
        Self::with_data(
            name,
            8,
            encoder.finish().expect("because memory takes any bytes"),
            bytes.len(),
        )
    }

    /// Makes a member that inflates to `before`, `len` times `fill`, and `after`.
    ///
    /// # Panics
    /// If it has 4 GB.
    pub fn filled(name: &str, before: &[u8], fill: &[u8], len: usize, after: &[u8]) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(before).expect("because memory takes any bytes");
        let piece = fill.repeat(len.min(1 << 16));
        for _ in 0..len / len.min(1 << 16) {
            encoder.write_all(&piece).expect("because memory takes any bytes");
        }
        encoder.write_all(after).expect("because memory takes any bytes");
        Self::with_data(name, 8, encoder.finish().expect("because memory takes any bytes"), len)
    }

    /// Makes a member that is not compressed.
    ///
    /// # Panics
    /// If it has 4 GB.
    pub fn stored(name: &str, bytes: &[u8]) -> Self {
        Self::with_data(name, 0, bytes.to_vec(), bytes.len())
    }

    /// Makes a member of compressed bytes, which declares an inflated length.
    ///
    /// # Panics
    /// If it has 4 GB.
    pub fn with_data(name: &str, method: u16, data: Vec<u8>, len: usize) -> Self {
        let stated_len = number(len);
        Self { name: name.to_owned(), method, flags: 0, data, stated_len }
    }

    /// Declares another inflated length.
    #[must_use]
    pub fn stating(self, stated_len: u32) -> Self {
        Self { stated_len, ..self }
    }

    /// Declares the member to be encrypted.
    #[must_use]
    pub fn encrypted(self) -> Self {
        Self { flags: 1, ..self }
    }
}

/// Returns the archive of some members. It has at most 65,535, or says so.
///
/// # Panics
/// If it has 4 GB.
pub fn archive(entries: &[Entry]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for Entry { name, method, flags, data, stated_len } in entries {
        let at = number(bytes.len());
        let name_len = number(name.len()) as u16;
        let len = number(data.len());
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
    let count = number(entries.len().min(usize::from(u16::MAX))) as u16;
    let at = number(bytes.len());
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend(count.to_le_bytes());
    bytes.extend(count.to_le_bytes());
    bytes.extend(number(directory.len()).to_le_bytes());
    bytes.extend(at.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

/// Returns an archive of one compressed member.
///
/// # Panics
/// If it has 4 GB.
pub fn of_one(name: &str, text: &str) -> Vec<u8> {
    archive(&[Entry::deflated(name, text.as_bytes())])
}

//! Dictionaries of bytes common to the records of a mailbox.

use std::fmt;
use std::sync::OnceLock;

use zstd_safe::{CDict, DDict};

use crate::ffi::zdict::FastCover;
use crate::limits::DICTIONARY_LEN_MAX;

/// Parameters measured on header records (`docs/design/compression.md`).
const TRAINING: FastCover = FastCover { k: 200, d: 8, f: 18, accel: 5, level: 3 };

/// The first bytes of a trained dictionary (RFC 8878 §5).
const MAGIC: [u8; 4] = 0xec30_a437u32.to_le_bytes();

/// A dictionary, prepared for compressing and decompressing by any number of threads.
///
/// Preparation happens on first use, so that readers do not prepare for compression.
pub struct Dictionary {
    id: u8,
    level: i32,
    bytes: Vec<u8>,
    /// `None` if libzstd can use it for decompression only.
    compressing: OnceLock<Option<CDict<'static>>>,
    decompressing: DDict<'static>,
}

impl Dictionary {
    /// Creates a dictionary from the bytes that [`Dictionary::train`] returned; `None` if the bytes
    /// are not a dictionary.
    ///
    /// `level` is that of the compressors that will use it; readers may pass any level.
    pub fn new(id: u8, bytes: &[u8], level: i32) -> Option<Self> {
        if bytes.len() > DICTIONARY_LEN_MAX || !bytes.starts_with(&MAGIC) {
            return None;
        }
        let decompressing = DDict::try_create(bytes)?;
        let compressing = OnceLock::new();
        Some(Self { id, level, bytes: bytes.to_vec(), compressing, decompressing })
    }

    /// Trains the bytes of a dictionary of at most `len_max` bytes on the records in `samples`,
    /// which follow each other; `None` if there are too few of them.
    pub fn train(samples: &[u8], lens: &[usize], len_max: usize) -> Option<Vec<u8>> {
        TRAINING.train(samples, lens, len_max.min(DICTIONARY_LEN_MAX))
    }

    /// Returns its id, which each record that needs it contains.
    pub fn id(&self) -> u8 {
        self.id
    }

    /// Returns its bytes, for storing.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn for_compressing(&self) -> Option<&CDict<'static>> {
        let prepare = || CDict::try_create(&self.bytes, self.level);
        self.compressing.get_or_init(prepare).as_ref()
    }

    pub(super) fn for_decompressing(&self) -> &DDict<'static> {
        &self.decompressing
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Dictionary({}, {} bytes, level {})", self.id, self.bytes.len(), self.level)
    }
}

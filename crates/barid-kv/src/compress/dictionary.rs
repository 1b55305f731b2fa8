//! Dictionaries: what the records of a mailbox have in common.

use std::fmt;
use std::sync::OnceLock;

use zstd_safe::{CDict, DDict};

use crate::ffi::zdict::FastCover;
use crate::limits::DICTIONARY_LEN_MAX;

/// Measured on header records (`docs/design/compression.md`).
const TRAINING: FastCover = FastCover { k: 200, d: 8, f: 18, accel: 5, level: 3 };

/// The first bytes of a trained dictionary (RFC 8878 §5).
const MAGIC: [u8; 4] = 0xec30_a437u32.to_le_bytes();

/// A dictionary, prepared for compressing and decompressing by any number of threads.
///
/// Preparing happens when first needed: readers never pay for what only writers need.
pub struct Dictionary {
    id: u8,
    level: i32,
    bytes: Vec<u8>,
    /// `None` if libzstd can decompress with it only.
    compressing: OnceLock<Option<CDict<'static>>>,
    decompressing: DDict<'static>,
}

impl Dictionary {
    /// A dictionary that [`Dictionary::train`] made; `None` if these bytes are none.
    ///
    /// `level` is that of the compressors that will use it; readers may give any.
    pub fn new(id: u8, bytes: &[u8], level: i32) -> Option<Self> {
        if bytes.len() > DICTIONARY_LEN_MAX || !bytes.starts_with(&MAGIC) {
            return None;
        }
        let decompressing = DDict::try_create(bytes)?;
        let compressing = OnceLock::new();
        Some(Self { id, level, bytes: bytes.to_vec(), compressing, decompressing })
    }

    /// Makes the bytes of a dictionary of at most `len_max` bytes from records that lie one after
    /// another in `samples`; `None` if there are too few of them to learn from.
    pub fn train(samples: &[u8], lens: &[usize], len_max: usize) -> Option<Vec<u8>> {
        TRAINING.train(samples, lens, len_max.min(DICTIONARY_LEN_MAX))
    }

    /// Its id, which stands in each record that needs it.
    pub fn id(&self) -> u8 {
        self.id
    }

    /// Its bytes, to be stored.
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

//! Training of Zstandard dictionaries with custom parameters, which the safe binding lacks.

#![expect(unsafe_code, reason = "calls into the bundled libzstd")]

use zstd_sys::{
    ZDICT_fastCover_params_t, ZDICT_isError, ZDICT_params_t, ZDICT_trainFromBuffer_fastCover,
};

/// The parameters of the training algorithm (zdict.h, `ZDICT_fastCover_params_t`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastCover {
    /// Bytes of a segment.
    pub(crate) k: u32,
    /// Bytes of a dmer, 6 or 8.
    pub(crate) d: u32,
    /// Bits of the frequency table.
    pub(crate) f: u32,
    /// Speed from 1 to 10; higher values skip more positions.
    pub(crate) accel: u32,
    /// The compression level whose statistics are learnt.
    pub(crate) level: i32,
}

impl FastCover {
    /// Trains a dictionary of at most `len_max` bytes; `None` if libzstd finds too little to learn,
    /// or if `lens` do not add up to `samples`.
    pub(crate) fn train(&self, samples: &[u8], lens: &[usize], len_max: usize) -> Option<Vec<u8>> {
        let total = lens.iter().try_fold(0usize, |total, len| total.checked_add(*len));
        let count = u32::try_from(lens.len()).ok()?;
        if total != Some(samples.len()) {
            return None;
        }
        let parameters = ZDICT_fastCover_params_t {
            k: self.k,
            d: self.d,
            f: self.f,
            steps: 0,
            nbThreads: 0,
            splitPoint: 0.0,
            accel: self.accel,
            shrinkDict: 0,
            shrinkDictMaxRegression: 0,
            zParams: ZDICT_params_t {
                compressionLevel: self.level,
                notificationLevel: 0,
                dictID: 0,
            },
        };
        let mut bytes = vec![0; len_max];
        // SAFETY: at most `bytes.len()` bytes are written; `lens` has `count` lengths, and they add
        // up to the length of `samples`.
        let len = unsafe {
            ZDICT_trainFromBuffer_fastCover(
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                samples.as_ptr().cast(),
                lens.as_ptr(),
                count,
                parameters,
            )
        };
        // SAFETY: takes a number.
        if unsafe { ZDICT_isError(len) } != 0 {
            return None;
        }
        bytes.truncate(len);
        Some(bytes)
    }
}

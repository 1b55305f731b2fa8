//! The records that one thread puts into a store.

use std::ops::Range;

use barid_kv::Batch;
use barid_kv::compress::{Encoder, RatioWatch};

use super::keys::{record_key, seed};
use crate::limits::KV_BATCH_LEN;

/// Records on their way into a store, encoded and put in batches; the next sink continues with
/// them.
#[derive(Debug, Default)]
pub(crate) struct KvSink {
    /// The encoder, after its dictionary is decided.
    pub(super) encoder: Option<Encoder>,
    pub(super) batch: Batch,
    /// The current record.
    pub(super) raw: Vec<u8>,
    /// The numbers reserved for this sink.
    pub(super) numbers: Range<u32>,
    /// Records that wait for a dictionary.
    pub(super) held: Vec<u8>,
    held_lens: Vec<(u32, u32)>,
    /// Counts of the encoded records.
    pub(super) watch: RatioWatch,
}

/// Values common to the frames of one writer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writing {
    pub(super) generation: u64,
    pub(super) salt: u32,
}

impl KvSink {
    /// Stores the current record until the dictionary is decided.
    pub(super) fn hold(&mut self, number: u32) {
        self.held.extend_from_slice(&self.raw);
        self.held_lens.push((number, self.raw.len() as u32));
    }

    /// Encodes the stored records; passes full batches to `apply`.
    pub(super) fn encode_held<E>(
        &mut self,
        writing: Writing,
        apply: &mut dyn FnMut(&mut Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        let (held, lens) = (std::mem::take(&mut self.held), std::mem::take(&mut self.held_lens));
        let mut rest = &held[..];
        for (number, len) in lens {
            let (record, after) = rest.split_at(len as usize);
            rest = after;
            self.raw.clear();
            self.raw.extend_from_slice(record);
            self.encode(writing, number);
            if self.batch.bytes_len() >= KV_BATCH_LEN {
                apply(&mut self.batch)?;
            }
        }
        Ok(())
    }

    /// Encodes the current record into the batch. The encoder must exist.
    pub(super) fn encode(&mut self, writing: Writing, number: u32) {
        let Some(encoder) = &mut self.encoder else { return };
        let seed = seed(writing.generation, number, writing.salt);
        let before = self.batch.bytes_len();
        let key = record_key(number);
        self.batch.put_with(&key, |out| encoder.encode(seed, &self.raw, out));
        self.watch.add(self.raw.len(), self.batch.bytes_len() - before - key.len());
    }
}

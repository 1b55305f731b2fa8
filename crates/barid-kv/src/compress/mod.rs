//! Compressors of single records and of blocks (`docs/design/compression.md`).
//!
//! A [`Compression`] is what a user chose. An [`Encoder`] and a [`Decoder`] per thread turn records
//! into checked frames and back (`docs/formats/record.md`); a [`Packer`] and an [`Unpacker`] do
//! the same for blocks whose checksums are kept elsewhere. All contexts are reused: nothing is
//! allocated per record. Whatever the bytes are that come back, the answer is a value or a
//! [`Defect`].

mod block;
mod choice;
mod codec;
mod dictionary;
mod record;
mod trainer;
mod varint;
mod zstd_body;

pub use block::{Packer, Unpacker};
pub use choice::{Compression, Method, MethodInfo};
pub use codec::{Coding, Compressor, Decompressor, Defect};
pub use dictionary::Dictionary;
pub use record::{Decoder, Encoder, RECORD_VERSION};
pub use trainer::{RatioWatch, Trainer};

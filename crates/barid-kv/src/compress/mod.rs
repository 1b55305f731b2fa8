//! Compressors of single records and of blocks (`docs/design/compression.md`).
//!
//! A [`Compression`] is the user's choice. An [`Encoder`] and a [`Decoder`] per thread turn records
//! into checked frames and back (`docs/formats/record.md`); a [`Packer`] and an [`Unpacker`] do the
//! same for blocks whose checksums are stored elsewhere. All contexts are reused: nothing is
//! allocated per record. Decoding any bytes returns a value or a [`Defect`].

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

//! Zstandard (RFC 8878): frames in sequence. Decoding can begin at any of them.

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::super::layout::ZSTD_WINDOW_LOG_MAX;
use super::points::DecodeStart;
use super::raw::Raw;
use super::{Decode, DecodeFault, Decoded};

/// A decoder of zstd.
pub(super) struct Zstandard {
    raw: Raw,
    decoder: Decoder<'static>,
    /// `true` between two frames.
    is_between: bool,
    /// `true` if a place was returned and nothing has been decoded since.
    is_stopped: bool,
}

impl Zstandard {
    pub(super) fn new(raw: Raw) -> std::io::Result<Self> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(zstd::stream::raw::DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
        Ok(Self { raw, decoder, is_between: true, is_stopped: false })
    }
}

impl Decode for Zstandard {
    fn decode(&mut self, out: &mut [u8], stops: bool) -> Result<Decoded, DecodeFault> {
        loop {
            let input = self.raw.fill()?;
            if self.is_between && input.is_empty() {
                return Ok(Decoded::End);
            }
            if self.is_between && stops && !self.is_stopped {
                self.is_stopped = true;
                return Ok(Decoded::Stop(DecodeStart { raw: self.raw.offset(), block: None }));
            }
            let is_end = input.is_empty();
            let (mut input, mut output) = (InBuffer::around(input), OutBuffer::around(&mut *out));
            let hint =
                self.decoder.run(&mut input, &mut output).map_err(|_| DecodeFault::Damaged)?;
            let (used, made) = (input.pos(), output.pos());
            self.raw.consume(used);
            self.is_between = hint == 0;
            self.is_stopped = false;
            if made > 0 {
                return Ok(Decoded::Text(made));
            }
            if is_end && !self.is_between {
                return Err(DecodeFault::Damaged);
            }
        }
    }
}

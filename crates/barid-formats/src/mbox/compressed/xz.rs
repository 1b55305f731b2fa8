//! xz: streams one behind the other. Decoding can begin at any of them.

use lzma_rust2::{Action, Status, XzStream};

use super::super::layout::XZ_MEMORY_MAX_KB;
use super::points::Place;
use super::raw::Raw;
use super::{Decode, Decoded, Fault};

/// A decoder of xz.
pub(super) struct Xz {
    raw: Raw,
    /// `None` between two streams.
    decoder: Option<Box<XzStream>>,
    is_stopped: bool,
}

impl Xz {
    pub(super) fn new(raw: Raw) -> Self {
        Self { raw, decoder: None, is_stopped: false }
    }

    /// Skips the padding between streams: NULs.
    fn skip_padding(&mut self) -> Result<(), Fault> {
        while let [0, ..] = self.raw.fill()? {
            self.raw.consume(1);
        }
        Ok(())
    }
}

impl Decode for Xz {
    fn decode(&mut self, out: &mut [u8], stops: bool) -> Result<Decoded, Fault> {
        loop {
            if self.decoder.is_none() {
                self.skip_padding()?;
                if self.raw.fill()?.is_empty() {
                    return Ok(Decoded::End);
                }
                if stops && !self.is_stopped {
                    self.is_stopped = true;
                    return Ok(Decoded::Stop(Place { raw: self.raw.offset(), block: None }));
                }
            }
            let new = || Box::new(XzStream::new_mem_limit(false, XZ_MEMORY_MAX_KB));
            let decoder = self.decoder.get_or_insert_with(new);
            let input = self.raw.fill()?;
            let is_end = input.is_empty();
            let action = if is_end { Action::Finish } else { Action::Run };
            let done = decoder.process(input, out, action).map_err(|_| Fault::Damaged)?;
            self.raw.consume(done.bytes_consumed);
            self.is_stopped = false;
            if matches!(done.status, Status::StreamEnd) {
                self.decoder = None;
            }
            if done.bytes_produced > 0 {
                return Ok(Decoded::Text(done.bytes_produced));
            }
            if is_end && self.decoder.is_some() {
                return Err(Fault::Damaged);
            }
        }
    }
}

//! The text of a compressed file, read forwards, with its last megabytes in memory.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barid_vfs::File;

use super::super::layout::{RECENT_LEN, SKIP_LEN, SPILL_LEN_MIN};
use super::super::window::WindowSource;
use super::spill::Spill;
use super::{Compression, Decode, DecodeFault, Decoded, Points, TextEnd};

/// A text that is being decompressed.
pub(in crate::mbox) struct Text {
    file: Arc<dyn File>,
    compression: Compression,
    decoder: Option<Box<dyn Decode>>,
    /// The last text that was decompressed.
    recent: Vec<u8>,
    /// Offset in the text at which `recent` starts.
    start: u64,
    is_ended: bool,
    damage: TextEnd,
    /// Makes a spill file that begins at an offset of the text.
    new_spill: Option<Box<NewSpill>>,
    spill: Option<Spill>,
}

/// Makes a spill file that begins at an offset of the text, if that is possible.
pub(super) type NewSpill = dyn Fn(u64) -> Option<Spill> + Send;

impl Text {
    pub(in crate::mbox) fn new(
        file: Arc<dyn File>,
        compression: Compression,
        damage: TextEnd,
    ) -> Self {
        let (recent, start, is_ended) = (Vec::new(), 0, false);
        let (decoder, new_spill, spill) = (None, None, None);
        Self { file, compression, decoder, recent, start, is_ended, damage, new_spill, spill }
    }

    /// Lets it use a spill file when a reader goes back.
    pub(super) fn with_spill(self, new_spill: Box<NewSpill>) -> Self {
        Self { new_spill: Some(new_spill), ..self }
    }

    /// Returns the offset up to which the text was decompressed.
    fn end(&self) -> u64 {
        self.start + self.recent.len() as u64
    }

    /// Fills `buffer` from an offset of the text; returns fewer bytes only at its end.
    pub(in crate::mbox) fn read_full_at(
        &mut self,
        buffer: &mut [u8],
        offset: u64,
        points: &Mutex<Points>,
    ) -> io::Result<usize> {
        match self.spill.as_ref().map(|spill| spill.read(buffer, offset)) {
            Some(Ok(true)) => return Ok(buffer.len()),
            Some(Ok(false)) | None => {}
            // Its errors do not concern the mailbox.
            Some(Err(_)) => (self.spill, self.new_spill) = (None, None),
        }
        self.go_to(offset, points)?;
        let mut len = 0;
        loop {
            let from = offset + len as u64;
            let recent = from.checked_sub(self.start).and_then(|at| self.recent.get(at as usize..));
            let recent = recent.unwrap_or_default();
            let more = recent.len().min(buffer.len() - len);
            buffer[len..len + more].copy_from_slice(&recent[..more]);
            len += more;
            if len == buffer.len() || self.is_ended {
                return Ok(len);
            }
            self.more(points)?;
        }
    }

    /// Moves to the position from which decompression reaches an offset soonest: the present one,
    /// or a restart point.
    fn go_to(&mut self, offset: u64, points: &Mutex<Points>) -> io::Result<()> {
        let point = lock(points).offset_before(offset);
        let is_near = (self.start..=self.end()).contains(&offset)
            || offset > self.end() && (point <= self.end() || self.is_ended);
        if self.decoder.is_none() || !is_near {
            let (text, place) = lock(points).before(offset);
            let is_far = self.end().saturating_sub(text) >= SPILL_LEN_MIN;
            let is_there = self.spill.as_ref().is_some_and(|spill| spill.start() == text);
            if is_far && !is_there && lock(points).offset_before(self.end()) == text {
                // Frees its space before the new one measures the free space.
                self.spill = None;
                self.spill = self.new_spill.as_ref().and_then(|new_spill| new_spill(text));
            }
            self.decoder = Some(self.compression.decoder(&self.file, &place)?);
            self.recent.clear();
            (self.start, self.is_ended) = (text, false);
        }
        while self.end() < offset && !self.is_ended {
            self.more(points)?;
        }
        Ok(())
    }

    /// Decompresses some more text.
    fn more(&mut self, points: &Mutex<Points>) -> io::Result<()> {
        if self.recent.len() >= 2 * RECENT_LEN {
            self.start += (self.recent.len() - RECENT_LEN) as u64;
            self.recent.drain(..self.recent.len() - RECENT_LEN);
        }
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        let before = self.recent.len();
        self.recent.resize(before + SKIP_LEN, 0);
        let mut at = before;
        let result = loop {
            if at == self.recent.len() {
                break Ok(());
            }
            let text = self.start + at as u64;
            let stops = lock(points).wants(text);
            match decoder.decode(&mut self.recent[at..], stops) {
                Ok(Decoded::Text(len)) => at += len,
                Ok(Decoded::Stop(place)) => match lock(points).add(text, &place) {
                    Ok(()) => {}
                    Err(error) => break Err(error),
                },
                Ok(Decoded::End) => {
                    self.is_ended = true;
                    break Ok(());
                }
                Err(DecodeFault::Damaged) => {
                    self.is_ended = true;
                    self.damage.set(text);
                    break Ok(());
                }
                Err(DecodeFault::File(error)) => break Err(error),
            }
        };
        self.recent.truncate(at);
        if let Some(spill) = &mut self.spill {
            spill.add(self.start + before as u64, &self.recent[before..]);
        }
        if result.is_err() {
            self.decoder = None;
        }
        result
    }
}

/// Locks a mutex. A poisoned one means that another thread panicked; the scope that waits for it
/// then panics too.
fn lock(points: &Mutex<Points>) -> MutexGuard<'_, Points> {
    points.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The text of a compressed file, as the source of a window.
pub(in crate::mbox) struct CompressedSource<'p> {
    text: Text,
    points: &'p Mutex<Points>,
}

impl<'p> CompressedSource<'p> {
    pub(in crate::mbox) fn new(text: Text, points: &'p Mutex<Points>) -> Self {
        Self { text, points }
    }
}

impl WindowSource for CompressedSource<'_> {
    fn read_full_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.text.read_full_at(buffer, offset, self.points)
    }

    fn is_random_access(&self) -> bool {
        false
    }
}

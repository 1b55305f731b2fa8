//! Disk contents after a power failure.

use super::image::{Event, Image};

/// The unit that a disk writes atomically, in bytes.
pub(crate) const SECTOR_LEN: usize = 512;
/// The unit of allocation of file systems, in bytes.
pub(crate) const BLOCK_LEN: usize = 4096;
/// Number of events between stored states of the disk; an image is made from the nearest one.
const KEEP_EVERY: usize = 64;

/// A reproducible pseudo-random number generator.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }
}

/// An image of the disk after a power failure.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) image: Image,
    /// Number of events of the log before the power failed.
    pub(crate) position: usize,
    /// Number of writes of which only a part is in the image.
    pub(crate) torn: usize,
    pub(crate) what: String,
}

/// All possible images after a power failure.
#[derive(Debug)]
pub(crate) struct Cuts<'a> {
    log: &'a [Event],
    /// The earliest position of a cut.
    first: usize,
    /// The disk after each [`KEEP_EVERY`] events.
    kept: Vec<Image>,
}

impl<'a> Cuts<'a> {
    /// Creates the cuts of a disk that was `before` when the log began.
    pub(crate) fn new(before: &Image, log: &'a [Event], first: usize) -> Self {
        let mut image = before.clone();
        let mut kept = vec![before.clone()];
        for (index, event) in log.iter().enumerate() {
            event.apply(&mut image);
            if (index + 1) % KEEP_EVERY == 0 {
                kept.push(image.clone());
            }
        }
        Self { log, first, kept }
    }

    /// Returns the disk after the first `position` events.
    fn at(&self, position: usize) -> Image {
        let mut image = self.kept[position / KEEP_EVERY].clone();
        let rest = &self.log[position / KEEP_EVERY * KEEP_EVERY..position];
        rest.iter().for_each(|event| event.apply(&mut image));
        image
    }

    /// Returns cuts directly after each flush, with nothing missing.
    pub(crate) fn after_flushes(&self) -> impl Iterator<Item = Cut> {
        let flushes = (self.first..self.log.len()).filter(|i| matches!(self.log[*i], Event::Flush));
        flushes.map(|index| Cut {
            image: self.at(index + 1),
            position: index + 1,
            torn: 0,
            what: format!("cut after the flush at {index} of {}", self.log.len()),
        })
    }

    /// Cuts at a random position. Of the writes since the last flush some are complete, some are
    /// missing, some are torn between units of `unit` bytes.
    pub(crate) fn random(&self, random: &mut Random, unit: usize) -> Cut {
        let position = self.first + random.below(self.log.len() - self.first + 1);
        let is_flush = |event: &Event| matches!(event, Event::Flush);
        let flushed = self.log[..position].iter().rposition(is_flush).map_or(0, |flush| flush + 1);
        let mut image = self.at(flushed);
        // Percentage of writes that arrive whole.
        let whole = [0, 10, 50, 90, 100][random.below(5)];
        let (mut arrived, mut torn) = (0, 0);
        for event in &self.log[flushed..position] {
            let Event::Write { offset, bytes } = event else { continue };
            match random.below(100) {
                n if n < whole => {
                    image.write(*offset, bytes);
                    arrived += 1;
                }
                n if n % 2 == 0 => {
                    tear(&mut image, *offset, bytes, unit, random);
                    torn += 1;
                }
                _ => {}
            }
        }
        let (events, since) = (self.log.len(), position - flushed);
        let what = format!(
            "cut at {position} of {events}; of {since} writes since the last flush {arrived} are \
             whole, {torn} torn at {unit} bytes"
        );
        Cut { image, position, torn, what }
    }
}

/// Writes some of the units: those before a random one, those from it on, or a random subset.
fn tear(image: &mut Image, offset: u64, bytes: &[u8], unit: usize, random: &mut Random) {
    let (how, middle) = (random.below(3), random.below(bytes.len().div_ceil(unit) + 1));
    for (index, piece) in bytes.chunks(unit).enumerate() {
        let is_there = match how {
            0 => index < middle,
            1 => index >= middle,
            _ => random.below(2) == 0,
        };
        if is_there {
            image.write(offset + (index * unit) as u64, piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(len: usize) -> Vec<Event> {
        let event = |n: usize| match n % 5 {
            4 => Event::Flush,
            _ => Event::Write { offset: n as u64 * 1024, bytes: vec![n as u8; 1024].into() },
        };
        (1..=len).map(event).collect()
    }

    #[test]
    fn what_was_flushed_is_there() {
        let (before, log) = (Image::new(1 << 20), log(200));
        let cuts = Cuts::new(&before, &log, 0);
        let mut random = Random::new(7);
        let mut had_less = false;
        for _ in 0..200 {
            let cut = cuts.random(&mut random, SECTOR_LEN);
            let flush = |event: &Event| matches!(event, Event::Flush);
            let flushed = log[..cut.position].iter().rposition(flush).unwrap_or(0);
            for (index, event) in log.iter().enumerate() {
                let Event::Write { offset, bytes } = event else { continue };
                let found = cut.image.read(*offset, bytes.len());
                if index < flushed {
                    assert_eq!(found, &bytes[..]);
                } else if index >= cut.position {
                    assert_eq!(found, vec![0; bytes.len()]);
                } else {
                    had_less |= found[..] != bytes[..];
                }
            }
        }
        assert!(had_less);
        assert_eq!(cuts.after_flushes().count(), 40);
    }
}

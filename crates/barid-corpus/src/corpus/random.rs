//! Seeded randomness by purpose, so that one choice does not affect another.

/// All choices in a message without a purpose of their own.
pub(crate) const MESSAGE: u64 = 1;
/// The time of arrival.
pub(crate) const DATE: u64 = 2;
/// Flags.
pub(crate) const FLAGS: u64 = 3;
/// The place in the thread.
pub(crate) const PARENT: u64 = 4;
/// The Message-ID.
pub(crate) const ID: u64 = 5;
/// The subject of a thread.
pub(crate) const SUBJECT: u64 = 6;
/// The author.
pub(crate) const AUTHOR: u64 = 7;

/// A random sequence for one purpose of one message.
#[derive(Debug)]
pub struct Random(fastrand::Rng);

impl Random {
    /// Creates the sequence of message `number` for a purpose.
    pub fn new(seed: u64, number: u64, purpose: u64) -> Self {
        let key = mix(mix(seed ^ mix(purpose)).wrapping_add(number));
        Self(fastrand::Rng::with_seed(key))
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.0.u64(..end) }
    }

    /// Returns `true` with a chance of `chance` in 1,000.
    pub fn per_mille(&mut self, chance: u32) -> bool {
        self.0.u32(..1000) < chance
    }

    /// Returns an item of a table.
    pub fn pick<'a, T: ?Sized>(&mut self, table: &'a [&'a T]) -> &'a T {
        table[self.0.usize(..table.len())]
    }

    /// Returns any number.
    pub fn u64(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Returns a number above 0 and at most 1.
    pub fn fraction(&mut self) -> f64 {
        1.0 - self.0.f64()
    }

    /// Returns a number from the standard normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.fraction().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.fraction()).cos()
    }
}

/// Mixes with the finaliser of splitmix64: neighbours get unrelated seeds.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

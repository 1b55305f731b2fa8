//! The stamp of a mailbox: a few bytes that show whether anything changed.

/// State of a mailbox at one moment (docs/protocol.md, "Open", step 2). Only the backend knows what
/// its bytes mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    content: [u8; Self::CONTENT_LEN],
    taken_nanos: i64,
}

impl Default for Stamp {
    fn default() -> Self {
        Self { content: [0; Self::CONTENT_LEN], taken_nanos: 0 }
    }
}

impl Stamp {
    /// The longest time after which a stamp settles, in nanoseconds; a stamp that takes longer is
    /// that of a file dated ahead of the clock.
    pub const SETTLE_NANOS_MAX: i64 = 2_000_000_000;
    /// The longest time for which it is worth waiting until a stamp settles, in nanoseconds: two
    /// ticks of the slowest clock of a kernel.
    pub const WAIT_NANOS_MAX: i64 = 20_000_000;
    /// Bytes that a backend may fill.
    pub const CONTENT_LEN: usize = 128;
    /// Length of [`Stamp::to_bytes`].
    pub const LEN: usize = Self::CONTENT_LEN + 8;

    /// Makes the stamp of a backend. `taken_nanos` is the time at which it was taken, in
    /// nanoseconds since 1970; 0 where that does not matter.
    pub const fn new(content: [u8; Self::CONTENT_LEN], taken_nanos: i64) -> Self {
        Self { content, taken_nanos }
    }

    /// Returns the bytes of the backend.
    pub const fn content(&self) -> &[u8; Self::CONTENT_LEN] {
        &self.content
    }

    /// Returns the time at which the stamp was taken, in nanoseconds since 1970.
    pub const fn taken_nanos(&self) -> i64 {
        self.taken_nanos
    }

    /// Returns the stamp as if it had been taken when `other` was.
    pub const fn taken_with(mut self, other: &Self) -> Self {
        self.taken_nanos = other.taken_nanos;
        self
    }

    /// Compares the content, but not the time at which the stamps were taken.
    pub fn is_same(&self, other: &Self) -> bool {
        self.content == other.content
    }

    /// Returns the stamp as bytes: the content, then the time, little-endian.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..Self::CONTENT_LEN].copy_from_slice(&self.content);
        bytes[Self::CONTENT_LEN..].copy_from_slice(&self.taken_nanos.to_le_bytes());
        bytes
    }

    /// Reads [`Stamp::to_bytes`] back.
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let (mut content, mut taken) = ([0; Self::CONTENT_LEN], [0; 8]);
        content.copy_from_slice(&bytes[..Self::CONTENT_LEN]);
        taken.copy_from_slice(&bytes[Self::CONTENT_LEN..]);
        Self::new(content, i64::from_le_bytes(taken))
    }
}

/// Meaning of the stamps of a backend.
pub trait StampRules: Sync {
    /// Returns how much later a stamp would have to be taken, in nanoseconds, for an equal one to
    /// prove that nothing changed; 0 or less if it proves that already.
    fn unsettled_nanos(&self, stamp: &Stamp) -> i64;

    /// Returns `true` if nothing but appended messages shows between two stamps: a scan then costs
    /// little. It does not prove that nothing else changed.
    fn has_grown(&self, before: &Stamp, now: &Stamp) -> bool;

    /// Returns a number that never falls from one change to the next.
    fn change_number(&self, stamp: &Stamp) -> u64;
}

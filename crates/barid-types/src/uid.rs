//! Numbers that identify: UID, UIDVALIDITY, sequence number, mod-sequence (RFC 9051 §2.3.1, RFC
//! 7162).

use std::fmt;
use std::num::NonZeroU32;

macro_rules! nonzero_number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// The smallest value, 1.
            pub const MIN: Self = Self(NonZeroU32::MIN);
            /// The largest value, 2^32 - 1.
            pub const MAX: Self = Self(NonZeroU32::MAX);

            /// Wraps a number; zero gives `None`.
            pub const fn new(value: u32) -> Option<Self> {
                match NonZeroU32::new(value) {
                    Some(value) => Some(Self(value)),
                    None => None,
                }
            }

            /// Returns the number itself.
            pub const fn get(self) -> u32 {
                self.0.get()
            }

            /// Returns the number that follows, or `None` after the largest.
            pub const fn next(self) -> Option<Self> {
                match self.0.checked_add(1) {
                    Some(value) => Some(Self(value)),
                    None => None,
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

nonzero_number! {
    /// The unique identifier of a message in its mailbox, never reused under one UIDVALIDITY.
    Uid
}
nonzero_number! {
    /// The generation of a mailbox's UIDs: after it changes, all remembered UIDs are invalid.
    UidValidity
}
nonzero_number! {
    /// The position of a message within one session, counted from 1; never stored.
    SeqNum
}

/// A mod-sequence: a 63-bit number that grows with every change of a mailbox (RFC 7162 §3.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModSeq(u64);

impl ModSeq {
    /// The largest value, 2^63 - 1.
    pub const MAX: Self = Self(i64::MAX as u64);

    /// Wraps a number. Returns `None` if it does not fit in 63 bits.
    pub const fn new(value: u64) -> Option<Self> {
        if value <= Self::MAX.0 { Some(Self(value)) } else { None }
    }

    /// Returns the number itself; zero means that the mailbox never assigned one.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number that follows; the largest value is returned unchanged.
    #[must_use]
    pub const fn next(self) -> Self {
        if self.0 < Self::MAX.0 { Self(self.0 + 1) } else { self }
    }
}

impl fmt::Display for ModSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

//! The cost of verifying a password.

/// The work of verifying a password: hashes of equal cost take the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Cost {
    function: &'static str,
    first: u32,
    second: u32,
}

impl Cost {
    /// The cost of a function with its parameters, of which unused ones are 0.
    pub(super) const fn new(function: &'static str, first: u32, second: u32) -> Self {
        Self { function, first, second }
    }
}

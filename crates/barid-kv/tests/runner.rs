//! The tests of the crate as one binary.

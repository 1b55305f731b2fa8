//! Tests of indexes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod differential;

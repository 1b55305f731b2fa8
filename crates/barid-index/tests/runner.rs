//! Tests of indexes.

mod differential;

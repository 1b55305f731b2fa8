//! Tests of the planner, through a draft that is applied to bytes in memory.

mod random;
mod support;
mod written;

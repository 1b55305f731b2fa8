//! Tests of the planner, through a draft that is applied to bytes in memory.

mod peers;
mod random;
mod real;
mod support;
mod written;

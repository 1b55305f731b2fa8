//! Tests of writing: random drafts take the place of a planner.

mod applying;
mod crashing;
mod failing;
mod support;

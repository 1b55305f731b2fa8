//! Tests of writing: drafts made at random take the place of a planner.

mod applying;
mod crashing;
mod failing;
mod support;

//! Tests in memory.

mod changing;
mod crashing;
mod scanning;
mod support;

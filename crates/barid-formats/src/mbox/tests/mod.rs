//! Tests of reading, on files in memory.

mod support;

mod appending;
mod changing;
mod compressed;
mod failing;
mod locking;
mod numbered;
mod numbering;
mod reading;
mod scanning;
mod torn;
mod trouble;

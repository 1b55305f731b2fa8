//! Bounds of the inputs and of the time that they may take.

use std::time::Duration;

/// Greatest length of a mutated input in bytes.
pub const INPUT_LEN_MAX: usize = 256 << 10;
/// Most mutations of one input.
pub const MUTATIONS_MAX: u32 = 12;
/// Most copies of a piece that one mutation inserts.
pub const COPIES_MAX: usize = 4_096;
/// Time within which a target must return: thousands of times what the slowest input needs, so that
/// a busy machine does not fail it.
pub const INPUT_TIME_MAX: Duration = Duration::from_secs(20);
/// Greatest length in bytes of a file that is read as an input.
pub const INPUT_FILE_LEN_MAX: u64 = 64 << 20;

//! Bounds on what a bench may take.

use std::time::Duration;

use barid_testkit::peers::ANSWER_TIMEOUT_S;

/// No run of a measured program may take longer.
pub const RUN_DEADLINE: Duration = Duration::from_secs(3600);

/// No run of NeoMutt's may take longer. It must be killed by the process that measures it, which
/// itself is killed later.
pub const NEOMUTT_DEADLINE: Duration = Duration::from_secs(ANSWER_TIMEOUT_S - 10);

/// How often anonymous memory is looked at, in runs that are not timed.
pub const SAMPLE_INTERVAL: Duration = Duration::from_micros(500);

/// Bytes read at a time from each of two listings that are compared.
pub const COMPARE_BUFFER_LEN: usize = 64 * 1024;

/// The longest beginning of a line of a listing that an error shows, in bytes.
pub const LINE_SHOWN_MAX: usize = 200;

//! Bounds on what a bench may take.

use std::ops::Range;
use std::time::Duration;

use barid_testkit::peers::ANSWER_TIMEOUT_S;

/// No run of barid in the bench of header caches may take longer.
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

/// No run of a program in the other benches may take longer; peers have the same deadline.
pub const STEP_DEADLINE: Duration = Duration::from_secs(ANSWER_TIMEOUT_S);

/// How many messages are appended together; not more than a small mailbox has.
pub const APPEND_LEN: usize = 1_000;

/// Bytes of a message that is small.
pub const SMALL_MESSAGE_LEN: Range<usize> = 2_000..6_000;

/// The least bytes of the body of a message that is large.
pub const LARGE_MESSAGE_LEN: usize = 128 << 10;

/// The longest argument of a command, in bytes; Linux takes 128 KiB.
pub const ARGUMENT_LEN_MAX: usize = 120_000;

/// The longest set of numbers in a command to a peer, in bytes; both take lines of 64 KiB.
pub const COMMAND_LEN_MAX: usize = 60_000;

/// About how many messages hold the word that is looked for.
pub const RARE_MESSAGES: u64 = 8;

/// Bytes read at a time of what is thrown away.
pub const READ_BUFFER_LEN: usize = 256 * 1024;

/// Messages whose texts are asked of a peer at once, to be compared.
pub const BODIES_AT_ONCE: usize = 500;

/// Numbers of a range in what a program has found.
pub const RANGE_LEN_MAX: u32 = 1 << 20;

/// One message in so many may be in another thread at c-client.
pub const THREADS_ALIKE_MIN: usize = 1000;

/// One message in so many that a search must find may be missed by c-client.
pub const SEARCHED_ALIKE_MIN: usize = 8;

/// How long the daemon of the spam filter may take to listen.
pub const DAEMON_DEADLINE: Duration = Duration::from_secs(20);

//! Bounds on what a bench may take.

use std::ops::Range;
use std::time::Duration;

use barid_testkit::peers::ANSWER_TIMEOUT_S;

/// Deadline for a run of barid in the bench of header caches.
pub const RUN_DEADLINE: Duration = Duration::from_secs(3600);

/// Deadline for a run of NeoMutt. The process that measures it must kill it, before that process
/// itself is killed.
pub const NEOMUTT_DEADLINE: Duration = Duration::from_secs(ANSWER_TIMEOUT_S - 10);

/// Interval between samples of anonymous memory, in runs that are not timed.
pub const SAMPLE_INTERVAL: Duration = Duration::from_micros(500);

/// Bytes read at a time from each of two listings that are compared.
pub const COMPARE_BUFFER_LEN: usize = 64 * 1024;

/// Most bytes of a listing's line that an error shows.
pub const LINE_SHOWN_MAX: usize = 200;

/// Deadline for a run of a program in the other benches; peers have the same deadline.
pub const STEP_DEADLINE: Duration = Duration::from_secs(ANSWER_TIMEOUT_S);

/// Number of messages appended together; at most as many as a small mailbox has.
pub const APPEND_LEN: usize = 1_000;

/// Size of a small message in bytes.
pub const SMALL_MESSAGE_LEN: Range<usize> = 2_000..6_000;

/// Least size of the body of a large message, in bytes.
pub const LARGE_MESSAGE_LEN: usize = 128 << 10;

/// The longest argument of a command, in bytes; Linux accepts 128 KiB.
pub const ARGUMENT_LEN_MAX: usize = 120_000;

/// The longest set of numbers in a command to a peer, in bytes; both peers accept lines of 64 KiB.
pub const COMMAND_LEN_MAX: usize = 60_000;

/// Approximate number of messages that contain the word to search for.
pub const RARE_MESSAGES: u64 = 8;

/// Bytes read at a time of discarded output.
pub const READ_BUFFER_LEN: usize = 256 * 1024;

/// Messages whose texts are fetched from a peer at once for comparison.
pub const BODIES_AT_ONCE: usize = 500;

/// Upper limit on the length of a range in a search result.
pub const RANGE_LEN_MAX: u32 = 1 << 20;

/// c-client may put one message in this many into a different thread.
pub const THREADS_ALIKE_MIN: usize = 1000;

/// c-client may miss one in this many of the messages that a search must find.
pub const SEARCHED_ALIKE_MIN: usize = 8;

/// Time that the daemon of the spam filter may take until it listens.
pub const DAEMON_DEADLINE: Duration = Duration::from_secs(20);

/// Servers may report one envelope in this many differently: of a field that a message has twice,
/// Dovecot reports the last one, barid the first (`docs/deviations.md`).
pub const ENVELOPES_ALIKE_MIN: usize = 200;

/// Time that a server may take until it is at rest.
pub const REST_TIMEOUT: Duration = Duration::from_secs(5);

/// Time in which all sessions should be told of a new message. Dovecot looks every 30 seconds where
/// it is not told by the kernel.
pub const PUSH_TIMEOUT: Duration = Duration::from_secs(60);

/// The largest file of a run that the report reads, in bytes.
pub const RUN_FILE_LEN_MAX: u64 = 16 << 20;

/// Most folders of runs that the report reads.
pub const RUN_FOLDERS_MAX: usize = 1_000;

/// Most files of one run that the report reads.
pub const RUN_FILES_MAX: usize = 100;

/// Most points of a chart of the report; the table beside it has them all.
pub const CHART_POINTS_MAX: usize = 60;

/// Most characters of a name in a chart of the report.
pub const CHART_NAME_LEN_MAX: usize = 26;

/// Most rows of a table of runs that the report reads.
pub const RUN_ROWS_MAX: usize = 20_000;

/// Time after which changed files are old enough for a program to trust their stamps.
pub const REST: Duration = Duration::from_millis(2_500);

/// Most attempts to draw the queries of one class in one field.
pub const QUERY_DRAWS_MAX: usize = 5_000;

/// Number of searches with a delivery before them in each round, and of as many without.
pub const DELIVERY_PAIRS: usize = 7;

//! Bounds of all that a server can send.

use std::time::Duration;

/// Longest wait for the next response of a server. Generous: the machine may be busy.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Deepest nesting of lists in a response that is parsed.
pub const NESTING_MAX: usize = 200;
/// Most bytes of a session that are kept for the report of a failure.
pub const TRANSCRIPT_LEN_MAX: usize = 1 << 20;
/// Most bytes of one line in the report of a failure.
pub const SHOWN_LEN_MAX: usize = 2_000;
/// Longest wait for the start of a server.
pub const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for the end of a server that was asked to stop.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest wait for the end of processes whose supervisor was killed.
pub const ORPHAN_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest run of a client.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(180);
/// Longest wait for a text on the screen of a client.
pub const SCREEN_TIMEOUT: Duration = Duration::from_secs(20);
/// Time without output after which a client waits for keys.
pub const SCREEN_STILL: Duration = Duration::from_millis(400);

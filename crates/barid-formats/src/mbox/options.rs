//! Options of an mbox.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jiff::tz::TimeZone;

use super::layout::WINDOW_LEN;
use super::{FromProfile, MboxLock, WritingOptions};

/// Options for reading, locking and writing an mbox.
#[derive(Clone, Debug)]
pub struct MboxOptions {
    /// Program whose rules decide which lines separate messages.
    pub profile: FromProfile,
    /// Zone of From_ lines that name none. `None` means the system's zone, looked up when needed.
    pub zone: Option<TimeZone>,
    /// Longest wait for another program's lock.
    pub lock_timeout: Duration,
    /// Set to `true` to stop waiting for a lock before the timeout.
    pub stop: Option<Arc<AtomicBool>>,
    /// Locks taken for writing, in this order.
    pub write_locks: Vec<MboxLock>,
    /// Folder of c-client's session locks.
    pub session_dir: PathBuf,
    /// Folder of the spill file, which has no name and stores the text of a compressed file once a
    /// reader goes back in it. If `None`, the text is decompressed again instead.
    pub spill_dir: Option<PathBuf>,
    /// Bytes of the file scanned into one sink; chosen by the size of the file if `None`.
    pub chunk_len: Option<u64>,
    /// Bytes read from the file at once.
    pub window_len: usize,
    /// Bounds on how a change is split into journal steps.
    pub writing: WritingOptions,
}

impl Default for MboxOptions {
    /// Returns options with a timeout of 30 s, all locks, and session locks in `/tmp`.
    fn default() -> Self {
        Self {
            profile: FromProfile::default(),
            zone: None,
            lock_timeout: Duration::from_secs(30),
            stop: None,
            write_locks: MboxLock::ALL.to_vec(),
            session_dir: PathBuf::from("/tmp"),
            spill_dir: None,
            chunk_len: None,
            window_len: WINDOW_LEN,
            writing: WritingOptions::default(),
        }
    }
}

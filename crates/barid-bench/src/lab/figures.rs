//! The resources that a side used at a step.

use barid_testkit::usage::Usage;
use barid_testkit::watch::Watched;

/// The figures of one side at one step in one round, from the kernel's accounting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Wall-clock time in seconds: of a whole process from just before its start until it is
    /// reaped, of a part of a session the duration of its commands.
    pub real_s: f64,
    /// CPU time in user mode, in seconds; for a part of a session in ticks of 10 ms.
    pub user_s: f64,
    /// CPU time in the kernel, like [`Figures::user_s`].
    pub sys_s: f64,
    /// The peak of all resident memory in bytes, file pages included; for a whole process at least
    /// [`crate::Launched::floor`].
    pub maxrss_bytes: u64,
    /// The highest sample of anonymous memory in bytes; only for untimed runs that last at least
    /// one sampling interval.
    pub anon_bytes: Option<u64>,
    /// Bytes returned by read calls.
    pub read_chars: u64,
    /// Bytes passed to write calls.
    pub write_chars: u64,
    /// Bytes read from the disk.
    pub read_bytes: u64,
    /// Bytes of file pages made dirty.
    pub write_bytes: u64,
    /// Page faults without disk reads; whole processes only.
    pub minor_faults: u64,
    /// Page faults with disk reads; whole processes only.
    pub major_faults: u64,
    /// File-system inputs, in blocks of 512 bytes; whole processes only.
    pub fs_inputs: u64,
    /// File-system outputs, in blocks of 512 bytes; whole processes only.
    pub fs_outputs: u64,
    /// Calls that wait for the disk, if they are counted; untimed runs only.
    pub barriers: Option<u64>,
    /// The size of the mailbox after the step, if the bench writes to it.
    pub file_bytes: u64,
    /// Bytes allocated on the disk after the step for caches, state and indexes, or for the word
    /// list.
    pub index_bytes: u64,
    /// The proportional set size of all processes of a server in bytes, if the step measures it.
    pub pss_bytes: u64,
    /// Bytes that a server answered with, if the step counts them.
    pub answer_bytes: u64,
}

impl Figures {
    /// Returns the figures of a whole process.
    pub(crate) fn of_process(usage: &Usage) -> Self {
        Self {
            real_s: usage.wall.as_secs_f64(),
            user_s: usage.user.as_secs_f64(),
            sys_s: usage.sys.as_secs_f64(),
            maxrss_bytes: usage.maxrss,
            anon_bytes: usage.anon_peak,
            read_chars: usage.io.read_chars,
            write_chars: usage.io.write_chars,
            read_bytes: usage.io.read_bytes,
            write_bytes: usage.io.write_bytes,
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
            fs_inputs: usage.blocks_in,
            fs_outputs: usage.blocks_out,
            ..Self::default()
        }
    }

    /// Returns the figures of a part of a session.
    pub(crate) fn of_session(watched: &Watched) -> Self {
        Self {
            real_s: watched.wall.as_secs_f64(),
            user_s: watched.user.as_secs_f64(),
            sys_s: watched.sys.as_secs_f64(),
            maxrss_bytes: watched.maxrss,
            anon_bytes: watched.anon_peak,
            read_chars: watched.io.read_chars,
            write_chars: watched.io.write_chars,
            read_bytes: watched.io.read_bytes,
            write_bytes: watched.io.write_bytes,
            ..Self::default()
        }
    }
}

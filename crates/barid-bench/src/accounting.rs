//! What a run used.

use barid_testkit::usage::Usage;
use serde::Serialize;

/// The figures of one run of a process, from the kernel's accounting of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// From just before it was started until it was reaped, in seconds.
    pub real_s: f64,
    /// CPU time in user mode, in seconds.
    pub user_s: f64,
    /// CPU time in the kernel, in seconds.
    pub sys_s: f64,
    /// The peak of all resident memory in bytes, file pages included; not less than
    /// [`crate::Launched::floor`].
    pub maxrss_bytes: u64,
    /// The highest sample of anonymous memory in bytes; only of runs that are not timed and not
    /// shorter than the interval.
    pub anon_bytes: Option<u64>,
    /// Page faults that needed no reading.
    pub minor_faults: u64,
    /// Page faults that read from a disk.
    pub major_faults: u64,
    /// File-system inputs, in blocks of 512 bytes.
    pub fs_inputs: u64,
    /// File-system outputs, in blocks of 512 bytes.
    pub fs_outputs: u64,
    /// What is allocated on the disk for the cache afterwards, in bytes.
    pub disk_bytes: u64,
}

impl Figures {
    /// The figures of a finished process whose cache has this size.
    pub(crate) fn new(usage: &Usage, disk_bytes: u64) -> Self {
        Self {
            real_s: usage.wall.as_secs_f64(),
            user_s: usage.user.as_secs_f64(),
            sys_s: usage.sys.as_secs_f64(),
            maxrss_bytes: usage.maxrss,
            anon_bytes: usage.anon_peak,
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
            fs_inputs: usage.blocks_in,
            fs_outputs: usage.blocks_out,
            disk_bytes,
        }
    }
}

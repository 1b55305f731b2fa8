//! The services of the machine beside its file systems: clock, processes, random bytes.

use std::fmt::Debug;
use std::io;
use std::time::Duration;

use crate::api::Timestamp;

/// A process, as named in lock files and unique file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// The name of the host (`uname -n`).
    pub host: String,
}

/// A machine: its clock, its processes and its source of random bytes.
pub trait Host: Debug + Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
    /// Sleeps for `duration`. Test doubles advance their clock instead.
    fn sleep(&self, duration: Duration);
    /// Returns this process, as lock files name it. Test doubles return a fixed one.
    fn process(&self) -> Process;
    /// Returns the effective user id of this process. Test doubles return the one that was set.
    fn user(&self) -> u32;
    /// Returns `true` if a process of this host is alive (`kill` with signal 0). Test doubles know
    /// only their own processes.
    fn process_alive(&self, pid: u32) -> bool;
    /// Returns the time at which this machine booted, if known. It is derived from the current
    /// clock, so it moves if the clock is set. Test doubles booted when they were created.
    fn boot_time(&self) -> Option<Timestamp>;
    /// Fills `bytes` with random bytes. Test doubles generate them from a seed.
    ///
    /// # Errors
    /// Errors of the system.
    fn random(&self, bytes: &mut [u8]) -> io::Result<()>;
}

//! The resource usage of a process, from the kernel's accounting.
//!
//! CPU, faults, blocks and the peak of all resident memory come from `wait4`: exact, at no cost to
//! the measured process. The peak is at least that of the measuring process, which therefore must
//! be small. Anonymous memory (`RssAnon`, the peak memory of DESIGN.md) has no peak counter in the
//! kernel, so it is sampled from `/proc/PID/status`; that disturbs short runs, so it must be
//! requested ([`Sampling::Every`]) and such runs are not used for times. Samples start when the
//! process executes the command: before that, it has the memory of the measuring process. A run
//! shorter than the interval has no sample, and [`Usage::anon_peak`] is `None`.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

use crate::disk;

/// The resource usage of a finished process.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Its exit status.
    pub status: ExitStatus,
    /// Time from just before it was started until it was reaped.
    pub wall: Duration,
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub sys: Duration,
    /// The peak of all resident memory in bytes, file pages included (`ru_maxrss`).
    pub maxrss: u64,
    /// The highest sample of anonymous memory in bytes, if sampling was requested.
    pub anon_peak: Option<u64>,
    /// Page faults that needed no reading (`ru_minflt`).
    pub minor_faults: u64,
    /// Page faults that read from a disk (`ru_majflt`).
    pub major_faults: u64,
    /// Blocks of 512 bytes that a file system had to read (`ru_inblock`).
    pub blocks_in: u64,
    /// Blocks of 512 bytes that a file system was given to write (`ru_oublock`).
    pub blocks_out: u64,
    /// Its reads and writes, including those of children that it waited for.
    pub io: Io,
}

/// The reads and writes of a process (`/proc/PID/io`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    /// Bytes returned by calls that read, of pipes and sockets as well.
    pub read_chars: u64,
    /// Bytes given to calls that write, to pipes and sockets as well.
    pub write_chars: u64,
    /// Bytes fetched from a disk.
    pub read_bytes: u64,
    /// Bytes of file pages that were made dirty, and so will be written to a disk.
    pub write_bytes: u64,
}

impl Io {
    /// Reads the counters of a process, which may have ended but must not be reaped; zeroes if the
    /// kernel does not report them.
    pub(crate) fn of(pid: u32) -> Self {
        let text = disk::read_text(Path::new(&format!("/proc/{pid}/io"))).unwrap_or_default();
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(": "));
            let line = lines.find(|(key, _)| *key == name);
            line.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
        };
        Self {
            read_chars: value("rchar"),
            write_chars: value("wchar"),
            read_bytes: value("read_bytes"),
            write_bytes: value("write_bytes"),
        }
    }

    /// Returns the difference from `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            read_chars: self.read_chars.saturating_sub(before.read_chars),
            write_chars: self.write_chars.saturating_sub(before.write_chars),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            write_bytes: self.write_bytes.saturating_sub(before.write_bytes),
        }
    }
}

impl Usage {
    /// Returns the peak of anonymous memory in bytes as sampled; for a run too short for a sample
    /// [`Usage::maxrss`], which is never less.
    pub fn memory(&self) -> u64 {
        self.anon_peak.unwrap_or(self.maxrss)
    }
}

/// A choice whether to sample the memory of a running process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// No: nothing disturbs the run.
    Off,
    /// Read `RssAnon` at this interval.
    Every(Duration),
}

/// Runs a command to its end and returns its resource usage.
///
/// # Errors
///
/// If it cannot be started. A command that runs longer than `deadline` is killed, which its status
/// shows.
pub fn measure(command: &mut Command, deadline: Duration, sampling: Sampling) -> io::Result<Usage> {
    let start = Instant::now();
    let child = command.spawn()?;
    finish(child, start, deadline, sampling)
}

/// Waits for a child started at `start`, like [`measure`].
pub fn finish(
    child: Child,
    start: Instant,
    deadline: Duration,
    sampling: Sampling,
) -> io::Result<Usage> {
    let pid = child.id();
    let (done, watch) = mpsc::channel::<()>();
    let watcher = thread::spawn(move || watch_process(pid, deadline, sampling, &watch));
    // After it has been reaped its reads and writes are unknown.
    let ended = await_end(pid);
    let wall = start.elapsed();
    let io = Io::of(pid);
    let result = ended.and_then(|()| reap(child));
    drop(done);
    let anon_peak = watcher.join().expect("because the watcher does not panic");
    let (status, used) = result?;
    let time = |time: libc::timeval| {
        let micros = time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_usec);
        Duration::from_micros(count(micros))
    };
    Ok(Usage {
        status,
        wall,
        user: time(used.ru_utime),
        sys: time(used.ru_stime),
        maxrss: count(used.ru_maxrss).saturating_mul(1024),
        anon_peak: match sampling {
            Sampling::Off => None,
            Sampling::Every(_) => Some(anon_peak).filter(|bytes| *bytes > 0),
        },
        minor_faults: count(used.ru_minflt),
        major_faults: count(used.ru_majflt),
        blocks_in: count(used.ru_inblock),
        blocks_out: count(used.ru_oublock),
        io,
    })
}

/// Waits for the end of a child without reaping it.
fn await_end(pid: u32) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(pid as i32) else { return Ok(()) };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(error) = waitid(WaitId::Pid(pid), options) {
        if error != rustix::io::Errno::INTR {
            return Err(error.into());
        }
    }
    Ok(())
}

/// Reaps a child and returns its usage, with that of the processes that it waited for. `rustix` has
/// no `wait4`, which returns both.
#[expect(unsafe_code, reason = "a call of the C library")]
fn reap(child: Child) -> io::Result<(ExitStatus, libc::rusage)> {
    let pid = child.id() as libc::pid_t;
    let mut status = 0;
    // SAFETY: zeros are a valid value of this structure of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both places are valid; the child was not reaped before, and is not waited for
        // again.
        if unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) } == pid {
            return Ok((ExitStatus::from_raw(status), usage));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Returns a number of the kernel's, which is never negative.
fn count(value: libc::c_long) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Samples and enforces the deadline until the other end of `watch` is dropped. Returns the peak of
/// the samples in bytes.
fn watch_process(
    pid: u32,
    deadline: Duration,
    sampling: Sampling,
    watch: &mpsc::Receiver<()>,
) -> u64 {
    // A descriptor always refers to the same process; a number can be reused.
    let process = Pid::from_raw(pid as i32).and_then(|p| pidfd_open(p, PidfdFlags::empty()).ok());
    let mut memory = Memory::of(pid);
    let start = Instant::now();
    loop {
        let left = deadline.saturating_sub(start.elapsed());
        let pause = match sampling {
            Sampling::Off => left,
            Sampling::Every(interval) => {
                memory.look();
                interval.min(left)
            }
        };
        match watch.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) if start.elapsed() >= deadline => {
                // It may have ended just now, which is fine.
                process.map(|process| pidfd_send_signal(process, Signal::KILL));
                return memory.peak;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return memory.peak,
        }
    }
}

/// The peak of a process's anonymous memory in the samples.
#[derive(Debug)]
struct Memory {
    folder: PathBuf,
    /// The command line of this process, which the child shares until it executes the command.
    own_cmdline: Vec<u8>,
    is_command: bool,
    /// In bytes.
    peak: u64,
}

impl Memory {
    fn of(pid: u32) -> Self {
        let own_cmdline = disk::read(Path::new("/proc/self/cmdline")).unwrap_or_default();
        let folder = PathBuf::from(format!("/proc/{pid}"));
        Self { folder, own_cmdline, is_command: false, peak: 0 }
    }

    fn look(&mut self) {
        if !self.is_command {
            // It is empty while the command is being executed.
            let cmdline = disk::read(&self.folder.join("cmdline")).unwrap_or_default();
            self.is_command = !cmdline.is_empty() && cmdline != self.own_cmdline;
        }
        if self.is_command {
            self.peak = self.peak.max(rss_anon(&self.folder.join("status")).unwrap_or(0));
        }
    }
}

/// Returns `RssAnon` of a process in bytes.
pub(crate) fn rss_anon(status_path: &Path) -> Option<u64> {
    let text = disk::read_text(status_path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(5);

    #[test]
    fn a_process_is_accounted() {
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]);
        let usage = measure(&mut command, Duration::from_secs(60), Sampling::Every(SHORT)).unwrap();
        assert!(usage.status.success());
        assert!(usage.user > Duration::ZERO);
        assert!(usage.maxrss > 100_000);
        assert!(usage.minor_faults > 10);
    }

    #[test]
    fn reads_and_writes_are_accounted() {
        let mut command = Command::new("sh");
        command.args(["-c", "head -c 100000 /dev/zero > /dev/null; true"]);
        let usage = measure(&mut command, Duration::from_secs(60), Sampling::Off).unwrap();
        let Io { read_chars, write_chars, .. } = usage.io;
        assert!(read_chars > 100_000 && write_chars >= 100_000, "{usage:?}");
    }

    #[test]
    fn memory_from_before_the_command_is_not_seen() {
        const HELD_LEN: usize = 32 << 20;
        let held = std::hint::black_box(vec![1_u8; HELD_LEN]);
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]);
        let every = Sampling::Every(Duration::from_micros(10));
        let usage = measure(&mut command, Duration::from_secs(60), every).unwrap();
        assert!(usage.anon_peak.unwrap() < held.len() as u64 / 4, "{usage:?}");
    }

    #[test]
    fn the_deadline_is_kept() {
        let mut command = Command::new("sleep");
        command.arg("600");
        let usage = measure(&mut command, SHORT, Sampling::Off).unwrap();
        assert!(!usage.status.success());
    }
}

//! The resource usage of a running process for one of many requests.
//!
//! A session with a peer gets one request after the other. Time, CPU, reads and writes of one of
//! them are differences of the kernel's counters; the peak of resident memory is reset before
//! (`/proc/PID/clear_refs`), if permitted. The kernel counts CPU times in ticks, usually of 10 ms.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::disk;
use crate::usage::{Io, Sampling, rss_anon};

/// The usage between two moments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watched {
    /// Elapsed time.
    pub wall: Duration,
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub sys: Duration,
    /// The peak of all resident memory in bytes, file pages included.
    pub maxrss: u64,
    /// The highest sample of anonymous memory in bytes, if sampling was requested.
    pub anon_peak: Option<u64>,
    /// Its reads and writes.
    pub io: Io,
}

/// A process being observed.
#[derive(Debug)]
pub struct Watch {
    pid: u32,
    io: Io,
    cpu: (Duration, Duration),
    sampler: Option<(Sender<()>, JoinHandle<u64>)>,
    start: Instant,
}

impl Watch {
    /// Begins to observe a process that is already running.
    pub fn start(pid: u32, sampling: Sampling) -> Self {
        // If that is not permitted, the peak is that of the whole life of the process.
        drop(disk::write(Path::new(&format!("/proc/{pid}/clear_refs")), b"5"));
        let sampler = match sampling {
            Sampling::Off => None,
            Sampling::Every(interval) => {
                let (done, watch) = mpsc::channel();
                Some((done, thread::spawn(move || sample(pid, interval, &watch))))
            }
        };
        let (io, cpu) = (Io::of(pid), cpu(pid));
        Self { pid, io, cpu, sampler, start: Instant::now() }
    }

    /// Ends the observation; the process must still be running.
    pub fn end(self) -> Watched {
        let wall = self.start.elapsed();
        let (user, sys) = cpu(self.pid);
        let anon_peak = self.sampler.map(|(done, sampler)| {
            drop(done);
            sampler.join().expect("because the sampler does not panic")
        });
        Watched {
            wall,
            user: user.saturating_sub(self.cpu.0),
            sys: sys.saturating_sub(self.cpu.1),
            maxrss: peak(self.pid),
            anon_peak,
            io: Io::of(self.pid).since(self.io),
        }
    }
}

/// Returns the usage of a running process in its whole life, without `wall`.
pub fn so_far(pid: u32) -> Watched {
    let (user, sys) = cpu(pid);
    let (maxrss, io) = (peak(pid), Io::of(pid));
    Watched { user, sys, maxrss, io, ..Watched::default() }
}

fn sample(pid: u32, interval: Duration, watch: &mpsc::Receiver<()>) -> u64 {
    let path = format!("/proc/{pid}/status");
    let mut peak = 0;
    loop {
        peak = peak.max(rss_anon(Path::new(&path)).unwrap_or(0));
        if watch.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
            return peak;
        }
    }
}

/// Returns `VmHWM` in bytes.
fn peak(pid: u32) -> u64 {
    let text = disk::read_text(Path::new(&format!("/proc/{pid}/status"))).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kilobytes.unwrap_or(0_u64) * 1024
}

/// Returns CPU times in user mode and in the kernel, of all threads.
fn cpu(pid: u32) -> (Duration, Duration) {
    let text = disk::read_text(Path::new(&format!("/proc/{pid}/stat"))).unwrap_or_default();
    // The name of the program, in brackets, may contain anything.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let per_s = rustix::param::clock_ticks_per_second().max(1) as f64;
    let mut next = || {
        let ticks: u64 = fields.next().and_then(|field| field.parse().ok()).unwrap_or(0);
        Duration::from_secs_f64(ticks as f64 / per_s)
    };
    (next(), next())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn one_of_many_things_is_accounted() {
        let mut command = Command::new("sh");
        command.args(["-c", "read x; head -c 100000 /dev/zero > /dev/null; echo; read x"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let watch = Watch::start(child.id(), Sampling::Every(Duration::from_millis(1)));
        let (input, output) = (child.stdin.as_mut().unwrap(), child.stdout.as_mut().unwrap());
        input.write_all(b"\n").unwrap();
        output.read_exact(&mut [0]).unwrap();
        let watched = watch.end();
        assert!(watched.io.read_chars >= 100_000, "{watched:?}");
        assert!(watched.anon_peak.unwrap() > 0 && watched.maxrss > 0, "{watched:?}");
        let idle = Watch::start(child.id(), Sampling::Off).end();
        assert_eq!((idle.io, idle.anon_peak), (Io::default(), None));
        assert!(so_far(child.id()).io.read_chars >= 100_000);
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        child.wait().unwrap();
    }
}

//! The resources of a process and of all processes below it.
//!
//! A server may be one process or hundreds, of which some end while it is measured. The kernel adds
//! the CPU time of an ended process to its parent once the parent has waited for it, so the sum
//! over a tree loses nothing as long as nobody leaves the tree. CPU times are counted in ticks,
//! usually of 10 ms.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::disk;

/// Time between looks at a tree that may still be working.
const LOOK_INTERVAL: Duration = Duration::from_millis(25);
/// Looks without CPU time after which a tree is at rest.
const QUIET_LOOKS: u32 = 4;

/// CPU time of all processes of a tree since their starts, ended ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeCpu {
    /// Time in user mode.
    pub user: Duration,
    /// Time in the kernel.
    pub sys: Duration,
}

impl TreeCpu {
    /// Returns the CPU time of the process `root` and of those below it; nothing if it has ended.
    ///
    /// # Errors
    /// If `/proc` cannot be listed.
    pub fn of(root: u32) -> io::Result<Self> {
        let tick = Duration::from_secs(1) / rustix::param::clock_ticks_per_second().max(1) as u32;
        let mut sum = Self::default();
        for process in below(root)? {
            sum.user += tick * process.user_ticks;
            sum.sys += tick * process.sys_ticks;
        }
        Ok(sum)
    }

    /// Waits until the processes are at rest, and returns their CPU time then.
    ///
    /// # Errors
    /// If `/proc` cannot be listed.
    pub fn at_rest(root: u32, timeout: Duration) -> io::Result<Self> {
        let (deadline, mut quiet, mut last) = (Instant::now() + timeout, 0, Self::of(root)?);
        while quiet < QUIET_LOOKS && Instant::now() < deadline {
            std::thread::sleep(LOOK_INTERVAL);
            let now = Self::of(root)?;
            quiet = if now == last { quiet + 1 } else { 0 };
            last = now;
        }
        Ok(last)
    }

    /// Returns the time since an earlier look at the same tree.
    pub fn since(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            sys: self.sys.saturating_sub(before.sys),
        }
    }
}

/// Memory of all processes of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeMemory {
    /// Number of processes.
    pub processes: u32,
    /// Their proportional set sizes in bytes: memory that several processes share counts once.
    pub pss: u64,
}

impl TreeMemory {
    /// Returns the memory of the process `root` and of those below it.
    ///
    /// # Errors
    /// If `/proc` cannot be listed, or tells the sizes of a process only to another user.
    pub fn of(root: u32) -> io::Result<Self> {
        let mut sum = Self::default();
        for Process { pid, .. } in below(root)? {
            let path = format!("/proc/{pid}/smaps_rollup");
            let text = match disk::read_text(Path::new(&path)) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
                // It has ended meanwhile.
                Err(_) => continue,
            };
            sum.processes += 1;
            sum.pss += pss(&text).unwrap_or(0);
        }
        Ok(sum)
    }
}

/// Returns the proportional set size in a text of `/proc/PID/smaps_rollup`, in bytes.
fn pss(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// A running process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    /// Ticks in user mode, with those of ended children.
    user_ticks: u32,
    /// Ticks in the kernel, likewise.
    sys_ticks: u32,
}

impl Process {
    /// Parses `/proc/PID/stat`.
    fn parse(pid: u32, stat: &str) -> Option<Self> {
        // The name stands in parentheses and may contain blanks and parentheses.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u32>().ok();
        Some(Self {
            pid,
            parent: number(1)?,
            user_ticks: number(11)?.saturating_add(number(13)?),
            sys_ticks: number(12)?.saturating_add(number(14)?),
        })
    }
}

/// Returns the process `root` and all below it.
fn below(root: u32) -> io::Result<Vec<Process>> {
    let mut children: HashMap<u32, Vec<Process>> = HashMap::new();
    let mut found = Vec::new();
    for path in disk::list(Path::new("/proc"))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Ok(pid) = name.parse() else { continue };
        let stat = disk::read_text(&path.join("stat")).unwrap_or_default();
        match Process::parse(pid, &stat) {
            Some(process) if pid == root => found.push(process),
            Some(process) => children.entry(process.parent).or_default().push(process),
            None => {}
        }
    }
    let mut next = 0;
    while let Some(process) = found.get(next) {
        found.extend(children.remove(&process.pid).unwrap_or_default());
        next += 1;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn ended_children_count() {
        let mut command = Command::new("sh");
        // The child of the shell works and ends; the shell waits for more input.
        command.args(["-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; read x"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let own = |pid| Process::parse(pid, &disk::read_text(&stat(pid)).unwrap()).unwrap();
        while below(child.id()).unwrap().len() > 1 || own(child.id()).user_ticks == 0 {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
        let cpu = TreeCpu::at_rest(child.id(), Duration::from_secs(5)).unwrap();
        assert!(cpu.user + cpu.sys >= Duration::from_millis(50), "{cpu:?}");
        let memory = TreeMemory::of(child.id()).unwrap();
        assert!(memory.processes == 1 && memory.pss > 50_000, "{memory:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(TreeCpu::of(child.id()).unwrap(), TreeCpu::default());
    }

    fn stat(pid: u32) -> std::path::PathBuf {
        format!("/proc/{pid}/stat").into()
    }

    #[test]
    fn names_may_be_strange() {
        let stat = "7 (a) b (c) S 3 7 7 0 -1 4194304 90 0 0 0 10 20 30 40 20 0 1 0 5";
        let expected = Process { pid: 7, parent: 3, user_ticks: 40, sys_ticks: 60 };
        assert_eq!(Process::parse(7, stat), Some(expected));
        assert_eq!(Process::parse(7, "7 (a"), None);
        assert_eq!(pss("Rss:  9 kB\nPss:       12 kB\n"), Some(12_288));
    }
}

//! A count of the calls of a program that wait until data is on disk.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::program;
use crate::disk;

/// The calls that wait for the disk.
const CALLS: [&str; 5] = ["fsync", "fdatasync", "msync", "sync_file_range", "syncfs"];

/// A log of strace with the barriers of a program, one a line.
///
/// strace slows down only these calls, and is not the parent of the program: the started process is
/// the program itself.
#[derive(Debug)]
pub struct BarrierLog {
    path: PathBuf,
    strace: PathBuf,
}

impl BarrierLog {
    /// Creates an empty log in a folder; its owner must be the user that the program will run as.
    ///
    /// # Errors
    ///
    /// Also fails if strace is not installed.
    pub fn create(folder: &Path) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let missing = || io::Error::other("strace (Debian package strace) is missing");
        let strace = program("strace").ok_or_else(missing)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("barriers-{}-{number}", std::process::id()));
        disk::write(&path, b"")?;
        Ok(Self { path, strace })
    }

    /// Returns the command that runs a program and writes the log.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(&self.strace);
        command.args(["-D", "-f", "-qq", "--seccomp-bpf", "-e", "signal=none", "-e"]);
        command.arg(format!("trace={}", CALLS.join(","))).arg("-o").arg(&self.path);
        command.arg(program);
        command
    }

    /// Returns the number of barriers so far.
    pub fn count(&self) -> u64 {
        count(&disk::read_text(&self.path).unwrap_or_default())
    }
}

impl Drop for BarrierLog {
    fn drop(&mut self) {
        // A file that cannot be removed is litter, not a failure.
        drop(disk::remove_file(&self.path));
    }
}

/// Counts the calls of a log. A call that another thread interrupts has two lines; the first
/// counts.
fn count(log: &str) -> u64 {
    let is_call = |line: &&str| {
        let call = line.split_once(' ').map_or("", |(_, call)| call.trim_start());
        CALLS.iter().any(|name| call.strip_prefix(name).is_some_and(|rest| rest.starts_with('(')))
    };
    log.lines().filter(is_call).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_once() {
        let log = "17 fsync(3) = 0\n18 fdatasync(4 <unfinished ...>\n17 fsync(3) = 0\n\
                   18 <... fdatasync resumed>) = 0\n17 +++ exited with 0 +++\n";
        assert_eq!(count(log), 3);
        assert_eq!(count(""), 0);
    }
}

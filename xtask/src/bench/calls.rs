//! System calls and bytes, counted by strace in runs that are not timed: for other disks and
//! kernels they are more meaningful than seconds.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use barid_testkit::disk;
use barid_testkit::peers::program;

use super::barid::Barid;
use super::figures::{Figures, megabytes};
use super::world::World;

/// Counts of a process's system calls and of the bytes read and written.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    calls: u64,
    read: u64,
    written: u64,
}

/// Notes the system calls of one run of barid; does nothing without strace.
pub(crate) fn note(
    world: &World,
    barid: &Barid<'_>,
    work: &str,
    words: &[&str],
    figures: &mut Figures,
) -> Result<()> {
    let Some(strace) = program("strace") else { return Ok(()) };
    let folder = world.fresh_folder("strace")?;
    let log = folder.join("log");
    let counted = barid.command(words);
    let mut command = Command::new(strace);
    command.args(["-f", "-qq", "-s", "0", "-o"]).arg(&log);
    command.arg(counted.get_program()).args(counted.get_args());
    world.user.run_as(&mut command, &world.options.folder);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().context("strace")?;
    ensure!(status.success(), "strace: {status}");
    let Counts { calls, read, written } = count(&log)?;
    let (read, written) = (megabytes(read), megabytes(written));
    figures.note(format!("{work}: {calls} system calls, {read} read, {written} written."));
    disk::remove_tree(&folder).context("cannot remove the log")
}

fn count(log: &Path) -> Result<Counts> {
    Ok(parse(&disk::read_text(log)?))
}

/// Counts the calls of a log. Lines look like `4711 pread64(3, ""..., 4096, 0) = 4096`; a call that
/// another thread interrupts has its result in a second line, `4711 <... read resumed>...) = 10`.
fn parse(log: &str) -> Counts {
    let mut counts = Counts::default();
    for line in log.lines() {
        let Some((_, call)) = line.trim_start().split_once(' ') else { continue };
        let call = call.trim_start();
        let Some((before, result)) = call.rsplit_once(" = ") else { continue };
        counts.calls += 1;
        let name = before.strip_prefix("<... ").unwrap_or(before);
        let name = name.split(['(', ' ']).next().unwrap_or_default();
        let bytes = result.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0_u64);
        match name {
            "read" | "pread64" | "readv" | "preadv" | "preadv2" => counts.read += bytes,
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" => counts.written += bytes,
            _ => {}
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted() {
        let log = "\
1 openat(AT_FDCWD, \"x\", O_RDONLY) = 3
1 read(3, \"\"..., 100) = 100
2 pread64(3,  <unfinished ...>
1 write(1, \"\"..., 7) = 7
2 <... pread64 resumed>\"\"..., 50, 0) = 50
1 read(9, 0x1, 1) = -1 EBADF (Bad file descriptor)
1 +++ exited with 0 +++
";
        assert_eq!(parse(log), Counts { calls: 5, read: 150, written: 7 });
    }
}

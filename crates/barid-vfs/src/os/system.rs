//! Facts of the kernel, the processes and the file systems.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::{Errno, retry_on_intr};

use super::timestamp;
use crate::api::Timestamp;
use crate::host::Process;

const BTRFS: u64 = 0x9123_683e;
pub(super) const EXT: u64 = 0xef53;
const F2FS: u64 = 0xf2f5_2010;
const TMPFS: u64 = 0x0102_1994;
const XFS: u64 = 0x5846_5342;
const ZFS: u64 = 0x2fc1_2fc1;

/// File systems whose `syncfs` reports write errors, since Linux 5.8.
pub(super) const SYNCFS_REPORTS_ERRORS: [u64; 5] = [BTRFS, EXT, F2FS, TMPFS, XFS];

/// File systems whose `fsync` of a new file makes its name durable, because all metadata is in one
/// ordered log. Of EXT only ext4, which without a journal syncs the folder itself.
pub(super) const SYNCS_NAMES: [u64; 3] = [EXT, TMPFS, XFS];

/// Returns the magic number of the file system of a file (`f_type` of `fstatfs`).
pub(super) fn file_system_of(file: &OwnedFd) -> io::Result<u64> {
    let found = retry_on_intr(|| rustix::fs::fstatfs(file))?;
    Ok(u64::from(found.f_type as u32))
}

pub(super) fn has_birth_time(file: &OwnedFd) -> io::Result<bool> {
    let wanted = StatxFlags::BTIME;
    match retry_on_intr(|| rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, wanted)) {
        Ok(found) => Ok(found.stx_mask & wanted.bits() != 0),
        Err(Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns `true` if the kernel release is `major.minor` or later.
pub(super) fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
}

/// Returns the id of this process and the host name.
pub(crate) fn process() -> Process {
    let uname = rustix::system::uname();
    Process { pid: std::process::id(), host: uname.nodename().to_string_lossy().into_owned() }
}

/// Returns the effective user id.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns `true` if a process exists, even if it belongs to another user.
pub(crate) fn process_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}

/// Returns the boot time: the current time less the time since boot.
pub(crate) fn boot_time() -> Option<Timestamp> {
    let clock = |id| {
        let now = rustix::time::clock_gettime(id);
        timestamp(now.tv_sec, now.tv_nsec).unix_nanos
    };
    let since = clock(rustix::time::ClockId::Boottime);
    Some(Timestamp { unix_nanos: clock(rustix::time::ClockId::Realtime).checked_sub(since)? })
}

/// Returns `true` if the file system is one of the common local ones.
pub(crate) fn is_local(path: &Path) -> bool {
    let found = retry_on_intr(|| rustix::fs::statfs(path));
    let kind = found.map(|found| u64::from(found.f_type as u32));
    kind.is_ok_and(|kind| [BTRFS, EXT, F2FS, TMPFS, XFS, ZFS].contains(&kind))
}

/// Fills `bytes` with random bytes from the kernel (`getrandom`).
pub(crate) fn random(bytes: &mut [u8]) -> io::Result<()> {
    let mut len = 0;
    while len < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        len += retry_on_intr(|| rustix::rand::getrandom(&mut bytes[len..], flags))?;
    }
    Ok(())
}

/// Returns `true` if the file system is one whose state after a crash during a collapse was tested
/// (ext4 and XFS).
pub(crate) fn collapses(path: &Path) -> bool {
    const EXT: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    let found = retry_on_intr(|| rustix::fs::statfs(path));
    found.is_ok_and(|found| [EXT, XFS].contains(&u64::from(found.f_type as u32)))
}

//! File systems on recorded disks.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::disk::Disks;
use super::image::{Event, Image};

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    Ext4,
    Xfs,
}

/// Options that prevent background writes.
const EXT4: &str = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";

impl FileSystem {
    pub(crate) const ALL: [Self; 2] = [Self::Ext4, Self::Xfs];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// Returns the size of the disk in bytes; unwritten blocks use no memory.
    pub(crate) fn len(self) -> u64 {
        match self {
            Self::Ext4 => 128 << 20,
            // The smallest size that mkfs.xfs accepts.
            Self::Xfs => 304 << 20,
        }
    }

    /// Makes an empty file system.
    pub(crate) fn make(self, device: &Path) -> Result<()> {
        let mut command = match self {
            Self::Ext4 => command("mkfs.ext4", &["-q", "-F", "-b", "4096", "-E", EXT4]),
            Self::Xfs => command("mkfs.xfs", &["-q", "-f", "-K"]),
        };
        run(command.arg(device))
    }
}

impl FileSystem {
    /// Returns `true` if an unmounted file system is sound according to its own tool.
    pub(crate) fn is_sound(self, device: &Path) -> Result<bool> {
        let mut command = match self {
            Self::Ext4 => command("e2fsck", &["-f", "-n"]),
            Self::Xfs => command("xfs_repair", &["-n", "-f"]),
        };
        let output = command.arg(device).output().with_context(|| format!("{command:?}"))?;
        Ok(output.status.success())
    }
}

/// A mounted disk; unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Mounted<'a> {
    disks: &'a Disks,
    number: u64,
    point: PathBuf,
    is_mounted: bool,
}

impl<'a> Mounted<'a> {
    /// Adds a disk and mounts it; the file system replays its journal.
    pub(crate) fn new(
        disks: &'a Disks,
        image: Image,
        is_logged: bool,
        folder: &Path,
        point: &Path,
    ) -> Result<Self> {
        let number = disks.add(image, is_logged);
        let mut mounted = Self { disks, number, point: point.to_owned(), is_mounted: false };
        let device = folder.join(number.to_string());
        if let Err(error) = run(command("mount", &["-o", "loop,noatime"]).arg(&device).arg(point)) {
            detach(&device);
            return Err(error);
        }
        mounted.is_mounted = true;
        Ok(mounted)
    }

    /// Returns the number of writes and flushes so far.
    pub(crate) fn position(&self) -> usize {
        self.disks.position(self.number)
    }

    /// Unmounts the disk; returns its contents and its log.
    pub(crate) fn unmount(mut self) -> Result<(Image, Vec<Event>)> {
        unmount(&self.point)?;
        self.is_mounted = false;
        self.disks.take(self.number).context("the disk is there")
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        if self.is_mounted {
            // A remaining mount ends with the namespace.
            drop(unmount(&self.point));
        }
        self.disks.take(self.number);
    }
}

/// Frees the loop device that a failed mount may leave behind.
fn detach(device: &Path) {
    let mut find = command("losetup", &["--noheadings", "--output", "NAME", "--associated"]);
    let Ok(found) = find.arg(device).output() else { return };
    for name in String::from_utf8_lossy(&found.stdout).split_ascii_whitespace() {
        // A device that cannot be detached stays behind; that is not a failure.
        drop(run(&mut command("losetup", &["--detach", name])));
    }
}

/// Unmounts a file system. Retries, as a process that has just ended may keep a file open briefly.
fn unmount(point: &Path) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let start = Instant::now();
    loop {
        match run(command("umount", &[]).arg(point)) {
            Err(error) if start.elapsed() > PATIENCE => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
            Ok(()) => return Ok(()),
        }
    }
}

fn command(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(args);
    command
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}: {}", output.status, said.trim());
    }
    Ok(())
}

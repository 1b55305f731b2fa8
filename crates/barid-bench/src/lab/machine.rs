//! The machine on which a bench runs.

use std::path::Path;

use barid_testkit::disk;
use serde::Serialize;

/// The machine of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// The name of the processor.
    pub(crate) cpu: String,
    /// Number of threads that can run in parallel.
    pub(crate) cores: usize,
    /// Installed memory in bytes.
    pub(crate) memory_bytes: u64,
    /// Name and release of the kernel.
    pub(crate) kernel: String,
    /// The file system of the folder where caches are made.
    pub(crate) file_system: String,
}

impl Machine {
    /// Reads the properties of this machine.
    pub(crate) fn of(folder: &Path) -> Self {
        let cpu = disk::read_text(Path::new("/proc/cpuinfo")).unwrap_or_default();
        let memory = disk::read_text(Path::new("/proc/meminfo")).unwrap_or_default();
        let mounts = disk::read_text(Path::new("/proc/self/mounts")).unwrap_or_default();
        let name = rustix::system::uname();
        let (system, release) = (name.sysname(), name.release());
        let kilobytes = value(&memory, "MemTotal").and_then(|text| text.split(' ').next());
        Self {
            cpu: value(&cpu, "model name").unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kilobytes.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) * 1024,
            kernel: format!("{} {}", system.to_string_lossy(), release.to_string_lossy()),
            file_system: file_system(&mounts, folder).unwrap_or("unknown").to_owned(),
        }
    }

    /// Returns one line for people.
    pub(crate) fn text(&self) -> String {
        let memory = self.memory_bytes as f64 / f64::from(1 << 30);
        format!(
            "{} cores, {}, {memory:.0} GiB, {}, {}",
            self.cores, self.cpu, self.kernel, self.file_system
        )
    }
}

/// Returns the value of a `name : value` line.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(key, value)| (key.trim(), value.trim())).find(|(key, _)| *key == name)?.1.into()
}

/// Returns the type of the file system that contains `folder`: that of the longest mount point
/// above it; of several mounts there, the last one.
fn file_system<'a>(mounts: &'a str, folder: &Path) -> Option<&'a str> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.nth(1)?, words.next()?))
    });
    let above = mounts.filter(|(point, _)| folder.starts_with(point));
    above.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_counts() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/x xfs rw 0 0\n";
        let check = |path, expected| assert_eq!(file_system(mounts, Path::new(path)), expected);
        check("/home", Some("ext4"));
        check("/tmp/y", Some("tmpfs"));
        check("/tmp/x/z", Some("xfs"));
    }

    #[test]
    fn values_are_found() {
        assert_eq!(value("a : 1\nmodel name\t: Cpu 2: x\n", "model name"), Some("Cpu 2: x"));
        assert_eq!(value("a", "a"), None);
    }
}

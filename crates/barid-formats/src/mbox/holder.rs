//! Finds the holder of a lock, to name it in an error message.
//!
//! A lock file names its holder, and so does c-client's session lock. The holder of a kernel lock
//! is read from `/proc/locks`, where that exists. All of this is only a hint.

use std::path::Path;

use barid_vfs::{File, LockKind, Metadata, OpenOptions, Vfs};

use super::layout::{COMM_LEN_MAX, KERNEL_LOCKS_LEN_MAX};

/// Reason why a lock could not be taken.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// Another program's lock file, and its content.
    LockFile(Option<String>),
    /// c-client's session lock, and the process id in its file.
    Session(Option<u32>),
    /// A kernel lock of this kind on the file with this metadata.
    Kernel(LockKind, Metadata),
    /// The file was replaced while its locks were taken.
    Replaced,
}

impl Obstacle {
    /// Describes the holder in a few words. Reads a few files of `/proc`.
    pub(super) fn describe(&self, vfs: &dyn Vfs) -> String {
        match self {
            Self::LockFile(content) => {
                format!("{} (lock file)", by_lock_file(vfs, content.as_deref()))
            }
            Self::Session(pid) => format!("{} (c-client session)", process(vfs, *pid)),
            Self::Kernel(kind, metadata) => {
                let name = if *kind == LockKind::Flock { "flock" } else { "fcntl" };
                format!("{} ({name})", process(vfs, by_kernel(vfs, *kind, metadata)))
            }
            Self::Replaced => "a program that replaces the file".to_owned(),
        }
    }
}

fn by_lock_file(vfs: &dyn Vfs, content: Option<&str>) -> String {
    let Some(content) = content else { return process(vfs, None) };
    let (pid, host) = content.split_once(':').unwrap_or((content, ""));
    match pid.parse() {
        Ok(pid) if host.is_empty() || host == vfs.process().host => process(vfs, Some(pid)),
        Ok(pid) => format!("process {pid} on {host}"),
        Err(_) => content.to_owned(),
    }
}

/// Describes a process by its id and, where `/proc` has it, the name of its program.
fn process(vfs: &dyn Vfs, pid: Option<u32>) -> String {
    let Some(pid) = pid else { return "another program".to_owned() };
    let mut bytes = [0; COMM_LEN_MAX];
    let comm = vfs.open(Path::new(&format!("/proc/{pid}/comm")), OpenOptions::READ);
    let len = comm.and_then(|comm| comm.read_full_at(&mut bytes, 0)).unwrap_or(0);
    let name: String =
        String::from_utf8_lossy(&bytes[..len]).chars().filter(|c| !c.is_control()).collect();
    match name.is_empty() {
        true => format!("process {pid}"),
        false => format!("process {pid}, {name}"),
    }
}

/// Returns the process that holds such a lock on the file according to `/proc/locks`. For an
/// open-file-description lock the kernel lists no process.
pub(super) fn by_kernel(vfs: &dyn Vfs, kind: LockKind, metadata: &Metadata) -> Option<u32> {
    let file = vfs.open(Path::new("/proc/locks"), OpenOptions::READ).ok()?;
    let table = read_table(&*file)?;
    let class = if kind == LockKind::Flock { "FLOCK" } else { "POSIX" };
    table.lines().find_map(|line| of_line(line, class, metadata))
}

/// Returns the holder that a line of `/proc/locks` names, if the line is for this file: `1: FLOCK
/// ADVISORY  WRITE 20636 fe:00:12215023 0 EOF`.
fn of_line(line: &str, class: &str, metadata: &Metadata) -> Option<u32> {
    let mut words = line.split_ascii_whitespace().skip(1);
    if words.next()? != class {
        return None;
    }
    let pid = words.nth(2)?.parse().ok()?;
    let mut place = words.next()?.split(':');
    let mut hex = || u64::from_str_radix(place.next()?, 16).ok();
    let (major, minor) = (hex()?, hex()?);
    let inode: u64 = place.next()?.parse().ok()?;
    let device = metadata.device;
    let same = inode == metadata.inode
        && major == ((device >> 8 & 0xfff) | (device >> 32 & !0xfff))
        && minor == ((device & 0xff) | (device >> 12 & 0xff_ff00));
    same.then_some(pid)
}

/// Reads a file of `/proc`, whose metadata does not give its size.
fn read_table(file: &dyn File) -> Option<String> {
    let mut bytes = vec![0; KERNEL_LOCKS_LEN_MAX];
    let len = file.read_full_at(&mut bytes, 0).ok()?;
    bytes.truncate(len);
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use barid_vfs::MemVfs;

    use super::*;

    fn world() -> MemVfs {
        let vfs = MemVfs::new();
        for (path, text) in [
            ("/proc/20636/comm", "imap\n"),
            (
                "/proc/locks",
                "1: FLOCK  ADVISORY  WRITE 9 fe:00:2 0 EOF\n\
                 2: POSIX  ADVISORY  WRITE 20636 fe:01:77 0 EOF\n\
                 2: -> POSIX  ADVISORY  WRITE 8 fe:01:77 0 EOF\n\
                 3: FLOCK  ADVISORY  WRITE 7 fe:01:77 0 EOF\n\
                 4: OFDLCK ADVISORY  READ  -1 fe:01:78 0 EOF\n",
            ),
        ] {
            vfs.create_dir_all(Path::new(path).parent().unwrap(), 0o755).unwrap();
            let file = vfs.open(Path::new(path), OpenOptions::create(0o600)).unwrap();
            file.write_all_at(text.as_bytes(), 0).unwrap();
        }
        vfs
    }

    fn check(obstacle: Obstacle, expected: &str) {
        assert_eq!(obstacle.describe(&world()), expected);
    }

    #[test]
    fn a_holder_is_named_as_far_as_known() {
        let file = |content: &str| Obstacle::LockFile(Some(content.to_owned()));
        check(file("20636:memory"), "process 20636, imap (lock file)");
        check(file("20636"), "process 20636, imap (lock file)");
        check(file("5:memory"), "process 5 (lock file)");
        check(file("20636:far"), "process 20636 on far (lock file)");
        check(file("nobody"), "nobody (lock file)");
        check(Obstacle::LockFile(None), "another program (lock file)");
        check(Obstacle::Session(Some(20636)), "process 20636, imap (c-client session)");
        check(Obstacle::Replaced, "a program that replaces the file");
    }

    #[test]
    fn the_table_of_the_kernel_is_read() {
        let mut metadata = world().metadata(Path::new("/proc")).unwrap();
        (metadata.device, metadata.inode) = (0xfe01, 77);
        check(Obstacle::Kernel(LockKind::Fcntl, metadata), "process 20636, imap (fcntl)");
        check(Obstacle::Kernel(LockKind::Flock, metadata), "process 7 (flock)");
        metadata.inode = 78;
        check(Obstacle::Kernel(LockKind::Fcntl, metadata), "another program (fcntl)");
    }
}

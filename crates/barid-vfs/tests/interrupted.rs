//! Calls that a signal interrupts are repeated: no caller ever gets `Interrupted`.
//!
//! Linux interrupts no call on a local file, whatever the signals, so `strace` makes every other
//! call on the folder of the test fail with EINTR.

use std::process::Command;

use barid_vfs::{File, LockKind, LockMode, OpenOptions, Timestamp};

use super::*;

/// The folder in which the traced process works.
const DIR: &str = "BARID_INTERRUPTED";

/// The calls that are interrupted: all that `OsVfs` makes, except for closing, which must not be
/// repeated.
const CALLS: [&str; 25] = [
    "openat",
    "pread64",
    "pwrite64",
    "read",
    "fstat",
    "newfstatat",
    "ftruncate",
    "fallocate",
    "fdatasync",
    "fsync",
    "fcntl",
    "flock",
    "getxattr",
    "setxattr",
    "removexattr",
    "fgetxattr",
    "fsetxattr",
    "fremovexattr",
    "utimensat",
    "mkdirat",
    "renameat",
    "linkat",
    "unlinkat",
    "statfs",
    "lseek",
];

fn work(dir: &Path) -> std::io::Result<()> {
    let (vfs, path, other) = (OsVfs, dir.join("f"), dir.join("g"));
    let file = vfs.open(&path, OpenOptions::create_new(0o600))?;
    let block = vfs.block_size(dir)?;
    let long = vec![b'x'; 4 * block as usize];
    for _ in 0..3 {
        file.write_all_at(&long, 0)?;
        file.read_exact_at(&mut long.clone(), 0)?;
        file.sync_data()?;
        file.sync_all()?;
        file.allocate(0, 8 * block)?;
        file.set_len(4 * block)?;
        ok_or_unsupported(file.collapse(block, block))?;
        file.first_hole(0)?;
        file.metadata()?;
        locks(&*file)?;
        attributes(&vfs, &path, &*file)?;
        file.set_times(Timestamp::default(), Timestamp::default())?;
        vfs.set_times(&path, Timestamp::default(), Timestamp::default())?;
        vfs.metadata(&path)?;
        vfs.symlink_metadata(&path)?;
        vfs.free_space(&path)?;
        vfs.sync_dir(dir)?;
        vfs.hard_link(&path, &other)?;
        vfs.remove_file(&path)?;
        vfs.rename(&other, &path)?;
        vfs.create_dir(&other, 0o700)?;
        vfs.open_dir(dir)?.read_head(b"f", &mut [0; 100])?;
        vfs.remove_dir(&other)?;
    }
    Ok(())
}

fn locks(file: &dyn File) -> std::io::Result<()> {
    for kind in [LockKind::Fcntl, LockKind::Flock] {
        assert!(file.try_lock(kind, LockMode::Exclusive)?);
        file.unlock(kind)?;
    }
    Ok(())
}

fn attributes(vfs: &OsVfs, path: &Path, file: &dyn File) -> std::io::Result<()> {
    for at in 0..2 {
        ok_or_unsupported(vfs.set_xattr(path, "user.barid.a", &[b'x'; 300]))?;
        ok_or_unsupported(file.set_xattr("user.barid.b", b"y"))?;
        assert_eq!(file.xattr("user.barid.a")?, vfs.xattr(path, "user.barid.a")?, "{at}");
        file.remove_xattr("user.barid.a")?;
        vfs.remove_xattr(path, "user.barid.b")?;
    }
    Ok(())
}

fn ok_or_unsupported(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => Ok(()),
        result => result,
    }
}

#[test]
#[ignore = "the traced process of the test below"]
fn interrupted_process() {
    let dir = std::env::var_os(DIR).expect("because the test below sets it");
    work(Path::new(&dir)).unwrap();
}

#[test]
fn interrupted_calls_are_repeated() {
    let dir = std::env::temp_dir().join(format!("barid-interrupted-{}", std::process::id()));
    OsVfs.create_dir(&dir, 0o700).unwrap();
    let trace = dir.join("trace");
    let calls = CALLS.join(",");
    let run = Command::new("strace")
        .args(["-f", "-o"])
        .args([&trace, Path::new("-P"), &dir, Path::new("-P"), &dir.join("f")])
        .args(["-P".as_ref(), dir.join("g").as_os_str()])
        .args(["-e", &format!("trace={calls}"), "-e"])
        .arg(format!("inject={calls}:error=EINTR:when=1+2"))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "interrupted::interrupted_process", "--include-ignored"])
        .env(DIR, &dir)
        .output();
    let run = match run {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            assert!(std::env::var_os("CI").is_none(), "strace is missing");
            println!("skipped: strace is missing");
            return remove_all(&OsVfs, &dir);
        }
        run => run.unwrap(),
    };
    let traced = OsVfs.read(&trace, 1 << 24).unwrap();
    let traced = String::from_utf8_lossy(&traced);
    assert!(run.status.success(), "{}\n{traced}", String::from_utf8_lossy(&run.stdout));
    for call in CALLS {
        let interrupted =
            |line: &&str| line.contains(&format!(" {call}(")) && line.contains("INJECTED");
        assert!(traced.lines().any(|line| interrupted(&line)), "{call} was never interrupted");
    }
    remove_all(&OsVfs, &dir);
}

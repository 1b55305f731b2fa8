//! The locks for writing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use barid_mailbox::Error;
use barid_vfs::{DotLock, File, Host as _, LockKind, LockMode, MemVfs, OpenOptions, Vfs};

use super::support::World;
use crate::mbox::MboxLock;
use crate::mbox::lock::{MboxLockPurpose, MboxWriteLocks};

/// A world with a folder for session locks, and the disk under it.
fn world() -> (World, MemVfs) {
    let disk = MemVfs::new();
    disk.create_dir(Path::new("/tmp"), 0o777).unwrap();
    let world = World::on(Arc::new(disk.clone()));
    world.write(b"");
    (world, disk)
}

fn acquire(world: &World, purpose: MboxLockPurpose) -> barid_mailbox::Result<MboxWriteLocks> {
    MboxWriteLocks::acquire(&world.mailbox(), purpose)
}

/// Checks that the locks cannot be taken, and the holder in the error.
fn check_held(world: &World, purpose: MboxLockPurpose, expected: &str) {
    match acquire(world, purpose) {
        Err(Error::Locked { holder, .. }) => assert_eq!(holder, expected),
        other => panic!("{other:?}"),
    }
}

fn names(disk: &MemVfs, folder: &str) -> Vec<String> {
    let mut names = Vec::new();
    let dir = disk.open_dir(Path::new(folder)).unwrap();
    dir.list(&mut |name, _| names.push(String::from_utf8_lossy(name).into_owned())).unwrap();
    names.sort();
    names
}

fn session_file(world: &World) -> Box<dyn File> {
    let metadata = world.vfs.metadata(&world.path).unwrap();
    let path = format!("/tmp/.{:x}.{:x}", metadata.device, metadata.inode);
    world.vfs.open(Path::new(&path), OpenOptions::create(0o666)).unwrap()
}

#[test]
fn all_are_taken_and_all_go() {
    let (world, disk) = world();
    let other = disk.open(&world.path, OpenOptions::WRITE).unwrap();
    for purpose in [MboxLockPurpose::Append, MboxLockPurpose::Change] {
        let locks = acquire(&world, purpose).unwrap();
        assert_eq!(locks.path(), world.path);
        assert!(locks.excludes_sessions());
        assert_eq!(names(&disk, "/mail"), ["box", "box.lock"]);
        assert_eq!(names(&disk, "/tmp").len(), 1, "{purpose:?}");
        for kind in [LockKind::Flock, LockKind::Fcntl] {
            assert!(!other.try_lock(kind, LockMode::Shared).unwrap(), "{kind:?}");
        }
        assert!(acquire(&world, MboxLockPurpose::Append).is_err());
        drop(locks);
        assert_eq!(names(&disk, "/mail"), ["box"]);
        assert_eq!(names(&disk, "/tmp").len(), 0);
        assert!(other.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap());
        other.unlock(LockKind::Flock).unwrap();
    }
}

#[test]
fn a_session_of_another_forbids_changes_but_no_appends() {
    let (world, _) = world();
    let session = session_file(&world);
    session.write_all_at(b"4711\0", 0).unwrap();
    assert!(acquire(&world, MboxLockPurpose::Change).is_ok(), "a file is no lock");
    let session = session_file(&world);
    session.write_all_at(b"4711", 0).unwrap();
    assert!(session.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap());
    check_held(&world, MboxLockPurpose::Change, "process 4711 (c-client session)");
    assert!(!acquire(&world, MboxLockPurpose::Append).unwrap().excludes_sessions());
    session.unlock(LockKind::Flock).unwrap();
    assert!(acquire(&world, MboxLockPurpose::Change).unwrap().excludes_sessions());
}

#[test]
fn a_session_lock_that_cannot_be_used_stops_nobody() {
    let (world, disk) = world();
    disk.set_mode(Path::new("/tmp"), 0o500).unwrap();
    assert!(!acquire(&world, MboxLockPurpose::Change).unwrap().excludes_sessions());
    disk.set_mode(Path::new("/tmp"), 0o700).unwrap();
    disk.remove_dir(Path::new("/tmp")).unwrap();
    assert!(acquire(&world, MboxLockPurpose::Change).unwrap().excludes_sessions());
}

#[test]
fn only_the_locks_of_the_list_count() {
    let (mut world, disk) = world();
    let other = disk.open(&world.path, OpenOptions::WRITE).unwrap();
    let session = session_file(&world);
    assert!(session.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap());
    assert!(other.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap());
    check_held(&world, MboxLockPurpose::Append, "another program (flock)");
    world.options.write_locks = vec![MboxLock::Fcntl, MboxLock::Dotlock];
    let locks = acquire(&world, MboxLockPurpose::Change).unwrap();
    assert!(locks.excludes_sessions());
    drop(locks);
    other.unlock(LockKind::Flock).unwrap();
    assert!(other.try_lock(LockKind::Fcntl, LockMode::Shared).unwrap());
    check_held(&world, MboxLockPurpose::Change, "another program (fcntl)");
    assert_eq!(names(&disk, "/mail"), ["box"]);
}

#[test]
fn a_stale_lock_file_is_broken_only_under_a_lock_of_the_kernel() {
    let (mut world, disk) = world();
    let lock = DotLock::path_of(&world.path);
    let put = |content: &str| {
        let file = disk.open(&lock, OpenOptions::create(0o600)).unwrap();
        file.write_all_at(content.as_bytes(), 0).unwrap();
    };
    put("4243:memory");
    let other = disk.open(&world.path, OpenOptions::WRITE).unwrap();
    assert!(other.try_lock(LockKind::Fcntl, LockMode::Exclusive).unwrap());
    check_held(&world, MboxLockPurpose::Append, "process 4243 (lock file)");
    assert!(disk.metadata(&lock).is_ok(), "its process is dead, but fcntl is held");
    other.unlock(LockKind::Fcntl).unwrap();
    drop(acquire(&world, MboxLockPurpose::Append).unwrap());
    put("4242:memory");
    world.vfs.sleep(Duration::from_secs(290));
    check_held(&world, MboxLockPurpose::Append, "process 4242 (lock file)");
    world.vfs.sleep(Duration::from_secs(10));
    world.options.write_locks = vec![MboxLock::Dotlock];
    check_held(&world, MboxLockPurpose::Append, "process 4242 (lock file)");
    world.options.write_locks = MboxLock::ALL.to_vec();
    drop(acquire(&world, MboxLockPurpose::Append).unwrap());
    assert!(disk.metadata(&lock).is_err());
}

#[test]
fn a_lock_file_of_before_the_start_of_the_machine_is_broken_under_a_lock_of_the_kernel() {
    let (mut world, disk) = world();
    let lock = DotLock::path_of(&world.path);
    disk.open(&lock, OpenOptions::create(0o600)).unwrap();
    disk.sleep(Duration::from_secs(10));
    disk.set_booted_now();
    world.options.write_locks = vec![MboxLock::Dotlock];
    check_held(&world, MboxLockPurpose::Append, "another program (lock file)");
    world.options.write_locks = MboxLock::ALL.to_vec();
    disk.set_local(false);
    check_held(&world, MboxLockPurpose::Append, "another program (lock file)");
    disk.set_local(true);
    drop(acquire(&world, MboxLockPurpose::Append).unwrap());
    assert!(disk.metadata(&lock).is_err());
}

#[test]
fn a_lock_file_is_touched_in_time_and_its_loss_is_noticed() {
    let (world, disk) = world();
    let lock = DotLock::path_of(&world.path);
    let locks = acquire(&world, MboxLockPurpose::Change).unwrap();
    let first = disk.metadata(&lock).unwrap().modified;
    disk.sleep(Duration::from_secs(29));
    locks.touch().unwrap();
    assert_eq!(disk.metadata(&lock).unwrap().modified, first);
    disk.sleep(Duration::from_secs(2));
    locks.touch().unwrap();
    assert!(disk.metadata(&lock).unwrap().modified > first);
    disk.remove_file(&lock).unwrap();
    locks.touch().unwrap();
    disk.sleep(Duration::from_secs(31));
    assert!(matches!(locks.touch(), Err(Error::Io { .. })));
}

#[test]
fn without_a_place_for_a_lock_file_the_others_do() {
    let (world, disk) = world();
    disk.set_mode(Path::new("/mail"), 0o500).unwrap();
    let locks = acquire(&world, MboxLockPurpose::Change).unwrap();
    locks.touch().unwrap();
    assert!(acquire(&world, MboxLockPurpose::Change).is_err());
}

#[test]
fn whoever_is_told_to_end_waits_no_longer() {
    let (mut world, _) = world();
    let held = acquire(&world, MboxLockPurpose::Change).unwrap();
    world.options.lock_timeout = Duration::from_secs(1_000_000);
    world.options.stop = Some(Arc::new(AtomicBool::new(true)));
    assert!(matches!(
        acquire(&world, MboxLockPurpose::Change),
        Err(Error::Locked { waited_ms: 0, .. })
    ));
    drop(held);
    acquire(&world, MboxLockPurpose::Change).unwrap();
}

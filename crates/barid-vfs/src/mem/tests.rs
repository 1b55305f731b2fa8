use super::*;
use crate::api::{LockKind, LockMode};

fn world() -> MemVfs {
    let vfs = MemVfs::new();
    vfs.create_dir_all(Path::new("/a/b"), 0o700).unwrap();
    put(&vfs, "/a/b/x", b"one");
    vfs
}

fn put(vfs: &MemVfs, path: &str, bytes: &[u8]) {
    let file = vfs.open(Path::new(path), OpenOptions::create(0o600)).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}

fn get(vfs: &MemVfs, path: &str) -> Result<Vec<u8>, Option<i32>> {
    vfs.read(Path::new(path), 1 << 20).map_err(|error| error.raw_os_error())
}

fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> Errno {
    Errno::from_io_error(&result.unwrap_err()).unwrap()
}

#[test]
fn permission_bits_and_times_are_the_owners() {
    let (owner, other) = (world(), 1001);
    let vfs = owner.as_user(other);
    let file = vfs.open(Path::new("/a/b/x"), OpenOptions::WRITE).unwrap();
    let before = file.metadata().unwrap();
    assert_eq!(errno(file.set_mode(0o666)), Errno::PERM);
    assert_eq!(errno(file.set_times(before.modified, before.modified)), Errno::PERM);
    assert_eq!(file.metadata().unwrap(), before);
    for user in [0, super::USER] {
        let vfs = owner.as_user(user);
        vfs.open(Path::new("/a/b/x"), OpenOptions::WRITE).unwrap().set_mode(0o640).unwrap();
        assert_eq!(file.metadata().unwrap().mode, 0o640);
        owner.set_mode(Path::new("/a/b/x"), 0o600).unwrap();
    }
}

#[test]
fn names_move_and_vanish() {
    let vfs = world();
    let path = Path::new;
    assert_eq!(errno(vfs.metadata(path("/a/x/y"))), Errno::NOENT);
    assert_eq!(errno(vfs.metadata(path("/a/b/x/y"))), Errno::NOTDIR);
    assert_eq!(errno(vfs.remove_dir(path("/a"))), Errno::NOTEMPTY);
    assert_eq!(errno(vfs.remove_file(path("/a"))), Errno::ISDIR);
    assert_eq!(errno(vfs.rename(path("/a"), path("/a/b/c"))), Errno::INVAL);
    vfs.hard_link(path("/a/b/x"), path("/a/y")).unwrap();
    assert_eq!(vfs.metadata(path("a/y")).unwrap().links, 2);
    assert_eq!(errno(vfs.hard_link(path("/a/b/x"), path("/a/y"))), Errno::EXIST);
    let before = vfs.metadata(path("/a/y")).unwrap();
    put(&vfs, "/a/z", b"three");
    vfs.rename(path("/a/z"), path("/a/b/x")).unwrap();
    let after = vfs.metadata(path("/a/y")).unwrap();
    assert_eq!((after.links, after.inode), (1, before.inode));
    assert!(after.changed > before.changed && after.modified == before.modified);
    assert_eq!(get(&vfs, "/a/b/../b/x"), Ok(b"three".to_vec()));
    vfs.rename(path("/a/b"), path("/c")).unwrap();
    assert_eq!(get(&vfs, "/c/x"), Ok(b"three".to_vec()));
    assert_eq!(vfs.canonicalize(path("/a/../c/./x")).unwrap(), path("/c/x"));
    let open = vfs.open(path("/a/y"), OpenOptions::READ).unwrap();
    vfs.remove_file(path("/a/y")).unwrap();
    assert_eq!(open.metadata().unwrap().links, 0);
    assert_eq!(open.read_full_at(&mut [0; 9], 0).unwrap(), 3);
    assert_eq!(errno(open.write_at(b"x", 0)), Errno::BADF);
}

#[test]
fn symbolic_links_are_followed_with_a_bound() {
    let vfs = world();
    vfs.symbolic_link(Path::new("b/x"), Path::new("/a/l")).unwrap();
    vfs.symlink(Path::new("/loop"), Path::new("/loop")).unwrap();
    assert_eq!(get(&vfs, "/a/l"), Ok(b"one".to_vec()));
    assert_eq!(vfs.canonicalize(Path::new("/a/l")).unwrap(), Path::new("/a/b/x"));
    let link = vfs.symlink_metadata(Path::new("/a/l")).unwrap();
    assert_eq!((link.file_type, link.size), (FileType::Symlink, 3));
    assert_eq!(vfs.read_link(Path::new("/a/l")).unwrap(), Path::new("b/x"));
    assert_eq!(errno(vfs.read_link(Path::new("/a"))), Errno::INVAL);
    assert_eq!(errno(vfs.metadata(Path::new("/loop"))), Errno::LOOP);
    let options = OpenOptions { no_follow: true, ..OpenOptions::READ };
    assert_eq!(errno(vfs.open(Path::new("/a/l"), options)), Errno::LOOP);
}

#[test]
fn writes_leave_zeros_in_holes() {
    let vfs = world();
    let file = vfs.open(Path::new("/a/b/x"), OpenOptions::WRITE).unwrap();
    file.write_all_at(b"Z", 5).unwrap();
    file.write_all_at(b"n", 1).unwrap();
    assert_eq!(get(&vfs, "/a/b/x"), Ok(b"one\0\0Z".to_vec()));
    file.set_len(2).unwrap();
    file.allocate(0, 4).unwrap();
    assert_eq!(get(&vfs, "/a/b/x"), Ok(b"on\0\0".to_vec()));
}

#[test]
fn locks_conflict_between_handles() {
    let vfs = world();
    let open = || vfs.open(Path::new("/a/b/x"), OpenOptions::WRITE).unwrap();
    let (one, two) = (open(), open());
    let (fcntl, flock) = (LockKind::Fcntl, LockKind::Flock);
    assert!(one.try_lock(fcntl, LockMode::Shared).unwrap());
    assert!(two.try_lock(fcntl, LockMode::Shared).unwrap());
    assert!(!one.try_lock(fcntl, LockMode::Exclusive).unwrap());
    assert!(one.try_lock(flock, LockMode::Exclusive).unwrap());
    drop(two);
    assert!(one.try_lock(fcntl, LockMode::Exclusive).unwrap());
    let three = open();
    assert!(!three.try_lock(fcntl, LockMode::Shared).unwrap());
    one.unlock(fcntl).unwrap();
    assert!(three.try_lock(fcntl, LockMode::Exclusive).unwrap());
    assert!(!three.try_lock(flock, LockMode::Shared).unwrap());
}

#[test]
fn nobody_is_privileged() {
    let vfs = world();
    vfs.set_mode(Path::new("/a/b/x"), 0o400).unwrap();
    vfs.set_mode(Path::new("/a"), 0o500).unwrap();
    assert_eq!(errno(vfs.open(Path::new("/a/b/x"), OpenOptions::WRITE)), Errno::ACCESS);
    assert_eq!(errno(vfs.create_dir(Path::new("/a/n"), 0o700)), Errno::ACCESS);
    assert_eq!(errno(vfs.rename(Path::new("/a/b/x"), Path::new("/a/x"))), Errno::ACCESS);
    assert_eq!(get(&vfs, "/a/b/x"), Ok(b"one".to_vec()));
}

#[test]
fn snapshots_are_independent() {
    let vfs = world();
    let copy = vfs.snapshot();
    put(&vfs, "/a/b/x", b"two");
    put(&copy, "/a/new", b"new");
    assert_eq!(get(&copy, "/a/b/x"), Ok(b"one".to_vec()));
    assert_eq!(get(&vfs, "/a/new"), Err(Some(Errno::NOENT.raw_os_error())));
}

#[test]
fn directories_list_and_read_heads() {
    let vfs = world();
    put(&vfs, "/a/b/y", b"four");
    let dir = vfs.open_dir(Path::new("/a/b")).unwrap();
    let mut names = BTreeSet::new();
    dir.list(&mut |name, file_type| {
        assert_eq!(file_type, FileType::File);
        assert!(names.insert(name.to_vec()));
    })
    .unwrap();
    assert_eq!(names, BTreeSet::from([b"x".to_vec(), b"y".to_vec()]));
    let mut buffer = [0; 2];
    let (metadata, len) = dir.read_head(b"y", &mut buffer).unwrap();
    assert_eq!((metadata.size, len, &buffer), (4, 2, b"fo"));
}

#[test]
fn a_disk_fills_up() {
    let vfs = world();
    vfs.set_free_space(Some(8192));
    let file = vfs.open(Path::new("/a/b/x"), OpenOptions::WRITE).unwrap();
    file.write_all_at(&[b'x'; 4096], 0).unwrap();
    file.allocate(0, 8192).unwrap();
    assert_eq!(vfs.free_space(Path::new("/a")).unwrap(), 4096);
    assert_eq!(errno(file.write_at(&[b'x'; 4097], 8192)), Errno::NOSPC);
    assert_eq!(errno(file.set_len(12289)), Errno::NOSPC);
    assert_eq!(file.metadata().unwrap().size, 8192);
    file.collapse(0, 4096).unwrap();
    assert_eq!(vfs.free_space(Path::new("/")).unwrap(), 8192);
    file.set_len(0).unwrap();
    assert_eq!(vfs.free_space(Path::new("/")).unwrap(), 12288);
    vfs.set_collapse(false);
    assert_eq!(errno(file.collapse(0, 4096)), Errno::OPNOTSUPP);
}

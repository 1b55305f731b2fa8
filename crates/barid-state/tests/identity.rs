//! The identity of a mailbox after moves, copies and restores.

use barid_state::Identity;
use barid_vfs::{MemVfs, OpenOptions, Vfs};

use super::*;

const ATTRIBUTE: &str = "user.barid.id";

fn put(vfs: &MemVfs, path: &str) {
    vfs.open(Path::new(path), OpenOptions::create(0o600)).unwrap();
}

fn world() -> MemVfs {
    let vfs = MemVfs::new();
    put(&vfs, "/inbox");
    vfs
}

fn of(vfs: &MemVfs, path: &str) -> Identity {
    Identity::of(vfs, Path::new(path), true).unwrap()
}

/// `cp -a`.
fn copy(vfs: &MemVfs, from: &str, to: &str) {
    put(vfs, to);
    let value = vfs.xattr(Path::new(from), ATTRIBUTE).unwrap().unwrap();
    vfs.set_xattr(Path::new(to), ATTRIBUTE, &value).unwrap();
}

#[test]
fn it_stays_with_the_mailbox() {
    let vfs = world();
    let first = of(&vfs, "/inbox");
    assert_eq!(of(&vfs, "/../inbox"), first);
    assert_eq!(Identity::of(&vfs, Path::new("/inbox"), false).unwrap(), first);
    vfs.rename(Path::new("/inbox"), Path::new("/moved")).unwrap();
    assert_eq!(of(&vfs, "/moved").id, first.id);
    assert_eq!(of(&vfs, "/moved").path, Path::new("/moved"));
    put(&vfs, "/inbox");
    assert_ne!(of(&vfs, "/inbox").id, first.id);
    assert!(Identity::of(&vfs, Path::new("/nothing"), true).is_err());
}

#[test]
fn a_copy_gets_its_own() {
    let vfs = world();
    let first = of(&vfs, "/inbox");
    copy(&vfs, "/inbox", "/copy");
    let guest = Identity::of(&vfs, Path::new("/copy"), false).unwrap();
    assert_ne!(guest.id, first.id);
    let second = of(&vfs, "/copy");
    assert!(second.id != first.id && second.id != guest.id);
    assert_eq!(of(&vfs, "/copy"), second);
    assert_eq!(of(&vfs, "/inbox"), first);
}

#[test]
fn a_restored_mailbox_keeps_it_and_so_do_its_other_names() {
    let vfs = world();
    let first = of(&vfs, "/inbox");
    copy(&vfs, "/inbox", "/backup");
    vfs.rename(Path::new("/backup"), Path::new("/inbox")).unwrap();
    let restored = of(&vfs, "/inbox");
    assert!(restored.id == first.id && restored.inode != first.inode);
    vfs.hard_link(Path::new("/inbox"), Path::new("/other")).unwrap();
    assert_eq!(of(&vfs, "/other").id, first.id);
    vfs.symlink(Path::new("/inbox"), Path::new("/link")).unwrap();
    assert_eq!(of(&vfs, "/link").path, Path::new("/inbox"));
}

#[test]
fn without_attributes_it_is_the_paths() {
    let vfs = world();
    vfs.set_xattrs(false);
    let first = of(&vfs, "/inbox");
    assert_eq!(of(&vfs, "/inbox"), first);
    vfs.rename(Path::new("/inbox"), Path::new("/moved")).unwrap();
    assert_ne!(of(&vfs, "/moved").id, first.id);
    let vfs = world();
    vfs.set_mode(Path::new("/inbox"), 0o400).unwrap();
    assert_eq!(of(&vfs, "/inbox").id, first.id);
    assert_eq!(Identity::of(&world(), Path::new("/inbox"), false).unwrap().id, first.id);
}

#[test]
fn nonsense_in_the_attribute_is_replaced() {
    for value in ["", "abc", "0123 1 /inbox", "zz23456789abcdef0123456789abcdef 2 /inbox"] {
        let vfs = world();
        vfs.set_xattr(Path::new("/inbox"), ATTRIBUTE, value.as_bytes()).unwrap();
        let first = of(&vfs, "/inbox");
        assert_eq!(of(&vfs, "/inbox"), first);
        assert_ne!(vfs.xattr(Path::new("/inbox"), ATTRIBUTE).unwrap().unwrap(), value.as_bytes());
    }
}

#[test]
fn those_who_meet_a_new_mailbox_at_once_agree() {
    const TRIES: u32 = 300;
    for _ in 0..TRIES {
        let vfs = world();
        let start = std::sync::Barrier::new(4);
        let find = || {
            start.wait();
            of(&vfs, "/inbox").id
        };
        let ids: Vec<u128> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(find)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:x?}");
    }
}

//! Locks, between handles and between threads.

use std::time::Duration;

use barid_vfs::{DotLock, DotLockOptions, LockError, LockKind, LockMode, OpenOptions, lock_file};

use super::*;

#[test]
fn kernel_locks_conflict_between_handles() {
    each("kernel-locks", |vfs, dir| {
        let path = dir.join("f");
        let open = || vfs.open(&path, OpenOptions::create(0o600)).unwrap();
        for kind in [LockKind::Fcntl, LockKind::Flock] {
            let (one, two) = (open(), open());
            assert!(one.try_lock(kind, LockMode::Shared).unwrap());
            assert!(two.try_lock(kind, LockMode::Shared).unwrap());
            assert!(!one.try_lock(kind, LockMode::Exclusive).unwrap());
            // Closing another descriptor of the file must not release anything.
            drop(open());
            drop(two);
            assert!(one.try_lock(kind, LockMode::Exclusive).unwrap());
            let two = open();
            assert!(!two.try_lock(kind, LockMode::Shared).unwrap());
            let wait = Duration::from_millis(5);
            let held = lock_file(vfs.as_ref(), &*two, &path, (kind, LockMode::Exclusive), wait);
            assert!(matches!(held, Err(LockError::Held { .. })));
            one.unlock(kind).unwrap();
            assert!(two.try_lock(kind, LockMode::Exclusive).unwrap());
        }
        let reader = vfs.open(&path, OpenOptions::READ).unwrap();
        assert!(reader.try_lock(LockKind::Fcntl, LockMode::Exclusive).is_err());
        assert!(reader.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap());
    });
}

#[test]
fn a_dotlock_lets_one_in_at_a_time() {
    each("dotlocks", |vfs, dir| {
        let path = dir.join("count");
        vfs.open(&path, OpenOptions::create(0o600)).unwrap().write_all_at(&[0], 0).unwrap();
        // In memory, waiting advances the clock, so locks must not look old.
        let (timeout, stale_after) = (Duration::from_secs(1 << 30), Duration::from_secs(1 << 32));
        let options = DotLockOptions { timeout, stale_after, ..DotLockOptions::default() };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..8 {
                        let lock = DotLock::acquire(vfs, &path, options).unwrap();
                        let file = vfs.open(&path, OpenOptions::WRITE).unwrap();
                        let mut count = [0];
                        file.read_exact_at(&mut count, 0).unwrap();
                        std::thread::yield_now();
                        file.write_all_at(&[count[0] + 1], 0).unwrap();
                        lock.release().unwrap();
                    }
                });
            }
        });
        assert_eq!(vfs.read(&path, 9).unwrap(), [32]);
        assert_eq!(names(vfs.as_ref(), dir), BTreeSet::from(["count".to_owned()]));
    });
}

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::api::{File, OpenOptions, Vfs};
use crate::replace::atomic_replace;

const SEEDS: u64 = 200;

fn path(name: &str) -> &Path {
    Path::new(name)
}

fn create(vfs: &MemVfs, name: &str) -> Box<dyn File> {
    vfs.open(path(name), OpenOptions::create(0o600)).unwrap()
}

/// Creates a disk with the file `/f`.
fn disk(content: &[u8]) -> MemVfs {
    let disk = MemVfs::new();
    create(&disk, "/f").write_all_at(content, 0).unwrap();
    disk
}

/// Returns all possible contents of a file after a crash at the end of `run`.
fn outcomes(disk: &MemVfs, name: &str, run: impl Fn(&MemVfs)) -> BTreeSet<Option<Vec<u8>>> {
    let world = CrashVfs::new(disk);
    run(&world.vfs());
    let found = |seed| world.crash_at(world.points(), seed).read(path(name), 1 << 20).ok();
    (0..SEEDS).map(found).collect()
}

fn check(disk: &MemVfs, name: &str, run: impl Fn(&MemVfs), expected: &[Option<&[u8]>]) {
    let expected = expected.iter().map(|content| content.map(<[u8]>::to_vec)).collect();
    assert_eq!(outcomes(disk, name, run), expected);
}

#[test]
fn a_synced_file_without_a_synced_name_may_be_lost() {
    let synced = |vfs: &MemVfs| {
        let file = create(vfs, "/n");
        file.write_all_at(b"new", 0).unwrap();
        file.sync_all().unwrap();
    };
    check(&disk(b""), "/n", synced, &[None, Some(b"new")]);
    let named = |vfs: &MemVfs| {
        synced(vfs);
        vfs.sync_dir(path("/")).unwrap();
    };
    check(&disk(b""), "/n", named, &[Some(b"new")]);
}

#[test]
fn where_names_come_with_their_files_a_synced_file_keeps_its_first_one() {
    let ordered = disk(b"");
    ordered.set_syncs_names(true);
    let synced = |vfs: &MemVfs| {
        let file = create(vfs, "/n");
        file.write_all_at(b"new", 0).unwrap();
        file.sync_all().unwrap();
        assert!(file.syncs_name().unwrap());
    };
    check(&ordered, "/n", synced, &[Some(b"new")]);
    // Other names, and files with only `sync_data`, may be lost.
    let linked = |vfs: &MemVfs| {
        synced(vfs);
        vfs.hard_link(path("/n"), path("/second")).unwrap();
        create(vfs, "/n").sync_all().unwrap();
    };
    check(&ordered, "/second", linked, &[None, Some(b"new")]);
    let half = |vfs: &MemVfs| create(vfs, "/n").sync_data().unwrap();
    check(&ordered, "/n", half, &[None, Some(b"")]);
    let world = CrashVfs::lying(&ordered);
    synced(&world.vfs());
    assert!(world.crash_at(world.points(), 0).metadata(path("/n")).is_err());
}

#[test]
fn permission_bits_are_kept_with_a_barrier_and_may_be_lost_before() {
    let modes = |run: &dyn Fn(&dyn File)| {
        let world = CrashVfs::new(&disk(b"old"));
        run(create(&world.vfs(), "/f").as_ref());
        let found = |seed| world.crash_at(world.points(), seed).metadata(path("/f"));
        (0..SEEDS).map(|seed| found(seed).unwrap().mode).collect::<BTreeSet<u32>>()
    };
    let set = |file: &dyn File| {
        file.set_mode(0o640).unwrap();
        file.write_all_at(b"n", 0).unwrap();
    };
    assert_eq!(modes(&set), BTreeSet::from([0o600, 0o640]));
    let synced = |file: &dyn File| {
        set(file);
        file.sync_all().unwrap();
    };
    assert_eq!(modes(&synced), BTreeSet::from([0o640]));
}

#[test]
fn a_synced_file_system_loses_nothing() {
    let synced = |vfs: &MemVfs| {
        let dir = vfs.open_dir(path("/")).unwrap();
        vfs.create_dir(path("/d"), 0o700).unwrap();
        create(vfs, "/d/t").write_all_at(b"new", 0).unwrap();
        vfs.rename(path("/d/t"), path("/d/n")).unwrap();
        dir.sync_file_system().unwrap();
    };
    check(&disk(b""), "/d/n", synced, &[Some(b"new")]);
    let later = |vfs: &MemVfs| {
        synced(vfs);
        vfs.remove_file(path("/d/n")).unwrap();
    };
    check(&disk(b""), "/d/n", later, &[None, Some(b"new")]);
}

#[test]
fn a_rename_may_come_before_its_data() {
    let rename = |vfs: &MemVfs| {
        create(vfs, "/t").write_all_at(b"new", 0).unwrap();
        vfs.rename(path("/t"), path("/f")).unwrap();
    };
    check(&disk(b"old"), "/f", rename, &[Some(b"old"), Some(b"new"), Some(b""), Some(b"\0\0\0")]);
}

#[test]
fn a_size_may_come_before_its_data_and_data_before_its_size() {
    let append = |vfs: &MemVfs| create(vfs, "/f").write_all_at(b"ab", 3).unwrap();
    check(&disk(b"old"), "/f", append, &[Some(b"old"), Some(b"old\0\0"), Some(b"oldab")]);
}

#[test]
fn writes_are_dropped_reordered_and_torn() {
    let run = |vfs: &MemVfs| {
        let file = create(vfs, "/f");
        file.write_all_at(&[b'1'; 1024], 0).unwrap();
        file.write_all_at(&[b'2'; 1024], 1024).unwrap();
    };
    let found: BTreeSet<Vec<u8>> = outcomes(&disk(&[b'0'; 2048]), "/f", run)
        .into_iter()
        .map(|content| content.unwrap().into_iter().step_by(512).collect())
        .collect();
    for content in ["0000", "1122", "0022", "1100", "1000", "0102", "1022"] {
        assert!(found.contains(content.as_bytes()), "{content} never happened");
    }
    assert!(found.iter().all(|content| content.len() == 4));
}

#[test]
fn barriers_keep_the_order() {
    let run = |vfs: &MemVfs| {
        let file = create(vfs, "/f");
        file.write_all_at(b"1", 0).unwrap();
        file.sync_data().unwrap();
        file.write_all_at(b"2", 600).unwrap();
    };
    for content in outcomes(&disk(&[b'0'; 1000]), "/f", run) {
        let content = content.unwrap();
        assert!(content[0] == b'1' && matches!(content[600], b'0' | b'2'));
    }
}

#[test]
fn an_unlink_is_not_durable_by_itself() {
    check(&disk(b"old"), "/f", |vfs| vfs.remove_file(path("/f")).unwrap(), &[None, Some(b"old")]);
    let synced = |vfs: &MemVfs| {
        vfs.remove_file(path("/f")).unwrap();
        vfs.sync_dir(path("/")).unwrap();
    };
    check(&disk(b"old"), "/f", synced, &[None]);
}

#[test]
fn a_rename_is_both_its_sides_or_neither_and_keeps_the_order_of_one_file() {
    let disk = disk(b"mail");
    disk.create_dir(path("/cur"), 0o700).unwrap();
    let world = CrashVfs::new(&disk);
    let vfs = world.vfs();
    vfs.rename(path("/f"), path("/cur/a")).unwrap();
    vfs.rename(path("/cur/a"), path("/cur/b")).unwrap();
    let mut places = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = world.crash_at(world.points(), seed);
        let there: Vec<&str> = ["/f", "/cur/a", "/cur/b"]
            .into_iter()
            .filter(|name| disk.read(path(name), 99).is_ok_and(|content| content == b"mail"))
            .collect();
        assert_eq!(there.len(), 1);
        places.extend(there);
    }
    assert_eq!(places.len(), 3);
}

#[test]
fn attributes_and_new_directories_need_their_fsync() {
    let disk = disk(b"");
    let world = CrashVfs::new(&disk);
    let vfs = world.vfs();
    vfs.set_xattr(path("/f"), "user.x", b"1").unwrap();
    create(&vfs, "/f").sync_data().unwrap();
    vfs.create_dir(path("/d"), 0o700).unwrap();
    create(&vfs, "/d/x").sync_all().unwrap();
    vfs.sync_dir(path("/d")).unwrap();
    let states = |world: &CrashVfs| -> BTreeSet<(bool, bool)> {
        let state = |seed| {
            let disk = world.crash_at(world.points(), seed);
            let attribute = disk.xattr(path("/f"), "user.x").unwrap().is_some();
            (attribute, disk.metadata(path("/d/x")).is_ok())
        };
        (0..SEEDS).map(state).collect()
    };
    assert_eq!(states(&world).len(), 4);
    create(&vfs, "/f").sync_all().unwrap();
    vfs.sync_dir(path("/")).unwrap();
    assert_eq!(states(&world), BTreeSet::from([(true, true)]));
}

#[test]
fn what_was_cut_off_does_not_come_back() {
    let run = |vfs: &MemVfs| {
        let file = create(vfs, "/f");
        file.set_len(1).unwrap();
        file.set_len(3).unwrap();
    };
    check(&disk(b"old"), "/f", run, &[Some(b"old"), Some(b"o"), Some(b"o\0\0")]);
}

/// Runs a crash test of `atomic_replace`; returns `true` if every state found is allowed.
fn replace_holds(durable: bool, make: impl Fn(&MemVfs) -> CrashVfs) -> bool {
    let (old, new) = (vec![b'o'; 1500], vec![b'n'; 2500]);
    let disk = disk(&old);
    let world = make(&disk);
    let write = |file: &dyn File| file.write_all_at(&new, 0);
    atomic_replace(&world.vfs(), path("/f"), 0o600, durable, write).unwrap();
    let acknowledged = world.points();
    println!("atomic_replace: {} crash points, {SEEDS} seeds each", world.points() + 1);
    assert!(world.points() >= if durable { 6 } else { 4 });
    (0..=world.points()).all(|point| {
        (0..SEEDS).all(|seed| {
            let found = world.crash_at(point, seed).read(path("/f"), 1 << 20).unwrap();
            found == new || found == old && point < acknowledged
        })
    })
}

#[test]
fn a_durable_replace_survives_every_crash_and_another_is_caught() {
    assert!(replace_holds(true, CrashVfs::new));
    assert!(!replace_holds(false, CrashVfs::new));
    assert!(!replace_holds(true, CrashVfs::lying));
}

#[test]
fn a_crash_is_repeatable() {
    let world = CrashVfs::new(&disk(b"old"));
    let file = create(&world.vfs(), "/f");
    for offset in 0..20 {
        file.write_all_at(b"x", offset * 500).unwrap();
    }
    for seed in 0..SEEDS {
        let read = || world.crash_at(15, seed).read(path("/f"), 1 << 20).unwrap();
        assert_eq!(read(), read());
    }
}

#[test]
fn a_lock_file_left_by_a_crash_is_broken() {
    use crate::dotlock::{DotLock, DotLockOptions};
    let options = DotLockOptions { timeout: Duration::ZERO, ..DotLockOptions::default() };
    let world = CrashVfs::new(&disk(b"mail"));
    let vfs: Arc<dyn Vfs> = Arc::new(world.vfs());
    let _lock = DotLock::acquire(&vfs, path("/f"), options).unwrap();
    let mut left = 0;
    for point in 0..=world.points() {
        for seed in 0..20 {
            let disk = world.crash_at(point, seed);
            left += u32::from(disk.metadata(path("/f.lock")).is_ok());
            let vfs: Arc<dyn Vfs> = Arc::new(disk);
            DotLock::acquire(&vfs, path("/f"), options).unwrap();
        }
    }
    assert!(left >= 5);
}

/// Returns the first byte of each block of `/f` after a crash, and the offset of the first hole.
fn blocks(disk: &MemVfs) -> (String, Option<u64>) {
    let content = disk.read(path("/f"), 1 << 20).unwrap();
    let block = |block: &[u8]| if block[0] == 0 { '_' } else { char::from(block[0]) };
    let file = disk.open(path("/f"), OpenOptions::READ).unwrap();
    (content.chunks(4096).map(block).collect(), file.first_hole(0).unwrap())
}

#[test]
fn a_collapse_is_not_atomic_and_its_hole_wanders() {
    let content: Vec<u8> = (b'a'..=b'f').flat_map(|byte| [byte; 4096]).collect();
    let found = |content: &[u8], then: &dyn Fn(&dyn File)| -> BTreeSet<(String, Option<u64>)> {
        let world = CrashVfs::new(&disk(content));
        let file = create(&world.vfs(), "/f");
        file.collapse(4096, 4096).unwrap();
        then(&*file);
        (0..SEEDS).map(|seed| blocks(&world.crash_at(world.points(), seed))).collect()
    };
    let set = |states: &[(&str, Option<u64>)]| {
        states
            .iter()
            .map(|(blocks, hole)| ((*blocks).to_owned(), hole.map(|at| at * 4096)))
            .collect()
    };
    let halfway = set(&[
        ("abcdef", None),
        ("acdef", None),
        ("a_cdef", Some(1)),
        ("ac_def", Some(2)),
        ("acd_ef", Some(3)),
        ("acde_f", Some(4)),
        ("acdef_", Some(5)),
    ]);
    assert_eq!(found(&content, &|_| {}), halfway);
    let synced = |file: &dyn File| file.sync_data().unwrap();
    assert_eq!(found(&content, &synced), set(&[("acdef", None)]));
    // If the collapse did not reach the disk, a later write to the fifth block goes to the sixth.
    let tail = |file: &dyn File| file.write_all_at(&[b'X'; 512], 4 * 4096).unwrap();
    let written = found(&content, &tail);
    let before = |(blocks, hole): &(String, Option<u64>)| (blocks.replace('X', "f"), *hole);
    assert_eq!(written.iter().map(before).collect::<BTreeSet<_>>(), halfway);
    assert!(written.contains(&("abcdeX".to_owned(), None)));
    let short = &content[..content.len() - 1000];
    assert!(
        found(short, &|_| {}).iter().any(|(blocks, hole)| blocks == "acdef_" && hole.is_some())
    );
}

//! Unusual paths: taken, missing, owned by others, read-only, oddly named.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use barid_kv::{Batch, Choice, Error, Store};
use barid_testkit::child::{Child, ChildEvent, ended, print_line};
use barid_testkit::disk;

use crate::world::{Pairs, World, apply, choice, choices, compare, for_each_store, store};

for_each_store!(taken, crate::places::taken_place);
for_each_store!(missing, crate::places::missing_place);
for_each_store!(foreign, crate::places::foreign_file);
for_each_store!(names, crate::places::odd_names);
for_each_store!(read_only, crate::places::folder_of_another);

/// The longest silence of a child.
const SILENCE: Duration = Duration::from_secs(60);

fn some_pairs() -> (Batch, Pairs) {
    let (mut batch, mut pairs) = (Batch::new(), Pairs::new());
    for n in 0..100_u32 {
        batch.put(&[&b"r"[..], &n.to_be_bytes()].concat(), &n.to_le_bytes().repeat(40));
    }
    apply(&mut pairs, &batch);
    (batch, pairs)
}

fn fill(store: &Store) -> Pairs {
    let (batch, pairs) = some_pairs();
    let mut writer = store.create().unwrap();
    writer.apply(&batch).unwrap();
    writer.close().unwrap();
    pairs
}

fn holds(store: &Store, pairs: &Pairs) {
    let ordered = store.choice().kv.capabilities().ordered;
    let mut rng = fastrand::Rng::with_seed(1);
    compare(&mut store.read().unwrap(), pairs, ordered, &mut rng);
}

/// Returns the names in a folder, and the content of files.
fn listing(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = disk::list_files(folder).unwrap().into_iter();
    files.map(|path| (path.clone(), disk::read(&path).unwrap())).collect()
}

/// Asserts that an existing store is not replaced by creating another, and stays unchanged.
fn taken_place(name: &str) {
    for choice in choices(name) {
        let world = World::new();
        let store = world.store(choice);
        let pairs = fill(&store);
        let error = store.create().unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{choice}: {error:?}");
        holds(&store, &pairs);
        store.remove().unwrap();
        assert_eq!(disk::list(world.scratch.path()).unwrap(), Vec::<PathBuf>::new(), "{choice}");
        // And again at the same path.
        assert_eq!(fill(&store), pairs);
        holds(&store, &pairs);
        // A store that was not closed is void, and can be removed.
        store.remove().unwrap();
        let mut writer = store.create().unwrap();
        writer.apply(&some_pairs().0).unwrap();
        drop(writer);
        for error in [store.read().unwrap_err(), store.write().unwrap_err()] {
            let void = matches!(error, Error::Damaged { .. } | Error::NotFound { .. });
            assert!(void, "{choice}: {error:?}");
        }
        store.remove().unwrap();
        assert_eq!(disk::list(world.scratch.path()).unwrap(), Vec::<PathBuf>::new(), "{choice}");
    }
}

/// Asserts that opening a missing store fails and creates nothing, also in a missing folder.
fn missing_place(name: &str) {
    let Some(choice) = choice(name) else { return };
    let world = World::new();
    for path in ["store", "folder/store"] {
        let store = store(choice, &world.path(path));
        let not_found = |error: Error| {
            assert!(matches!(error, Error::NotFound { .. }), "{choice}: {error:?}");
        };
        not_found(store.read().unwrap_err());
        not_found(store.write().unwrap_err());
        assert!(!disk::exists(store.path()), "{choice}");
        store.remove().unwrap();
    }
    let missing = store(choice, &world.path("folder/store")).create().unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. } | Error::Io { .. }), "{choice}: {missing:?}");
    assert_eq!(disk::list(world.scratch.path()).unwrap(), Vec::<PathBuf>::new(), "{choice}");
}

/// Asserts that a file of another kind is an error, and stays unchanged.
fn foreign_file(name: &str) {
    let Some(choice) = choice(name) else { return };
    let mbox = "From a@example.org Mon Mar  2 10:00:00 2020\nSubject: one\n\ntext\n\n".repeat(200);
    let mut files = vec![
        ("empty", Vec::new()),
        ("text", b"nothing of interest\n".repeat(1_000)),
        ("short", b"x".to_vec()),
        ("mbox", mbox.into_bytes()),
        ("zeros", vec![0; 100_000]),
    ];
    let world = World::new();
    for other in crate::world::usable_names().filter(|other| *other != name) {
        let Some(choice) = crate::world::choice(other) else { continue };
        let store = store(choice, &world.path(other));
        fill(&store);
        if disk::exists(store.path()) && !choice.kv.capabilities().folder {
            files.push((other, disk::read(store.path()).unwrap()));
        }
    }
    for (what, bytes) in files {
        let world = World::new();
        let store = world.store(choice);
        disk::write(store.path(), &bytes).unwrap();
        let damaged = |error: Error| {
            let fits = matches!(error, Error::Damaged { .. } | Error::Io { .. });
            assert!(fits, "{choice}, {what}: {error:?}");
        };
        damaged(store.read().map(drop).expect_err(what));
        damaged(store.write().map(drop).expect_err(what));
        damaged(store.create().map(drop).expect_err(what));
        assert!(disk::read(store.path()).unwrap() == bytes, "{choice}, {what}: changed");
        store.remove().unwrap();
        assert_eq!(listing(world.scratch.path()), [], "{choice}, {what}");
    }
    a_folder(choice);
}

/// Asserts that a folder with other files is not a store, and that its files stay unchanged.
fn a_folder(choice: Choice) {
    let world = World::new();
    let store = world.store(choice);
    disk::create_dir(store.path()).unwrap();
    disk::write(&store.path().join("letter"), b"Dear").unwrap();
    let before = listing(store.path());
    assert!(store.read().is_err() && store.write().is_err() && store.create().is_err());
    assert_eq!(listing(store.path()), before, "{choice}");
}

/// Asserts that names are plain bytes: no options, no drives, no expansion.
fn odd_names(name: &str) {
    let names: [&[u8]; 9] = [
        b"with space",
        b"#opts=s#msiz=0.kch",
        b"c:store:zstd",
        b"*",
        b"-",
        b"%{n}$HOME~",
        b"x\xff\xfey\x01",
        b"\xe2\x82\xac.tcb.bz2",
        b"'\";|&\n",
    ];
    for choice in choices(name).into_iter().take(2) {
        let world = World::new();
        for name in names {
            let folder = world.path("folder");
            disk::create_dir(&folder).unwrap();
            let store = store(choice, &folder.join(OsStr::from_bytes(name)));
            let pairs = fill(&store);
            assert!(disk::exists(store.path()), "{choice}: {}", name.escape_ascii());
            holds(&store, &pairs);
            store.write().unwrap().close().unwrap();
            holds(&store, &pairs);
            store.remove().unwrap();
            assert_eq!(listing(&folder), [], "{choice}: {}", name.escape_ascii());
            disk::remove_tree(&folder).unwrap();
        }
    }
}

/// Reads a store as another user.
pub(crate) fn child_looks(args: &[&str]) {
    let store = store(Choice::parse(args[0]).unwrap(), Path::new(args[1]));
    match store.read() {
        Ok(reader) => {
            drop(reader);
            holds(&store, &some_pairs().1);
            print_line("read");
        }
        Err(error) => print_line(&format!("{error:?}")),
    }
    match store.write() {
        Ok(_) => print_line("written"),
        Err(Error::Io { .. }) => print_line("refused"),
        Err(error) => print_line(&format!("{error:?}")),
    }
}

/// Asserts that a store in a read-only folder can be read, and is not written.
fn folder_of_another(name: &str) {
    let Some(choice) = choice(name) else { return };
    let world = World::new();
    let folder = world.path("folder");
    disk::create_dir(&folder).unwrap();
    let store = store(choice, &folder.join("store"));
    fill(&store);
    let modes = |write: &str| {
        let program = std::process::Command::new("chmod").args(["-R", write]).arg(&folder).status();
        assert!(program.unwrap().success());
    };
    modes("a+rX,a-w");
    let args = [name, store.path().to_str().unwrap()];
    // Root can write everywhere, so the child runs as another user, if that user can run this
    // program.
    let through: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
        false => &[],
    };
    let mut child = Child::spawn_by(through, "look", &args);
    match child.next(SILENCE) {
        ChildEvent::Line(line) => assert_eq!(line, "read", "{choice}"),
        ChildEvent::Ended(status) => {
            eprintln!("skipped: {name} as another user: {}", ended(status))
        }
        ChildEvent::Hangs => panic!("{choice}: hangs"),
    }
    assert!(child.finish(SILENCE).iter().all(|line| line == "refused"), "{choice}");
    modes("u+w");
    store.remove().unwrap();
}

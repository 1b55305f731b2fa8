//! A full disk: the error names it, and nothing else is harmed.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use barid_kv::{Batch, Choice, Error, Result, Store, Writer};
use barid_testkit::child::{Child, ChildEvent, ended, print_line};

use crate::world::{Session as _, World, choice, content, for_each_store, framed, store};

for_each_store!(disk, crate::crash::full::full_disk);

/// The longest silence of a child.
const SILENCE: Duration = Duration::from_secs(60);
/// Batches of 64 KB, more than any disk of these tests can hold.
const BATCHES: u32 = 1_500;

/// Runs a child on a small file system of its own, which is removed with it.
fn full_disk(name: &str) {
    let Some(choice) = choice(name) else { return };
    let world = World::new();
    let script = "mount -t tmpfs -o size=24m barid \"$0\" && exec \"$@\"";
    let folder = world.scratch.path().to_str().unwrap();
    let mut through = vec!["unshare", "--mount"];
    if !rustix::process::geteuid().is_root() {
        through.extend(["--user", "--map-root-user"]);
    }
    through.extend(["sh", "-c", script, folder]);
    let mut child = Child::spawn_by(&through, "fill", &[name, folder]);
    let mut last = None;
    loop {
        match child.next(SILENCE) {
            ChildEvent::Line(line) => {
                eprintln!("{choice}: {line}");
                last = Some(line);
            }
            ChildEvent::Ended(status) if status.success() => break,
            ChildEvent::Ended(status) if last.is_none() => {
                eprintln!("skipped: a file system for {name}: {}", ended(status));
                return;
            }
            ChildEvent::Ended(status) => panic!("{choice}: {} after {last:?}", ended(status)),
            ChildEvent::Hangs => panic!("{choice}: hangs after {last:?}"),
        }
    }
    assert_eq!(last.as_deref(), Some("done"));
}

fn fill(batch: &mut Batch, nth: u32) {
    batch.clear();
    let mut rng = fastrand::Rng::with_seed(u64::from(nth));
    for n in 0..64_u32 {
        let key = [&b"r"[..], &(nth * 64 + n).to_be_bytes()].concat();
        let random: Vec<u8> = (0..1_024).map(|_| rng.u8(..)).collect();
        batch.put(&key, &framed(&key, &random));
    }
}

/// Applies batches and counts them; ends with the error.
fn apply_all(mut writer: Writer, applied: &mut u32) -> Result<()> {
    let mut batch = Batch::new();
    for nth in 1..=BATCHES {
        fill(&mut batch, nth);
        writer.apply(&batch)?;
        *applied = nth;
    }
    writer.close()
}

fn is_clear(error: &Error) {
    let Error::Io { source, .. } = error else { panic!("{error:?}") };
    assert_eq!(source.kind(), ErrorKind::StorageFull, "{error}");
}

/// Creates a store with 64 records, and closes it.
fn small(store: &Store) -> Result<()> {
    let mut batch = Batch::new();
    fill(&mut batch, 0);
    let mut writer = store.create()?;
    writer.apply(&batch)?;
    writer.close()
}

fn count(store: &Store) -> Result<usize> {
    let pairs = store.read()?.pairs(b"")?;
    let right = pairs.iter().all(|(key, value)| content(key, value).is_some());
    assert!(right, "a wrong record");
    Ok(pairs.len())
}

pub(crate) fn child(args: &[&str]) {
    let choice = Choice::parse(args[0]).unwrap();
    let at = |name: &str| store(choice, &Path::new(args[1]).join(name));
    let (old, new) = (at("old"), at("new"));
    small(&old).unwrap();
    print_line("an old generation is there");

    let mut applied = 0;
    let error = new.create().and_then(|writer| apply_all(writer, &mut applied)).unwrap_err();
    print_line(&format!("creating: {applied} batches, then {error}"));
    is_clear(&error);
    assert_eq!(count(&old).unwrap(), 64);
    new.remove().unwrap();
    small(&new).unwrap();
    assert_eq!(count(&new).unwrap(), 64);
    new.remove().unwrap();

    let mut applied = 0;
    let error = old.write().and_then(|writer| apply_all(writer, &mut applied)).unwrap_err();
    print_line(&format!("updating: {applied} batches, then {error}"));
    is_clear(&error);
    match count(&old) {
        Ok(count) if choice.kv.capabilities().atomic => {
            assert_eq!(count as u32, 64 + 64 * applied);
        }
        Ok(count) => print_line(&format!("{count} records are there")),
        Err(error) => {
            print_line(&format!("afterwards: {error}"));
            assert!(!choice.kv.capabilities().atomic, "{error}");
        }
    }
    old.remove().unwrap();
    small(&old).unwrap();
    assert_eq!(count(&old).unwrap(), 64);
    print_line("done");
}

//! Caches in every store: `--store`, `--compress` and the verbs of `barid cache`.

use std::path::Path;

use barid_testkit::{disk, skip_or_fail};
use serde_json::Value;

use crate::support::{Run, World};

/// The methods of `--compress`.
pub(crate) const METHODS: [&str; 5] = ["none", "lz4", "zstd", "zstd+dict", "zlib"];

/// Returns the arguments for every kind of cache that works on this machine. Missing libraries are
/// reported, and with `CI=true` they fail the test.
pub(crate) fn ways(world: &World) -> Vec<Vec<String>> {
    let mut ways = Vec::new();
    for store in usable(world) {
        let name = store["name"].as_str().unwrap();
        let way = |store: &str, method: &str| {
            ["--store", store, "--compress", method].map(str::to_owned).to_vec()
        };
        ways.extend(METHODS.map(|method| way(name, method)));
        for builtin in store["compressions"].as_array().unwrap() {
            ways.push(way(&format!("{name}:{}", builtin.as_str().unwrap()), "none"));
        }
    }
    ways
}

/// Returns the lines of `cache stores` for usable stores, the native one first.
pub(crate) fn usable(world: &World) -> Vec<Value> {
    let (usable, missing): (Vec<Value>, Vec<Value>) =
        world.json(&["cache", "stores"]).into_iter().partition(|store| store["usable"] == true);
    for store in missing {
        skip_or_fail(&format!("the store {}: {}", store["name"], store["missing"]));
    }
    assert_eq!(usable[0]["name"], "native");
    usable
}

/// Makes a Maildir of `count` varied messages.
fn maildir(world: &World, count: usize) -> String {
    let messages: Vec<String> = (0..count)
        .map(|n| {
            format!(
                "From: Ann {n} <ann{n}@example.org>\nTo: list@example.org\n\
                 Subject: Re: number {}\nMessage-ID: <{n}@example.org>\n\
                 References: <{}@example.org>\nDate: Tue, 5 Mar 2024 12:22:{:02} +0100\n\nx\n",
                n / 3,
                n / 2,
                n % 60
            )
        })
        .collect();
    world.maildir("box", &messages.iter().map(String::as_str).collect::<Vec<_>>())
}

fn run(world: &World, args: &[&str], way: &[String]) -> Run {
    let way: Vec<&str> = way.iter().map(String::as_str).collect();
    world.run(&[args, &way].concat())
}

/// Runs the program with the options of a kind of cache; it must succeed without output on standard
/// error.
fn ok(world: &World, args: &[&str], way: &[String]) -> String {
    let run = run(world, args, way);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?} {way:?}");
    run.text()
}

fn of<'a>(lines: &'a [Value], mailbox: &str) -> &'a Value {
    lines.iter().find(|line| line["mailbox"] == mailbox).unwrap()
}

#[test]
fn a_cache_stays_in_its_store_until_it_is_moved() {
    let world = World::new();
    let path = maildir(&world, 50);
    let expected = world.ok(&["ls", &path, "--no-cache"]);
    for way in ways(&world) {
        let (store, compression) = (way[1].as_str(), way[3].as_str());
        let check = |args: &[&str], way: &[String]| {
            let run = run(&world, args, way);
            assert_eq!((run.code, run.text()), (0, expected.clone()), "{args:?} {way:?}");
            let told = run.stderr.lines().all(|line| line.starts_with("note: "));
            assert!(told, "{args:?} {way:?}: {}", run.stderr);
            let status = world.json(&["cache", "status", &path, "--cache-dir", "c"]);
            let name = store.split(':').next().unwrap();
            assert_eq!(status[0]["store"], name);
            assert_eq!(status[0]["builtin"].as_str(), store.split_once(':').map(|two| two.1));
            let in_blocks = name == "native" && compression == "zstd+dict";
            assert_eq!(status[0]["compression"], if in_blocks { "zstd" } else { compression });
            assert_eq!((&status[0]["messages"], &status[0]["state"]), (&50.into(), &"ok".into()));
        };
        check(&["ls", &path, "--cache-dir", "c"], &way);
        check(&["ls", &path, "--cache-dir", "c"], &[]);
        check(&["ls", &path, "--cache-dir", "c"], &way);
        let verified = world.json(&["cache", "verify", &path, "--cache-dir", "c"]);
        assert_eq!(verified[0]["ok"], true, "{way:?} {verified:?}");
    }
    // There was one cache, moved from store to store: no files are left behind.
    world.ok(&["cache", "convert", &path, "--cache-dir", "c", "--store", "native"]);
    let left: Vec<String> = world.list("c");
    assert!(left.len() <= 3, "{left:?}");
}

#[test]
fn moving_is_told() {
    let world = World::new();
    let path = maildir(&world, 5);
    world.ok(&["ls", &path]);
    let run = world.run(&["ls", &path, "--compress", "zstd:5"]);
    assert_eq!(run.code, 0);
    assert!(run.stderr.starts_with("note: ") && run.stderr.contains("zstd:5"), "{}", run.stderr);
    let run = world.run(&["ls", &path, "--compress", "zstd:5"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let run = world.run(&["ls", &path, "-q", "--compress", "zlib"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}

#[test]
fn populate_fails_where_no_cache_can_be() {
    let world = World::new();
    let path = maildir(&world, 5);
    let file = world.write("file", b"not a folder");
    let run = world.run(&["cache", "populate", &path, "--cache-dir", &file]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.text().contains("5 messages") && run.stderr.contains("error: "), "{}", run.stderr);
    let run = world.run(&["cache", "populate", &path, "--json", "-q", "--cache-dir", &file]);
    let line: Value = serde_json::from_str(&run.text()).unwrap();
    assert_eq!((run.code, &line["state"]), (2, &"none".into()), "{}", run.stderr);
    assert!(run.stderr.contains("no cache was written: "), "{}", run.stderr);
}

#[test]
fn one_size_is_told_everywhere() {
    let world = World::new();
    let path = maildir(&world, 400);
    for way in ways(&world) {
        // A file system may still be allocating blocks, which changes the size by a block or two.
        let mut tries = (0..5).map(|_| told_sizes(&world, &path, &way));
        let is_one = tries.any(|sizes| sizes[0] > 0 && sizes.iter().all(|size| *size == sizes[0]));
        assert!(is_one, "{way:?}: {:?}", told_sizes(&world, &path, &way));
    }
    assert_eq!(world.json(&["status", &path, "--no-cache"])[0]["cache"]["bytes"], 0);
}

/// Returns the size of a new cache according to each command.
fn told_sizes(world: &World, path: &str, way: &[String]) -> [u64; 3] {
    world.ok(&["cache", "clear", "--all"]);
    let text = ok(world, &["cache", "populate", path, "--json"], way);
    let populated: Value = serde_json::from_str(&text).unwrap();
    let listed = world.json(&["cache", "status", path]);
    let status = world.json(&["status", path]);
    [&populated["bytes"], &listed[0]["bytes"], &status[0]["cache"]["bytes"]]
        .map(|size| size.as_u64().unwrap())
}

/// The suggested repair works.
#[test]
fn what_mends_a_damaged_cache_is_told() {
    let world = World::new();
    let path = maildir(&world, 400);
    let expected = world.ok(&["ls", &path, "--no-cache"]);
    for way in ways(&world) {
        world.ok(&["cache", "clear", "--all"]);
        ok(&world, &["ls", &path], &way);
        let header = world.json(&["cache", "status"])[0]["file"].as_str().unwrap().to_owned();
        disk::settle(Path::new(&header).parent().unwrap()).unwrap();
        let before = world.json(&["cache", "status", &path]);
        let mut bytes = disk::read(header.as_ref()).unwrap();
        bytes[30] ^= 0x55;
        disk::write(header.as_ref(), &bytes).unwrap();
        let status = world.json(&["cache", "status", &path]);
        assert_eq!(status[0]["state"], "damaged", "{way:?}");
        assert_eq!(
            (&status[0]["bytes"], &status[0]["messages"]),
            (&before[0]["bytes"], &Value::Null)
        );
        let unnamed = world.json(&["cache", "status"]);
        assert_eq!(unnamed[0]["mailbox"], Value::Null);
        let converted = run(&world, &["cache", "convert", &path], &way);
        let verified = world.run(&["cache", "verify", &path]);
        for run in [converted, verified] {
            assert_eq!(run.code, 2, "{way:?}: {}", run.stderr);
            let hint = run.stderr.lines().find(|line| line.starts_with("hint: ")).unwrap();
            let commands: Vec<&str> = hint.split('`').skip(1).step_by(2).collect();
            assert_eq!(commands.len(), 2, "{hint}");
            assert!(commands[1].contains(before[0]["store"].as_str().unwrap()), "{hint}");
        }
        // The cache is rebuilt with its former options, although none are given.
        let run = world.run(&["ls", &path]);
        assert_eq!((run.code, run.text()), (0, expected.clone()), "{way:?}");
        assert!(run.stderr.contains("rebuilt in "), "{way:?}: {}", run.stderr);
        let after = world.json(&["cache", "status", &path]);
        for key in ["store", "builtin", "compression"] {
            assert_eq!(after[0][key], before[0][key], "{way:?}");
        }
    }
}

#[test]
fn a_store_that_is_gone_is_damage() {
    let world = World::new();
    let path = maildir(&world, 20);
    for way in ways(&world).into_iter().filter(|way| way[1] != "native") {
        world.ok(&["cache", "clear", "--all"]);
        ok(&world, &["ls", &path], &way);
        for name in world.list("home/.cache/barid") {
            if !name.ends_with(".bhc") {
                world.remove(&format!("home/.cache/barid/{name}"));
            }
        }
        let status = world.json(&["cache", "status", &path]);
        assert_eq!(status[0]["state"], "damaged", "{way:?}");
        let reason = status[0]["reason"].as_str().unwrap();
        let store = way[1].split(':').next().unwrap();
        assert!(reason.contains(&format!(".{store}")), "the store's own file: {reason}");
        let run = world.run(&["cache", "populate", &path]);
        assert_eq!(run.code, 0, "{way:?}: {}", run.stderr);
        assert_eq!(world.json(&["cache", "status", &path])[0]["state"], "ok", "{way:?}");
    }
}

#[test]
fn populate_fills_without_listing() {
    let world = World::new();
    let path = maildir(&world, 30);
    for way in ways(&world) {
        world.ok(&["cache", "clear", "--all"]);
        let text = ok(&world, &["cache", "populate", &path, "--json"], &way);
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&line["type"], &line["state"]),
            (&"cache_populated".into(), &"populated".into())
        );
        assert_eq!((&line["messages"], &line["messages_read"]), (&30.into(), &30.into()));
        for key in ["bytes", "records_bytes", "records_raw_bytes"] {
            assert!(line[key].as_u64() > Some(0), "{key}: {line}");
        }
        let again = world.json(&["cache", "populate", &path]);
        assert_eq!((&again[0]["state"], &again[0]["messages_read"]), (&"fresh".into(), &0.into()));
    }
    let text = world.ok(&["cache", "populate", &path]);
    assert!(text.contains("30 messages in ") && text.contains("nothing is new"), "{text}");
}

#[test]
fn populate_full_finds_sizes() {
    let world = World::new();
    let path = maildir(&world, 30);
    for way in ways(&world) {
        world.ok(&["cache", "clear", "--all"]);
        ok(&world, &["cache", "populate", "--full", &path], &way);
        let lines = world.json(&["ls", "--rfc822-size", &path]);
        for line in &lines {
            // Nine lines end with one byte each.
            assert_eq!(line["rfc822_size"].as_u64(), line["size"].as_u64().map(|size| size + 8));
        }
        assert_eq!(lines.len(), 30);
    }
}

#[test]
fn populate_goes_on_after_a_mailbox_that_is_none() {
    let world = World::new();
    let path = maildir(&world, 3);
    let run = world.run(&["cache", "populate", "nowhere", &path]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.starts_with("error: nowhere: "), "{}", run.stderr);
    assert!(run.text().contains("3 messages"), "{}", run.text());
}

#[test]
fn convert_does_not_need_the_mailbox() {
    let world = World::new();
    let path = maildir(&world, 60);
    let expected = world.ok(&["ls", &path]);
    for way in ways(&world) {
        world.rename("box", "elsewhere");
        let text = ok(&world, &["cache", "convert", &path, "--json"], &way);
        world.rename("elsewhere", "box");
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&line["type"], &line["messages"]), (&"cache_converted".into(), &60.into()));
        assert!(line["to"]["bytes"].as_u64() > Some(0), "{line}");
        let status = &world.json(&["status", &path])[0];
        assert_eq!(status["cache"]["messages_read"], 0, "{way:?}");
        assert_eq!(world.ok(&["ls", &path]), expected, "{way:?}");
    }
    let again = world.ok(&["cache", "convert", &path, "--compress", "none"]);
    let told = world.ok(&["cache", "convert", &path, "--compress", "none"]);
    assert!(told.contains("already"), "{again} {told}");
    let to = world.ok(&["cache", "convert", &path, "--store", "native", "--compress", "zlib:9"]);
    assert!(to.contains("60 messages from ") && to.contains("native, zlib:9"), "{to}");
}

#[test]
fn convert_wants_something_to_convert() {
    let world = World::new();
    let path = maildir(&world, 3);
    let nothing = world.run(&["cache", "convert", &path]);
    assert_eq!(nothing.code, 2);
    assert!(nothing.stderr.contains("--store") && nothing.stderr.contains("hint: "));
    let not_there = world.run(&["cache", "convert", &path, "--compress", "zstd"]);
    assert_eq!((not_there.code, not_there.stdout.len()), (1, 0));
    assert!(not_there.stderr.contains("no cache of this mailbox"), "{}", not_there.stderr);
    world.ok(&["ls", &path]);
    world.maildir("other", &["Subject: x\n\n"]);
    let one = world.run(&["cache", "convert", &path, "other", "--compress", "zstd"]);
    assert_eq!(one.code, 1, "{}", one.stderr);
    assert!(one.text().contains("3 messages from "), "{}", one.text());
}

#[test]
fn what_there_is_not_is_named() {
    let world = World::new();
    let path = maildir(&world, 1);
    for (option, value, known) in [
        ("--store", "lmbd", "tokyocabinet"),
        ("--store", "lmdb:zstd", "--compress"),
        ("--store", "native:zstd", "no compressions of its own"),
        ("--compress", "zst", "zstd+dict"),
        ("--compress", "zstd:23", "zstd[:1-22]"),
    ] {
        let run = world.run(&["ls", &path, option, value]);
        assert_eq!((run.code, run.stdout.len()), (2, 0), "{value}");
        assert!(run.stderr.contains(option) && run.stderr.contains(known), "{}", run.stderr);
        assert!(run.stderr.starts_with("error: invalid value"), "{}", run.stderr);
    }
    let run = world.run(&["ls", &path, "--no-cache", "--store", "native"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
}

#[test]
fn stores_are_listed() {
    let world = World::new();
    let lines = world.json(&["cache", "stores"]);
    let names: Vec<&str> = lines.iter().map(|line| line["name"].as_str().unwrap()).collect();
    for name in ["native", "lmdb", "rocksdb", "gdbm", "qdbm", "kyotocabinet", "tokyocabinet", "tdb"]
    {
        assert!(names.contains(&name), "{names:?}");
    }
    for line in &lines {
        assert_eq!(line["type"], "store");
        let has_version = line["version"].as_str().is_some_and(|version| !version.is_empty());
        assert_eq!(line["usable"] == true, has_version, "{line}");
        assert_eq!(line["usable"] == true, line["missing"].is_null(), "{line}");
    }
    let text = world.ok(&["cache", "stores"]);
    assert!(names.iter().all(|name| text.contains(name)) && text.contains("zstd+dict"), "{text}");
    // It needs nothing, not even a home.
    let output = world.command().env_remove("HOME").args(["cache", "stores"]).output().unwrap();
    assert!(output.status.success());
}

#[test]
fn damage_of_a_store_costs_a_warning() {
    let world = World::new();
    let path = maildir(&world, 400);
    let expected = world.ok(&["ls", &path, "--no-cache"]);
    for way in ways(&world) {
        world.ok(&["cache", "clear", "--all"]);
        ok(&world, &["ls", &path], &way);
        let largest = |world: &World| {
            let files = disk::list_files(&world.path("home/.cache/barid")).unwrap();
            files.into_iter().max_by_key(|file| disk::read(file).unwrap().len())
        };
        let file = largest(&world).unwrap();
        let mut bytes = disk::read(&file).unwrap();
        let (from, to) = (bytes.len() / 4, bytes.len() / 4 * 3);
        bytes[from..to].iter_mut().for_each(|byte| *byte ^= 0x55);
        disk::write(&file, &bytes).unwrap();
        let verified = world.run(&["cache", "verify", &path]);
        assert_eq!(verified.code, 2, "{way:?} {file:?}: {}", verified.text());
        let run = world.run(&["ls", &path]);
        assert_eq!(run.code, 0, "{way:?} {file:?}: {}", run.stderr);
        assert!(run.text() == expected, "{way:?}");
        assert!(run.stderr.starts_with("warning: "), "{way:?}: {}", run.stderr);
        let again = world.run(&["ls", &path]);
        assert_eq!((again.code, again.stderr.as_str()), (0, ""), "{way:?}");
        assert_eq!(again.text(), expected, "{way:?}");
        let status = world.json(&["cache", "status"]);
        let store = way[1].split(':').next().unwrap();
        assert_eq!(of(&status, &path)["store"], store, "{way:?}: it is made as it was");
    }
}

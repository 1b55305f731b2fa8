//! Caches in every store and compression give the answers of the mailbox itself.

use std::fmt::Write as _;
use std::time::Instant;

use barid_testkit::boxes::MaildirWriter;
use barid_testkit::{corpora, disk};

use super::{Mail, Run, Tally, run};
use crate::stores::{usable, ways};
use crate::support::World;

const LIST: &str = "dev-list-man";
/// Messages in the corpus of real mail.
const COUNT: usize = 17_885;
/// Messages in the tests of each kind of cache.
const PART: usize = 2_000;
/// Messages added and removed between two openings.
const CHANGED: usize = 40;

/// The commands run with each cache.
const QUESTIONS: [&[&str]; 3] =
    [&["ls", "--json"], &["thread", "--imap"], &["ls", "--sort", "subject", "--limit", "50"]];

/// Runs all commands with these options.
fn answers(world: &World, path: &str, options: &[&str]) -> Vec<Vec<u8>> {
    let answer = |question: &&[&str]| {
        let Run { code, stdout, stderr } = run(world, &[question, &[path][..], options].concat());
        assert_eq!((code, stderr.as_str()), (0, ""), "{question:?} {options:?}");
        stdout
    };
    QUESTIONS.iter().map(answer).collect()
}

/// Compares the answers with a cache, when it is made and later, with those of the mailbox.
fn compare(
    tally: &mut Tally,
    world: &World,
    path: &str,
    expected: &[Vec<u8>],
    (title, options): (&str, &[&str]),
) {
    for (found, expected) in answers(world, path, options).iter().zip(expected) {
        match found == expected {
            true => tally.equal(),
            false => tally.different(format!("{title} {options:?}")),
        }
    }
}

fn verify(world: &World, path: &str, options: &[&str]) {
    let run = run(world, &[&["cache", "verify", path][..], options].concat());
    let text = String::from_utf8(run.stdout).unwrap();
    assert_eq!(run.code, 0, "{options:?}: {text}{}", run.stderr);
}

/// Delivers, expunges and changes flags of some messages all over the mailbox.
fn change(mail: &Mail, part: usize, world: &World) {
    let writer = MaildirWriter::create(&world.path("maildir")).unwrap();
    for (number, message) in mail.messages.iter().skip(part).take(CHANGED).enumerate() {
        writer.deliver(&format!("{}.M{number}P2.host", 1_100_000_000 + number), message).unwrap();
    }
    let files = disk::list_files(&world.path("maildir/cur")).unwrap();
    for file in files.iter().step_by(files.len() / CHANGED) {
        disk::remove_file(file).unwrap();
    }
    for file in files.iter().skip(1).step_by(files.len() / CHANGED) {
        let name = file.file_name().unwrap().to_str().unwrap();
        let base = name.split(':').next().unwrap();
        disk::rename(file, &file.with_file_name(format!("{base}:2,FRS"))).unwrap();
    }
}

#[test]
fn every_way_to_keep_a_cache() {
    let Some(mail) = Mail::of(LIST, COUNT) else { return };
    let world = World::new();
    let part = corpora::either(LIST, PART, 150);
    let path = mail.write_part(&world, part);
    let ways = ways(&world);
    let started = Instant::now();
    let mut tally = Tally::new(format!("{} ways to keep a cache", ways.len()));
    let options: Vec<Vec<&str>> = ways
        .iter()
        .enumerate()
        .map(|(number, way)| {
            let dir: &str = format!("caches/{number}").leak();
            ["--cache-dir", dir].into_iter().chain(way.iter().map(String::as_str)).collect()
        })
        .collect();
    let ask = |tally: &mut Tally, title: &str, times: usize| {
        let expected = answers(&world, &path, &["--no-cache"]);
        for options in &options {
            for _ in 0..times {
                compare(tally, &world, &path, &expected, (title, options));
            }
        }
    };
    ask(&mut tally, "first and again", 2);
    change(&mail, part, &world);
    ask(&mut tally, "after changes", 2);
    let mut sizes = String::new();
    for options in &options {
        verify(&world, &path, &options[..2]);
        let line = &crate::support::parse_lines(
            &String::from_utf8(
                run(&world, &[&["cache", "status", "--json", &path][..], &options[..2]].concat())
                    .stdout,
            )
            .unwrap(),
        )[0];
        write!(sizes, "\n  {:>9} {}", line["bytes"], options[2..].join(" ")).unwrap();
    }
    println!("bytes of {part} messages, in {:?}:{sizes}", started.elapsed());
    tally.report(ways.len() * QUESTIONS.len() * 4);
}

#[test]
fn every_store_holds_a_large_mailbox() {
    let Some(mail) = Mail::of(LIST, COUNT) else { return };
    let path = mail.maildir();
    let world = &mail.world;
    let expected = answers(world, &path, &["--no-cache"]);
    let mut tally = Tally::new("every store, the whole corpus");
    let methods = ["none", "zstd+dict", "lz4", "zstd", "zlib"];
    let stores = usable(world);
    for (store, method) in stores.iter().zip(methods.into_iter().cycle()) {
        let started = Instant::now();
        let store = store["name"].as_str().unwrap();
        let dir = format!("caches/{store}");
        let options = ["--cache-dir", &dir, "--store", store, "--compress", method];
        for title in ["first", "again"] {
            compare(&mut tally, world, &path, &expected, (title, &options));
        }
        verify(world, &path, &options[..2]);
        println!("{store} {method}: {:?}", started.elapsed());
        world.remove(&dir);
    }
    tally.report(stores.len() * QUESTIONS.len() * 2);
}

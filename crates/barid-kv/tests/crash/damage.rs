//! Damaged files: a reader returns an error, or unchanged records. Never another record, a crash or
//! a hang.
//!
//! The cases run in a child, so that a crash is one numbered failure and does not end the run.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use barid_kv::{Batch, Choice, Error, Result, Store};
use barid_testkit::child::{Child, ChildEvent, ended, print_line};
use barid_testkit::disk;

use crate::world::{Session, World, choices, content, for_each_store, framed, seeds, store, text};

for_each_store!(one, crate::crash::damage::damage);

/// The time limit of a case: longer than the store's own deadline for a library that hangs.
const CASE_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of failures after which the search ends.
const FAILURES_MAX: usize = 12;
const RECORDS: u32 = 300;
/// One in this many cases also writes the store.
const WRITE_EVERY: usize = 4;
const PAGE: usize = 4_096;
const COUNTER: &[u8] = b"m";

/// The results of the cases, in numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    cases: usize,
    /// Cases with all records.
    whole: usize,
    /// Cases with some records, without an error.
    part: usize,
    refused: usize,
    /// Values that their own checksum rejects.
    noticed: usize,
    /// Cases in which the damaged store could be written.
    written: usize,
    /// The slowest case.
    millis_max: usize,
}

/// One way to damage one file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Cut { len: usize },
    Flip { at: usize, mask: u8 },
    Zeros { at: usize },
    Garbage { at: usize },
    Gone,
}

/// A case: the file, and its damage.
#[derive(Debug)]
struct Case {
    file: usize,
    damage: Damage,
    /// `true` to damage a store right after it was written, in the same tick of the clock.
    at_once: bool,
}

impl Case {
    /// Returns the number of cases with `n` seeds.
    fn count(n: usize) -> usize {
        n + n + n / 10 + n / 20 + n / 4
    }

    /// Returns the case of that number; always the same one for the same number, seeds and files.
    fn new(nth: usize, n: usize, files: &[(PathBuf, Vec<u8>)]) -> Self {
        let mut rng = fastrand::Rng::with_seed(nth as u64);
        let file = nth % files.len();
        let len = files[file].1.len().max(1);
        let flip = Damage::Flip { at: rng.usize(..len), mask: rng.u8(1..) };
        let page = rng.usize(..len.div_ceil(PAGE)) * PAGE;
        let (pages, gone, at_once) = (n + n, n + n + n / 10, n + n + n / 10 + n / 20);
        let damage = match [n, pages, gone, at_once].iter().filter(|start| **start <= nth).count() {
            0 if rng.u32(0..4) == 0 => Damage::Cut { len: page },
            0 => Damage::Cut { len: rng.usize(..len) },
            2 if rng.bool() => Damage::Zeros { at: page },
            2 => Damage::Garbage { at: page },
            3 => Damage::Gone,
            _ => flip,
        };
        Self { file, damage, at_once: nth >= at_once }
    }

    /// Returns the content of the file after the damage; `None` if the file is removed.
    fn apply(&self, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
        let page = |at: usize| at.min(bytes.len())..(at + PAGE).min(bytes.len());
        match self.damage {
            Damage::Cut { len } => bytes.truncate(len),
            Damage::Flip { at, mask } => {
                bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= mask);
            }
            Damage::Zeros { at } => {
                let page = page(at);
                bytes[page].fill(0);
            }
            Damage::Garbage { at } => {
                let page = page(at);
                fastrand::Rng::with_seed(at as u64).fill(&mut bytes[page]);
            }
            Damage::Gone => return None,
        }
        Some(bytes)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cases, whole, part, refused, noticed, written, millis_max } = self;
        write!(out, "{cases} {whole} {part} {refused} {noticed} {written} {millis_max}")
    }
}

impl Counts {
    fn parse(line: &str) -> Self {
        let numbers: Vec<usize> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let [cases, whole, part, refused, noticed, written, millis_max] = numbers[..] else {
            panic!("{line}")
        };
        Self { cases, whole, part, refused, noticed, written, millis_max }
    }

    fn add(&mut self, other: Self) {
        self.cases += other.cases;
        self.whole += other.whole;
        self.part += other.part;
        self.refused += other.refused;
        self.noticed += other.noticed;
        self.written += other.written;
        self.millis_max = self.millis_max.max(other.millis_max);
    }
}

/// Runs all cases of a store in children.
fn damage(name: &str) {
    for (nth, choice) in choices(name).into_iter().enumerate() {
        // A built-in compression changes little in the structure of the files.
        let seeds = if nth == 0 { seeds(200) } else { seeds(200) / 25 };
        let started = Instant::now();
        let (counts, failures) = all_cases(choice, seeds);
        let seconds = started.elapsed().as_secs_f64();
        eprintln!("{choice}: {seconds:.1} s, {counts:?}");
        assert!(failures.is_empty(), "{choice}:\n{}", failures.join("\n"));
        assert_eq!(counts.cases, Case::count(seeds), "{choice}: cases run");
        // A store that rejects everything, or nothing, is not tested.
        assert!(counts.refused > 0, "{choice}: no damage was found");
    }
}

fn all_cases(choice: Choice, seeds: usize) -> (Counts, Vec<String>) {
    let (mut counts, mut failures) = (Counts::default(), Vec::new());
    let (choice, total) = (choice.to_string(), Case::count(seeds));
    let mut from = 0;
    while from < total && failures.len() < FAILURES_MAX {
        let (seeds, start) = (seeds.to_string(), from.to_string());
        let world = World::new();
        let folder = world.scratch.path().to_str().unwrap();
        let mut child = Child::spawn("damage", &[&choice, &seeds, &start, folder]);
        let mut last = "before the first case".to_owned();
        loop {
            match child.next(CASE_TIMEOUT) {
                ChildEvent::Line(line) if line.starts_with("case ") => last = line,
                ChildEvent::Line(line) => {
                    from += 1;
                    counts.add(Counts::parse(&line));
                }
                ChildEvent::Ended(status) if status.success() => break,
                ChildEvent::Ended(status) => {
                    failures.push(format!("{last}: {}", ended(status)));
                    from += 1;
                    break;
                }
                ChildEvent::Hangs => {
                    failures.push(format!("{last}: hangs"));
                    from += 1;
                    break;
                }
            }
        }
    }
    (counts, failures)
}

/// Runs cases until the last, or the first failure.
pub(crate) fn child(args: &[&str]) {
    let (choice, seeds) = (Choice::parse(args[0]).unwrap(), args[1].parse().unwrap());
    let store = store(choice, &Path::new(args[3]).join("store"));
    make(&store);
    let pristine = files(Path::new(args[3]));
    let mut left = pristine.clone();
    let own: Vec<_> = pristine.iter().filter(|(path, _)| is_the_stores(path)).cloned().collect();
    for nth in args[2].parse().unwrap()..Case::count(seeds) {
        let case = Case::new(nth, seeds, &own);
        let path = &own[case.file].0;
        print_line(&format!("case {nth}: {:?} of {}", case.damage, path.display()));
        if case.at_once {
            // The damage must be to the present files; names in folders differ between runs.
            store.remove().unwrap();
            make(&store);
            let now = files(Path::new(args[3]));
            let mut now = now.into_iter().filter(|(path, _)| is_the_stores(path));
            let (path, bytes) = now.nth(case.file).unwrap();
            put(&path, case.apply(bytes));
        } else {
            restore(&left, &pristine);
            put(path, case.apply(own[case.file].1.clone()));
        }
        let started = Instant::now();
        let mut counts = run(&store, nth);
        counts.millis_max = started.elapsed().as_millis() as usize;
        left = files(Path::new(args[3]));
        print_line(&counts.to_string());
    }
}

/// Returns `true` for the store's files, but not for barid's lock and seal.
fn is_the_stores(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    extension != "lock" && extension != "seal"
}

fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = disk::list_files(folder).unwrap().into_iter();
    files.map(|path| (path.clone(), disk::read(&path).unwrap())).collect()
}

/// Restores the files that a case changed.
fn restore(left: &[(PathBuf, Vec<u8>)], pristine: &[(PathBuf, Vec<u8>)]) {
    for (path, _) in left {
        if !pristine.iter().any(|(known, _)| known == path) {
            disk::remove_file(path).unwrap();
        }
    }
    for file in pristine {
        if !left.contains(file) {
            disk::create_dir_all(file.0.parent().unwrap()).unwrap();
            disk::write(&file.0, &file.1).unwrap();
        }
    }
}

fn put(path: &Path, bytes: Option<Vec<u8>>) {
    match bytes {
        Some(bytes) => disk::write(path, &bytes).unwrap(),
        None => disk::remove_file(path).unwrap(),
    }
}

fn key(n: u32) -> Vec<u8> {
    [&b"r"[..], &n.to_be_bytes()].concat()
}

/// Returns the value of a record in its n-th version.
fn value(n: u32, version: u64) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(u64::from(n) << 8 | version);
    let len = if n.is_multiple_of(50) { 9_000 } else { rng.usize(30..500) };
    framed(&key(n), &text(&mut rng, len))
}

/// Counts the changes of the store, which detects a store that returned to an older state; caches
/// with records in a store do the same.
fn count(batch: &mut Batch, changes: u8) {
    batch.put(COUNTER, &framed(COUNTER, &[changes]));
}

fn make(store: &Store) {
    let mut batch = Batch::new();
    (0..RECORDS).for_each(|n| batch.put(&key(n), &value(n, 0)));
    let mut writer = store.create().unwrap();
    writer.apply(&batch).unwrap();
    writer.close().unwrap();
    // Some are replaced and removed, to create free space.
    batch.clear();
    count(&mut batch, 1);
    (0..RECORDS).step_by(7).for_each(|n| batch.put(&key(n), &value(n, 1)));
    (0..RECORDS).step_by(11).for_each(|n| batch.delete(&key(n)));
    let mut writer = store.write().unwrap();
    writer.apply(&batch).unwrap();
    writer.close().unwrap();
}

/// Returns the record that [`make`] and then [`change`] leave.
fn expected(n: u32, changed: bool) -> Option<Vec<u8>> {
    match n {
        _ if changed && n.is_multiple_of(3) => Some(value(n, 2)),
        _ if changed && n.is_multiple_of(5) => None,
        _ if n.is_multiple_of(11) || n >= RECORDS => None,
        _ => Some(value(n, u64::from(n.is_multiple_of(7)))),
    }
}

fn change(store: &Store) -> Result<()> {
    let mut writer = store.write()?;
    let mut batch = Batch::new();
    count(&mut batch, 2);
    (0..RECORDS).step_by(3).for_each(|n| batch.put(&key(n), &value(n, 2)));
    (0..RECORDS).step_by(5).filter(|n| n % 3 > 0).for_each(|n| batch.delete(&key(n)));
    writer.apply(&batch)?;
    writer.close()
}

fn run(store: &Store, nth: usize) -> Counts {
    let mut counts = Counts { cases: 1, ..Counts::default() };
    match read(store, false) {
        Ok((missing, noticed)) => {
            counts.noticed = noticed;
            counts.whole = usize::from(missing == 0 && noticed == 0);
            counts.part = 1 - counts.whole;
        }
        Err(error) => {
            is_clear(&error);
            counts.refused = 1;
        }
    }
    if nth.is_multiple_of(WRITE_EVERY) {
        match change(store) {
            Ok(()) => {
                counts.written = 1;
                // Earlier damage may still be there.
                drop(read(store, true).inspect_err(is_clear));
            }
            Err(error) => is_clear(&error),
        }
    }
    counts
}

fn is_clear(error: &Error) {
    let fits = matches!(error, Error::Damaged { .. } | Error::Io { .. } | Error::NotFound { .. });
    assert!(fits, "{error:?}");
}

/// Returns the numbers of missing records and of records that are detected as damaged; fails at a
/// wrong one.
fn read(store: &Store, changed: bool) -> Result<(usize, usize)> {
    let mut reader = store.read()?;
    let changes = reader.value(COUNTER)?.and_then(|value| content(COUNTER, &value));
    if changes != Some(vec![1 + u8::from(changed)]) {
        let path = store.path().to_owned();
        return Err(Error::Damaged { path, what: "another count of changes".to_owned() });
    }
    let (mut missing, mut noticed) = (0, 0);
    for n in 0..RECORDS {
        let (expected, key) = (expected(n, changed), key(n));
        match (reader.value(&key)?, expected) {
            (found, expected) if found == expected => {}
            (None, _) => missing += 1,
            (Some(found), expected) => {
                let whole = content(&key, &found).is_some();
                assert!(
                    !whole,
                    "record {n} is wrong and whole; there is one: {}",
                    expected.is_some()
                );
                noticed += 1;
            }
        }
    }
    let mut seen = 0;
    reader.scan(b"", &mut |key, found| {
        // An unknown key counts as detected, like a wrong checksum.
        if key != COUNTER && content(key, found).is_some() {
            let n = u32::from_be_bytes(key[1..].try_into().unwrap());
            let right = expected(n, changed).is_some_and(|expected| expected == found);
            assert!(right, "record {n} is wrong in a scan");
        }
        seen += 1;
        // A damaged list may be endless.
        seen < 100 * RECORDS
    })?;
    assert!(seen < 100 * RECORDS, "a scan without an end");
    Ok((missing, noticed))
}

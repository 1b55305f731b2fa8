use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_mailbox::Error;
use barid_vfs::{CallKind, CrashVfs, Fault, FaultEffect, FaultVfs, MemVfs, OpenOptions, Vfs};
use fastrand::Rng;

use super::encode::{Parsed, encode, parse};
use super::limits::SECTOR_LEN;
use super::{Change, FileChange, JournalPath, JournalSearch, apply, recover};

const DIR: &str = "/box";
const NAMES: [&str; 3] = ["meta", "index", "status"];
const SCENARIOS: u64 = 40;

type Contents = Vec<Vec<u8>>;

/// Files, and what is to become of them.
struct Scenario {
    disk: MemVfs,
    old: Contents,
    new: Contents,
    change: Change,
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn contents(vfs: &dyn Vfs) -> Contents {
    NAMES.iter().map(|name| vfs.read(&path(name), 1 << 20).unwrap()).collect()
}

impl Scenario {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let disk = MemVfs::new();
        disk.create_dir_all(Path::new(DIR), 0o700).unwrap();
        let (mut old, mut new) = (Contents::new(), Contents::new());
        let mut change = Change::new(rng.bool().then_some(7));
        for name in NAMES {
            let size = rng.usize(1..6000);
            let before: Vec<u8> =
                std::iter::repeat_with(|| rng.u8(b'a'..=b'z')).take(size).collect();
            let file = disk.open(&path(name), OpenOptions::create_new(0o600)).unwrap();
            file.write_all_at(&before, 0).unwrap();
            let (file_change, after) = random_change(name, &before, &*file, &mut rng);
            change.add(file_change);
            old.push(before);
            new.push(after);
        }
        Self { disk, old, new, change }
    }
}

fn random_change(
    name: &str,
    before: &[u8],
    file: &dyn barid_vfs::File,
    rng: &mut Rng,
) -> (FileChange, Vec<u8>) {
    let mut change = FileChange::new(name.as_bytes(), before.len() as u64);
    let mut after = before.to_vec();
    let mut at = 0;
    for _ in 0..rng.usize(0..4) {
        at += rng.usize(0..900);
        let len = rng.usize(1..1500).min(before.len().saturating_sub(at));
        if len == 0 {
            at = at.min(before.len());
            break;
        }
        if rng.bool() {
            let bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(b'A'..=b'Z')).take(len).collect();
            change.write(at as u64, &before[at..at + len], &bytes);
            after[at..at + len].copy_from_slice(&bytes);
        } else {
            change.expect(at as u64, &before[at..at + len]);
        }
        at += len;
    }
    match rng.u8(..3) {
        0 => {
            let from = at + rng.usize(0..=before.len() - at);
            let bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(b'0'..=b'9'))
                .take(before.len() - from + 1800)
                .collect();
            change.write(from as u64, &before[from..], &bytes);
            after.truncate(from);
            after.extend_from_slice(&bytes);
        }
        1 => {
            let size = rng.usize(at..=before.len());
            change.cut(size as u64, file).unwrap();
            after.truncate(size);
        }
        _ => {}
    }
    (change, after)
}

fn place() -> JournalPath {
    JournalPath::inside(Path::new(DIR))
}

/// Applies a change; what was dropped goes to a file, durably, as pending changes do.
fn run(vfs: &dyn Vfs, change: &Change) -> barid_mailbox::Result<()> {
    apply(vfs, &place(), change, 0o600, Some(&mut |_| Ok(()))).map(drop)
}

/// Returns `true` if the files are as after the change, `false` if they are as before it.
fn is_new(scenario: &Scenario, vfs: &dyn Vfs) -> Result<bool, String> {
    let found = contents(vfs);
    match (found == scenario.old, found == scenario.new) {
        (_, true) => Ok(true),
        (true, false) => Ok(false),
        _ => Err("neither old nor new".into()),
    }
}

/// Crashes a change everywhere; returns the number of crash points, or a description of the
/// failure.
fn crash(scenario: &Scenario, lying: bool, skip: Option<Fault>) -> Result<usize, String> {
    let world = match lying {
        true => CrashVfs::lying(&scenario.disk),
        false => CrashVfs::new(&scenario.disk),
    };
    let vfs: Arc<dyn Vfs> = match skip {
        Some(fault) => Arc::new(FaultVfs::new(world.vfs(), fault)),
        None => Arc::new(world.vfs()),
    };
    run(&*vfs, &scenario.change).unwrap();
    let acknowledged = world.points();
    for point in 0..=acknowledged {
        for seed in 0..10 {
            let disk = world.crash_at(point, seed);
            let again = CrashVfs::new(&disk);
            let what = |error: String| format!("point {point}, seed {seed}: {error}");
            let checked = |disk: &MemVfs| {
                let recovered = recover(disk, &place(), Some(&mut |_| Ok(())), None);
                let recovered = recovered.map_err(|error| what(error.to_string()))?;
                if recovered.quarantined.is_some() {
                    return Err(what("put aside".into()));
                }
                if !is_new(scenario, disk).map_err(what)? && point == acknowledged {
                    return Err(what("old after the acknowledgement".into()));
                }
                match place().look(disk).unwrap() {
                    JournalSearch::Nothing => Ok(()),
                    found => Err(what(format!("left behind: {found:?}"))),
                }
            };
            checked(&again.vfs())?;
            let middle = again.points() / 2;
            checked(&again.crash_at(middle, seed))?;
        }
    }
    Ok(acknowledged + 1)
}

#[test]
fn a_crash_leaves_all_or_nothing() {
    let mut points = 0;
    for seed in 0..SCENARIOS {
        match crash(&Scenario::new(seed), false, None) {
            Ok(visited) => points += visited,
            Err(loss) => panic!("scenario {seed}: {loss}"),
        }
    }
    assert!(points > 400, "{points}");
}

#[test]
fn every_barrier_is_needed() {
    let skip = |fault: Fault| Some(fault.of(CallKind::Sync).with(FaultEffect::Skip));
    let journal = path(".barid-journal");
    let all = || Fault::nth(0).forever();
    let sabotages = [
        ("a disk that lies", true, None),
        ("no fsync of the journal", false, skip(Fault::nth(0).at(&journal))),
        ("no fsync of the folder", false, skip(all().at(Path::new(DIR)))),
        ("no fsync of a file", false, skip(all().at(path("index")))),
    ];
    for (name, lying, skip) in sabotages {
        let noticed =
            (0..SCENARIOS).any(|seed| crash(&Scenario::new(seed), lying, skip.clone()).is_err());
        assert!(noticed, "{name}");
    }
}

#[test]
fn what_another_program_wrote_is_left_alone() {
    let mut aside = 0;
    for seed in 0..SCENARIOS {
        let scenario = Scenario::new(seed);
        let mut rng = Rng::with_seed(seed);
        let world = CrashVfs::new(&scenario.disk);
        run(&world.vfs(), &scenario.change).unwrap();
        for point in 0..world.points() {
            let disk = world.crash_at(point, rng.u64(..20));
            // One byte in the middle of what is written or looked at.
            let file = &scenario.change.files[rng.usize(..scenario.change.files.len())];
            let Some(write) = file.writes.first() else { continue };
            let at = write.offset + u64::from(write.len) / 2;
            let target = disk.open(&place().file(&file.name), OpenOptions::WRITE).unwrap();
            if target.metadata().unwrap().size <= at {
                continue;
            }
            target.write_all_at(b"!", at).unwrap();
            let before = contents(&disk);
            let recovered = recover(&disk, &place(), None, None).unwrap();
            assert_eq!(contents(&disk), before, "scenario {seed}, point {point}");
            if let Some(journal) = recovered.quarantined {
                aside += 1;
                assert!(disk.metadata(&journal).is_ok());
            }
            assert_eq!(place().look(&disk).unwrap(), JournalSearch::Nothing);
        }
    }
    assert!(aside > 50, "{aside}");
}

#[test]
fn a_failing_call_leaves_all_or_nothing() {
    let (mut refused, mut unfinished) = (0, 0);
    for seed in 0..SCENARIOS {
        let scenario = Scenario::new(seed);
        for n in 0.. {
            let disk = scenario.disk.snapshot();
            let vfs = FaultVfs::new(disk.clone(), Fault::nth(n));
            let result = run(&vfs, &scenario.change);
            if !vfs.fired() {
                break;
            }
            let is_new_now = match &result {
                Ok(()) => is_new(&scenario, &disk).unwrap(),
                Err(Error::Unfinished { .. }) => {
                    unfinished += 1;
                    recover(&disk, &place(), Some(&mut |_| Ok(())), None).unwrap();
                    is_new(&scenario, &disk).unwrap()
                }
                Err(_) => {
                    refused += 1;
                    recover(&disk, &place(), None, None).unwrap();
                    !is_new(&scenario, &disk).unwrap() || scenario.change.files.len() == 1
                }
            };
            assert!(is_new_now || result.is_err(), "scenario {seed}, call {n}: {result:?}");
            assert_eq!(place().look(&disk).unwrap(), JournalSearch::Nothing);
        }
    }
    assert!(refused > 100 && unfinished > 100, "{refused} refused, {unfinished} unfinished");
}

/// Appends to the files after a crash, as other programs would.
fn append(disk: &MemVfs, seed: u64) -> Contents {
    let mut rng = Rng::with_seed(seed);
    let lens = [rng.usize(..20), rng.usize(..9000), 0];
    let mut all = Contents::new();
    for (name, len) in NAMES.iter().zip(lens) {
        let bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(b'#'..=b'&')).take(len).collect();
        let file = disk.open(&path(name), OpenOptions::WRITE).unwrap();
        file.write_all_at(&bytes, file.metadata().unwrap().size).unwrap();
        all.push(bytes);
    }
    all
}

#[test]
fn what_others_append_stays() {
    let (mut kept, mut cut) = (0, 0);
    for seed in 0..SCENARIOS {
        let scenario = Scenario::new(seed);
        if scenario.old.iter().zip(&scenario.new).any(|(old, new)| new.len() > old.len()) {
            continue;
        }
        let world = CrashVfs::new(&scenario.disk);
        run(&world.vfs(), &scenario.change).unwrap();
        for point in 0..world.points() {
            for crash in 0..6 {
                let disk = world.crash_at(point, crash);
                let appended = append(&disk, seed ^ crash << 8);
                let again = CrashVfs::new(&disk);
                let check = |disk: &MemVfs| {
                    let recovered = recover(disk, &place(), Some(&mut |_| Ok(())), None).unwrap();
                    let what = format!("scenario {seed}, point {point}, crash {crash}");
                    assert_eq!(recovered.quarantined, None, "{what}");
                    let with = |all: &Contents| -> Contents {
                        let both = all.iter().zip(&appended);
                        both.map(|(before, behind)| [&before[..], behind].concat()).collect()
                    };
                    let found = contents(disk);
                    let is_sound = found == with(&scenario.new) || found == with(&scenario.old);
                    assert!(is_sound, "{what}");
                    assert_eq!(place().look(disk).unwrap(), JournalSearch::Nothing);
                    recovered.bytes_delivered
                };
                let bytes_kept = check(&again.vfs());
                kept += u64::from(bytes_kept > 0);
                cut += u64::from(scenario.new[1].len() < scenario.old[1].len());
                let middle = again.points() / 2;
                check(&again.crash_at(middle, crash));
                check(&again.crash_at(again.points() * 3 / 4, crash));
            }
        }
    }
    assert!(kept > 20 && cut > 100, "{kept} kept, {cut} cut");
}

#[test]
fn what_is_told_to_be_unchanged_stays_so() {
    let (mut unchanged, mut unfinished) = (0, 0);
    for seed in 0..SCENARIOS {
        let scenario = Scenario::new(seed);
        for n in 0.. {
            let disk = scenario.disk.snapshot();
            // From some moment on nothing works any more.
            let vfs = FaultVfs::new(disk.clone(), Fault::nth(n).forever());
            let result = run(&vfs, &scenario.change);
            if !vfs.fired() {
                break;
            }
            recover(&disk, &place(), Some(&mut |_| Ok(())), None).unwrap();
            let is_new = is_new(&scenario, &disk).unwrap();
            match result {
                Err(Error::Unfinished { .. }) => unfinished += 1,
                _ if scenario.change.files.len() == 1 => {}
                Err(error) => {
                    unchanged += 1;
                    assert!(!is_new, "scenario {seed}, call {n}: {error}");
                }
                Ok(()) => assert!(is_new, "scenario {seed}, call {n}"),
            }
        }
    }
    assert!(unchanged > 50 && unfinished > 50, "{unchanged} unchanged, {unfinished} unfinished");
}

#[test]
fn a_journal_s_numbers_are_not_believed() {
    let disk = MemVfs::new();
    disk.create_dir_all(Path::new(DIR), 0o700).unwrap();
    let file = disk.open(&path("meta"), OpenOptions::create_new(0o600)).unwrap();
    file.write_all_at(&[b'a'; 2000], 0).unwrap();
    let mut cut = FileChange::new(b"meta", 2000);
    cut.cut(1000, &*file).unwrap();
    let check = |cut_len: u64, is_believed: bool| {
        let cut = FileChange { cut_len, old_size: 1 << 40, ..cut.clone() };
        let bytes = encode(&Change { files: vec![cut], pending_through: None }, &[7; 16]).unwrap();
        let parsed = parse(&bytes);
        assert_eq!(matches!(parsed, Parsed::Whole(_)), is_believed, "{cut_len}: {parsed:?}");
    };
    check(1000, true);
    check(64 << 10, true);
    check((64 << 10) + 1, false);
    check(1 << 39, false);
}

#[test]
fn one_sector_needs_no_journal() {
    let disk = MemVfs::new();
    disk.create_dir_all(Path::new(DIR), 0o700).unwrap();
    let file = disk.open(&path("meta"), OpenOptions::create_new(0o600)).unwrap();
    file.write_all_at(&[b'a'; 2000], 0).unwrap();
    let cost = |offsets: &[u64]| {
        let mut change = FileChange::new(b"meta", 2000);
        for offset in offsets {
            change.write(*offset, b"aa", b"bb");
        }
        let mut all = Change::new(None);
        all.add(change);
        apply(&disk.snapshot(), &place(), &all, 0o600, None).unwrap().barriers
    };
    assert_eq!(cost(&[]), 0);
    assert_eq!(cost(&[3, SECTOR_LEN - 2]), 1);
    assert_eq!(cost(&[3, SECTOR_LEN - 1]), 4);
    assert_eq!(cost(&[3, SECTOR_LEN]), 4);
}

#[test]
fn a_stranger_s_journal_is_not_followed() {
    let scenario = Scenario::new(1);
    let world = CrashVfs::new(&scenario.disk);
    run(&world.vfs(), &scenario.change).unwrap();
    // Seed 1 keeps everything: somewhere on the way the journal is there.
    let disk = (0..world.points())
        .map(|point| world.crash_at(point, 1))
        .find(|disk| place().look(disk).unwrap() == JournalSearch::Redo)
        .unwrap();
    let journal = place().journal().to_owned();
    let bytes = disk.read(&journal, 1 << 20).unwrap();
    let other = disk.snapshot();
    disk.remove_file(&journal).unwrap();
    let file = disk.open(&journal, OpenOptions::create_new(0o666)).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    assert_eq!(place().look(&disk).unwrap(), JournalSearch::Strange);
    let refused = recover(&disk, &place(), None, None);
    assert!(matches!(refused, Err(Error::Unrecoverable { .. })), "{refused:?}");
    other.open(&journal, OpenOptions::WRITE).unwrap().write_all_at(b"baridMBJ", 0).unwrap();
    assert_eq!(place().look(&other).unwrap(), JournalSearch::Other);
    assert!(!recover(&other, &place(), None, None).unwrap().completed);
    assert_eq!(contents(&other), contents(&disk));
}

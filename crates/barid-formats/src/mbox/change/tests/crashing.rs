//! //! Power failures at every point: the file has the old or the new content, followed by the mail
//! that other programs delivered meanwhile.

use std::path::Path;
use std::sync::Arc;

use barid_vfs::{CrashVfs, MemVfs, OpenOptions, Vfs};

use super::support::{
    BOX, Case, SHAPES, Shape, case, check_clean, content, deliver, put, recover_on, with_foreign,
};

/// /// Event between the crash and the recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    Delivery,
}

/// Returns the possible contents of the file after the recovery: without and with the change.
fn outcomes(case: &Case, meanwhile: Meanwhile) -> [Vec<u8>; 2] {
    let new = case.new_content();
    match meanwhile {
        Meanwhile::Nothing => [case.old.clone(), new],
        // // If no change was begun, the mail remains where it was delivered.
        Meanwhile::Delivery => {
            [[&case.old[..], super::support::FOREIGN].concat(), with_foreign(&new)]
        }
    }
}

/// /// Removes the NULs that a crash before the beginning of the change left after the old end.
fn without_nuls(content: &[u8], old: &[u8]) -> Vec<u8> {
    match content.get(old.len()..) {
        Some(rest) if content.starts_with(old) => {
            let nuls = rest.iter().take_while(|byte| **byte == 0).count();
            [old, &rest[nuls..]].concat()
        }
        _ => content.to_vec(),
    }
}

/// /// Recovers `disk`, also after a crash of the recovery; returns `true` if the change was made.
fn verify(case: &Case, disk: &MemVfs, meanwhile: Meanwhile, depth: u32, at: &str) -> bool {
    if meanwhile == Meanwhile::Delivery && depth == 0 {
        deliver(disk);
    }
    let world = CrashVfs::new(disk);
    let recovered = recover_on(case, Arc::new(world.vfs()))
        .unwrap_or_else(|error| panic!("{at}: {error} {case:?}"));
    assert_eq!(recovered.quarantined, None, "{at} {case:?}");
    let [old, new] = outcomes(case, meanwhile);
    let found = without_nuls(&content(&world.vfs()), &case.old);
    assert!(found == new || found == old, "{at} {recovered:?} {case:?}");
    if recovered.completed {
        assert!(found == new, "{at} {recovered:?} {case:?}");
    }
    check_clean(&world.vfs());
    if depth < 2 && world.points() > 0 {
        let mut random = fastrand::Rng::with_seed(world.points() as u64 + u64::from(depth));
        for _ in 0..2 {
            let (point, seed) = (random.usize(0..=world.points()), random.u64(0..40));
            let at = format!("{at}, then {point}/{seed}");
            let again = verify(case, &world.crash_at(point, seed), meanwhile, depth + 1, &at);
            assert!(again == (found == new), "{at}: it stays what it has become");
        }
    }
    found == new
}

/// /// Crashes a case at every point; returns the number of crashes, and the number of those after
/// which the change was made.
fn check(case: &Case, meanwhile: Meanwhile, seeds: std::ops::Range<u64>) -> (usize, usize) {
    let disk = case.disk();
    let world = CrashVfs::new(&disk);
    case.run(Arc::new(world.vfs())).unwrap();
    let (mut count, mut done) = (0, 0);
    for point in 0..=world.points() {
        for seed in seeds.clone() {
            let at = format!("{meanwhile:?}, crash {point}/{seed} of {}", world.points());
            let left = world.crash_at(point, seed);
            let is_done = verify(case, &left, meanwhile, 0, &at);
            assert!(is_done || point < world.points() || case.old == case.new_content(), "{at}");
            count += 1;
            done += usize::from(is_done);
        }
    }
    (count, done)
}

#[test]
fn a_crash_leaves_the_old_file_or_the_new_one() {
    let (mut count, mut done) = (0, 0);
    for shape in SHAPES {
        for seed in 0..2 {
            let case = case(1000 + seed, shape);
            let (more, more_done) = check(&case, Meanwhile::Nothing, 0..6);
            (count, done) = (count + more, done + more_done);
        }
    }
    assert!(count > 1500 && done > count / 4 && done < count, "{done} of {count}");
}

#[test]
fn mail_that_others_deliver_before_the_recovery_is_kept() {
    let (mut count, mut done) = (0, 0);
    for shape in SHAPES {
        for seed in 0..2 {
            let case = case(2000 + seed, shape);
            let (more, more_done) = check(&case, Meanwhile::Delivery, 0..6);
            (count, done) = (count + more, done + more_done);
        }
    }
    assert!(count > 1500 && done > count / 4 && done < count, "{done} of {count}");
}

#[test]
fn a_file_that_another_program_rewrote_is_not_touched() {
    let mut quarantined = 0;
    for shape in [Shape::Grows, Shape::Shrinks, Shape::InPlace, Shape::Any] {
        for seed in 0..4 {
            let case = case(3000 + seed, shape);
            let world = CrashVfs::new(&case.disk());
            case.run(Arc::new(world.vfs())).unwrap();
            for point in 0..=world.points() {
                let disk = world.crash_at(point, point as u64 % 9);
                let rewritten = super::support::text(&mut fastrand::Rng::with_seed(9), 30_000);
                put(&disk, &rewritten);
                let recovered = recover_on(&case, Arc::new(disk.clone())).unwrap();
                if recovered.completed {
                    // // The change was committed: the file is complete.
                    assert_eq!(recovered.quarantined, None);
                }
                quarantined += u32::from(recovered.quarantined.is_some());
                assert!(content(&disk) == rewritten, "crash {point}: {recovered:?} {case:?}");
                check_clean(&disk);
                if let Some(path) = recovered.quarantined {
                    assert!(disk.metadata(&path).is_ok());
                }
            }
        }
    }
    assert!(quarantined > 100, "{quarantined}");
}

#[test]
fn a_flag_that_another_program_changed_meanwhile_is_not_overwritten() {
    use super::support::Call::{Insert, Skip, Stay};
    let old = super::support::text(&mut fastrand::Rng::with_seed(5), 3000);
    let calls = vec![
        Stay(1000),
        Skip(1),
        Insert(b"R".to_vec()),
        Stay(999),
        Skip(1),
        Insert(b"O".to_vec()),
        Stay(999),
    ];
    let case = Case { old, calls, ..case(1, Shape::InPlace) };
    let case = Case { pending_through: None, options: super::support::small(), ..case };
    let world = CrashVfs::new(&case.disk());
    case.run(Arc::new(world.vfs())).unwrap();
    let mut quarantined = 0;
    for point in 0..=world.points() {
        for (seed, place) in [(0, 1000), (1, 1001), (1, 2010), (2, 950)] {
            let disk = world.crash_at(point, seed);
            let file = disk.open(Path::new(BOX), OpenOptions::WRITE).unwrap();
            file.write_all_at(b"#", place).unwrap();
            let before = content(&disk);
            let recovered = recover_on(&case, Arc::new(disk.clone())).unwrap();
            assert!(content(&disk) == before, "{point} {place} {recovered:?}");
            quarantined += u32::from(recovered.quarantined.is_some());
        }
    }
    assert!(quarantined > 3, "{quarantined}");
}

#[test]
fn without_barriers_something_is_lost() {
    // With a disk that ignores fsync, these tests must fail.
    let noticed = SHAPES.into_iter().any(|shape| {
        (0..3).any(|seed| {
            let case = case(1000 + seed, shape);
            let world = CrashVfs::lying(&case.disk());
            case.run(Arc::new(world.vfs())).unwrap();
            (0..=world.points()).any(|point| {
                (5..9).any(|seed| {
                    let disk = world.crash_at(point, seed);
                    let recovered = recover_on(&case, Arc::new(disk.clone()));
                    let found = content(&disk);
                    let is_whole = found == case.old || found == case.new_content();
                    recovered.is_err() || !is_whole
                })
            })
        })
    });
    assert!(noticed);
}

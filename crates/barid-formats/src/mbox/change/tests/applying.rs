//! The written file is the drafted one, at the estimated cost.

use std::path::Path;
use std::sync::Arc;

use barid_vfs::{CallKind, CountingVfs, Vfs};

use super::support::{BOX, Call, Case, SHAPES, Shape, case, check_clean, content, small};
use crate::mbox::WritingOptions;

/// Runs a case and compares the results; returns the number of barriers.
fn check(case: &Case) -> u64 {
    let disk = case.disk();
    let before = disk.metadata(Path::new(BOX)).unwrap();
    let counted = case.count(Arc::new(disk.clone()));
    assert_eq!(content(&disk), case.old, "a dry run writes nothing");
    check_clean(&disk);
    let counting = CountingVfs::new(disk.clone());
    let figures = case.run(Arc::new(counting.clone())).unwrap();
    assert!(content(&disk) == case.new_content(), "{case:?}");
    check_clean(&disk);
    let counts = counting.counts();
    let barriers = counts.of(CallKind::Sync);
    assert_eq!(figures.barriers, barriers, "{case:?}");
    if figures.barriers > 1 && counted.barriers > 1 {
        assert_eq!(counted.barriers, barriers, "as was said before: {case:?}");
    }
    assert_eq!(figures.size_before, case.old.len() as u64);
    assert_eq!(figures.size_after, case.new_content().len() as u64);
    let after = disk.metadata(Path::new(BOX)).unwrap();
    if figures.barriers > 0 {
        assert_ne!(before.modified.unix_seconds(), after.modified.unix_seconds());
        assert!(after.accessed >= after.modified);
    }
    barriers
}

#[test]
fn what_is_drafted_comes_to_be() {
    for shape in SHAPES {
        for seed in 0..150 {
            check(&case(seed, shape));
        }
    }
}

fn in_place(at: u64, bytes: &[u8], size: usize) -> Case {
    let len = bytes.len() as u64;
    let calls = vec![
        Call::Stay(at),
        Call::Skip(len),
        Call::Insert(bytes.to_vec()),
        Call::Stay(size as u64 - at - len),
    ];
    let old = vec![b'x'; size];
    Case { old, calls, options: WritingOptions::default(), pending_through: None }
}

#[test]
fn little_costs_little() {
    // A write within one sector cannot be torn.
    assert_eq!(check(&in_place(1000, b"abc", 4000)), 1);
    assert_eq!(check(&in_place(1022, b"ab", 4000)), 1);
    assert_eq!(check(&in_place(1022, b"abc", 4000)), 5);
    let pending = Case { pending_through: Some(1), ..in_place(1000, b"abc", 4000) };
    assert_eq!(check(&pending), 5);
    // A draft that changes nothing.
    let nothing = Case { calls: vec![Call::Stay(10)], ..in_place(0, b"", 10) };
    assert_eq!(check(&nothing), 0);
}

#[test]
fn every_kind_of_step_is_taken() {
    // 40 KB before which 2 KB are inserted.
    let old: Vec<u8> = super::support::text(&mut fastrand::Rng::with_seed(1), 40_000);
    let new = super::support::text(&mut fastrand::Rng::with_seed(2), 2_000);
    let calls = vec![Call::Insert(new), Call::Copy(40_000)];
    let grown = Case { old, calls, options: small(), pending_through: None };
    let barriers = check(&grown);
    assert!((24..40).contains(&barriers), "{barriers}");
    let calls = vec![Call::Skip(2_000), Call::Copy(38_000)];
    let cut = Case { calls, ..grown.clone() };
    assert!((24..40).contains(&check(&cut)));
    // A small shift takes windows.
    let calls = vec![Call::Insert(b"abc".to_vec()), Call::Copy(40_000)];
    let windows = Case { calls, ..grown };
    assert!((50..90).contains(&check(&windows)));
}

#[test]
fn a_folder_that_cannot_be_written_has_its_journal_in_the_state_folder() {
    for shape in SHAPES.into_iter().filter(|shape| *shape != Shape::Collapses) {
        for seed in 0..20 {
            let case = case(seed, shape);
            let disk = case.disk();
            disk.set_mode(Path::new("/mail"), 0o555).unwrap();
            case.run(Arc::new(disk.clone())).unwrap();
            assert!(content(&disk) == case.new_content());
            check_clean(&disk);
            // Without attributes the journal would not be found.
            let disk = case.disk();
            disk.set_mode(Path::new("/mail"), 0o555).unwrap();
            disk.set_xattrs(false);
            let (figures, error) = match case.run(Arc::new(disk.clone())) {
                Ok(figures) => (Some(figures), None),
                Err(error) => (None, Some(error)),
            };
            assert!(figures.is_some_and(|figures| figures.barriers <= 1) != error.is_some());
            if let Some(error) = error {
                assert!(matches!(error, barid_mailbox::Error::Io { .. }), "{error}");
                assert!(content(&disk) == case.old);
            }
            check_clean(&disk);
        }
    }
}

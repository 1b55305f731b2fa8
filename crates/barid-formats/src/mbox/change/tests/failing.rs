//! Failing calls: the change is not made, or is completed by the next recovery.

use std::io::ErrorKind::{PermissionDenied, StorageFull};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use barid_mailbox::{EmptyKnown, Error};
use barid_vfs::{CallKind, CrashVfs, Fault, FaultEffect, FaultVfs};

use super::support::{Case, SHAPES, Shape, case, check_clean, content, recover_on};
use crate::mbox::lock::{MboxLockPurpose, MboxWriteLocks};

/// Runs the case once for each call, which fails.
fn check(case: &Case, fault: impl Fn(u64) -> Fault) -> u32 {
    let mut unfinished = 0;
    for n in 0.. {
        let disk = case.disk();
        let faulty = FaultVfs::new(disk.clone(), fault(n));
        let result = case.run(Arc::new(faulty.clone()));
        if !faulty.fired() {
            result.unwrap();
            break;
        }
        let found = content(&disk);
        match result {
            Ok(_) => assert!(found == case.new_content(), "call {n}"),
            Err(Error::Unfinished { .. }) => unfinished += 1,
            Err(ref error) => {
                // A change within a sector may be written although a later call failed.
                let is_sector = case.count(Arc::new(case.disk())).barriers == 1;
                let is_new = is_sector && found == case.new_content();
                assert!(found == case.old || is_new, "call {n}: {error} {case:?}");
            }
        }
        let recovered = recover_on(case, Arc::new(disk.clone())).unwrap();
        assert_eq!(recovered.quarantined, None, "call {n} {case:?}");
        let found = content(&disk);
        if matches!(result, Ok(_) | Err(Error::Unfinished { .. })) {
            assert!(found == case.new_content(), "call {n}: {result:?} {case:?}");
        }
        assert!(found == case.new_content() || found == case.old, "call {n}: {result:?} {case:?}");
        check_clean(&disk);
    }
    unfinished
}

#[test]
fn an_error_at_any_call_is_unfinished_or_nothing() {
    let mut unfinished = 0;
    for shape in SHAPES {
        for seed in 0..4 {
            let case = case(4000 + seed, shape);
            for effect in [StorageFull, PermissionDenied].map(FaultEffect::Error) {
                unfinished += check(&case, |n| Fault::nth(n).with(effect));
            }
            check(&case, |n| Fault::nth(n).with(FaultEffect::Short));
        }
    }
    assert!(unfinished > 500, "{unfinished}");
}

#[test]
fn what_a_failed_barrier_left_in_memory_only_is_written_again() {
    let mut count = 0;
    for shape in SHAPES {
        for seed in 0..4 {
            let case = case(5000 + seed, shape);
            let kind = CallKind::Sync;
            {
                for n in 0.. {
                    let disk = case.disk();
                    let world = CrashVfs::new(&disk);
                    let fault = Fault::nth(n).of(kind);
                    let faulty = FaultVfs::new(world.vfs(), fault);
                    let result = case.run(Arc::new(faulty.clone()));
                    if !faulty.fired() {
                        break;
                    }
                    let Err(Error::Unfinished { .. }) = result else { continue };
                    recover_on(&case, Arc::new(world.vfs())).unwrap();
                    for seed in 0..8 {
                        let left = world.crash_at(world.points(), seed);
                        recover_on(&case, Arc::new(left.clone())).unwrap();
                        assert!(content(&left) == case.new_content(), "{kind:?} {n} {case:?}");
                        count += 1;
                    }
                }
            }
        }
    }
    assert!(count > 500, "{count}");
}

#[test]
fn a_stop_ends_it_after_a_step_and_recovery_goes_on() {
    for seed in 0..20 {
        let case = case(6000 + seed, Shape::Grows);
        let disk = case.disk();
        let stop = AtomicBool::new(true);
        let known = EmptyKnown::default();
        let mut context = case.context(&known);
        context.stop = Some(&stop);
        let mailbox = case.mailbox(Arc::new(disk.clone()));
        let locks = MboxWriteLocks::acquire(&mailbox, MboxLockPurpose::Change).unwrap();
        let result = case.run_with(&mailbox, Some(&locks), &mut context);
        assert!(matches!(result, Err(Error::Unfinished { .. })), "{result:?}");
        drop(locks);
        assert!(recover_on(&case, Arc::new(disk.clone())).unwrap().completed);
        assert!(content(&disk) == case.new_content());
        check_clean(&disk);
    }
}

#[test]
fn a_disk_without_space_is_told_before_anything_is_written() {
    for seed in 0..10 {
        let case = case(7000 + seed, Shape::Grows);
        let disk = case.disk();
        disk.set_free_space(Some(5000));
        let result = case.run(Arc::new(disk.clone()));
        assert!(matches!(result, Err(Error::NoSpace { free: ..=5000, .. })), "{result:?}");
        assert!(content(&disk) == case.old);
        check_clean(&disk);
    }
}

#[test]
fn pending_changes_are_dropped_when_the_change_is_durable_and_not_before() {
    for seed in 0..10 {
        let case = Case { pending_through: Some(42), ..case(8000 + seed, Shape::Any) };
        let world = CrashVfs::new(&case.disk());
        let mailbox = case.mailbox(Arc::new(world.vfs()));
        let locks = MboxWriteLocks::acquire(&mailbox, MboxLockPurpose::Change).unwrap();
        let known = EmptyKnown::default();
        let mut dropped = Vec::new();
        let mut drop_pending = |through| {
            let left = world.crash_at(world.points(), 0);
            recover_on(&case, Arc::new(left.clone())).unwrap();
            assert!(content(&left) == case.new_content());
            dropped.push(through);
            match dropped.len() {
                1 => Err(Error::Unsupported { path: "/x".into(), what: "not now" }),
                _ => Ok(()),
            }
        };
        let mut context = case.context(&known);
        context.drop_pending = Some(&mut drop_pending);
        let result = case.run_with(&mailbox, Some(&locks), &mut context);
        if case.old == case.new_content() {
            continue;
        }
        assert!(matches!(result, Err(Error::Unfinished { .. })), "{result:?}");
        let outcome = crate::mbox::change::recover::recover(&mailbox, &locks, &mut context);
        assert_eq!(outcome.unwrap().recovered.pending_through, Some(42));
        assert_eq!(dropped, [42, 42]);
    }
}

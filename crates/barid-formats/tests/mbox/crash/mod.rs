//! The crash world of the mbox writer: random changes of random mailboxes, interrupted at every
//! moment, with and without another program at work before the recovery, which is interrupted, too.
//!
//! The environment variable `BARID_CRASH_POINTS` sets the number of crash points; the default is
//! 2,000.

mod faults;
mod file;
mod mailbox;
mod scenario;
mod subject;
mod verdict;
mod world;

use barid_vfs::{CallKind, Fault, FaultEffect};

use self::faults::{FaultTally, FaultTrial};
use self::mailbox::{DIR, JOURNAL, PATH};
use self::scenario::{Scenario, Size};
use self::subject::{Barid, Naive, Subject};
use self::world::{Depth, STRATEGIES, Sabotage, Trial, visit};

/// Crash points without the environment variable.
const POINTS: u64 = 2_000;

const DEPTH: Depth = Depth { seeds: 4, points_max: 400, foreign_of: 3, again_of: 4, next_of: 48 };

fn points() -> u64 {
    let given = std::env::var("BARID_CRASH_POINTS").ok();
    given.map_or(POINTS, |number| number.parse().expect("because it is a number"))
}

/// Returns `true` if the loss that a sabotage causes is detected in one of some scenarios.
fn is_noticed(subject: &dyn Subject, scenarios: u64, sabotage: &Sabotage) -> bool {
    let depth = Depth { seeds: 8, points_max: 200, foreign_of: 0, again_of: 0, next_of: 0 };
    (0..scenarios).any(|seed| {
        let scenario = Scenario::new(seed, Size::Small);
        Trial::new(subject, &scenario, depth).sabotaged(sabotage.clone()).run().is_err()
    })
}

fn sabotages() -> Vec<(&'static str, Sabotage)> {
    let skip = |fault: Fault| Sabotage::Skipped(fault.of(CallKind::Sync).with(FaultEffect::Skip));
    let all = || Fault::nth(0).forever();
    vec![
        ("a disk that lies", Sabotage::LyingDisk),
        ("no fsync of the mailbox", skip(all().at(PATH))),
        ("no fsync of the journal", skip(all().at(JOURNAL))),
        ("no fsync of the directory", skip(all().at(DIR))),
        ("the journal's first fsync failed", skip(Fault::nth(0).at(JOURNAL))),
    ]
}

#[test]
fn a_crash_of_a_simple_writer_is_survived_and_every_sabotage_noticed() {
    let depth = Depth { foreign_of: 0, next_of: 0, ..DEPTH };
    let scenarios = 20;
    for seed in 0..scenarios {
        let mut scenario = Scenario::new(seed, Size::Small);
        // The naive writer has no other path for its journal.
        if scenario.folder_is_closed {
            continue;
        }
        scenario.appends.clear();
        scenario.pending_through = None;
        let mut trial = Trial::new(&Naive, &scenario, depth);
        let result = trial.run();
        assert!(result.is_ok(), "{}: {result:?}", scenario.name());
    }
    for (name, sabotage) in sabotages() {
        assert!(is_noticed(&Naive, scenarios, &sabotage), "{name}");
    }
}

#[test]
fn a_crash_at_any_moment_loses_nothing() {
    let points = points();
    let mut tally = visit(&Barid, Size::Small, DEPTH, 0, points * 4 / 5);
    let large = Depth { points_max: 60, ..DEPTH };
    tally.add(&visit(&Barid, Size::Large, large, 1 << 20, points / 5));
    let huge = Depth { points_max: 40, seeds: 2, ..DEPTH };
    tally.add(&visit(&Barid, Size::Huge, huge, 2 << 20, points / 25));
    println!("mbox crash points visited: {}", tally.points);
    println!("crash world: {tally:#?}");
    for strategy in STRATEGIES {
        assert!(tally.strategies.contains_key(strategy), "never seen: {strategy}");
    }
    assert!(tally.points >= points && tally.completed > 0);
    assert!(tally.quarantined > 0 && tally.crashed_recoveries > 0 && tally.delivered > 0);
    assert!(tally.stranded > 0);
}

#[test]
fn a_crash_is_survived_only_because_of_every_barrier() {
    for (name, sabotage) in sabotages() {
        assert!(is_noticed(&Barid, 60, &sabotage), "{name}");
    }
    // Any one barrier of the mailbox between two steps.
    let skip = |n| Fault::nth(n).of(CallKind::Sync).at(PATH).with(FaultEffect::Skip);
    let noticed = (0..8).filter(|n| is_noticed(&Barid, 60, &Sabotage::Skipped(skip(*n))));
    assert!(noticed.count() >= 3, "barriers between steps are not needed?");
}

#[test]
fn a_failing_call_leaves_a_mailbox_that_can_be_used() {
    let scenarios = points() / 100;
    let mut total = FaultTally::default();
    for seed in 0..scenarios {
        let scenario = Scenario::new(seed, Size::Small);
        if scenario.delivered.is_some() {
            continue;
        }
        let mut trial = FaultTrial::new(&Barid, &scenario);
        let result = trial.calls(seed % 3, 3);
        let result = result
            .and_then(|()| (0..6).try_for_each(|number| trial.full_disk(number * number * 4096)));
        assert_eq!(result, Ok(()), "{}", scenario.name());
        total.add(trial.tally);
    }
    println!("faults: {total:?}");
    assert!(total.unfinished > 0 && total.refused > 0 && total.no_space > 0, "{total:?}");
}

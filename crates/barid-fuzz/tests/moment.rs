//! Every target for a moment, on its first inputs and on those that failed once.

use std::path::Path;

use barid_fuzz::{Extent, TARGETS, hunt, replay, save};

/// Runs every fourth target from `start` on, so that the test runner can use its threads.
fn run(start: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    for target in TARGETS.iter().skip(start).step_by(4) {
        let regressions = folder.join("regressions").join(target.name);
        let (repeated, failed) = replay(target, &regressions).unwrap();
        assert_eq!(failed, Vec::<std::path::PathBuf>::new(), "{}", target.name);
        let tally = match hunt(target, 0, Extent::Inputs(target.inputs), |_| {}) {
            Ok(tally) => tally,
            Err(failure) => {
                let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
                let saved = save(failure.target, failure.number, &failure.bytes, folder).unwrap();
                panic!(
                    "{}: input {} ({}): {:?}\ncargo xtask fuzz {} --input {}",
                    failure.target,
                    failure.number,
                    saved.display(),
                    failure.breach,
                    failure.target,
                    saved.display(),
                );
            }
        };
        assert_eq!(tally.inputs, target.inputs);
        let (inputs, slowest) = (tally.inputs, tally.slowest_time);
        println!("{}: {inputs} inputs, {repeated} repeated, slowest {slowest:?}", target.name);
    }
}

#[test]
fn first_quarter() {
    run(0);
}

#[test]
fn second_quarter() {
    run(1);
}

#[test]
fn third_quarter() {
    run(2);
}

#[test]
fn fourth_quarter() {
    run(3);
}

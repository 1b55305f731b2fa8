//! Damage of every kind: found at its place, repaired so that every whole message is there, undone
//! byte for byte, also when the power fails.

mod corpora;
mod crash;
mod maildir;
mod mbox;
mod mbx;
mod mh;
mod mix;
mod world;

use self::world::{Case, run};

/// All kinds of damage.
fn cases() -> Vec<Case> {
    [mbx::cases(), mix::cases(), mbox::cases(), maildir::cases(), mh::cases()].concat()
}

#[test]
fn every_damage_is_found_repaired_and_undone() {
    let cases = cases();
    assert!(cases.len() >= 50, "{} kinds of damage", cases.len());
    let mut failed = Vec::new();
    for case in &cases {
        for seed in 0..8 {
            if let Err(what) = run(case, seed) {
                failed.push(format!("{} {}, seed {seed}: {what}", case.format, case.name));
                break;
            }
        }
    }
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

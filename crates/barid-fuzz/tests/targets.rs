//! The table of targets, and the programs for libFuzzer that are made of it.

use std::collections::BTreeSet;

use barid_fuzz::{TARGETS, target_named};

#[test]
fn names_are_different_and_seeds_exist() {
    let names: BTreeSet<_> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names.len(), TARGETS.len());
    for target in TARGETS {
        assert!(target_named(target.name).is_some());
        assert!(!(target.seeds)().is_empty(), "{} has no seeds", target.name);
    }
}

#[test]
fn every_target_is_a_program_for_libfuzzer() {
    let manifest = include_str!("../../../fuzz/Cargo.toml");
    let (_, programs) = manifest.split_once("\n\n[[bin]]\n").unwrap();
    let expected = TARGETS.iter().map(|target| {
        let name = target.name;
        format!("[[bin]]\nname = \"{name}\"\npath = \"fuzz_targets/target.rs\"\ntest = false\nbench = false\ndoc = false\n")
    });
    let expected: Vec<_> = expected.collect();
    let expected = expected.join("\n");
    let found = format!("[[bin]]\n{programs}");
    assert!(found == expected, "the end of fuzz/Cargo.toml should be:\n\n{expected}");
}

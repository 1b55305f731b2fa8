//! Jobs that tests run in child processes.

use barid_testkit::child::{self, Job};

const JOBS: &[(&str, Job)] = &[
    ("train", crate::processes::child_trains),
    ("read", crate::processes::child_reads),
    ("count", crate::processes::child_counts),
    ("sqlite", crate::sqlite::child_trains),
];

#[test]
fn entry() {
    child::run(JOBS);
}

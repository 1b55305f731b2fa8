//! Jobs of child processes for tests.

use barid_testkit::child::{self, Job};

const JOBS: &[(&str, Job)] = &[
    ("write", crate::processes::child_writes),
    ("count", crate::processes::child_counts),
    ("read", crate::processes::child_reads),
    ("damage", crate::crash::damage::child),
    ("die", crate::crash::killed::child),
    ("fill", crate::crash::full::child),
    ("look", crate::places::child_looks),
];

#[test]
fn entry() {
    child::run(JOBS);
}

//! Jobs that tests run in processes of their own.

use barid_testkit::child::{self, Job};

const JOBS: &[(&str, Job)] = &[
    ("change", crate::killed::victim),
    ("rewrite", crate::mbox::rounds_killed::victim),
    ("lock", crate::mbox::locks::locker),
];

#[test]
fn entry() {
    child::run(JOBS);
}

//! Jobs of child processes for tests.

use barid_testkit::child::{self, Job};

const JOBS: &[(&str, Job)] = &[
    ("change an MH folder", crate::mh_killed::victim),
    ("open an mbox", crate::scan_memory::open),
];

#[test]
fn entry() {
    child::run(JOBS);
}

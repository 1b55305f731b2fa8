//! Jobs of child processes for tests.

use barid_testkit::child::{self, Job};

const JOBS: &[(&str, Job)] = &[("change an MH folder", crate::mh_killed::victim)];

#[test]
fn entry() {
    child::run(JOBS);
}

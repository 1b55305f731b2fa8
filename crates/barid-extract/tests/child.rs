//! Jobs of child processes for tests.

use barid_testkit::child::{self, Job};

const JOBS: &[(&str, Job)] = &[
    ("confined", crate::confined::try_everything),
    ("confined to a program", crate::confined::try_program),
    ("allocates", crate::confined::allocate),
];

#[test]
fn entry() {
    child::run(JOBS);
}

//! One of the targets of `barid-fuzz`, as a program for libFuzzer: the one that it is named after.
#![no_main]

use std::sync::OnceLock;

use barid_fuzz::{Target, target_named};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    static TARGET: OnceLock<&Target> = OnceLock::new();
    let named = || target_named(env!("CARGO_BIN_NAME")).expect("because a test compares the names");
    (TARGET.get_or_init(named).run)(bytes);
});

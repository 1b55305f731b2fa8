//! Tests of the benches with programs that stand in for the real ones, and of the program with the
//! real ones.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod formats;
mod hcache;
mod help;
mod imap;
mod open;
mod program;
mod report;
mod search;
mod spam;
mod support;

#[test]
fn no_file_is_forgotten() {
    let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let runner = include_str!("runner.rs");
    for path in barid_testkit::disk::list(&tests).expect("because it is a folder") {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        assert!(!is_rust || name == "runner" || runner.contains(&format!("mod {name};")), "{name}");
    }
}

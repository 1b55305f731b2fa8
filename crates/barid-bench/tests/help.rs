//! The help of the program, as golden files.

use std::path::Path;

use barid_testkit::disk;

use crate::support::World;

#[test]
fn every_bench_explains_itself() {
    let world = World::new();
    for bench in ["", "open", "hcache", "mbox", "formats", "spam", "imap", "search", "report"] {
        let args = |last| [&[bench][..], &[last]].concat();
        let args = |last| args(last).into_iter().filter(|arg| !arg.is_empty()).collect::<Vec<_>>();
        let help = world.ok(&args("--help"));
        let name = format!("barid-bench-{bench}.txt").replace("-.", ".");
        check_golden(&name, &help);
        let short = world.ok(&args("-h"));
        assert!(short.len() < help.len() && short.contains("Usage: barid-bench"), "{name}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{name}");
        assert!(help.contains("\nExamples:\n  barid-bench "), "{name}");
    }
}

/// Compares a text with the file `tests/help/<name>`, or writes it there with `UPDATE_GOLDEN=1`.
fn check_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        disk::write(&path, text.as_bytes()).unwrap();
    }
    let expected = disk::read_text(&path).unwrap_or_default();
    assert!(text == expected, "{name} differs (UPDATE_GOLDEN=1 writes it anew):\n{text}");
}

//! `spam::run` from its options to its files, with bogofilter itself in barid's place.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use barid_bench::Launcher;
use barid_bench::spam::{Options, Side, Step, run};
use barid_testkit::peers::Bogofilter;
use barid_testkit::{Scratch, disk};

use crate::support::{Listener, check_parts, program, text};

fn options(out: &Path) -> Options {
    Options {
        program: program("barid-spam"),
        launcher: Launcher::new(program("barid-spam")),
        spam: 6,
        ham: 8,
        singles: 3,
        tokens: 5_000,
        spam_mail: None,
        ham_mail: None,
        times: 2,
        // The step that needs the right to drop the kernel's caches is left out.
        steps: Step::ALL.into_iter().filter(|step| *step != Step::ClassifyCold).collect(),
        peers: vec![Side::Bdb],
        out: Some(out.to_owned()),
    }
}

#[test]
fn every_filter_is_measured_and_written_down() {
    if Bogofilter::new().is_none() {
        return;
    }
    let scratch = Scratch::new("bench").unwrap();
    let folder = scratch.path().join("out");
    let mut listener = Listener::default();
    let report = run(&options(&folder), &mut listener, &AtomicBool::new(false)).unwrap();
    assert!(!report.interrupted);
    listener.check(&[
        " 0 - register spam and ham     - barid bogofilter",
        " 1 - classify, large list      - barid spam",
        " 2 - dump                      - bogofilter-bdb",
    ]);
    let count = |side| report.results.runs.iter().filter(|run| run.side == side).count();
    assert_eq!((count(Side::DropIn), count(Side::Bdb)), (3 * 6, 3 * 6));
    assert_eq!((count(Side::Spam), count(Side::Daemon)), (3 * 5, 3));
    assert!(report.results.runs.iter().all(|run| run.figures.index_bytes > 0));
    assert_eq!(text(&folder, "raw.csv").lines().count(), 1 + report.results.runs.len());
    let parts = [
        "- Spam: 6 messages, ",
        "- Lists: small 10, cold and dumped 500, large 5,000 tokens",
        "| size of the list |",
        "barid bogofilter -C -d DIR/drop-in/own -M -s < DIR/spam.mbox && ",
    ];
    check_parts(&text(&folder, "summary.md"), &parts);
    assert!(!disk::exists(&folder.join("work")));
    assert_eq!(report.json_lines.len(), 6 + 6 + 5 + 1);
}

#[test]
fn a_filter_with_other_scores_is_found_out() {
    if Bogofilter::new().is_none() {
        return;
    }
    let scratch = Scratch::new("bench").unwrap();
    let out = scratch.path().join("lies");
    let options = Options { steps: vec![Step::ClassifyEach], ..options(&out) };
    let error = run(&options, &mut Listener::default(), &AtomicBool::new(false)).unwrap_err();
    let parts = ["bogofilter-bdb at classify, a process each", "instead of 0.123"];
    check_parts(&format!("{error:#}"), &parts);
}

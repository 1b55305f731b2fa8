//! `formats::run` from its options to its files.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use barid_bench::Launcher;
use barid_bench::formats::{Options, Program, Store, Turn, Work, run};
use barid_testkit::Scratch;

use crate::support::{Listener, check_parts, check_refused, program, text};

fn options(out: &Path) -> Options {
    Options {
        program: program("barid-formats"),
        launcher: Launcher::new(program("barid-formats")),
        messages: 12,
        times: 2,
        stores: Store::OWN.into(),
        works: Work::ALL.into(),
        peers: Vec::new(),
        drop_caches: false,
        out: Some(out.to_owned()),
    }
}

#[test]
fn every_format_is_measured_and_written_down() {
    let scratch = Scratch::new("bench").unwrap();
    let folder = scratch.path().join("out");
    let mut listener = Listener::default();
    let report = run(&options(&folder), &mut listener, &AtomicBool::new(false)).unwrap();
    assert!(!report.interrupted);
    assert_eq!(listener.lines[0], format!("Running in {}", folder.display()));
    assert!(listener.lines[1].starts_with("12 messages, "), "{:?}", listener.lines[1]);
    listener.check(&[
        " 0 - select                              - barid mbox",
        " 0 - select, again                       - barid maildir",
        " 1 - fetch 1:* (full body.peek[])        - barid mbx",
        " 2 - search body, again                  - barid mh",
        " 2 - convert from mbox                   - barid mix",
    ]);
    // Five works in both turns with five formats, and three conversions.
    assert_eq!(report.results.runs.len(), 3 * (5 * 2 * 5 + 3));
    let again = report.results.runs.iter().filter(|run| run.step.turn == Turn::Again);
    assert!(
        again.clone().all(|run| run.side.program == Program::Barid && run.figures.real_s > 0.0)
    );
    assert_eq!(again.count(), 3 * 5 * 5);
    assert_eq!(text(&folder, "raw.csv").lines().count(), 1 + report.results.runs.len());
    let summary = text(&folder, "summary.md");
    let parts = [
        "- Mail: 12 messages, ",
        "## The first time",
        "| barid mix |",
        "barid fetch --seq DIR/mbox/box 1:* FULL BODY.PEEK[]\n",
        "barid convert DIR/base.mbox mbx:DIR/mbx/converted --proof DIR/mbx/proof\n",
    ];
    check_parts(&summary, &parts);
    assert!(!summary.contains(&*scratch.path().to_string_lossy()), "{summary}");
    assert!(!folder.join("work").try_exists().unwrap());
    assert!(report.text.starts_with("*** bars\n"));
    let lines = report.json_lines;
    assert_eq!(lines.len(), 5 * 2 * 5 + 3);
    assert!(lines[0].starts_with("{\"v\":1,\"type\":\"bench_formats\",\"side\":\"barid mbox\""));
}

#[test]
fn a_wrong_answer_is_not_timed() {
    let scratch = Scratch::new("bench").unwrap();
    let options = options(&scratch.path().join("lies"));
    let error = run(&options, &mut Listener::default(), &AtomicBool::new(false)).unwrap_err();
    let parts = ["barid mbox at search body: ", "what was measured before is in"];
    check_parts(&format!("{error:#}"), &parts);
}

#[test]
fn told_to_stop_it_writes_what_there_is() {
    let scratch = Scratch::new("bench").unwrap();
    let stop = AtomicBool::new(false);
    let mut listener = Listener::stopping_at(" 1 - thread ", &stop);
    let folder = scratch.path().join("out");
    let report = run(&options(&folder), &mut listener, &stop).unwrap();
    assert!(report.interrupted);
    assert!(text(&folder, "summary.md").contains("Not complete"));
}

#[test]
fn wrong_options_are_told_at_once() {
    let check = |change, expected| check_refused(options, change, run, expected);
    check(|options| options.times = 0, "at least one run");
    check(|options| options.stores.clear(), "at least one format");
    check(|options| options.messages = 9, "at least 10 messages");
    check(|options| options.out = program("").parent().map(Path::to_owned), "not an empty folder");
}

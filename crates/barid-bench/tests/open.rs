//! `open::run` from its options to its files.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use barid_bench::Launcher;
use barid_bench::open::{Options, Part, Side, Step, run};
use barid_testkit::Scratch;

use crate::support::{Listener, check_parts, check_refused, program, text};

fn options(out: &Path) -> Options {
    Options {
        program: program("barid-open"),
        launcher: Launcher::new(program("barid-open")),
        parts: Part::ALL.into(),
        scale: 10_000,
        times: 2,
        peers: Vec::new(),
        rest: Duration::ZERO,
        out: Some(out.to_owned()),
    }
}

#[test]
fn every_step_is_measured_and_written_down() {
    let scratch = Scratch::new("bench").unwrap();
    let folder = scratch.path().join("out");
    let mut listener = Listener::default();
    let report = run(&options(&folder), &mut listener, &AtomicBool::new(false)).unwrap();
    assert!(!report.interrupted);
    assert_eq!(listener.lines[0], format!("Running in {}", folder.display()));
    assert!(listener.lines[1].starts_with("Maildir: 10 messages, "), "{:?}", listener.lines[1]);
    listener.check(&[
        "maildir: 10 messages for barid",
        " 0 - maildir populate          - barid",
        " 1 - limit: read every head    - machine",
        " 2 - mbox after one delivery   - barid",
        " 2 - maildir beside million    - barid",
    ]);
    // All steps but NeoMutt's own, of one side each.
    let steps = Step::ALL.len() - 1;
    assert_eq!(report.results.runs.len(), 3 * steps);
    let ours = report.results.runs.iter().filter(|run| run.side == Side::Barid);
    assert!(ours.clone().all(|run| run.figures.real_s > 0.0));
    assert_eq!(ours.count(), 3 * (steps - 2));
    assert_eq!(text(&folder, "raw.csv").lines().count(), 1 + report.results.runs.len());
    let summary = text(&folder, "summary.md");
    let parts = [
        "- mbox: 36 messages, ",
        "- Large Maildir: 100 messages, ",
        "| one message delivered, then open | 2 times mbox without change |",
        "| thread, first time | at most 0.5 s |",
        "barid ls --sort date --limit 50 DIR/box\n",
        "barid thread --imap DIR/box\n",
    ];
    check_parts(&summary, &parts);
    assert!(!summary.contains(&*scratch.path().to_string_lossy()), "{summary}");
    assert!(!folder.join("work").try_exists().unwrap());
    let lines = report.json_lines;
    assert_eq!(lines.len(), steps);
    let start = "{\"v\":1,\"type\":\"bench_open\",\"side\":\"barid\",\"step\":\"maildir populate\"";
    assert!(lines[0].starts_with(start), "{}", lines[0]);
}

#[test]
fn a_wrong_answer_is_not_timed() {
    let check = |name: &str, parts: &[Part], expected: &str| {
        let scratch = Scratch::new("bench").unwrap();
        let options = Options { parts: parts.to_vec(), ..options(&scratch.path().join(name)) };
        let error = run(&options, &mut Listener::default(), &AtomicBool::new(false)).unwrap_err();
        check_parts(&format!("{error:#}"), &[expected, "what was measured before is in"]);
    };
    check("lies", &[Part::Maildir], "barid: the maildir: 3 messages and not 10");
    check("late", &[Part::Mbox], "barid at mbox after one delivery: 36 messages after a delivery");
}

#[test]
fn told_to_stop_it_writes_what_there_is() {
    let scratch = Scratch::new("bench").unwrap();
    let stop = AtomicBool::new(false);
    let mut listener = Listener::stopping_at(" 1 - thread first", &stop);
    let folder = scratch.path().join("out");
    let report = run(&options(&folder), &mut listener, &stop).unwrap();
    assert!(report.interrupted);
    assert!(text(&folder, "summary.md").contains("Not complete"));
}

#[test]
fn wrong_options_are_told_at_once() {
    let check = |change, expected| check_refused(options, change, run, expected);
    check(|options| options.times = 0, "at least one run");
    check(|options| options.parts.clear(), "at least one part");
    check(|options| options.scale = 0, "the scale must be at least 1");
    check(|options| options.out = program("").parent().map(Path::to_owned), "not an empty folder");
}

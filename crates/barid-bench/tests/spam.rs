//! `spam::run` from its options to its files, with bogofilter itself in barid's place.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use barid_bench::Screen;
use barid_bench::spam::{Options, Side, Step, run};
use barid_testkit::peers::Bogofilter;
use barid_testkit::{Scratch, disk};

/// Keeps what is said.
#[derive(Default)]
struct Listener(Vec<String>);

impl Screen for Listener {
    fn line(&mut self, text: &str) -> io::Result<()> {
        self.0.push(text.to_owned());
        Ok(())
    }

    fn folder(&mut self, folder: &Path) -> io::Result<()> {
        self.line(&format!("Running in {}", folder.display()))
    }

    fn status(&mut self, _: &str) {}
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

fn options(out: &Path) -> Options {
    Options {
        program: program("barid-spam"),
        spam: 6,
        ham: 8,
        singles: 3,
        tokens: 5_000,
        spam_mail: None,
        ham_mail: None,
        times: 2,
        // What needs the right to drop the kernel's caches is left out.
        steps: Step::ALL.into_iter().filter(|step| *step != Step::ClassifyCold).collect(),
        peers: vec![Side::Bdb],
        out: Some(out.to_owned()),
    }
}

fn text(folder: &Path, name: &str) -> String {
    disk::read_text(&folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
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
    for line in [
        " 0 - register spam and ham     - barid bogofilter",
        " 1 - classify, large list      - barid spam",
        " 2 - dump                      - bogofilter-bdb",
    ] {
        assert!(listener.0.iter().any(|said| said == line), "{line} in {:#?}", listener.0);
    }
    let count = |side| report.results.runs.iter().filter(|run| run.side == side).count();
    assert_eq!((count(Side::DropIn), count(Side::Bdb)), (3 * 6, 3 * 6));
    assert_eq!((count(Side::Spam), count(Side::Daemon)), (3 * 5, 3));
    assert!(report.results.runs.iter().all(|run| run.figures.index_bytes > 0));
    assert_eq!(text(&folder, "raw.csv").lines().count(), 1 + report.results.runs.len());
    let summary = text(&folder, "summary.md");
    for part in [
        "- Spam: 6 messages, ",
        "- Lists: small 10, cold and dumped 500, large 5,000 tokens",
        "| size of the list |",
        "barid bogofilter -C -d DIR/drop-in/own -M -s < DIR/spam.mbox && ",
    ] {
        assert!(summary.contains(part), "{part} in {summary}");
    }
    assert!(!disk::exists(&folder.join("work")));
    let lines = report.json_lines().unwrap();
    assert_eq!(lines.len(), 6 + 6 + 5 + 1);
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
    let error = format!("{error:#}");
    assert!(error.contains("bogofilter-bdb at classify, a process each"), "{error}");
    assert!(error.contains("instead of 0.123"), "{error}");
}

//! `search::run` from its options to its files, and with the real programs.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use barid_bench::Launcher;
use barid_bench::search::{Options, Side, Step, run};
use barid_testkit::peers::program as installed;
use barid_testkit::{Scratch, disk, skip_or_fail};

use crate::support::{Listener, World, check_parts, check_refused, program, text};

fn options(out: &Path) -> Options {
    Options {
        program: program("barid-search"),
        launcher: Launcher::new(program("barid-search")),
        mail: None,
        messages: None,
        queries: 24,
        peer_queries: 1,
        times: 1,
        builds: 1,
        deliveries: 3,
        peers: Vec::new(),
        rest: Duration::ZERO,
        out: Some(out.to_owned()),
    }
}

/// Makes a folder with messages that leave no doubt, and one that does.
fn mail(scratch: &Scratch) -> PathBuf {
    let folder = scratch.path().join("messages");
    disk::create_dir_all(&folder).unwrap();
    for number in 0..5 {
        let text = format!(
            "From: Ann Lee <ann{number}@mail.example>\nSubject: considerable news from a@b.example \
             about ptr->next\nMessage-ID: <{number}@x>\n\nSome plain text, considerably long, of \
             number {number}\nsee sys/types.h and write to list@lists.example today\n"
        );
        disk::write(&folder.join(number.to_string()), text.as_bytes()).unwrap();
    }
    let doubtful = b"Subject: =?utf-8?q?x\nContent-Type: multipart/mixed; boundary=b\n\n--b--\n";
    disk::write(&folder.join("9"), doubtful).unwrap();
    folder
}

#[test]
fn every_step_is_measured_and_written_down() {
    let scratch = Scratch::new("bench").unwrap();
    let folder = scratch.path().join("out");
    let options = Options { mail: Some(mail(&scratch)), messages: Some(8), ..options(&folder) };
    let mut listener = Listener::default();
    let report = run(&options, &mut listener, &AtomicBool::new(false)).unwrap();
    assert!(!report.interrupted);
    assert!(listener.lines[1].starts_with("Maildir: 8 messages, "), "{:?}", listener.lines[1]);
    listener.check(&[
        " 1 - build                     - barid",
        " 0 - checking                  - no-index",
        " 1 - text address              - all",
        " 1 - index many deliveries     - barid",
        " 1 - search after delivery     - barid",
    ]);
    let results = &report.results;
    assert_eq!((results.messages, results.judged), (8, 7));
    // No text has a letter beyond ASCII.
    assert_eq!(results.queries.len(), 24 - 3);
    assert_eq!(results.asked.len(), 2 * results.queries.len());
    let ours = results.recalls.iter().filter(|recall| recall.side == Side::Barid);
    assert!(ours.clone().all(|recall| (recall.missed, recall.added) == (0, 0)));
    assert!(ours.map(|recall| recall.matches).sum::<u64>() > 7 * 3);
    let raw = text(&folder, "raw.csv");
    assert_eq!(raw.lines().count(), 1 + results.runs.len());
    assert!(raw.lines().any(|line| line.starts_with("1,no-index,\"body word\",0,")), "{raw}");
    let queries = text(&folder, "queries.csv");
    assert_eq!(queries.lines().count(), 1 + results.queries.len());
    let has_counts =
        |line: &str| line.rsplit(',').take(3).all(|count| count.parse::<u64>().is_ok());
    assert!(queries.lines().skip(1).all(has_counts), "{queries}");
    let summary = text(&folder, "summary.md");
    let parts = [
        "- Queries: 21, judged by 7 of 8 messages",
        "| true matches missed, others added | 0, 0 | 0, 0 | pass |",
        "| barid | text index without opaque fields | 0.0 |",
        "--no-index search DIR/mail/box 'BODY \"WORD\"'\n",
    ];
    check_parts(&summary, &parts);
    assert!(!summary.contains(&*scratch.path().to_string_lossy()), "{summary}");
    assert!(!folder.join("work").try_exists().unwrap());
    let start = "{\"v\":1,\"type\":\"bench_search\",\"side\":\"barid\",\"step\":\"build\"";
    assert!(report.json_lines[0].starts_with(start), "{}", report.json_lines[0]);
    let recall = "{\"v\":1,\"type\":\"bench_search_recall\",\"side\":\"no-index\",\"queries\":21";
    assert!(report.json_lines.iter().any(|line| line.starts_with(recall)));
}

#[test]
fn a_wrong_answer_is_not_timed() {
    let check = |name: &str, has_times: bool, expected: &str, at: &str| {
        let scratch = Scratch::new("bench").unwrap();
        let out = scratch.path().join(name);
        let options = Options { mail: Some(mail(&scratch)), ..options(&out) };
        let error = run(&options, &mut Listener::default(), &AtomicBool::new(false)).unwrap_err();
        let expected = expected.replace("DIR", &scratch.path().join("messages").to_string_lossy());
        check_parts(&format!("{error:#}"), &[&expected, at, "what was measured before is in"]);
        assert!(text(&out, "summary.md").contains("Not complete"));
        let raw = text(&out, "raw.csv");
        assert!(raw.contains("1,barid,\"build\","), "{name}: {raw}");
        assert_eq!(raw.contains("\"body word\""), has_times, "{name}: {raw}");
    };
    let misses = "it misses message 0 (DIR/0)";
    check("lies", false, misses, "barid: ");
    let differs = "it does not find message 5 (DIR/9), which it finds otherwise";
    check("differs", false, differs, "no-index: ");
    check("late", true, "barid: finds 0 of 1 delivered messages", "");
}

#[test]
fn told_to_stop_it_writes_what_there_is() {
    let scratch = Scratch::new("bench").unwrap();
    let stop = AtomicBool::new(false);
    let mut listener = Listener::stopping_at(" 1 - body word", &stop);
    let folder = scratch.path().join("out");
    let options = Options { mail: Some(mail(&scratch)), ..options(&folder) };
    let report = run(&options, &mut listener, &stop).unwrap();
    assert!(report.interrupted);
    assert!(text(&folder, "summary.md").contains("Not complete"));
}

#[test]
fn wrong_options_are_told_at_once() {
    let check = |change, expected| check_refused(options, change, run, expected);
    check(|options| options.times = 0, "at least one run");
    check(|options| options.builds = 0, "at least one run");
    check(|options| options.messages = Some(0), "at least one message");
    check(|options| options.queries = 0, "at least one query");
    check(|options| options.peer_queries = 0, "at least one query");
    check(|options| options.out = program("").parent().map(Path::to_owned), "not an empty folder");
}

/// With few messages and the real programs: barid misses nothing, every peer finds something and
/// sees what is delivered.
#[test]
fn the_real_programs_are_measured() {
    let Some(world) = World::with_barid() else { return };
    let signs = [
        (Side::Notmuch, installed("notmuch"), "notmuch"),
        (Side::Mu, installed("mu"), "maildir-utils"),
        (Side::Mairix, installed("mairix"), "mairix"),
        (Side::Dovecot, file("/usr/lib/dovecot/imap"), "dovecot-imapd"),
        (
            Side::Fts,
            file("/usr/lib/dovecot/modules/lib21_fts_xapian_plugin.so"),
            "dovecot-fts-xapian",
        ),
    ];
    let mut peers = Vec::new();
    for (side, found, package) in signs {
        match found {
            Some(_) => peers.push(side),
            None => skip_or_fail(&format!("{side} (Debian package {package})")),
        }
    }
    let own = PathBuf::from(env!("CARGO_BIN_EXE_barid-bench"));
    let options = Options {
        program: own.with_file_name("barid"),
        launcher: Launcher::new(own),
        messages: Some(60),
        queries: 48,
        peers: peers.clone(),
        ..options(&world.path("out"))
    };
    let report = run(&options, &mut Listener::default(), &AtomicBool::new(false)).unwrap();
    let results = report.results;
    assert!(results.judged > 30, "{}", results.judged);
    for side in [Side::Barid, Side::Linear].into_iter().chain(peers) {
        let own = results.recalls.iter().filter(|recall| recall.side == side);
        let sum = |number: fn(&barid_bench::search::Recall) -> u64| own.clone().map(number).sum();
        let (matches, missed): (u64, u64) =
            (sum(|recall| recall.matches), sum(|recall| recall.missed));
        assert!(matches > 0 && missed < matches, "{side} misses {missed} of {matches}");
        let runs = results.runs.iter().filter(|run| run.side == side);
        assert!(runs.clone().all(|run| run.figures.real_s > 0.0));
        let is_asked = runs.clone().any(|run| matches!(run.step, Step::Query(..)));
        let is_late = runs.clone().any(|run| run.step == Step::SearchMany);
        assert!(is_asked && is_late, "{side}");
        for build in runs.filter(|run| run.step == Step::Build) {
            assert!(build.figures.index_bytes > 0, "{side}");
        }
    }
}

fn file(path: &str) -> Option<PathBuf> {
    disk::exists(Path::new(path)).then(|| PathBuf::from(path))
}

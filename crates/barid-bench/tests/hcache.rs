//! `hcache::run` from its options to its files.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::atomic::AtomicBool;

use barid_bench::Launcher;
use barid_bench::hcache::{Method, Options, System, Work, run};
use barid_testkit::{Scratch, disk};

use crate::support::{Listener, check_parts, program, text};

fn options(scratch: &Scratch, maildir: &str) -> Options {
    let maildir = scratch.path().join(maildir);
    for name in ["cur", "new"] {
        disk::create_dir_all(&maildir.join(name)).unwrap();
    }
    Options {
        program: program("barid"),
        launcher: Launcher::new(program("barid")),
        maildir,
        times: 2,
        stores: Some(vec!["native".to_owned()]),
        methods: ["none", "zstd", "zlib"].map(|text| Method::parse(text).unwrap()).into(),
        builtin: false,
        neomutt: Some(program("neomutt")),
        drop_caches: false,
        out: Some(scratch.path().join("out")),
    }
}

#[test]
fn everything_is_measured_and_written() {
    let scratch = Scratch::new("bench").unwrap();
    let options = options(&scratch, "mail");
    let mut listener = Listener::default();
    let report = run(&options, &mut listener, &AtomicBool::new(false)).unwrap();
    assert!(!report.interrupted);
    let folder = scratch.path().join("out");
    assert_eq!(listener.lines[0], format!("Running in {}", folder.display()));
    let expected = [
        "note: NeoMutt 1.2.3 has no compression zlib",
        " 0 - checking   - native none",
        " 0 - checking   - tokyocabinet none (neomutt)",
        " 0 - checking   - native zstd",
        " 0 - checking   - tokyocabinet zstd (neomutt)",
        " 0 - checking   - native zlib",
        " 1 - populating - native none",
        " 1 - populating - tokyocabinet none (neomutt)",
        " 1 - reloading  - native none",
        " 1 - reloading  - tokyocabinet none (neomutt)",
    ];
    assert_eq!(listener.lines[1..=expected.len()], expected);
    let timed = |system, work| {
        let wanted = |run: &&_| {
            let run: &barid_bench::hcache::Run = run;
            run.round > 0 && run.side.system == system && run.step == work
        };
        report.results.runs.iter().filter(wanted).count()
    };
    assert_eq!(report.results.messages, 2);
    assert_eq!([Work::Populate, Work::Reload, Work::Page].map(|w| timed(System::Barid, w)), [6; 3]);
    assert_eq!([Work::Populate, Work::Reload].map(|w| timed(System::NeoMutt, w)), [4; 2]);
    for name in ["log_init", "log_reload", "log_reload_page"] {
        let log = text(&folder, &format!("{name}.md"));
        assert_eq!(log.lines().count(), 2 + 3, "{log}");
        assert!(log.lines().all(|line| line.matches('|').count() == 11), "{log}");
        assert!(log.contains("| native | none | zstd |"), "{log}");
    }
    for name in ["log_init_neomutt.md", "log_reload_neomutt.md"] {
        assert_eq!(text(&folder, name).lines().count(), 2 + 2);
    }
    for name in ["populate.svg", "reload.svg", "size.svg"] {
        assert!(text(&folder, name).contains(">native</text>"), "{name}");
    }
    let results = text(&folder, "results.json");
    let results: serde_json::Value = serde_json::from_str(&results).unwrap();
    assert_eq!(results["complete"], true);
    assert_eq!(results["facts"]["barid"], "barid 1.2.3");
    assert_eq!(results["runs"].as_array().unwrap().len(), report.results.runs.len());
    assert_eq!(results["ratios"].as_array().unwrap().len(), 2);
    assert!(results["ratios"][0]["ratios"]["populate"]["ratio"].as_f64().unwrap() > 0.0);
    let summary = text(&folder, "summary.md");
    let command = "barid --cache-dir DIR/setups/barid-native-zstd/cache --state-dir \
                   DIR/setups/barid-native-zstd/state --read-only --store native --compress zstd \
                   cache populate MAILDIR\n";
    assert!(summary.contains(command), "{summary}");
    assert!(!summary.contains(&*scratch.path().to_string_lossy()), "{summary}");
    let said = report.text;
    assert!(said.starts_with("*** populate\n") && said.contains("\n*** reload\n"), "{said}");
    assert!(said.contains("\n*** size and memory\n"), "{said}");
    assert!(said.contains("\n(the least peak that can be measured is 2.0 MB)\n"), "{said}");
    assert!(said.contains("\n*** barid to neomutt\n"), "{said}");
    assert!(said.ends_with("\n(neomutt has none such: native zlib)\n"), "{said}");
    for line in report.json_lines {
        assert!(line.starts_with("{\"v\":1,\"type\":\"bench_hcache\","), "{line}");
    }
}

#[test]
fn told_to_stop_it_writes_what_there_is() {
    let scratch = Scratch::new("bench").unwrap();
    let stop = AtomicBool::new(false);
    let mut listener = Listener::stopping_at(" 2 - populating - native zstd", &stop);
    let report = run(&options(&scratch, "mail"), &mut listener, &stop).unwrap();
    assert!(report.interrupted);
    let folder = scratch.path().join("out");
    let results: serde_json::Value = serde_json::from_str(&text(&folder, "results.json")).unwrap();
    assert_eq!(results["complete"], false);
    // The runs of round 0, of round 1, and the first setup of round 2 with its peer.
    assert_eq!(results["runs"].as_array().unwrap().len(), 13 + 13 + 5);
    assert!(text(&folder, "summary.md").contains("Not complete"));
    assert!(report.text.contains("*** reload"));
}

/// Runs a bench that must fail with the expected messages.
fn check_failure(maildir: &str, change: impl FnOnce(&mut Options), expected: &[&str]) {
    let scratch = Scratch::new("bench").unwrap();
    let mut options = options(&scratch, maildir);
    change(&mut options);
    let error = run(&options, &mut Listener::default(), &AtomicBool::new(false)).unwrap_err();
    check_parts(&format!("{error:#}"), expected);
}

#[test]
fn failures_name_the_command_and_its_output() {
    check_failure(
        "fails",
        |_| {},
        &["cache populate", "exit status: 2", "barid-native-none/stderr: error: it does not work"],
    );
}

#[test]
fn a_wrong_listing_is_not_timed() {
    let named = r#"uncached.jsonl differ in line 2: {"uid":2} instead of {"uid":3}"#;
    check_failure("lies", |_| {}, &["cached.jsonl", named]);
}

#[test]
fn wrong_options_are_told_at_once() {
    check_failure("mail", |options| options.times = 0, &["at least one run"]);
    check_failure("mail", |options| options.maildir.push("cur"), &["not a Maildir"]);
    let unknown = |options: &mut Options| options.stores = Some(vec!["nope".into()]);
    check_failure("mail", unknown, &["nope: no such store; there are native, lmdb"]);
    let unusable = |options: &mut Options| options.stores = Some(vec!["tdb".into()]);
    check_failure("mail", unusable, &["tdb cannot be used here: no libtdb"]);
    check_failure("mail", |options| options.stores = Some(Vec::new()), &["no store to run"]);
    check_failure("mail", |options| options.methods.clear(), &["no compression"]);
    check_failure(
        "mail",
        |options| options.neomutt = Some(program("barid")),
        &["barid -v: names no storage"],
    );
    check_failure("mail", |options| options.out = Some(program("")), &["not an empty folder"]);
    check_failure(
        "mail",
        |options| options.methods = vec![Method::parse("zstd+dict").unwrap()],
        &["nothing to run: native compresses blocks"],
    );
}

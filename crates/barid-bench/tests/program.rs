//! The program `barid-bench` with few messages and the real programs.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use barid_bench::Launcher;
use barid_testkit::corpus::Corpus;
use barid_testkit::peers::program;
use barid_testkit::usage::Sampling;
use barid_testkit::{disk, skip_or_fail};
use serde_json::Value;

use crate::support::World;

const LEN: u64 = 200;

/// Makes a world with a Maildir `mail` of generated messages, if barid can be measured.
fn world() -> Option<World> {
    let world = World::with_barid()?;
    Corpus::new(1, LEN).write_maildir(&world.path("mail")).unwrap();
    Some(world)
}

/// Returns `results.json` of the bench in the folder `out`.
fn results(world: &World) -> Value {
    serde_json::from_slice(&world.read("out/results.json")).unwrap()
}

fn check_files(world: &World, rows: usize) {
    for name in ["log_init.md", "log_reload.md", "log_reload_page.md"] {
        let log = String::from_utf8(world.read(&format!("out/{name}"))).unwrap();
        let head = "| Real | User | Sys | MaxMem | DBSize | Backend | Builtin Compress \
                    | Generic Compress | PageFaults | FS Outputs |";
        assert_eq!(log.lines().next(), Some(head), "{name}");
        assert_eq!(log.lines().count(), 2 + rows, "{log}");
    }
    for name in ["populate.svg", "reload.svg", "size.svg", "summary.md"] {
        assert!(!world.read(&format!("out/{name}")).is_empty(), "{name}");
    }
}

#[test]
fn stores_are_measured_and_the_mailbox_is_left_alone() {
    let Some(world) = world() else { return };
    let before = world.list("mail");
    let args = ["hcache", "-m", "maildir:mail", "-t", "1", "-b", "native lmdb"];
    let text = world.ok(&[&args[..], &["-o", "out", "-c", "none,zstd+dict"]].concat());
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("Running in /") && lines[0].ends_with("/out"), "{text}");
    for line in [
        " 0 - checking   - native none",
        " 1 - populating - lmdb zstd+dict",
        " 1 - reloading  - lmdb none",
        "*** populate",
        "*** reload",
        "*** size and memory",
    ] {
        assert!(lines.contains(&line), "{line} in {text}");
    }
    check_files(&world, 3);
    let results = results(&world);
    assert_eq!((&results["complete"], &results["messages"]), (&true.into(), &LEN.into()));
    let sizes = results["summary"].as_array().unwrap();
    assert_eq!(sizes.len(), 3 * 3);
    assert!(sizes.iter().all(|size| size["disk_bytes"]["median"].as_f64().unwrap() > 4096.0));
    assert_eq!(world.list("mail"), before);
    assert_eq!(world.list("."), ["mail", "out"]);
}

/// The memory of the measuring process is not counted.
#[test]
fn a_small_command_is_small_whoever_measures_it() {
    const HELD_LEN: usize = 64 << 20;
    const SMALL_LEN: u64 = 8 << 20;
    // The kernel sums the pages that each processor has counted: exactly for the file of a process,
    // and for its usage without the last 32 (or twice the processors) of each in three counters.
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    let slack = 3 * cpus * 32.max(2 * cpus) * 4096;
    let world = World::new();
    let held = std::hint::black_box(vec![1_u8; HELD_LEN]);
    let launcher = Launcher::new(env!("CARGO_BIN_EXE_barid-bench").into());
    let report = world.path("report");
    for sampling in [Sampling::Off, Sampling::Every(Duration::from_micros(50))] {
        let deadline = Duration::from_secs(60);
        let mut command = launcher.wrap(&Command::new("true"), &report, deadline, sampling);
        let launched = launcher.run(&mut command, &report).unwrap();
        let usage = launched.usage;
        assert!(usage.status.success());
        assert!(launched.floor > 0 && launched.floor <= usage.maxrss + slack, "{launched:?}");
        assert!(usage.maxrss < SMALL_LEN && launched.floor < SMALL_LEN, "{launched:?}");
        assert!(usage.anon_peak.unwrap_or(0) <= usage.maxrss + slack, "{launched:?}");
    }
    assert!(!disk::exists(&report) && std::hint::black_box(&held).len() == HELD_LEN);
}

#[test]
fn neomutt_stands_beside() {
    let Some(neomutt) = program("neomutt") else {
        return skip_or_fail("NeoMutt (Debian package neomutt)");
    };
    let Some(world) = world() else { return };
    let args = ["hcache", "-m", "mail", "-t", "1", "-b", "native", "-o", "out", "-e"];
    let run = world.run(&[&args[..], &[neomutt.to_str().unwrap(), "--json"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let folder = format!("note: Running in {}\n", world.path("out").display());
    assert_eq!(run.stderr, folder);
    let lines = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    let works: Vec<_> = lines.iter().map(|line| (&line["system"], &line["work"])).collect();
    assert_eq!(works.len(), 5, "{works:?}");
    check_files(&world, 1);
    for name in ["log_init_neomutt.md", "log_reload_neomutt.md"] {
        assert!(disk::exists(&world.path(&format!("out/{name}"))), "{name}");
    }
    let results = results(&world);
    let ratios = &results["ratios"][0]["ratios"];
    for column in ["populate", "reload", "page", "size", "resident"] {
        assert!(ratios[column]["ratio"].as_f64().unwrap() > 0.0, "{column}");
    }
}

#[test]
fn an_interrupted_bench_leaves_what_it_measured() {
    let Some(world) = world() else { return };
    let args = ["hcache", "-m", "mail", "-t", "1000", "-b", "native", "-o", "out"];
    let mut command = world.command();
    let mut child = command.args(args).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let kill = format!("kill -TERM {}", child.id());
    let mut is_asked = false;
    for line in lines {
        if line == " 3 - populating - native" {
            assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
            is_asked = true;
        }
    }
    assert!(is_asked);
    assert_eq!(child.wait().unwrap().code(), Some(2));
    let results = results(&world);
    assert_eq!(results["complete"], false);
    assert!(results["runs"].as_array().unwrap().len() >= 3 * 3);
    check_files(&world, 1);
}

/// The output of a bench with peers, which can access its folder.
struct Bench {
    said: String,
    raw: String,
    summary: String,
}

impl Bench {
    /// Runs a bench to completion; `expected` are the beginnings of lines that it must print.
    fn run(args: &[&str], expected: &[&str]) -> Option<Self> {
        let world = World::with_barid()?;
        let out = world.path("out");
        let run = world.run(&[args, &["-o", out.to_str().unwrap()]].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        let said = run.stdout;
        for line in expected {
            assert!(said.lines().any(|text| text.starts_with(line)), "{line} in {said}");
        }
        assert!(!disk::exists(&out.join("work")));
        let read = |name| disk::read_text(&out.join(name)).unwrap();
        let (raw, summary) = (read("raw.csv"), read("summary.md"));
        assert!(!summary.contains("Not complete"), "{summary}");
        Some(Self { said, raw, summary })
    }

    /// Checks the number of runs of a side, unless the side is missing.
    fn check_runs(&self, side: &str, missing: &str, expected: usize) {
        let runs = self.raw.lines().filter(|line| line.contains(side)).count();
        let is_missing = self.said.contains(missing);
        assert_eq!(runs, if is_missing { 0 } else { expected }, "{side} in {}", self.said);
    }
}

#[test]
fn an_mbox_is_rewritten_beside_the_peers() {
    let lines = [
        "40 messages, ",
        " 0 - first sync               - barid",
        " 2 - open again               - barid",
        "*** bars",
        "*** barid to the others",
    ];
    let Some(bench) = Bench::run(&["mbox", "--messages", "40", "-t", "2"], &lines) else { return };
    // Three rounds of 12 steps; barriers are counted in the first.
    for (side, steps) in [("barid", 12), ("dovecot", 12), ("dovecot-lazy", 13), ("c-client", 12)] {
        let missing = format!("skipped: {side} is missing");
        bench.check_runs(&format!(",{side},"), &missing, 3 * steps);
    }
    assert!(bench.summary.contains("## Bars"), "{}", bench.summary);
}

#[test]
fn formats_stand_beside_those_of_the_peers() {
    let lines = [
        "40 messages, ",
        " 0 - select                              - barid mbox",
        " 1 - search body, again                  - barid maildir",
        "*** bars",
        "*** the first time",
        "*** barid to the others",
    ];
    let Some(bench) = Bench::run(&["formats", "--messages", "40", "-t", "1"], &lines) else {
        return;
    };
    for side in ["barid mbox", "barid mh", "c-client mbox", "dovecot mdbox"] {
        let missing = format!("skipped: {} is missing", side.split(' ').next().unwrap_or_default());
        // Five operations in both turns and rounds; these sides convert nothing.
        bench.check_runs(&format!(",{side},"), &missing, 20);
    }
}

#[test]
fn the_spam_filter_stands_beside_bogofilter() {
    let lines = [
        "6 messages of spam, ",
        "8 messages of ham, ",
        " 0 - register spam and ham     - barid bogofilter",
        " 0 - classify, a process each  - barid bogofilter, daemon",
        " 1 - classify, one process     - barid spam",
        "*** barid to bogofilter",
    ];
    let mail = ["spam", "--spam", "6", "--ham", "8", "--singles", "2", "-t", "1"];
    let Some(bench) =
        Bench::run(&[&mail[..], &["-w", "register all each", "-p", "bdb"]].concat(), &lines)
    else {
        return;
    };
    for (side, steps) in
        [("barid bogofilter", 3), ("barid bogofilter, daemon", 1), ("bogofilter-bdb", 3)]
    {
        let missing = format!("note: {side} is not installed");
        bench.check_runs(&format!(",\"{side}\","), &missing, 2 * steps);
    }
}

#[test]
fn wrong_options_are_told() {
    let Some(world) = world() else { return };
    let check = |args: &[&str], expected: &str| {
        let run = world.run(args);
        assert_eq!(run.code, 2, "{args:?}");
        assert!(run.stderr.contains(expected), "{args:?}: {}", run.stderr);
    };
    for (args, expected) in [
        (&["-m", "nowhere"][..], "not a Maildir"),
        (&["-m", "mail", "-b", "nope"], "no such store"),
        (&["-m", "mail", "-b", "native:zstd"], "native has no compression of its own"),
        (&["-m", "mail", "-b", ""], "no store to run; there are native, lmdb"),
        (&["-m", "mail", "-c", ""], "no compression to run; there are none, lz4"),
        (&["-m", "mail", "-c", "gzip"], "no compression \"gzip\"; there are none, lz4"),
        (&["-m", "mail", "-c", "zstd:99"], "zstd: no level \"99\"; there is zstd[:1-22]"),
        (&["-m", "mbox:mail"], "not a Maildir"),
        (&["-m", "mail", "-t", "0"], "at least one run"),
        (&["-m", "mail", "-e", "/bin/true"], "names no storage"),
        (&["-m", "mail", "-o", "mail"], "not an empty folder"),
    ] {
        check(&[&["hcache"], args].concat(), expected);
    }
    check(&["formats", "-f", "mbox,sdbox"], "no format \"sdbox\"; there are mbox, mbx");
    check(
        &["mbox", "-p", "copy"],
        "no peer \"copy\"; there are dovecot, dovecot-lazy, c-client, none",
    );
    check(&["spam", "--singles", "7", "--ham", "6"], "not so many messages of ham");
}

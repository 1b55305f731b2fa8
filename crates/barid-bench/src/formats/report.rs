//! The files of a bench.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use serde::Serialize;

use super::bars;
use super::results::Results;
use super::step::{Program, Side, Step, Turn, Work};
use crate::Spread;
use crate::machine::Machine;
use crate::mbox::{Figures, seconds};
use crate::run::{counted, grouped};
use crate::table::Table;

/// The version of the lines of JSON.
const VERSION: u32 = 1;

/// What figures depend on, and how they came about.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) times: u32,
    pub(crate) barid: String,
    pub(crate) peers: Vec<String>,
    pub(crate) machine: Machine,
    /// The command lines of barid; `DIR` is the folder of the bench.
    pub(crate) commands: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// Writes all files, over those of before.
pub(crate) fn write(folder: &Path, facts: &Facts, results: &Results, complete: bool) -> Result<()> {
    let save = |name: &str, text: &str| {
        let path = folder.join(name);
        disk::write(&path, text.as_bytes()).with_context(|| path.display().to_string())
    };
    save("raw.csv", &raw(results))?;
    save("summary.md", &summary(facts, results, complete))
}

/// Every run.
fn raw(results: &Results) -> String {
    let mut text = "round,side,work,turn,real_s,user_s,sys_s,maxrss_bytes,anon_bytes,read_chars,\
                    write_chars,read_bytes,write_bytes,index_bytes\n"
        .to_owned();
    for run in &results.runs {
        let f = &run.figures;
        let anon = f.anon_bytes.map(|v| v.to_string()).unwrap_or_default();
        let line = format_args!(
            "{},{},\"{}\",{},{:.6},{:.6},{:.6},{},{anon},{},{},{},{},{}",
            run.round,
            run.side,
            run.step.work.name(),
            if run.step.turn == Turn::First { "first" } else { "again" },
            f.real_s,
            f.user_s,
            f.sys_s,
            f.maxrss_bytes,
            f.read_chars,
            f.write_chars,
            f.read_bytes,
            f.write_bytes,
            f.index_bytes
        );
        writeln!(text, "{line}").expect("because writing to a string does not fail");
    }
    text
}

/// Real time, a row for each side and a column for each work.
pub(crate) fn times(results: &Results, turn: Turn) -> Table {
    let [select, fetch, all, thread, search, convert] = Work::ALL.map(Work::name);
    let mut table = Table::new(1, ["seconds", select, fetch, all, thread, search, convert]);
    for side in Side::ALL {
        let cell = |work| {
            let spread = results.spread(side, Step { work, turn }, |figures| figures.real_s);
            spread.as_ref().map(seconds).unwrap_or_default()
        };
        let cells = Work::ALL.map(cell);
        if cells.iter().any(|cell| !cell.is_empty()) {
            table.row(std::iter::once(side.to_string()).chain(cells).collect());
        }
    }
    table
}

/// The real time of each format of barid through that of the fastest format of each peer and of
/// the same format of each.
pub(crate) fn ratios(results: &Results) -> Table {
    let head = [
        "barid to",
        "format",
        "c-client, same",
        "c-client, best",
        "dovecot, same",
        "dovecot, best",
    ];
    let mut table = Table::new(2, head);
    for step in Step::all() {
        for store in results.own() {
            let ours = Side::new(Program::Barid, store);
            let same = |program| Some(Side::new(program, store));
            let others = Program::PEERS.map(|peer| [same(peer), results.best(peer, step)]);
            let cells = others.iter().flatten().map(|other| {
                let ratio = other.and_then(|other| results.ratio(step, ours, other));
                ratio.map_or_else(String::new, |ratio| ratio.text_with_spread())
            });
            let cells: Vec<String> = cells.collect();
            if cells.iter().any(|cell| !cell.is_empty()) {
                let names = [step.to_string(), store.name().to_owned()];
                table.row(names.into_iter().chain(cells).collect());
            }
        }
    }
    table
}

/// Everything else, a row for each step and side.
pub(crate) fn details(results: &Results) -> Table {
    let head = [
        "step",
        "side",
        "user s",
        "sys s",
        "resident MB",
        "anonymous MB",
        "read MB",
        "written MB",
        "from disk MB",
        "dirtied MB",
        "index MB",
    ];
    let mut table = Table::new(2, head);
    for (step, side) in Step::all().flat_map(|step| Side::ALL.map(|side| (step, side))) {
        if results.values(side, step, |_| 0.0).is_empty() {
            continue;
        }
        let median = |figure: &dyn Fn(&Figures) -> f64, decimals: usize| {
            let spread = results.spread(side, step, figure);
            spread.map_or_else(String::new, |spread| format!("{:.decimals$}", spread.median))
        };
        let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        table.row(vec![
            step.to_string(),
            side.to_string(),
            median(&|f| f.user_s, 3),
            median(&|f| f.sys_s, 3),
            median(&|f| f.maxrss_bytes as f64 / 1e6, 1),
            results.anonymous(side, step).map_or_else(String::new, megabytes),
            median(&|f| f.read_chars as f64 / 1e6, 1),
            median(&|f| f.write_chars as f64 / 1e6, 1),
            median(&|f| f.read_bytes as f64 / 1e6, 3),
            median(&|f| f.write_bytes as f64 / 1e6, 1),
            median(&|f| f.index_bytes as f64 / 1e6, 1),
        ]);
    }
    table
}

/// The lines for programs: one for each side and step.
pub(crate) fn json_lines(results: &Results) -> Result<Vec<String>> {
    #[derive(Serialize)]
    struct Line {
        v: u32,
        r#type: &'static str,
        side: Side,
        #[serde(flatten)]
        step: Step,
        runs: usize,
        real_s: Spread,
        user_s: Spread,
        sys_s: Spread,
        maxrss_bytes: Spread,
        read_chars: Spread,
        write_chars: Spread,
        read_bytes: Spread,
        write_bytes: Spread,
        index_bytes: Spread,
    }
    let pairs = Step::all().flat_map(|step| Side::ALL.map(|side| (step, side)));
    let line = |(step, side)| {
        let spread = |figure: fn(&Figures) -> f64| results.spread(side, step, figure);
        let line = Line {
            v: VERSION,
            r#type: "bench_formats",
            side,
            step,
            runs: results.values(side, step, |_| 0.0).len(),
            real_s: spread(|f| f.real_s)?,
            user_s: spread(|f| f.user_s)?,
            sys_s: spread(|f| f.sys_s)?,
            maxrss_bytes: spread(|f| f.maxrss_bytes as f64)?,
            read_chars: spread(|f| f.read_chars as f64)?,
            write_chars: spread(|f| f.write_chars as f64)?,
            read_bytes: spread(|f| f.read_bytes as f64)?,
            write_bytes: spread(|f| f.write_bytes as f64)?,
            index_bytes: spread(|f| f.index_bytes as f64)?,
        };
        Some(serde_json::to_string(&line).context("a line of JSON"))
    };
    pairs.filter_map(line).collect()
}

/// The page for people.
fn summary(facts: &Facts, results: &Results, complete: bool) -> String {
    let mut text = String::from("# Formats of mailboxes\n\n");
    let mut line = |line: std::fmt::Arguments<'_>| {
        writeln!(text, "{line}").expect("because writing to a string does not fail");
    };
    if !complete {
        line(format_args!("**Not complete:** the bench ended before its last run.\n"));
    }
    let messages = counted(results.messages, "message");
    line(format_args!(
        "- Mail: {messages}, {} bytes as an mbox; generated",
        grouped(results.bytes)
    ));
    let cache = if results.is_cold { "cold, but for the programs themselves" } else { "warm" };
    line(format_args!("- Runs: {} of each, in turn; page cache {cache}", facts.times));
    line(format_args!("- Machine: {}", facts.machine.text()));
    line(format_args!("- Program: {}", facts.barid));
    facts.peers.iter().for_each(|peer| line(format_args!("- Compared with: {peer}")));
    facts.notes.iter().for_each(|note| line(format_args!("- {note}")));
    results.differences.iter().for_each(|it| line(format_args!("- Answered otherwise: {it}")));
    let bars = bars::bars(results);
    if !bars.is_empty() {
        line(format_args!("\n## Bars\n\n{}", bars::table(&bars).markdown()));
    }
    let (first, again) = (times(results, Turn::First), times(results, Turn::Again));
    line(format_args!("\n## The first time\n\n{FIRST}\n{}", first.markdown()));
    line(format_args!("## Again\n\n{AGAIN}\n{}", again.markdown()));
    line(format_args!("## barid to the others\n\n{RATIOS}\n{}", ratios(results).markdown()));
    line(format_args!("## Everything else\n\n{DETAILS}\n{}", details(results).markdown()));
    line(format_args!("## Commands\n\n```\n{}\n```", facts.commands.join("\n")));
    text
}

/// What the first table of times says.
const FIRST: &str = "\
Median, least and most. Whole processes, from start to end, that open the mailbox and do the\n\
work; no program has seen the mailbox before. sdbox and mdbox cannot be without their indexes,\n\
which hold no facts of messages at first.\n";

/// What the second table of times says.
const AGAIN: &str = "\
A new process, after one that did the same.\n";

/// What the table of ratios says.
const RATIOS: &str = "\
Medians; in brackets least and most of the runs of the same round. `best` is the format with\n\
which the peer is fastest at this.\n";

/// What the table of details says.
const DETAILS: &str = "\
`read` and `written` are what calls returned and were given, pipes and sockets included, `from\n\
disk` and `dirtied` what the kernel fetched and has to write (`/proc/PID/io`). Anonymous memory\n\
comes from the round that is not timed. `index` is what is allocated for cache, state and indexes\n\
after the step.\n";

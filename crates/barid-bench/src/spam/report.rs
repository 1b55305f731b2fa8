//! The files of a bench.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use serde::Serialize;

use super::bars;
use super::results::Results;
use super::step::{Side, Step};
use crate::Spread;
use crate::machine::Machine;
use crate::mbox::{Figures, seconds};
use crate::run::grouped;
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
    /// Where mail came from.
    pub(crate) source: String,
    /// The lines for a shell; `DIR` is the folder of the bench.
    pub(crate) commands: Vec<String>,
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
    let mut text = "round,side,step,real_s,user_s,sys_s,maxrss_bytes,anon_bytes,read_chars,\
                    write_chars,read_bytes,write_bytes,list_bytes\n"
        .to_owned();
    for run in &results.runs {
        let f = &run.figures;
        let anon = f.anon_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        let line = format_args!(
            "{},\"{}\",\"{}\",{:.6},{:.6},{:.6},{},{anon},{},{},{},{},{}",
            run.round,
            run.side,
            run.step,
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

/// Real time, a row for each step and a column for each side.
pub(crate) fn times(results: &Results) -> Table {
    let [drop_in, daemon, spam, bdb, tokyo, sqlite] = Side::ALL.map(Side::name);
    let mut table = Table::new(1, ["seconds", drop_in, daemon, spam, bdb, tokyo, sqlite]);
    for step in Step::ALL {
        let cells = Side::ALL.map(|side| {
            let spread = results.spread(side, step, |figures| figures.real_s);
            spread.as_ref().map(seconds).unwrap_or_default()
        });
        if cells.iter().any(|cell| !cell.is_empty()) {
            table.row(std::iter::once(step.to_string()).chain(cells).collect());
        }
    }
    table
}

/// The real time of each side of barid through that of each build of bogofilter.
pub(crate) fn ratios(results: &Results) -> Table {
    let [bdb, tokyo, sqlite] = Side::PEERS.map(Side::name);
    let mut table = Table::new(2, ["step", "side", bdb, tokyo, sqlite]);
    for step in Step::ALL {
        for side in Side::ALL.into_iter().filter(|side| side.is_own()) {
            let cells = Side::PEERS.map(|peer| {
                let ratio = results.ratio(step, side, peer);
                ratio.map_or_else(String::new, |ratio| ratio.text_with_spread())
            });
            if cells.iter().any(|cell| !cell.is_empty()) {
                let names = [step.to_string(), side.to_string()];
                table.row(names.into_iter().chain(cells).collect());
            }
        }
    }
    table
}

/// Everything else, a row for each step and side.
fn details(results: &Results) -> Table {
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
        "list MB",
    ];
    let mut table = Table::new(2, head);
    for (step, side) in pairs(results) {
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

/// What was measured: steps in their order, with the sides of each.
fn pairs(results: &Results) -> impl Iterator<Item = (Step, Side)> {
    let all = Step::ALL.into_iter().flat_map(|step| Side::ALL.map(|side| (step, side)));
    all.filter(|(step, side)| results.has(*side, *step))
}

/// The lines for programs: one for each step and side.
pub(crate) fn json_lines(results: &Results) -> Result<Vec<String>> {
    #[derive(Serialize)]
    struct Line {
        v: u32,
        r#type: &'static str,
        side: Side,
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
        list_bytes: Spread,
    }
    let line = |(step, side)| {
        let spread = |figure: fn(&Figures) -> f64| results.spread(side, step, figure);
        let line = Line {
            v: VERSION,
            r#type: "bench_spam",
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
            list_bytes: spread(|f| f.index_bytes as f64)?,
        };
        Some(serde_json::to_string(&line).context("a line of JSON"))
    };
    pairs(results).filter_map(line).collect()
}

/// The page for people.
fn summary(facts: &Facts, results: &Results, complete: bool) -> String {
    let mut text = String::from("# The spam filter\n\n");
    let mut line = |line: std::fmt::Arguments<'_>| {
        writeln!(text, "{line}").expect("because writing to a string does not fail");
    };
    if !complete {
        line(format_args!("**Not complete:** the bench ended before its last run.\n"));
    }
    let ([spam, ham], [spam_bytes, ham_bytes]) =
        (results.messages.map(grouped), results.bytes.map(grouped));
    line(format_args!("- Spam: {spam} messages, {spam_bytes} bytes as an mbox"));
    line(format_args!("- Ham: {ham} messages, {ham_bytes} bytes as an mbox"));
    line(format_args!("- Mail: {}", facts.source));
    let [small, middle, large] = results.tokens.map(grouped);
    line(format_args!("- Lists: small {small}, cold and dumped {middle}, large {large} tokens"));
    line(format_args!("- A process each: {} messages", grouped(results.singles)));
    line(format_args!("- Runs: {} of each, in turn; page cache warm", facts.times));
    line(format_args!("- Machine: {}", facts.machine.text()));
    line(format_args!("- Program: {}", facts.barid));
    facts.peers.iter().for_each(|peer| line(format_args!("- Compared with: {peer}")));
    let bars = bars::bars(results);
    if !bars.is_empty() {
        line(format_args!("\n## Bars\n\n{}", bars::table(&bars).markdown()));
    }
    line(format_args!("\n## Real time\n\n{TIMES}\n{}", times(results).markdown()));
    line(format_args!("## barid to bogofilter\n\n{RATIOS}\n{}", ratios(results).markdown()));
    line(format_args!("## Everything else\n\n{DETAILS}\n{}", details(results).markdown()));
    line(format_args!("## Commands\n\n```\n{}\n```", facts.commands.join("\n")));
    text
}

/// What the table of times says.
const TIMES: &str = "\
Median, least and most. Whole processes, from start to end, and the shell that starts them.\n\
Classifying with a cold list, everything else is in memory when the first process starts.\n";

/// What the table of ratios says.
const RATIOS: &str = "\
Medians; in brackets least and most of the runs of the same round.\n";

/// What the table of details says.
const DETAILS: &str = "\
`read` and `written` are what calls returned and were given, pipes included, `from disk` and\n\
`dirtied` what the kernel fetched and has to write (`/proc/PID/io`), without what is mapped.\n\
Anonymous memory comes from the round that is not timed. What the daemon uses is not counted. `list`\n\
is what is allocated for the word list after the step.\n";

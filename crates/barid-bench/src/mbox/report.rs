//! The files of a bench.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use serde::Serialize;

use super::bars;
use super::results::Results;
use super::step::{Figures, Side, Step};
use crate::machine::Machine;
use crate::run::{counted, grouped};
use crate::table::Table;
use crate::{Ratio, Spread};

/// The version of the lines of JSON.
const VERSION: u32 = 1;

/// What figures depend on, and how they came about.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Facts {
    /// When the bench began, in seconds since 1970.
    pub(crate) began_unix_s: u64,
    /// Where the mail comes from.
    pub(crate) mail: String,
    pub(crate) times: u32,
    pub(crate) page_cache: &'static str,
    pub(crate) barid: String,
    pub(crate) peers: Vec<String>,
    pub(crate) machine: Machine,
    /// The command lines of barid; `DIR` is the folder of the bench.
    pub(crate) commands: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// The sides in the order of the tables.
pub(crate) const SIDES: [Side; 5] =
    [Side::Copy, Side::Barid, Side::Dovecot, Side::DovecotLazy, Side::CClient];

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
                    write_chars,read_bytes,write_bytes,barriers,file_bytes,index_bytes\n"
        .to_owned();
    for run in &results.runs {
        let f = &run.figures;
        let optional = |value: Option<u64>| value.map(|v| v.to_string()).unwrap_or_default();
        let (anon, barriers) = (optional(f.anon_bytes), optional(f.barriers));
        let line = format_args!(
            "{},{},\"{}\",{:.6},{:.6},{:.6},{},{anon},{},{},{},{},{barriers},{},{}",
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
            f.file_bytes,
            f.index_bytes
        );
        writeln!(text, "{line}").expect("because writing to a string does not fail");
    }
    text
}

/// Seconds with three digits that say something.
pub(crate) fn seconds(spread: &Spread) -> String {
    let digits = |value: f64| match value {
        _ if value >= 10.0 => format!("{value:.1}"),
        _ if value >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    };
    let (median, least, most) = (spread.median, spread.least, spread.most);
    if least == most {
        return digits(median);
    }
    format!("{} ({}-{})", digits(median), digits(least), digits(most))
}

/// Real time, a row for each step and a column for each side.
pub(crate) fn times(results: &Results) -> Table {
    let mut table = Table::new(1, ["seconds", "barid", "dovecot", "dovecot-lazy", "c-client"]);
    for step in Step::ALL {
        let cell = |side| {
            let side = if step == Step::Copy && side == Side::Barid { Side::Copy } else { side };
            let spread = results.spread(side, step, |figures| figures.real_s);
            spread.as_ref().map(seconds).unwrap_or_default()
        };
        let mut row =
            vec![if step == Step::Copy { "(cp and sync)" } else { step.name() }.to_owned()];
        row.extend(SIDES[1..].iter().map(|side| cell(*side)));
        if row[1..].iter().any(|cell| !cell.is_empty()) {
            table.row(row);
        }
    }
    table
}

/// barid's real time through that of each peer.
pub(crate) fn ratios(results: &Results) -> Table {
    let mut table =
        Table::new(1, ["barid to", "dovecot", "dovecot-lazy", "c-client", "cp and sync"]);
    let sides = Side::PEERS.map(Some).into_iter().chain([None]);
    for step in Step::ALL.into_iter().filter(|step| *step != Step::Copy && !step.is_read()) {
        let cells = sides.clone().map(|side| match side {
            Some(side) => results.ratio(step, (side, step)),
            None if step == Step::Sync => results.ratio(step, (Side::Copy, Step::Copy)),
            None => None,
        });
        let cells: Vec<Option<Ratio>> = cells.collect();
        if cells.iter().any(Option::is_some) {
            let mut row = vec![step.name().to_owned()];
            row.extend(cells.iter().map(|c| c.map_or_else(String::new, |c| c.text_with_spread())));
            table.row(row);
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
        "barriers",
        "mailbox MB",
        "index MB",
    ];
    let mut table = Table::new(2, head);
    let pairs = Step::ALL.into_iter().flat_map(|step| SIDES.map(|side| (side, step)));
    for (side, step) in pairs {
        let median = |figure: &dyn Fn(&Figures) -> f64, decimals: usize| {
            let spread = results.spread(side, step, figure);
            spread.map_or_else(String::new, |spread| format!("{:.decimals$}", spread.median))
        };
        if results.values(side, step, |_| 0.0).is_empty() {
            continue;
        }
        let anon = results.counted(side, step, |figures| figures.anon_bytes);
        let barriers = results.counted(side, step, |figures| figures.barriers);
        table.row(vec![
            step.name().to_owned(),
            side.name().to_owned(),
            median(&|f| f.user_s, 3),
            median(&|f| f.sys_s, 3),
            median(&|f| f.maxrss_bytes as f64 / 1e6, 1),
            anon.map_or_else(String::new, |bytes| format!("{:.1}", bytes as f64 / 1e6)),
            median(&|f| f.read_chars as f64 / 1e6, 1),
            median(&|f| f.write_chars as f64 / 1e6, 1),
            median(&|f| f.read_bytes as f64 / 1e6, 1),
            median(&|f| f.write_bytes as f64 / 1e6, 1),
            barriers.map_or_else(String::new, |count| count.to_string()),
            median(&|f| f.file_bytes as f64 / 1e6, 1),
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
        step: Step,
        runs: usize,
        real_s: Spread,
        user_s: Spread,
        sys_s: Spread,
        maxrss_bytes: Spread,
        read_chars: Spread,
        write_chars: Spread,
        write_bytes: Spread,
        barriers: Option<u64>,
        file_bytes: Spread,
        index_bytes: Spread,
    }
    let pairs = Step::ALL.into_iter().flat_map(|step| SIDES.map(|side| (side, step)));
    let line = |(side, step)| {
        let spread = |figure: fn(&Figures) -> f64| results.spread(side, step, figure);
        let line = Line {
            v: VERSION,
            r#type: "bench_mbox",
            side,
            step,
            runs: results.values(side, step, |_| 0.0).len(),
            real_s: spread(|f| f.real_s)?,
            user_s: spread(|f| f.user_s)?,
            sys_s: spread(|f| f.sys_s)?,
            maxrss_bytes: spread(|f| f.maxrss_bytes as f64)?,
            read_chars: spread(|f| f.read_chars as f64)?,
            write_chars: spread(|f| f.write_chars as f64)?,
            write_bytes: spread(|f| f.write_bytes as f64)?,
            barriers: results.counted(side, step, |f| f.barriers),
            file_bytes: spread(|f| f.file_bytes as f64)?,
            index_bytes: spread(|f| f.index_bytes as f64)?,
        };
        Some(serde_json::to_string(&line).context("a line of JSON"))
    };
    pairs.filter_map(line).collect()
}

/// The page for people.
fn summary(facts: &Facts, results: &Results, complete: bool) -> String {
    let mut text = String::from("# Rewriting an mbox\n\n");
    let mut line = |line: std::fmt::Arguments<'_>| {
        writeln!(text, "{line}").expect("because writing to a string does not fail");
    };
    if !complete {
        line(format_args!("**Not complete:** the bench ended before its last run.\n"));
    }
    let messages = counted(results.messages, "message");
    line(format_args!("- Mailbox: {messages}, {} bytes; {}", grouped(results.bytes), facts.mail));
    let (rounds, cache) = (facts.times, facts.page_cache);
    line(format_args!("- Runs: {rounds} of each, in turn; page cache {cache}"));
    line(format_args!("- Machine: {}", facts.machine.text()));
    line(format_args!("- Program: {}", facts.barid));
    facts.peers.iter().for_each(|peer| line(format_args!("- Compared with: {peer}")));
    facts.notes.iter().for_each(|note| line(format_args!("- {note}")));
    let bars = bars::bars(results);
    if !bars.is_empty() {
        line(format_args!("\n## Bars\n\n{}", bars::table(&bars).markdown()));
    }
    line(format_args!("\n## Real time\n\n{TIMES}\n{}", times(results).markdown()));
    line(format_args!("## barid to the others\n\n{RATIOS}\n{}", ratios(results).markdown()));
    line(format_args!("## Everything else\n\n{DETAILS}\n{}", details(results).markdown()));
    line(format_args!("## Commands\n\n```\n{}\n```", facts.commands.join("\n")));
    text
}

/// What the table of times says.
const TIMES: &str = "\
Median, least and most. Of barid these are whole processes, from start to end; of the peers, but for\n\
`open again`, single commands in a session that is open already.\n";

/// What the table of ratios says.
const RATIOS: &str = "\
Medians; in brackets least and most of the runs of the same round.\n";

/// What the table of details says.
const DETAILS: &str = "\
`read` and `written` are what calls returned and were given, `from disk` and `dirtied` what the\n\
kernel fetched and has to write (`/proc/PID/io`). Barriers are calls that wait for the disk; they and\n\
anonymous memory come from the round that is not timed. `index` is what is allocated for cache,\n\
state and indexes after the step.\n";

//! The files of a bench.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use serde::Serialize;

use super::charts;
use super::key::{Key, System, Work};
use super::plan::Plan;
use super::results::{Column, Results, Run};
use super::tables;
use crate::machine::Machine;
use crate::run::counted;
use crate::{Ratio, Spread};

/// The version of `results.json`.
const VERSION: u32 = 1;

/// What figures depend on, and how they came about.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Facts {
    /// When the bench began, in seconds since 1970.
    pub(crate) began_unix_s: u64,
    /// The name of the Maildir, without its folder.
    pub(crate) maildir: String,
    pub(crate) times: u32,
    pub(crate) page_cache: &'static str,
    pub(crate) barid: String,
    /// What NeoMutt is, with what it was built.
    pub(crate) neomutt: Option<String>,
    /// Store and version of its library.
    pub(crate) stores: Vec<String>,
    /// The peak of resident memory of the process that starts what is measured, in bytes.
    pub(crate) maxrss_floor_bytes: u64,
    pub(crate) machine: Machine,
    /// The command lines, one for each setup and work; `DIR` is the folder of the bench.
    pub(crate) commands: Vec<String>,
    /// One of NeoMutt's configurations.
    pub(crate) neomuttrc: Option<String>,
    pub(crate) notes: Vec<String>,
}

#[derive(Serialize)]
struct File<'a> {
    v: u32,
    complete: bool,
    messages: u64,
    facts: &'a Facts,
    summary: Vec<Summary<'a>>,
    ratios: Vec<Ratios<'a>>,
    runs: &'a [Run],
}

/// The middle of what was measured of one setup at one work.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(flatten)]
    key: &'a Key,
    work: Work,
    runs: usize,
    real_s: Spread,
    user_s: Spread,
    sys_s: Spread,
    maxrss_bytes: Spread,
    disk_bytes: Spread,
}

/// How one setup of barid's stands to NeoMutt's.
#[derive(Serialize)]
struct Ratios<'a> {
    #[serde(flatten)]
    key: &'a Key,
    compared_with: &'a [Key],
    ratios: serde_json::Map<String, serde_json::Value>,
}

/// Writes all files, over those of before.
pub(crate) fn write(
    folder: &Path,
    facts: &Facts,
    plan: &Plan,
    results: &Results,
    complete: bool,
) -> Result<()> {
    let save = |name: &str, text: &str| {
        let path = folder.join(name);
        disk::write(&path, text.as_bytes()).with_context(|| path.display().to_string())
    };
    let log = |system, work| tables::log(plan, results, system, work);
    save("log_init.md", &log(System::Barid, Work::Populate))?;
    save("log_reload.md", &log(System::Barid, Work::Reload))?;
    save("log_reload_page.md", &log(System::Barid, Work::Page))?;
    if facts.neomutt.is_some() {
        save("log_init_neomutt.md", &log(System::NeoMutt, Work::Populate))?;
        save("log_reload_neomutt.md", &log(System::NeoMutt, Work::Reload))?;
    }
    let subtitle = subtitle(facts, results);
    for kind in &charts::KINDS {
        save(kind.file, &charts::chart(kind, plan, results, &subtitle).svg())?;
    }
    save("summary.md", &summary(facts, plan, results, complete))?;
    save("results.json", &json(facts, plan, results, complete)?)
}

fn subtitle(facts: &Facts, results: &Results) -> String {
    let (times, cache) = (facts.times, facts.page_cache);
    let messages = counted(results.messages, "message");
    let runs = counted(times.into(), "run");
    format!("{messages}, {runs}, {cache} page cache")
}

/// What holds for the figures of resident memory, in words.
pub(crate) fn floor(facts: &Facts) -> String {
    let floor = facts.maxrss_floor_bytes as f64 / 1e6;
    format!("the least peak that can be measured is {floor:.1} MB")
}

fn json(facts: &Facts, plan: &Plan, results: &Results, complete: bool) -> Result<String> {
    let ratios = plan.cells.iter().filter(|cell| !cell.compared_with.is_empty()).map(|cell| {
        let each = Column::ALL.into_iter().filter_map(|column| {
            let ratio: Ratio = results.ratio(cell, column)?;
            Some((column.name().to_owned(), serde_json::to_value(ratio).ok()?))
        });
        Ratios { key: &cell.key, compared_with: &cell.compared_with, ratios: each.collect() }
    });
    let file = File {
        v: VERSION,
        complete,
        messages: results.messages,
        facts,
        summary: summaries(plan, results),
        ratios: ratios.collect(),
        runs: &results.runs,
    };
    let text = serde_json::to_string_pretty(&file).context("results.json")?;
    Ok(text + "\n")
}

fn summaries<'a>(plan: &'a Plan, results: &Results) -> Vec<Summary<'a>> {
    let works = [Work::Populate, Work::Reload, Work::Page];
    let all = tables::keys(plan).flat_map(|key| works.map(|work| (key, work)));
    let summary = |(key, work)| {
        Some(Summary {
            key,
            work,
            runs: results.timed(key, work).count(),
            real_s: results.spread(key, work, |f| f.real_s)?,
            user_s: results.spread(key, work, |f| f.user_s)?,
            sys_s: results.spread(key, work, |f| f.sys_s)?,
            maxrss_bytes: results.spread(key, work, |f| f.maxrss_bytes as f64)?,
            disk_bytes: results.spread(key, work, |f| f.disk_bytes as f64)?,
        })
    };
    all.filter_map(summary).collect()
}

/// The lines for programs: one for each setup and work.
pub(crate) fn json_lines(plan: &Plan, results: &Results) -> Result<Vec<String>> {
    #[derive(Serialize)]
    struct Line<'a> {
        v: u32,
        r#type: &'static str,
        #[serde(flatten)]
        summary: Summary<'a>,
    }
    let line = |summary| {
        let line = Line { v: VERSION, r#type: "bench_hcache", summary };
        Ok(serde_json::to_string(&line)?)
    };
    summaries(plan, results).into_iter().map(line).collect()
}

/// The page for people.
fn summary(facts: &Facts, plan: &Plan, results: &Results, complete: bool) -> String {
    let mut text = String::from("# Header caches\n\n");
    let mut line = |line: std::fmt::Arguments<'_>| {
        writeln!(text, "{line}").expect("because writing to a string does not fail");
    };
    if !complete {
        line(format_args!("**Not complete:** the bench ended before its last run.\n"));
    }
    line(format_args!("- Mailbox: {}", counted(results.messages, "message")));
    let (times, cache) = (facts.times, facts.page_cache);
    line(format_args!("- Runs: {times} of each, in turn; page cache {cache}"));
    line(format_args!("- Machine: {}", facts.machine.text()));
    line(format_args!("- Program: {}", facts.barid));
    line(format_args!("- Memory: {}", floor(facts)));
    line(format_args!("- Libraries: {}", facts.stores.join(", ")));
    if let Some(neomutt) = &facts.neomutt {
        line(format_args!("- Compared with: {neomutt}"));
    }
    facts.notes.iter().for_each(|note| line(format_args!("- {note}")));
    if facts.neomutt.is_some() {
        line(format_args!("\n## barid to NeoMutt\n\n{}", RATIOS));
        if plan.has_peers() {
            line(format_args!("{}", tables::ratios(plan, results).markdown()));
        }
        tables::not_compared(plan).iter().for_each(|text| line(format_args!("{text}")));
    }
    line(format_args!("\n## Medians\n\n{}", MEDIANS));
    line(format_args!("{}", tables::medians(plan, results).markdown()));
    line(format_args!("## Commands\n\n```\n{}\n```", facts.commands.join("\n")));
    if let Some(rc) = &facts.neomuttrc {
        line(format_args!("\nA configuration of NeoMutt's:\n\n```\n{}\n```", rc.trim_end()));
    }
    text
}

/// What the table of ratios says.
const RATIOS: &str = "\
Medians; in brackets least and most of the runs that were made one after the other. `page` is \
barid's\nnewest 50 messages to NeoMutt's reload. The native cache stands against the best of \
NeoMutt's stores in\neach column.\n";

/// What the table of medians says.
const MEDIANS: &str = "\
Real time of the whole process: median, least and most. `reload` reads, decodes and prints every\n\
record, `page` the newest 50 by date. The size is that after reloading. Resident memory is the \
peak of\nall works with all file pages, anonymous memory the highest sample of runs that were not \
timed.\n";

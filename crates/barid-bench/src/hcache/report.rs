//! The files that the bench writes.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::charts;
use super::key::{Key, System, Work};
use super::plan::Plan;
use super::results::{Column, Results, Run};
use super::tables;
use crate::lab::{self, Machine, Page, Ratio, Spread, counted, save};

/// The version of `results.json`.
const VERSION: u32 = 1;

/// The circumstances of the figures: programs, machine, options.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Facts {
    /// Start of the bench, in seconds since 1970.
    pub(crate) began_unix_s: u64,
    /// The name of the Maildir, without its folder.
    pub(crate) maildir: String,
    pub(crate) times: u32,
    pub(crate) page_cache: &'static str,
    pub(crate) barid: String,
    /// NeoMutt's version, with its build options.
    pub(crate) neomutt: Option<String>,
    /// Each store with the version of its library.
    pub(crate) stores: Vec<String>,
    /// The peak of resident memory of the process that starts the measured programs, in bytes.
    pub(crate) maxrss_floor_bytes: u64,
    pub(crate) machine: Machine,
    /// The command lines, one for each setup and work; `DIR` is the folder of the bench.
    pub(crate) commands: Vec<String>,
    /// One of the NeoMutt configurations.
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
    runs: Vec<RunLine<'a>>,
}

/// A run.
#[derive(Serialize)]
struct RunLine<'a> {
    round: u32,
    work: Work,
    #[serde(flatten)]
    key: &'a Key,
    real_s: f64,
    user_s: f64,
    sys_s: f64,
    maxrss_bytes: u64,
    anon_bytes: Option<u64>,
    minor_faults: u64,
    major_faults: u64,
    fs_inputs: u64,
    fs_outputs: u64,
    disk_bytes: u64,
}

impl<'a> RunLine<'a> {
    fn of(run: &'a Run) -> Self {
        let figures = &run.figures;
        Self {
            round: run.round,
            work: run.step,
            key: &run.side,
            real_s: figures.real_s,
            user_s: figures.user_s,
            sys_s: figures.sys_s,
            maxrss_bytes: figures.maxrss_bytes,
            anon_bytes: figures.anon_bytes,
            minor_faults: figures.minor_faults,
            major_faults: figures.major_faults,
            fs_inputs: figures.fs_inputs,
            fs_outputs: figures.fs_outputs,
            disk_bytes: figures.index_bytes,
        }
    }
}

/// The spreads of the figures of one setup at one operation.
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

/// The ratios of one barid setup to NeoMutt.
#[derive(Serialize)]
struct Ratios<'a> {
    #[serde(flatten)]
    key: &'a Key,
    compared_with: &'a [Key],
    ratios: serde_json::Map<String, serde_json::Value>,
}

/// Writes all files, replacing earlier ones.
pub(crate) fn write(
    folder: &Path,
    facts: &Facts,
    plan: &Plan,
    results: &Results,
    complete: bool,
) -> Result<()> {
    let log = |system, work| tables::log(plan, results, system, work);
    save(folder, "log_init.md", &log(System::Barid, Work::Populate))?;
    save(folder, "log_reload.md", &log(System::Barid, Work::Reload))?;
    save(folder, "log_reload_page.md", &log(System::Barid, Work::Page))?;
    if facts.neomutt.is_some() {
        save(folder, "log_init_neomutt.md", &log(System::NeoMutt, Work::Populate))?;
        save(folder, "log_reload_neomutt.md", &log(System::NeoMutt, Work::Reload))?;
    }
    let subtitle = subtitle(facts, results);
    for kind in &charts::KINDS {
        save(folder, kind.file, &charts::chart(kind, plan, results, &subtitle).svg())?;
    }
    save(folder, "summary.md", &summary(facts, plan, results, complete))?;
    save(folder, "results.json", &json(facts, plan, results, complete)?)
}

fn subtitle(facts: &Facts, results: &Results) -> String {
    let (times, cache) = (facts.times, facts.page_cache);
    let messages = counted(results.messages, "message");
    let runs = counted(times.into(), "run");
    format!("{messages}, {runs}, {cache} page cache")
}

/// Returns a note on the figures of resident memory.
fn floor(facts: &Facts) -> String {
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
        runs: results.runs.iter().map(RunLine::of).collect(),
    };
    let text = serde_json::to_string_pretty(&file).context("results.json")?;
    Ok(text + "\n")
}

fn summaries<'a>(plan: &'a Plan, results: &Results) -> Vec<Summary<'a>> {
    let works = [Work::Populate, Work::Reload, Work::Page];
    let all = tables::keys(plan).flat_map(|key| works.map(|work| (key, work)));
    let summary = |(key, work)| {
        let measured = results.of(key, work);
        Some(Summary {
            key,
            work,
            runs: measured.len(),
            real_s: measured.spread(|f| f.real_s)?,
            user_s: measured.spread(|f| f.user_s)?,
            sys_s: measured.spread(|f| f.sys_s)?,
            maxrss_bytes: measured.spread(|f| f.maxrss_bytes as f64)?,
            disk_bytes: measured.spread(|f| f.index_bytes as f64)?,
        })
    };
    all.filter_map(summary).collect()
}

/// Returns the JSON lines, one for each setup and operation.
pub(crate) fn json_lines(plan: &Plan, results: &Results) -> Result<Vec<String>> {
    #[derive(Serialize)]
    struct Line<'a> {
        v: u32,
        r#type: &'static str,
        #[serde(flatten)]
        summary: Summary<'a>,
    }
    let line = |summary| Line { v: VERSION, r#type: "bench_hcache", summary };
    lab::json_lines(summaries(plan, results).into_iter().map(line))
}

/// Returns the page for people.
fn summary(facts: &Facts, plan: &Plan, results: &Results, complete: bool) -> String {
    let mut page = Page::new("Header caches", complete);
    page.item(&format!("Mailbox: {}", counted(results.messages, "message")));
    let (times, cache) = (facts.times, facts.page_cache);
    page.item(&format!("Runs: {times} of each, in turn; page cache {cache}"));
    page.item(&format!("Machine: {}", facts.machine.text()));
    page.item(&format!("Program: {}", facts.barid));
    page.item(&format!("Memory: {}", floor(facts)));
    page.item(&format!("Libraries: {}", facts.stores.join(", ")));
    if let Some(neomutt) = &facts.neomutt {
        page.item(&format!("Compared with: {neomutt}"));
    }
    facts.notes.iter().for_each(|note| page.item(note));
    if facts.neomutt.is_some() {
        page.line(&format!("\n## barid to NeoMutt\n\n{RATIOS}"));
        if plan.has_peers() {
            page.line(&tables::ratios(plan, results).markdown());
        }
        tables::not_compared(plan).iter().for_each(|text| page.line(text));
    }
    page.line("");
    page.section("Medians", MEDIANS, &tables::medians(plan, results));
    page.commands(&facts.commands);
    if let Some(rc) = &facts.neomuttrc {
        page.line(&format!("\nA configuration of NeoMutt's:\n\n```\n{}\n```", rc.trim_end()));
    }
    page.text
}

/// Returns the tables for people: `*** populate`, `*** reload`, the newest page, sizes and memory,
/// and with NeoMutt the ratios.
pub(crate) fn text(facts: &Facts, plan: &Plan, results: &Results) -> String {
    let times = |work| tables::times(plan, results, work);
    let mut text = format!(
        "*** populate\n{}\n*** reload\n{}\n*** reload, newest 50\n{}\n\
         *** size and memory\n{}({})\n",
        times(Work::Populate),
        times(Work::Reload),
        times(Work::Page),
        tables::sizes(plan, results),
        floor(facts)
    );
    if facts.neomutt.is_some() {
        text.push_str("\n*** barid to neomutt\n");
        if plan.has_peers() {
            text.push_str(&tables::ratios(plan, results).text());
        }
        text.extend(tables::not_compared(plan).map(|line| line + "\n"));
    }
    text
}

/// Caption of the table of ratios.
const RATIOS: &str = "\
Medians; in brackets least and most of the runs that were made one after the other. `page` is \
barid's\nnewest 50 messages to NeoMutt's reload. The native cache stands against the best of \
NeoMutt's stores in\neach column.\n";

/// Caption of the table of medians.
const MEDIANS: &str = "\
Real time of the whole process: median, least and most. `reload` reads, decodes and prints every\n\
record, `page` the newest 50 by date. The size is that after reloading. Resident memory is the \
peak of\nall works with all file pages, anonymous memory the highest sample of runs that were not \
timed.\n";

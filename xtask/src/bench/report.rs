//! The table, and the folder in which the results of a run are kept.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use barid_testkit::{corpora, disk};

use super::figures::{Figures, Spread};
use super::world::{SEED, World};

/// Returns every bar with its measurement, then all medians, then the notes.
pub(crate) fn summary(figures: &Figures) -> String {
    let mut text = String::from("| work | bar | measured | |\n| --- | --- | --- | --- |\n");
    for bar in &figures.bars {
        let verdict = if bar.passed { "pass" } else { "**miss**" };
        let note = if bar.note.is_empty() { String::new() } else { format!(" ({})", bar.note) };
        line(
            &mut text,
            format_args!("| {} | {} | {}{note} | {verdict} |", bar.work, bar.bar, bar.measured),
        );
    }
    text.push_str(MEDIANS);
    let mut seen = Vec::new();
    for sample in &figures.samples {
        if seen.contains(&(sample.work, sample.side)) {
            continue;
        }
        seen.push((sample.work, sample.side));
        let spread: Spread = figures.wall(sample.work, sample.side);
        let (work, side) = (sample.work, sample.side);
        let usage = match sample.usage {
            Some(usage) => format!(
                "{:.3} | {:.3} | {:.1} MB",
                usage.user.as_secs_f64(),
                usage.sys.as_secs_f64(),
                usage.maxrss as f64 / 1e6
            ),
            None => "| | ".to_owned(),
        };
        line(&mut text, format_args!("| {work} | {side} | {} | {usage} |", spread.text()));
    }
    text.push('\n');
    for note in &figures.notes {
        line(&mut text, format_args!("- {note}"));
    }
    text
}

/// Writes `README.md`, `raw.csv` and `summary.md` to a new folder under `bench/runs`.
pub(crate) fn keep(
    world: &World,
    figures: &Figures,
    summary: &str,
    folder: Option<PathBuf>,
) -> Result<()> {
    let folder = folder.unwrap_or_else(new_folder);
    disk::create_dir_all(&folder)?;
    disk::write(&folder.join("summary.md"), summary.as_bytes())?;
    disk::write(&folder.join("raw.csv"), raw(figures).as_bytes())?;
    disk::write(&folder.join("README.md"), readme(world).as_bytes())?;
    println!("kept in {}", folder.display());
    Ok(())
}

/// Returns `bench/runs/DATE-CORES-core-linux`, with a number appended if it exists.
fn new_folder() -> PathBuf {
    let runs = corpora::repository().join("bench/runs");
    let name = format!("{}-{}-core-linux", said("date", &["-u", "+%Y-%m-%d"]), cores());
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    let free = names.find(|name| !disk::exists(&runs.join(name)));
    runs.join(free.expect("because the numbers do not end"))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn raw(figures: &Figures) -> String {
    let mut text = String::from("work,side,wall_s,user_s,sys_s,maxrss_bytes,anon_peak_bytes\n");
    for sample in &figures.samples {
        let wall = sample.wall.as_secs_f64();
        let usage = sample.usage.map_or_else(
            || ",,,".to_owned(),
            |usage| {
                let anon = usage.anon_peak.map_or(String::new(), |bytes| bytes.to_string());
                let (user, sys) = (usage.user.as_secs_f64(), usage.sys.as_secs_f64());
                format!("{user:.6},{sys:.6},{},{anon}", usage.maxrss)
            },
        );
        let work = sample.work.replace(',', "");
        line(&mut text, format_args!("{work},{},{wall:.6},{usage}", sample.side));
    }
    text
}

fn readme(world: &World) -> String {
    let cpu = disk::read_text("/proc/cpuinfo".as_ref()).unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cpu = cpu.trim_start_matches(['\t', ' ', ':']);
    let commit = said("git", &["rev-parse", "--short", "HEAD"]);
    let changed =
        if said("git", &["status", "--porcelain"]).is_empty() { "" } else { " and changes" };
    let (runs, scale) = (world.options.runs, world.options.scale);
    let mut text = String::from("# barid and its peers: opening mailboxes\n\n");
    line(
        &mut text,
        format_args!(
            "`cargo xtask bench open`, {runs} runs of each side in turn, mail of seed {SEED}, \
             scale 1/{scale}.\n"
        ),
    );
    let date = said("date", &["-u", "+%Y-%m-%d %H:%M"]);
    line(&mut text, format_args!("- Date: {date} UTC"));
    line(&mut text, format_args!("- Commit: {commit}{changed}"));
    let kernel = said("uname", &["-r"]);
    line(&mut text, format_args!("- Machine: {} cores, {cpu}, Linux {kernel}", cores()));
    let (dovecot, neomutt) = (world.dovecot.version(), world.neomutt.version());
    line(&mut text, format_args!("- Peers: Dovecot {dovecot}; {neomutt}"));
    text.push_str(METHOD);
    text
}

/// The head of the table of medians.
const MEDIANS: &str = "
Median (least-most), wall time of the whole process unless README.md says otherwise:

| work | side | time | user | sys | resident peak |
| --- | --- | --- | --- | --- | --- |
";

/// Description of the measurements.
const METHOD: &str = "- Page cache: warm. Output: thrown away.

barid: `barid --cache-dir C --state-dir S ls --sort date --limit 50 MAILBOX`, `ls MAILBOX`,
`thread --imap MAILBOX`; times are those of the whole process. Populating starts with empty C and
S, and without a `dovecot-uidlist` in the Maildir. The first threading follows one `ls`, so the
headers are cached and the threads are not.

NeoMutt: opens the Maildir on a terminal and exits (`folder-hook . exec exit`), header cache
tokyocabinet, `maildir_header_cache_verify=no`; times are those of the whole process.

Dovecot: its `imap` program; SELECT is timed from the start of the process to the answer, THREAD
from the command to its answer in a fresh session with warm indexes. It has a copy of the mbox
that holds its headers already, and its default lazy writes.

Memory is anonymous memory (RssAnon), sampled every half millisecond in runs that are not timed;
of runs under 50 ms the resident peak with all file pages stands for it. Both sides must give
the same answers before anything is timed: summary.md says which, and what was not compared. With
NeoMutt only the number of messages is.
";

/// Returns the output of a program.
fn said(program: &str, args: &[&str]) -> String {
    let mut command = Command::new(program);
    let output = command.args(args).current_dir(corpora::repository()).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).trim().to_owned()
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("because writing to a string does not fail");
}

//! What formats of mailboxes cost: barid, UW c-client and Dovecot with the same messages.
//!
//! It repeats Mark Crispin's comparison of 2006: a mailbox is selected, all of it is fetched, its
//! threads are found; and a text is looked for, and mailboxes are converted. Every work is done by
//! a new process, first as if it had never seen the mailbox, then again. Round 0 checks: what each
//! side answers must be what the messages are, or what all others answer. It is not timed.
//!
//! What was measured is written after each round, and when the bench is told to stop.

mod answer;
mod barid;
mod bars;
mod cclient;
mod dovecot;
mod maker;
mod material;
mod report;
mod results;
mod rounds;
mod step;
mod system;

pub use results::{Results, Run};
pub use step::{Program, Side, Step, Store, Turn, Work};
pub(crate) use system::{read_all, run_piped, with_libraries};

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Result, ensure};
use barid_testkit::disk;
use barid_testkit::peers::program;

use crate::Screen;
use crate::machine::Machine;
use crate::run::{Litter, drop_caches, grouped, is_interrupted, make_folder, version};
use maker::Maker;
use material::Material;
use report::Facts;
use rounds::{Lab, Progress};
use system::System;

/// Messages of the mailboxes that are made.
pub const MESSAGES: u64 = 40_000;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program under test, which begins with [`crate::launched`].
    pub program: PathBuf,
    /// How many messages there are.
    pub messages: u64,
    /// How many rounds.
    pub times: u32,
    /// The formats of barid.
    pub stores: Vec<Store>,
    /// What is done.
    pub works: Vec<Work>,
    /// Whom to compare with.
    pub peers: Vec<Program>,
    /// Whether to drop the kernel's caches before each timed step.
    pub drop_caches: bool,
    /// The folder for everything, which must not exist or be empty; `None` for a new one among the
    /// temporary files.
    pub out: Option<PathBuf>,
}

/// How a bench ended.
#[derive(Debug)]
pub struct Report {
    /// The folder with its files.
    pub folder: PathBuf,
    /// Whether it was told to stop before its last run.
    pub interrupted: bool,
    /// Everything that was measured.
    pub results: Results,
}

/// Measures. Takes minutes; ends early, and well, once `stop` is set.
///
/// # Errors
///
/// When an option is wrong, the disk has no room for the mailboxes, a program fails or gives a
/// wrong answer, or the disk fails. What was measured is written before.
pub fn run(options: &Options, screen: &mut dyn Screen, stop: &AtomicBool) -> Result<Report> {
    ensure!(options.times > 0, "at least one run is needed");
    ensure!(!options.stores.is_empty(), "at least one format is needed");
    if options.drop_caches {
        drop_caches()?;
    }
    let folder = make_folder("formats", options.out.as_deref())?;
    screen.folder(&folder)?;
    // Removed with everything in it, whatever happens.
    let work = Litter::new(folder.join("work"))?;
    screen.status("making the mailboxes");
    ensure_room(options, &work.0)?;
    let material = Material::generate(&work.0, options.messages)?;
    let bytes = grouped(material.bytes);
    screen.line(&format!("{} messages, {bytes} bytes", grouped(material.count)))?;
    let mut maker = Maker::new(options, &material, &work.0);
    let systems = maker.systems()?;
    let (works, commands) = (maker.works(), maker.commands());
    let notes = maker.notes;
    notes.iter().try_for_each(|note| screen.line(&format!("note: {note}")))?;
    let facts = facts(options, &systems, commands, notes, &work.0)?;
    let (is_cold, times, lab_folder) = (options.drop_caches, options.times, work.0.clone());
    let mut lab = Lab { systems, works, folder: lab_folder, is_cold, times, stop };
    let total = lab.steps();
    let mut progress = Progress { screen, started: Instant::now(), done: 0, total };
    let (messages, bytes) = (material.count, material.bytes);
    let mut results = Results { messages, bytes, is_cold, ..Results::default() };
    let mut after = |results: &Results| report::write(&folder, &facts, results, false);
    let ended = lab.run(&material, &mut results, &mut progress, &mut after);
    report::write(&folder, &facts, &results, ended.is_ok())?;
    let interrupted = is_interrupted(ended, &folder)?;
    Ok(Report { folder, interrupted, results })
}

fn ensure_room(options: &Options, work: &Path) -> Result<()> {
    /// What a message takes in a format with a file for each, at most.
    const MESSAGE_LEN: u64 = 8_192;
    let copies = options.stores.len() as u64 + if options.peers.is_empty() { 2 } else { 14 };
    let (free, needed) = (disk::free(work)?, options.messages * MESSAGE_LEN * copies);
    let folder = work.display();
    let (free, needed_mb) = (free / 1_000_000, needed / 1_000_000);
    ensure!(free > needed_mb, "{needed_mb} MB are needed in {folder} and {free} are free");
    Ok(())
}

fn facts(
    options: &Options,
    systems: &[Box<dyn System>],
    commands: Vec<String>,
    notes: Vec<String>,
    work: &Path,
) -> Result<Facts> {
    let has = |program| systems.iter().any(|system| system.side().program == program);
    let mut peers = Vec::new();
    if has(Program::CClient) {
        peers.push("UW c-client 2007f, as Debian has it (libc-client2007e)".to_owned());
    }
    if has(Program::Dovecot) {
        let version = program("dovecot").as_deref().map(version).transpose()?.unwrap_or_default();
        peers.push(format!("Dovecot {version}"));
    }
    let (barid, machine) = (version(&options.program)?, Machine::of(work));
    Ok(Facts { times: options.times, barid, peers, machine, commands, notes })
}

impl Report {
    /// The tables for people: bars, real time, ratios.
    pub fn text(&self) -> String {
        let results = &self.results;
        format!(
            "*** bars\n{}\n*** the first time\n{}\n*** again\n{}\n*** barid to the others\n{}",
            bars::table(&bars::bars(results)).text(),
            report::times(results, Turn::First).text(),
            report::times(results, Turn::Again).text(),
            report::ratios(results).text()
        )
    }

    /// The same for programs: JSON, a line for each side and step.
    ///
    /// # Errors
    ///
    /// None that is known.
    pub fn json_lines(&self) -> Result<Vec<String>> {
        report::json_lines(&self.results)
    }
}

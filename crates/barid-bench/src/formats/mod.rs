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

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Result, ensure};
use barid_testkit::disk;

use crate::lab::{
    self, CCLIENT, Facts, Litter, Machine, Progress, Screen, counted, dovecot, drop_caches,
    grouped, is_interrupted, make_folder, version,
};
use maker::Maker;
use material::Material;
use rounds::Rounds;
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
pub type Report = lab::Report<Results>;

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
    let facts = Facts { commands, notes, ..facts(options, &material, &systems, &work.0)? };
    let (is_cold, times, runs_folder) = (options.drop_caches, options.times, work.0.clone());
    let mut rounds = Rounds { systems, works, folder: runs_folder, is_cold, times, stop };
    let mut progress = Progress::new(screen, rounds.steps());
    let mut results = Results { bytes: material.bytes, is_cold, ..Results::default() };
    let mut after = |results: &Results| report::write(&folder, &facts, results, false);
    let ended = rounds.run(&material, &mut results, &mut progress, &mut after);
    report::write(&folder, &facts, &results, ended.is_ok())?;
    let interrupted = is_interrupted(ended, &folder)?;
    let (text, json_lines) = (report::text(&results), report::json_lines(&results)?);
    Ok(Report { folder, interrupted, results, text, json_lines })
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

/// All but commands and notes.
fn facts(
    options: &Options,
    material: &Material,
    systems: &[Box<dyn System>],
    work: &Path,
) -> Result<Facts> {
    let has = |program| systems.iter().any(|system| system.side().program == program);
    let mut peers = Vec::new();
    if has(Program::CClient) {
        peers.push(CCLIENT.to_owned());
    }
    if has(Program::Dovecot) {
        peers.push(dovecot()?);
    }
    let (count, bytes) = (counted(material.count, "message"), grouped(material.bytes));
    Ok(Facts {
        mail: vec![format!("Mail: {count}, {bytes} bytes as an mbox; generated")],
        times: options.times,
        page_cache: match options.drop_caches {
            true => "cold, but for the programs themselves",
            false => "warm",
        },
        barid: version(&options.program)?,
        peers,
        machine: Machine::of(work),
        commands: Vec::new(),
        notes: Vec::new(),
    })
}

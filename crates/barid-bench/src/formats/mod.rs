//! Cost of mailbox formats: barid, UW c-client and Dovecot with the same messages.
//!
//! The bench repeats Mark Crispin's comparison of 2006: it selects a mailbox, fetches all of it and
//! finds its threads. It also searches for a text and converts mailboxes. A new process does each
//! operation, first as if it had never seen the mailbox, then again. Round 0 checks the answers and
//! is not timed: the answer of each side must match the messages, or the answers of all others.
//!
//! Results are written after each round, and when the bench is stopped.

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

use crate::lab::{
    self, CCLIENT, Facts, Launcher, Litter, Machine, Progress, Reported as _, Screen, counted,
    dovecot, drop_caches, ensure_room, grouped, make_folder, version,
};
use maker::Maker;
use material::Material;
use rounds::Rounds;
use system::System;

/// Number of messages in the generated mailboxes.
pub const MESSAGES: u64 = 40_000;

/// The options of the bench.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program under test; its `main` calls [`crate::launched`] first.
    pub program: PathBuf,
    /// The process that starts the measured programs.
    pub launcher: Launcher,
    /// Number of messages.
    pub messages: u64,
    /// Number of timed rounds.
    pub times: u32,
    /// The formats of barid to measure.
    pub stores: Vec<Store>,
    /// The operations to measure.
    pub works: Vec<Work>,
    /// The programs to compare with.
    pub peers: Vec<Program>,
    /// `true` to drop the kernel's caches before each timed step.
    pub drop_caches: bool,
    /// The folder for all files, which must be empty or not exist; `None` for a new one in the
    /// temporary folder.
    pub out: Option<PathBuf>,
}

/// The outcome of the bench.
pub type Report = lab::Report<Results>;

/// Runs the bench. Takes minutes; returns early, without an error, once `stop` is set.
///
/// # Errors
///
/// Returns an error if an option is wrong, the disk has no room for the mailboxes, a program fails
/// or gives a wrong answer, or the disk fails. Results up to then are written.
pub fn run(options: &Options, screen: &mut dyn Screen, stop: &AtomicBool) -> Result<Report> {
    ensure!(options.times > 0, "at least one run is needed");
    ensure!(!options.stores.is_empty(), "at least one format is needed");
    if options.drop_caches {
        drop_caches()?;
    }
    let folder = make_folder("formats", options.out.as_deref())?;
    screen.folder(&folder)?;
    // Removed with its contents on every exit.
    let work = Litter::new(folder.join("work"))?;
    screen.status("making the mailboxes");
    ensure_room(&work.0, room(options))?;
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
    let results = Results { bytes: material.bytes, is_cold, ..Results::default() };
    results.report(folder, &facts, |results, after| {
        rounds.run(&material, results, &mut progress, after)
    })
}

/// Returns the bytes that all copies of the mailbox need.
fn room(options: &Options) -> u64 {
    /// Most bytes that a message occupies in a format with one file per message.
    const MESSAGE_LEN: u64 = 8_192;
    let copies = options.stores.len() as u64 + if options.peers.is_empty() { 2 } else { 14 };
    options.messages * MESSAGE_LEN * copies
}

/// Returns the facts except commands and notes.
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

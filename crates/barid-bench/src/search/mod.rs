//! Cost of searching texts, and what is found: barid with its text index and without, beside
//! notmuch, mu, mairix, and Dovecot with the text index of fts-xapian and without.
//!
//! All read the same Maildir. The bench builds every index, then compares all answers with the
//! truth, which it finds by a plain search in the texts of the messages; what a message says, it
//! decodes itself. barid may neither miss a message nor add one; of the others it is counted. Then
//! queries are timed, each put to one side after the other, and what deliveries cost.
//!
//! Results are written after each part, and when the bench is stopped.

mod barid;
mod bars;
mod copies;
mod decode;
mod dovecot;
mod material;
mod query;
mod report;
mod results;
mod rounds;
mod step;
mod system;
mod truth;
mod words;

pub use query::{Class, Field, Query};
pub use results::{Recall, Results, Run};
pub use step::{Side, Step};
pub use system::{Candidates, Size};

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, ensure};

use self::barid::Barid;
use self::dovecot::Dovecot;
use self::material::Material;
use self::rounds::Rounds;
use self::system::System;
use self::words::WordIndex;
use crate::lab::{
    self, Facts, Launcher, Litter, Machine, Progress, Reported as _, Runner, Screen, counted,
    ensure_room, grouped, make_folder, version,
};

/// Number of messages if they are generated.
pub const MESSAGES: u64 = 100_000;

/// Number of queries.
pub const QUERIES: usize = 205;

/// The options of the bench.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program under test.
    pub program: PathBuf,
    /// The process that starts the measured programs; its `main` calls [`crate::launched`] first.
    pub launcher: Launcher,
    /// A folder with messages, one file each; `None` for generated mail.
    pub mail: Option<PathBuf>,
    /// Number of messages; `None` for those of the folder, or [`MESSAGES`] generated ones.
    pub messages: Option<u64>,
    /// Number of queries.
    pub queries: usize,
    /// Number of queries of each class in each field that are put to all sides.
    pub peer_queries: usize,
    /// Number of timed rounds of queries and deliveries.
    pub times: u32,
    /// Number of times that each index is built.
    pub builds: u32,
    /// Number of messages that are delivered at once before the indexes are brought up to date.
    pub deliveries: u64,
    /// The programs to compare with.
    pub peers: Vec<Side>,
    /// Time between a change of files and the next step that opens them again, usually
    /// [`crate::limits::REST`].
    pub rest: Duration,
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
/// Returns an error if an option is wrong, the disk has no room for the indexes, a program fails,
/// barid gives a wrong answer, a delivered message is not found, or the disk fails. Results up to
/// then are written.
pub fn run(options: &Options, screen: &mut dyn Screen, stop: &AtomicBool) -> Result<Report> {
    ensure!(options.times > 0 && options.builds > 0, "at least one run is needed");
    ensure!(options.messages != Some(0), "at least one message is needed");
    ensure!(options.queries > 0 && options.peer_queries > 0, "at least one query is needed");
    let folder = make_folder("search", options.out.as_deref())?;
    screen.folder(&folder)?;
    // Removed with its contents on every exit.
    let work = Litter::new(folder.join("work"))?;
    screen.status("making the mailbox");
    let mut material = Material::make(&work.0, options)?;
    ensure_room(&work.0, room_for_indexes(options, &material))?;
    let mail = mail(options, &material);
    screen.line(&mail)?;
    let Sides { systems, peers, notes } = sides(options, &material, &work.0)?;
    notes.iter().try_for_each(|note| screen.line(&format!("note: {note}")))?;
    let commands = systems.iter().flat_map(|system| system.commands());
    let facts = Facts {
        mail: vec![mail, format!("Many deliveries: {}", grouped(options.deliveries))],
        times: options.times,
        page_cache: "warm",
        barid: version(&options.program)?,
        peers,
        machine: Machine::of(&work.0),
        commands: commands.map(|line| without_paths(&line, options, &work.0)).collect(),
        notes,
    };
    let mut rounds = Rounds {
        systems,
        folder: work.0.clone(),
        queries: (options.queries, options.peer_queries),
        times: options.times,
        builds: options.builds,
        deliveries: options.deliveries,
        refused: Vec::new(),
        rest: options.rest,
        stop,
    };
    let mut progress = Progress::new(screen, rounds.steps());
    Results::default().report(folder, &facts, |results, after| {
        rounds.run(&mut material, results, &mut progress, after)
    })
}

/// Returns a line about the mail.
fn mail(options: &Options, material: &Material) -> String {
    let source = if options.mail.is_some() { "given" } else { "generated" };
    let count = counted(material.count, "message");
    format!("Maildir: {count}, {} bytes; {source}", grouped(material.bytes))
}

/// Returns the bytes that all indexes need.
fn room_for_indexes(options: &Options, material: &Material) -> u64 {
    /// Bytes of all indexes but one for each byte of mail: notmuch's alone are nearly three.
    const PARTS: u64 = 5;
    /// The bytes of that of fts-xapian.
    const FTS_PARTS: u64 = 8;
    let parts = PARTS + if options.peers.contains(&Side::Fts) { FTS_PARTS } else { 0 };
    material.bytes * parts
}

/// The sides that can run, and what a report says of them.
struct Sides {
    systems: Vec<Box<dyn System>>,
    peers: Vec<String>,
    notes: Vec<String>,
}

fn sides(options: &Options, material: &Material, work: &Path) -> Result<Sides> {
    let runner = || Runner { launcher: options.launcher.clone(), folder: work.to_owned() };
    let barid = |side: Side| Barid {
        program: options.program.clone(),
        runner: runner(),
        maildir: material.maildir(),
        folder: work.join(side.name()),
        side,
    };
    let mut sides = Sides {
        systems: vec![Box::new(barid(Side::Barid)), Box::new(barid(Side::Linear))],
        peers: Vec::new(),
        notes: Vec::new(),
    };
    for side in Side::PEERS.into_iter().filter(|side| options.peers.contains(side)) {
        match side {
            Side::Dovecot | Side::Fts => match Dovecot::new(side, material.linked.clone()) {
                Some(system) => {
                    let with = if side == Side::Fts { ", fts-xapian" } else { "" };
                    sides.peers.push(format!("{side}: {}{with}", lab::dovecot()?));
                    sides.systems.push(Box::new(system));
                }
                None => sides.notes.push(format!("skipped: {side} is missing")),
            },
            _ => match WordIndex::new(side, runner(), work, material)? {
                Some(system) => {
                    sides.peers.push(format!("{side}: {}", system.version()?));
                    sides.systems.push(Box::new(system));
                }
                None => sides.notes.push(format!("skipped: {side} is missing")),
            },
        }
    }
    Ok(sides)
}

/// Returns a command line without the paths of this machine.
fn without_paths(line: &str, options: &Options, work: &Path) -> String {
    let line = line.replace(&*options.program.to_string_lossy(), "barid");
    line.replace(&*work.to_string_lossy(), "DIR")
}

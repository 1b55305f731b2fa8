//! Cost of rewriting a large mbox: barid, Dovecot and UW c-client on copies of the same file.
//!
//! The bench repeats Timo Sirainen's comparison of 2004: status headers are added to every message,
//! then flags are set and messages expunged and appended. Round 0 checks and is not timed: after
//! each step every side's file must contain the messages, and the side must see the UIDs and flags,
//! that a model of the steps predicts. Memory is sampled and barriers are counted in it. In each
//! later round every side gets a fresh copy and does all steps. barid and Dovecot take turns step
//! by step; Dovecot with lazy writes and c-client run after them, so that at most three copies are
//! on the disk.
//!
//! Results are written after each round, and when the bench is stopped.

mod barid;
mod bars;
mod cclient;
mod dovecot;
mod material;
mod model;
mod report;
mod results;
mod rounds;
mod step;
mod system;

pub use results::{Results, Run};
pub use step::{Side, Step};

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;
use barid_testkit::peers::{CClient as CClientPeer, Dovecot as DovecotPeer, program};
use barid_testkit::usage::Sampling;

use crate::lab::{
    self, CCLIENT, Facts, Launcher, Litter, Machine, Progress, Reported as _, Runner, Screen,
    counted, dovecot, drop_caches, ensure_room, grouped, make_folder, short, version,
};
use barid::Barid;
use material::Material;
use rounds::Rounds;
use system::{Mode, System};

/// Number of messages in the generated mailbox, as in the comparison of 2004.
pub const MESSAGES: u64 = 361_052;

/// Number of copies of the mailbox that must fit on the disk, besides a quarter for growth.
const COPIES: u64 = 4;

/// The options of the bench.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program under test; its `main` calls [`crate::launched`] first.
    pub program: PathBuf,
    /// The process that starts the measured programs.
    pub launcher: Launcher,
    /// The mbox; `None` to generate one.
    pub mbox: Option<PathBuf>,
    /// Number of messages in a generated mailbox.
    pub messages: u64,
    /// Number of timed rounds.
    pub times: u32,
    /// The sides to compare with.
    pub peers: Vec<Side>,
    /// `true` to drop the kernel's caches before each timed step.
    pub drop_caches: bool,
    /// The folder for all files, which must be empty or not exist; `None` for a new one in the
    /// temporary folder.
    pub out: Option<PathBuf>,
}

/// The outcome of the bench.
pub type Report = lab::Report<Results>;

/// Runs the bench. Takes minutes to hours; returns early, without an error, once `stop` is set.
///
/// # Errors
///
/// Returns an error if an option is wrong, the disk has no room for 4.25 times the mailbox, a
/// program fails or gives a wrong answer, or the disk fails. Results up to then are written.
pub fn run(options: &Options, screen: &mut dyn Screen, stop: &AtomicBool) -> Result<Report> {
    ensure!(options.times > 0, "at least one run is needed");
    if options.drop_caches {
        drop_caches()?;
    }
    let folder = make_folder("mbox", options.out.as_deref())?;
    screen.folder(&folder)?;
    // Removed with its contents on every exit.
    let work = Litter::new(folder.join("work"))?;
    let material = material(options, &work.0, screen)?;
    let mut notes = Vec::new();
    let mut rounds = rounds(options, &work.0, &mut notes, stop);
    notes.iter().try_for_each(|note| screen.line(&format!("note: {note}")))?;
    let facts = facts(options, &material, &work.0, notes)?;
    let mut progress = Progress::new(screen, rounds.steps());
    Results::default().report(folder, &facts, |results, after| {
        rounds.run(&material, results, &mut progress, after)
    })
}

fn material(options: &Options, work: &Path, screen: &mut dyn Screen) -> Result<Material> {
    /// Average bytes per generated message, taken from a mailbox of known size.
    const MESSAGE_LEN: u64 = 3_940;
    let len = match &options.mbox {
        Some(mbox) => disk::size(mbox).with_context(|| mbox.display().to_string())?,
        None => options.messages * MESSAGE_LEN,
    };
    ensure_room(work, len * COPIES + len / 4)?;
    let material = match &options.mbox {
        Some(mbox) => Material::copy(work, mbox),
        None => {
            screen.status("making the mailbox");
            Material::generate(work, options.messages)
        }
    }?;
    let (messages, bytes) = (grouped(material.model.len() as u64), grouped(material.base_len));
    screen.line(&format!("{messages} messages, {bytes} bytes"))?;
    Ok(material)
}

fn rounds<'a>(
    options: &Options,
    work: &Path,
    notes: &mut Vec<String>,
    stop: &'a AtomicBool,
) -> Rounds<'a> {
    let launcher = options.launcher.clone();
    let runner = Runner { launcher, folder: work.to_owned() };
    let mut groups: Vec<Vec<Box<dyn System>>> =
        vec![vec![Box::new(barid(options, work, &runner))], Vec::new()];
    for side in Side::PEERS.into_iter().filter(|side| options.peers.contains(side)) {
        let group = usize::from(side != Side::Dovecot);
        match peer(side, work) {
            Some(system) => groups[group].push(system),
            None => notes.push(format!("skipped: {side} is missing")),
        }
    }
    let (is_cold, times) = (options.drop_caches, options.times);
    Rounds { groups, runner, is_cold, times, stop }
}

const NO_MODE: Mode = Mode { sampling: Sampling::Off, is_counted: false };

fn barid(options: &Options, work: &Path, runner: &Runner) -> Barid {
    let (program, file) = (options.program.clone(), work.join("barid/mbox"));
    Barid { program, file, runner: runner.clone(), mode: NO_MODE }
}

/// Returns the adapter of a peer; `None` if it is not installed.
fn peer(side: Side, work: &Path) -> Option<Box<dyn System>> {
    let (file, mode) = (work.join(format!("{side}/mbox")), NO_MODE);
    if side == Side::CClient {
        // A start shows whether c-client works.
        drop(CClientPeer::new()?);
        return Some(Box::new(cclient::CClient { file, mode, session: None }));
    }
    let peer = DovecotPeer::new()?;
    let is_lazy = side == Side::DovecotLazy;
    Some(Box::new(dovecot::Dovecot { peer, is_lazy, file, mode, session: None }))
}

fn facts(options: &Options, material: &Material, work: &Path, notes: Vec<String>) -> Result<Facts> {
    let mut peers = Vec::new();
    if options.peers.iter().any(|peer| *peer != Side::CClient) && program("dovecot").is_some() {
        peers.push(dovecot()?);
    }
    if options.peers.contains(&Side::CClient) && CClientPeer::new().is_some() {
        peers.push(CCLIENT.to_owned());
    }
    let mail = match &options.mbox {
        Some(mbox) => mbox.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        None => "generated, without status headers".to_owned(),
    };
    let messages = counted(material.model.len() as u64, "message");
    Ok(Facts {
        mail: vec![format!("Mailbox: {messages}, {} bytes; {mail}", grouped(material.base_len))],
        times: options.times,
        page_cache: if options.drop_caches { "cold" } else { "warm" },
        barid: version(&options.program)?,
        peers,
        machine: Machine::of(work),
        commands: commands(options, material, work),
        notes,
    })
}

/// Returns barid's command lines, without the paths of this machine.
fn commands(options: &Options, material: &Material, work: &Path) -> Vec<String> {
    let runner = Runner { launcher: Launcher::new(PathBuf::new()), folder: work.to_owned() };
    let barid = barid(options, work, &runner);
    let mut model = material.model.clone();
    let mut lines = Vec::new();
    for step in Step::ALL.into_iter().filter(|step| step.is_of(Side::Barid) && !step.is_read()) {
        let words = barid.words(step, &model, material).join(" ");
        let words = words.replace(&*work.to_string_lossy(), "DIR");
        lines.push(format!("barid {}", short(&words)));
        model = model.after(step, &material.batch(step).hashes);
    }
    lines
}

//! Cost of opening mailboxes: barid beside NeoMutt and its header cache, and beside Dovecot.
//!
//! A Maildir of 100,000 messages, an mbox of 361,052 and a Maildir of 1,000,000 are opened for the
//! first time, again, and after a delivery; the threads of the mbox are found. Before anything is
//! timed, all sides must see the same messages, the same newest 50 by date and the same threads.
//!
//! Results are written after each round, and when the bench is stopped.

mod barid;
mod bars;
mod dovecot;
mod machine;
mod material;
mod neomutt;
mod report;
mod results;
mod rounds;
mod step;
mod system;

pub use results::{Results, Run};
pub use step::{Part, Side, Step};

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;
use barid_testkit::peers::{Dovecot as DovecotPeer, program};

use crate::lab::{
    self, Facts, Launcher, Litter, Machine as MachineFacts, Progress, Reported as _, Runner,
    Screen, counted, ensure_room, fresh_folder, grouped, make_folder, short, version,
};
use crate::systems::barid::BaridProcess;
use crate::systems::neomutt::{Build, NeoMuttProcess};
use barid::Barid;
use dovecot::Dovecot;
use machine::Machine;
use material::{GeneratedMailbox, MAILDIR_LEN, MBOX_LEN, MILLION, Material};
use neomutt::{NeoMutt, STORE};
use rounds::Rounds;
use system::System;

/// The options of the bench.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program under test; its `main` calls [`crate::launched`] first.
    pub program: PathBuf,
    /// The process that starts the measured programs.
    pub launcher: Launcher,
    /// The parts to measure.
    pub parts: Vec<Part>,
    /// Divisor of the numbers of messages.
    pub scale: u64,
    /// Number of timed rounds.
    pub times: u32,
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
/// Returns an error if an option is wrong, the disk has no room for the mailboxes, a program fails
/// or sees other messages, or the disk fails. Results up to then are written.
pub fn run(options: &Options, screen: &mut dyn Screen, stop: &AtomicBool) -> Result<Report> {
    ensure!(options.times > 0, "at least one run is needed");
    ensure!(!options.parts.is_empty(), "at least one part is needed");
    ensure!(options.scale > 0, "the scale must be at least 1");
    let folder = make_folder("open", options.out.as_deref())?;
    screen.folder(&folder)?;
    // Removed with its contents on every exit.
    let work = Litter::new(folder.join("work"))?;
    screen.status("making the mailboxes");
    ensure_room(&work.0, room(options))?;
    let material = Rc::new(Material::generate(&work.0, &options.parts, options.scale)?);
    let mail = mail(&material);
    mail.iter().try_for_each(|line| screen.line(line))?;
    let (systems, facts) = systems(options, &material, &work.0)?;
    facts.notes.iter().try_for_each(|note| screen.line(&format!("note: {note}")))?;
    let facts = Facts { mail, ..facts };
    let parts = Part::ALL.into_iter().filter(|part| options.parts.contains(part)).collect();
    let (times, rest, runs_folder) = (options.times, options.rest, work.0.clone());
    let mut rounds = Rounds { systems, parts, folder: runs_folder, times, rest, stop };
    let mut progress = Progress::new(screen, rounds.steps());
    Results::default().report(folder, &facts, |results, after| {
        rounds.run(&material, results, &mut progress, after)
    })
}

/// Returns a line about each mailbox.
fn mail(material: &Material) -> Vec<String> {
    let line = |name: &str, mailbox: &Option<GeneratedMailbox>| {
        let GeneratedMailbox { count, bytes, .. } = mailbox.as_ref()?;
        Some(format!(
            "{name}: {}, {} bytes; generated",
            counted(*count, "message"),
            grouped(*bytes)
        ))
    };
    let all = [
        line("Maildir", &material.maildir),
        line("mbox", &material.mbox),
        line("Large Maildir", &material.million),
    ];
    all.into_iter().flatten().collect()
}

/// Returns the bytes that the mailboxes need, with all indexes.
fn room(options: &Options) -> u64 {
    /// Most bytes that a message occupies, with a copy and the indexes of all sides.
    const MESSAGE_LEN: u64 = 14_000;
    let messages = |part: &Part| match part {
        Part::Maildir => MAILDIR_LEN,
        Part::Mbox | Part::Thread => MBOX_LEN,
        Part::Million => MILLION + MAILDIR_LEN,
    };
    let count: u64 = options.parts.iter().map(messages).sum();
    count / options.scale * MESSAGE_LEN
}

/// Makes the sides that can run, and returns them with the facts about them, except the mail.
fn systems(
    options: &Options,
    material: &Rc<Material>,
    work: &Path,
) -> Result<(Vec<Box<dyn System>>, Facts)> {
    let runner = Runner { launcher: options.launcher.clone(), folder: work.to_owned() };
    let process = BaridProcess { program: options.program.clone(), runner };
    let mbox_len = material.mbox.as_ref().map(|mbox| disk::size(&mbox.path)).transpose()?;
    let mbox_len = mbox_len.unwrap_or_default();
    let material = || Rc::clone(material);
    let barid = Barid { process, material: material(), mbox_len, delivered: 0 };
    let commands = commands(options, &barid, work)?;
    let (mut peers, mut notes) = (Vec::new(), Vec::new());
    let mut systems: Vec<Box<dyn System>> = vec![Box::new(barid)];
    let needs_neomutt = options.parts.contains(&Part::Maildir);
    if options.peers.contains(&Side::NeoMutt) && needs_neomutt {
        match neomutt(options, &material(), work)? {
            Some((version, system)) => {
                peers.push(version);
                systems.push(Box::new(system));
            }
            None => notes.push("skipped: neomutt is missing".to_owned()),
        }
    }
    if options.peers.contains(&Side::Dovecot) {
        match dovecot(material(), work)? {
            Some(system) => {
                peers.push(lab::dovecot()?);
                systems.push(Box::new(system));
            }
            None => notes.push("skipped: dovecot is missing".to_owned()),
        }
    }
    systems.push(Box::new(Machine { material: material() }));
    let facts = Facts {
        mail: Vec::new(),
        times: options.times,
        page_cache: "warm",
        barid: version(&options.program)?,
        peers,
        machine: MachineFacts::of(work),
        commands,
        notes,
    };
    Ok((systems, facts))
}

fn neomutt(
    options: &Options,
    material: &Rc<Material>,
    work: &Path,
) -> Result<Option<(String, NeoMutt)>> {
    let Some(program) = program("neomutt") else { return Ok(None) };
    let build = Build::of(&program)?;
    ensure!(build.has(STORE, None), "{}: has no store {STORE}", program.display());
    let folder = work.join("neomutt");
    fresh_folder(&folder)?;
    let process = NeoMuttProcess { program, launcher: options.launcher.clone() };
    let version = format!("{}, header cache {STORE}", build.version);
    Ok(Some((version, NeoMutt { process, material: Rc::clone(material), folder })))
}

fn dovecot(material: Rc<Material>, work: &Path) -> Result<Option<Dovecot>> {
    let Some(peer) = DovecotPeer::new() else { return Ok(None) };
    let folder = work.join("dovecot");
    fresh_folder(&folder)?;
    let dovecot = Dovecot { peer, material, mbox: folder.join("box") };
    if let Some(mbox) = &dovecot.material.mbox {
        disk::copy(&mbox.path, &dovecot.mbox).with_context(|| folder.display().to_string())?;
        material::hand_over(&folder)?;
        dovecot.fill()?;
    }
    Ok(Some(dovecot))
}

/// Returns barid's command lines, without the paths of this machine.
fn commands(options: &Options, barid: &Barid, work: &Path) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for step in Step::ALL.into_iter().filter(|step| step.is_of(Side::Barid)) {
        if options.parts.contains(&step.part()) {
            let words = barid.words(step)?.join(" ");
            let words = words.replace(&*work.to_string_lossy(), "DIR");
            let line = format!("barid {}", short(&words));
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    Ok(lines)
}

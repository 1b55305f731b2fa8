//! Cost of an IMAP server: `barid serve`, and Dovecot with its master process, over copies of the
//! same Maildir and the same mbox.
//!
//! Clients of the bench talk to the servers on the loopback interface. Measured are the CPU time of
//! all processes of the server, the time that a client waits, and the memory of idle sessions.
//! Round 0 checks and is not timed: the answers of all servers must be equal.
//!
//! Results are written after each step, and when the bench is stopped.

mod answers;
mod bars;
mod client;
mod material;
mod report;
mod results;
mod rounds;
mod step;
mod system;
mod work;

pub use results::{Results, Run};
pub use step::{Side, Step, Work};

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;
use barid_testkit::peers::DovecotMaster;

use crate::lab::{
    self, Facts, Litter, Machine, Progress, Reported as _, Screen, command_line, dovecot, grouped,
    make_folder, version,
};
use material::{Material, hand_over};
use rounds::Rounds;
use system::System;
use work::Bench;

/// Users with small mailboxes.
pub(crate) const USERS: u64 = 100;

/// Sizes of the mail and of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Messages of the small mailbox of each user.
    pub small: u64,
    /// Messages of the mailbox that is selected and whose flags are fetched.
    pub large: u64,
    /// Messages of the mailbox whose envelopes and bodies are fetched.
    pub middle: u64,
    /// Messages of the mailbox that is threaded.
    pub threads: u64,
    /// Logins in a row.
    pub logins: u64,
    /// Idle sessions.
    pub sessions: u64,
    /// Messages that each session appends.
    pub appends: u64,
    /// Messages that are moved at once.
    pub moved: u64,
    /// Sessions that select a mailbox again.
    pub selects: u64,
    /// Repetitions of a command of a few hundred milliseconds.
    pub repeats: u64,
}

impl Sizes {
    /// The sizes of the published figures.
    pub const FULL: Self = Self {
        small: 100,
        large: 100_000,
        middle: 40_000,
        threads: 361_052,
        logins: 200,
        sessions: 1_000,
        appends: 200,
        moved: 1_000,
        selects: 20,
        repeats: 10,
    };

    /// Sizes for a trial of a few seconds.
    pub const QUICK: Self = Self {
        small: 10,
        large: 300,
        middle: 200,
        threads: 400,
        logins: 5,
        sessions: 20,
        appends: 5,
        moved: 20,
        selects: 3,
        repeats: 2,
    };
}

/// The options of the bench.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program under test.
    pub program: PathBuf,
    /// Sizes of the mail and of the work.
    pub sizes: Sizes,
    /// Number of timed rounds.
    pub times: u32,
    /// The works to measure.
    pub works: Vec<Work>,
    /// `false` to leave Dovecot out.
    pub with_dovecot: bool,
    /// The folder for all files, which must be empty or not exist; `None` for a new one in the
    /// temporary folder.
    pub out: Option<PathBuf>,
}

/// The outcome of the bench.
pub type Report = lab::Report<Results>;

/// Runs the bench. Takes up to an hour; returns early, without an error, once `stop` is set.
///
/// # Errors
///
/// Returns an error if an option is wrong, a server fails or gives a wrong answer, or the disk
/// fails. Results up to then are written.
pub fn run(options: &Options, screen: &mut dyn Screen, stop: &AtomicBool) -> Result<Report> {
    ensure!(options.times > 0, "at least one run is needed");
    let folder = make_folder("imap", options.out.as_deref())?;
    screen.folder(&folder)?;
    // Removed with its contents on every exit.
    let work = Litter::new(folder.join("work"))?;
    let material = Material::new(work.0.join("material"), options.sizes);
    material.forget()?;
    let benches = benches(options, &work.0, &material, screen)?;
    let facts = facts(options, &benches, &work.0)?;
    let steps = Step::of(&options.works);
    let rounds = Rounds { benches, steps, times: options.times, stop };
    let mut progress = Progress::new(screen, rounds.lines());
    Results::default()
        .report(folder, &facts, |results, after| rounds.run(results, &mut progress, after))
}

/// Returns the servers that are installed.
fn benches<'a>(
    options: &Options,
    work: &Path,
    material: &'a Material,
    screen: &mut dyn Screen,
) -> Result<Vec<Bench<'a>>> {
    let has_dovecot = options.with_dovecot && DovecotMaster::is_installed();
    if options.with_dovecot && !has_dovecot {
        screen.line("note: dovecot is not installed")?;
    }
    let sides = Side::ALL.into_iter().filter(|side| *side == Side::Barid || has_dovecot);
    let bench = |(number, side): (usize, Side)| {
        let folder = work.join(format!("server{number}"));
        disk::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        hand_over(&folder)?;
        let sessions_max = options.sizes.sessions as u32 + 100;
        let system = System { side, program: options.program.clone(), folder, sessions_max };
        Ok(Bench::new(system, material, options.sizes))
    };
    sides.enumerate().map(bench).collect()
}

fn facts(options: &Options, benches: &[Bench<'_>], work: &Path) -> Result<Facts> {
    let Sizes { small, large, middle, threads, .. } = options.sizes;
    let commands = benches.iter().filter(|bench| bench.system.side == Side::Barid).map(|bench| {
        let line = command_line(&bench.system.command());
        let (program, folder) = (options.program.to_string_lossy(), work.to_string_lossy());
        line.replace(&*program, "barid").replace(&*folder, "DIR")
    });
    Ok(Facts {
        mail: vec![
            format!("Mail: generated; {USERS} users with {} messages each", grouped(small)),
            format!(
                "Large mailboxes: {} messages (select, flags), {} (envelopes, bodies, text), {} \
                 (threads)",
                grouped(large),
                grouped(middle),
                grouped(threads)
            ),
        ],
        times: options.times,
        page_cache: "warm",
        barid: version(&options.program)?,
        peers: if benches.len() > 1 { vec![dovecot()?] } else { Vec::new() },
        machine: Machine::of(work),
        commands: commands.collect(),
        notes: vec![
            "TLS: a certificate of its own for each server, both with keys on the curve P-256; \
             no session is resumed"
                .to_owned(),
            "Password: in clear in Dovecot's configuration, as a digest in barid's".to_owned(),
        ],
    })
}

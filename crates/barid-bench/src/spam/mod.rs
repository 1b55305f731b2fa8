//! Cost of the spam filter: barid as a drop-in for bogofilter, barid's own commands, and bogofilter
//! with each of its databases.
//!
//! The bench repeats Greg Louis' measurements of 2003: it registers spam and ham from mboxes,
//! classifies messages in one process and in a process each, with a list that is in memory and one
//! that is not, and dumps a list. It also classifies messages with a small list and a large one.
//! Round 0 checks and is not timed: word lists and scores must equal those of the first side.
//!
//! Results are written after each round, and when the bench is stopped.

mod answer;
mod bars;
mod material;
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

use crate::lab::{
    self, Facts, Launcher, Litter, Machine, Progress, Reported as _, Runner, Screen, drop_caches,
    grouped, make_folder, version,
};
use material::{Mail, Material};
use rounds::Rounds;
use system::Filter;

/// Number of messages of spam to register.
pub const SPAM: u64 = 14_309;

/// Number of messages of ham to register and classify.
pub const HAM: u64 = 6_366;

/// Number of messages that are classified by a process each.
pub const SINGLES: u64 = 200;

/// Tokens of the large list; the middle one has a tenth of them, the small one 1/500.
pub const TOKENS: u64 = 5_000_000;

/// The options of the bench.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program under test; its `main` calls [`crate::launched`] first.
    pub program: PathBuf,
    /// The process that starts the measured programs.
    pub launcher: Launcher,
    /// Number of messages of spam.
    pub spam: u64,
    /// Number of messages of ham.
    pub ham: u64,
    /// Number of messages of ham that are classified by a process each.
    pub singles: u64,
    /// Tokens of the large list.
    pub tokens: u64,
    /// A folder with messages of spam, one file each; `None` for generated mail.
    pub spam_mail: Option<PathBuf>,
    /// A folder with messages of ham, one file each; `None` for generated mail.
    pub ham_mail: Option<PathBuf>,
    /// Number of timed rounds.
    pub times: u32,
    /// The steps to measure.
    pub steps: Vec<Step>,
    /// The builds of bogofilter to compare with.
    pub peers: Vec<Side>,
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
/// Returns an error if an option is wrong, a program fails or gives a wrong answer, or the disk
/// fails. Results up to then are written.
pub fn run(options: &Options, screen: &mut dyn Screen, stop: &AtomicBool) -> Result<Report> {
    ensure!(options.times > 0, "at least one run is needed");
    ensure!(options.spam > 0 && options.ham > 0, "at least one message of each kind is needed");
    ensure!((1..=options.ham).contains(&options.singles), "not so many messages of ham");
    if options.steps.contains(&Step::ClassifyCold) {
        drop_caches()?;
    }
    let folder = make_folder("spam", options.out.as_deref())?;
    screen.folder(&folder)?;
    // Removed with its contents on every exit.
    let work = Litter::new(folder.join("work"))?;
    screen.status("making the mail");
    let material = Material::make(&work.0, options)?;
    for (name, mail) in [("spam", &material.spam), ("ham", &material.ham)] {
        let (count, bytes) = (grouped(mail.count), grouped(mail.bytes));
        screen.line(&format!("{count} messages of {name}, {bytes} bytes"))?;
    }
    let filters = filters(options, &work.0, screen)?;
    let facts = facts(options, &filters, &material, &work.0)?;
    let (steps, times, runs_folder) = (options.steps.clone(), options.times, work.0.clone());
    let tokens = tokens(options);
    let rounds = Rounds { filters, steps, tokens, folder: runs_folder, times, stop };
    let mut progress = Progress::new(screen, rounds.steps());
    Results::default().report(folder, &facts, |results, after| {
        rounds.run(&material, results, &mut progress, after)
    })
}

/// Returns the numbers of tokens of the small, the middle and the large list.
fn tokens(options: &Options) -> [u64; 3] {
    [options.tokens / 500, options.tokens / 10, options.tokens].map(|tokens| tokens.max(1))
}

/// Returns barid, and the requested builds of bogofilter that are installed.
fn filters(options: &Options, work: &Path, screen: &mut dyn Screen) -> Result<Vec<Filter>> {
    let mut filters = Vec::new();
    for side in Side::ALL {
        if !side.is_own() && !options.peers.contains(&side) {
            continue;
        }
        let folder = work.join("runs");
        disk::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let runner = Runner { launcher: options.launcher.clone(), folder };
        match Filter::new(side, &options.program, work, runner) {
            Some(filter) => filters.push(filter),
            None => screen.line(&format!("note: {side} is not installed"))?,
        }
    }
    Ok(filters)
}

fn facts(options: &Options, filters: &[Filter], material: &Material, work: &Path) -> Result<Facts> {
    let (program, folder) = (options.program.to_string_lossy(), work.to_string_lossy());
    let beside = options.program.with_file_name("").to_string_lossy().into_owned();
    let short = |script: String| {
        script.replace(&*program, "barid").replace(&*folder, "DIR").replace(&beside, "")
    };
    let of = |filter: &Filter| {
        let steps = options.steps.iter().filter(|step| step.is_of(filter.side));
        let steps = steps.filter(|_| filter.side != Side::Daemon);
        let scripts = steps.map(|step| short(filter.script(*step, material)));
        scripts.collect::<Vec<_>>()
    };
    let source = match (&options.spam_mail, &options.ham_mail) {
        (None, None) => "generated",
        (Some(_), Some(_)) => {
            "given, a file each; as often as is needed, each with a header of its own"
        }
        _ => "one of them given, the other generated",
    };
    let mail = |name, mail: &Mail| {
        format!(
            "{name}: {} messages, {} bytes as an mbox",
            grouped(mail.count),
            grouped(mail.bytes)
        )
    };
    let [small, middle, large] = tokens(options).map(grouped);
    Ok(Facts {
        mail: vec![
            mail("Spam", &material.spam),
            mail("Ham", &material.ham),
            format!("Mail: {source}"),
            format!("Lists: small {small}, cold and dumped {middle}, large {large} tokens"),
            format!("A process each: {} messages", grouped(options.singles)),
        ]
        .into_iter()
        .chain(filters.iter().filter_map(Filter::small_program))
        .collect(),
        times: options.times,
        page_cache: "warm",
        barid: version(&options.program)?,
        peers: filters.iter().filter_map(Filter::version).collect(),
        machine: Machine::of(work),
        commands: filters.iter().flat_map(of).collect(),
        notes: Vec::new(),
    })
}

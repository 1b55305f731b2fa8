//! Comparison of header caches for one mailbox on one machine: stores times compressions, with
//! NeoMutt for comparison.
//!
//! Round 0 checks and is not timed; memory is sampled in it. The listing through every cache must
//! equal the one without a cache, and NeoMutt must see as many messages. Each later round populates
//! every setup from nothing and reloads it: `barid ls` for every record, the newest 50 for a page.
//! NeoMutt's setup with the same store and compression runs directly after it, so that other load
//! on the machine affects both. The mailbox is never written to.
//!
//! Results are written after each round, and when the bench is stopped.

mod barid;
mod chart;
mod charts;
mod compare;
mod key;
mod method;
mod neomutt;
mod plan;
mod report;
mod results;
mod rounds;
mod survey;
mod system;
mod tables;
#[cfg(test)]
mod testing;

pub use key::{Key, NATIVE, System, Work};
pub use method::{METHODS, Method};
pub use results::{Results, Run};

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;
use barid_testkit::peers::NeoMuttEnd;

use crate::lab::{
    self, Launcher, Machine, Progress, Screen, command_line, drop_caches, is_interrupted,
    make_folder, version,
};
use crate::systems::neomutt::{Build, NeoMuttProcess};
use plan::{Plan, StoreChoice};
use report::Facts;
use rounds::Rounds;
use survey::Survey;

/// The options of the bench.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program under test; its `main` calls [`crate::launched`] first.
    pub program: PathBuf,
    /// The process that starts the measured programs.
    pub launcher: Launcher,
    /// The mailbox, a Maildir.
    pub maildir: PathBuf,
    /// Number of timed rounds.
    pub times: u32,
    /// The stores, each `native` or `NAME[:builtin]`; `None` for all that are usable here.
    pub stores: Option<Vec<String>>,
    /// The compressions of single records.
    pub methods: Vec<Method>,
    /// `true` to run the stores' own compressions as well.
    pub builtin: bool,
    /// The NeoMutt to compare with, if any.
    pub neomutt: Option<PathBuf>,
    /// `true` to drop the kernel's caches before each timed run.
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
/// Returns an error if an option is wrong, a program fails (the error names the command and the
/// file with its output) or gives a wrong answer, or the disk fails. Results up to then are
/// written.
pub fn run(options: &Options, screen: &mut dyn Screen, stop: &AtomicBool) -> Result<Report> {
    ensure!(options.times > 0, "at least one run is needed");
    let chosen = StoreChoice::parse_all(options.stores.as_deref())?;
    ensure!(!options.methods.is_empty(), "no compression to run");
    let maildir = std::path::absolute(&options.maildir)?;
    let is_maildir = ["cur", "new"].iter().all(|name| disk::exists(&maildir.join(name)));
    ensure!(is_maildir, "{}: not a Maildir (it has no cur and new)", maildir.display());
    let survey = Survey::of(&options.program)?;
    let stores = StoreChoice::usable(chosen, &survey)?;
    let build = options.neomutt.as_deref().map(Build::of).transpose()?;
    let plan = Plan::new(&stores, &options.methods, options.builtin, build.as_ref())?;
    if options.drop_caches {
        drop_caches()?;
    }
    let folder = make_folder("hcache", options.out.as_deref())?;
    let caches = folder.join("setups");
    disk::create_dir_all(&caches).with_context(|| caches.display().to_string())?;
    screen.folder(&folder)?;
    plan.notes.iter().try_for_each(|note| screen.line(&format!("note: {note}")))?;
    let rounds = rounds(options, &maildir, &folder, plan.has_methods, stop);
    let versions = versions(&stores, &survey);
    let facts = facts(options, &rounds, &plan, versions, build.as_ref())?;
    let mut progress = Progress::new(screen, rounds.steps(&plan));
    let mut results = Results::default();
    let mut after = |results: &Results| report::write(&folder, &facts, &plan, results, false);
    let ended = rounds.run(&plan, &mut results, &mut progress, &mut after);
    report::write(&folder, &facts, &plan, &results, ended.is_ok())?;
    let interrupted = is_interrupted(ended, &folder)?;
    let text = report::text(&facts, &plan, &results);
    let json_lines = report::json_lines(&plan, &results)?;
    Ok(Report { folder, interrupted, results, text, json_lines })
}

fn rounds<'a>(
    options: &Options,
    maildir: &Path,
    folder: &Path,
    has_methods: bool,
    stop: &'a AtomicBool,
) -> Rounds<'a> {
    let caches = folder.join("setups");
    let launcher = options.launcher.clone();
    let neomutt = options.neomutt.clone().map(|program| neomutt::NeoMutt {
        process: NeoMuttProcess { program, launcher: launcher.clone() },
        maildir: maildir.to_owned(),
        folder: caches.clone(),
    });
    let program = options.program.clone();
    let barid = barid::Barid { program, maildir: maildir.to_owned(), folder: caches, launcher };
    let (is_cold, times) = (options.drop_caches, options.times);
    Rounds { barid, neomutt, has_methods, is_cold, times, stop }
}

/// Returns the stores' names with the versions of their libraries.
fn versions(stores: &[StoreChoice], survey: &Survey) -> Vec<String> {
    let version = |choice: &StoreChoice| {
        let version = survey.version(choice.store()).ok()?;
        Some(format!("{} {version}", choice.store()))
    };
    let mut versions: Vec<String> = stores.iter().filter_map(version).collect();
    versions.dedup();
    versions
}

fn facts(
    options: &Options,
    rounds: &Rounds<'_>,
    plan: &Plan,
    stores: Vec<String>,
    build: Option<&Build>,
) -> Result<Facts> {
    let neomutt = build.map(|build| {
        let (stores, methods) = (build.stores.join(", "), build.methods.join(", "));
        format!("{}; stores: {stores}; compressions: {methods}", build.version)
    });
    let program = version(&options.program)?;
    Ok(Facts {
        began_unix_s: disk::unix_seconds(),
        maildir: rounds
            .barid
            .maildir
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        times: options.times,
        page_cache: if options.drop_caches { "cold" } else { "warm" },
        barid: program,
        neomutt,
        stores,
        maxrss_floor_bytes: rounds.barid.floor()?,
        machine: Machine::of(&rounds.barid.folder),
        commands: commands(rounds, plan)?,
        neomuttrc: neomuttrc(rounds, plan),
        notes: plan.notes.clone(),
    })
}

/// Returns the command lines of all setups, without the paths of this machine.
fn commands(rounds: &Rounds<'_>, plan: &Plan) -> Result<Vec<String>> {
    let works = [Work::Populate, Work::Reload, Work::Page];
    let mut lines = Vec::new();
    for cell in &plan.cells {
        let line = |work| portable(rounds, &command_line(&rounds.barid.work(&cell.key, work)));
        lines.extend(works.map(line));
        if let (Some(key), Some(neomutt)) = (&cell.neomutt, &rounds.neomutt) {
            let place = rounds.barid.folder.join(key.file_name());
            disk::create_dir_all(&place).with_context(|| place.display().to_string())?;
            let command = neomutt.command(key, NeoMuttEnd::Leave)?;
            lines.push(portable(rounds, &command_line(&command)));
        }
    }
    Ok(lines)
}

/// Returns the configuration of the first NeoMutt setup.
fn neomuttrc(rounds: &Rounds<'_>, plan: &Plan) -> Option<String> {
    let text = rounds.neomutt.as_ref()?.settings(plan.of_neomutt().next()?, |rc| rc.text());
    Some(portable(rounds, &text))
}

/// Replaces the paths of this machine in a text with names.
fn portable(rounds: &Rounds<'_>, text: &str) -> String {
    let folder = rounds.barid.folder.parent().unwrap_or(&rounds.barid.folder);
    let mut names = vec![
        (rounds.barid.maildir.as_path(), "MAILDIR"),
        (folder, "DIR"),
        (rounds.barid.program.as_path(), "barid"),
    ];
    names.extend(
        rounds.neomutt.iter().map(|neomutt| (neomutt.process.program.as_path(), "neomutt")),
    );
    // One path may contain another.
    names.sort_by_key(|(path, _)| std::cmp::Reverse(path.as_os_str().len()));
    let replace =
        |text: String, (path, name): (&Path, &str)| text.replace(&*path.to_string_lossy(), name);
    names.into_iter().fold(text.to_owned(), replace)
}

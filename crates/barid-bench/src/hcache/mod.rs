//! Which header cache is best for a mailbox on a machine: stores times compressions, and NeoMutt
//! beside them.
//!
//! Round 0 checks: through every cache the listing must be what it is without one, and NeoMutt must
//! see as many messages. Its runs are not timed; the memory is sampled in them. In each later round
//! every setup is populated from nothing, and reloaded: `barid ls` for every record, the newest 50
//! for a page. The setup of NeoMutt's with the same store and compression is run right beside it,
//! so what else the machine does hits both. The mailbox is never written to.
//!
//! What was measured is written after each round, and when the bench is told to stop.

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
use neomutt::Build;
use plan::{Plan, StoreChoice};
use report::Facts;
use rounds::Rounds;
use survey::Survey;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program under test, which begins with [`crate::launched`].
    pub program: PathBuf,
    /// The mailbox, a Maildir.
    pub maildir: PathBuf,
    /// How many rounds.
    pub times: u32,
    /// The stores, each `native` or `NAME[:builtin]`; `None` for all that are usable here.
    pub stores: Option<Vec<String>>,
    /// The compressions of each record.
    pub methods: Vec<Method>,
    /// Whether to run the stores' own compressions as well.
    pub builtin: bool,
    /// NeoMutt, if it is to be compared with.
    pub neomutt: Option<PathBuf>,
    /// Whether to drop the kernel's caches before each timed run.
    pub drop_caches: bool,
    /// The folder for everything, which must not exist or be empty; `None` for a new one among the
    /// temporary files.
    pub out: Option<PathBuf>,
}

/// How a bench ended.
pub type Report = lab::Report<Results>;

/// Measures. Takes minutes to hours; ends early, and well, once `stop` is set.
///
/// # Errors
///
/// When an option is wrong, a program fails (the error names the command and the file of what it
/// printed) or gives a wrong answer, or the disk fails. What was measured is written before.
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
    let launcher = Launcher::new(options.program.clone());
    let neomutt = options.neomutt.clone().map(|program| neomutt::NeoMutt {
        program,
        maildir: maildir.to_owned(),
        folder: caches.clone(),
        launcher: launcher.clone(),
    });
    let program = options.program.clone();
    let barid = barid::Barid { program, maildir: maildir.to_owned(), folder: caches, launcher };
    let (is_cold, times) = (options.drop_caches, options.times);
    Rounds { barid, neomutt, has_methods, is_cold, times, stop }
}

/// The stores' names with the versions of their libraries.
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

/// The command lines of all setups, without the paths of this machine.
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

/// The configuration of the first setup of NeoMutt's that is run.
fn neomuttrc(rounds: &Rounds<'_>, plan: &Plan) -> Option<String> {
    let text = rounds.neomutt.as_ref()?.settings(plan.of_neomutt().next()?, |rc| rc.text());
    Some(portable(rounds, &text))
}

/// A text with names in place of the paths of this machine.
fn portable(rounds: &Rounds<'_>, text: &str) -> String {
    let folder = rounds.barid.folder.parent().unwrap_or(&rounds.barid.folder);
    let mut names = vec![
        (rounds.barid.maildir.as_path(), "MAILDIR"),
        (folder, "DIR"),
        (rounds.barid.program.as_path(), "barid"),
    ];
    names.extend(rounds.neomutt.iter().map(|neomutt| (neomutt.program.as_path(), "neomutt")));
    // A path may lie in another one.
    names.sort_by_key(|(path, _)| std::cmp::Reverse(path.as_os_str().len()));
    let replace =
        |text: String, (path, name): (&Path, &str)| text.replace(&*path.to_string_lossy(), name);
    names.into_iter().fold(text.to_owned(), replace)
}

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
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;
use barid_testkit::peers::NeoMuttEnd;

use crate::machine::Machine;
use crate::run::{command_line, drop_caches, is_interrupted, make_folder, version};
use crate::{Launcher, Screen};
use neomutt::Build;
use plan::{Plan, StoreChoice};
use report::Facts;
use rounds::{Lab, Progress};
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
#[derive(Debug)]
pub struct Report {
    /// The folder with its files.
    pub folder: PathBuf,
    /// Whether it was told to stop before its last run.
    pub interrupted: bool,
    /// Everything that was measured.
    pub results: Results,
    plan: Plan,
    facts: Facts,
}

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
    let lab = lab(options, &maildir, &folder, stop);
    let versions = versions(&stores, &survey);
    let facts = facts(options, &lab, &plan, versions, build.as_ref())?;
    let total = lab.steps(&plan);
    let has_methods = plan.has_methods;
    let mut progress = Progress { screen, has_methods, started: Instant::now(), done: 0, total };
    let mut results = Results::default();
    let mut after = |results: &Results| report::write(&folder, &facts, &plan, results, false);
    let ended = lab.run(&plan, &mut results, &mut progress, &mut after);
    report::write(&folder, &facts, &plan, &results, ended.is_ok())?;
    let interrupted = is_interrupted(ended, &folder)?;
    Ok(Report { folder, interrupted, results, plan, facts })
}

fn lab<'a>(options: &Options, maildir: &Path, folder: &Path, stop: &'a AtomicBool) -> Lab<'a> {
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
    Lab { barid, neomutt, is_cold: options.drop_caches, times: options.times, stop }
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
    lab: &Lab<'_>,
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
        maildir: lab.barid.maildir.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        times: options.times,
        page_cache: if options.drop_caches { "cold" } else { "warm" },
        barid: program,
        neomutt,
        stores,
        maxrss_floor_bytes: lab.barid.floor()?,
        machine: Machine::of(&lab.barid.folder),
        commands: commands(lab, plan)?,
        neomuttrc: neomuttrc(lab, plan),
        notes: plan.notes.clone(),
    })
}

/// The command lines of all setups, without the paths of this machine.
fn commands(lab: &Lab<'_>, plan: &Plan) -> Result<Vec<String>> {
    let works = [Work::Populate, Work::Reload, Work::Page];
    let mut lines = Vec::new();
    for cell in &plan.cells {
        let line = |work| portable(lab, &command_line(&lab.barid.work(&cell.key, work)));
        lines.extend(works.map(line));
        if let (Some(key), Some(neomutt)) = (&cell.neomutt, &lab.neomutt) {
            let place = lab.barid.folder.join(key.file_name());
            disk::create_dir_all(&place).with_context(|| place.display().to_string())?;
            let command = neomutt.command(key, NeoMuttEnd::Leave)?;
            lines.push(portable(lab, &command_line(&command)));
        }
    }
    Ok(lines)
}

/// The configuration of the first setup of NeoMutt's that is run.
fn neomuttrc(lab: &Lab<'_>, plan: &Plan) -> Option<String> {
    let text = lab.neomutt.as_ref()?.settings(plan.of_neomutt().next()?, |rc| rc.text());
    Some(portable(lab, &text))
}

/// A text with names in place of the paths of this machine.
fn portable(lab: &Lab<'_>, text: &str) -> String {
    let folder = lab.barid.folder.parent().unwrap_or(&lab.barid.folder);
    let mut names = vec![
        (lab.barid.maildir.as_path(), "MAILDIR"),
        (folder, "DIR"),
        (lab.barid.program.as_path(), "barid"),
    ];
    names.extend(lab.neomutt.iter().map(|neomutt| (neomutt.program.as_path(), "neomutt")));
    // A path may lie in another one.
    names.sort_by_key(|(path, _)| std::cmp::Reverse(path.as_os_str().len()));
    let replace =
        |text: String, (path, name): (&Path, &str)| text.replace(&*path.to_string_lossy(), name);
    names.into_iter().fold(text.to_owned(), replace)
}

impl Report {
    /// The tables for people: `*** populate`, `*** reload`, the newest page, sizes and memory, and
    /// with NeoMutt the ratios.
    pub fn text(&self) -> String {
        let times = |work| tables::times(&self.plan, &self.results, work);
        let mut text = format!(
            "*** populate\n{}\n*** reload\n{}\n*** reload, newest 50\n{}\n\
             *** size and memory\n{}({})\n",
            times(Work::Populate),
            times(Work::Reload),
            times(Work::Page),
            tables::sizes(&self.plan, &self.results),
            report::floor(&self.facts)
        );
        if self.facts.neomutt.is_some() {
            text.push_str("\n*** barid to neomutt\n");
            if self.plan.has_peers() {
                text.push_str(&tables::ratios(&self.plan, &self.results).text());
            }
            text.extend(tables::not_compared(&self.plan).map(|line| line + "\n"));
        }
        text
    }

    /// The same for programs: JSON, a line for each setup and work.
    ///
    /// # Errors
    ///
    /// None that is known.
    pub fn json_lines(&self) -> Result<Vec<String>> {
        report::json_lines(&self.plan, &self.results)
    }
}

//! The filters. Each runs as a shell command, so that readers of a report can repeat it.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;
use barid_testkit::peers::program;
use barid_testkit::usage::Sampling;

use super::answer::Answer;
use super::material::Material;
use super::step::{List, Side, Step};
use crate::lab::{Figures, Runner, fresh_folder, quoted, with_libraries};
use crate::limits::{DAEMON_DEADLINE, SAMPLE_INTERVAL};

/// A filter with its own word lists.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) side: Side,
    /// The program under test.
    barid: PathBuf,
    /// The programs that filter messages and that read and write word lists.
    programs: Programs,
    /// The filter's own folder.
    folder: PathBuf,
    runner: Runner,
}

/// The programs of a side, as called in a shell.
#[derive(Clone, Debug)]
struct Programs {
    filter: String,
    util: String,
    files: Vec<PathBuf>,
}

impl Programs {
    /// Returns the small programs beside barid if both are installed there, otherwise barid itself.
    fn own(barid: &Path) -> Self {
        let beside = ["bogofilter", "bogoutil"].map(|tool| barid.with_file_name(tool));
        let is_own = |path: &PathBuf| database(path).is_some_and(|name| name.starts_with("barid"));
        if beside.iter().all(is_own) {
            let [filter, util] = beside.each_ref().map(|path| quoted(&path.to_string_lossy()));
            return Self { filter, util, files: with_libraries(&beside[0]) };
        }
        let name = quoted(&barid.to_string_lossy());
        let [filter, util] = ["bogofilter", "bogoutil"].map(|tool| format!("{name} {tool}"));
        Self { filter, util, files: with_libraries(barid) }
    }

    /// Returns the programs of a build of bogofilter: by Debian's names, or by bogofilter's own
    /// names if the installed one has the right database. Returns `None` if neither exists.
    fn of_build(side: Side) -> Option<Self> {
        let by_name = |suffix: &str| {
            let [filter, util] =
                ["bogofilter", "bogoutil"].map(|tool| program(&format!("{tool}{suffix}")));
            let (filter, util) = (filter?, util?);
            let is_right = database(&filter).is_some_and(|name| is_of(side, &name));
            is_right.then(|| Self {
                files: with_libraries(&filter),
                filter: quoted(&filter.to_string_lossy()),
                util: quoted(&util.to_string_lossy()),
            })
        };
        by_name(&format!("-{}", side.build())).or_else(|| by_name(""))
    }
}

/// Returns the database that a bogofilter reports in its version.
fn database(filter: &Path) -> Option<String> {
    let output = Command::new(filter).arg("-V").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Database:"));
    line.map(|name| name.trim().to_owned())
}

fn is_of(side: Side, database: &str) -> bool {
    let name: String = database.to_ascii_lowercase().chars().filter(|c| *c != ' ').collect();
    let wanted = if side == Side::Bdb { "berkeleydb" } else { side.build() };
    name.starts_with(wanted)
}

impl Filter {
    /// Returns the filter of a side; `None` if it is not installed.
    pub(crate) fn new(side: Side, barid: &Path, folder: &Path, runner: Runner) -> Option<Self> {
        let programs =
            if side.is_own() { Some(Programs::own(barid)) } else { Programs::of_build(side) };
        let folder = folder.join(side.folder());
        let barid = barid.to_owned();
        programs.map(|programs| Self { side, barid, programs, folder, runner })
    }

    /// Returns the programs that are run, and their libraries.
    pub(crate) fn programs(&self) -> Vec<PathBuf> {
        let shell = with_libraries(Path::new("/bin/sh"));
        [self.programs.files.clone(), shell].concat()
    }

    /// Describes the small program that runs as bogofilter; `None` if that is barid itself.
    pub(crate) fn small_program(&self) -> Option<String> {
        let files = &self.programs.files;
        let is_small = files.first().is_some_and(|path| *path != self.barid);
        let how = if files.len() == 1 { "statically linked" } else { "dynamically linked" };
        (self.side == Side::DropIn && is_small)
            .then(|| format!("barid bogofilter: the program bogofilter beside barid, {how}"))
    }

    /// Describes the database of a build of bogofilter; `None` for barid.
    pub(crate) fn version(&self) -> Option<String> {
        let path = self.programs.files.first().filter(|_| !self.side.is_own())?;
        database(path).map(|database| format!("{}: {database}", self.side))
    }

    /// Returns the folder of a word list.
    pub(crate) fn list(&self, list: List) -> PathBuf {
        self.folder.join(list.name())
    }

    /// Empties the folder of a list.
    pub(crate) fn reset(&self, list: List) -> Result<()> {
        fresh_folder(&self.list(list))
    }

    /// Loads a list from a text; not timed.
    pub(crate) fn load(&self, list: List, text: &Path) -> Result<()> {
        self.reset(list)?;
        let (file, text) = (self.file(list), quoted(&text.to_string_lossy()));
        let script = match self.side {
            Side::Spam => format!("{} load --wordlist {file} {text}", self.spam()),
            _ => format!("{} -C -l {file} < {text}", self.programs.util),
        };
        self.runner.run(&shell(&script), Stdio::null(), Sampling::Off).map(drop)
    }

    /// Returns the file of a word list, quoted for a shell.
    fn file(&self, list: List) -> String {
        let name = if self.side == Side::TokyoCabinet { "wordlist.tc" } else { "wordlist.db" };
        quoted(&self.list(list).join(name).to_string_lossy())
    }

    /// Returns the command `barid spam` with its own cache and state.
    fn spam(&self) -> String {
        let [cache, state] =
            ["cache", "state"].map(|name| quoted(&self.folder.join(name).to_string_lossy()));
        let barid = quoted(&self.barid.to_string_lossy());
        format!("{barid} --cache-dir {cache} --state-dir {state} spam")
    }

    /// Returns the shell script of a step. The exit status of bogofilter gives the class of a
    /// message, or 3 for a failure.
    pub(crate) fn script(&self, step: Step, material: &Material) -> String {
        let path = |path: &Path| quoted(&path.to_string_lossy());
        let (spam, ham) = (path(&material.spam.mbox), path(&material.ham.mbox));
        let file = self.file(step.list());
        if self.side == Side::Spam {
            let own = self.spam();
            let train = format!("{own} train --quiet --wordlist {file}");
            let classify = format!("{own} classify --rescore --wordlist {file}");
            return match step {
                Step::Register => format!("{train} --spam {spam} && {train} --ham {ham}"),
                Step::ClassifyEach | Step::ClassifyCold => each(&classify, &material.singles),
                _ => format!("{classify} {ham}"),
            };
        }
        let filter = &self.programs.filter;
        let filter = format!("{filter} -C -d {}", path(&self.list(step.list())));
        match step {
            Step::Register => format!("{filter} -M -s < {spam} && {filter} -M -n < {ham}"),
            Step::ClassifyAll | Step::ClassifySmall | Step::ClassifyLarge => {
                format!("{filter} -M -TT < {ham} || test $? -lt 3")
            }
            Step::ClassifyEach | Step::ClassifyCold => {
                each(&format!("{filter} -TT"), &material.singles)
            }
            Step::Dump => format!("{} -C -d {file}", self.programs.util),
        }
    }

    /// Starts the daemon of a list, if the side has one; it ends when the result is dropped.
    pub(crate) fn daemon(&self, list: List) -> Result<Option<Daemon>> {
        if self.side != Side::Daemon {
            return Ok(None);
        }
        let path = self.list(list).join("wordlist.db");
        let errors = self.folder.join("daemon");
        let file = disk::create(&errors).with_context(|| errors.display().to_string())?;
        let mut command = Command::new(&self.barid);
        command.args(["spam", "daemon", "--wordlist"]).arg(&path);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let daemon = Daemon(command.spawn().context("the daemon")?);
        let socket = path.with_extension("db.socket");
        let begun = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            let said = || disk::read_text(&errors).unwrap_or_default();
            ensure!(begun.elapsed() < DAEMON_DEADLINE, "the daemon does not listen: {}", said());
            thread::sleep(SAMPLE_INTERVAL);
        }
        Ok(Some(daemon))
    }

    /// Runs a step; `ready` is called just before it.
    pub(crate) fn run(
        &self,
        step: Step,
        material: &Material,
        ready: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Figures> {
        let command = shell(&self.script(step, material));
        let _daemon = self.daemon(step.list())?;
        ready()?;
        // Samples would only see the shell.
        let figures = Figures::of_process(&self.runner.run_piped(&command, Sampling::Off)?);
        let index_bytes = disk::allocated(&self.list(step.list()))?;
        Ok(Figures { index_bytes, ..figures })
    }

    /// Returns the answer of the filter; to registering, the contents of the list afterwards.
    pub(crate) fn answer(&self, step: Step, material: &Material) -> Result<Answer> {
        let text = match step {
            Step::Register => self.dump(List::Own)?,
            _ => {
                let _daemon = self.daemon(step.list())?;
                self.output(&self.script(step, material))?
            }
        };
        Ok(Answer::new(self.side, step, &text))
    }

    /// Returns a list as text.
    pub(crate) fn dump(&self, list: List) -> Result<String> {
        let file = self.file(list);
        match self.side {
            Side::Spam => self.output(&format!("{} dump --wordlist {file}", self.spam())),
            _ => self.output(&format!("{} -C -d {file}", self.programs.util)),
        }
    }

    /// Returns the output of a script.
    fn output(&self, script: &str) -> Result<String> {
        disk::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        let path = self.folder.join("output");
        let file = disk::create(&path).with_context(|| path.display().to_string())?;
        self.runner.run(&shell(script), file.into(), Sampling::Off)?;
        let text = disk::read_text(&path).with_context(|| path.display().to_string())?;
        ensure!(!text.is_empty(), "{script}: printed nothing");
        Ok(text)
    }
}

/// A running daemon, killed on drop.
#[derive(Debug)]
pub(crate) struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // The daemon may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Returns a script that runs a process for each message of a folder.
fn each(command: &str, folder: &Path) -> String {
    let folder = quoted(&folder.to_string_lossy());
    format!("for file in {folder}/*; do {command} < \"$file\" || test $? -lt 3 || exit; done")
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

impl Side {
    fn folder(self) -> &'static str {
        match self {
            Self::DropIn => "drop-in",
            Self::Daemon => "daemon",
            Self::Spam => "spam",
            _ => self.build(),
        }
    }
}

impl List {
    const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Small => "small",
            Self::Middle => "middle",
            Self::Large => "large",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_known_by_their_databases() {
        let check = |database, expected: Option<Side>| {
            let found = Side::PEERS.into_iter().find(|side| is_of(*side, database));
            assert_eq!(found, expected, "{database}");
        };
        check("Berkeley DB 5.3.28: (September  9, 2013) AUTO-XA", Some(Side::Bdb));
        check("TokyoCabinet (version 1.4.48, B+tree API)", Some(Side::TokyoCabinet));
        check("SQLite 3.40.1", Some(Side::Sqlite));
        check("LMDB", None);
    }
}

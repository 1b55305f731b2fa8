//! The filters. Each runs as a shell command, so that readers of a report can repeat it.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;
use barid_testkit::usage::Sampling;

use super::answer::Answer;
use super::material::Material;
use super::step::{List, Side, Step};
use crate::lab::{Figures, Runner, fresh_folder, quoted, with_libraries};
use crate::limits::{DAEMON_DEADLINE, SAMPLE_INTERVAL};
use crate::systems::bogofilter::{BogofilterPrograms, database, each, shell};

/// A filter with its own word lists.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) side: Side,
    /// The program under test.
    barid: PathBuf,
    /// The programs that filter messages and that read and write word lists.
    programs: BogofilterPrograms,
    /// The filter's own folder.
    folder: PathBuf,
    runner: Runner,
}

impl Filter {
    /// Returns the filter of a side; `None` if it is not installed.
    pub(crate) fn new(side: Side, barid: &Path, folder: &Path, runner: Runner) -> Option<Self> {
        let programs = match side.is_own() {
            true => Some(BogofilterPrograms::of_barid(barid)),
            false => BogofilterPrograms::of_build(side.build()),
        };
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
        let text = self.runner.text(&shell(script), 0)?;
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

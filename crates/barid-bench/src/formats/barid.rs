//! The program under test, started as a new process for each operation.

use std::ffi::OsStr;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;
use barid_testkit::usage::Sampling;
use serde::Deserialize;

use super::material::RARE_WORD;
use super::step::{Program, Side, Store, Work};
use super::system::{Ready, System};
use crate::lab::{Figures, Runner, with_libraries};
use crate::systems::answer::{
    Answer, CONTENT_ITEMS, body, content_hash, numbers, responses, summary, threads,
};
use crate::systems::barid::{forget, in_folder, index_bytes};

/// barid with its copy of the mailbox.
#[derive(Debug)]
pub(crate) struct Barid {
    pub(crate) program: PathBuf,
    pub(crate) store: Store,
    /// The side's own folder; the mailbox is `box` in it.
    pub(crate) folder: PathBuf,
    /// The mbox that is converted.
    pub(crate) source: PathBuf,
    pub(crate) runner: Runner,
}

/// The fields read from a line of `status --json`.
#[derive(Deserialize)]
struct Status {
    messages: u64,
}

impl Barid {
    pub(crate) fn mailbox(&self) -> PathBuf {
        self.folder.join("box")
    }

    fn target(&self) -> PathBuf {
        self.folder.join("converted")
    }

    /// Returns the arguments of an operation, without cache and state.
    pub(crate) fn words(&self, work: Work) -> Vec<String> {
        let mailbox = self.mailbox().display().to_string();
        let (source, target) = (self.source.display().to_string(), self.target());
        let target = format!("{}:{}", self.store.name(), target.display());
        let proof = self.folder.join("proof").display().to_string();
        let rare = format!("BODY {RARE_WORD}");
        let words: &[&str] = match work {
            Work::Select => &["status", &mailbox],
            Work::Fetch => &["fetch", "--seq", &mailbox, "1:*", "FULL", CONTENT_ITEMS],
            Work::All => &["fetch", "--seq", &mailbox, "1:*", "ALL"],
            Work::Thread => &["thread", "--imap", &mailbox],
            Work::Search => &["search", "--seq", &mailbox, &rare],
            Work::Convert => &["convert", &source, &target, "--proof", &proof],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn command(&self, words: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(&self.program);
        in_folder(&mut command, &self.folder).args(words);
        command
    }

    /// Makes the mailbox from the mbox.
    pub(crate) fn convert_to(&self, mailbox: &Path) -> Result<()> {
        self.reset_own()?;
        let target = format!("{}:{}", self.store.name(), mailbox.display());
        let words = ["convert", &self.source.display().to_string(), &target].map(str::to_owned);
        self.runner.run(&self.command(&words), Stdio::null(), Sampling::Off).map(drop)
    }

    fn reset_own(&self) -> Result<()> {
        forget(&self.folder)
    }

    fn text(&self, words: &[&str]) -> Result<String> {
        self.runner.text(&self.command(words), 0)
    }

    fn fetched<T>(
        &self,
        mailbox: &str,
        items: &str,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>> {
        let (path, mut found) = (self.folder.join("output"), Vec::new());
        let at = || path.display().to_string();
        let command = self.command(&["fetch", "--seq", mailbox, "1:*", items]);
        self.runner.run(&command, disk::create(&path).with_context(at)?.into(), Sampling::Off)?;
        let file = disk::open(&path).with_context(at)?;
        responses(BufReader::new(file), &mut |response| {
            let answer = parse(response).with_context(|| {
                let shown: String = String::from_utf8_lossy(response).chars().take(200).collect();
                format!("{shown:?} is not an answer to {items}")
            })?;
            found.push(answer);
            Ok(())
        })?;
        disk::remove_file(&path)?;
        Ok(found)
    }

    fn contents(&self, mailbox: &str) -> Result<Answer> {
        let hash = |response: &[u8]| body(response).map(content_hash);
        self.fetched(mailbox, CONTENT_ITEMS, hash).map(Answer::Contents)
    }

    fn count(&self) -> Result<u64> {
        let text = self.text(&["status", "--json", &self.mailbox().display().to_string()])?;
        let status: Status = serde_json::from_str(&text).with_context(|| text.clone())?;
        Ok(status.messages)
    }
}

impl System for Barid {
    fn side(&self) -> Side {
        Side::new(Program::Barid, self.store)
    }

    fn files(&self) -> Vec<PathBuf> {
        let own = ["cache", "state"].map(|name| self.folder.join(name));
        [vec![self.mailbox(), self.source.clone()], own.into()].concat()
    }

    fn programs(&self) -> Vec<PathBuf> {
        with_libraries(&self.program)
    }

    fn reset(&mut self) -> Result<()> {
        self.reset_own()?;
        let list = self.mailbox().join("dovecot-uidlist");
        if self.store == Store::Maildir && disk::exists(&list) {
            disk::remove_file(&list).with_context(|| list.display().to_string())?;
        }
        let target = self.target();
        if disk::list(&target).is_ok() {
            disk::remove_tree(&target).with_context(|| target.display().to_string())?;
        } else if disk::exists(&target) {
            disk::remove_file(&target).with_context(|| target.display().to_string())?;
        }
        Ok(())
    }

    fn run(&mut self, work: Work, sampling: Sampling, ready: Ready<'_>) -> Result<Figures> {
        let command = self.command(&self.words(work));
        ready()?;
        Ok(Figures::of_process(&self.runner.run_piped(&command, sampling)?))
    }

    fn answer(&mut self, work: Work) -> Result<Answer> {
        let mailbox = self.mailbox().display().to_string();
        match work {
            Work::Select => self.count().map(Answer::Count),
            Work::Fetch => self.contents(&mailbox),
            Work::All => self.fetched(&mailbox, "ALL", summary).map(Answer::Summaries),
            Work::Thread => {
                let count = usize::try_from(self.count()?)?;
                let text = self.text(&["thread", "--imap", &mailbox])?;
                let list = text.trim().strip_prefix("* THREAD").context("no THREAD response")?;
                threads(list, count)
            }
            Work::Search => {
                numbers(&self.text(&["search", "--seq", &mailbox, &format!("BODY {RARE_WORD}")])?)
            }
            Work::Convert => {
                self.reset()?;
                let command = self.command(&self.words(work));
                self.runner.run(&command, Stdio::null(), Sampling::Off)?;
                ensure!(disk::size(&self.folder.join("proof"))? > 0, "the proof is empty");
                self.contents(&self.target().display().to_string())
            }
        }
    }

    fn index_bytes(&self) -> Result<u64> {
        index_bytes(&self.folder)
    }
}

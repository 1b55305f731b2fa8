//! The program under test, with its text index or without.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use barid_testkit::usage::Sampling;
use serde::Deserialize;

use super::material::messages_of;
use super::query::Query;
use super::step::Side;
use super::system::{Candidates, Size, System, ask};
use crate::lab::{Figures, Runner, command_line};
use crate::systems::answer::{Answer, numbers};
use crate::systems::barid::{forget, in_folder, index_bytes};

/// The exit status of a search that finds nothing.
const NOTHING: i32 = 1;

/// barid with a cache and state of its own.
#[derive(Debug)]
pub(crate) struct Barid {
    pub(crate) program: PathBuf,
    pub(crate) runner: Runner,
    pub(crate) maildir: PathBuf,
    /// The folder of its cache and state.
    pub(crate) folder: PathBuf,
    /// [`Side::Barid`] or [`Side::Linear`].
    pub(crate) side: Side,
}

/// The output of `index status --json` as far as it is read.
#[derive(Deserialize)]
struct Status {
    messages: u64,
    covered: u64,
    bytes: u64,
    opaque_bytes: u64,
}

/// The output of `search --count --json` as far as it is read.
#[derive(Deserialize)]
struct Count {
    count: u64,
    read: u64,
}

impl Barid {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        in_folder(&mut command, &self.folder).args(words).arg(&self.maildir);
        command
    }

    fn search(&self, query: &Query) -> Command {
        match self.side.reads_mail() {
            true => self.search_as(&["--no-index", "search"], query),
            false => self.search_as(&["search"], query),
        }
    }

    fn search_as(&self, words: &[&str], query: &Query) -> Command {
        let mut command = self.command(words);
        let key = query.field.name().to_ascii_uppercase();
        command.arg(format!("{key} \"{}\"", query.needle));
        command
    }

    fn status(&self) -> Result<Status> {
        let text = self.runner.text(&self.command(&["index", "status", "--json"]), 0)?;
        serde_json::from_str(&text).with_context(|| text)
    }
}

impl System for Barid {
    fn side(&self) -> Side {
        self.side
    }

    fn forget(&mut self) -> Result<()> {
        forget(&self.folder)
    }

    fn index(&mut self, sampling: Sampling) -> Result<Figures> {
        let usage = self.runner.run(&self.command(&["index"]), Stdio::null(), sampling)?;
        let Status { messages, covered, bytes, .. } = self.status()?;
        ensure!(messages == covered, "the index covers {covered} messages of {messages}");
        Ok(Figures { index_bytes: bytes, ..Figures::of_process(&usage) })
    }

    fn can_ask(&self, _: &Query) -> bool {
        true
    }

    fn ask(&mut self, query: &Query) -> Result<Figures> {
        ask(&self.runner, &self.search(query), NOTHING)
    }

    fn found(&mut self, query: &Query) -> Result<Vec<u32>> {
        let text = self.runner.text(&self.search(query), NOTHING)?;
        let Answer::Numbers(uids) = numbers(&text)? else { return Ok(Vec::new()) };
        messages_of(&uids, &self.maildir.join("dovecot-uidlist"))
    }

    fn candidates(&mut self, query: &Query) -> Result<Option<Candidates>> {
        if self.side.reads_mail() {
            return Ok(None);
        }
        let command = self.search_as(&["search", "--count", "--json"], query);
        let text = self.runner.text(&command, NOTHING)?;
        let Count { count: found, read } = serde_json::from_str(&text).with_context(|| text)?;
        Ok(Some(Candidates { found, read }))
    }

    fn sizes(&mut self) -> Result<Vec<Size>> {
        if self.side.reads_mail() {
            return Ok(Vec::new());
        }
        let status = self.status()?;
        let all = index_bytes(&self.folder)?;
        let size = |part, bytes| Size { side: self.side, part, bytes };
        Ok(vec![
            size(INDEX, status.bytes),
            size(WITHOUT_OPAQUE, status.bytes.saturating_sub(status.opaque_bytes)),
            size("cache of headers, and state", all.saturating_sub(status.bytes)),
        ])
    }

    fn commands(&self) -> Vec<String> {
        let query = Query { needle: "WORD".to_owned(), ..Query::delivered() };
        let search = command_line(&self.search(&query));
        match self.side.reads_mail() {
            true => vec![search],
            false => vec![command_line(&self.command(&["index"])), search],
        }
    }
}

/// The whole text index, in the table of sizes.
pub(crate) const INDEX: &str = "text index";

/// The text index without the fields that only programs read.
pub(crate) const WITHOUT_OPAQUE: &str = "text index without opaque fields";

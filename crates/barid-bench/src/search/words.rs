//! The peers that index words: notmuch, mu and mairix. Each is asked as a person would: for the
//! text in quotation marks, or for parts of words where it has a form for them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use barid_testkit::peers::program;
use barid_testkit::usage::Sampling;

use super::material::{Material, number_of};
use super::query::{Field, Query};
use super::step::Side;
use super::system::{Size, System, ask};
use crate::lab::{Figures, Runner, command_line, fresh_folder, version};

/// A peer with its configuration and its index in a folder.
#[derive(Debug)]
pub(crate) struct WordIndex {
    side: Side,
    program: PathBuf,
    runner: Runner,
    /// The folder of the configuration.
    folder: PathBuf,
    /// The folder above the Maildir.
    root: PathBuf,
}

impl WordIndex {
    /// Prepares a peer; `None` if it is not installed.
    pub(crate) fn new(
        side: Side,
        runner: Runner,
        work: &Path,
        material: &Material,
    ) -> Result<Option<Self>> {
        let Some(program) = program(side.name()) else { return Ok(None) };
        let (folder, root) = (work.join(side.name()), material.root.clone());
        let peer = Self { side, program, runner, folder, root };
        fresh_folder(&peer.folder)?;
        if let Some(text) = peer.configuration() {
            let path = peer.config();
            disk::write(&path, text.as_bytes()).with_context(|| path.display().to_string())?;
        }
        Ok(Some(peer))
    }

    /// Returns the first line of what the program says of its version.
    pub(crate) fn version(&self) -> Result<String> {
        let text = version(&self.program)?;
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    }

    fn config(&self) -> PathBuf {
        self.folder.join("config")
    }

    fn index_folder(&self) -> PathBuf {
        self.folder.join("index")
    }

    fn configuration(&self) -> Option<String> {
        let (index, root) = (self.index_folder(), self.root.display());
        let index = index.display();
        match self.side {
            Side::Notmuch => Some(format!(
                "[database]\npath={index}\nmail_root={root}\n\
                 [user]\nname=Bench\nprimary_email=bench@bench.invalid\n\
                 [new]\ntags=\nignore=dovecot-uidlist\n[search]\nexclude_tags=\n\
                 [maildir]\nsynchronize_flags=false\n"
            )),
            Side::Mairix => Some(format!(
                "base={root}\nmaildir=box\nmfolder={index}/found\ndatabase={index}/database\n"
            )),
            _ => None,
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        match self.side {
            Side::Notmuch => command.env("NOTMUCH_CONFIG", self.config()).args(words),
            Side::Mairix => command.arg("-f").arg(self.config()).args(words),
            _ => command.args(words).arg(format!("--muhome={}", self.index_folder().display())),
        };
        command
    }

    fn index_command(&self) -> Command {
        self.command(match self.side {
            Side::Notmuch => &["new", "--quiet"],
            Side::Mairix => &[],
            _ => &["index", "--quiet"],
        })
    }

    /// Returns the command of a search that prints the messages, or their files.
    fn search(&self, query: &Query, prints_files: bool) -> Command {
        let mut command = self.command(match (self.side, prints_files) {
            (Side::Notmuch, true) => &["search", "--output=files"],
            // The cheapest output and order.
            (Side::Notmuch, false) => &["search", "--output=messages", "--sort=oldest-first"],
            (Side::Mairix, _) => &["-r"],
            _ => &["find", "--nocolor", "--fields=l"],
        });
        command.arg(self.expression(query));
        command
    }

    fn expression(&self, query: &Query) -> String {
        let needle = &query.needle;
        if self.side == Side::Mairix {
            let key = match query.field {
                Field::Body => "b:",
                Field::Subject => "s:",
                Field::Text => "",
            };
            let words: Vec<String> = needle.split(' ').map(|word| format!("{word}=")).collect();
            return format!("{key}{}", words.join(","));
        }
        match query.field {
            Field::Text => format!("\"{needle}\""),
            field => format!("{}:\"{needle}\"", field.name()),
        }
    }

    /// The exit status of a search that finds nothing.
    const fn nothing_status(&self) -> i32 {
        match self.side {
            Side::Notmuch => 0,
            Side::Mairix => 1,
            _ => 4,
        }
    }
}

impl System for WordIndex {
    fn side(&self) -> Side {
        self.side
    }

    fn forget(&mut self) -> Result<()> {
        fresh_folder(&self.index_folder())?;
        if self.side == Side::Mu {
            let maildir = format!("--maildir={}", self.root.display());
            let command = self.command(&["init", "--quiet", &maildir]);
            self.runner.run(&command, Stdio::null(), Sampling::Off)?;
        }
        Ok(())
    }

    fn index(&mut self, sampling: Sampling) -> Result<Figures> {
        let usage = self.runner.run(&self.index_command(), Stdio::null(), sampling)?;
        let folder = self.index_folder();
        let index_bytes = disk::allocated(&folder).with_context(|| folder.display().to_string())?;
        Ok(Figures { index_bytes, ..Figures::of_process(&usage) })
    }

    fn can_ask(&self, query: &Query) -> bool {
        /// The longest part of a word that mairix looks for, in bytes.
        const PART_LEN_MAX: usize = 31;
        let has_long = || query.needle.split(' ').any(|word| word.len() > PART_LEN_MAX);
        // Its operators cannot be quoted.
        let has_operator = || query.needle.contains([',', '/', '=', '~', '^', ':', '+']);
        self.side != Side::Mairix || !has_long() && !has_operator()
    }

    fn ask(&mut self, query: &Query) -> Result<Figures> {
        ask(&self.runner, &self.search(query, false), self.nothing_status())
    }

    fn found(&mut self, query: &Query) -> Result<Vec<u32>> {
        let text = self.runner.text(&self.search(query, true), self.nothing_status())?;
        let found: Result<Vec<u32>> = text.lines().map(number_of).collect();
        let mut found = found?;
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn sizes(&mut self) -> Result<Vec<Size>> {
        let bytes = disk::allocated(&self.index_folder())?;
        Ok(vec![Size { side: self.side, part: "index", bytes }])
    }

    fn commands(&self) -> Vec<String> {
        let query = Query { needle: "WORD".to_owned(), ..Query::delivered() };
        [self.index_command(), self.search(&query, false)].iter().map(command_line).collect()
    }
}

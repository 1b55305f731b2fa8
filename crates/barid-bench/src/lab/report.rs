//! The outcome of a bench.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use serde::Serialize;

use super::{Bar, Facts, Measured, Page, Spreads, Table, bars, is_interrupted};

/// The outcome of a bench.
#[derive(Debug)]
pub struct Report<Results> {
    /// The folder with the bench's files.
    pub folder: PathBuf,
    /// `true` if the bench was stopped before its last run.
    pub interrupted: bool,
    /// Everything measured.
    pub results: Results,
    /// The tables for people.
    pub text: String,
    /// The same as JSON lines for programs, one for each side and step.
    pub json_lines: Vec<String>,
}

/// A table of a bench with its heading and caption.
pub(crate) struct Section {
    heading: &'static str,
    caption: &'static str,
    table: Table,
    is_brief: bool,
}

impl Section {
    /// Creates a section of the page and of the text for the terminal.
    pub(crate) fn new(heading: &'static str, caption: &'static str, table: Table) -> Self {
        Self { heading, caption, table, is_brief: true }
    }

    /// Leaves the section out of the text for the terminal.
    pub(crate) fn only_on_page(self) -> Self {
        Self { is_brief: false, ..self }
    }
}

/// The results of a bench whose files and tables are made of them alone.
pub(crate) trait Reported: Sized {
    /// Title of the page.
    const TITLE: &'static str;
    /// Heads of the columns that name the subject of a bar.
    const BAR_HEADS: &'static [&'static str] = &["work"];

    /// Returns all runs as CSV.
    fn raw(&self) -> String;

    /// Returns the bars whose measurements exist.
    fn bars(&self) -> Vec<Bar>;

    /// Returns remarks on the results, one line each.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the tables after the bars.
    fn sections(&self) -> Vec<Section>;

    /// Returns the page for people.
    fn summary(&self, facts: &Facts, complete: bool) -> String {
        let mut page = Page::new(Self::TITLE, complete);
        page.facts(facts);
        self.remarks().iter().for_each(|remark| page.item(remark));
        page.bars(&bars(Self::BAR_HEADS, &self.bars()));
        for Section { heading, caption, table, .. } in self.sections() {
            page.section(heading, caption, &table);
        }
        page.commands(&facts.commands);
        page.text
    }

    /// Returns the most important tables for people.
    fn text(&self) -> String {
        let mut text = format!("*** bars\n{}", bars(Self::BAR_HEADS, &self.bars()).text());
        for Section { heading, table, .. } in self.sections().iter().filter(|it| it.is_brief) {
            text.push_str(&format!("\n*** {}\n{}", in_running_text(heading), table.text()));
        }
        text
    }

    /// Returns the JSON lines, one for each side and step.
    fn json_lines(&self) -> Result<Vec<String>>;

    /// Returns the names and texts of the files that only this bench has.
    fn more_files(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Writes all files, replacing earlier ones.
    fn write(&self, folder: &Path, facts: &Facts, complete: bool) -> Result<()> {
        save(folder, "raw.csv", &self.raw())?;
        for (name, text) in self.more_files() {
            save(folder, name, &text)?;
        }
        save(folder, "summary.md", &self.summary(facts, complete))
    }

    /// Runs all rounds with `run`, and writes the files after each of them and at the end.
    fn report(
        mut self,
        folder: PathBuf,
        facts: &Facts,
        run: impl FnOnce(&mut Self, &mut dyn FnMut(&Self) -> Result<()>) -> Result<()>,
    ) -> Result<Report<Self>> {
        let ended = run(&mut self, &mut |results| results.write(&folder, facts, false));
        self.write(&folder, facts, ended.is_ok())?;
        let interrupted = is_interrupted(ended, &folder)?;
        let (text, json_lines) = (self.text(), self.json_lines()?);
        Ok(Report { folder, interrupted, results: self, text, json_lines })
    }
}

/// Returns a heading without its capital, unless that is part of an abbreviation.
fn in_running_text(heading: &str) -> String {
    let mut chars = heading.chars();
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(heading.chars().skip(1)).collect()
        }
        _ => heading.to_owned(),
    }
}

/// Writes a file of a bench, replacing an earlier one.
pub(crate) fn save(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    disk::write(&path, text.as_bytes()).with_context(|| path.display().to_string())
}

/// Serializes each item as a line of JSON.
pub(crate) fn json_lines<T: Serialize>(lines: impl Iterator<Item = T>) -> Result<Vec<String>> {
    lines.map(|line| serde_json::to_string(&line).context("a line of JSON")).collect()
}

/// The version of the JSON lines of [`measured_lines`].
pub(crate) const LINES_VERSION: u32 = 1;

/// Returns a JSON line for each step and side that was timed, with the fields that every bench has
/// and then those of `more`; without a line where that is `None`.
pub(crate) fn measured_lines<Step: Serialize, Side: Serialize, More: Serialize>(
    kind: &'static str,
    measured: Vec<(Step, Side, Measured<'_>)>,
    more: impl Fn(&Measured<'_>) -> Option<More>,
) -> Result<Vec<String>> {
    #[derive(Serialize)]
    struct Line<Step, Side, More> {
        v: u32,
        r#type: &'static str,
        side: Side,
        step: Step,
        #[serde(flatten)]
        spreads: Spreads,
        #[serde(flatten)]
        more: More,
    }
    let lines = measured.into_iter().filter_map(|(step, side, measured)| {
        let (spreads, more) = (Spreads::of(&measured)?, more(&measured)?);
        Some(Line { v: LINES_VERSION, r#type: kind, side, step, spreads, more })
    });
    json_lines(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_keep_their_capitals() {
        assert_eq!(in_running_text("The first time"), "the first time");
        assert_eq!(in_running_text("CPU time"), "CPU time");
        assert_eq!(in_running_text("barid to the others"), "barid to the others");
    }
}

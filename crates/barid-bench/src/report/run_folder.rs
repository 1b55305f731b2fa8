//! The folders of runs.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;

use super::csv::Csv;
use super::input::{name_of, text};
use super::markdown::{BarResult, Block, MarkdownTable, parse};
use super::medians::{StepMedians, medians};
use super::samples;
use crate::limits::{RUN_FILES_MAX, RUN_FOLDERS_MAX};

/// A bench, as the page groups runs by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BenchSection {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
}

/// The benches in the order of the page; the last one is for all other runs.
pub(super) const SECTIONS: [BenchSection; 8] = [
    BenchSection { name: "open", title: "Opening mailboxes" },
    BenchSection { name: "hcache", title: "Header caches" },
    BenchSection { name: "mbox", title: "Rewriting an mbox" },
    BenchSection { name: "formats", title: "Formats of mailboxes" },
    BenchSection { name: "spam", title: "The spam filter" },
    BenchSection { name: "imap", title: "The IMAP server" },
    BenchSection { name: "search", title: "Searching texts" },
    BenchSection { name: "", title: "Other runs" },
];

/// A file of a run with the medians of what it measured.
#[derive(Clone, Debug)]
pub(super) struct Measurements {
    pub(super) file: String,
    pub(super) steps: Vec<StepMedians>,
    /// Every run as a table; `None` for a `results.json`.
    pub(super) raw: Option<MarkdownTable>,
}

/// A run.
#[derive(Clone, Debug)]
pub(super) struct RunFolder {
    pub(super) name: String,
    /// The name of a bench of [`SECTIONS`].
    pub(super) bench: &'static str,
    /// Its `README.md`.
    pub(super) about: Vec<Block>,
    /// Its other documents, with the names of their files, summaries first.
    pub(super) documents: Vec<(String, Vec<Block>)>,
    pub(super) measurements: Vec<Measurements>,
}

impl RunFolder {
    /// Returns the bars of all documents.
    pub(super) fn bars(&self) -> Vec<BarResult> {
        let blocks = self.documents.iter().flat_map(|(_, blocks)| blocks);
        let bars = blocks.filter_map(|block| match block {
            Block::Table(table) => table.bars(),
            _ => None,
        });
        bars.flatten().collect()
    }
}

/// Reads all runs of a folder, sorted by name.
pub(super) fn read_all(runs: &Path) -> Result<Vec<RunFolder>> {
    let folders = disk::list_folders(runs).with_context(|| runs.display().to_string())?;
    let (name, len) = (runs.display(), folders.len());
    ensure!(!folders.is_empty(), "{name}: no folders of runs");
    ensure!(len <= RUN_FOLDERS_MAX, "{name}: {len} folders, at most {RUN_FOLDERS_MAX}");
    folders.iter().map(|folder| read(folder)).collect()
}

fn read(folder: &Path) -> Result<RunFolder> {
    let mut files = disk::list(folder).with_context(|| folder.display().to_string())?;
    files.retain(|path| disk::is_file(path));
    let (path, len) = (folder.display(), files.len());
    ensure!(len <= RUN_FILES_MAX, "{path}: {len} files, at most {RUN_FILES_MAX}");
    // Summaries come first, then the others by name.
    files.sort_by_key(|path| (!name_of(path).starts_with("summary"), name_of(path)));
    let mut run = RunFolder {
        name: name_of(folder),
        bench: "",
        about: Vec::new(),
        documents: Vec::new(),
        measurements: Vec::new(),
    };
    for path in &files {
        add(&mut run, path)?;
    }
    let is_empty = run.documents.is_empty() && run.measurements.is_empty();
    ensure!(!is_empty, "{}: neither a summary nor measurements", folder.display());
    run.bench = bench_of(&run);
    Ok(run)
}

/// Adds a file to its run; one of another kind, such as a chart, is left out.
fn add(run: &mut RunFolder, path: &Path) -> Result<()> {
    let file = name_of(path);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") if file == "README.md" => run.about = parse(path, &text(path)?)?,
        Some("md") => run.documents.push((file, parse(path, &text(path)?)?)),
        Some("csv") => {
            let table = Csv::parse(path, &text(path)?)?;
            let steps = medians(&samples::of_csv(path, &table)?);
            run.measurements.push(Measurements { file, steps, raw: Some(raw(table)) });
        }
        Some("json") if file == "results.json" => {
            let steps = medians(&samples::of_json(path, &text(path)?)?);
            run.measurements.push(Measurements { file, steps, raw: None });
        }
        _ => {}
    }
    Ok(())
}

/// Returns the single runs as a table.
fn raw(table: Csv) -> MarkdownTable {
    let names = ["round", "side", "step", "work", "turn"];
    let is_right = table.head.iter().map(|name| !names.contains(&name.as_str())).collect();
    let rows = table.rows.into_iter().map(|(_, row)| row).collect();
    MarkdownTable { head: table.head, is_right, rows }
}

/// Returns the bench of a run: that of a command in its description, else of the name of its
/// folder.
fn bench_of(run: &RunFolder) -> &'static str {
    let texts = || run.about.iter().flat_map(texts_of);
    let is_command = |name: &str| {
        let command = format!("bench {name}");
        texts().any(|text| text.contains(&command))
    };
    let names = || SECTIONS.iter().map(|section| section.name).filter(|name| !name.is_empty());
    let of_command = names().find(|name| is_command(name));
    let of_folder = || names().find(|name| run.name.split('-').any(|part| part == *name));
    of_command.or_else(of_folder).unwrap_or("")
}

fn texts_of(block: &Block) -> Vec<&str> {
    match block {
        Block::Heading(_, text) | Block::Paragraph(text) | Block::Code(text) => vec![text],
        Block::List(items) => items.iter().map(String::as_str).collect(),
        Block::Table(_) => Vec::new(),
    }
}

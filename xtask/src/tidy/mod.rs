//! `cargo xtask tidy`: checks that the compiler does not make.

mod circles;
pub(crate) mod edges;
mod files;
mod formats;
mod licences;
mod names;
mod prose;
mod source;

use anyhow::{Result, bail};
use barid_testkit::corpora::repository;

use crate::args::Args;
use crate::picture;

/// The problems, each with its place.
type Problems = Vec<String>;

pub(crate) fn run(args: Args) -> Result<()> {
    args.finish()?;
    check()
}

/// Runs all checks and prints every problem.
pub(crate) fn check() -> Result<()> {
    let root = repository();
    let mut problems = Problems::new();
    circles::check(&root, &mut problems)?;
    edges::check(&root, &mut problems)?;
    files::check(&root, &mut problems)?;
    formats::check(&root, &mut problems)?;
    names::check(&root, &mut problems)?;
    licences::check(&root, &mut problems)?;
    source::check(&root, &mut problems)?;
    prose::check(&root, &mut problems)?;
    problems.extend(picture::outdated(&root)?);
    for problem in &problems {
        eprintln!("{problem}");
    }
    if problems.is_empty() { Ok(()) } else { bail!("tidy: {} problems", problems.len()) }
}

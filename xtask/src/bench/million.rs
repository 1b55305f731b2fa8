//! A Maildir ten times as large must not take ten times as long.

use anyhow::{Result, ensure};
use barid_testkit::usage::Sampling;

use super::barid::{Barid, NEWEST_50, SAMPLING};
use super::figures::{Figures, megabytes};
use super::world::{MAILDIR_LEN, MILLION, World, settle};

pub(crate) fn run(world: &World, figures: &mut Figures) -> Result<()> {
    const LARGE: &str = "million again, newest 50";
    const SMALL: &str = "maildir beside million";
    let (large, corpus) = world.maildir(MILLION)?;
    let (small, _) = world.maildir(MAILDIR_LEN)?;
    let large = Barid::new(world, &large, "million");
    let small = Barid::new(world, &small, "maildir");
    large.forget()?;
    small.forget()?;
    figures.add("million populate", "barid", large.measure(NEWEST_50, Sampling::Off)?);
    small.measure(NEWEST_50, Sampling::Off)?;
    settle();
    let count = large.count()?;
    ensure!(count == corpus.len(), "barid sees {count} messages of {}", corpus.len());
    small.count()?;
    for _ in 0..world.options.runs {
        figures.add(LARGE, "barid", large.measure(NEWEST_50, Sampling::Off)?);
        figures.add(SMALL, "barid", small.measure(NEWEST_50, Sampling::Off)?);
    }
    let walls = (figures.wall(LARGE, "barid"), figures.wall(SMALL, "barid"));
    figures.bar_ratio("a Maildir of 1,000,000, again", walls, 3.0, "the 100,000 one");
    let memory = large.measure(NEWEST_50, SAMPLING)?;
    figures.note(format!("A million, opened again: {} memory.", megabytes(memory.memory())));
    Ok(())
}

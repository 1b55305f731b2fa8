//! `cargo xtask bench`: barid and widely used programs, in turn on one machine.

mod barid;
mod calls;
mod figures;
mod limits;
mod maildir;
mod mbox;
mod million;
mod report;
mod world;

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::args::Args;
use figures::Figures;
use world::{Options, World};

/// A part of `bench open`: the name for `--only`, and its function.
type Part = (&'static str, fn(&World, &mut Figures) -> Result<()>);

/// The parts in the order in which they run.
const PARTS: [Part; 4] = [
    ("maildir", maildir::run),
    ("mbox", mbox::open),
    ("thread", mbox::thread),
    ("million", million::run),
];

/// Measures opening mailboxes: the table of README.md.
pub(crate) fn run(mut args: Args) -> Result<()> {
    if args.word().as_deref() != Some("open") {
        bail!("bench what? cargo xtask bench open");
    }
    let only = args.option::<String>("--only")?;
    let options = Options {
        folder: args.option("--dir")?.unwrap_or_else(|| std::env::temp_dir().join("barid-bench")),
        barid: args.option("--barid")?,
        runs: args.option("--runs")?.unwrap_or(5),
        scale: args.option("--scale")?.unwrap_or(1),
    };
    let out = args.option::<PathBuf>("--out")?;
    let no_keep = args.switch("--no-keep");
    args.finish()?;
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only.split(',').any(|o| o == name));
    let world = World::prepare(options)?;
    let mut figures = Figures::default();
    for (name, run) in PARTS.iter().filter(|(name, _)| wanted(name)) {
        println!("-- {name}");
        run(&world, &mut figures)?;
    }
    let summary = report::summary(&figures);
    println!("\n{summary}");
    if no_keep {
        return Ok(());
    }
    report::keep(&world, &figures, &summary, out)
}

//! The Maildir of 100,000 messages, compared with NeoMutt and its header cache.

use anyhow::{Result, ensure};
use barid_testkit::usage::Sampling;

use super::barid::{ALL, Barid, NEWEST_50, SAMPLING};
use super::figures::Figures;
use super::world::{MAILDIR_LEN, World, settle};
use super::{calls, limits};

const AGAIN: &str = "maildir again, newest 50";

pub(crate) fn run(world: &World, figures: &mut Figures) -> Result<()> {
    let (path, corpus) = world.maildir(MAILDIR_LEN)?;
    let barid = Barid::new(world, &path, "maildir");
    barid.forget()?;
    let count = barid.count()?;
    ensure!(count == corpus.len(), "barid sees {count} messages of {}", corpus.len());
    let theirs = world.neomutt.count(&path)?.messages;
    ensure!(theirs == Some(count as u32), "NeoMutt sees {theirs:?} messages of {count}");
    super::mbox::equal_newest(world, &barid, &world.dovecot.maildir_location(&path))?;
    figures.note(format!(
        "Maildir: barid, NeoMutt and Dovecot see {count} messages; the newest 50 by date are \
         Dovecot's, in its order."
    ));
    populate(world, &barid, &path, figures)?;
    again(world, &barid, &path, figures)?;
    limits::maildir(&path, world.options.runs, figures)
}

fn populate(
    world: &World,
    barid: &Barid<'_>,
    path: &std::path::Path,
    figures: &mut Figures,
) -> Result<()> {
    const WORK: &str = "maildir populate";
    for _ in 0..world.options.runs {
        barid.forget()?;
        figures.add(WORK, "barid", barid.measure(NEWEST_50, Sampling::Off)?);
        world.neomutt.clear_cache()?;
        figures.add(WORK, "neomutt", world.neomutt.open(path, Sampling::Off)?.usage);
    }
    barid.forget()?;
    let ours = barid.measure(NEWEST_50, SAMPLING)?;
    world.neomutt.clear_cache()?;
    let theirs = world.neomutt.open(path, SAMPLING)?.usage;
    let walls = (figures.wall(WORK, "barid"), figures.wall(WORK, "neomutt"));
    figures.bar_ratio("populate a Maildir of 100,000", walls, 1.0 / 12.0, "NeoMutt's");
    let most = theirs.memory() / 4;
    let bar = format!("at most 1/4 of NeoMutt's {}", super::figures::megabytes(theirs.memory()));
    figures.bar_memory("its peak memory", ours.memory(), bar, most);
    barid.forget()?;
    calls::note(world, barid, WORK, NEWEST_50, figures)?;
    figures.note(format!(
        "Maildir populate, resident peak with file pages: barid {}, NeoMutt {}.",
        super::figures::megabytes(ours.maxrss),
        super::figures::megabytes(theirs.maxrss)
    ));
    Ok(())
}

fn again(
    world: &World,
    barid: &Barid<'_>,
    path: &std::path::Path,
    figures: &mut Figures,
) -> Result<()> {
    const RELOAD: &str = "maildir reload";
    const LINES: &str = "maildir again, all lines";
    settle();
    barid.measure(NEWEST_50, Sampling::Off)?;
    for _ in 0..world.options.runs {
        figures.add(AGAIN, "barid", barid.measure(NEWEST_50, Sampling::Off)?);
        figures.add(LINES, "barid", barid.measure(ALL, Sampling::Off)?);
        figures.add(RELOAD, "neomutt", world.neomutt.open(path, Sampling::Off)?.usage);
    }
    calls::note(world, barid, AGAIN, NEWEST_50, figures)?;
    let reload = figures.wall(RELOAD, "neomutt");
    let (newest, lines) = (figures.wall(AGAIN, "barid"), figures.wall(LINES, "barid"));
    figures.bar_ratio("again: the last 50 by date", (newest, reload), 0.01, "NeoMutt's reload");
    figures.bar_ratio("again: all 100,000 lines", (lines, reload), 0.125, "NeoMutt's reload");
    Ok(())
}

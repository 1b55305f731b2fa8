//! The mbox of 361,052 messages, compared with Dovecot.
//!
//! Dovecot works on its own copy, which already contains its headers: despite its default of lazy
//! writes, it rewrites a file without any UID at the first SELECT. That first SELECT is noted once,
//! and not compared.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use barid_testkit::boxes::{MboxOptions, MboxVariant};
use barid_testkit::corpus::Corpus;
use barid_testkit::disk;
use barid_testkit::usage::Sampling;

use super::barid::{Barid, NEWEST_50, SAMPLING, THREADS};
use super::figures::{Figures, megabytes};
use super::world::{World, settle};
use super::{calls, limits};

/// Memory limit for opening again, in bytes.
const AGAIN_MEMORY_MAX: u64 = 24_000_000;
/// Time limit for the first threading.
const THREAD_MAX: Duration = Duration::from_millis(500);

const AGAIN: &str = "mbox again, newest 50";

pub(crate) fn open(world: &World, figures: &mut Figures) -> Result<()> {
    let (path, corpus) = pristine(world)?;
    let theirs = dovecots(world, figures)?;
    let location = world.dovecot.mbox_location(&theirs);
    let barid = Barid::new(world, &path, "mbox");
    barid.forget()?;
    let count = barid.count()?;
    ensure!(count == corpus.len(), "barid sees {count} messages of {}", corpus.len());
    equal_newest(world, &barid, &location)?;
    figures.note(format!(
        "mbox: barid and Dovecot see {count} messages; the newest 50 by date are the same."
    ));
    first(world, &barid, &theirs, figures)?;
    again(world, &barid, &location, figures)?;
    delivered(world, &barid, &path, &corpus, figures)?;
    limits::mbox(&path, world.options.runs, figures)
}

/// Returns barid's mbox, without the messages that an earlier run appended.
fn pristine(world: &World) -> Result<(PathBuf, Corpus)> {
    let (path, corpus) = world.mbox("")?;
    let folder = path.parent().context("the box is in a folder")?;
    let note = disk::read_text(&folder.with_extension("complete"))?;
    let size = note.split_whitespace().nth(1).and_then(|size| size.parse().ok());
    let size: u64 = size.context("the note beside the mbox tells its size")?;
    if has_uids(&path)? || disk::size(&path)? < size {
        bail!("{} was changed by another program: remove it", path.display());
    }
    if disk::size(&path)? != size {
        disk::set_len(&path, size)?;
        settle();
    }
    Ok((path, corpus))
}

/// Returns Dovecot's copy, which contains Dovecot's headers.
fn dovecots(world: &World, figures: &mut Figures) -> Result<PathBuf> {
    let (path, corpus) = world.mbox("-dovecot")?;
    if !has_uids(&path)? {
        let time = select(world, &path, corpus.len())?;
        figures.note(format!(
            "Dovecot's very first SELECT, which rewrites the file: {:.2} s, once; not used.",
            time.as_secs_f64()
        ));
        settle();
    }
    Ok(path)
}

/// Returns `true` if a program has written UIDs into the first message.
fn has_uids(path: &Path) -> Result<bool> {
    let mut head = vec![0; 8192];
    let len = disk::open(path)?.read(&mut head)?;
    Ok(String::from_utf8_lossy(&head[..len]).contains("\nX-IMAPbase:"))
}

/// Times a SELECT in a new process, from its start to the answer.
fn select(world: &World, path: &Path, count: u64) -> Result<Duration> {
    let mut imap = world.dovecot.imap(&world.dovecot.mbox_location(path), &[])?;
    let reply = imap.command("SELECT INBOX")?;
    let time = imap.elapsed();
    ensure!(reply.number("EXISTS") == Some(count as u32), "Dovecot sees another number");
    imap.logout()?;
    Ok(time)
}

/// Checks that barid and Dovecot have the same newest 50 by date, in the same order.
pub(crate) fn equal_newest(world: &World, barid: &Barid<'_>, location: &str) -> Result<()> {
    let ours = barid.newest_50()?;
    let mut imap = world.dovecot.imap(location, &[])?;
    imap.command("SELECT INBOX")?;
    let order = imap.command("SORT (DATE) UTF-8 ALL")?.numbers("SORT").unwrap_or_default();
    let theirs = &order[order.len().saturating_sub(50)..];
    imap.logout()?;
    if ours != theirs {
        bail!("the newest 50 differ\nbarid   {ours:?}\nDovecot {theirs:?}");
    }
    Ok(())
}

fn first(world: &World, barid: &Barid<'_>, theirs: &Path, figures: &mut Figures) -> Result<()> {
    const WORK: &str = "mbox first open";
    let count = barid.count()?;
    for _ in 0..world.options.runs {
        barid.forget()?;
        figures.add(WORK, "barid", barid.measure(NEWEST_50, Sampling::Off)?);
        world.dovecot.clear_indexes(theirs)?;
        figures.add_time(WORK, "dovecot", select(world, theirs, count)?);
    }
    barid.forget()?;
    let memory = barid.measure(NEWEST_50, SAMPLING)?;
    barid.forget()?;
    calls::note(world, barid, WORK, NEWEST_50, figures)?;
    figures.note(format!("mbox first open: {} anonymous memory.", megabytes(memory.memory())));
    let walls = (figures.wall(WORK, "barid"), figures.wall(WORK, "dovecot"));
    figures.bar_ratio("first open of a 1.42 GB mbox", walls, 0.125, "Dovecot's first SELECT");
    Ok(())
}

fn again(world: &World, barid: &Barid<'_>, location: &str, figures: &mut Figures) -> Result<()> {
    settle();
    barid.measure(NEWEST_50, Sampling::Off)?;
    for _ in 0..world.options.runs {
        figures.add(AGAIN, "barid", barid.measure(NEWEST_50, Sampling::Off)?);
        let mut imap = world.dovecot.imap(location, &[])?;
        imap.command("SELECT INBOX")?;
        figures.add_time(AGAIN, "dovecot", imap.elapsed());
        imap.logout()?;
    }
    calls::note(world, barid, AGAIN, NEWEST_50, figures)?;
    let walls = (figures.wall(AGAIN, "barid"), figures.wall(AGAIN, "dovecot"));
    figures.bar_ratio("open it again", walls, 0.5, "Dovecot's second SELECT");
    let memory = barid.measure(NEWEST_50, SAMPLING)?;
    let bar = format!("at most {}", megabytes(AGAIN_MEMORY_MAX));
    figures.bar_memory("its peak memory", memory.memory(), bar, AGAIN_MEMORY_MAX);
    figures
        .note(format!("mbox open again: {} resident with file pages.", megabytes(memory.maxrss)));
    Ok(())
}

/// Times opening directly after one delivery, in turn with opening without a change.
fn delivered(
    world: &World,
    barid: &Barid<'_>,
    path: &Path,
    corpus: &Corpus,
    figures: &mut Figures,
) -> Result<()> {
    const WORK: &str = "mbox after one delivery";
    const UNCHANGED: &str = "mbox without change";
    let options = MboxOptions { variant: MboxVariant::Mboxo, status: false, crlf: false };
    for run in 0..world.options.runs as u64 {
        settle();
        barid.measure(NEWEST_50, Sampling::Off)?;
        figures.add(UNCHANGED, "barid", barid.measure(NEWEST_50, Sampling::Off)?);
        let mut bytes = Vec::new();
        options.render(&corpus.message(corpus.len() + run), &mut bytes);
        disk::append(path, &bytes)?;
        figures.add(WORK, "barid", barid.measure(NEWEST_50, Sampling::Off)?);
        let count = barid.count()?;
        ensure!(count == corpus.len() + run + 1, "the delivered message is not seen");
    }
    settle();
    barid.measure(NEWEST_50, Sampling::Off)?;
    let mut bytes = Vec::new();
    options.render(&corpus.message(corpus.len() + world.options.runs as u64), &mut bytes);
    disk::append(path, &bytes)?;
    calls::note(world, barid, WORK, NEWEST_50, figures)?;
    let walls = (figures.wall(WORK, "barid"), figures.wall(UNCHANGED, "barid"));
    figures.bar_ratio("one message delivered, then open", walls, 2.0, "the open without change");
    Ok(())
}

pub(crate) fn thread(world: &World, figures: &mut Figures) -> Result<()> {
    const FIRST: &str = "thread first";
    const WARM: &str = "thread again";
    let (path, corpus) = pristine(world)?;
    let theirs = dovecots(world, figures)?;
    let location = world.dovecot.mbox_location(&theirs);
    let barid = Barid::new(world, &path, "thread");
    let warm = |figures: &mut Figures, record: bool| -> Result<String> {
        let mut imap = world.dovecot.imap(&location, &[])?;
        imap.command("SELECT INBOX")?;
        let start = Instant::now();
        let reply = imap.command("THREAD REFERENCES UTF-8 ALL")?;
        if record {
            figures.add_time(WARM, "dovecot", start.elapsed());
        }
        imap.logout()?;
        reply.find("THREAD").context("no THREAD response")
    };
    barid.forget()?;
    let ours = barid.output(THREADS)?;
    equal_threads(&ours, &warm(figures, false)?, corpus.len(), figures)?;
    for _ in 0..world.options.runs {
        barid.forget()?;
        barid.measure(NEWEST_50, Sampling::Off)?;
        settle();
        figures.add(FIRST, "barid", barid.measure(THREADS, Sampling::Off)?);
        settle();
        barid.measure(THREADS, Sampling::Off)?;
        figures.add(WARM, "barid", barid.measure(THREADS, Sampling::Off)?);
        warm(figures, true)?;
    }
    figures.bar_time("thread 361,052, first time", figures.wall(FIRST, "barid"), THREAD_MAX);
    let walls = (figures.wall(WARM, "barid"), figures.wall(WARM, "dovecot"));
    figures.bar_ratio("thread again", walls, 0.25, "Dovecot's warm THREAD");
    Ok(())
}

/// Checks that both replies contain the same threads. Their order may differ, since it follows
/// dates that one side may not parse (Dovecot uses the arrival for a `Date` in the form of asctime,
/// and one such message is enough); the number of threads in a different position is noted.
fn equal_threads(ours: &str, theirs: &str, count: u64, figures: &mut Figures) -> Result<()> {
    let ours = ours.trim().trim_start_matches("* THREAD").trim_start();
    if ours == theirs.trim() {
        figures.note(format!("Threads of {count} messages: equal to Dovecot's, byte for byte."));
        return Ok(());
    }
    let (ours, theirs) = (split(ours), split(theirs.trim()));
    let other: std::collections::HashSet<&str> = theirs.iter().copied().collect();
    let missing: Vec<_> = ours.iter().filter(|thread| !other.contains(**thread)).collect();
    if ours.len() != theirs.len() || !missing.is_empty() {
        let few: Vec<_> = missing.iter().take(3).collect();
        bail!(
            "threads differ: {} of ours ({}) are not among Dovecot's ({}), such as {few:?}",
            missing.len(),
            ours.len(),
            theirs.len()
        );
    }
    let elsewhere = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs).count();
    figures.note(format!(
        "Threads of {count} messages: the same {} as Dovecot's; the order is not compared, \
         {elsewhere} stand at another place.",
        ours.len()
    ));
    Ok(())
}

/// Returns the threads of a reply.
fn split(reply: &str) -> Vec<&str> {
    let mut threads = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, byte) in reply.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            threads.push(&reply[start..=at]);
            start = at + 1;
        }
    }
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_split_into_threads() {
        assert_eq!(split("(1 2)((3)(4))(5)"), ["(1 2)", "((3)(4))", "(5)"]);
    }

    #[test]
    fn other_threads_are_found_out() {
        let mut figures = Figures::default();
        assert!(equal_threads("(1)(2 3)\n", "(1)(2 3)", 3, &mut figures).is_ok());
        assert!(equal_threads("(2 3)(1)", "(1)(2 3)", 3, &mut figures).is_ok());
        assert!(equal_threads("(1)(2)(3)", "(1)(2 3)", 3, &mut figures).is_err());
    }
}

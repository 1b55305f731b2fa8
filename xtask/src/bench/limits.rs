//! The limits of the machine: the work on the same files that no mail program can avoid.

use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use barid_testkit::disk;

use super::figures::Figures;

/// Bytes read of each message's file: its header and more.
const HEAD_LEN: usize = 16 << 10;
/// Bytes of an mbox read at once.
const WINDOW_LEN: usize = 1 << 20;

/// Measures opening, reading and closing each file, on all cores.
pub(crate) fn maildir(path: &Path, runs: usize, figures: &mut Figures) -> Result<()> {
    const WORK: &str = "limit: read every head";
    for _ in 0..runs {
        let start = Instant::now();
        let mut files = disk::list_files(&path.join("cur"))?;
        files.extend(disk::list_files(&path.join("new"))?);
        in_parallel(files.len(), |from, to| read_heads(&files[from..to]))?;
        figures.add_time(WORK, "machine", start.elapsed());
    }
    compare(figures, "maildir populate", WORK);
    Ok(())
}

/// Measures reading the file once and inspecting every byte, on all cores.
pub(crate) fn mbox(path: &Path, runs: usize, figures: &mut Figures) -> Result<()> {
    const WORK: &str = "limit: read the mbox";
    let windows = disk::size(path)? as usize / WINDOW_LEN + 1;
    for _ in 0..runs {
        let start = Instant::now();
        in_parallel(windows, |from, to| read_windows(path, from, to))?;
        figures.add_time(WORK, "machine", start.elapsed());
    }
    compare(figures, "mbox first open", WORK);
    Ok(())
}

fn compare(figures: &mut Figures, work: &str, limit: &str) {
    let (ours, least) = (figures.wall(work, "barid"), figures.wall(limit, "machine"));
    let times = ours.median.as_secs_f64() / least.median.as_secs_f64();
    let (ours, least) = (ours.text(), least.text());
    figures.note(format!("{work}: {ours}; the bare work, {limit}: {least}; {times:.2} times it."));
}

fn in_parallel(
    count: usize,
    work: impl Fn(usize, usize) -> std::io::Result<()> + Sync,
) -> std::io::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = count.div_ceil(threads).max(1);
    let work = &work;
    std::thread::scope(|scope| {
        let starts = (0..count).step_by(share);
        let spawned: Vec<_> =
            starts.map(|from| scope.spawn(move || work(from, (from + share).min(count)))).collect();
        spawned
            .into_iter()
            .try_for_each(|worker| worker.join().expect("because reading does not panic"))
    })
}

fn read_heads(files: &[PathBuf]) -> std::io::Result<()> {
    let mut buffer = vec![0; HEAD_LEN];
    for path in files {
        let _len = disk::open(path)?.read(&mut buffer)?;
    }
    Ok(())
}

fn read_windows(path: &Path, from: usize, to: usize) -> std::io::Result<()> {
    let file = disk::open(path)?;
    let mut buffer = vec![0; WINDOW_LEN];
    let mut lines = 0;
    for window in from..to {
        let len = file.read_at(&mut buffer, (window * WINDOW_LEN) as u64)?;
        lines += buffer[..len].iter().filter(|byte| **byte == b'\n').count();
    }
    std::hint::black_box(lines);
    Ok(())
}

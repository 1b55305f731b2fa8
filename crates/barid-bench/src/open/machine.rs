//! The limits of the machine: the work on the same files that no mail program can avoid.

use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use anyhow::Result;
use barid_testkit::disk;
use barid_testkit::usage::Sampling;

use super::material::Material;
use super::step::{Part, Side, Step};
use super::system::{Answers, System};
use crate::lab::Figures;

/// Bytes read of each message's file: its header and more.
const HEAD_LEN: usize = 16 << 10;
/// Bytes of an mbox read at once.
const WINDOW_LEN: usize = 1 << 20;

/// The bare work, by threads of this process.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) material: Rc<Material>,
}

impl System for Machine {
    fn side(&self) -> Side {
        Side::Machine
    }

    fn prepare(&mut self, _: Step) -> Result<()> {
        Ok(())
    }

    fn run(&mut self, step: Step, _: Sampling) -> Result<Figures> {
        let path = &self.material.of(step.part())?.path;
        let start = Instant::now();
        match step.part() {
            Part::Maildir | Part::Million => read_maildir(path)?,
            Part::Mbox | Part::Thread => read_mbox(path)?,
        }
        Ok(Figures { real_s: start.elapsed().as_secs_f64(), ..Figures::default() })
    }

    fn answers(&mut self, _: Part) -> Result<Answers> {
        Ok(Answers::default())
    }
}

/// Opens each file, reads its head and closes it, on all cores.
fn read_maildir(path: &Path) -> io::Result<()> {
    let mut files = disk::list_files(&path.join("cur"))?;
    files.extend(disk::list_files(&path.join("new"))?);
    in_parallel(files.len(), |from, to| read_heads(&files[from..to]))
}

/// Reads a file once and inspects every byte, on all cores.
fn read_mbox(path: &Path) -> io::Result<()> {
    let windows = disk::size(path)? as usize / WINDOW_LEN + 1;
    in_parallel(windows, |from, to| read_windows(path, from, to))
}

fn in_parallel(
    count: usize,
    work: impl Fn(usize, usize) -> io::Result<()> + Sync,
) -> io::Result<()> {
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

fn read_heads(files: &[PathBuf]) -> io::Result<()> {
    let mut buffer = vec![0; HEAD_LEN];
    for path in files {
        let _len = disk::open(path)?.read(&mut buffer)?;
    }
    Ok(())
}

fn read_windows(path: &Path, from: usize, to: usize) -> io::Result<()> {
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

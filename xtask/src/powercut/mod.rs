//! `cargo xtask powercut`: what is left of a mailbox when the power fails, on real file systems.
//!
//! A file system is made on a disk of our own ([`disk`]) that notes every write and every flush,
//! and barid changes an mbox in it. From the notes come images of the disk as a power failure may
//! leave it: cut after each flush, and cut anywhere, with any of the writes since the last flush
//! missing or torn at 512 bytes. Each is mounted, so that the file system recovers, then barid
//! opens the mailbox and recovers; every message whose change was acknowledged before the cut must
//! be there once, byte for byte, with the flags that were acknowledged. Some recoveries are cut as
//! well.
//!
//! Needs root, FUSE, loop devices and the tools of the file systems. Mounts are made in a mount
//! namespace of its own and go with it.

mod check;
mod cut;
mod disk;
mod image;
mod mount;
mod work;

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use barid_testkit::peers::program;
use barid_testkit::{Scratch, corpora, disk as files, skip_or_fail};

use crate::args::Args;
use crate::shell::cargo;
use cut::{BLOCK_LEN, Cut, Cuts, Random, SECTOR_LEN};
use disk::Disks;
use image::{Event, Image};
use mount::{FileSystem, Mounted};
use work::{Record, World};

/// Images that a run must have had.
const IMAGES_MIN: usize = 300;
/// Every so many images, the recovery is cut as well.
const RECUT_EVERY: usize = 10;
/// Cuts of such a recovery.
const RECUTS: usize = 3;
/// Every so many images, the mailbox is changed again after it was recovered.
const AGAIN_EVERY: usize = 7;
/// Says that this process is the one in the namespace.
const INSIDE: &str = "BARID_POWERCUT_INSIDE";

/// What the command line says.
#[derive(Clone, Copy, Debug)]
struct Options {
    seed: u64,
    /// Images of each file system beside those cut after a flush.
    random: usize,
    messages: u64,
}

/// What came of a file system.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    images: usize,
    recovered: usize,
    pieces: usize,
    recuts: usize,
    /// Images torn between sectors that the file system could not bear.
    unsound: usize,
}

pub(crate) fn run(mut args: Args) -> Result<()> {
    if std::env::var_os(INSIDE).is_none() {
        return enter();
    }
    let only = args.option::<String>("--only")?;
    let built = args.option::<PathBuf>("--barid")?;
    let options = Options {
        seed: args.option("--seed")?.unwrap_or(1),
        random: args.option("--random")?.unwrap_or(300),
        messages: args.option("--messages")?.unwrap_or(1_000),
    };
    args.finish()?;
    let scratch = Scratch::new("powercut")?;
    // Whatever is built meanwhile, the program stays the same.
    let barid = scratch.path().join("barid");
    files::copy(&program_under_test(built)?, &barid)?;
    let mut images = 0;
    for kind in FileSystem::ALL {
        if only.as_deref().is_some_and(|only| !only.split(',').any(|name| name == kind.name())) {
            continue;
        }
        let start = Instant::now();
        let tally = file_system(kind, &barid, scratch.path(), options)
            .with_context(|| format!("{}, seed {}", kind.name(), options.seed))?;
        images += tally.images;
        let Tally { images: count, recovered, pieces, recuts, unsound } = tally;
        println!(
            "{}: {count} images, {recovered} of them with unfinished work, {recuts} cut while that was \
             completed, {pieces} with pieces of appends that nobody was told of: nothing lost, {:.0} s\n\
             {}: {unsound} images more that the file system itself did not bear",
            kind.name(),
            start.elapsed().as_secs_f64(),
            kind.name(),
        );
    }
    println!("{images} images");
    ensure!(only.is_some() || images >= IMAGES_MIN, "that is less than {IMAGES_MIN}");
    Ok(())
}

/// Runs this program again in a mount namespace of its own, if all that is needed is there.
fn enter() -> Result<()> {
    if let Some(missing) = missing() {
        skip_or_fail(&format!("powercut: {missing}"));
        return Ok(());
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]).arg(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).env(INSIDE, "1");
    // A signal ends this process alone: killed with a disk mounted, the other one would wait for
    // itself to write that, and with it every `sync` on the machine.
    let mut child = command.process_group(0).stdin(Stdio::piped()).spawn()?;
    let alive = child.stdin.take();
    let status = child.wait()?;
    drop(alive);
    if status.success() { Ok(()) } else { bail!("powercut failed: {status}") }
}

/// Whether the process outside has gone, so that this one is to end.
fn stop() -> &'static AtomicBool {
    static STOP: AtomicBool = AtomicBool::new(false);
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // The pipe from the other process ends with it.
        std::thread::spawn(|| {
            drop(io::copy(&mut io::stdin().lock(), &mut io::sink()));
            STOP.store(true, Ordering::Relaxed);
        });
    });
    &STOP
}

fn missing() -> Option<String> {
    if !crate::install::is_root() {
        return Some("root's rights, to mount file systems".to_owned());
    }
    let devices = ["/dev/fuse", "/dev/loop-control"];
    if let Some(device) = devices.into_iter().find(|device| !files::exists(Path::new(device))) {
        return Some(format!("{device}: the kernel has no such device"));
    }
    let tools = ["unshare", "mount", "umount", "mkfs.ext4", "e2fsck", "mkfs.xfs", "xfs_repair"];
    let tool = tools.into_iter().find(|tool| program(tool).is_none())?;
    Some(format!("{tool} (Debian packages util-linux, e2fsprogs, xfsprogs)"))
}

fn program_under_test(built: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(built) = built {
        return Ok(built);
    }
    cargo(&["build", "--release", "-q", "-p", "barid-cli"], &[])?;
    Ok(corpora::target_folder().join("release/barid"))
}

/// One file system: records the work, then looks at every image.
fn file_system(kind: FileSystem, barid: &Path, folder: &Path, options: Options) -> Result<Tally> {
    let folder = folder.join(kind.name());
    let (disks_folder, mount_point) = (folder.join("disks"), folder.join("mnt"));
    [&disks_folder, &mount_point].iter().try_for_each(|path| files::create_dir_all(path))?;
    let disks = Disks::mount(&disks_folder).context("FUSE")?;
    let place = Place { kind, disks: &disks, disks_folder, mount_point, barid };
    let record = place.record(options)?;
    println!(
        "{}: {} writes and flushes, {} acknowledged changes",
        kind.name(),
        record.log.len(),
        record.acknowledged.len()
    );
    check::can_fail(&place, &record)?;
    let mut tally = Tally::default();
    let cuts = Cuts::new(&record.before, &record.log, record.work_began);
    let mut random = Random::new(options.seed);
    for cut in cuts.after_flushes() {
        place.image(&record, &cut, &mut random, &mut tally)?;
    }
    for _ in 0..options.random {
        place.random_image(&record, &cuts, &mut random, &mut tally)?;
    }
    Ok(tally)
}

/// Where disks are mounted.
#[derive(Debug)]
struct Place<'a> {
    kind: FileSystem,
    disks: &'a Disks,
    disks_folder: PathBuf,
    mount_point: PathBuf,
    barid: &'a Path,
}

impl Place<'_> {
    /// Puts a disk into the file system of disks, and mounts it.
    fn mount(&self, image: Image, is_logged: bool) -> Result<Mounted<'_>> {
        Mounted::new(self.disks, image, is_logged, &self.disks_folder, &self.mount_point)
    }

    fn world(&self) -> World<'_> {
        World { root: &self.mount_point, barid: self.barid }
    }

    /// Does the work on a fresh file system.
    fn record(&self, options: Options) -> Result<Record> {
        let image = Image::new(self.kind.len());
        let number = self.disks.add(image, false);
        self.kind.make(&self.disks_folder.join(number.to_string()))?;
        let (empty, _) = self.disks.take(number).context("the disk is there")?;
        let mounted = self.mount(empty.clone(), true)?;
        let mut record = work::record(&self.world(), &mounted, options.messages, options.seed)?;
        let (last, log) = mounted.unmount()?;
        let mut replayed = empty.clone();
        log.iter().for_each(|event| event.apply(&mut replayed));
        ensure!(replayed == last, "the log does not lead to the disk as it is");
        (record.before, record.log) = (empty, log);
        Ok(record)
    }

    /// Looks at a random image, torn between sectors. No file system bears that everywhere: the
    /// superblock of ext4 has two sectors, and XFS believes the first sector of a block of its own
    /// that the block is whole. Where it is unsound for that, writes are torn between its blocks.
    fn random_image(
        &self,
        record: &Record,
        cuts: &Cuts<'_>,
        random: &mut Random,
        tally: &mut Tally,
    ) -> Result<()> {
        let same = random.clone();
        if self.image(record, &cuts.random(random, SECTOR_LEN), random, tally)? {
            return Ok(());
        }
        tally.unsound += 1;
        let cut = cuts.random(&mut same.clone(), BLOCK_LEN);
        let is_sound = self.image(record, &cut, random, tally)?;
        ensure!(is_sound, "{}: the file system is not sound", cut.what);
        Ok(())
    }

    /// Looks at an image, and at some cuts of its recovery. False if the file system is not sound,
    /// because of writes that are torn.
    fn image(
        &self,
        record: &Record,
        cut: &Cut,
        random: &mut Random,
        tally: &mut Tally,
    ) -> Result<bool> {
        let number = tally.images;
        let what = || format!("image {number}: {}", cut.what);
        let is_recut = number.is_multiple_of(RECUT_EVERY);
        let how = How { is_again: number.is_multiple_of(AGAIN_EVERY), is_logged: is_recut };
        let looked = self.look(record, cut, cut.position, how).with_context(what)?;
        let Some((seen, log)) = looked else { return Ok(false) };
        tally.images += 1;
        tally.recovered += usize::from(seen.had_work);
        tally.pieces += usize::from(seen.had_pieces);
        if !is_recut || log.is_empty() || how.is_again {
            return Ok(true);
        }
        let recuts = Cuts::new(&cut.image, &log, 0);
        for _ in 0..RECUTS {
            let recut = recuts.random(random, BLOCK_LEN);
            let what = || format!("{}; its recovery {}", what(), recut.what);
            let how = How { is_again: false, is_logged: false };
            let looked = self.look(record, &recut, cut.position, how).with_context(what)?;
            tally.images += usize::from(looked.is_some());
            tally.recuts += usize::from(looked.is_some() && seen.had_work);
        }
        Ok(true)
    }

    /// Mounts an image, lets barid recover the mailbox, and checks it; what was found, and what was
    /// written meanwhile. `None` if the file system is not sound, because of writes that are torn.
    fn look(
        &self,
        record: &Record,
        cut: &Cut,
        position: usize,
        how: How,
    ) -> Result<Option<(check::Seen, Vec<Event>)>> {
        ensure!(!stop().load(Ordering::Relaxed), "interrupted");
        let mounted = match self.mount(cut.image.clone(), how.is_logged) {
            Err(_) if cut.torn > 0 => return Ok(None),
            other => other?,
        };
        let checked = check::image(&self.world(), record, position, how.is_again);
        let (image, log) = mounted.unmount()?;
        match checked {
            Ok(seen) => Ok(Some((seen, log))),
            Err(_) if cut.torn > 0 && !self.is_sound(image)? => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_sound(&self, image: Image) -> Result<bool> {
        let number = self.disks.add(image, false);
        let is_sound = self.kind.is_sound(&self.disks_folder.join(number.to_string()));
        self.disks.take(number);
        is_sound
    }
}

/// How an image is looked at.
#[derive(Clone, Copy, Debug)]
struct How {
    /// Whether the mailbox is changed once more.
    is_again: bool,
    /// Whether what is written is noted.
    is_logged: bool,
}

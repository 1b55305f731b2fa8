//! `cargo xtask powercut`: tests a mailbox after a power failure, on real file systems.
//!
//! The test makes a file system on a disk ([`disk`]) that records every write and every flush, and
//! barid changes an mbox in it. From the log it makes images of the disk as a power failure may
//! leave it: cut after each flush, and cut anywhere, with any of the writes since the last flush
//! missing or torn at 512 bytes. It mounts each image, so that the file system recovers; then barid
//! opens the mailbox and recovers. Every message whose change was acknowledged before the cut must
//! exist once, byte for byte, with the acknowledged flags. Some recoveries are cut as well.
//!
//! Needs root, FUSE, loop devices and the tools of the file systems. Mounts are made in a separate
//! mount namespace and end with it.

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

/// Least number of images in a run.
const IMAGES_MIN: usize = 300;
/// Number of images between those whose recovery is cut as well.
const RECUT_EVERY: usize = 10;
/// Number of cuts of such a recovery.
const RECUTS: usize = 3;
/// Number of images between those whose mailbox is changed again after its recovery.
const AGAIN_EVERY: usize = 7;
/// The variable that marks the process inside the namespace.
const INSIDE: &str = "BARID_POWERCUT_INSIDE";

/// The options of the command line.
#[derive(Clone, Copy, Debug)]
struct Options {
    seed: u64,
    /// Number of images of each file system besides those cut after a flush.
    random: usize,
    messages: u64,
}

/// The results for a file system.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    images: usize,
    recovered: usize,
    pieces: usize,
    recuts: usize,
    /// Images torn between sectors that the file system could not recover.
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
    // A copy, so that a concurrent build does not change the program.
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

/// Runs this program again in a separate mount namespace, or skips the test if something is
/// missing.
fn enter() -> Result<()> {
    if let Some(missing) = missing() {
        skip_or_fail(&format!("powercut: {missing}"));
        return Ok(());
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]).arg(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).env(INSIDE, "1");
    // The child has its own process group, so that a signal ends only this process. A child killed
    // with a disk mounted would wait for itself to write that disk, and block every `sync` on the
    // machine.
    let mut child = command.process_group(0).stdin(Stdio::piped()).spawn()?;
    let alive = child.stdin.take();
    let status = child.wait()?;
    drop(alive);
    if status.success() { Ok(()) } else { bail!("powercut failed: {status}") }
}

/// Returns a flag that is set when the outer process has ended; this process must then end.
fn stop() -> &'static AtomicBool {
    static STOP: AtomicBool = AtomicBool::new(false);
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // The pipe from the outer process closes when that ends.
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

/// Tests one file system: records the changes, then checks every image.
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

/// The file system, folders and program of a test.
#[derive(Debug)]
struct Place<'a> {
    kind: FileSystem,
    disks: &'a Disks,
    disks_folder: PathBuf,
    mount_point: PathBuf,
    barid: &'a Path,
}

impl Place<'_> {
    /// Adds a disk to the file system of disks, and mounts it.
    fn mount(&self, image: Image, is_logged: bool) -> Result<Mounted<'_>> {
        Mounted::new(self.disks, image, is_logged, &self.disks_folder, &self.mount_point)
    }

    fn world(&self) -> World<'_> {
        World { root: &self.mount_point, barid: self.barid }
    }

    /// Makes the changes on a fresh file system.
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

    /// Checks a random image, torn between sectors. No file system tolerates that everywhere: the
    /// superblock of ext4 has two sectors, and XFS takes the first sector of one of its blocks as
    /// proof that the block is whole. If the file system is unsound for that reason, an image torn
    /// between blocks replaces it.
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

    /// Checks an image, and some cuts of its recovery. Returns `false` if torn writes made the file
    /// system unsound.
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

    /// Mounts an image, lets barid recover the mailbox, and checks it. Returns the observations and
    /// the log of writes, or `None` if torn writes made the file system unsound.
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

/// The options for checking an image.
#[derive(Clone, Copy, Debug)]
struct How {
    /// `true` if the mailbox is changed once more.
    is_again: bool,
    /// `true` if writes are logged.
    is_logged: bool,
}

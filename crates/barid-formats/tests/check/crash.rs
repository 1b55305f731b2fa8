//! Power failures at every moment of a repair and of its undoing. Whatever is on the disk
//! afterwards, the interrupted work can be completed, the mailbox can be repaired with every whole
//! message in it, and the repair can be undone byte for byte.
//!
//! The environment variable `BARID_CRASH_POINTS` sets the number of crash points; the default is
//! 2,000.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use barid_formats::check::KeptRepairState;
use barid_vfs::{CrashVfs, MemVfs};
use fastrand::Rng;

use super::cases;
use super::world::{Box_, Case, Expected, View, image, survivors};

const POINTS: usize = 2_000;

fn points() -> usize {
    let given = std::env::var("BARID_CRASH_POINTS").ok();
    given.map_or(POINTS, |number| number.parse().expect("because it is a number"))
}

/// A damaged mailbox.
struct Scenario {
    mailbox: Box_,
    expected: Expected,
    before: BTreeMap<PathBuf, Option<Vec<u8>>>,
}

/// Returns the files that make up the mailbox, without locks, journals and leftovers of a crash.
pub(super) fn files(disk: &MemVfs, folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut files = image(disk, folder);
    files.retain(|path, _| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_append = name.starts_with(".barid-append");
        is_append || !name.contains(".barid-") && !name.contains(".lock")
    });
    files
}

impl Scenario {
    /// Returns `None` if nothing can be repaired.
    fn of(case: &Case, seed: u64) -> Option<Self> {
        let mut rng = Rng::with_seed(seed);
        let mut mailbox = (case.build)(&mut rng);
        let expected = (case.damage)(&mut mailbox, &mut rng);
        if expected.is_hopeless {
            return None;
        }
        let before = files(&mailbox.disk, &mailbox.folder);
        Some(Self { mailbox, expected, before })
    }

    fn view(&self, disk: &MemVfs) -> View {
        View::of(disk, &self.mailbox.spec)
    }

    /// Checks that undoing restores the old content.
    fn can_be_undone(&self, disk: &MemVfs) -> Result<(), String> {
        let view = self.view(disk);
        view.recover().map_err(|error| format!("recovering: {error}"))?;
        view.undo().map_err(|error| format!("undoing: {error}"))?;
        match files(disk, &self.mailbox.folder) == self.before {
            true => Ok(()),
            false => Err("undone, but it is not what it was".to_owned()),
        }
    }

    /// Checks that a repair restores all whole messages.
    fn can_be_repaired(&self, disk: &MemVfs) -> Result<(), String> {
        let view = self.view(disk);
        view.recover().map_err(|error| format!("recovering: {error}"))?;
        view.repair().map_err(|error| format!("repairing: {error}"))?;
        survivors(&view, &self.mailbox.texts, &self.expected.lost)
    }
}

/// Crashes `work` at points spread evenly over all of it.
fn crash(
    disk: &MemVfs,
    most: usize,
    work: impl Fn(&MemVfs),
    mut judge: impl FnMut(&MemVfs, bool) -> Result<(), String>,
) -> Result<usize, String> {
    let world = CrashVfs::new(disk);
    work(&world.vfs());
    let all = world.points();
    let step = ((all + 1) * 3).div_ceil(most).max(1);
    let mut tried = 0;
    for number in (0..(all + 1) * 3).step_by(step) {
        let (point, seed) = (number / 3, [0, 1, 7 + number as u64][number % 3]);
        let found = world.crash_at(point, seed);
        judge(&found, point == all).map_err(|what| format!("point {point}/{seed}: {what}"))?;
        tried += 1;
    }
    Ok(tried)
}

/// Returns the kinds of damage of a case: format, kind, and `true` if a repair mends it.
pub(super) fn kinds(case: &Case, seed: u64) -> BTreeSet<(&'static str, &'static str, bool)> {
    let mut rng = Rng::with_seed(seed);
    let mut mailbox = (case.build)(&mut rng);
    (case.damage)(&mut mailbox, &mut rng);
    let found = View::of(&mailbox.disk, &mailbox.spec).check().expect("because nothing fails");
    let format = match case.format {
        "mmdf" | "mboxcl" => "mbox",
        format => format,
    };
    found.damages.iter().map(|damage| (format, damage.kind, damage.repair.is_some())).collect()
}

fn hunt(what: &str, hunt: impl Fn(&Scenario, usize) -> Result<usize, String>) {
    let cases = cases();
    let most = (points() / cases.len()).max(4);
    let (mut tried, mut failed) = (0, Vec::new());
    let mut missed = super::kinds();
    missed.retain(|(_, _, is_mended)| *is_mended);
    for (number, case) in cases.iter().enumerate() {
        let seed = number as u64 % 8;
        let Some(scenario) = Scenario::of(case, seed) else { continue };
        match hunt(&scenario, most) {
            Ok(count) => {
                tried += count;
                let kinds = kinds(case, seed);
                missed.retain(|kind| !kinds.contains(kind));
            }
            Err(error) => failed.push(format!("{} {}, {seed}: {error}", case.format, case.name)),
        }
    }
    println!("{what}: {tried} crash points");
    assert!(failed.is_empty(), "{}:\n{}", failed.len(), failed.join("\n"));
    assert!(missed.is_empty(), "never interrupted: {missed:?}");
    assert!(tried >= 2 * cases.len(), "{tried}");
}

#[test]
fn a_repair_may_be_interrupted() {
    hunt("repair", |scenario, most| {
        let repair =
            |disk: &MemVfs| drop(scenario.view(disk).repair().expect("because nothing fails"));
        crash(&scenario.mailbox.disk, most, repair, |found, is_done| {
            if is_done {
                let view = scenario.view(found);
                let again = view.check().map_err(|error| error.to_string())?;
                if again.is_repairable {
                    return Err(format!("acknowledged, but {:?}", again.damages));
                }
            }
            scenario.can_be_undone(&found.snapshot())?;
            scenario.can_be_repaired(found)
        })
    });
}

#[test]
fn an_undoing_may_be_interrupted() {
    hunt("undo", |scenario, most| {
        let disk = &scenario.mailbox.disk;
        scenario.view(disk).repair().expect("because nothing fails");
        let undo = |disk: &MemVfs| drop(scenario.view(disk).undo().expect("because nothing fails"));
        crash(disk, most, undo, |found, is_done| {
            if is_done && files(found, &scenario.mailbox.folder) != scenario.before {
                return Err("acknowledged, but it is not what it was".to_owned());
            }
            scenario.can_be_undone(&found.snapshot())?;
            scenario.can_be_repaired(found)
        })
    });
}

#[test]
fn forgetting_repairs_may_be_interrupted() {
    let case = cases().into_iter().find(|case| case.name == "first letters of a separator");
    let scenario = Scenario::of(&case.unwrap(), 1).unwrap();
    let disk = &scenario.mailbox.disk;
    let view = scenario.view(disk);
    view.repair().unwrap();
    view.undo().unwrap();
    view.repair().unwrap();
    let discard = |disk: &MemVfs| assert_eq!(scenario.view(disk).discard().unwrap(), 2);
    let tried = crash(disk, usize::MAX, discard, |found, is_done| {
        let view = scenario.view(found);
        if is_done && !view.kept().is_empty() {
            return Err("acknowledged, but something is kept".to_owned());
        }
        // Stored bytes that were not discarded are still whole.
        if view.kept().contains(&KeptRepairState::Kept) {
            scenario.can_be_undone(&found.snapshot())?;
        }
        view.discard().map_err(|error| error.to_string())?;
        match view.kept().len() + image(found, Path::new("/side/1")).len() {
            0 => Ok(()),
            left => Err(format!("{left} are left")),
        }
    });
    assert!(tried.unwrap() > 9);
}

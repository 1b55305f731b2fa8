//! Scans after deliveries, which know only the names in `new`: they report what scans report that
//! know all names.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use barid_mailbox::ScanReport;
use barid_vfs::{MemVfs, OpenOptions};
use fastrand::Rng;

use super::support::World;

/// Two Maildirs to which the same happens; the scans of the second one load all messages.
struct Twins([World; 2]);

impl Twins {
    fn new() -> Self {
        let mut worlds = [(); 2].map(|()| World::new(Arc::new(MemVfs::new())));
        worlds[1].cache.has_many_new = true;
        Self(worlds)
    }

    fn each(&mut self, step: impl Fn(&mut World)) {
        self.0.iter_mut().for_each(step);
    }

    /// Scans both, and compares; returns the report.
    fn scan(&mut self, what: &str) -> ScanReport {
        let [ours, all] = &mut self.0;
        let (report, expected) = (ours.scan(), all.scan());
        assert_eq!(ours.lines(), all.lines(), "{what}");
        // Stamps and identities are those of the disk.
        let facts = |report: &ScanReport| {
            let ScanReport { reset, expunged, changed, size_bytes, uidnext, .. } = report.clone();
            (reset, expunged, changed, size_bytes, uidnext, report.keywords.clone())
        };
        assert_eq!(facts(&report), facts(&expected), "{what}");
        let lines = |world: &World| world.text("dovecot-uidlist").lines().count();
        assert_eq!(lines(ours), lines(all), "{what}");
        report
    }
}

/// Returns a random file of a folder.
fn any_of(world: &World, folder: &str, random: &mut Rng) -> Option<String> {
    let names: Vec<String> = world
        .cache
        .messages
        .values()
        .filter(|message| message.in_new == (folder == "new"))
        .map(|message| String::from_utf8_lossy(&message.name).into_owned())
        .collect();
    (!names.is_empty()).then(|| names[random.usize(..names.len())].clone())
}

/// Renames or removes a file, if it is still there.
fn move_file(world: &World, from: &str, to: Option<&str>) {
    let from = world.path.join(from);
    let _ = match to {
        Some(to) => world.vfs.rename(&from, &world.path.join(to)),
        None => world.vfs.remove_file(&from),
    };
}

/// Gives a name the next UID in the UID list, as another program would.
fn add_line(world: &World, name: &str) {
    let path = world.path.join("dovecot-uidlist");
    let Ok(list) = world.vfs.read(&path, 1 << 20) else { return };
    let uid = world.cache.report.as_ref().map_or(1, |report| report.uidnext.get());
    let line = format!("{uid} :{name}\n");
    let file = world.vfs.open(&path, OpenOptions::WRITE).unwrap();
    file.write_all_at(line.as_bytes(), list.len() as u64).unwrap();
}

/// Something that another program does.
#[derive(Clone, Debug)]
enum MaildirStep {
    Put(String),
    Move(String, Option<String>),
    Keywords,
    /// A line of the UID list, and a file if it is new.
    Line(String),
}

impl MaildirStep {
    fn draw(world: &World, number: u64, random: &mut Rng) -> Self {
        let (in_new, in_cur) = (any_of(world, "new", random), any_of(world, "cur", random));
        let base = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
        let is_plain = |name: &String| !name.contains(",U=");
        match (random.u8(..16), in_new, in_cur) {
            (0, Some(name), _) => {
                Self::Move(format!("new/{name}"), Some(format!("cur/{}:2,S", base(&name))))
            }
            (1, Some(name), _) => Self::Move(format!("new/{name}"), None),
            (2, _, Some(name)) => Self::Move(format!("cur/{name}"), None),
            (3, _, Some(name)) => {
                Self::Move(format!("cur/{name}"), Some(format!("cur/{}:2,FSa", base(&name))))
            }
            (4, _, Some(name)) => Self::Put(format!("new/{}", base(&name))),
            (5, Some(name), _) => Self::Put(format!("new/{}:2,", base(&name))),
            (6, _, Some(name)) if is_plain(&name) => {
                Self::Put(format!("new/{},U={number}", base(&name)))
            }
            (7, _, Some(name)) if is_plain(&name) => {
                let renamed = format!("cur/{},U={number}:2,S", base(&name));
                Self::Move(format!("cur/{name}"), Some(renamed))
            }
            (8, _, _) => Self::Put(format!("new/{number}.M1P1.h:2,Fb")),
            (9, _, _) => Self::Keywords,
            (10, _, Some(name)) if number.is_multiple_of(3) => Self::Line(base(&name)),
            (11, _, _) => Self::Line(format!("{number}.M2P{}.h", random.u32(..))),
            _ => Self::Put(format!("new/{number}.M1P1.h")),
        }
    }

    fn run(&self, world: &World, text: &str) {
        match self {
            Self::Put(name) => world.put(name, text.as_bytes()),
            Self::Move(from, to) => move_file(world, from, to.as_deref()),
            Self::Keywords => world.put("dovecot-keywords", b"0 $one\n1 two\n"),
            Self::Line(name) => {
                if name.contains("M2P") {
                    world.put(&format!("new/{name}"), text.as_bytes());
                }
                add_line(world, name);
            }
        }
    }
}

#[test]
fn deliveries_are_found_without_the_names_in_cur() {
    let (mut scans, mut loads) = (0, 0);
    for seed in 0..60 {
        let mut random = Rng::with_seed(seed);
        let mut twins = Twins::new();
        let mut history = Vec::new();
        for number in 0..40 {
            for at in 0..random.u64(1..3) {
                let number = 1000 + 10 * number + at;
                let step = MaildirStep::draw(&twins.0[0], number, &mut random);
                let text = format!("Subject: x\n\n{number:0>width$}", width = random.usize(1..50));
                twins.each(|world| step.run(world, &text));
                history.push(format!("{step:?}"));
            }
            if random.u8(..4) > 0 {
                twins.each(|world| world.pass_time());
                history.push("time".to_owned());
            }
            twins.scan(&format!("{seed}: {history:?}"));
            history.push("scan".to_owned());
            scans += 1;
        }
        loads += twins.0[0].cache.loads.load(Ordering::Relaxed);
    }
    assert!(loads < scans / 2, "{loads} of {scans} scans have read the names in `cur`");
}

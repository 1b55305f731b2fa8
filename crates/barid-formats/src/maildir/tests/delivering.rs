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

/// Does something to both at random; returns what.
fn step(twins: &mut Twins, (seed, number): (u64, u64), random: &mut Rng) -> String {
    let known = |folder: &str, random: &mut Rng| any_of(&twins.0[0], folder, random);
    let (in_new, in_cur) = (known("new", random), known("cur", random));
    let (kind, body) = (random.u8(..16), random.usize(1..50));
    // Either mbsync renames messages, or base names are there twice.
    let renames = !seed.is_multiple_of(2);
    let put = move |name: String| {
        move |world: &mut World| {
            world.put(&name, format!("Subject: x\n\n{number:0body$}").as_bytes())
        }
    };
    let base = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
    match (kind, in_new, in_cur) {
        (0, Some(name), _) => {
            twins.each(|world| {
                move_file(world, &format!("new/{name}"), Some(&format!("cur/{}:2,S", base(&name))));
            });
            format!("seen {name}")
        }
        (1, Some(name), _) => {
            twins.each(|world| move_file(world, &format!("new/{name}"), None));
            format!("remove new {name}")
        }
        (2, _, Some(name)) => {
            twins.each(|world| move_file(world, &format!("cur/{name}"), None));
            format!("remove cur {name}")
        }
        (3, _, Some(name)) => {
            let flagged = format!("cur/{}:2,FSa", base(&name));
            twins.each(|world| move_file(world, &format!("cur/{name}"), Some(&flagged)));
            format!("flag {name}")
        }
        (4, _, Some(name)) if !renames => {
            let twin = base(&name);
            twins.each(put(format!("new/{twin}")));
            format!("twin of cur {twin}")
        }
        (5, Some(name), _) if !renames => {
            let twin = format!("{}:2,", base(&name));
            twins.each(put(format!("new/{twin}")));
            format!("twin of new {twin}")
        }
        (6, _, Some(name)) if !name.contains(",U=") => {
            let renamed = format!("new/{},U={number}", base(&name));
            twins.each(put(renamed.clone()));
            renamed
        }
        (11, _, Some(name)) if renames && !name.contains(",U=") => {
            let renamed = format!("cur/{},U={number}:2,S", base(&name));
            twins.each(|world| move_file(world, &format!("cur/{name}"), Some(&renamed)));
            renamed
        }
        (7, _, _) => {
            twins.each(put(format!("new/{number}.M1P1.h:2,Fb")));
            "letters in new".to_owned()
        }
        (8, _, _) => {
            twins.each(|world| world.put("dovecot-keywords", b"0 $one\n1 two\n"));
            "keywords".to_owned()
        }
        (9, _, Some(name)) if !renames && number.is_multiple_of(3) => {
            twins.each(|world| add_line(world, &base(&name)));
            format!("another line of {name}")
        }
        (10, _, _) => {
            let name = format!("{number}.M2P{}.h", random.u32(..));
            twins.each(put(format!("new/{name}")));
            twins.each(|world| add_line(world, &name));
            "delivery with a line".to_owned()
        }
        _ => {
            twins.each(put(format!("new/{number}.M1P1.h")));
            "deliver".to_owned()
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
            for _ in 0..random.u8(1..3) {
                history.push(step(
                    &mut twins,
                    (seed, 1000 + 10 * number + random.u64(..10)),
                    &mut random,
                ));
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

//! Killed repairs and killed undos of repairs: the mailbox can be opened, repaired with every
//! message under its UID and with its flags, and restored byte for byte.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::support::World;

/// Kills of a repair in each format, and as many of an undo.
const KILLS: usize = 25;
/// Most programs started for each one that is killed in time.
const STARTS_PER_KILL: usize = 8;
const MESSAGES: usize = 500;
/// Messages of the Maildir, one file each.
const FILES: usize = 160;

/// The files of a mailbox by their names; `box` for a single file.
type Image = BTreeMap<String, Vec<u8>>;

/// A damaged mailbox.
struct Damaged {
    spec: &'static str,
    files: Image,
    /// The messages fetched after the repair.
    messages: String,
    /// Duration of the program when it is not killed: of a repair, and of an undo.
    whole: [Duration; 2],
}

fn text(number: usize) -> String {
    let body = format!("line of message {number}\n").repeat(20 + number * 37 % 300);
    format!(
        "Date: Tue, 5 Mar 2024 12:22:10 +0000\nFrom: a@b.example\nSubject: number {number}\n\
         Message-ID: <{number}@b.example>\n\n{body}"
    )
}

/// Returns the name of a message of the Maildir.
fn name(number: usize) -> String {
    let flags = ["S", "FS", "", "RS"][number % 4];
    format!("cur/{}.M{number}.host:2,{flags}", 1_600_000_000 + number)
}

/// Makes a Maildir with UIDs.
fn maildir(world: &World, folder: &str, count: usize) {
    let mut list = format!("3 V1600000000 N{} G{:032x}\n", count + 1, 7);
    world.maildir(folder, &[]);
    for number in 0..count {
        let name = name(number);
        world.deliver(folder, &name, &text(number));
        let base = name.strip_prefix("cur/").unwrap().split(':').next().unwrap();
        list.push_str(&format!("{} :{base}\n", number + 1));
    }
    world.write(&format!("{folder}/dovecot-uidlist"), list.as_bytes());
}

/// Collects the files below a folder, or the single file.
fn files(world: &World, name: &str, image: &mut Image) {
    if let Some(bytes) = world.try_bytes(name) {
        image.insert(name.to_owned(), bytes);
        return;
    }
    for entry in world.list(name) {
        files(world, &format!("{name}/{entry}"), image);
    }
}

fn image(world: &World) -> Image {
    let mut image = Image::new();
    files(world, "box", &mut image);
    // Files being written when the program was killed are ignored.
    image.retain(|name, _| !name.contains(".barid-") && !name.contains(".lock"));
    image
}

/// Writes the mailbox into a new world.
fn restored(files: &Image) -> World {
    let world = World::new();
    for (name, bytes) in files {
        match name.contains("/cur/") || name.contains("/new/") {
            true => {
                let file = name.strip_prefix("box/").unwrap();
                world.create_dir(name.rsplit_once('/').unwrap().0);
                world.deliver("box", file, std::str::from_utf8(bytes).unwrap());
            }
            false => drop(world.write(name, bytes)),
        }
    }
    if files.keys().any(|name| name.contains("/cur/")) {
        for folder in ["box/new", "box/tmp"] {
            world.create_dir(folder);
        }
    }
    world
}

fn patch(bytes: &mut [u8], at: usize, new: &[u8]) {
    bytes[at..at + new.len()].copy_from_slice(new);
}

fn damage_mbox(files: &mut Image) {
    let bytes = files.get_mut("box").unwrap();
    let from: Vec<usize> = memmem(bytes, b"\n\nFrom ").map(|at| at + 2).collect();
    bytes.extend([0; 3000]);
    for number in [400, 300, 200, 100] {
        patch(bytes, from[number], b"#r\x01m");
        let at = from[number - 50];
        bytes.splice(at..at, [0; 20]);
    }
    bytes.splice(0..0, b"what is this?\n".iter().copied());
}

fn damage_mbx(files: &mut Image) {
    let bytes = files.get_mut("box").unwrap();
    let mut lines = Vec::new();
    let mut at = 2048;
    while at < bytes.len() {
        lines.push(at);
        let end = at + memmem(&bytes[at..], b"\r\n").next().unwrap() + 2;
        let line = std::str::from_utf8(&bytes[at..end]).unwrap();
        let size: usize = line.split([',', ';']).nth(1).unwrap().parse().unwrap();
        at = end + size;
    }
    assert_eq!(lines.len(), MESSAGES);
    bytes.extend([0; 3000]);
    patch(bytes, lines[300], &[0xaa; 20]);
    patch(bytes, lines[200] + 3, b"???");
    bytes.splice(lines[2]..lines[2], [1; 700]);
}

fn damage_mix(files: &mut Image) {
    let (mut index, mut status) = (files["box/.mixindex"].clone(), files["box/.mixstatus"].clone());
    let field = |at: usize| {
        let digits = std::str::from_utf8(&index[at..at + 8]).unwrap();
        u32::from_str_radix(digits, 16).unwrap()
    };
    for number in [10, 250, 480] {
        let record = 11 + 77 * number;
        let (file, pos) = (field(record + 39), field(record + 48));
        let data = files.get_mut(&format!("box/.mix{file:08x}")).unwrap();
        patch(data, pos as usize, &[0; 20]);
    }
    patch(&mut index, 11 + 77 * 5 + 3, &[0; 3]);
    index.truncate(11 + 77 * 490);
    index.extend([0; 300]);
    patch(&mut status, 11 + 35 * 7 + 1, b"x");
    // Only the index names the message.
    status.drain(11 + 35 * 20..11 + 35 * 21);
    files.insert("box/.mixindex".to_owned(), index);
    files.insert("box/.mixstatus".to_owned(), status);
    files.get_mut("box/.mixmeta").unwrap().splice(11..11, b"Xfoo\r\n".iter().copied());
}

fn damage_maildir(files: &mut Image) {
    for number in 0..FILES {
        let from = format!("box/{}", name(number));
        let base = from.split(":2,").next().unwrap();
        let to = match number % 8 {
            1 => format!("{base}:2,SFS"),
            2 => base.to_owned(),
            5 => format!("{base}:2,FS").replace("/cur/", "/new/"),
            _ => continue,
        };
        let bytes = files.remove(&from).unwrap();
        files.insert(to, bytes);
    }
    for number in 0..9 {
        files.insert(format!("box/cur/1500000000.E{number}.host:2,"), Vec::new());
    }
    let list = files.get_mut("box/dovecot-uidlist").unwrap();
    let at = memmem(list, b"\n7 :").next().unwrap() + 3;
    list.splice(at..at, b"x7 ".iter().copied());
    files.insert("box/dovecot-keywords".to_owned(), b"\0\0\n0 todo\n7 todo\n".to_vec());
}

fn memmem<'a>(bytes: &'a [u8], what: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    (0..bytes.len()).filter(move |at| bytes[*at..].starts_with(what))
}

/// Returns the contents of the mailbox: UIDs, flags, dates, texts.
fn fetch(world: &World, spec: &str) -> String {
    let items = ["UID", "FLAGS", "INTERNALDATE", "BODY.PEEK[]"];
    let run = world.run(&[&["fetch", spec, "1:*"], &items[..]].concat());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{spec}");
    run.text()
}

impl Damaged {
    fn new(spec: &'static str, damage: fn(&mut Image)) -> Self {
        let world = World::new();
        let count = match spec.starts_with("maildir") {
            true => {
                maildir(&world, "box", FILES);
                FILES
            }
            false => {
                maildir(&world, "src", MESSAGES);
                world.ok(&["convert", "src", spec]);
                MESSAGES
            }
        };
        let before = fetch(&world, spec);
        assert_eq!(before.matches("* ").count(), count);
        let mut files = image(&world);
        damage(&mut files);
        let world = restored(&files);
        let timed = |args: &[&str]| {
            let started = Instant::now();
            let run = world.run(args);
            assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}: {}", run.text());
            started.elapsed()
        };
        let repair = timed(&["check", "--repair", spec]);
        let messages = fetch(&world, spec);
        assert_eq!(messages.matches("* ").count(), count);
        let undo = timed(&["check", "--undo", spec]);
        assert_eq!(image(&world), files);
        Self { spec, files, messages, whole: [repair, undo] }
    }

    /// Starts the program and kills it at a random moment; returns `true` if it was not done.
    fn kill(&mut self, world: &World, what: usize, rng: &mut fastrand::Rng) -> bool {
        let args = ["--repair", "--undo"];
        let mut child = world.start(&["check", args[what], self.spec]);
        std::thread::sleep(self.whole[what].mul_f32(0.1 + 0.8 * rng.f32()));
        child.kill().unwrap();
        let is_killed = child.wait().unwrap().code().is_none();
        // The load of the machine may have changed.
        self.whole[what] = self.whole[what].mul_f32(if is_killed { 1.1 } else { 0.7 });
        is_killed
    }

    fn repair(&self, world: &World, what: &str) {
        let run = world.run(&["check", "--repair", self.spec]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{what}: {}", run.text());
        assert!(fetch(world, self.spec) == self.messages, "{what}: messages");
    }

    /// Undoes all repairs.
    fn undo(&self, world: &World, what: &str) {
        loop {
            let run = world.run(&["check", "--undo", self.spec]);
            if run.code == 1 {
                break;
            }
            assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{what}");
        }
        let found = image(world);
        let differs = |name: &&String| found.get(*name) != self.files.get(*name);
        let names: Vec<_> = found.keys().chain(self.files.keys()).filter(differs).collect();
        assert_eq!(names, [""; 0], "{what}: not as before");
    }
}

#[expect(clippy::print_stdout, reason = "figures of a test")]
fn hunt(spec: &'static str, damage: fn(&mut Image)) {
    let mut damaged = Damaged::new(spec, damage);
    let mut rng = fastrand::Rng::with_seed(9);
    let (mut started, mut killed, mut amid) = (0, [0, 0], [0, 0]);
    while killed.iter().any(|killed| *killed < KILLS) && started < STARTS_PER_KILL * KILLS {
        started += 1;
        let what = format!("{spec}, {started}");
        let world = restored(&damaged.files);
        if killed[0] < KILLS {
            killed[0] += usize::from(damaged.kill(&world, 0, &mut rng));
            amid[0] += usize::from(world.has(REPAIRS));
            if started % 3 == 0 {
                // Reading commands also complete an unfinished repair. In a Maildir they assign
                // UIDs to new files, a change that is not undone.
                let reads = if spec.starts_with("maildir") { &["--read-only"][..] } else { &[] };
                let run = world.run(&[&["status", spec], reads].concat());
                assert!(run.code == 0 || run.code == 2, "{what}: {}", run.stderr);
            }
            damaged.repair(&world, &what);
            damaged.undo(&world, &what);
        }
        if killed[1] < KILLS {
            damaged.repair(&world, &what);
            let repaired = image(&world);
            killed[1] += usize::from(damaged.kill(&world, 1, &mut rng));
            amid[1] += usize::from(image(&world) != repaired);
            if started % 2 == 0 {
                damaged.repair(&world, &what);
            }
            damaged.undo(&world, &what);
        }
    }
    println!("{spec}: {started} started, repairs and undoings killed {killed:?}, at work {amid:?}");
    assert!(killed.iter().all(|killed| *killed >= KILLS), "{killed:?} of {started}");
    assert!(amid.iter().all(|amid| *amid > 0), "{amid:?} of {started}");
}

/// The folder in which a repair keeps what it removes.
const REPAIRS: &str = "home/.local/state/barid/repairs";

#[test]
fn a_killed_repair_of_an_mbox_is_done_again_and_undone() {
    hunt("mboxo:box", damage_mbox);
}

#[test]
fn a_killed_repair_of_an_mbx_is_done_again_and_undone() {
    hunt("mbx:box", damage_mbx);
}

#[test]
fn a_killed_repair_of_a_mix_is_done_again_and_undone() {
    hunt("mix:box", damage_mix);
}

#[test]
fn a_killed_repair_of_a_maildir_is_done_again_and_undone() {
    hunt("maildir:box", damage_maildir);
}

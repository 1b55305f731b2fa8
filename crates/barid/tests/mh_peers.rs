//! An MH folder that nmh and barid change in turn: no message is lost, no message changes its UID,
//! and both see the same flags.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use barid::{
    ChangeOptions, ChangeRequest, Flag, FlagChange, FlagSet, Keyword, Mailbox, NewMessage,
    OpenOptions, ReadAs, Uid,
};
use barid_testkit::{Scratch, disk, skip_or_fail};

/// Folders of nmh's programs in Debian.
const NMH: [&str; 2] = ["/usr/bin/mh", "/usr/lib/mh"];
const ROUNDS: u32 = 100;

/// A folder that nmh knows as `+box`.
struct Nmh {
    scratch: Scratch,
    path: PathBuf,
}

impl Nmh {
    fn new() -> Option<Self> {
        if !disk::exists(&Path::new(NMH[0]).join("folder")) {
            skip_or_fail("nmh (Debian package nmh)");
            return None;
        }
        let scratch = Scratch::new("nmh").unwrap();
        let path = scratch.path().join("box");
        disk::create_dir(&path).unwrap();
        let profile = format!("Path: {}\nUnseen-Sequence: unseen\n", scratch.path().display());
        disk::write(&scratch.path().join(".mh_profile"), profile.as_bytes()).unwrap();
        disk::write(&path.join(".mh_sequences"), b"").unwrap();
        Some(Self { scratch, path })
    }

    /// Runs a program of nmh; returns `true` if it succeeded, and its output.
    fn run(&self, program: &str, args: &[&str], input: Option<&[u8]>) -> (bool, String) {
        let paths = NMH.map(|dir| Path::new(dir).join(program));
        let found = paths.iter().find(|path| disk::exists(path));
        let mut command = Command::new(found.unwrap_or(&paths[0]));
        command.env("HOME", self.scratch.path()).env("MH", self.scratch.path().join(".mh_profile"));
        command.arg("+box").args(args);
        match input {
            Some(bytes) => {
                let file = self.scratch.path().join("input");
                disk::write(&file, bytes).unwrap();
                command.stdin(disk::open(&file).unwrap());
            }
            None => {
                command.stdin(std::process::Stdio::null());
            }
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), text)
    }

    /// Returns the numbers of the messages in a sequence.
    fn sequence(&self, name: &str) -> BTreeSet<u32> {
        let (_, text) = self.run("pick", &[name], None);
        text.split_ascii_whitespace()
            .filter_map(|word| word.parse().ok())
            .filter(|number| *number > 0)
            .collect()
    }

    fn open(&self) -> Mailbox {
        let state = self.scratch.path().join("state");
        let options = OpenOptions::new(Some(self.scratch.path().join("cache")), state);
        Mailbox::open(&self.path.to_string_lossy(), &options).unwrap()
    }
}

/// A message: its text, its flags, its keywords.
type Told = (Vec<u8>, FlagSet, Vec<String>);

/// Returns every message by UID.
fn told(mailbox: &mut Mailbox) -> BTreeMap<u32, Told> {
    let rows: Vec<u32> = (0..mailbox.len()).collect();
    let mut all = BTreeMap::new();
    mailbox
        .summaries(&rows, &mut |summary| {
            let keywords = summary.keyword_names().map(str::to_owned).collect();
            all.insert(summary.uid.get(), (Vec::new(), summary.flags, keywords));
            true
        })
        .unwrap();
    for (uid, (text, _, _)) in &mut all {
        *text = mailbox.read(Uid::new(*uid).unwrap(), ReadAs::Message).unwrap().bytes;
    }
    all
}

fn message(serial: u32) -> Vec<u8> {
    let subject = serial.wrapping_mul(2_654_435_761) % 1000;
    format!("From: a@b\nTo: c@d\nSubject: {subject:03} {serial}\n\nbody {serial}\n").into_bytes()
}

fn serial_of(text: &[u8]) -> u32 {
    let text = String::from_utf8_lossy(text);
    text.trim_end().rsplit(' ').next().unwrap().parse().unwrap()
}

/// Returns the number of each message by the serial number in its file.
fn numbers(nmh: &Nmh) -> BTreeMap<u32, u32> {
    let files = disk::list_files(&nmh.path).unwrap();
    let number = |file: &Path| file.file_name()?.to_str()?.parse::<u32>().ok();
    let entries = files.iter().filter_map(|file| Some((number(file)?, disk::read(file).ok()?)));
    entries.map(|(number, text)| (serial_of(&text), number)).collect()
}

/// The expected messages of the folder, and the message of each UID.
struct Rounds<'a> {
    nmh: &'a Nmh,
    random: fastrand::Rng,
    serial: u32,
    alive: BTreeSet<u32>,
    known: BTreeMap<u32, u32>,
}

impl Rounds<'_> {
    fn store(&mut self) {
        self.serial += 1;
        assert!(self.nmh.run("rcvstore", &[], Some(&message(self.serial))).0);
        self.alive.insert(self.serial);
    }

    /// Returns the serial and the number of a random message.
    fn pick(&mut self) -> (u32, String) {
        let numbers = numbers(self.nmh);
        let at = self.random.usize(..numbers.len());
        let (serial, number) = numbers.iter().nth(at).unwrap();
        (*serial, number.to_string())
    }

    fn change_by_nmh(&mut self) {
        match self.random.u8(0..6) {
            _ if self.alive.len() < 3 => self.store(),
            0 => {
                let (serial, number) = self.pick();
                assert!(self.nmh.run("rmm", &[&number], None).0);
                self.alive.remove(&serial);
            }
            1 => assert!(self.nmh.run("folder", &["-pack"], None).0),
            2 => assert!(self.nmh.run("sortm", &["-textfield", "subject"], None).0),
            3 => {
                let (_, number) = self.pick();
                assert!(self.nmh.run("mark", &[&number, "-sequence", "todo", "-add"], None).0);
            }
            _ => self.store(),
        }
    }

    fn change_by_us(&mut self, mailbox: &mut Mailbox) {
        let now = told(mailbox);
        let uids: Vec<u32> = now.keys().copied().collect();
        let uid = Uid::new(uids[self.random.usize(..uids.len())]).unwrap();
        let text = message(self.serial + 1);
        let new = [NewMessage {
            bytes: &text,
            internal_date: None,
            flags: FlagSet::EMPTY.with(Flag::Flagged),
            keywords: vec![Keyword::new("fresh").unwrap()],
            ..NewMessage::default()
        }];
        let mut request = ChangeRequest::default();
        match self.random.u8(0..3) {
            0 => {
                request.appends = &new;
                self.serial += 1;
                self.alive.insert(self.serial);
            }
            1 if self.alive.len() > 3 => {
                request.expunge = vec![uid];
                self.alive.remove(&serial_of(&now[&uid.get()].0));
            }
            _ => {
                let add = FlagSet::EMPTY.with(Flag::Seen).with(Flag::Answered);
                request.flags.push((uid, FlagChange { add, ..FlagChange::default() }));
            }
        }
        mailbox.change(&request, &ChangeOptions::default()).unwrap();
    }

    fn check(&mut self, mailbox: &mut Mailbox, round: u32) {
        let now = told(mailbox);
        let serials: BTreeSet<u32> = now.values().map(|(text, _, _)| serial_of(text)).collect();
        assert_eq!((serials.len(), &serials), (now.len(), &self.alive), "round {round}");
        for (uid, (text, _, _)) in &now {
            let was = self.known.entry(*uid).or_insert_with(|| serial_of(text));
            assert_eq!(*was, serial_of(text), "round {round}: UID {uid}");
        }
        let numbers = numbers(self.nmh);
        let with = |has: &dyn Fn(&Told) -> bool| -> BTreeSet<u32> {
            now.values().filter(|told| has(told)).map(|told| numbers[&serial_of(&told.0)]).collect()
        };
        let has = |flag: Flag| with(&|told| told.1.contains(flag));
        let word = |name: &str| with(&|told| told.2.iter().any(|word| word == name));
        let sequence = |name: &str| self.nmh.sequence(name);
        assert_eq!(with(&|told| !told.1.contains(Flag::Seen)), sequence("unseen"), "{round}");
        assert_eq!(has(Flag::Flagged), sequence("flagged"), "{round}");
        assert_eq!(has(Flag::Answered), sequence("replied"), "{round}");
        assert_eq!(word("todo"), sequence("todo"), "{round}");
        assert_eq!(word("fresh"), sequence("fresh"), "{round}");
    }
}

#[test]
fn rounds_with_nmh() {
    let Some(nmh) = Nmh::new() else { return };
    let mut rounds = Rounds {
        nmh: &nmh,
        random: fastrand::Rng::with_seed(11),
        serial: 0,
        alive: BTreeSet::new(),
        known: BTreeMap::new(),
    };
    for round in 0..ROUNDS {
        rounds.change_by_nmh();
        let mut mailbox = nmh.open();
        rounds.change_by_us(&mut mailbox);
        rounds.check(&mut mailbox, round);
    }
    println!("{ROUNDS} rounds, {} messages, {} left", rounds.serial, rounds.alive.len());
}

//! Random histories of mailboxes of every format: under one UIDVALIDITY, UIDNEXT never decreases
//! and a UID never means another message, and the output of `status` does not depend on the cache.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use barid::convert::{ConvertOptions, convert, copy};
use barid::{
    ChangeRequest, CreateOptions, Flag, Mailbox, MailboxSpec, NewMessage, OpenOptions, ReadAs,
    Undo, create,
};
use barid_vfs::{MemVfs, OpenOptions as FileOptions, Vfs};
use fastrand::Rng;

use crate::arena::{add, expunge, flag, format_named, keeping, later, memory, now, uid};

const FORMATS: [&str; 9] =
    ["maildir", "mboxo", "mboxrd", "mboxcl", "mboxcl2", "mmdf", "mbx", "mix", "mh"];
const HISTORIES: u64 = 24;
const STEPS: usize = 24;

/// Everything that was ever announced of one mailbox: the message of each UID, and UIDNEXT.
#[derive(Clone, Debug, Default)]
struct Announced {
    messages: HashMap<(u32, u32), String>,
    uidnext: HashMap<u32, u32>,
}

impl Announced {
    fn check(&mut self, mailbox: &mut Mailbox, context: &str) {
        let status = mailbox.status();
        let (validity, next) = (status.uidvalidity.get(), status.uidnext.get());
        let before = self.uidnext.entry(validity).or_insert(1);
        assert!(next >= *before, "{context}: UIDNEXT {next} under {validity} was {before}");
        *before = next;
        for number in mailbox.uids().unwrap() {
            assert!(number < next, "{context}: UID {number} is not below UIDNEXT {next}");
            let subject = subject_of(mailbox, number);
            let known = self.messages.entry((validity, number)).or_insert(subject.clone());
            assert_eq!(*known, subject, "{context}: UID {number} under {validity}");
        }
    }
}

fn subject_of(mailbox: &mut Mailbox, number: u32) -> String {
    let bytes = mailbox.read(uid(number), ReadAs::Message).unwrap().bytes;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.lines().find(|line| line.starts_with("Subject:")).unwrap().to_owned()
}

/// One mailbox and the events of its history.
struct History {
    disk: MemVfs,
    vfs: Arc<dyn Vfs>,
    rng: Rng,
    format: &'static str,
    path: PathBuf,
    announced: Announced,
    /// Number of messages made so far.
    messages: u32,
    /// Number of caches and mailboxes made so far.
    made: u32,
    cache: u32,
}

impl History {
    fn new(format: &'static str, seed: u64) -> Self {
        let disk = memory();
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let rng = Rng::with_seed(seed);
        let path = PathBuf::from("/box0");
        let (messages, made, cache) = (0, 0, 0);
        let announced = Announced::default();
        let mut history = Self { disk, vfs, rng, format, path, announced, messages, made, cache };
        let kind = MailboxSpec::parse(&format!("{format}:x")).format.unwrap().format();
        let options = CreateOptions::default();
        create(&history.vfs, &history.path, kind, &options, "/state".as_ref()).unwrap();
        history.deliver();
        history
    }

    fn spec(&self) -> MailboxSpec {
        MailboxSpec::parse(&format!("{}:{}", self.format, self.path.display()))
    }

    fn options(&self) -> OpenOptions {
        let cache = PathBuf::from(format!("/cache{}", self.cache));
        OpenOptions { threads: 1, ..OpenOptions::new(Some(cache), "/state".into()) }
    }

    fn open(&self) -> Mailbox {
        Mailbox::open_in(Arc::clone(&self.vfs), &self.spec(), &self.options()).unwrap()
    }

    fn text(&mut self) -> String {
        self.messages += 1;
        let number = self.messages;
        let body = "word ".repeat(self.rng.usize(0..40));
        // Some messages differ only in their subject, and some have the same header.
        let subject = if self.rng.u32(..8) == 0 { number / 4 } else { number };
        format!("From: a@b\nSubject: message {subject}\n\n{body}\n")
    }

    /// Delivers messages as another program does, in formats for which writing bytes suffices.
    fn deliver(&mut self) {
        for _ in 0..self.rng.usize(1..4) {
            let text = self.text();
            let number = self.messages;
            let name = match self.format {
                "maildir" if self.rng.bool() => format!("new/{number}.M{number}P1.h"),
                "maildir" => format!("cur/{number}.M{number}P1.h,S={}:2,S", text.len()),
                "mh" => self.free_number(),
                "mbx" | "mix" => return,
                _ => return self.append_foreign(&text),
            };
            let path = self.path.join(name);
            let file = self.vfs.open(&path, FileOptions::create_new(0o600)).unwrap();
            file.write_all_at(text.as_bytes(), 0).unwrap();
        }
    }

    fn free_number(&self) -> String {
        let mut last = 0;
        let dir = self.vfs.open_dir(&self.path).unwrap();
        dir.list(&mut |name, _| {
            let number = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok());
            last = last.max(number.unwrap_or(0));
        })
        .unwrap();
        (last + 1).to_string()
    }

    fn append_foreign(&self, text: &str) {
        let file = self.vfs.open(&self.path, FileOptions::WRITE).unwrap();
        let size = file.metadata().unwrap().size;
        let bytes = match self.format {
            "mmdf" => format!("\x01\x01\x01\x01\n{text}\x01\x01\x01\x01\n"),
            _ => format!("From a@b Thu Jan  1 00:00:00 2026\n{text}\n"),
        };
        file.write_all_at(bytes.as_bytes(), size).unwrap();
    }

    /// Removes a message as another program does, if each message is a file.
    fn remove_foreign(&mut self) {
        let folders: &[&str] = match self.format {
            "maildir" => &["cur", "new"],
            "mh" => &[""],
            _ => return,
        };
        let mut names = Vec::new();
        for folder in folders {
            let dir = self.path.join(folder);
            let mut take = |name: &[u8], _| {
                let name = String::from_utf8_lossy(name).into_owned();
                if name.starts_with(|first: char| first.is_ascii_digit()) {
                    names.push(dir.join(name));
                }
            };
            self.vfs.open_dir(&dir).unwrap().list(&mut take).unwrap();
        }
        names.sort();
        if !names.is_empty() {
            let name = &names[self.rng.usize(..names.len())];
            self.vfs.remove_file(name).unwrap();
        }
    }

    /// Returns some UIDs of the mailbox, often the last ones.
    fn some(&mut self, mailbox: &Mailbox) -> Vec<u32> {
        let uids = mailbox.uids().unwrap();
        let from = if self.rng.bool() { uids.len() / 2 } else { 0 };
        let mut some = uids[from..].to_vec();
        if self.rng.bool() {
            some.retain(|_| self.rng.bool());
        }
        some
    }

    fn append(&mut self, mailbox: &mut Mailbox) {
        let texts: Vec<String> = (0..self.rng.usize(1..5)).map(|_| self.text()).collect();
        let next = mailbox.status().uidnext.get();
        let wished: Vec<u32> = texts.iter().map(|_| self.rng.u32(1..next + 40)).collect();
        let is_wished = self.rng.u32(..3) == 0;
        let new = texts.iter().zip(wished).map(|(text, wish)| NewMessage {
            bytes: text.as_bytes(),
            uid: is_wished.then(|| uid(wish)),
            ..NewMessage::default()
        });
        let appends: Vec<NewMessage<'_>> = new.collect();
        let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        mailbox.change(&request, &now()).unwrap();
    }

    /// Converts the mailbox, and continues with the result.
    fn convert(&mut self) {
        let source = self.spec();
        let mut before = self.open();
        self.announced.check(&mut before, "before a conversion");
        let (status, uids) = (before.status(), before.uids().unwrap());
        drop(before);
        self.made += 1;
        self.path = format!("/box{}", self.made).into();
        self.format = FORMATS[self.rng.usize(..FORMATS.len())];
        let options = ConvertOptions {
            batch_len: [1, 200, 1 << 20][self.rng.usize(..3)],
            ..ConvertOptions::default()
        };
        let (target, open) = (self.spec(), self.options());
        let converted =
            convert(&self.vfs, (&source, &target), &open, &options, &mut |_| {}).unwrap();
        let losses = &converted.losses;
        assert!(!losses.uidvalidity && !losses.uidnext && losses.uids == 0, "{losses:?}");
        let after = self.open();
        assert_eq!(after.uids().unwrap(), uids);
        assert_eq!(after.status().uidvalidity, status.uidvalidity);
        assert_eq!(after.status().uidnext, status.uidnext, "{source:?} {target:?}");
    }

    /// Copies messages to another mailbox and back.
    fn copy(&mut self, mailbox: &mut Mailbox) {
        let uids: Vec<_> = self.some(mailbox).into_iter().map(uid).collect();
        self.made += 1;
        let path = PathBuf::from(format!("/copy{}", self.made));
        create(
            &self.vfs,
            &path,
            format_named("mboxrd"),
            &CreateOptions::default(),
            "/state".as_ref(),
        )
        .unwrap();
        let spec = MailboxSpec::parse(&format!("mboxrd:{}", path.display()));
        let mut other = Mailbox::open_in(Arc::clone(&self.vfs), &spec, &self.options()).unwrap();
        let options = ConvertOptions::default();
        copy(mailbox, &uids, &mut other, &options, &mut |_| {}).unwrap();
        let back: Vec<_> = other.uids().unwrap().into_iter().map(uid).collect();
        copy(&mut other, &back, mailbox, &options, &mut |_| {}).unwrap();
    }

    fn step(&mut self) -> &'static str {
        let what = self.rng.u32(..13);
        if let 0..4 = what {
            return match what {
                0 => (self.cache += 1, "the cache is lost").1,
                1 => (self.deliver(), "deliver").1,
                2 => (self.remove_foreign(), "another removes").1,
                _ => (self.convert(), "convert").1,
            };
        }
        let mut mailbox = self.open();
        let some = self.some(&mailbox);
        let flags = flag(&some, &add(Flag::ALL[self.rng.usize(..4)]));
        let done = match what {
            4 | 5 => (self.append(&mut mailbox), "append").1,
            6 | 7 => (mailbox.change(&expunge(&some), &keeping()).map(drop).unwrap(), "expunge").1,
            8 | 9 => (drop(mailbox.undo_one(Undo::Last, &now())), "undo").1,
            10 => (mailbox.change(&flags, &later()).map(drop).unwrap(), "flag").1,
            11 => (mailbox.sync(&now()).map(drop).unwrap(), "sync").1,
            _ => (self.copy(&mut mailbox), "copy").1,
        };
        self.announced.check(&mut mailbox, done);
        done
    }

    /// Checks that the mailbox gives the same answers without the cache.
    fn check_without_cache(&self, mailbox: &Mailbox, context: &str) {
        let options = OpenOptions { cache_dir: None, ..self.options() };
        let disk: Arc<dyn Vfs> = Arc::new(self.disk.snapshot());
        let anew = Mailbox::open_in(disk, &self.spec(), &options).unwrap();
        let (expected, found) = (mailbox.status(), anew.status());
        assert_eq!(anew.uids().unwrap(), mailbox.uids().unwrap(), "{context}");
        assert_eq!(
            (found.messages, found.size_bytes, found.uidvalidity, found.uidnext),
            (expected.messages, expected.size_bytes, expected.uidvalidity, expected.uidnext),
            "{context}: without the cache, with it"
        );
    }
}

#[test]
fn uids_are_never_given_again() {
    let only: Option<u64> = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let (mut steps, mut failed) = (0, Vec::new());
    for seed in only.map_or(0..HISTORIES, |seed| seed..seed + 1) {
        for format in FORMATS {
            let run = || {
                let mut history = History::new(format, seed);
                let mut told = Vec::new();
                for step in 0..STEPS {
                    told.push(history.step());
                    let mut mailbox = history.open();
                    let context = format!("{format} {seed} {step} {:?}: {told:?}", history.format);
                    history.announced.check(&mut mailbox, &context);
                    history.check_without_cache(&mailbox, &context);
                }
            };
            steps += STEPS;
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
                failed.push((format, seed));
            }
        }
    }
    eprintln!("{steps} steps of random histories");
    assert!(failed.is_empty(), "{} histories failed: {failed:?}", failed.len());
    assert!(only.is_some() || steps >= 5_000);
}

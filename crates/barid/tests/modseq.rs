//! Clients that remember UIDs, flags and one mod-sequence: with the changes since that number they
//! know the current mailbox, whoever changed it, whichever cache is lost, and after every crash.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use barid::{
    ChangeRequest, CreateOptions, Flag, FlagChange, FlagSet, FormatName, Mailbox, MailboxSpec,
    ModSeq, NewMessage, OpenOptions, UidValidity, create,
};
use barid_vfs::{CountingVfs, CrashVfs, Host as _, MemVfs, OpenOptions as FileOptions, Vfs};
use fastrand::Rng;

use crate::arena::{
    Arena, FORMATS, add, expunge, flag, found, keeping, keyword, later, memory, now, uid,
};

const HISTORIES: u64 = 6;
const STEPS: usize = 40;
const CLIENTS: usize = 3;
/// Number of random choices of what survives at each crash point.
const SEEDS: u64 = 4;

/// Flags and keywords of messages by UID.
type Messages = BTreeMap<u32, (FlagSet, BTreeSet<String>)>;

/// The state that a client keeps of a mailbox.
#[derive(Clone, Debug, Default)]
struct Client {
    uidvalidity: Option<UidValidity>,
    modseq: ModSeq,
    messages: Messages,
}

/// Result of a resynchronisation.
#[derive(Clone, Copy, Debug, Default)]
struct ResyncResult {
    is_known: bool,
    is_older_than_kept: bool,
    changed: usize,
}

fn messages(mailbox: &Mailbox) -> Messages {
    let all = found(mailbox).into_iter();
    all.map(|message| (message.uid, (message.flags, message.keywords))).collect()
}

impl Client {
    /// Resynchronises, and checks that the client then knows the mailbox.
    fn sync(&mut self, mailbox: &Mailbox, context: &str) -> ResyncResult {
        let (view, status) = (mailbox.view(), mailbox.status());
        let now = messages(mailbox);
        let highest = view.highest_modseq();
        assert_eq!(status.highest_modseq, highest);
        let is_known = self.uidvalidity == Some(status.uidvalidity);
        let mut told = ResyncResult { is_known, ..ResyncResult::default() };
        if is_known {
            assert!(highest >= self.modseq, "{context}: {highest} is below {}", self.modseq);
            let changes = view.changes_since_modseq(self.modseq).unwrap();
            told.is_older_than_kept = changes.is_older_than_kept;
            told.changed = changes.changed.len();
            self.messages.retain(|number, _| !changes.vanished.contains(uid(*number)));
            for (uid, modseq) in &changes.changed {
                assert!(*modseq > self.modseq && *modseq <= highest, "{context}: {modseq}");
                assert!(!changes.vanished.contains(*uid), "{context}: UID {uid}");
                self.messages.insert(uid.get(), now[&uid.get()].clone());
            }
            assert!(changes.changed.is_sorted_by(|a, b| a.0 < b.0), "{context}");
        } else {
            self.messages.clone_from(&now);
        }
        assert_eq!(self.messages, now, "{context}: from {} to {highest}, {told:?}", self.modseq);
        (self.uidvalidity, self.modseq) = (Some(status.uidvalidity), highest);
        told
    }
}

/// A mailbox, the clients that know it, and the events of its history.
struct History {
    disk: MemVfs,
    vfs: Arc<dyn Vfs>,
    rng: Rng,
    format: String,
    made: u32,
    cache: u32,
    clients: Vec<Client>,
    /// `true` if no cache is lost, and no process has another.
    has_one_cache: bool,
}

impl History {
    fn new(format: &str, seed: u64) -> Self {
        let disk = memory();
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let clients = vec![Client::default(); CLIENTS];
        let (rng, format) = (Rng::with_seed(seed), format.to_owned());
        let has_one_cache = seed.is_multiple_of(2);
        let mut history =
            Self { disk, vfs, rng, format, made: 0, cache: 0, clients, has_one_cache };
        let kind = FormatName::named(&history.format).unwrap().format();
        let options = CreateOptions::default();
        create(&history.vfs, "/box".as_ref(), kind, &options, "/state".as_ref()).unwrap();
        let mut mailbox = history.open();
        history.append(&mut mailbox);
        history
    }

    fn open_with(&self, cache: &str) -> Mailbox {
        let spec = MailboxSpec::parse(&format!("{}:/box", self.format));
        let cache = Some(PathBuf::from(cache));
        let options = OpenOptions { threads: 1, ..OpenOptions::new(cache, "/state".into()) };
        Mailbox::open_in(Arc::clone(&self.vfs), &spec, &options).unwrap()
    }

    fn open(&self) -> Mailbox {
        self.open_with(&format!("/cache{}", self.cache))
    }

    fn append(&mut self, mailbox: &mut Mailbox) {
        let texts: Vec<String> = (0..self.rng.usize(1..6)).map(|_| self.text()).collect();
        let new = texts.iter().map(|text| NewMessage {
            bytes: text.as_bytes(),
            flags: FlagSet::EMPTY.with(Flag::ALL[self.rng.usize(..4)]),
            ..NewMessage::default()
        });
        let appends: Vec<NewMessage<'_>> = new.collect();
        let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        mailbox.change(&request, &now()).unwrap();
    }

    fn text(&mut self) -> String {
        self.made += 1;
        let body = "word ".repeat(self.rng.usize(0..40));
        format!("From: a@b\nSubject: message {}\n\n{body}\n", self.made)
    }

    fn some(&mut self, mailbox: &Mailbox) -> Vec<u32> {
        let mut uids = mailbox.uids().unwrap();
        let rate = self.rng.u32(1..6);
        uids.retain(|_| self.rng.u32(..rate) == 0);
        uids
    }

    /// Returns the files of messages, if each message is a file.
    fn files(&self) -> Vec<PathBuf> {
        let folders: &[&str] = match &*self.format {
            "maildir" => &["cur", "new"],
            "mh" => &[""],
            _ => &[],
        };
        let mut names = Vec::new();
        for folder in folders {
            let dir = PathBuf::from("/box").join(folder);
            let mut take = |name: &[u8], _| {
                let name = String::from_utf8_lossy(name).into_owned();
                if name.starts_with(|first: char| first.is_ascii_digit()) {
                    names.push(dir.join(name));
                }
            };
            self.vfs.open_dir(&dir).unwrap().list(&mut take).unwrap();
        }
        names.sort();
        names
    }

    /// Removes or renames a file as another program does, or cuts messages out of the one file.
    fn disturb(&mut self) -> &'static str {
        let files = self.files();
        if !files.is_empty() {
            let file = &files[self.rng.usize(..files.len())];
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let base = name.split(":2,").next().unwrap();
            if self.format == "maildir" && self.rng.bool() {
                let flags = ["", "S", "FS", "R"][self.rng.usize(..4)];
                let to = PathBuf::from("/box/cur").join(format!("{base}:2,{flags}"));
                self.vfs.rename(file, &to).unwrap();
                return "another renames";
            }
            self.vfs.remove_file(file).unwrap();
            return "another removes";
        }
        if !self.format.starts_with("mbox") {
            return "nothing";
        }
        let text = self.disk.read("/box".as_ref(), u64::MAX).unwrap();
        let starts: Vec<usize> = (0..text.len())
            .filter(|at| text[*at..].starts_with(b"From ") && (*at == 0 || text[at - 1] == b'\n'))
            .collect();
        // The first one may be c-client's pseudo message, with the numbers of the mailbox.
        if starts.len() < 3 {
            return "nothing";
        }
        let which = self.rng.usize(1..starts.len());
        let end = starts.get(which + 1).copied().unwrap_or(text.len());
        let left = [&text[..starts[which]], &text[end..]].concat();
        let file = self.vfs.open("/box".as_ref(), FileOptions::WRITE).unwrap();
        file.set_len(0).unwrap();
        file.write_all_at(&left, 0).unwrap();
        "another cuts out"
    }

    /// Changes the mailbox, as this process or as one with a cache of its own.
    fn step(&mut self) -> &'static str {
        // Stamps become old enough from time to time.
        if self.rng.bool() {
            self.disk.sleep(Duration::from_secs(5));
        }
        match self.rng.u32(..20) {
            0 if !self.has_one_cache => return (self.cache += 1, "the cache is lost").1,
            0..=4 => return self.disturb(),
            _ => {}
        }
        let other = !self.has_one_cache && self.rng.u32(..4) == 0;
        let mut mailbox = if other { self.open_with("/other") } else { self.open() };
        let some = self.some(&mailbox);
        let kind = Flag::ALL[self.rng.usize(..4)];
        let change = match self.rng.u32(..3) {
            0 => FlagChange { remove: FlagSet::EMPTY.with(kind), ..FlagChange::default() },
            1 => FlagChange { add_keywords: vec![keyword("Junk")], ..FlagChange::default() },
            _ => add(kind),
        };
        match self.rng.u32(..12) {
            0 | 1 => (self.append(&mut mailbox), "append").1,
            2 | 3 => (mailbox.change(&expunge(&some), &keeping()).map(drop).unwrap(), "expunge").1,
            4 => (drop(mailbox.undo(&now())), "undo").1,
            5 | 6 => (mailbox.change(&flag(&some, &change), &now()).map(drop).unwrap(), "flag").1,
            7..=9 => {
                (mailbox.change(&flag(&some, &change), &later()).map(drop).unwrap(), "accept").1
            }
            10 => (mailbox.discard_pending().map(drop).unwrap(), "discard").1,
            _ => (mailbox.sync(&now()).map(drop).unwrap(), "sync").1,
        }
    }

    fn resynchronise(&mut self, context: &str, counts: &mut Counts) {
        let from_other = !self.has_one_cache && self.rng.u32(..6) == 0;
        let mailbox = if from_other { self.open_with("/other") } else { self.open() };
        for client in &mut self.clients {
            if self.rng.u32(..3) > 0 {
                continue;
            }
            let told = client.sync(&mailbox, context);
            // Expunges by others are recorded, too.
            assert!(!self.has_one_cache || !told.is_older_than_kept, "{context}");
            counts.syncs += usize::from(told.is_known);
            counts.older += usize::from(told.is_older_than_kept);
            let is_part = told.changed < client.messages.len();
            counts.partly += usize::from(told.is_known && !told.is_older_than_kept && is_part);
            // Nothing is new to a client that knows everything.
            assert_eq!(client.sync(&mailbox, context).changed, 0);
        }
    }
}

/// Numbers of resynchronisations.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    syncs: usize,
    older: usize,
    /// Number of them that reported only some of the messages.
    partly: usize,
}

#[test]
fn clients_know_the_mailbox_after_random_histories() {
    let only: Option<u64> = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let (mut counts, mut failed) = (Counts::default(), Vec::new());
    for name in FormatName::all().map(|name| name.format().name().to_owned()) {
        for seed in only.map_or(0..HISTORIES, |seed| seed..seed + 1) {
            let mut run = || {
                let mut history = History::new(&name, seed);
                let mut done = Vec::new();
                for step in 0..STEPS {
                    done.push(history.step());
                    let context = format!("{name} {seed} {step} {done:?}");
                    history.resynchronise(&context, &mut counts);
                }
            };
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut run)).is_err() {
                failed.push((name.clone(), seed));
            }
        }
    }
    eprintln!("clients of random histories: {counts:?}");
    assert!(failed.is_empty(), "{} histories failed: {failed:?}", failed.len());
    let least = if only.is_some() { 100 } else { 1500 };
    assert!(counts.syncs >= least, "{counts:?}");
    // Most are told only the changed messages.
    assert!(counts.partly * 3 > counts.syncs && counts.older > 0, "{counts:?}");
}

/// Makes changes of all kinds; after each the client resynchronises. Returns its knowledge, with
/// the first crash point after which that was acknowledged.
fn live(world: &CrashVfs, arena: &mut Arena) -> Vec<(usize, Client)> {
    let mut clients = Vec::new();
    let mut client = Client::default();
    let mut mailbox = arena.open();
    let mut known = |mailbox: &Mailbox| {
        client.sync(mailbox, "before the crash");
        clients.push((world.points(), client.clone()));
    };
    known(&mailbox);
    let uids = mailbox.uids().unwrap();
    mailbox.change(&expunge(&[uids[1], uids[2]]), &keeping()).unwrap();
    known(&mailbox);
    mailbox.change(&flag(&[uids[0], uids[5]], &add(Flag::Seen)), &later()).unwrap();
    known(&mailbox);
    mailbox.change(&flag(&[uids[4]], &add(Flag::Flagged)), &now()).unwrap();
    known(&mailbox);
    arena.deliver(2);
    mailbox.refresh().unwrap();
    known(&mailbox);
    mailbox.change(&flag(&[uids[3]], &add(Flag::Seen)), &later()).unwrap();
    known(&mailbox);
    mailbox.discard_pending().unwrap();
    known(&mailbox);
    mailbox.change(&expunge(&[uids[6]]), &keeping()).unwrap();
    known(&mailbox);
    mailbox.undo(&now()).unwrap();
    known(&mailbox);
    clients
}

#[test]
fn clients_know_the_mailbox_after_every_crash() {
    for format in FORMATS {
        let disk = memory();
        let mut arena = Arena::new(Arc::new(disk.clone()), "/".as_ref(), format, 3);
        arena.deliver(9);
        arena.open().sync(&now()).unwrap();
        disk.sleep(Duration::from_secs(5));
        let world = CrashVfs::new(&disk);
        let mut living = arena.on(Arc::new(world.vfs()));
        let clients = live(&world, &mut living);
        let (mut syncs, mut older) = (0, 0);
        for point in clients[0].0..=world.points() {
            for seed in 0..SEEDS {
                let disk = world.crash_at(point, seed);
                let mut mailbox = arena.on(Arc::new(disk)).open();
                let before = clients.iter().filter(|(acknowledged, _)| *acknowledged <= point);
                for (acknowledged, client) in before.rev().take(3) {
                    let context = format!("{format}, {acknowledged}, {point}, seed {seed}");
                    let mut client = client.clone();
                    let told = client.sync(&mailbox, &context);
                    // The UIDVALIDITY was announced, too.
                    assert!(told.is_known, "{context}");
                    (syncs, older) = (syncs + 1, older + usize::from(told.is_older_than_kept));
                    mailbox.sync(&now()).unwrap();
                    client.sync(&mailbox, &format!("{context}, later"));
                }
            }
        }
        eprintln!("{format}: {syncs} clients after crashes, {older} of them too old");
        assert!(syncs >= 500 && older < syncs, "{syncs} {older}");
    }
}

/// Returns an mbox of five messages, two handles of it, and the disk.
fn two_handles() -> (Arena, MemVfs, [Mailbox; 2]) {
    let disk = memory();
    let mut arena = Arena::new(Arc::new(disk.clone()), "/".as_ref(), "mboxrd", 7);
    arena.deliver(5);
    arena.open().sync(&now()).unwrap();
    disk.sleep(Duration::from_secs(5));
    let handles = [arena.open(), arena.open()];
    (arena, disk, handles)
}

#[test]
fn a_pending_change_that_another_handle_drops_is_announced() {
    let (arena, _disk, [mut here, mut there]) = two_handles();
    let first = there.uids().unwrap()[0];
    there.change(&flag(&[first], &add(Flag::Seen)), &later()).unwrap();
    let mut client = Client::default();
    client.sync(&there, "the change is pending");
    // The other handle removes the flag before it was written, without having seen it.
    let remove = FlagChange { remove: FlagSet::EMPTY.with(Flag::Seen), ..FlagChange::default() };
    here.change(&flag(&[first], &remove), &now()).unwrap();
    assert!(client.sync(&arena.open(), "the change was dropped").changed >= 1);
}

#[test]
fn a_refresh_shows_pending_changes_that_a_failed_change_has_read() {
    let (_arena, disk, [mut here, mut there]) = two_handles();
    let uids = there.uids().unwrap();
    there.change(&flag(&uids[..1], &add(Flag::Seen)), &later()).unwrap();
    let lock = disk.open("/box.lock".as_ref(), FileOptions::create_new(0o600));
    lock.unwrap().write_all_at(b"1:elsewhere", 0).unwrap();
    let failed = here.change(&flag(&uids[1..2], &add(Flag::Flagged)), &now());
    assert!(failed.is_err(), "{failed:?}");
    disk.remove_file("/box.lock".as_ref()).unwrap();
    here.refresh().unwrap();
    assert_eq!(messages(&here), messages(&there));
}

#[test]
fn a_ledger_from_a_backup_knows_no_expunge_that_it_lacks() {
    let (arena, disk, [mut here, _]) = two_handles();
    let uids = here.uids().unwrap();
    let mut client = Client::default();
    client.sync(&here, "before");
    let name = |suffix: &str| {
        let mut found = None;
        let mut take = |name: &[u8], _| {
            let name = String::from_utf8_lossy(name).into_owned();
            found = found.take().or_else(|| name.ends_with(suffix).then_some(name));
        };
        disk.open_dir("/state".as_ref()).unwrap().list(&mut take).unwrap();
        PathBuf::from("/state").join(found.unwrap())
    };
    let ledger = name(".ledger");
    let backup = disk.read(&ledger, u64::MAX).unwrap();
    here.change(&expunge(&uids[1..2]), &now()).unwrap();
    drop(here);
    let file = disk.open(&ledger, FileOptions::WRITE).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(&backup, 0).unwrap();
    let mut mailbox = arena.open();
    mailbox.change(&expunge(&uids[3..4]), &now()).unwrap();
    client.sync(&mailbox, "after a backup was brought back");
}

/// Returns a mailbox of files on a counting disk.
fn counted(count: u64) -> (Arena, CountingVfs<MemVfs>) {
    let vfs = CountingVfs::new(memory());
    let mut arena = Arena::new(Arc::new(vfs.clone()), "/".as_ref(), "maildir", 1);
    arena.deliver(count);
    arena.open().sync(&now()).unwrap();
    vfs.sleep(Duration::from_secs(5));
    (arena, vfs)
}

#[test]
fn what_vanished_costs_as_much_as_the_records() {
    let (arena, vfs) = counted(2000);
    let mut mailbox = arena.open();
    let start = mailbox.highest_modseq();
    let uids = mailbox.uids().unwrap();
    for gone in uids.chunks(2).take(50) {
        mailbox.change(&expunge(&gone[..1]), &now()).unwrap();
    }
    let before = vfs.counts();
    let none = mailbox.changes_since_modseq(mailbox.highest_modseq()).unwrap();
    assert_eq!(vfs.counts().since(&before).calls(), 0);
    assert!(none.changed.is_empty() && none.vanished.is_empty());
    let changes = mailbox.changes_since_modseq(start).unwrap();
    let cost = vfs.counts().since(&before);
    assert!(!changes.is_older_than_kept && changes.changed.is_empty());
    let expected: Vec<u32> = uids.chunks(2).take(50).map(|pair| pair[0]).collect();
    let ranges = changes.vanished.ranges().iter();
    assert_eq!(ranges.map(|(first, _)| first.get()).collect::<Vec<_>>(), expected);
    assert_eq!(changes.vanished.len(), 50);
    eprintln!("50 expunges: {} calls, {:?}", cost.calls(), cost.bytes());
    assert!(cost.calls() <= 16 && cost.bytes().read <= 1 << 20, "{cost:?}");
    // An older view reports its own changes, and not later expunges.
    let old = mailbox.view();
    mailbox.change(&expunge(&[uids[1000]]), &now()).unwrap();
    assert_eq!(old.changes_since_modseq(start).unwrap(), changes);
    // The oldest client learns of every UID without a message.
    let all = mailbox.changes_since_modseq(ModSeq::default()).unwrap();
    assert!(all.is_older_than_kept);
    assert_eq!((all.changed.len(), all.vanished.len()), (1949, 51));
}

//! An append that a power failure interrupts, and a delivery by another program before the next
//! opening: every acknowledged message exists once, byte for byte, and so does the delivered one;
//! the others are whole or absent. `barid_testkit::deliveries` makes the calls of the other
//! programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use barid::{
    ChangeRequest, CreateOptions, Flag, FlagSet, Mailbox, MailboxSpec, NewMessage, OpenOptions,
    ReadAs, check,
};
use barid_testkit::deliveries::{self, Deliver};
use barid_vfs::{CallKind, CrashVfs, Fault, FaultEffect, FaultVfs, MemVfs, Vfs};

use crate::arena::{format_named, found, memory, now, uid};

const BOX: &str = "/mail/box";
/// Number of random choices of what survives at each crash point.
const SEEDS: u64 = 24;
/// Every crash with a multiple of this number is followed by crashes of the next opening.
const AGAIN: u64 = 37;
/// Number of those crashes.
const AGAIN_POINTS: usize = 7;

/// A format, and another program that delivers to its mailboxes.
struct Peer {
    name: &'static str,
    format: &'static str,
    deliver: Deliver,
    /// The smallest number of deliveries that must take place after interrupted appends.
    deliveries_min: u32,
}

const PEERS: [Peer; 7] = [
    Peer { name: "mbx", format: "mbx", deliver: deliveries::deliver_to_mbx, deliveries_min: 200 },
    Peer {
        name: "mbx with UIDs",
        format: "mbx",
        deliver: deliveries::deliver_to_mbx_with_uid,
        deliveries_min: 200,
    },
    Peer { name: "mix", format: "mix", deliver: deliveries::deliver_to_mix, deliveries_min: 200 },
    Peer { name: "MH", format: "mh", deliver: deliveries::deliver_to_mh, deliveries_min: 200 },
    Peer {
        name: "MH with sequences",
        format: "mh",
        deliver: deliveries::deliver_with_nmh,
        deliveries_min: 200,
    },
    Peer {
        name: "Maildir",
        format: "maildir",
        deliver: deliveries::deliver_to_maildir,
        deliveries_min: 200,
    },
    Peer {
        name: "Maildir with a list",
        format: "maildir",
        deliver: deliveries::deliver_to_listed_maildir,
        deliveries_min: 200,
    },
];

/// A message of a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    text: Vec<u8>,
    flags: FlagSet,
}

/// The messages of a mailbox, by UID.
type Messages = BTreeMap<u32, Listed>;

/// An append to a mailbox, and the facts that a crash must not change.
struct Scene {
    peer: &'static Peer,
    disk: MemVfs,
    before: Messages,
    uidvalidity: u32,
    uidnext: u32,
    /// The messages to be appended.
    texts: Vec<Vec<u8>>,
    delivered: Vec<u8>,
    delivered_again: Vec<u8>,
    /// The flags of a delivered message without an interrupted append.
    delivered_flags: FlagSet,
}

/// Statistics of crashes.
#[derive(Debug, Default)]
struct Tally {
    points: u32,
    delivered: u32,
    refused: u32,
    /// Crashes after which some of the messages were there, or none.
    partial: u32,
    absent: u32,
}

fn open(vfs: &Arc<dyn Vfs>) -> barid::Result<Mailbox> {
    Mailbox::open_in(Arc::clone(vfs), &MailboxSpec::parse(BOX), &options())
}

fn options() -> OpenOptions {
    OpenOptions { threads: 1, ..OpenOptions::new(Some("/cache".into()), "/state".into()) }
}

fn append(mailbox: &mut Mailbox, texts: &[Vec<u8>]) -> barid::Result<Vec<u32>> {
    let flags = [FlagSet::EMPTY, FlagSet::EMPTY.with(Flag::Seen).with(Flag::Flagged)];
    let new = texts.iter().zip(flags.into_iter().cycle());
    let new = new.map(|(bytes, flags)| NewMessage { bytes, flags, ..Default::default() });
    let appends: Vec<_> = new.collect();
    let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
    let changed = mailbox.change(&request, &now())?;
    Ok(changed.appended.iter().map(|uid| uid.get()).collect())
}

fn messages(mailbox: &mut Mailbox) -> Result<Messages, String> {
    let mut messages = Messages::new();
    for message in found(mailbox) {
        let read = mailbox.read(uid(message.uid), ReadAs::Message);
        let text = read.map_err(|error| error.to_string())?.bytes;
        let listed = Listed { text, flags: message.flags };
        if messages.insert(message.uid, listed).is_some() {
            return Err(format!("UID {} is there twice", message.uid));
        }
    }
    Ok(messages)
}

impl Scene {
    fn new(peer: &'static Peer) -> Self {
        let format = format_named(peer.format);
        let line_end = if format.has_crlf { "\r\n" } else { "\n" };
        let text = |name: &str, lines: usize| {
            let lines: String = (0..lines).map(|line| format!("{line} of {name}\n")).collect();
            let id = name.replace(' ', ".");
            let text = format!("Subject: {name}\nMessage-ID: <{id}@example.org>\n\n{lines}");
            text.replace('\n', line_end).into_bytes()
        };
        let disk = memory();
        for folder in ["/mail", "/tmp", "/cache", "/state"] {
            disk.create_dir(Path::new(folder), 0o700).unwrap();
        }
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let options = CreateOptions::default();
        barid::create(&vfs, Path::new(BOX), format, &options, Path::new("/state")).unwrap();
        let mut mailbox = open(&vfs).unwrap();
        append(&mut mailbox, &[text("old", 3), text("older", 200)]).unwrap();
        mailbox.refresh().unwrap();
        let before = messages(&mut mailbox).unwrap();
        let status = mailbox.status();
        drop(mailbox);
        let delivered = text("theirs", 20);
        let copy = disk.snapshot();
        assert!((peer.deliver)(&copy, Path::new(BOX), &delivered).unwrap());
        let mut mailbox = open(&(Arc::new(copy) as Arc<dyn Vfs>)).unwrap();
        let delivered_flags = messages(&mut mailbox).unwrap().pop_last().unwrap().1.flags;
        Self {
            peer,
            disk,
            before,
            uidvalidity: status.uidvalidity.get(),
            uidnext: status.uidnext.get(),
            texts: vec![text("short", 4), text("long", 30_000), text("last", 40)],
            delivered,
            delivered_again: text("theirs again", 2),
            delivered_flags,
        }
    }

    /// Opens the mailbox after a crash, and checks it.
    fn judge(
        &self,
        vfs: &Arc<dyn Vfs>,
        announced: &[u32],
        delivered: &[&[u8]],
    ) -> Result<Messages, String> {
        let fail = |error: barid::Error| error.to_string();
        let mut mailbox = open(vfs).map_err(fail)?;
        if let Some(left) = mailbox.unfinished() {
            return Err(format!("unfinished: {left:?}"));
        }
        let status = mailbox.status();
        if status.uidvalidity.get() != self.uidvalidity || status.uidnext.get() < self.uidnext {
            return Err(format!("UIDVALIDITY or UIDNEXT: {status:?}"));
        }
        let messages = messages(&mut mailbox)?;
        if messages.last_key_value().is_some_and(|(last, _)| *last >= status.uidnext.get()) {
            return Err("a UID that is not below UIDNEXT".to_owned());
        }
        self.check_messages(&messages, announced, delivered)?;
        drop(mailbox);
        self.check_later(vfs, &messages, status.uidnext.get())?;
        Ok(messages)
    }

    fn check_messages(
        &self,
        messages: &Messages,
        announced: &[u32],
        delivered: &[&[u8]],
    ) -> Result<(), String> {
        let mut rest = messages.clone();
        for (uid, old) in &self.before {
            if rest.remove(uid).as_ref() != Some(old) {
                return Err(format!("UID {uid} is not what it was"));
            }
        }
        if let Some((uid, _)) = rest.first_key_value()
            && *uid < self.uidnext
        {
            return Err(format!("UID {uid} was given before"));
        }
        let mut texts = BTreeSet::<&Vec<u8>>::new();
        for (uid, message) in &rest {
            if !texts.insert(&message.text) {
                return Err(format!("UID {uid} is there twice"));
            }
            let is_theirs = delivered.contains(&&*message.text);
            // A missing \Seen does no harm.
            let unseen = |flags: FlagSet| flags.without(Flag::Seen);
            let is_as_usual = message.flags == self.delivered_flags
                || message.flags == unseen(self.delivered_flags);
            if is_theirs && !is_as_usual {
                return Err(format!("what was delivered has flags {:?}", message.flags));
            }
            if !is_theirs && !self.texts.contains(&message.text) {
                let text = String::from_utf8_lossy(&message.text).into_owned();
                return Err(format!("UID {uid} is not a message: {text:?}"));
            }
        }
        for (uid, text) in announced.iter().zip(&self.texts) {
            if messages.get(uid).is_none_or(|message| message.text != *text) {
                return Err(format!("UID {uid} was acknowledged"));
            }
        }
        if let Some(lost) = delivered.iter().find(|text| !texts.contains(&text.to_vec())) {
            return Err(format!("what was delivered is lost: {:?}", String::from_utf8_lossy(lost)));
        }
        Ok(())
    }

    /// Checks that the mailbox stays as it is now when it is used, and that nothing is damaged.
    fn check_later(
        &self,
        vfs: &Arc<dyn Vfs>,
        messages: &Messages,
        uidnext: u32,
    ) -> Result<(), String> {
        let fail = |error: barid::Error| error.to_string();
        let without_cache = OpenOptions { cache_dir: None, ..options() };
        let spec = MailboxSpec::parse(BOX);
        let again = Mailbox::open_in(Arc::clone(vfs), &spec, &without_cache);
        if self::messages(&mut again.map_err(fail)?)? != *messages {
            return Err("another opening finds something else".to_owned());
        }
        let more = b"Subject: more\r\n\r\nmore\r\n".to_vec();
        let mut mailbox = open(vfs).map_err(fail)?;
        let uids = append(&mut mailbox, &[more]).map_err(fail)?;
        mailbox.refresh().map_err(fail)?;
        let mut found = self::messages(&mut mailbox)?;
        let last = found.pop_last().map(|(uid, _)| uid);
        if found != *messages || last.is_none_or(|last| last < uidnext || uids != [last]) {
            return Err(format!("after one more, {uids:?} of {:?} from {uidnext}", found.keys()));
        }
        drop(mailbox);
        let report = check::check(vfs, &spec, &options()).map_err(fail)?;
        match report.damages.is_empty() {
            true => Ok(()),
            false => Err(format!("{:?}", report.damages)),
        }
    }

    /// Crashes an append everywhere, and delivers after it.
    fn crash(
        &self,
        world_of: fn(&MemVfs) -> CrashVfs,
        vfs_of: &dyn Fn(MemVfs) -> Arc<dyn Vfs>,
        lose: &dyn Fn(&MemVfs),
    ) -> Result<Tally, String> {
        let world = world_of(&self.disk);
        let mut tally = Tally::default();
        let mut mailbox = open(&vfs_of(world.vfs())).map_err(|error| error.to_string())?;
        let first = world.points();
        let appended = append(&mut mailbox, &self.texts).map_err(|error| error.to_string())?;
        assert_eq!(appended.len(), self.texts.len());
        let last = world.points();
        for (point, seed) in (first..=last).flat_map(|at| (0..SEEDS).map(move |seed| (at, seed))) {
            let (disk, is_done) = (world.crash_at(point, seed), point == last);
            let announced: &[u32] = if is_done { &appended } else { &[] };
            lose(&disk);
            let what = |loss| format!("{}, {point} of {last}, {seed}: {loss}", self.peer.name);
            let delivered = self.deliver(&disk, &self.delivered).map_err(what)?;
            let found = self.judge(&(Arc::new(disk.snapshot()) as _), announced, &delivered);
            let count = found.map_err(what)?.len() - self.before.len() - delivered.len();
            tally.points += 1;
            tally.delivered += u32::from(!delivered.is_empty() && !is_done);
            tally.refused += u32::from(delivered.is_empty());
            tally.partial += u32::from((1..self.texts.len()).contains(&count));
            tally.absent += u32::from(count == 0);
            if (point as u64 * SEEDS + seed).is_multiple_of(AGAIN) {
                self.crash_again(&disk, seed, announced, &delivered).map_err(what)?;
            }
        }
        Ok(tally)
    }

    /// Delivers a message. Returns it, unless the other program refuses the mailbox.
    fn deliver<'a>(&self, disk: &MemVfs, text: &'a [u8]) -> Result<Vec<&'a [u8]>, String> {
        let delivered = (self.peer.deliver)(disk, Path::new(BOX), text);
        let delivered = delivered.map_err(|error| error.to_string())?;
        Ok(if delivered { vec![text] } else { Vec::new() })
    }

    /// Crashes the opening that follows a crash; after every other one comes another delivery.
    fn crash_again(
        &self,
        disk: &MemVfs,
        seed: u64,
        announced: &[u32],
        delivered: &[&[u8]],
    ) -> Result<(), String> {
        let world = CrashVfs::new(disk);
        open(&(Arc::new(world.vfs()) as _)).map_err(|error| error.to_string())?;
        for number in 0..=AGAIN_POINTS {
            let point = world.points() * number / AGAIN_POINTS;
            let disk = world.crash_at(point, seed);
            let mut delivered = delivered.to_vec();
            if number % 2 == 1 {
                delivered.extend(self.deliver(&disk, &self.delivered_again)?);
            }
            let judged = self.judge(&(Arc::new(disk) as _), announced, &delivered);
            judged.map_err(|loss| format!("then {point} of {}: {loss}", world.points()))?;
        }
        Ok(())
    }

    fn crash_whole(&self) -> Result<Tally, String> {
        self.crash(CrashVfs::new, &|vfs| Arc::new(vfs), &|_| {})
    }
}

#[test]
fn a_delivery_after_an_interrupted_append_stays() {
    for peer in &PEERS {
        let tally = Scene::new(peer).crash_whole().unwrap_or_else(|loss| panic!("{loss}"));
        println!("{}: {tally:?}", peer.name);
        assert!(tally.delivered >= peer.deliveries_min && tally.absent > 0, "{}", peer.name);
    }
}

#[test]
fn every_barrier_of_an_append_is_needed() {
    let below = |path: &str| Fault::nth(0).forever().under(path);
    let file = |path: &str| Fault::nth(0).forever().at(Path::new(BOX).join(path));
    let sabotages = [
        ("mbx", "the mailbox", Fault::nth(0).forever().at(BOX)),
        ("mix", "the data", below(BOX).of(CallKind::Sync)),
        ("mix", "the journal", file(".barid-journal")),
        ("mix", "the index", file(".mixindex")),
        ("MH", "the folder and its files", below(BOX)),
        ("Maildir", "tmp and its files", below("/mail/box/tmp")),
        ("Maildir", "new", file("new")),
        ("Maildir with a list", "the list", file("dovecot-uidlist")),
    ];
    for (name, what, fault) in sabotages {
        let peer = PEERS.iter().find(|peer| peer.name == name).unwrap();
        let scene = Scene::new(peer);
        let skipped = fault.of(CallKind::Sync).with(FaultEffect::Skip);
        let vfs_of =
            |vfs: MemVfs| -> Arc<dyn Vfs> { Arc::new(FaultVfs::new(vfs, skipped.clone())) };
        let crashed = scene.crash(CrashVfs::new, &vfs_of, &|_| {});
        assert!(crashed.is_err(), "{name}: no fsync of {what}: {crashed:?}");
    }
    for peer in &PEERS {
        let crashed = Scene::new(peer).crash(CrashVfs::lying, &|vfs| Arc::new(vfs), &|_| {});
        assert!(crashed.is_err(), "{}: a disk that lies", peer.name);
    }
}

#[test]
fn an_append_to_a_mix_needs_its_recovery() {
    let scene = Scene::new(&PEERS[2]);
    let journal = Path::new(BOX).join(".barid-journal");
    let lose = |disk: &MemVfs| drop(disk.remove_file(&journal));
    let crashed = scene.crash(CrashVfs::new, &|vfs| Arc::new(vfs), &lose);
    assert!(crashed.is_err(), "without the journal: {crashed:?}");
}

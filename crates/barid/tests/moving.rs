//! Moving messages: what moves, what stays, and power failures and failing calls at every point,
//! after which each message is in one of both mailboxes, and the same call ends the move.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use barid::convert::{ConvertOptions, Moved, move_messages};
use barid::{
    ChangeRequest, CreateOptions, Error, Flag, FlagSet, Mailbox, MailboxSpec, NewMessage,
    OpenOptions, ReadAs, Uid,
};
use barid_vfs::{CrashVfs, Fault, FaultVfs, Host as _, MemVfs, Vfs};

use crate::arena::{expunge, format_named, memory, now, uid};
use crate::converting::{Place, proving, source};

/// Pairs of formats: each is a source and a target once.
const PAIRS: [(&str, &str); 7] = [
    ("maildir", "mboxrd"),
    ("mboxrd", "maildir"),
    ("mbx", "mix"),
    ("mix", "mh"),
    ("mh", "mmdf"),
    ("mmdf", "mbx"),
    ("mboxo", "mboxo"),
];
/// Number of random choices of what survives at each crash point.
const SEEDS: u64 = 2;
/// Number of messages of the source, some of which are gone.
const LEN: usize = 9;

/// A message, as texts in any format can be compared.
type Seen = (Vec<u8>, FlagSet, BTreeSet<String>, i64);

fn seen(mailbox: &mut Mailbox) -> Vec<Seen> {
    let rows: Vec<u32> = (0..mailbox.len()).collect();
    let mut marks = Vec::new();
    mailbox
        .summaries(&rows, &mut |message| {
            let keywords = message.keyword_names().map(str::to_owned).collect();
            let date = message.internal_date.unix_seconds;
            marks.push((message.uid, message.flags.without(Flag::Recent), keywords, date));
            true
        })
        .unwrap();
    let read = |(uid, flags, keywords, date)| {
        let bytes = mailbox.read(uid, ReadAs::Message).unwrap().bytes;
        let text = barid::message::strip_owned(&bytes).into_owned();
        let text = String::from_utf8_lossy(&text).replace("\r\n", "\n").replace(">From ", "From ");
        (text.trim_end().as_bytes().to_vec(), flags, keywords, date)
    };
    marks.into_iter().map(read).collect()
}

fn sorted(mut all: Vec<Seen>) -> Vec<Seen> {
    all.sort_by(|one, other| (&one.0, one.3).cmp(&(&other.0, other.3)));
    all
}

/// Makes a source with messages of all flags and a target with one message.
fn make(disk: &MemVfs, (from, to): (&str, &str)) -> (Vec<Seen>, Vec<Uid>) {
    drop(source(disk, LEN));
    let place = Place::new(Arc::new(disk.clone()));
    place.convert_whole("/box", &format!("{from}:/from"));
    let mut from = place.open("/from");
    // Two that are the same, and one whose lines other formats quote.
    let texts: [&[u8]; 3] =
        [b"Subject: twice\n\nthe same\n", b"Subject: twice\n\nthe same\n", b"A: b\n\nFrom me\n"];
    let appends = texts.map(|bytes| NewMessage { bytes, ..NewMessage::default() });
    from.change(&ChangeRequest { appends: &appends, ..ChangeRequest::default() }, &now()).unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let format = format_named(to);
    barid::create(&vfs, Path::new("/to"), format, &CreateOptions::default(), Path::new("/state"))
        .unwrap();
    let there = NewMessage { bytes: b"Subject: there\n\nbefore\n", ..NewMessage::default() };
    let request = ChangeRequest { appends: &[there], ..ChangeRequest::default() };
    place.open(&format!("{to}:/to")).change(&request, &now()).unwrap();
    let from = &mut place.open("/from");
    (seen(from), from.uids().unwrap().into_iter().filter_map(Uid::new).collect())
}

fn open(vfs: &Arc<dyn Vfs>, spec: &str) -> barid::Result<Mailbox> {
    let options = OpenOptions::new(Some("/cache".into()), "/state".into());
    let options = OpenOptions { threads: 2, ..options };
    Mailbox::open_in(Arc::clone(vfs), &MailboxSpec::parse(spec), &options)
}

/// Moves all messages but the first in small batches.
fn run(vfs: &Arc<dyn Vfs>, pair: (&str, &str), uids: &[Uid]) -> barid::Result<Moved> {
    let mut from = open(vfs, &format!("{}:/from", pair.0))?;
    let mut to = open(vfs, &format!("{}:/to", pair.1))?;
    let options = ConvertOptions { batch_len: 3000, ..ConvertOptions::default() };
    move_messages(&mut from, uids, &mut to, &options, &mut |_| {})
}

fn notes(vfs: &dyn Vfs) -> usize {
    let mut notes = 0;
    let dir = vfs.open_dir(Path::new("/state")).unwrap();
    dir.list(&mut |name, _| notes += usize::from(name.starts_with(b"move-"))).unwrap();
    notes
}

/// Checks that every message is in one of both mailboxes, and then that the same call ends the
/// move.
fn go_on(
    vfs: &Arc<dyn Vfs>,
    pair: (&str, &str),
    (all, uids): (&[Seen], &[Uid]),
) -> Result<(), String> {
    let both = || {
        let [from, to] = [(pair.0, "/from"), (pair.1, "/to")].map(|(format, path)| {
            let mut mailbox = open(vfs, &format!("{format}:{path}")).unwrap();
            seen(&mut mailbox)
        });
        (from, to)
    };
    let (from, to) = both();
    for message in all {
        let count = |all: &[Seen], of: &Seen| all.iter().filter(|one| one.0 == of.0).count();
        if count(&from, message) + count(&to, message) < count(all, message) {
            return Err(format!("lost: {}", String::from_utf8_lossy(&message.0)));
        }
    }
    run(vfs, pair, uids).map_err(|error| format!("the same call: {error}"))?;
    let (from, to) = both();
    if from != all[..1] {
        return Err(format!("the source has {from:?}"));
    }
    let moved: Vec<Seen> =
        to.into_iter().filter(|one| !one.0.starts_with(b"Subject: there")).collect();
    if sorted(moved.clone()) != sorted(all[1..].to_vec()) {
        let short = |all: &[Seen]| -> Vec<String> {
            let start =
                |it: &Seen| String::from_utf8_lossy(&it.0[..20.min(it.0.len())]).into_owned();
            all.iter().map(|it| format!("{:?} {:?} {:?} {}", start(it), it.1, it.2, it.3)).collect()
        };
        let (has, instead) = (short(&sorted(moved)), short(&sorted(all[1..].to_vec())));
        return Err(format!("the target has {has:#?}\ninstead of {instead:#?}"));
    }
    match notes(&**vfs) {
        0 => Ok(()),
        notes => Err(format!("{notes} notes")),
    }
}

#[test]
fn messages_move_between_formats() {
    for pair in PAIRS {
        let disk = memory();
        let (all, uids) = make(&disk, pair);
        let vfs: Arc<dyn Vfs> = Arc::new(disk);
        let moved = run(&vfs, pair, &uids[1..]).unwrap();
        assert!(moved.is_whole(), "{pair:?}");
        assert_eq!((moved.uids.len(), moved.found), (uids.len() - 1, 0), "{pair:?}");
        go_on(&vfs, pair, (&all, &uids[1..])).unwrap();
        let again = run(&vfs, pair, &uids[1..]).unwrap();
        assert_eq!(again.uids, [], "{pair:?}");
        assert_eq!(again.copied.unwrap().gone.len(), uids.len() - 1);
    }
}

#[test]
fn after_every_crash_the_same_call_ends_the_move() {
    let mut all_found = 0;
    for pair in PAIRS {
        let disk = memory();
        let (all, uids) = make(&disk, pair);
        let world = CrashVfs::new(&disk);
        let vfs: Arc<dyn Vfs> = Arc::new(world.vfs());
        let first = world.points();
        run(&vfs, pair, &uids[1..]).unwrap();
        let (last, mut points) = (world.points(), 0);
        for point in first..=last {
            for seed in 0..SEEDS {
                let disk = world.crash_at(point, seed);
                let again = CrashVfs::new(&disk);
                let vfs: Arc<dyn Vfs> = Arc::new(again.vfs());
                let context = format!("{pair:?}, point {point} of {first} to {last}, seed {seed}");
                let went = go_on(&vfs, pair, (&all, &uids[1..]));
                went.unwrap_or_else(|what| panic!("{context}: {what}"));
                points += 1;
                if points % 13 > 0 {
                    continue;
                }
                for second in (0..again.points()).step_by(7) {
                    let vfs: Arc<dyn Vfs> = Arc::new(again.crash_at(second, seed));
                    let went = go_on(&vfs, pair, (&all, &uids[1..]));
                    went.unwrap_or_else(|what| panic!("{context}, then {second}: {what}"));
                    points += 1;
                }
                let vfs: Arc<dyn Vfs> = Arc::new(world.crash_at(point, seed));
                all_found += run(&vfs, pair, &uids[1..]).unwrap().found;
            }
        }
        println!("{pair:?}: {points} crashes");
        assert!(points >= 60, "{pair:?}: {points}");
    }
    println!("{all_found} copies of interrupted moves found");
    assert!(all_found > 10, "{all_found}");
}

#[test]
fn after_a_failing_call_the_same_call_ends_the_move() {
    for pair in PAIRS {
        let mut faults = 0;
        let made = memory();
        let (all, uids) = make(&made, pair);
        for nth in 0.. {
            let disk = made.snapshot();
            let failing = FaultVfs::new(disk.clone(), Fault::nth(nth));
            let vfs: Arc<dyn Vfs> = Arc::new(failing.clone());
            let result = run(&vfs, pair, &uids[1..]);
            drop(vfs);
            // A lock file whose removal failed is stale by then.
            disk.sleep(std::time::Duration::from_secs(600));
            let vfs: Arc<dyn Vfs> = Arc::new(disk);
            let went = go_on(&vfs, pair, (&all, &uids[1..]));
            went.unwrap_or_else(|what| panic!("{pair:?}, fault {nth}, {result:?}: {what}"));
            if !failing.fired() {
                break;
            }
            faults += usize::from(result.is_err());
        }
        println!("{pair:?}: {faults} faults");
        assert!(faults >= 20, "{pair:?}: {faults}");
    }
}

#[test]
fn a_message_of_no_interrupted_move_is_copied_even_if_the_target_has_it() {
    let disk = memory();
    let pair = ("mboxrd", "maildir");
    let (_, uids) = make(&disk, pair);
    let vfs: Arc<dyn Vfs> = Arc::new(disk);
    let twice = &uids[uids.len() - 3..uids.len() - 1];
    // The second is the same as the first, which is in the target then.
    for uid in twice {
        let moved = run(&vfs, pair, &[*uid]).unwrap();
        assert_eq!((moved.found, moved.uids.len()), (0, 1));
    }
    let to = seen(&mut open(&vfs, "/to").unwrap());
    assert_eq!(to.iter().filter(|one| one.0.starts_with(b"Subject: twice")).count(), 2);
}

#[test]
fn an_interrupted_move_waits_for_its_own_repetition() {
    let disk = memory();
    let pair = ("mboxrd", "maildir");
    let (all, uids) = make(&disk, pair);
    let vfs: Arc<dyn Vfs> = Arc::new(disk);
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    let options = ConvertOptions {
        batch_len: 1,
        stop: Some(stop),
        progress: Some(Arc::new(move |progress: barid::Progress| {
            raised.store(progress.done > 2, Ordering::Relaxed);
        })),
        ..ConvertOptions::default()
    };
    let (mut from, mut to) = (open(&vfs, "/from").unwrap(), open(&vfs, "/to").unwrap());
    let stopped = move_messages(&mut from, &uids[1..5], &mut to, &options, &mut |_| {});
    assert!(matches!(stopped, Err(Error::ConversionStopped { .. })), "{stopped:?}");
    assert_eq!(notes(&*vfs), 2);
    // Others move meanwhile.
    assert_eq!(run(&vfs, pair, &uids[5..]).unwrap().found, 0);
    assert_eq!(notes(&*vfs), 2);
    let moved = run(&vfs, pair, &uids[1..5]).unwrap();
    assert!(moved.found > 0 && moved.uids.len() == 4, "{moved:?}");
    go_on(&vfs, pair, (&all, &uids[1..])).unwrap();
}

#[test]
fn what_cannot_be_moved_stays() {
    let disk = memory();
    let (_, uids) = make(&disk, ("maildir", "mix"));
    let vfs: Arc<dyn Vfs> = Arc::new(disk);
    let mut from = open(&vfs, "/from").unwrap();
    let options = ConvertOptions::default();
    let mut itself = open(&vfs, "/from").unwrap();
    let refused = move_messages(&mut from, &uids, &mut itself, &options, &mut |_| {});
    assert!(matches!(refused, Err(Error::TargetInTheWay { .. })), "{refused:?}");
    let read_only = OpenOptions { read_only: true, ..OpenOptions::new(None, "/state".into()) };
    let spec = MailboxSpec::parse("/from");
    let mut fixed = Mailbox::open_in(Arc::clone(&vfs), &spec, &read_only).unwrap();
    let mut to = open(&vfs, "/to").unwrap();
    let refused = move_messages(&mut fixed, &uids, &mut to, &options, &mut |_| {});
    assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
    assert_eq!((to.len(), notes(&*vfs)), (1, 0));
    // One that another program has expunged meanwhile, and one that never was.
    let gone = [uids[0], uid(4000)];
    from.change(&expunge(&[uids[0].get()]), &now()).unwrap();
    let moved = move_messages(&mut from, &gone, &mut to, &options, &mut |_| {}).unwrap();
    assert_eq!((moved.uids.len(), moved.copied.unwrap().gone.len()), (0, 2));
    assert_eq!(notes(&*vfs), 0);
    let left: Vec<Uid> = from.uids().unwrap().into_iter().filter_map(Uid::new).collect();
    let moved = move_messages(&mut from, &left, &mut to, &proving(), &mut |_| {}).unwrap();
    assert!(moved.is_whole() && moved.unproven.is_empty());
    let proven = moved.copied.unwrap().proven.unwrap();
    assert_eq!((proven.same as usize, proven.differing), (left.len(), 0));
    assert_eq!((moved.uids.len(), from.len()), (left.len(), 0));
}

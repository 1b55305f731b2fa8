//! A real Maildir that others change while it is listed.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::arena::{Arena, add, expunge as expunge_of, flag as flag_of, found, memory, now};
use crate::world::{World, told};
use barid::{Error, Flag, Mailbox, OpenOptions};
use barid_mailbox::Error as FormatError;
use barid_state::Error as StateError;
use barid_testkit::corpus::Corpus;
use barid_testkit::{Scratch, disk};
use barid_vfs::{CallKind, MeanwhileVfs, Vfs};

/// Number of messages delivered without pause. Those after them come slowly, so that listings end
/// on a machine of any speed.
const DELIVERED_AT_ONCE: u64 = 10_000;
const DELIVERED_MAX: u64 = 200_000;
const DELIVERY_PAUSE: Duration = Duration::from_millis(1);
/// Minimum number of listings meanwhile.
const LISTED_MIN: u32 = 4;

/// Actions of all processes so far, by base name.
#[derive(Default)]
struct History {
    /// Every message that was delivered; `true` if it has been removed since.
    removed: Mutex<BTreeMap<String, bool>>,
    done: AtomicBool,
    delivered: AtomicU64,
    listed: AtomicU32,
}

#[test]
fn no_message_is_missed_or_doubled_while_others_deliver_flag_and_expunge() {
    let scratch = Scratch::new("races").unwrap();
    let maildir = scratch.path().join("box");
    for folder in ["cur", "new", "tmp"] {
        disk::create_dir_all(&maildir.join(folder)).unwrap();
    }
    let history = History::default();
    let options =
        OpenOptions::new(Some(scratch.path().join("cache")), scratch.path().join("state"));
    let spec = maildir.to_str().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| deliver(&maildir, &history));
        scope.spawn(|| flag(&maildir, &history));
        scope.spawn(|| expunge(&maildir, &history));
        let lists = list_until_done(spec, &options, &history);
        let delivered = history.delivered.load(Ordering::Acquire);
        println!("listed {lists} times while {delivered} messages were delivered");
        assert!(lists >= LISTED_MIN);
    });
    let uids = uids_by_name(&Mailbox::open(spec, &options).unwrap());
    let fresh = OpenOptions { cache_dir: None, ..options };
    assert_eq!(uids, uids_by_name(&Mailbox::open(spec, &fresh).unwrap()));
    let removed = history.removed.lock().unwrap();
    let there: HashSet<_> = removed.iter().filter(|(_, gone)| !**gone).map(|(n, _)| n).collect();
    assert_eq!(there.len(), uids.len());
}

/// Ends the other threads, even if a check fails.
struct EndAll<'a>(&'a History);

impl Drop for EndAll<'_> {
    fn drop(&mut self) {
        self.0.done.store(true, Ordering::Release);
    }
}

fn list_until_done(spec: &str, options: &OpenOptions, history: &History) -> u32 {
    let _end = EndAll(history);
    let mut lists = 0;
    let mut uid_of: BTreeMap<String, u32> = BTreeMap::new();
    while !history.done.load(Ordering::Acquire) {
        let before = history.removed.lock().unwrap().clone();
        let mailbox = Mailbox::open(spec, options).unwrap();
        let uids = uids_by_name(&mailbox);
        let after = history.removed.lock().unwrap().clone();
        for (name, gone) in &before {
            let throughout = !gone && !after[name];
            assert!(
                !throughout || uids.contains_key(name),
                "{name} is missing from listing {lists}; files of that name: {:?}",
                files_of(spec.as_ref(), name)
            );
        }
        let mut seen = HashSet::new();
        for (name, uid) in uids {
            assert!(seen.insert(uid), "UID {uid} twice");
            assert_eq!(*uid_of.entry(name).or_insert(uid), uid, "a UID changed");
        }
        lists += 1;
        history.listed.store(lists, Ordering::Release);
    }
    let all: HashSet<u32> = uid_of.values().copied().collect();
    assert_eq!(all.len(), uid_of.len(), "a UID was used for two messages");
    lists
}

/// Returns the files that have a base name.
fn files_of(maildir: &Path, name: &str) -> Vec<PathBuf> {
    let has_name = |path: &PathBuf| path.to_string_lossy().contains(name);
    disk::list_files(maildir).unwrap().into_iter().filter(has_name).collect()
}

/// Returns UIDs by file name, which each message has in its Message-ID.
fn uids_by_name(mailbox: &Mailbox) -> BTreeMap<String, u32> {
    let rows: Vec<u32> = (0..mailbox.len()).collect();
    let mut uids = BTreeMap::new();
    mailbox
        .summaries(&rows, &mut |message| {
            let id = String::from_utf8_lossy(message.fields.message_id.unwrap()).into_owned();
            let name = id.trim_matches(['<', '>']).replace('@', ".");
            let before = uids.insert(name, message.uid.get());
            assert!(before.is_none(), "{id} is there twice");
            true
        })
        .unwrap();
    uids
}

fn deliver(maildir: &Path, history: &History) {
    let corpus = Corpus::new(5, DELIVERED_AT_ONCE);
    let is_enough = |number| {
        let is_listed = history.listed.load(Ordering::Acquire) >= LISTED_MIN;
        number >= DELIVERED_AT_ONCE && is_listed || history.done.load(Ordering::Acquire)
    };
    for number in (0..DELIVERED_MAX).take_while(|number| !is_enough(*number)) {
        let name = format!("{}.M{number}P1.host", Corpus::FIRST_DATE + number as i64);
        let (local, domain) = name.split_at(name.find('.').unwrap());
        let id = format!("Message-ID: <{local}@{}>\n", &domain[1..]);
        let mut bytes = id.into_bytes();
        let message = corpus.message(number % 50);
        bytes.extend(message.bytes.iter().take(600));
        // A message whose header does not end may still be being written, and counts later.
        bytes.extend_from_slice(b"\n\n");
        let temporary = maildir.join("tmp").join(&name);
        disk::write(&temporary, &bytes).unwrap();
        // The checker knows it only once it is in place, unless it was removed by then.
        disk::rename(&temporary, &maildir.join("new").join(&name)).unwrap();
        history.removed.lock().unwrap().entry(name).or_insert(false);
        history.delivered.fetch_add(1, Ordering::Release);
        if number >= DELIVERED_AT_ONCE {
            std::thread::sleep(DELIVERY_PAUSE);
        }
    }
    history.done.store(true, Ordering::Release);
}

/// Moves messages to `cur` and changes their flags, as a client does.
fn flag(maildir: &Path, history: &History) {
    let mut random = fastrand::Rng::with_seed(1);
    while !history.done.load(Ordering::Acquire) {
        for folder in ["new", "cur"] {
            for file in disk::list_files(&maildir.join(folder)).unwrap() {
                if random.u32(0..8) > 0 {
                    continue;
                }
                let name = file.file_name().unwrap().to_string_lossy().into_owned();
                let base = name.split(':').next().unwrap();
                let letters: String = "FRS".chars().filter(|_| random.bool()).collect();
                // A missing file is expected: the other thread was faster.
                let to = maildir.join("cur").join(format!("{base}:2,{letters}"));
                let _ = disk::rename(&file, &to);
            }
        }
    }
}

/// Removes one message in twenty.
fn expunge(maildir: &Path, history: &History) {
    let mut random = fastrand::Rng::with_seed(2);
    while !history.done.load(Ordering::Acquire) {
        for file in disk::list_files(&maildir.join("cur")).unwrap() {
            if random.u32(0..200) > 0 {
                continue;
            }
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let base = name.split(':').next().unwrap().to_owned();
            // Marked first: from now on it may be missing. A listing under renames shows some files
            // twice, and a removed file stays removed.
            if history.removed.lock().unwrap().insert(base.clone(), true) == Some(true) {
                continue;
            }
            if disk::remove_file(&file).is_err() {
                history.removed.lock().unwrap().insert(base, false);
            }
        }
        std::thread::yield_now();
    }
}

/// Returns a Maildir of three messages, of which another program renames the second before it is
/// changed. It is missing in this many listings afterwards.
fn renamed_when_it_is_changed(listings: u32) -> Arena {
    let disk = memory();
    let mut arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), "maildir", 7);
    arena.deliver(3);
    let names = String::from_utf8(arena.content()).unwrap();
    let (cur, old) = (arena.spec.path.join("cur"), names.lines().nth(1).unwrap());
    let name = old.strip_prefix("new/").unwrap();
    let (old, here, away) =
        (arena.spec.path.join(old), cur.join(format!("{name}:2,R")), cur.join(".away"));
    let left = AtomicU32::new(listings);
    let vfs = MeanwhileVfs::new(disk.clone(), move |kind, path| {
        if kind == CallKind::Name && path == old {
            let _ = disk.rename(&old, &here);
        }
        let is_listing = kind == CallKind::List && path == cur;
        if is_listing && left.load(Ordering::Relaxed) > 0 && disk.rename(&here, &away).is_ok() {
            left.fetch_sub(1, Ordering::Relaxed);
        }
        if kind == CallKind::Stat {
            let _ = disk.rename(&away, &here);
        }
    });
    arena.on(Arc::new(vfs))
}

#[test]
fn what_renames_hide_from_listings_is_changed_in_another_attempt() {
    for listings in [0, 3, 15, 16, 20] {
        let mut mailbox = renamed_when_it_is_changed(listings).open();
        let changed = mailbox.change(&expunge_of(&[1, 2]), &now()).unwrap();
        assert_eq!((changed.expunged, &changed.gone[..]), (2, &[][..]), "{listings} listings");
        assert_eq!(mailbox.uids().unwrap(), [3]);
        let mut mailbox = renamed_when_it_is_changed(listings).open();
        let changed = mailbox.change(&flag_of(&[2, 3], &add(Flag::Flagged)), &now()).unwrap();
        assert_eq!(changed.gone, [], "{listings} listings");
        let flags = found(&mailbox).into_iter().map(|found| found.flags.iter().collect::<Vec<_>>());
        let expected = [&[][..], &[Flag::Answered, Flag::Flagged], &[Flag::Flagged]];
        assert_eq!(flags.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn what_renames_hide_for_ever_is_not_gone() {
    let mut mailbox = renamed_when_it_is_changed(u32::MAX).open();
    let error = mailbox.change(&expunge_of(&[1, 2]), &now()).unwrap_err();
    assert!(matches!(error, Error::KeepsChanging { .. }), "{error}");
    assert!(mailbox.uids().unwrap().contains(&2));
}

#[test]
fn two_that_open_a_mailbox_at_once_give_the_same_uids() {
    for seed in 0..60 {
        for mut world in [World::maildir(seed), World::mbox(seed)] {
            world.deliver(20);
            // Only the ledger can store the UIDs.
            let options = OpenOptions { read_only: true, cache_dir: None, ..world.options() };
            let uids = std::thread::scope(|scope| {
                let open = || told(&open_patiently(&world, &options));
                let [one, other] = [scope.spawn(open), scope.spawn(open)];
                [one.join().unwrap(), other.join().unwrap()]
            });
            assert_eq!(uids[0], uids[1], "seed {seed}");
            assert_eq!(told(&world.open_with(&options)), uids[0], "seed {seed}");
        }
    }
}

/// Opens the mailbox with retries: waiting takes no time in memory, so a lock may seem to be held
/// for too long.
fn open_patiently(world: &World, options: &OpenOptions) -> Mailbox {
    loop {
        match Mailbox::open_in(Arc::new(world.vfs.clone()), &world.spec, options) {
            Err(
                Error::State(StateError::Locked { .. }) | Error::Mailbox(FormatError::State(_)),
            ) => {
                std::thread::yield_now();
            }
            result => return result.unwrap(),
        }
    }
}

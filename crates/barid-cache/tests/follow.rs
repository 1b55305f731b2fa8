//! Changes that are followed without a scan, against the model.

use std::path::Path;
use std::sync::Arc;

use barid_cache::{CacheOptions, Error, Follow, Follower, Opened, Snapshot, limits, verify};
use barid_mailbox::{Location, MessageName, MovedMessage, Shift};
use barid_types::{FlagSet, KeywordMask, ModSeq, Uid};
use barid_vfs::{CallKind, CountingVfs, CrashVfs, Fault, FaultVfs, MemVfs, Vfs};

use crate::changes::change;
use crate::world::{
    History, ID, KINDS, Message, Model, build_as, cache_path, compare, compare_kept, keywords,
    location, mem, open, options, scan_nothing,
};

/// A change, in the form passed to a follower.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) moved: Vec<MovedMessage>,
    pub(crate) expunged: Vec<Uid>,
    pub(crate) shifts: Vec<Shift>,
    pub(crate) modseq: u64,
}

/// Rates of change of a mailbox, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) expunged: u8,
    pub(crate) changed: u8,
    pub(crate) moved: u8,
    pub(crate) shifted: u8,
}

/// Returns a message in the form passed to a follower.
pub(crate) fn moved(message: &Message) -> MovedMessage {
    MovedMessage {
        uid: Uid::new(message.uid).unwrap(),
        flags: message.flags,
        keywords: KeywordMask(message.keywords),
        location: location(message).extent().map(Location::from),
    }
}

/// Changes the model at random and returns the change.
pub(crate) fn plan(model: &mut Model, rng: &mut fastrand::Rng, rates: Rates) -> Change {
    let mut change = Change { modseq: model.highest_modseq + 1, ..Change::default() };
    model.step += 2;
    let (mut by, mut free_from) = (0i64, 0);
    let before = std::mem::take(&mut model.messages);
    for mut message in before {
        let hit = |rng: &mut fastrand::Rng, rate| rng.u8(..100) < rate;
        if hit(rng, rates.expunged) {
            change.expunged.push(Uid::new(message.uid).unwrap());
            continue;
        }
        let old_offset = message.offset;
        let at = |by: i64| old_offset.checked_add_signed(by).filter(|at| *at >= free_from);
        if hit(rng, rates.shifted) || at(by).is_none() {
            let least = free_from.cast_signed() - old_offset.cast_signed();
            by = rng.i64(least..least.max(0) + 3000);
        }
        message.offset = at(by).unwrap();
        free_from = message.offset + 1;
        let mut told = hit(rng, rates.moved);
        let is_apart = told && rng.bool();
        if is_apart {
            // Its header has grown, or it moved apart from its neighbours.
            message.padding = rng.u32(..500);
            message.separator_len = rng.u32(30..50);
            message.offset += rng.u64(..100);
            free_from = message.offset + 1;
        }
        if hit(rng, rates.changed) {
            let flags = FlagSet::from_bits(rng.u8(..64));
            message.set_marks(flags, rng.u64(..8), change.modseq);
            told = true;
        }
        if told {
            let moved = moved(&message);
            // A position may also be given where it follows from the shifts.
            let location = moved.location.filter(|_| is_apart || rng.bool());
            change.moved.push(MovedMessage { location, ..moved });
        }
        if message.name.is_none() {
            stretch(&mut change.shifts, old_offset, by, rng);
        }
        model.messages.push(message);
    }
    model.highest_modseq = change.modseq;
    change
}

/// Adds a message at `offset` to the shifts, or to the last one.
fn stretch(shifts: &mut Vec<Shift>, offset: u64, by: i64, rng: &mut fastrand::Rng) {
    let new_offset = offset.checked_add_signed(by).unwrap();
    let end = offset + rng.u64(1..3);
    match shifts.last_mut() {
        Some(last) if last.new_offset.wrapping_sub(last.old_offset) == by.cast_unsigned() => {
            last.len = end - last.old_offset;
        }
        last => {
            if let Some(last) = last {
                last.len = last.len.min(offset - last.old_offset);
            }
            shifts.push(Shift { old_offset: offset, len: end - offset, new_offset });
        }
    }
}

/// Follows a change that led to the model.
pub(crate) fn follow(
    known: &Snapshot,
    model: &Model,
    change: &Change,
) -> barid_cache::Result<Snapshot> {
    let report = model.report();
    let follow = Follow {
        expunged: &change.expunged,
        shifts: &change.shifts,
        stamp: model.stamp(),
        state: &report.state,
        keywords: &keywords(),
        uidnext: report.uidnext,
        modseq: ModSeq::new(change.modseq).unwrap(),
        size_bytes: report.size_bytes,
        tail_verified: report.tail_verified,
    };
    known.follow(&change.moved, &follow)
}

/// Makes a change too large for the log, for any size of the mailbox.
pub(crate) fn enlarge(change: &mut Change) {
    let end = change.shifts.last().map_or(0, |last| last.old_offset + last.len) + (1 << 50);
    let far = (0..limits::FOLLOW_ROWS_MAX as u64 + 1).map(|n| end + n * 2);
    change.shifts.extend(far.map(|at| Shift { old_offset: at, len: 1, new_offset: at + 1 }));
}

fn rates(rng: &mut fastrand::Rng) -> Rates {
    let one = |rng: &mut fastrand::Rng| [0, 0, 2, 30][rng.usize(..4)];
    Rates { expunged: one(rng), changed: one(rng), moved: one(rng), shifted: one(rng) }
}

fn check(seed: u64, messages: usize, steps: usize) {
    let options = options(KINDS[seed as usize % KINDS.len()]);
    let mut rng = fastrand::Rng::with_seed(seed);
    let vfs: Arc<dyn Vfs> = mem();
    let path = cache_path();
    let mut model = Model { spans: true, ..Model::new() };
    model.add(&mut rng, messages, false, 3);
    let mut snapshot = build_as(&vfs, &path, &model, &mut rng, &options);
    for _ in 0..steps {
        if rng.u8(..3) == 0 {
            snapshot = change(&snapshot, &mut model, &mut rng);
        } else {
            let generation = snapshot.meta().generation;
            let rates = rates(&mut rng);
            let mut change = plan(&mut model, &mut rng, rates);
            let is_large = rng.u8(..5) == 0;
            if is_large {
                enlarge(&mut change);
            }
            snapshot = follow(&snapshot, &model, &change).unwrap();
            assert!(!is_large || snapshot.meta().generation != generation);
        }
        assert!(snapshot.store_error().is_none());
        compare(&snapshot, &model, &mut rng).unwrap();
        compare_kept(&snapshot, &model, &mut rng);
        if rng.bool() {
            snapshot = open(&vfs, &path);
            compare(&snapshot, &model, &mut rng).unwrap();
        }
    }
    assert_eq!(verify(vfs, &path).unwrap().damage, None);
}

#[test]
fn changes_are_followed() {
    for seed in 0..16 {
        check(seed, 200, 25);
    }
    check(20, 0, 30);
}

/// Messages with names have no positions: only flags change, and messages are expunged.
#[test]
fn changes_of_messages_with_names_are_followed() {
    for (seed, messages, kind) in [(50, 200, KINDS[1]), (51, 9_500, KINDS[0])] {
        let mut rng = fastrand::Rng::with_seed(seed);
        let vfs: Arc<dyn Vfs> = mem();
        let mut model = Model::new();
        model.add(&mut rng, messages, true, 3);
        let mut snapshot = build_as(&vfs, &cache_path(), &model, &mut rng, &options(kind));
        let few = Rates { expunged: 2, changed: 2, ..Rates::default() };
        let most = Rates { expunged: 2, changed: 90, ..Rates::default() };
        for rates in [few, most, few] {
            let change = plan(&mut model, &mut rng, rates);
            assert!(change.moved.iter().all(|moved| moved.location.is_none()));
            snapshot = follow(&snapshot, &model, &change).unwrap();
            compare(&snapshot, &model, &mut rng).unwrap();
        }
        compare(&open(&vfs, &cache_path()), &model, &mut rng).unwrap();
    }
}

/// More messages than fit into memory, in mailboxes larger than builds keep in memory.
#[test]
fn large_changes_are_followed() {
    for kind in [("native", "none"), ("memory", "zstd:1")] {
        let mut rng = fastrand::Rng::with_seed(30);
        let vfs: Arc<dyn Vfs> = mem();
        let mut model = Model { spans: true, ..Model::new() };
        model.add(&mut rng, 9_500, false, 3);
        let mut snapshot = build_as(&vfs, &cache_path(), &model, &mut rng, &options(kind));
        let all = Rates { changed: 3, moved: 100, shifted: 10, ..Rates::default() };
        let half = Rates { expunged: 50, changed: 1, moved: 1, shifted: 50 };
        let few = Rates { shifted: 1, ..Rates::default() };
        for (rates, is_large) in [(all, true), (few, false), (half, true), (all, true)] {
            let generation = snapshot.meta().generation;
            let change = plan(&mut model, &mut rng, rates);
            snapshot = follow(&snapshot, &model, &change).unwrap();
            assert_eq!(snapshot.meta().generation != generation, is_large, "{rates:?}");
            compare(&snapshot, &model, &mut rng).unwrap();
        }
        compare(&open(&vfs, &cache_path()), &model, &mut rng).unwrap();
        let report = verify(Arc::clone(&vfs), &cache_path()).unwrap();
        assert_eq!((report.damage, report.stale_records), (None, 0));
        let mut left = Vec::new();
        let dir = vfs.open_dir(Path::new("/cache")).unwrap();
        dir.list(&mut |name, _| left.push(String::from_utf8_lossy(name).into_owned())).unwrap();
        assert!(left.iter().all(|name| !name.contains(".tmp")), "{left:?}");
    }
}

/// Returns a mailbox, and a change of it according to `rates` and `is_large`.
fn case(seed: u64, rates: Rates, is_large: bool) -> (MemVfs, Model, Model, Change) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let disk = MemVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut model = Model { spans: true, ..Model::new() };
    model.add(&mut rng, 40, false, 3);
    build_as(&vfs, &cache_path(), &model, &mut rng, &CacheOptions::default());
    let mut after = model.clone();
    let mut change = plan(&mut after, &mut rng, rates);
    if is_large {
        enlarge(&mut change);
    }
    (disk, model, after, change)
}

pub(crate) const SOME: Rates = Rates { expunged: 10, changed: 20, moved: 20, shifted: 20 };

#[test]
fn what_contradicts_itself_is_refused() {
    for is_large in [false, true] {
        let (disk, before, after, good) = case(40, SOME, is_large);
        let vfs: Arc<dyn Vfs> = Arc::new(disk);
        let mut rng = fastrand::Rng::with_seed(1);
        let check = |spoil: &dyn Fn(&mut Change), rng: &mut fastrand::Rng| {
            let mut change = good.clone();
            spoil(&mut change);
            let known = open(&vfs, &cache_path());
            let error = follow(&known, &after, &change).unwrap_err();
            assert!(matches!(error, Error::Scan(_)), "{error}");
            compare(&open(&vfs, &cache_path()), &before, rng).unwrap();
        };
        check(&|change| change.expunged.push(Uid::new(9_999_999).unwrap()), &mut rng);
        check(&|change| change.expunged.reverse(), &mut rng);
        check(&|change| change.moved.reverse(), &mut rng);
        check(&|change| change.moved.last_mut().unwrap().uid = Uid::MAX, &mut rng);
        check(&|change| change.expunged[0] = change.moved[0].uid, &mut rng);
        check(&|change| change.shifts.reverse(), &mut rng);
        let file = Location::from(MessageName { name: b"1", in_new: false, mark: 0 });
        check(&|change| change.moved[0].location = Some(file), &mut rng);
        follow(&open(&vfs, &cache_path()), &after, &good).unwrap();
        compare(&open(&vfs, &cache_path()), &after, &mut rng).unwrap();
    }
}

#[test]
fn a_follower_that_is_dropped_leaves_nothing() {
    let (disk, before, _, change) = case(41, SOME, false);
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let known = open(&vfs, &cache_path());
    let mut follower = Follower::new(&known);
    for uid in 1..10_000 {
        let uid = Uid::new(uid).unwrap();
        follower.moved(&MovedMessage { uid, ..change.moved[0] });
    }
    drop(follower);
    compare(&open(&vfs, &cache_path()), &before, &mut fastrand::Rng::with_seed(1)).unwrap();
}

#[test]
fn another_writer_comes_first() {
    let mut rng = fastrand::Rng::with_seed(42);
    for is_large in [false, true] {
        let (disk, before, after, change) = case(42, SOME, is_large);
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let known = open(&vfs, &cache_path());
        let mut history = History::default();
        history.note(&before);
        scan_nothing(&open(&vfs, &cache_path()), &mut history, &mut rng);
        let followed = follow(&known, &after, &change);
        match followed {
            Ok(snapshot) => {
                assert!(!is_large);
                compare(&snapshot, &after, &mut rng).unwrap();
            }
            Err(error) => assert!(is_large && matches!(error, Error::Overtaken { .. })),
        }
        assert_eq!(history.step_found(&vfs, &mut rng), Some(before.step + 1));
    }
}

/// Every call fails in turn.
#[test]
fn failing_calls() {
    for is_large in [false, true] {
        let mut runs = 0;
        for call in 0.. {
            let (disk, before, after, change) = case(43, SOME, is_large);
            let mut rng = fastrand::Rng::with_seed(43);
            let mut history = History::default();
            history.note(&before);
            history.note(&after);
            let plain: Arc<dyn Vfs> = Arc::new(disk.clone());
            let faulty = FaultVfs::new(disk, Fault::nth(call));
            let known = Snapshot::open(Arc::new(faulty.clone()), &cache_path(), ID);
            if let Ok(Opened::Fresh(known)) = known {
                let stored = match follow(&known, &after, &change) {
                    Ok(snapshot) => {
                        if let Err(error) = compare(&snapshot, &after, &mut rng) {
                            assert!(matches!(error, Error::Io { .. }), "{error}");
                        }
                        snapshot.store_error().is_none()
                    }
                    Err(_) => false,
                };
                let found = history.step_found(&plain, &mut rng);
                assert_eq!(found, Some(if stored { after.step } else { before.step }));
            }
            runs += 1;
            if !faulty.fired() {
                break;
            }
        }
        assert!(runs >= 8, "{runs}");
    }
}

/// The file for many messages cannot be created.
#[test]
fn a_folder_without_room_for_a_spool() {
    let (disk, before, after, change) = case(44, SOME, false);
    let faulty = FaultVfs::new(disk.clone(), Fault::nth(0).of(CallKind::Name));
    let known = open(&(Arc::new(faulty.clone()) as Arc<dyn Vfs>), &cache_path());
    let report = after.report();
    let mut follower = Follower::new(&known);
    for uid in 1..10_000 {
        follower.moved(&MovedMessage { uid: Uid::new(uid).unwrap(), ..change.moved[0] });
    }
    assert!(faulty.fired());
    let follow = Follow {
        expunged: &[],
        shifts: &[],
        stamp: after.stamp(),
        state: &report.state,
        keywords: &keywords(),
        uidnext: report.uidnext,
        modseq: ModSeq::new(9).unwrap(),
        size_bytes: 0,
        tail_verified: false,
    };
    assert!(matches!(follower.finish(&follow), Err(Error::Io { .. })));
    let vfs: Arc<dyn Vfs> = Arc::new(disk);
    compare(&open(&vfs, &cache_path()), &before, &mut fastrand::Rng::with_seed(1)).unwrap();
}

#[test]
fn a_crash_leaves_a_cache_that_is_right_or_none() {
    for kind in [("native", "none"), ("memory", "none"), ("memory", "zstd+dict")] {
        let mut rng = fastrand::Rng::with_seed(45);
        let mut history = History::default();
        let world = CrashVfs::new(&MemVfs::new());
        let vfs: Arc<dyn Vfs> = Arc::new(world.vfs());
        let mut model = Model { spans: true, ..Model::new() };
        model.add(&mut rng, 30, false, 1);
        history.note(&model);
        let mut snapshot = build_as(&vfs, &cache_path(), &model, &mut rng, &options(kind));
        for step in 0..9 {
            if step % 3 == 2 {
                model = history.0.last().unwrap().clone();
                snapshot = change(&snapshot, &mut model, &mut rng);
            } else {
                let mut change = plan(&mut model, &mut rng, SOME);
                if step % 3 == 1 {
                    enlarge(&mut change);
                }
                snapshot = follow(&snapshot, &model, &change).unwrap();
            }
            history.note(&model);
        }
        let (mut found, mut killed) = ([0; 2], None);
        for point in 0..=world.points() {
            for seed in 0..8 {
                let disk: Arc<dyn Vfs> = Arc::new(world.crash_at(point, seed));
                let step = history.step_found(&disk, &mut rng);
                found[usize::from(step.is_some())] += 1;
                // With seed 1 all writes are on the disk, as if the process had been killed.
                if seed == 1 {
                    // Records of expunged messages may be removed from a store before a new file no
                    // longer names them.
                    let between = kind.0 != "native" && step.is_none();
                    assert!(step >= killed || between, "point {point}: {step:?}");
                    killed = step;
                }
            }
        }
        assert!(found.iter().all(|count| *count >= 30), "{found:?}");
        assert_eq!(killed, Some(model.step));
    }
}

/// The expunge of the first message, which moves everything after it: one entry of the log.
#[test]
fn a_shift_of_everything_costs_as_much_as_one_message() {
    for messages in [1_000, 20_000] {
        let mut rng = fastrand::Rng::with_seed(46);
        let mut model = Model { spans: true, ..Model::new() };
        model.add(&mut rng, messages, false, 1);
        let counting = CountingVfs::new(MemVfs::new());
        let vfs: Arc<dyn Vfs> = Arc::new(counting.clone());
        build_as(&vfs, &cache_path(), &model, &mut rng, &CacheOptions::default());
        let known = open(&vfs, &cache_path());
        let first = model.messages.remove(0);
        let start = model.messages[0].offset;
        let by = start - first.offset;
        model.messages.iter_mut().for_each(|message| message.offset -= by);
        model.step += 2;
        model.highest_modseq = 2;
        let shift = Shift { old_offset: start, len: u64::MAX / 2, new_offset: first.offset };
        let expunged = vec![Uid::new(first.uid).unwrap()];
        let change = Change { expunged, shifts: vec![shift], modseq: 2, ..Change::default() };
        let before = counting.counts();
        let snapshot = follow(&known, &model, &change).unwrap();
        let costs = counting.counts().since(&before);
        let bytes = costs.bytes_under(Path::new("/cache"));
        assert!(bytes.written <= 1024, "{}", bytes.written);
        // A binary search in the core rows.
        assert!(bytes.read <= 12 * 65_536 && costs.calls() <= 24, "{costs:?}");
        compare(&snapshot, &model, &mut rng).unwrap();
        compare(&open(&vfs, &cache_path()), &model, &mut rng).unwrap();
    }
}

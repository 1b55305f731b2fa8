//! Random builds, changes, reopenings and compactions against the model.

use std::sync::Arc;

use barid_cache::{Builder, CacheOptions, Delta, Snapshot};
use barid_mailbox::{ChangedMessage, ScanReport};
use barid_types::{FlagSet, KeywordMask, ModSeq, Uid};
use barid_vfs::Vfs;

use crate::world::{
    KINDS, Model, build_as, cache_path, compare, compare_kept, finish, identity, mem, open,
    options, scan,
};

/// Makes one random change of the mailbox, and returns the snapshot that follows it.
pub(crate) fn change(known: &Snapshot, model: &mut Model, rng: &mut fastrand::Rng) -> Snapshot {
    let modseq = model.highest_modseq + 1;
    model.step += 1;
    let first = model.messages.first();
    let files = first.map_or(!model.spans, |message| message.name.is_some());
    let expunged = expunge(model, rng);
    let changed = change_flags(model, rng, modseq);
    let new_from = model.messages.len();
    let count = if rng.bool() { rng.usize(..200) } else { 0 };
    model.add(rng, count, files, modseq);
    model.highest_modseq = modseq;
    let delta = Delta::new(known);
    let new_uids = scan(&delta, &model.messages[new_from..], rng);
    let report = ScanReport { new_uids, expunged, changed, ..model.report() };
    let identity = identity();
    delta.apply(&report, &finish(&identity, modseq)).unwrap()
}

fn expunge(model: &mut Model, rng: &mut fastrand::Rng) -> Vec<Uid> {
    let rate = [0, 0, 5, 60][rng.usize(..4)];
    let mut gone = Vec::new();
    model.messages.retain(|message| {
        let expunge = rng.u8(..100) < rate;
        gone.extend(expunge.then(|| Uid::new(message.uid).unwrap()));
        !expunge
    });
    gone
}

/// Changes flags, or renames files without changing flags.
fn change_flags(model: &mut Model, rng: &mut fastrand::Rng, modseq: u64) -> Vec<ChangedMessage> {
    let rate = [0, 0, 3, 20][rng.usize(..4)];
    let rename = rng.bool();
    let mut changed = Vec::new();
    for message in &mut model.messages {
        if rng.u8(..100) >= rate {
            continue;
        }
        match &mut message.name {
            Some((name, in_new)) if rename => {
                *name = format!("{}.renamed.{}", rng.u32(..), message.uid).into_bytes();
                *in_new = rng.bool();
            }
            _ => {
                let flags = FlagSet::from_bits(message.flags.bits() ^ rng.u8(1..64));
                message.set_marks(flags, rng.u64(..8), modseq);
            }
        }
        changed.push(ChangedMessage {
            uid: Uid::new(message.uid).unwrap(),
            flags: message.flags,
            keywords: KeywordMask(message.keywords),
            file: message.name.clone().filter(|_| rename),
        });
    }
    changed
}

/// Gives some messages another modseq and nothing else.
fn touch(known: &Snapshot, model: &mut Model, rng: &mut fastrand::Rng) -> Snapshot {
    model.highest_modseq += 1;
    let modseq = ModSeq::new(model.highest_modseq).unwrap();
    let uids: Vec<u32> = (1..model.uidnext + 2).filter(|_| rng.u8(..10) == 0).collect();
    for message in model.messages.iter_mut().filter(|message| uids.contains(&message.uid)) {
        message.modseq = modseq.get();
    }
    let uids: Vec<Uid> = uids.into_iter().map(|uid| Uid::new(uid).unwrap()).collect();
    known.touched(&uids, modseq).unwrap()
}

fn check(seed: u64, messages: usize, steps: usize, files: bool) {
    let options = options(KINDS[seed as usize % KINDS.len()]);
    let mut rng = fastrand::Rng::with_seed(seed);
    let vfs: Arc<dyn Vfs> = mem();
    let path = cache_path();
    let mut model = Model::new();
    model.add(&mut rng, messages, files, 3);
    let mut snapshot = build_as(&vfs, &path, &model, &mut rng, &options);
    for _ in 0..steps {
        match rng.u8(..20) {
            // A mailbox scanned again from scratch.
            0 => snapshot = build_as(&vfs, &path, &model, &mut rng, &options),
            1 => {
                model.step += 1;
                model.step += 1;
                // Restamping changes nothing else.
                snapshot.restamp(model.stamp(), &model.report().state).unwrap();
            }
            2 => {
                let row = rng.u32(..snapshot.len().max(1));
                if row < snapshot.len() {
                    let size = snapshot.core(row).unwrap().size + 17;
                    snapshot.set_rfc822_sizes(&[(row, size)]).unwrap();
                    model.messages[row as usize].rfc822_size = Some(size);
                }
            }
            3 => snapshot = touch(&snapshot, &mut model, &mut rng),
            4 => {
                model.highest_modseq += 1;
                let modseq = ModSeq::new(model.highest_modseq).unwrap();
                snapshot = snapshot.raised(modseq).unwrap().unwrap();
                model.messages.iter_mut().for_each(|message| message.modseq = modseq.get());
            }
            _ => snapshot = change(&snapshot, &mut model, &mut rng),
        }
        assert!(snapshot.store_error().is_none());
        compare(&snapshot, &model, &mut rng).unwrap();
        compare_kept(&snapshot, &model, &mut rng);
        if rng.bool() {
            snapshot = open(&vfs, &path);
            compare(&snapshot, &model, &mut rng).unwrap();
        }
    }
}

#[test]
fn a_mailbox_of_spans_changes() {
    for seed in 0..8 {
        check(seed, 300, 25, false);
    }
}

#[test]
fn a_mailbox_of_files_changes() {
    for seed in 10..18 {
        check(seed, 300, 25, true);
    }
}

#[test]
fn a_mailbox_that_begins_empty_changes() {
    check(20, 0, 40, false);
    check(21, 0, 40, true);
}

#[test]
fn a_long_log_becomes_a_new_file() {
    for kind in
        [("native", "none"), ("native", "zstd"), ("memory", "none"), ("memory", "zstd+dict")]
    {
        long_log(options(kind));
    }
}

fn long_log(options: CacheOptions) {
    let mut rng = fastrand::Rng::with_seed(30);
    let vfs: Arc<dyn Vfs> = mem();
    let mut model = Model::new();
    let mut snapshot = build_as(&vfs, &cache_path(), &model, &mut rng, &options);
    let mut compactions = 0;
    for _ in 0..200 {
        let generation = snapshot.meta().generation;
        snapshot = change(&snapshot, &mut model, &mut rng);
        if snapshot.meta().generation != generation {
            compactions += 1;
            compare(&snapshot, &model, &mut rng).unwrap();
            compare(&open(&vfs, &cache_path()), &model, &mut rng).unwrap();
        }
    }
    assert!(compactions >= 3, "{compactions}");
}

#[test]
fn messages_that_are_gone_are_known_before_the_file_is_in_place() {
    let mut rng = fastrand::Rng::with_seed(5);
    let vfs: Arc<dyn Vfs> = mem();
    let path = cache_path();
    let mut model = Model::new();
    model.add(&mut rng, 900, true, 3);
    let earlier: Vec<u32> = model.messages.iter().map(|message| message.uid).collect();
    let old = build_as(&vfs, &path, &model, &mut rng, &CacheOptions::default());
    model.messages.retain(|_| rng.u8(..3) > 0);
    model.add(&mut rng, 50, true, 4);
    let left: Vec<u32> = model.messages.iter().map(|message| message.uid).collect();
    let expected: Vec<u32> = earlier.iter().copied().filter(|uid| !left.contains(uid)).collect();
    assert!(expected.len() > 200);
    let builder = Builder::create(Arc::clone(&vfs), &path, &CacheOptions::default()).unwrap();
    let new_uids = scan(&builder, &model.messages, &mut rng);
    let report = ScanReport { new_uids, ..model.report() };
    let earlier: Vec<Uid> = earlier.into_iter().map(|uid| Uid::new(uid).unwrap()).collect();
    let prepared = builder.prepare(&report, &finish(&identity(), 4), &earlier).unwrap();
    let vanished: Vec<u32> = prepared.vanished().iter().map(|uid| uid.get()).collect();
    assert_eq!(vanished, expected);
    assert_eq!(open(&vfs, &path).len(), old.len());
    let new = prepared.rename().unwrap();
    assert_eq!(new.len() as usize, model.messages.len());
    assert_eq!(open(&vfs, &path).len(), new.len());
}

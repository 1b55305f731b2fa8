//! Random builds, changes, reopenings and compactions against the model.

use std::sync::Arc;

use barid_cache::{CacheOptions, Delta, Snapshot};
use barid_mailbox::{ChangedMessage, ScanReport};
use barid_types::{FlagSet, KeywordMask, Uid};
use barid_vfs::Vfs;

use crate::world::{
    KINDS, Model, build_as, cache_path, compare, compare_kept, finish, identity, mem, open,
    options, scan,
};

/// Makes one random change of the mailbox, and returns the snapshot that follows it.
pub(crate) fn change(known: &Snapshot, model: &mut Model, rng: &mut fastrand::Rng) -> Snapshot {
    let before = model.highest_modseq;
    let modseq = before + 1;
    model.step += 1;
    let first = model.messages.first();
    let files = first.map_or(!model.spans, |message| message.name.is_some());
    let expunged = expunge(model, rng);
    let changed = change_flags(model, rng, modseq);
    let new_from = model.messages.len();
    let count = if rng.bool() { rng.usize(..200) } else { 0 };
    model.add(rng, count, files, modseq);
    if count == 0 && expunged.is_empty() && changed.iter().all(|change| change.file.is_some()) {
        model.highest_modseq = before;
    } else {
        model.highest_modseq = modseq;
    }
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
                message.flags = FlagSet::from_bits(message.flags.bits() ^ rng.u8(1..64));
                message.keywords = rng.u64(..8);
                message.modseq = modseq;
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

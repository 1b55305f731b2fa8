//! Real mail: a mailing list as an mbox of each variant, and mailboxes from other test suites.

use barid_mailbox::{ChangeSet, FlagChange, NewMessage};
use barid_testkit::corpora;
use barid_types::{Flag, FlagSet, InternalDate, Keyword, Uid};
use fastrand::Rng;
use jiff::tz::TimeZone;

use super::support::World;
use crate::mbox::{Variant, write_message};

fn synced() -> ChangeSet {
    ChangeSet { drop_recent: true, write_uids: true, ..ChangeSet::default() }
}

/// Returns a change that flags one message in `of`, and expunges another.
fn some(rng: &mut Rng, uids: &[Uid], of: usize) -> ChangeSet {
    let mut changes = ChangeSet::default();
    for uid in uids {
        if rng.usize(0..of) == 0 {
            let add = FlagSet::EMPTY.with(Flag::Flagged);
            let add_keywords = vec![Keyword::new("Work").unwrap()];
            changes.flags.push((*uid, FlagChange { add, add_keywords, ..FlagChange::default() }));
        }
        if rng.usize(0..of) == 0 {
            changes.expunge.push(*uid);
        }
    }
    changes
}

/// Syncs a mailbox, changes it twice, syncs it again, and checks that nothing is left to write.
fn rounds(world: &World, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let first = world.apply(&synced());
    for of in [100, 10] {
        let uids: Vec<Uid> = world.scan().seen.iter().map(|seen| seen.uid).collect();
        world.apply(&some(&mut rng, &uids, of));
    }
    if first.planned.unwritable_count == 0 {
        world.apply(&synced());
        assert_eq!(world.apply(&synced()).inserted, 0);
    }
}

#[test]
fn a_mailing_list_in_each_variant() {
    let Some(files) = corpora::files("dev-list-man") else { return };
    for (number, variant) in Variant::ALL.into_iter().enumerate() {
        let mut bytes = Vec::new();
        for path in files.iter().skip(number).step_by(5) {
            let text = corpora::read(path).unwrap();
            let message = NewMessage {
                bytes: &text,
                internal_date: None,
                flags: FlagSet::EMPTY,
                keywords: Vec::new(),
                ..NewMessage::default()
            };
            let date = InternalDate { unix_seconds: 1_700_000_000, zone_minutes: 0 };
            write_message(variant, &message, date, &TimeZone::UTC, &mut bytes).unwrap();
        }
        let mut world = World::new(variant, &bytes);
        world.block = Some(4096);
        rounds(&world, number as u64);
    }
}

#[test]
fn mailboxes_made_to_be_hard() {
    for name in ["dev-torture", "dev-formats"] {
        let Some(files) = corpora::files(name) else { continue };
        let mut tried = 0;
        for path in files {
            let bytes = corpora::read(&path).unwrap();
            let is_mmdf = bytes.starts_with(b"\x01\x01\x01\x01\n");
            if !is_mmdf && !bytes.starts_with(b"From ") {
                continue;
            }
            let variant = if is_mmdf { Variant::Mmdf } else { Variant::Mboxo };
            let mut world = World::new(variant, &bytes);
            let Ok(scanned) = world.try_scan() else { continue };
            world.verify = scanned.seen.len() % 2 == 0;
            rounds(&world, tried);
            tried += 1;
        }
        assert!(tried > 3, "{name} has mailboxes");
    }
}

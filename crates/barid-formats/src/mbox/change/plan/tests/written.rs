//! The exact bytes that are written.

use barid_mailbox::{ChangeSet, Error, FlagChange};
use barid_types::{Flag, FlagSet, Keyword, Uid};

use super::support::{Done, World};
use crate::mbox::Variant;
use crate::mbox::layout::{
    ABSORB_MAX, COLLAPSE_FRACTION, COLLAPSE_MIN, HEADER_LEN_MAX, PADDING_LEN,
};

const FROM: &str = "From a@b.c Thu Nov  9 10:11:12 2023\n";
const BASE: &str = "X-IMAPbase: 1600000000 0000000009\n";

/// Returns a block as barid writes it.
fn block(uid: u32, padding: usize) -> String {
    let padding = " ".repeat(padding);
    format!("Status: RO\nX-Status: \nX-Keywords:{padding}\nX-UID: {uid}\n")
}

/// Returns a mailbox as barid writes it, with one message for each body.
fn ours(padding: usize, bodies: &[usize]) -> String {
    let mut text = String::new();
    for (uid, body) in (1..).zip(bodies) {
        let base = if uid == 1 { BASE } else { "" };
        let body = "x".repeat(*body);
        let block = block(uid, padding);
        text += &format!("{FROM}Subject: {uid}\n{base}{block}\n{body}\n\n");
    }
    text
}

/// Returns a mailbox without owned fields.
fn virgin(bodies: &[usize]) -> String {
    let text = |(number, body): (usize, &usize)| {
        format!("{FROM}Subject: {number}\n\n{}\n\n", "x".repeat(*body))
    };
    bodies.iter().enumerate().map(text).collect()
}

fn uid(uid: u32) -> Uid {
    Uid::new(uid).unwrap()
}

fn add(flags: impl IntoIterator<Item = Flag>, keywords: &[&str]) -> FlagChange {
    FlagChange {
        add: flags.into_iter().collect(),
        add_keywords: keywords.iter().map(|name| Keyword::new(name).unwrap()).collect(),
        ..FlagChange::default()
    }
}

fn flagged(of: u32, change: FlagChange) -> ChangeSet {
    ChangeSet { flags: vec![(uid(of), change)].into(), ..ChangeSet::default() }
}

fn expunged(uids: impl IntoIterator<Item = u32>) -> ChangeSet {
    ChangeSet { expunge: uids.into_iter().map(uid).collect(), ..ChangeSet::default() }
}

fn synced() -> ChangeSet {
    ChangeSet { drop_recent: true, write_uids: true, ..ChangeSet::default() }
}

/// Applies a change; returns the new file as text too.
fn apply(text: &str, changes: &ChangeSet) -> (Done, String) {
    let world = World::new(Variant::Mboxo, text.as_bytes());
    let done = world.apply(changes);
    let text = String::from_utf8(done.bytes.clone()).unwrap();
    (done, text)
}

#[test]
fn a_flag_is_a_few_bytes_in_place() {
    let text = ours(40, &[10, 10, 10]);
    let (done, new) = apply(&text, &flagged(2, add([Flag::Flagged], &[])));
    assert_eq!((done.inserted, done.copied), ("F\nX-Keywords:".len(), 0));
    assert_eq!(done.places.len(), 1);
    assert_eq!(
        new,
        text.replacen("X-Status: \nX-Keywords: ", "X-Status: F\nX-Keywords:", 2).replacen(
            "X-Status: F\nX-Keywords:",
            "X-Status: \nX-Keywords: ",
            1
        )
    );
    let unseen = FlagChange { remove: FlagSet::EMPTY.with(Flag::Seen), ..FlagChange::default() };
    let (done, _) = apply(&text, &flagged(3, unseen));
    assert_eq!((done.inserted, done.copied), ("O\nX-Status: \nX-Keywords: ".len(), 0));
}

#[test]
fn nothing_to_do_writes_nothing() {
    for changes in [synced(), ChangeSet::default(), flagged(2, add([Flag::Seen], &[]))] {
        let (done, _) = apply(&ours(0, &[10, 10, 10]), &changes);
        assert_eq!((done.inserted, done.copied), (0, 0));
        assert_eq!(done.planned.messages_written, 0);
    }
}

#[test]
fn a_second_sync_writes_nothing() {
    let (first, new) = apply(&virgin(&[10, 300_000, 10, 10]), &synced());
    assert!(first.planned.has_all_uids && first.planned.messages_written == 4);
    let padding = " ".repeat(PADDING_LEN);
    assert!(new.contains(&format!(
        "Subject: 2\nStatus: O\nX-Status: \nX-Keywords:{padding}\nX-UID: 3\n\n"
    )));
    let (second, _) = apply(&new, &synced());
    assert_eq!((second.inserted, second.copied), (0, 0));
}

#[test]
fn a_new_keyword_is_named_in_the_first_message_and_stays_in_place() {
    let (done, new) = apply(&ours(40, &[10, 10, 10]), &flagged(3, add([], &["Work"])));
    assert_eq!(done.copied, 0);
    assert!(new.contains("X-IMAPbase: 1600000000 0000000009 Work\n"), "{new}");
    assert!(new.contains("X-Keywords: Work "), "{new}");
}

#[test]
fn growth_uses_the_padding_of_what_follows() {
    let text = ours(0, &[10]) + &ours(64, &[10, 10, 10])[..];
    let text = text.replace(
        "Subject: 1\nX-IMAPbase: 1600000000 0000000009\nStatus: RO\nX-Status: \nX-Keywords: ",
        "Subject: 1\nStatus: RO\nX-Status: \nX-Keywords: ",
    );
    let text = text.replace("X-UID: 3", "X-UID: 4").replace("X-UID: 2", "X-UID: 3");
    let text = text.replacen("X-UID: 1\n", "X-UID: 2\n", 2).replacen("X-UID: 2\n", "X-UID: 1\n", 1);
    let (done, new) = apply(&text, &flagged(1, add([Flag::Flagged], &["Work"])));
    assert_eq!(new.len(), text.len());
    assert!(done.copied < 200, "{} bytes moved", done.copied);
    assert_eq!(new[300 + 200..], text[300 + 200..]);
}

#[test]
fn growth_near_the_end_moves_the_rest() {
    let text = virgin(&[10, 10, 10]);
    let (done, new) = apply(&text, &flagged(1, add([Flag::Flagged], &[])));
    assert_eq!(new.matches("X-Status").count(), 1);
    assert_eq!(done.planned.messages_written, 1);
    assert_eq!(done.planned.shifts.len(), 1);
}

#[test]
fn growth_far_from_the_end_gives_every_message_room() {
    let text = virgin(&[10, 10, 300_000, 10]);
    let (done, new) = apply(&text, &flagged(2, add([Flag::Flagged], &[])));
    let padding = " ".repeat(PADDING_LEN);
    assert_eq!(new.matches(&format!("X-Keywords:{padding}\n")).count(), 3);
    assert!(done.planned.shifts.is_empty());
}

#[test]
fn a_small_message_becomes_padding() {
    let text = ours(40, &[10, 3_000, 10, 200_000]);
    let (done, new) = apply(&text, &expunged([2]));
    assert_eq!(new.len(), text.len());
    assert!(done.copied < 200, "{} bytes moved", done.copied);
    let text = ours(40, &[10, 2 * ABSORB_MAX, 10, 10, 10, 10, 600_000]);
    let (done, new) = apply(&text, &expunged([2]));
    assert_eq!(new.len(), text.len());
    assert!(done.copied < 1_000, "{} bytes moved", done.copied);
}

#[test]
fn much_is_moved_over() {
    let text = ours(40, &[10, 3_000, 10, 20_000]);
    let (done, new) = apply(&text, &expunged([2]));
    assert!(new.len() < text.len() - 3_000);
    assert_eq!((done.inserted, done.planned.shifts.len()), (0, 1));
}

#[test]
fn a_big_message_is_collapsed() {
    let mut world = World::new(Variant::Mboxo, ours(40, &[10, 100_000, 10, 2_000_000]).as_bytes());
    world.block = Some(4096);
    let done = world.apply(&expunged([2]));
    assert_eq!(done.collapsed, 23 * 4096);
    assert!(done.copied < 200 && done.inserted < 2 * 4096 + 200);
    assert!(done.planned.shifts.iter().any(|shift| shift.old_offset > 100_000));
}

#[test]
fn a_big_message_that_much_follows_becomes_padding() {
    let follows = COLLAPSE_FRACTION as usize * (COLLAPSE_MIN as usize + 3_000);
    let lens = [&[10, COLLAPSE_MIN as usize + 1_000][..], &[10; 12], &[follows]].concat();
    let mut world = World::new(Variant::Mboxo, ours(40, &lens).as_bytes());
    world.block = Some(4096);
    let done = world.apply(&expunged([2]));
    assert_eq!(done.collapsed, 0);
    assert!(done.planned.shifts.iter().all(|shift| shift.old_offset < 200_000));
    assert!(done.copied < 10_000, "{} bytes moved", done.copied);
}

#[test]
fn the_last_message_is_cut_off() {
    let text = ours(40, &[10, 10, 10]);
    let (done, new) = apply(&text, &expunged([3]));
    assert_eq!((done.inserted, done.copied), (0, 0));
    assert!(text.starts_with(&new));
}

#[test]
fn the_next_message_gets_the_base() {
    let (_, new) = apply(&ours(40, &[10, 10, 10]), &expunged([1]));
    assert!(new.starts_with(&format!("{FROM}Subject: 2\n{BASE}Status: RO\n")), "{new}");
}

#[test]
fn a_pseudo_message_outlives_the_others() {
    for variant in [Variant::Mboxo, Variant::Mmdf] {
        let text = ours(0, &[10, 10]);
        let text = match variant {
            Variant::Mmdf => {
                let text = text.replace(FROM, &format!("\x01\x01\x01\x01\n{FROM}"));
                text.replace("\n\n\x01", "\n\x01\x01\x01\x01\n\x01") + "\x01\x01\x01\x01\n"
            }
            _ => text,
        };
        let world = World::new(variant, text.as_bytes());
        let done = world.apply(&expunged([1, 2]));
        assert!(done.after.seen.is_empty() && done.after.notes().pseudo);
        assert_eq!(done.planned.notes, done.after.notes());
        let text = String::from_utf8(done.bytes).unwrap();
        assert!(text.contains("X-IMAP: 1600000000 0000000009\n"), "{text}");
        let done = world.apply(&synced());
        assert_eq!(done.inserted, 0);
    }
}

#[test]
fn letters_that_are_not_ours_stay() {
    let text = format!("{FROM}Status: ROx\nX-Status: QF\n\nbody\n\n");
    let (_, new) = apply(&text, &flagged(1, add([Flag::Draft], &[])));
    assert!(new.contains("Status: xRO\nX-Status: QFT\n"), "{new}");
}

#[test]
fn line_ends_are_those_of_the_header() {
    let text = virgin(&[10, 10]).replace('\n', "\r\n");
    let (_, new) = apply(&text, &synced());
    assert_eq!(new.matches('\n').count(), new.matches("\r\n").count());
    assert!(new.contains("X-UID: 2\r\n\r\n"), "{new}");
}

#[test]
fn a_header_without_blank_line_gets_one_before_a_separator() {
    let text = format!("{FROM}Subject: 1\n{FROM}Subject: 2\n");
    let (_, new) = apply(&text, &synced());
    assert!(new.contains("X-UID: 1\n\nFrom ") && new.ends_with("X-UID: 2\n"), "{new}");
}

#[test]
fn a_header_that_is_too_long_stays_and_is_named() {
    let line = format!("X-Long: {}\n", "y".repeat(1000));
    let long = line.repeat(HEADER_LEN_MAX / line.len() + 1);
    let text = format!("{FROM}Subject: 1\n\nbody\n\n{FROM}{long}\nbody\n\n{}", virgin(&[10]));
    let (done, _) = apply(&text, &synced());
    assert_eq!((done.planned.unwritable, done.planned.unwritable_count), (vec![uid(2)], 1));
    assert!(!done.planned.has_all_uids);
    let (done, new) = apply(&text, &ChangeSet { expunge: vec![uid(1)], ..synced() });
    assert!(done.after.notes().pseudo, "a pseudo message holds what the first cannot");
    assert!(new.starts_with("From MAILER-DAEMON "), "{}", &new[..200]);
}

#[test]
fn keywords_that_others_would_lose_are_refused() {
    let refused = |names: &[&str]| {
        let world = World::new(Variant::Mboxo, ours(40, &[10, 10]).as_bytes());
        let changes = flagged(1, add([], names));
        matches!(world.try_plan(&world.scan(), &changes), Err(Error::Unsupported { .. }))
    };
    let many: Vec<String> = (0..31).map(|number| format!("k{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(refused(&many) && !refused(&many[..30]));
    assert!(refused(&[&"k".repeat(51)]) && !refused(&[&"k".repeat(50)]));
    assert!(refused(&["k\u{f6}"]));
}

#[test]
fn what_is_not_known_is_gone() {
    let changes = ChangeSet { expunge: vec![uid(7), uid(8)], ..flagged(5, add([], &[])) };
    let (done, _) = apply(&ours(40, &[10, 10]), &changes);
    assert_eq!(done.planned.gone, [uid(5), uid(7), uid(8)]);
    assert_eq!(done.inserted, 0);
}

#[test]
fn what_others_deliver_meanwhile_is_kept() {
    for (old, new) in [
        (ours(0, &[10, 10]), FROM.to_owned() + "Subject: 3\n\nnew\n\n"),
        (ours(0, &[10, 10]).trim_end().to_owned() + "\n", format!("\n{FROM}\nnew\n\n")),
    ] {
        for changes in [synced(), expunged([2]), expunged([1]), expunged([1, 2])] {
            let mut world = World::new(Variant::Mboxo, old.as_bytes());
            let known = world.scan();
            world.write(format!("{old}{new}").as_bytes());
            let believed = world.try_plan(&known, &changes);
            assert!(matches!(believed, Err(Error::Changed { .. })), "only what is verified grew");
            world.verify = true;
            let (done, _) = world.try_plan(&known, &changes).unwrap();
            world.write(&done.bytes);
            let after = world.scan();
            assert_eq!(after.seen.len(), 3 - changes.expunge.len());
            let last = after.seen.last().unwrap();
            assert_eq!(last.offset, done.planned.known_end);
            assert_eq!(last.body_len, 4);
        }
    }
}

#[test]
fn what_is_not_as_known_is_noticed() {
    let text = ours(10, &[10, 10, 10]);
    for (what, with) in [
        ("Subject: 2", "Subject: 4"),
        ("From a@b.c Thu", "From a@b.cThu "),
        ("0000000009\n", "0000000009 \n"),
        ("1600000000", "1600000001"),
        ("X-UID: 2", "X-UID: 8"),
    ] {
        for changes in [synced(), expunged([3]), flagged(1, add([Flag::Draft], &[]))] {
            let mut world = World::new(Variant::Mboxo, text.as_bytes());
            world.verify = true;
            let known = world.scan();
            let place = text.rfind(what).unwrap();
            let changed = text[..place].to_owned() + with + &text[place + what.len()..];
            world.write(changed.as_bytes());
            let planned = world.try_plan(&known, &changes);
            assert!(matches!(planned, Err(Error::Changed { .. })), "{what} {changes:?}");
        }
    }
}

#[test]
fn what_others_changed_of_the_flags_is_told() {
    let text = ours(10, &[10, 10, 10]);
    let mut world = World::new(Variant::Mboxo, text.as_bytes());
    world.verify = true;
    let known = world.scan();
    world.write(text.replacen("Status: RO", "Status: O ", 2).as_bytes());
    let (_, told) = world.try_plan(&known, &flagged(3, add([Flag::Draft], &[]))).unwrap();
    let told: Vec<_> = told.iter().map(|moved| (moved.uid.get(), moved.flags)).collect();
    let seen = FlagSet::EMPTY.with(Flag::Seen);
    assert_eq!(told, [(1, FlagSet::EMPTY), (2, FlagSet::EMPTY), (3, seen.with(Flag::Draft))]);
}

#[test]
fn nuls_at_the_end_are_left_where_they_are() {
    let text = ours(10, &[10, 10, 10]) + &"\0".repeat(10_000);
    for changes in [synced(), expunged([3]), expunged([1]), flagged(3, add([Flag::Draft], &[]))] {
        let (done, new) = apply(&text, &changes);
        assert!(new.ends_with(&"\0".repeat(10_000)));
        assert_eq!(done.planned.known_end, done.planned.size);
    }
}

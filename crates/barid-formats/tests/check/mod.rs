//! Damage of every kind: it is found at its place, repaired so that every whole message survives,
//! and the repair is undone byte for byte, even when the power fails.

mod corpora;
mod crash;
mod keeping;
mod maildir;
mod mbox;
mod mbx;
mod mh;
mod mix;
mod peers;
mod world;

use std::collections::BTreeSet;

use self::world::{Box_, Case, View, run};

/// All kinds of damage.
fn cases() -> Vec<Case> {
    [mbx::cases(), mix::cases(), mbox::cases(), maildir::cases(), mh::cases()].concat()
}

#[test]
fn every_damage_is_found_repaired_and_undone() {
    let cases = cases();
    assert!(cases.len() >= 50, "{} kinds of damage", cases.len());
    let mut failed = Vec::new();
    for case in &cases {
        for seed in 0..8 {
            if let Err(what) = run(case, seed) {
                failed.push(format!("{} {}, seed {seed}: {what}", case.format, case.name));
                break;
            }
        }
    }
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

/// Kinds of damage that the bytes of a mailbox do not show: an interrupted change, a failing disk,
/// a link, state files.
const ELSEWHERE: [&str; 5] =
    ["unfinished", "unreadable", "dangling", "state-ledger", "state-pending"];

/// Returns the kinds of damage found in mailboxes of each format, with `true` if a repair mends
/// them.
fn kinds() -> BTreeSet<(&'static str, &'static str, bool)> {
    let mut kinds = BTreeSet::new();
    for case in cases() {
        for seed in 0..8 {
            kinds.extend(crash::kinds(&case, seed));
        }
    }
    kinds
}

#[test]
fn every_kind_of_damage_is_documented_and_tried() {
    let page = include_str!("../../../../docs/design/check.md");
    let mut documented = BTreeSet::new();
    let names = [("mbx", "mbx"), ("mix", "mix"), ("mbox, MMDF", "mbox"), ("Maildir", "maildir")];
    // Archives of public-inbox cannot be repaired; the conformance crate tests their check.
    for (name, format) in names.into_iter().chain([("MH", "mh"), ("all", "all")]) {
        let row = page.lines().find_map(|line| line.strip_prefix(&format!("| {name} | ")));
        let words = row.unwrap().split('`').skip(1).step_by(2);
        documented.extend(words.map(|word| (format, word)));
    }
    documented.retain(|(_, kind)| !ELSEWHERE.contains(kind));
    let mut found: BTreeSet<_> = kinds().iter().map(|(format, kind, _)| (*format, *kind)).collect();
    found.retain(|(_, kind)| !ELSEWHERE.contains(kind));
    assert_eq!(found, documented);
}

/// Returns the UIDVALIDITY of the mailbox.
fn uidvalidity(mailbox: &Box_, format: &str) -> u32 {
    let (file, before, radix) = match format {
        "mbx" => ("box", "*mbx*\r\n", 16),
        "mix" => (".mixmeta", "\r\nV", 16),
        "maildir" => ("dovecot-uidlist", "3 V", 10),
        _ => ("box", "X-IMAPbase: ", 10),
    };
    let at = mailbox.find(file, before) + before.len();
    let bytes = mailbox.get(file);
    let len = if radix == 16 { 8 } else { 10 };
    u32::from_str_radix(std::str::from_utf8(&bytes[at..at + len]).unwrap(), radix).unwrap()
}

#[test]
fn uids_that_may_come_again_get_a_new_uidvalidity() {
    let cases = cases();
    for (format, name, is_new) in [
        ("mbx", "last UID is no number", true),
        ("mbx", "last UID is too small", false),
        ("mbx", "UID out of the world", true),
        ("mbx", "UID twice", true),
        ("mbx", "UID is 0 in the middle", false),
        ("mbx", "line is garbage", false),
        ("mix", "last UID is no number", true),
        ("mix", "last UID is too small", false),
        ("mix", "UID in the index", true),
        ("mix", "no index", false),
        ("mbox", "UID out of the world", true),
        ("mbox", "UID twice", false),
        ("mbox", "last UID is too small", false),
        ("maildir", "UID twice", false),
        ("maildir", "line of the UIDs", false),
        ("maildir", "last line of the UIDs", true),
        ("maildir", "next UID is no number", true),
        ("maildir", "UIDs cut", false),
        ("maildir", "UIDs cut in a UID", true),
    ] {
        let case = cases.iter().find(|case| case.format == format && case.name == name);
        let case = case.unwrap_or_else(|| panic!("{format}: {name}"));
        for seed in 0..8 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut mailbox = (case.build)(&mut rng);
            let before = uidvalidity(&mailbox, format);
            (case.damage)(&mut mailbox, &mut rng);
            let view = View::of(&mailbox.disk, &mailbox.spec);
            assert!(view.repair().unwrap().kept.is_some());
            let after = uidvalidity(&mailbox, format);
            assert!(after >= before, "{format}: {name}");
            assert_eq!(after > before, is_new, "{format}: {name}, seed {seed}");
        }
    }
}

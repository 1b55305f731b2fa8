//! Damage of an MH folder.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use barid_mailbox::Error;
use barid_vfs::{CallKind, Fault, FaultEffect, FaultVfs, Host as _, Vfs};
use fastrand::Rng;

use super::world::{Box_, Case, Expected, View, expect, texts};

const SEQUENCES: &str = ".mh_sequences";
/// Age at which nobody is still writing a file.
const DAY: Duration = Duration::from_secs(24 * 3600);
type Damage = fn(&mut Box_, &mut Rng) -> Expected;

fn build(rng: &mut Rng) -> Box_ {
    let texts = texts(rng, "\n");
    let mailbox = Box_::new("mh:/mail/box", "/mail/box", texts);
    for (number, text) in mailbox.texts.iter().enumerate() {
        mailbox.put(&(number + 1).to_string(), text);
    }
    mailbox.put(SEQUENCES, b"cur: 2\nunseen: 1 3-4\nflagged: 2\n");
    mailbox
}

fn some(mailbox: &Box_, rng: &mut Rng) -> usize {
    rng.usize(..mailbox.texts.len())
}

const CASES: &[(&str, Damage)] = &[
    ("empty message", |mailbox, rng| {
        let number = some(mailbox, rng);
        let name = (number + 1).to_string();
        mailbox.put(&name, b"");
        mailbox.disk.sleep(DAY);
        expect("empty", &name, None).lost([number])
    }),
    ("message of zeros", |mailbox, rng| {
        let number = some(mailbox, rng);
        let name = (number + 1).to_string();
        mailbox.put(&name, &vec![0; rng.usize(1..9000)]);
        mailbox.disk.sleep(DAY);
        expect("zeros", &name, None).lost([number])
    }),
    ("name with a leading zero", |mailbox, rng| {
        let number = some(mailbox, rng);
        let (from, to) = ((number + 1).to_string(), format!("00{}", number + 1));
        mailbox.disk.rename(&mailbox.path(&from), &mailbox.path(&to)).unwrap();
        expect("name", &to, None)
    }),
    ("folder with the name of a message", |mailbox, _| {
        mailbox.disk.create_dir(&mailbox.path("77"), 0o700).unwrap();
        expect("not-a-file", "77", None).hopeless()
    }),
    ("append cut", |mailbox, _| {
        mailbox.put(".barid-append-7", b"half of it");
        mailbox.disk.sleep(Duration::from_secs(48 * 3600));
        expect("leftover", ".barid-append-7", None)
    }),
    ("line that is no sequence", |mailbox, _| {
        mailbox.splice(SEQUENCES, 7..7, b"what is this\n");
        expect("sequence-line", SEQUENCES, 7)
    }),
    ("zeros in the sequences", |mailbox, _| {
        mailbox.patch(SEQUENCES, 7, &[0; 16]);
        expect("sequence-line", SEQUENCES, 7)
    }),
    ("word that is no message", |mailbox, _| {
        mailbox.patch(SEQUENCES, 15, b"x");
        expect("sequence-range", SEQUENCES, 7)
    }),
    ("range that runs backwards", |mailbox, _| {
        mailbox.patch(SEQUENCES, 17, b"4-3");
        expect("sequence-range", SEQUENCES, 7)
    }),
    ("message that is gone", |mailbox, _| {
        mailbox.patch(SEQUENCES, 15, b"7777777\nflagged: 2\n");
        expect("sequence-gone", SEQUENCES, 7)
    }),
    ("sequence twice", |mailbox, _| {
        let len = mailbox.get(SEQUENCES).len() as u64;
        mailbox.patch(SEQUENCES, len, b"unseen: 2\n");
        expect("sequence-twice", SEQUENCES, len)
    }),
    ("last line without an end", |mailbox, _| {
        let len = mailbox.get(SEQUENCES).len();
        mailbox.splice(SEQUENCES, len - 1..len, b"");
        expect("sequence-end", SEQUENCES, len as u64 - 1)
    }),
];

pub(super) fn cases() -> Vec<Case> {
    CASES.iter().map(|(name, damage)| Case { format: "mh", name, build, damage: *damage }).collect()
}

#[test]
fn what_was_just_begun_is_left_alone() {
    let mut rng = Rng::with_seed(1);
    for bytes in [b"".as_slice(), &[0; 9]] {
        let mailbox = build(&mut rng);
        mailbox.put("2", bytes);
        let view = View::of(&mailbox.disk, &mailbox.spec);
        assert_eq!(view.check().unwrap().damages, []);
        assert_eq!(view.repair().unwrap().kept, None);
        assert_eq!(mailbox.get("2"), bytes);
    }
}

#[test]
fn what_goes_meanwhile_is_no_damage() {
    let mailbox = build(&mut Rng::with_seed(1));
    mailbox.disk.sleep(DAY);
    for kind in [CallKind::Stat, CallKind::Open] {
        let gone = FaultEffect::Error(ErrorKind::NotFound);
        let fault = Fault::nth(0).of(kind).at("/mail/box/2").with(gone).forever();
        let vfs = Arc::new(FaultVfs::new(mailbox.disk.clone(), fault));
        let view = View { vfs, ..View::of(&mailbox.disk, &mailbox.spec) };
        let found = view.check().unwrap();
        assert_eq!(found.messages, mailbox.texts.len() as u64 - 1);
        assert!(found.damages.iter().all(|damage| damage.kind == "sequence-gone"), "{found:?}");
    }
}

#[test]
fn what_cannot_be_looked_at_is_not_taken_for_gone() {
    let mailbox = build(&mut Rng::with_seed(1));
    let effect = FaultEffect::Error(ErrorKind::PermissionDenied);
    let fault = Fault::nth(0).of(CallKind::Stat).at("/mail/box/2").with(effect).forever();
    let vfs = Arc::new(FaultVfs::new(mailbox.disk.clone(), fault));
    let view = View { vfs, ..View::of(&mailbox.disk, &mailbox.spec) };
    let error = view.repair().unwrap_err();
    assert!(matches!(&error, Error::Io { path, .. } if path.ends_with("2")), "{error}");
}

#[test]
fn a_number_that_a_folder_has_is_taken() {
    let mailbox = build(&mut Rng::with_seed(1));
    let count = mailbox.texts.len();
    mailbox.disk.create_dir(&mailbox.path(&(count + 1).to_string()), 0o700).unwrap();
    mailbox.put("01", b"Subject: x\n\n");
    let view = View::of(&mailbox.disk, &mailbox.spec);
    view.repair().unwrap();
    assert_eq!(mailbox.get(&(count + 2).to_string()), b"Subject: x\n\n");
}

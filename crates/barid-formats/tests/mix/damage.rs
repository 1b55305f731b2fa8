//! Damaged mailboxes: whole messages are still readable, and nothing is written over the rest.

use std::path::Path;
use std::sync::Arc;

use barid_formats::MixMailbox;
use barid_mailbox::{ChangeSet, Error};
use barid_types::{Flag, FlagSet};
use barid_vfs::{MemVfs, Vfs};
use fastrand::Rng;

use super::support::{Contents, MixBox, add, create, new_message, uid, write_files};

const PATH: &str = "/mail/box";

/// Returns a mailbox in which some messages were expunged.
fn mailbox() -> (MixBox, Contents) {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let mut mailbox = create(&vfs, Path::new(PATH));
    for number in 0..12 {
        let text =
            format!("Subject: {number}\r\n\r\n:msg: is no line\r\n{}", "y".repeat(90 * number));
        mailbox.sync(&ChangeSet::default(), &[new_message(text.as_bytes())]).unwrap();
    }
    let flags = vec![add(4, FlagSet::EMPTY.with(Flag::Flagged), &["todo"])];
    let changes =
        ChangeSet { flags: flags.into(), expunge: vec![uid(3), uid(8)], ..ChangeSet::default() };
    mailbox.sync(&changes, &[]).unwrap();
    let contents = mailbox.now();
    assert_eq!(contents.len(), 10);
    (mailbox, contents)
}

fn overwrite(mailbox: &MixBox, name: &str, bytes: &[u8]) {
    write_files(&*mailbox.vfs, &mailbox.path, [(name, bytes)]);
}

#[test]
fn messages_are_found_without_an_index() {
    let (mut mailbox, contents) = mailbox();
    let whole = mailbox.files();
    let index = whole[".mixindex"].clone();
    let mut rng = Rng::with_seed(1);
    let mut damages: Vec<Option<Vec<u8>>> = vec![None, Some(vec![0; index.len()])];
    damages.push(Some(index[..index.len() / 2].to_vec()));
    for _ in 0..20 {
        let mut damaged = index.clone();
        let from = rng.usize(..damaged.len());
        damaged[from..].fill(0);
        damages.push(Some(damaged));
    }
    for damaged in damages {
        match &damaged {
            None => mailbox.vfs.remove_file(&mailbox.path.join(".mixindex")).unwrap(),
            Some(bytes) => overwrite(&mailbox, ".mixindex", bytes),
        }
        let cached = mailbox.scan();
        assert!(!cached.report.defects.is_empty(), "{damaged:?}");
        assert_eq!(mailbox.contents(&cached), contents);
        let before = mailbox.files();
        let refused = mailbox.sync(&ChangeSet { drop_recent: true, ..ChangeSet::default() }, &[]);
        assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
        assert_eq!(mailbox.files(), before);
        // After rewriting it is unchanged, except for its sequence.
        let mut damaged = MixMailbox::new(Arc::clone(&mailbox.vfs), mailbox.path.clone());
        damaged.repair_index().unwrap();
        assert_eq!(damaged.repair_index().unwrap(), 0);
        let cached = mailbox.scan();
        assert_eq!(
            (&cached.report.defects[..], mailbox.contents(&cached)),
            (&[][..], contents.clone())
        );
        assert_eq!(mailbox.files()[".mixindex"][11..], index[11..]);
        for (name, bytes) in &whole {
            overwrite(&mailbox, name, bytes);
        }
    }
}

#[test]
fn a_damaged_status_costs_flags_only() {
    let (mut mailbox, contents) = mailbox();
    let status = mailbox.files()[".mixstatus"].clone();
    overwrite(&mailbox, ".mixstatus", &status[..status.len() - 40]);
    let cached = mailbox.scan();
    let found = mailbox.contents(&cached);
    let same =
        |(uid, content): (&u32, &super::support::Content)| content.text == contents[uid].text;
    assert!(found.iter().all(same) && found.len() == 10);
    mailbox.sync(&ChangeSet { drop_recent: true, ..ChangeSet::default() }, &[]).unwrap();
    assert_eq!(mailbox.files()[".mixstatus"].len(), status.len());
}

#[test]
fn a_record_of_the_status_that_is_damaged_costs_its_own_flags_only() {
    let (mut mailbox, _) = mailbox();
    let flagged = (5..13).filter(|number| *number != 8);
    let flags = flagged.clone().map(|n| add(n, FlagSet::EMPTY.with(Flag::Seen), &["todo"]));
    let changes = ChangeSet { flags: flags.collect(), ..ChangeSet::default() };
    mailbox.sync(&changes, &[]).unwrap();
    let contents = mailbox.now();
    let status = mailbox.files()[".mixstatus"].clone();
    let at = memchr::memmem::find(&status, b":00000004:").unwrap();
    // Not a record; a record of an impossible message, of a later one, and of an earlier one.
    for damage in [&b"!"[..], b":ffffffff", b":00000009", b":00000001"] {
        let mut damaged = status.clone();
        damaged[at..at + damage.len()].copy_from_slice(damage);
        overwrite(&mailbox, ".mixstatus", &damaged);
        let cached = mailbox.scan();
        assert!(!cached.report.defects.is_empty(), "{damage:?}");
        mailbox.sync(&ChangeSet { drop_recent: true, ..ChangeSet::default() }, &[]).unwrap();
        let found = mailbox.now();
        for number in flagged.clone() {
            let flags = contents[&number].flags.without(Flag::Recent);
            assert_eq!(found[&number].flags, flags, "{number}, {damage:?}");
            assert_eq!(found[&number].keywords, contents[&number].keywords);
        }
        overwrite(&mailbox, ".mixstatus", &status);
    }
}

/// Writes after the last message of the data file, as an append does before its commit point.
fn write_after(mailbox: &MixBox, bytes: &[u8]) {
    let name = ".mix5f000000";
    let mut data = mailbox.files()[name].clone();
    data.extend_from_slice(bytes);
    overwrite(mailbox, name, &data);
}

#[test]
fn what_an_append_has_left_is_no_message_without_an_index() {
    // A whole message with the UID that the next one gets; a whole one with more after it;
    // beginnings.
    let orphan = |uid: u32, size: usize, text: &str| {
        format!(":msg:{uid:08x}:20010909014640+0000:{size:08x}:\r\n{text}").into_bytes()
    };
    let text = "Subject: orphan\r\n\r\norphan\r\n";
    let lefts = [
        orphan(13, text.len(), text),
        [orphan(13, text.len(), text), orphan(14, text.len(), text)].concat(),
        orphan(13, 900, text),
        orphan(13, 2100, text),
        orphan(13, 40, text),
        orphan(13, 10, "")[..20].to_vec(),
    ];
    for left in lefts {
        let (mut mailbox, _) = mailbox();
        write_after(&mailbox, &left);
        for number in 13..17 {
            let text = format!("Subject: {number}\r\n\r\n{}\r\n", "z".repeat(700));
            let appended = mailbox.sync(&ChangeSet::default(), &[new_message(text.as_bytes())]);
            assert_eq!(appended.unwrap().appended, [Some(uid(number))]);
        }
        let contents = mailbox.now();
        assert_eq!(contents.len(), 14);
        let index = mailbox.files()[".mixindex"].clone();
        for damaged in [&b""[..], &index[..200], &[0; 40]] {
            overwrite(&mailbox, ".mixindex", if damaged.is_empty() { b"?" } else { damaged });
            let found = mailbox.now();
            let left = String::from_utf8_lossy(&left);
            let texts = |all: &Contents| -> Vec<_> {
                all.iter().map(|(uid, content)| (*uid, content.text.clone())).collect()
            };
            assert_eq!(texts(&found), texts(&contents), "{left}");
        }
    }
}

#[test]
fn numbers_that_cannot_be_are_told() {
    let (mut mailbox, contents) = mailbox();
    let files = mailbox.files();
    for name in [".mixstatus", ".mixindex"] {
        let mut last = files[name].clone();
        last[1..9].copy_from_slice(b"ffffffff");
        overwrite(&mailbox, name, &last);
        let cached = mailbox.scan();
        assert_eq!(mailbox.contents(&cached), contents);
        assert_eq!(cached.report.defects.len(), 1, "{:?}", cached.report.defects);
        let text = b"Subject: next\r\n\r\n";
        let appended = mailbox.sync(&ChangeSet::default(), &[new_message(text)]).unwrap();
        assert_eq!(appended.appended, [Some(uid(13))]);
        for (name, bytes) in &files {
            overwrite(&mailbox, name, bytes);
        }
    }
    let index = String::from_utf8(files[".mixindex"].clone()).unwrap();
    let first = index.lines().nth(1).unwrap();
    let fields: Vec<&str> = first.split(':').collect();
    let longer = first.replace(&format!(":{}:{}:", fields[6], fields[7]), ":ffffffff:00000010:");
    overwrite(&mailbox, ".mixindex", index.replace(first, &longer).as_bytes());
    let cached = mailbox.scan();
    assert_eq!(cached.seen.len(), 10);
    assert_eq!(cached.report.defects.len(), 1, "{:?}", cached.report.defects);
}

#[test]
fn a_message_that_is_damaged_is_told_and_tried_again() {
    let (mailbox, contents) = mailbox();
    let data = mailbox.files()[".mix5f000000"].clone();
    let mut damaged = data.clone();
    damaged[0] = b'!';
    overwrite(&mailbox, ".mix5f000000", &damaged);
    let cached = mailbox.scan();
    let unreadable: Vec<_> = cached.report.defects.iter().filter_map(|defect| defect.uid).collect();
    assert_eq!(unreadable, [uid(1)]);
    assert!(mailbox.mailbox.has_unread(&cached.report.state));
    assert!(matches!(mailbox.read(&cached.seen[0]), Err(Error::MessageGone { .. })));
    assert!(mailbox.read(&cached.seen[1]).is_ok());
    overwrite(&mailbox, ".mix5f000000", &data);
    let (report, known) = mailbox.rescan(&cached);
    assert!(report.reset && report.defects.is_empty());
    assert_eq!(mailbox.contents(&known), contents);
}

#[test]
fn no_bytes_make_it_panic() {
    let (mailbox, _) = mailbox();
    let files = mailbox.files();
    let mut rng = Rng::with_seed(7);
    let mut defects = 0;
    for _ in 0..600 {
        let names: Vec<&String> = files.keys().collect();
        let name = names[rng.usize(..names.len())];
        let mut bytes = files[name].clone();
        for _ in 0..rng.usize(1..4) {
            match rng.u8(..3) {
                0 if !bytes.is_empty() => {
                    let at = rng.usize(..bytes.len());
                    bytes[at] = rng.u8(..);
                }
                1 if !bytes.is_empty() => {
                    let at = rng.usize(..bytes.len());
                    bytes[at] = *rng.choice(b":f\r\n0SK").unwrap();
                }
                _ => bytes.truncate(rng.usize(..=bytes.len())),
            }
        }
        overwrite(&mailbox, name, &bytes);
        let known = barid_mailbox::EmptyKnown::default();
        if let Ok(found) = mailbox.scan_with(&known, false) {
            defects += found.report.defects.len();
            for seen in &found.seen {
                let _ = mailbox.read(seen);
            }
        }
        overwrite(&mailbox, name, &files[name]);
    }
    assert!(defects > 100, "{defects}");
}

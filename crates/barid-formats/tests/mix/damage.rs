//! Mailboxes that are damaged: what is whole is still there, and nothing is written over the rest.

use std::path::Path;
use std::sync::Arc;

use barid_formats::{ChangeSet, Error, MixMailbox};
use barid_types::{Flag, FlagSet};
use barid_vfs::{MemVfs, Vfs};
use fastrand::Rng;

use super::support::{Contents, MixBox, add, create, new_message, uid, write_files};

const PATH: &str = "/mail/box";

/// A mailbox of messages some of which were expunged.
fn mailbox() -> (MixBox, Contents) {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let mut mailbox = create(&vfs, Path::new(PATH));
    for number in 0..12 {
        let text =
            format!("Subject: {number}\r\n\r\n:msg: is no line\r\n{}", "y".repeat(90 * number));
        mailbox.sync(&ChangeSet::default(), &[new_message(text.as_bytes())]).unwrap();
    }
    let flags = vec![add(4, FlagSet::EMPTY.with(Flag::Flagged), &["todo"])];
    let changes = ChangeSet { flags, expunge: vec![uid(3), uid(8)], ..ChangeSet::default() };
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
        // Written anew it is as it was, but for its sequence.
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
    assert!(matches!(mailbox.read(&cached.messages[0]), Err(Error::MessageGone { .. })));
    assert!(mailbox.read(&cached.messages[1]).is_ok());
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
        if let Ok((report, messages)) =
            mailbox.scan_with(&barid_formats::EmptyKnown::default(), false)
        {
            defects += report.defects.len();
            for message in &messages {
                let _ = mailbox.read(message);
            }
        }
        overwrite(&mailbox, name, &files[name]);
    }
    assert!(defects > 100, "{defects}");
}

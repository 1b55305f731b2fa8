//! EMAILID (RFC 8474): the identifier of the content of a message, in every format and whatever is
//! cached.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use barid::message::wire_message;
use barid::query::parse_imap;
use barid::vfs::{CallKind, Host as _, MeanwhileVfs, MemVfs, OpenOptions as FileOptions, Vfs};
use barid::{EmailId, Mailbox, MailboxSpec, OpenOptions, Uid, UidSet};
use barid_testkit::{Scratch, disk};

use crate::fetching::{Token, fetch, items};

/// Messages whose bytes are the same in all formats.
fn messages() -> Vec<String> {
    let text = |number: u32| format!("Subject: {number}\nFrom: a@b\n\nText {number}\n");
    let mut all: Vec<String> = (1..=5).map(text).collect();
    // The same header and length, another text.
    all.push("Subject: same\n\nText a\n".to_owned());
    all.push("Subject: same\n\nText b\n".to_owned());
    all.push("Subject: 1\nFrom: a@b\n\nText 1\n".to_owned());
    all
}

fn expected(message: &str) -> String {
    EmailId::of_wire(&wire_message(message.as_bytes())).to_string()
}

fn ids(mailbox: &mut Mailbox) -> Vec<String> {
    let uids: Vec<Uid> = mailbox.uids().unwrap().into_iter().filter_map(Uid::new).collect();
    let answers = fetch(mailbox, &uids, "(UID EMAILID)");
    let id_of = |answer: &Vec<Token>| match &items(answer).unwrap().1["EMAILID"][..] {
        [Token::Open, Token::Atom(id), Token::Close] => id.clone(),
        other => panic!("{other:?}"),
    };
    answers.iter().map(id_of).collect()
}

/// Makes a mailbox with the messages.
fn make(scratch: &Scratch, format: &str, name: &str) -> String {
    let path = scratch.path().join(name);
    if format == "maildir" {
        for folder in ["cur", "new", "tmp"] {
            disk::create_dir_all(&path.join(folder)).unwrap();
        }
        for (number, text) in messages().iter().enumerate() {
            let file = format!("{}.M1P1.host:2,", 1_000_000_000 + number);
            disk::write(&path.join("cur").join(file), text.as_bytes()).unwrap();
        }
    } else {
        let from = |text: &String| format!("From a@b Thu Jan  1 00:00:00 2026\n{text}\n");
        let texts: String = messages().iter().map(from).collect();
        disk::write(&path, texts.as_bytes()).unwrap();
    }
    path.to_string_lossy().into_owned()
}

#[test]
fn identifiers_are_those_of_the_content() {
    let scratch = Scratch::new("objectid").unwrap();
    let expected: Vec<String> = messages().iter().map(|text| expected(text)).collect();
    assert_eq!(expected.iter().collect::<BTreeSet<_>>().len(), 7);
    assert_eq!(expected[0], expected[7]);
    for format in ["maildir", "mbox"] {
        let path = make(&scratch, format, format);
        let (state, cache) = (scratch.path().join("state"), scratch.path().join("cache"));
        let options = OpenOptions::new(Some(cache.clone()), state);
        let mut mailbox = Mailbox::open(&path, &options).unwrap();
        assert_eq!(ids(&mut mailbox), expected, "{format}");
        // Stored identifiers, and those of a mailbox without them.
        let stored = disk::list_files(&cache).unwrap();
        let is_kept = |path: &PathBuf| path.to_string_lossy().contains("email-ids");
        assert!(stored.iter().any(is_kept), "{format}: {stored:?}");
        assert_eq!(ids(&mut Mailbox::open(&path, &options).unwrap()), expected, "{format}");
        drop(mailbox);
        disk::remove_tree(&cache).unwrap();
        assert_eq!(ids(&mut Mailbox::open(&path, &options).unwrap()), expected, "{format}");
        let mut mailbox = Mailbox::open(&path, &options).unwrap();
        let mut search = |text: &str| {
            let program = parse_imap(text.as_bytes()).unwrap().program;
            let found = mailbox.search(&program, &UidSet::new()).unwrap();
            assert!(found.unreadable.is_empty());
            found.rows
        };
        assert_eq!(search(&format!("EMAILID {}", expected[0])), [0, 7]);
        assert_eq!(search(&format!("NOT EMAILID {} 6:*", expected[5])), [6, 7]);
        assert_eq!(search(&format!("OR EMAILID {} SUBJECT 2", expected[6])), [1, 6]);
        assert!(search("EMAILID M1").is_empty());
        assert!(search("THREADID T1").is_empty());
    }
}

#[test]
fn a_message_that_is_too_large_for_memory_has_an_identifier() {
    let scratch = Scratch::new("objectid-large").unwrap();
    let path = scratch.path().join("box");
    for folder in ["cur", "new", "tmp"] {
        disk::create_dir_all(&path.join(folder)).unwrap();
    }
    let text = format!("Subject: large\n\n{}", "Some text of a long message.\n".repeat(700_000));
    disk::write(&path.join("cur").join("1.M1P1.host:2,"), text.as_bytes()).unwrap();
    let options = OpenOptions::new(None, scratch.path().join("state"));
    let mut mailbox = Mailbox::open(&path.to_string_lossy(), &options).unwrap();
    assert_eq!(ids(&mut mailbox), [expected(&text)]);
}

#[test]
fn few_new_identifiers_are_stored_and_all_are_read_once() {
    let disk = MemVfs::new();
    for folder in ["cur", "new", "tmp"] {
        disk.create_dir_all(&Path::new("/box").join(folder), 0o700).unwrap();
    }
    let deliver = |number: usize| {
        let path = format!("/box/cur/{}.M1P1.host:2,", 1_000_000_000 + number);
        let file = disk.open(Path::new(&path), FileOptions::create_new(0o600)).unwrap();
        let text = format!("Subject: {number}\n\nText {number}\n");
        file.write_all_at(text.as_bytes(), 0).unwrap();
        disk.sleep(std::time::Duration::from_secs(5));
    };
    (0..100).for_each(deliver);
    let counts: Arc<[AtomicUsize; 2]> = Arc::default();
    let (counted, is_counting) = (Arc::clone(&counts), Arc::new(Mutex::new(false)));
    let is_on = Arc::clone(&is_counting);
    let vfs = MeanwhileVfs::new(disk.clone(), move |kind, path| {
        let path = path.to_string_lossy();
        if kind == CallKind::Open && *is_on.lock().unwrap() {
            counted[0].fetch_add(path.contains(".host").into(), Ordering::Relaxed);
            counted[1].fetch_add(path.contains("email-ids").into(), Ordering::Relaxed);
        }
    });
    let vfs: Arc<dyn Vfs> = Arc::new(vfs);
    let options = OpenOptions::new(Some("/cache".into()), "/state".into());
    let spec = MailboxSpec::parse("maildir:/box");
    let open = || Mailbox::open_in(Arc::clone(&vfs), &spec, &options).unwrap();
    let check = |mailbox: &mut Mailbox, messages: usize, files: usize| {
        counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        *is_counting.lock().unwrap() = true;
        let found = ids(mailbox);
        *is_counting.lock().unwrap() = false;
        assert_eq!(found.len(), messages);
        for (number, id) in found.iter().enumerate() {
            let text = format!("Subject: {number}\n\nText {number}\n");
            assert_eq!(*id, expected(&text), "{number}");
        }
        let opened: Vec<usize> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert_eq!(opened[0], files, "messages read");
        opened[1]
    };
    let mut mailbox = open();
    check(&mut mailbox, 100, 100);
    for number in 100..103 {
        deliver(number);
        mailbox.refresh().unwrap();
        check(&mut mailbox, number + 1, 1);
        // Known while the mailbox is open, and in the next session.
        assert_eq!(check(&mut mailbox, number + 1, 0), 0, "the file is read again");
        let mut later = open();
        check(&mut later, number + 1, 0);
    }
}

//! Changes that cannot be written, and other changes that they must not block.

use std::path::Path;
use std::sync::Arc;

use barid::{ChangeOptions, ChangeRequest, Error, Flag, FlagChange, KeywordLimit, NewMessage};
use barid::{Mailbox, ReadAs};
use barid_state::{FlagDelta, Identity, MessageKey, Pending, PendingChange, PendingKind};
use barid_vfs::{Fault, FaultVfs};

use crate::arena::{Arena, add, expunge, flag, found, keyword, later, memory, now, uid};

/// Returns an mbox in memory with the given number of messages.
fn mbox(count: u64) -> Arena {
    let mut arena = Arena::in_memory("mboxrd", 1);
    arena.deliver(count);
    arena
}

/// Returns keywords that an mbox cannot store, with the limits.
fn bad_keywords() -> [(String, KeywordLimit); 2] {
    [
        ("gr\u{f6}\u{df}e".to_owned(), KeywordLimit::Ascii),
        ("k".repeat(51), KeywordLimit::Length(50)),
    ]
}

fn adding(name: &str) -> FlagChange {
    FlagChange { add_keywords: vec![keyword(name)], ..add(Flag::Seen) }
}

/// Returns a message to be appended with a keyword.
fn labelled<'a>(text: &'a [u8], name: &str) -> NewMessage<'a> {
    NewMessage { keywords: vec![keyword(name)], ..plain(text) }
}

/// Returns a message to be appended.
fn plain(text: &[u8]) -> NewMessage<'_> {
    let (internal_date, flags, keywords) = (None, Default::default(), Vec::new());
    NewMessage { bytes: text, internal_date, flags, keywords, ..NewMessage::default() }
}

#[test]
fn a_keyword_that_the_format_cannot_hold_is_refused_at_once() {
    for (name, expected) in bad_keywords() {
        let arena = mbox(2);
        let mut mailbox = arena.open();
        let before = arena.content();
        let appends = [labelled(b"Subject: new\n\ntext\n", &name)];
        let append = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        let dry = ChangeOptions { dry_run: true, ..later() };
        for options in [later(), now(), dry] {
            for request in [flag(&[1], &adding(&name)), append.clone()] {
                let error = mailbox.change(&request, &options).unwrap_err();
                let text = error.to_string();
                assert!(text.contains(&format!("{name:?}")), "{text}");
                assert!(matches!(error, Error::Keyword { limit, .. } if limit == expected));
            }
        }
        assert!(arena.content() == before && mailbox.pending() == 0);
        let mut arena = Arena::in_memory("maildir", 1);
        arena.deliver(2);
        arena.open().change(&flag(&[1], &adding(&name)), &now()).unwrap();
    }
}

#[test]
fn one_keyword_too_many_is_named() {
    for (format, most) in [("mboxrd", 30), ("maildir", 26)] {
        let mut arena = Arena::in_memory(format, 1);
        arena.deliver(2);
        let mut mailbox = arena.open();
        let add_keywords = (0..most).map(|number| keyword(&format!("k{number}"))).collect();
        let all = FlagChange { add_keywords, ..FlagChange::default() };
        mailbox.change(&flag(&[1], &all), &later()).unwrap();
        let refuse = |mailbox: &mut Mailbox| {
            let appends = [labelled(b"Subject: new\n\ntext\n", "more")];
            let append = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
            for request in [flag(&[2], &adding("more")), append] {
                let error = mailbox.change(&request, &later()).unwrap_err();
                let Error::Keyword { keyword, limit, .. } = error else { panic!("{error}") };
                assert_eq!((keyword.as_str(), limit), ("more", KeywordLimit::Count(most)));
            }
        };
        refuse(&mut mailbox);
        mailbox.sync(&now()).unwrap();
        refuse(&mut mailbox);
        // Its existing keywords can be used.
        mailbox.change(&flag(&[2], &adding("k3")), &now()).unwrap();
    }
}

/// Accepts a change without the check of its keywords.
fn accept_blindly(arena: &Arena, number: u32, name: &str) {
    let mut mailbox = arena.open();
    let identity = Identity::of(&*arena.vfs, &arena.spec.path, true).unwrap();
    let dir = arena.root.join("state");
    let mut pending = Pending::open(Arc::clone(&arena.vfs), &dir, &identity).unwrap();
    let text = mailbox.read(uid(number), ReadAs::Message).unwrap().bytes;
    let delta = FlagDelta {
        add: [Flag::Flagged].into_iter().collect(),
        add_keywords: vec![keyword(name), keyword("fine")],
        ..FlagDelta::default()
    };
    let change = PendingChange {
        uidvalidity: mailbox.status().uidvalidity,
        uid: uid(number),
        key: MessageKey(barid::message::header_key(&text)),
        body_hash: 0,
        ordinal: 0,
        modseq: mailbox.status().highest_modseq,
        kind: PendingKind::Flags(delta),
    };
    pending.accept(vec![change]).unwrap();
}

#[test]
fn what_was_accepted_and_cannot_be_kept_blocks_nothing() {
    for (name, _) in bad_keywords() {
        let append = [plain(b"Subject: new\n\ntext\n")];
        let append = ChangeRequest { appends: &append, ..ChangeRequest::default() };
        let sync = ChangeRequest { drop_recent: true, write_uids: true, ..Default::default() };
        for request in [expunge(&[1]), append, sync, flag(&[1], &add(Flag::Seen))] {
            let arena = mbox(3);
            accept_blindly(&arena, 2, &name);
            let mut mailbox = arena.open();
            let changed = mailbox.change(&request, &now()).unwrap();
            assert_eq!((changed.pending, changed.warnings.len()), (0, 1), "{changed:?}");
            let warning = &changed.warnings[0];
            assert!(warning.contains(&format!("{name:?}")), "{warning}");
            let found = found(&arena.open_without_cache());
            let message = found.iter().find(|found| found.uid == 2).unwrap();
            assert!(message.flags.contains(Flag::Flagged));
            assert_eq!(message.keywords, ["fine".to_owned()].into());
        }
    }
}

#[test]
fn where_there_is_no_space_a_message_is_appended_alone() {
    let disk = memory();
    let mut arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), "mboxrd", 1);
    arena.deliver(200);
    let mut mailbox = arena.open();
    mailbox.change(&flag(&[1], &adding("todo")), &later()).unwrap();
    disk.set_free_space(Some(40 * 1024));
    let error = mailbox.sync(&now()).unwrap_err();
    assert!(matches!(error, Error::Mailbox(_)), "{error}");
    let appends = [plain(b"Subject: new\n\ntext\n")];
    let append = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
    let changed = mailbox.change(&append, &now()).unwrap();
    let told = (changed.appends, changed.flagged, changed.warnings.len());
    assert_eq!(told, (1, 0, 1), "{changed:?}");
    assert!(changed.warnings[0].contains("stay pending"), "{:?}", changed.warnings);
    assert_eq!(mailbox.pending(), 1);
    let mailbox = arena.open();
    assert_eq!((mailbox.len(), mailbox.pending()), (201, 1));
    // An expunge needs the space itself.
    assert!(arena.open().change(&expunge(&[3]), &now()).is_err());
    disk.set_free_space(None);
    let synced = arena.open().sync(&now()).unwrap();
    assert_eq!((synced.flagged, synced.pending, synced.warnings), (1, 0, Vec::new()));
}

#[test]
fn where_only_the_append_fails_the_rest_is_done() {
    let mut told = 0;
    for n in 0.. {
        let disk = memory();
        let mut arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), "mboxrd", 1);
        arena.deliver(3);
        arena.open().change(&flag(&[2], &adding("todo")), &later()).unwrap();
        let faulty = FaultVfs::new(disk, Fault::nth(n));
        let mut mailbox = match arena.on(Arc::new(faulty.clone())).try_open(&arena.options()) {
            Ok(mailbox) if !faulty.fired() => mailbox,
            _ => continue,
        };
        let appends = [plain(b"Subject: new\n\ntext\n")];
        let append = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        let result = mailbox.change(&append, &now());
        if !faulty.fired() {
            break;
        }
        if let Err(error @ Error::Mailbox(barid_mailbox::Error::NotAppended { .. })) = result {
            told += 1;
            assert!(error.hint().is_some_and(|hint| hint.contains("append")), "{n}");
            for mailbox in [&mailbox, &arena.open(), &arena.open_without_cache()] {
                assert_eq!((mailbox.len(), mailbox.pending()), (3, 0), "{n}");
                assert_eq!(mailbox.uids_with(Flag::Seen).unwrap(), [uid(2)], "{n}");
            }
        }
    }
    assert!(told >= 2, "{told}");
}

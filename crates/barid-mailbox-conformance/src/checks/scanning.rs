//! Checks of scans.

use barid_mailbox::{ChangeSet, ReadAs};
use barid_message::{header_key, rfc822_size};
use barid_types::{Flag, FlagSet, InternalDate};

use super::{adding, expunging, filled, keywords, messages, texts};
use crate::fixture::Fixture;
use crate::session::StorageHandle;
use crate::texts::canonical;

pub(super) fn an_empty_storage_has_no_messages(fixture: &dyn Fixture) {
    let mut session = StorageHandle::open(fixture);
    let first = session.scan();
    assert!(session.known.rows().is_empty());
    assert!(first.defects.is_empty() && first.changed.is_empty() && first.expunged.is_empty());
    let second = StorageHandle::scanned(fixture).scan();
    assert_eq!((first.uidvalidity, first.uidnext), (second.uidvalidity, second.uidnext));
}

pub(super) fn appended_messages_are_scanned_once_in_order(fixture: &dyn Fixture) {
    let mut other = StorageHandle::scanned(fixture);
    let texts = texts(1, 300);
    let mut session = StorageHandle::scanned(fixture);
    for batch in texts.chunks(100) {
        session.sync(&ChangeSet::default(), &messages(batch));
    }
    other.scan();
    let expected: Vec<_> = texts.iter().map(|text| canonical(text)).collect();
    for session in [&session, &other, &StorageHandle::scanned(fixture)] {
        let contents: Vec<_> = session.contents().into_values().map(|found| found.text).collect();
        assert!(contents == expected, "{} of {} messages", contents.len(), expected.len());
    }
    assert_eq!(session.uids(), other.uids());
}

pub(super) fn a_scan_gives_what_an_append_was_given(fixture: &dyn Fixture) {
    let mut session = StorageHandle::scanned(fixture);
    let keywords = keywords(&*session.storage);
    let texts = texts(1, 32);
    let mut messages = messages(&texts);
    for (number, message) in messages.iter_mut().enumerate() {
        message.internal_date = Some(date(number));
        message.flags = FlagSet::from_bits(number as u8);
        message.keywords = keywords.iter().take(number % 4).cloned().collect();
    }
    session.sync(&ChangeSet::default(), &messages);
    let other = StorageHandle::scanned(fixture);
    for session in [&session, &other] {
        for (message, row) in messages.iter().zip(session.known.rows()) {
            let state = session.state_of(row);
            assert_eq!(state.flags, message.flags, "flags of UID {}", row.uid);
            let names = message.keywords.iter().map(|keyword| keyword.as_str().to_owned());
            let mut names: Vec<String> = names.collect();
            names.sort();
            assert_eq!(state.keywords, names, "keywords of UID {}", row.uid);
            let expected = message.internal_date.unwrap();
            assert_eq!(row.date.unix_seconds, expected.unix_seconds, "date of UID {}", row.uid);
            if session.storage.format().keeps_zone {
                assert_eq!(row.date, expected);
            }
        }
    }
    assert_eq!(other.known.rows().len(), texts.len());
}

fn date(number: usize) -> InternalDate {
    let unix_seconds = 1_000_000_000 + 100_000 * number as i64;
    InternalDate { unix_seconds, zone_minutes: 60 * (number % 5) as i16 }
}

pub(super) fn sizes_and_keys_are_those_of_the_bytes(fixture: &dyn Fixture) {
    let session = filled(fixture, 20);
    let names_messages = session.storage.names_messages();
    for (row, text) in session.known.rows().iter().zip(texts(1, 20)) {
        let (stored, header_len) = session.read(row, ReadAs::Stored).unwrap();
        let separator_len = row.location.get().separator_len().unwrap_or(0) as usize;
        assert_eq!((stored.len() - separator_len) as u64, row.size, "UID {}", row.uid);
        assert_eq!(stored[separator_len..header_len], row.header, "UID {}", row.uid);
        assert!(canonical(&text).starts_with(&canonical(&row.header)), "UID {}", row.uid);
        let (message, _) = session.read(row, ReadAs::Message).unwrap();
        if let Some(size) = row.rfc822_size {
            assert_eq!(size, rfc822_size(&message), "UID {}", row.uid);
        }
        let (quoted, header_len) = session.read(row, ReadAs::Quoted).unwrap();
        if !names_messages {
            assert_eq!(row.key.0, header_key(&quoted[..header_len]), "UID {}", row.uid);
        }
    }
    let mut keys: Vec<_> = session.known.rows().iter().map(|row| row.key).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 20, "messages with different headers have different keys");
}

pub(super) fn a_second_scan_finds_nothing(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 10);
    fixture.pass_time();
    // The stamp of the scan before may not have settled.
    session.scan();
    let before = session.known.rows().to_vec();
    for _ in 0..3 {
        let report = session.scan();
        let is_same = !report.reset && report.changed.is_empty() && report.expunged.is_empty();
        assert!(is_same, "{report:?}");
        assert_eq!(session.known.rows(), before);
    }
    assert_eq!(session.scan().stats.messages_read, 0);
}

pub(super) fn a_scan_finds_only_what_changed(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 10);
    let mut other = StorageHandle::scanned(fixture);
    let uids = session.uids();
    let mut changes = adding(uids[1], Flag::Flagged);
    changes.expunge = vec![uids[4], uids[7]];
    session.sync(&changes, &messages(&texts(20, 2)));
    let report = other.scan();
    // A backend may read everything again, but must say so.
    if !report.reset {
        let changed: Vec<_> = report.changed.iter().map(|changed| changed.uid).collect();
        assert_eq!(changed, [uids[1]]);
        assert_eq!(report.expunged, [uids[4], uids[7]]);
    }
    assert_eq!(other.contents(), session.contents());
    assert_eq!(other.contents(), StorageHandle::scanned(fixture).contents());
    assert_eq!(other.uids().len(), 10);
}

pub(super) fn a_full_check_finds_nothing_else(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 10);
    let before = session.contents();
    let report = session.scan_with(true);
    assert!(report.changed.is_empty() && report.expunged.is_empty());
    assert_eq!(session.contents(), before);
}

pub(super) fn delivered_mail_is_found(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 3);
    let texts = texts(50, 3);
    for text in &texts {
        if !fixture.deliver(text) {
            return;
        }
        fixture.pass_time();
        session.scan();
    }
    let contents = session.contents();
    let found: Vec<_> = contents.values().skip(3).map(|content| content.text.clone()).collect();
    assert_eq!(found, texts.iter().map(|text| canonical(text)).collect::<Vec<_>>());
    assert_eq!(contents, StorageHandle::scanned(fixture).contents());
}

pub(super) fn uids_are_never_given_twice(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 3);
    let validity = session.scan().uidvalidity;
    let mut given = session.uids();
    for number in 0..6 {
        let last = session.uids().last().copied().unwrap();
        session.sync(&expunging(&[last]), &[]);
        if number % 2 == 0 {
            session = StorageHandle::scanned(fixture);
        }
        let uid = session.append(&texts(100 + number, 1)[0]);
        assert!(given.last().is_some_and(|last| *last < uid), "{uid} after {given:?}");
        given.push(uid);
        assert_eq!(session.scan().uidvalidity, validity);
    }
    let all = session.uids();
    session.sync(&expunging(&all), &[]);
    let empty = StorageHandle::scanned(fixture).scan();
    assert!(empty.uidnext > *given.last().unwrap(), "UIDNEXT of an emptied storage");
    assert_eq!(empty.uidvalidity, validity);
}

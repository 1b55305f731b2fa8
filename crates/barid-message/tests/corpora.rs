//! All functions applied to every message of the corpora, with the defects counted.

use std::collections::BTreeMap;

use barid_message::{HeaderFields, Profile, parse_date_as};
use barid_testkit::corpora;

use super::exercise;

/// All corpora, by the folders they unpack to.
const CORPORA: [&str; 7] = [
    "linux-man",
    "linux-mips",
    "usrp-users",
    "uw-imap-formats",
    "torture",
    "spamassassin",
    "csdmc2010",
];

/// Returns the numbers of messages of a corpus that have a date, of unreadable dates, and of dates
/// that Dovecot reads differently.
fn dates_of(corpus: &str) -> Option<[usize; 3]> {
    let files = corpora::files(corpus)?;
    let (mut dates, mut unreadable, mut different) = (0, 0, 0);
    for path in files {
        let message = corpora::read(&path).unwrap();
        let Some(raw) = HeaderFields::scan(&message).date else { continue };
        let ours = parse_date_as(raw, Profile::Rfc);
        dates += 1;
        unreadable += usize::from(ours.is_none());
        different += usize::from(ours != parse_date_as(raw, Profile::Dovecot));
    }
    println!("{corpus}: {dates} dates, {unreadable} unreadable, {different} Dovecot's");
    Some([dates, unreadable, different])
}

#[test]
fn every_date_of_list_mail_is_read() {
    // In old mail, seconds of one digit and the zones BST, CEST, EET, MET-1 and S differ; see
    // docs/deviations.md.
    for (corpus, real, own) in [
        ("linux-man/msgs", [17_885, 0, 0], [596, 0, 1]),
        ("linux-mips/msgs", [9151, 0, 17], [399, 0, 0]),
    ] {
        let Some(found) = dates_of(corpus) else { return };
        assert_eq!(found, corpora::either(corpus, real, own), "{corpus}");
    }
}

#[test]
fn every_message_of_the_corpora_is_read() {
    let files: Vec<_> = CORPORA.into_iter().filter_map(corpora::files).collect();
    let mut counts = BTreeMap::new();
    let (mut messages, mut bytes) = (0, 0);
    for path in files.concat() {
        let message = corpora::read(&path).unwrap();
        for defect in exercise(&message) {
            *counts.entry(defect.kind).or_insert(0) += 1;
        }
        messages += 1;
        bytes += message.len();
    }
    println!("{messages} messages, {bytes} bytes");
    for (kind, count) in &counts {
        println!("{count:8} {kind}");
    }
    assert!(messages > corpora::either("linux-man", 37_000, 2_000), "{messages}");
}

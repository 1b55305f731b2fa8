//! Every message of the corpora goes through everything, and the defects are counted.

use std::collections::BTreeMap;

use barid_message::{HeaderFields, Profile, parse_date_as};
use barid_testkit::corpora;

use super::exercise;

/// All corpora, by what they unpack to.
const CORPORA: [&str; 7] = [
    "linux-man",
    "linux-mips",
    "usrp-users",
    "uw-imap-formats",
    "torture",
    "spamassassin",
    "csdmc2010",
];

/// How many messages of a corpus have a date, and how many of those Dovecot reads differently.
fn dates_read_differently(corpus: &str) -> Option<(usize, usize)> {
    let files = corpora::files(corpus)?;
    let (mut dates, mut different) = (0, 0);
    for path in files {
        let message = corpora::read(&path).unwrap();
        let Some(raw) = HeaderFields::scan(&message).date else { continue };
        let ours = parse_date_as(raw, Profile::Rfc);
        assert!(ours.is_some(), "{}", raw.escape_ascii());
        dates += 1;
        different += usize::from(ours != parse_date_as(raw, Profile::Dovecot));
    }
    println!("{corpus}: {dates} dates, {different} read differently by Dovecot");
    Some((dates, different))
}

#[test]
fn every_date_of_list_mail_is_read() {
    let Some(found) = dates_read_differently("linux-man/msgs") else { return };
    assert_eq!(found, (17_885, 0));
    // Seconds of one digit and the zones BST, CEST, EET, MET-1 and S; see docs/deviations.md.
    assert_eq!(dates_read_differently("linux-mips/msgs"), Some((9151, 17)));
}

#[test]
fn every_message_of_the_corpora_is_read() {
    let Some(files) = CORPORA.map(corpora::files).into_iter().collect::<Option<Vec<_>>>() else {
        return;
    };
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
    assert!(messages > 37_000, "{messages}");
}

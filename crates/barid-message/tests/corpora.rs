//! Every message of the corpora goes through everything, and the defects are counted.

use std::collections::BTreeMap;
use std::path::PathBuf;

use barid_message::{HeaderFields, Profile, parse_date_as};

use super::exercise;

/// The files under a folder, in a stable order.
#[expect(clippy::disallowed_methods, reason = "reads the corpora, which are no mailboxes")]
fn files_under(folder: PathBuf) -> std::io::Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The folder of the corpora; without one the test is skipped, but fails where `CI` is `true`.
fn corpora() -> Option<PathBuf> {
    let corpora = std::env::var_os("BARID_CORPORA").map(PathBuf::from);
    if corpora.is_none() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "BARID_CORPORA is not set");
        println!("skipped: BARID_CORPORA is not set");
    }
    corpora
}

/// How many messages of a corpus have a date, and how many of those Dovecot reads differently.
fn dates_read_differently(corpus: &str) -> Option<(usize, usize)> {
    let files = files_under(corpora()?.join(corpus)).unwrap();
    let (mut dates, mut different) = (0, 0);
    for path in files {
        #[expect(clippy::disallowed_methods, reason = "reads the corpora, which are no mailboxes")]
        let message = std::fs::read(&path).unwrap();
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
    let Some(corpora) = corpora() else { return };
    let mut counts = BTreeMap::new();
    let (mut messages, mut bytes) = (0, 0);
    for path in files_under(corpora).unwrap() {
        #[expect(clippy::disallowed_methods, reason = "reads the corpora, which are no mailboxes")]
        let message = std::fs::read(&path).unwrap();
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
    assert!(messages > 0, "BARID_CORPORA names an empty folder");
}

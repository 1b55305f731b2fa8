//! The torture sets of other parsers: each file alone, all as one Maildir, and mailbox files as
//! mailboxes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use barid_testkit::boxes::MaildirWriter;
use barid_testkit::corpora;
use barid_testkit::corpus::GeneratedMessage;

use super::run;
use crate::support::{World, parse_lines};

const CORPUS: &str = "dev-torture";
/// Least number of files in the sets of others.
const FILES_MIN: usize = 1400;

fn files() -> Option<Vec<PathBuf>> {
    let files = corpora::files(CORPUS)?;
    let files_min = corpora::either(CORPUS, FILES_MIN, 400);
    assert!(files.len() >= files_min, "{} files", files.len());
    Some(files)
}

/// Reads every file as a message.
#[test]
fn every_file_is_a_message() {
    let Some(files) = files() else { return };
    let world = World::new();
    let writer = MaildirWriter::create(&world.path("box")).unwrap();
    let mut defects = BTreeMap::new();
    for (number, path) in files.iter().enumerate() {
        let bytes = corpora::read(path).unwrap();
        for defect in barid::message::body_structure(&bytes).1 {
            *defects.entry(defect.kind).or_insert(0) += 1;
        }
        let date = 1_000_000_000 + number as i64;
        let message = GeneratedMessage { bytes, date, ..GeneratedMessage::default() };
        writer.deliver(&format!("{date}.M{number}P1.host"), &message).unwrap();
    }
    let read = |args: &[&str]| {
        let run = run(&world, args);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}");
        run.text()
    };
    let listed = parse_lines(&read(&["ls", "--json", "box"]));
    assert_eq!(listed.len(), files.len());
    for args in [
        &["ls", "box"][..],
        &["ls", "box", "--sort", "displayfrom", "--sort", "subject", "--sort", "date"],
        &["thread", "box"],
        &["thread", "box", "--algorithm", "refs"],
        &["thread", "box", "--algorithm", "orderedsubject"],
        &["show", "box", "1:*", "--headers"],
    ] {
        assert!(read(args).lines().count() >= files.len(), "{args:?}");
    }
    for args in
        [&["show", "--json", "box", "1:*"][..], &["show", "--structure", "--json", "box", "1:*"]]
    {
        assert_eq!(parse_lines(&read(args)).len(), files.len(), "{args:?}");
    }
    read(&["show", "box", "1:*"]);
    println!("torture: {} messages; defects of their bodies:", files.len());
    defects.iter().for_each(|(kind, count)| println!("  {count:6} {kind}"));
    assert!(defects.len() >= 5, "{defects:?}");
}

/// Reads every file as a mailbox: it is listed, or refused with an error.
#[test]
fn every_file_is_a_mailbox_or_refused() {
    let Some(files) = files() else { return };
    let world = World::new();
    let (mut mailboxes, mut messages, mut refused, mut defects) = (0, 0, 0, 0);
    for path in &files {
        let path = path.to_str().unwrap();
        let found = run(&world, &["ls", "-v", "--json", "--no-cache", "--read-only", path]);
        match found.code {
            0 => {
                mailboxes += 1;
                let count = parse_lines(&found.text()).len();
                messages += count;
                defects += found.stderr.lines().count();
                let shown = run(&world, &["show", "--no-cache", "--read-only", path, "1:*"]);
                assert_eq!(shown.code, i32::from(count == 0), "{path}: {}", shown.stderr);
            }
            2 => {
                refused += 1;
                assert!(found.stdout.is_empty());
                assert!(found.stderr.starts_with("error: ") && found.stderr.contains(path));
                let why = &found.stderr;
                assert!(why.contains("not a mailbox") || why.contains("damaged at"), "{why}");
            }
            code => panic!("{path}: {code}: {}", found.stderr),
        }
    }
    println!(
        "torture: compared {}, mailboxes {mailboxes} of {messages} messages, notes {defects}, \
         refused {refused}",
        files.len()
    );
    let (mailboxes_min, messages_min) = corpora::either(CORPUS, (80, 400), (7, 50));
    assert!(mailboxes >= mailboxes_min && messages >= messages_min, "{mailboxes} {messages}");
}

//! Files that no program writes: a correct result within bounded memory.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use barid_formats::{MailboxSpec, Variant};
use barid_mailbox::Error;
use barid_testkit::Scratch;
use barid_testkit::usage::{Sampling, measure};
use barid_vfs::{OpenOptions, OsVfs, Vfs};

use super::support::{Box_, file_in, utc};

const FROM: &str = "From a@b Thu Nov 19 10:00:00 2026\n";

/// Checks the number of messages in a file.
fn check(bytes: &[u8], expected: usize) {
    for variant in [None, Some(Variant::Mboxrd)] {
        let found = Box_::of(bytes, variant).scan();
        assert_eq!(found.messages.len(), expected);
    }
}

#[test]
fn a_million_empty_messages() {
    check(FROM.repeat(1_000_000).as_bytes(), 1_000_000);
}

#[test]
fn a_header_that_is_cut() {
    check(format!("{FROM}Subject: a\n\nx\n\n{FROM}Subj").as_bytes(), 2);
    check(FROM.as_bytes(), 1);
}

#[test]
fn control_characters() {
    let text = format!("{FROM}Subject: \0\u{1b}[2J\n\n\0\0\n\0From \n\n{FROM}\0: \0\n\n");
    check(text.as_bytes(), 2);
}

#[test]
fn no_mailbox() {
    let mut rng = fastrand::Rng::with_seed(1);
    let noise: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(100_000).collect();
    let cut = &FROM.as_bytes()[..FROM.len() - 1];
    for bytes in [&noise[..], cut, b"\x7fELF", b"From here on nothing is true\n", b"Subject: a\n\n"]
    {
        let error = Box_::of(bytes, None).try_scan().err();
        assert!(matches!(error, Some(Error::NotAMailbox { .. })), "{error:?}");
    }
    let missing = barid_formats::open(Arc::new(OsVfs), &MailboxSpec::parse("mbox:/no/such"));
    assert!(matches!(missing, Err(Error::Io { .. })));
}

#[test]
fn a_header_of_a_hundred_megabytes_is_cut_with_a_defect() {
    let mut bytes = format!("{FROM}Subject: a\nX: ").into_bytes();
    bytes.resize(100_000_000, b'x');
    bytes.extend_from_slice(format!("\n\nbody\n\n{FROM}Subject: b\n\n").as_bytes());
    let mut options = utc();
    options.chunk_len = Some(10_000_000);
    let found = Box_::of_with(&bytes, None, options).scan();
    assert_eq!(found.messages.len(), 2);
    assert_eq!(found.messages[0].spans.1, 1024 * 1024);
    assert_eq!(found.report.defects.len(), 1);
    assert_eq!(found.messages[1].subject.as_deref(), Some("b"));
}

#[test]
fn a_line_of_a_gigabyte_takes_no_memory() {
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", "mbox::bad_input::a_line_of_a_gigabyte", "--ignored"]);
    alone.stdout(Stdio::null());
    // The child's largest resident size would include that of this process, which it was forked
    // from.
    let sampling = Sampling::Every(Duration::from_millis(1));
    let usage = measure(&mut alone, Duration::from_secs(300), sampling).unwrap();
    assert!(usage.status.success());
    let peak = usage.anon_peak.unwrap();
    assert!(peak < 48 << 20, "{peak} bytes");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn a_line_of_a_gigabyte() {
    let scratch = Scratch::new("long-line").unwrap();
    let path = file_in(&scratch, "box", format!("{FROM}Subject: a\n\n").as_bytes());
    let file = OsVfs.open(&path, OpenOptions::WRITE).unwrap();
    file.set_len(1 << 30).unwrap();
    let end = format!("\n{FROM}Subject: b\n\nend\n");
    file.write_all_at(end.as_bytes(), 1 << 30).unwrap();
    let found = Box_::open(&path, None).scan();
    assert_eq!(found.messages.len(), 2);
    assert!(found.messages[0].spans.2 > 1_000_000_000);
}

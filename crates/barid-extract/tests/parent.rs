//! The parent of helpers, with programs in their place that do what no helper should.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use barid_extract::limits::{INPUT_LEN_MAX, TEXT_LEN_MAX};
use barid_extract::{
    AttachmentPart, ExtractOutcome, ExtractedText, Extractor, Failure, find_pdf_reader,
};
use barid_testkit::{Scratch, disk};
use barid_vfs::OsVfs;

/// Makes a program of a script.
fn script(scratch: &Scratch, name: &str, text: &str) -> PathBuf {
    let path = scratch.path().join(name);
    disk::write(&path, format!("#!/bin/sh\n{text}\n").as_bytes()).unwrap();
    let done = Command::new("chmod").arg("755").arg(&path).status().unwrap();
    assert!(done.success());
    path
}

fn part(bytes: &[u8]) -> AttachmentPart {
    AttachmentPart {
        media_type: "text/plain".to_owned(),
        file_name: None,
        charset: Some("utf-8".to_owned()),
        bytes: bytes.to_vec(),
    }
}

fn outcome(script_text: &str, bytes: &[u8]) -> ExtractOutcome {
    // Machines may be busy.
    outcome_within(Duration::from_secs(120), script_text, bytes)
}

fn outcome_within(time_max: Duration, script_text: &str, bytes: &[u8]) -> ExtractOutcome {
    let scratch = Scratch::new("extract").unwrap();
    let program = script(&scratch, "helper", script_text);
    Extractor::new(program, None).within(time_max).text(&part(bytes))
}

fn check(script_text: &str, bytes: &[u8], expected: Result<&str, Failure>) {
    let expected = match expected {
        Ok(text) => ExtractOutcome::Text(ExtractedText { text: text.to_owned(), is_cut: false }),
        Err(failure) => ExtractOutcome::Failed(failure),
    };
    assert_eq!(outcome(script_text, bytes), expected, "{script_text}");
}

#[test]
fn answers_are_understood() {
    check("echo \"$1 $2 $3 $5\"", b"x", Ok("extract-text --type text --charset=utf-8\n"));
    check("echo $4", b"x", Ok(&format!("--parent={}\n", std::process::id())));
    check("exec cat", &b"text ".repeat(100_000), Ok(&"text ".repeat(100_000)));
    check("printf 'a\\377b'", b"x", Ok("a\u{fffd}b"));
    check("exec env | grep -c HOME", b"x", Err(Failure::Crashed));
    check("echo 'has-dtd: no matter' >&2; exit 70", b"x", Err(Failure::HasDtd));
    check("echo 'of a newer version' >&2; exit 70", b"x", Err(Failure::Crashed));
    check("exit 70", b"x", Err(Failure::Crashed));
    check("exit 1", b"x", Err(Failure::Crashed));
    check("kill -SEGV $$", b"x", Err(Failure::Crashed));
    check("kill -XCPU $$", b"x", Err(Failure::CpuTimeOver));
    check("kill -KILL $$", b"x", Err(Failure::Killed));
    check("kill -TERM $$", b"x", Err(Failure::Killed));
    check("echo std::bad_alloc >&2; exit 1", b"x", Err(Failure::OutOfMemory));
    check(
        "echo memory allocation of 9 bytes failed >&2; kill -ABRT $$",
        b"x",
        Err(Failure::OutOfMemory),
    );
    let cut = outcome("printf abc; exit 71", b"x");
    assert_eq!(cut, ExtractOutcome::Text(ExtractedText { text: "abc".to_owned(), is_cut: true }));
}

#[test]
fn what_hangs_is_killed() {
    let started = Instant::now();
    let hangs = |script_text: &str, bytes: &[u8]| {
        let found = outcome_within(Duration::from_secs(1), script_text, bytes);
        assert_eq!(found, ExtractOutcome::Failed(Failure::TimeOver), "{script_text}");
    };
    hangs("exec sleep 600", b"x");
    // With its output closed, with its input unread, and while it writes reasons for ever.
    hangs("exec sleep 600 >&- 2>&-", b"x");
    hangs("exec sleep 600", &vec![b'x'; INPUT_LEN_MAX]);
    hangs("exec yes >&2", b"x");
    let elapsed = started.elapsed();
    assert!(elapsed >= Duration::from_secs(4) && elapsed < Duration::from_secs(300), "{elapsed:?}");
}

#[test]
fn too_much_text_is_cut() {
    let ExtractOutcome::Text(found) = outcome("exec yes", b"x") else { panic!("no text") };
    assert_eq!((found.text.len(), found.is_cut), (TEXT_LEN_MAX, true));
    check("exec cat", &vec![b'x'; INPUT_LEN_MAX + 1], Err(Failure::InputTooLong));
}

#[test]
fn the_caller_can_stop_it() {
    let scratch = Scratch::new("extract").unwrap();
    let program = script(&scratch, "helper", "exec sleep 600");
    let stop = Arc::new(AtomicBool::new(false));
    let extractor = Extractor::new(program, None).stopped_by(Arc::clone(&stop));
    let outcome = std::thread::scope(|scope| {
        let outcomes = scope.spawn(|| extractor.texts(&[part(b"a"), part(b"b"), part(b"c")]));
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        outcomes.join().unwrap()
    });
    assert_eq!(outcome, vec![ExtractOutcome::Failed(Failure::Stopped); 3]);
}

#[test]
fn outcomes_come_in_order() {
    let scratch = Scratch::new("extract").unwrap();
    // Those that start later end earlier.
    let program = script(&scratch, "helper", "read n; sleep 0.$n; echo $n");
    let parts: Vec<_> = (0..5).rev().map(|number| part(format!("{number}\n").as_bytes())).collect();
    let texts = Extractor::new(program, None).texts(&parts);
    let texts: Vec<_> = texts
        .iter()
        .map(|outcome| match outcome {
            ExtractOutcome::Text(found) => found.text.trim().to_owned(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["4", "3", "2", "1", "0"]);
}

#[test]
fn without_programs() {
    let extractor = Extractor::new("/none".into(), None);
    assert_eq!(extractor.text(&part(b"x")), ExtractOutcome::Failed(Failure::NotStarted));
    let pdf = AttachmentPart { media_type: "application/pdf".to_owned(), ..part(b"%PDF-1.4") };
    assert_eq!(extractor.text(&pdf), ExtractOutcome::Failed(Failure::NoPdfReader));
    let image = AttachmentPart { media_type: "image/png".to_owned(), ..part(b"\x89PNG\0") };
    assert_eq!(extractor.text(&image), ExtractOutcome::Unsupported);
}

#[test]
fn the_reader_of_pdf_is_found_in_the_path() {
    let scratch = Scratch::new("extract").unwrap();
    let program = script(&scratch, "pdftotext", "exit 0");
    let find = |path: &str| find_pdf_reader(&OsVfs, path.as_ref());
    let folder = scratch.path().to_str().unwrap();
    assert_eq!(find(&format!("/none:.::{folder}:/usr/bin")), Some(program.clone()));
    assert!(Command::new("chmod").arg("644").arg(&program).status().unwrap().success());
    assert_eq!(find(folder), None);
    assert_eq!(find(""), None);
}

//! `attachment:` with `--attachments`, from outside.
#![expect(clippy::disallowed_methods, reason = "the program is tested from outside, on real files")]

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use barid_testkit::skip_or_fail;
use barid_testkit::zip::{Entry, archive};
use rustix::process::Signal;

use crate::attachments::{DOCX, PDF, children, docx, folder_of, message, with_pdfs};
use crate::support::{Run, Running, World, parse_lines, send};

/// Returns a mailbox of forty messages: 1 has a docx, 2 a PDF and a picture, 3 a locked docx.
fn world() -> (World, String) {
    let world = World::new();
    let locked = archive(&[Entry::deflated("word/document.xml", b"<w:t>x</w:t>").encrypted()]);
    let first = message(&[(DOCX, "plan.docx", &docx("the secret budget"))]);
    let second = message(&[
        ("image/png", "photo.png", b"\x89PNG\r\n\x1a\n\0\0"),
        ("application/octet-stream", "letter.bin", PDF),
    ]);
    let third = message(&[(DOCX, "locked.docx", &locked)]);
    let mut messages = vec![first, second, third];
    messages.extend((4..=40).map(|number| format!("Subject: {number}\n\nno file {number}\n")));
    let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
    let path = world.maildir("box", &messages);
    (world, path)
}

/// Runs a command with a reader of PDF, or without.
fn run(world: &World, pdf_reader: Option<&str>, args: &[&str]) -> Run {
    let mut command = world.command();
    Run::of(command.env("PATH", pdf_reader.unwrap_or_default()).args(args).output().unwrap())
}

#[test]
fn texts_of_documents_are_found_with_an_index_and_without() {
    let (world, path) = world();
    let search = |options: &[&str], query: &str| {
        run(&world, None, &[&["search"], options, &[&path, query]].concat())
    };
    let with: &[&str] = &["--attachments"];
    let without_index: &[&str] = &["--attachments", "--no-index"];
    for has_index in [false, true] {
        if has_index {
            let built = run(&world, None, &["index", "--attachments", &path]);
            assert_eq!(built.code, 0, "{}", built.stderr);
            let expected =
                "the texts in 3 of 3 messages, of which 2 have one that could not be read";
            assert!(built.text().contains(expected), "{}", built.text());
            assert!(built.stderr.contains("attachments of 2 messages could not be read"));
        }
        for options in [with, without_index] {
            for query in ["attachment:budget", "attachment:\"secret budget\"", "attachment:budg*"] {
                assert_eq!(search(options, query).text(), "1\n", "{options:?} {query}");
            }
            assert_eq!(search(options, "attachment:plan").text(), "1\n");
            assert_eq!(search(options, "-attachment:secret has:attachment").text(), "2:3\n");
            assert_eq!(search(options, "attachment:budget or subject:40").text(), "1,40\n");
            for query in ["budget", "body:budget", "text:budget", "filename:budget"] {
                let found = search(options, query);
                assert_eq!((found.code, &*found.text()), (1, ""), "{options:?} {query}");
            }
            // What could not be read is told if it may matter.
            let found = search(options, "attachment:nothing");
            assert_eq!((found.code, &*found.text()), (1, ""));
            let expected = "warning: 2 messages have attachments that could not be read: \
                            `barid attachments --text` says why\n";
            assert_eq!(found.stderr, expected, "{options:?}");
            assert_eq!(search(options, "attachment:nothing uid:4:40").stderr, "");
            assert_eq!(
                search(options, "attachment:locked.docx").stderr,
                expected.replace('2', "1").replace("messages have", "message has")
            );
        }
        let found = search(&[], "attachment:budget");
        assert_eq!((found.code, &*found.text()), (1, ""));
        assert_eq!(
            found.stderr,
            "note: `attachment:` compared names of files; --attachments also compares texts\n"
        );
        assert_eq!(search(&[], "attachment:plan").stderr, "");
        assert_eq!(search(&["--quiet"], "attachment:budget").stderr, "");
    }
    let status = &parse_lines(&run(&world, None, &["index", "status", "--json", &path]).text())[0];
    let keys = ["attachments", "attachment_texts", "attachments_unread"].map(|key| &status[key]);
    assert_eq!(keys, [3, 3, 2]);
}

#[test]
fn every_command_with_a_query_looks_into_attachments() {
    let (world, path) = world();
    let ok = |args: &[&str]| {
        let done = run(&world, None, args);
        assert_eq!(done.code, 0, "{args:?}: {}", done.stderr);
        done.text()
    };
    assert_eq!(ok(&["count", "--attachments", &path, "attachment:budget"]), "1\n");
    assert!(ok(&["ls", "--attachments", &path, "attachment:budget"]).contains("files"));
    assert!(ok(&["show", "--attachments", &path, "attachment:budget"]).contains("plan.docx"));
    let listed = ok(&["attachments", "--attachments", &path, "attachment:budget"]);
    assert!(listed.contains("plan.docx") && listed.lines().count() == 1, "{listed}");
    let flagged = ok(&["flag", "--attachments", &path, "attachment:budget", "+flagged"]);
    assert!(flagged.contains("1 message"), "{flagged}");
    assert_eq!(ok(&["search", &path, "is:flagged"]), "1\n");
    let one = message(&[(DOCX, "a.docx", &docx("on standard input"))]);
    let found = world
        .run_with_input(&["search", "--attachments", "-", "attachment:standard"], one.as_bytes());
    assert_eq!(found.text(), "1\n", "{}", found.stderr);
    ok(&["search", "--attachments", "--in", &path, "attachment:budget"]);
}

#[test]
fn texts_of_pdf_are_found_by_the_reader_that_is_installed() {
    let Some(folder) = folder_of("pdftotext") else {
        skip_or_fail("pdftotext is not installed");
        return;
    };
    let (world, path) = world();
    let (with, without) = (Some(&*folder), None);
    let search = |reader, option: &str| {
        run(
            &world,
            reader,
            &["search", "--attachments", option, &path, "attachment:\"from a pdf\""],
        )
    };
    let texts = |reader| {
        let status = run(&world, reader, &["index", "status", "--json", &path]);
        parse_lines(&status.text())[0]["attachment_texts"].as_u64().unwrap()
    };
    for _ in 0..2 {
        assert_eq!(search(with, "--no-index").text(), "2\n");
        assert_eq!(search(with, "--verbose").text(), "2\n");
        assert_eq!(search(without, "--verbose").text(), "");
        assert_eq!(run(&world, with, &["index", "--attachments", &path]).code, 0);
        // Texts of another reader do not count.
        assert_eq!((texts(with), texts(without)), (3, 0));
    }
    assert_eq!(run(&world, without, &["index", "--attachments", &path]).code, 0);
    assert_eq!(texts(without), 3);
    assert_eq!(search(with, "--verbose").text(), "2\n");
}

#[test]
fn an_interrupt_ends_searches_and_indexes() {
    for command in ["search", "flag", "index"] {
        let (world, path, folder) = with_pdfs(2);
        let mut program = world.command();
        program.env("PATH", folder).args([command, "--attachments", &path]);
        if command != "index" {
            program.arg("not attachment:x");
        }
        if command == "flag" {
            program.arg("+flagged");
        }
        let mut program = Running::spawn(program.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let is_reader = |reader: &String| {
            fs::read(format!("/proc/{reader}/cmdline"))
                .is_ok_and(|line| !line.starts_with(b"/proc"))
        };
        let mut readers: Vec<String> = Vec::new();
        while readers.is_empty() {
            if program.try_wait().unwrap().is_some() {
                panic!("{command} ended: {:?}", program.wait_with_output());
            }
            std::thread::sleep(Duration::from_millis(2));
            readers = children(program.id());
            readers.retain(is_reader);
        }
        let sent = Instant::now();
        send(&program, Signal::INT);
        let output = program.wait_with_output().unwrap();
        let expected = if command == "search" { None } else { Some(2) };
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), expected, "{command}: {stderr}");
        assert!(sent.elapsed() < Duration::from_secs(15), "{:?}", sent.elapsed());
        assert_eq!(world.run(&["search", &path, "is:flagged"]).text(), "");
    }
}

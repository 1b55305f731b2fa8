//! Commands that the caller drops, lines that are not commands, and input that it takes.

use super::*;
use crate::limits::{DATA_PIECE_LEN, SASL_LINE_LEN_MAX};

/// Checks that after the event that starts with `at` is abandoned, and the client has sent what it
/// sends then, the next command is read.
fn check(input: &str, at: &str, and_then: &str) {
    let and_then = format!("{and_then}b NOOP\r\n");
    for piece_len in [1, 7, usize::MAX] {
        let mut decoder = logged_in();
        let mut pieces = input.as_bytes().chunks(piece_len);
        let mut before = Vec::new();
        loop {
            let event = decoder.next();
            if event == Event::More {
                let piece = pieces.next();
                let Some(piece) = piece else { panic!("{input:?} has no {at}: {before:?}") };
                decoder.push(piece);
                continue;
            }
            before.push(show(&event));
            if before.last().is_some_and(|event| event.starts_with(at)) {
                break;
            }
        }
        decoder.abandon();
        let rest = [pieces.collect::<Vec<_>>().concat(), and_then.clone().into_bytes()].concat();
        let rest = events(decoder, &rest, piece_len);
        assert_eq!(rest, ["b Noop"], "{input:?} abandoned at {at}, pieces of {piece_len}");
    }
}

#[test]
fn a_refused_literal_never_comes() {
    check("a LOGIN {3}\r\n", "Continue", "");
    check("a LOGIN x {3}\r\n", "Continue", "");
    check("a APPEND {1}\r\n", "Continue", "");
    check("a APPEND x {3}\r\n", "Message", "");
    check("a APPEND x {3}\r\n", "Part", "");
    check("a APPEND x CATENATE (URL /a TEXT {3}\r\n", "Message", "");
    check("a APPEND x CATENATE (URL /a TEXT {3}\r\n", "Part { part: Url", "");
    check("a APPEND x CATENATE (URL /a TEXT {3}\r\n", "Part { part: Literal", "");
    check("a APPEND x CATENATE (URL /a URL {3}\r\n", "Part { part: Url", "");
    check("a APPEND x CATENATE (URL /a URL {3}\r\n", "Continue", "");
    check("a REPLACE 1 x {3}\r\n", "Part", "");
}

#[test]
fn what_comes_anyway_is_skipped() {
    for at in ["Message", "Part"] {
        check("a APPEND x {3+}\r\n", at, "abc\r\n");
        check("a APPEND x {3+}\r\n", at, "abc {4+}\r\nabcd (\\Seen) {1+}\r\na\r\n");
        check("a APPEND x {3+}\r\n", at, "abc {4}\r\n");
        check("a APPEND x {3+}\r\n", at, "a\nc{1+}\n\n {4}\n");
        check("a APPEND x UTF8 (~{3+}\r\n", at, "abc)\r\n");
        check("a APPEND x CATENATE (URL /a TEXT {3+}\r\n", at, "abc TEXT {3+}\r\nabc)\r\n");
        check("a APPEND x CATENATE (URL /a URL {3+}\r\n", at, "abc)\r\n");
    }
    // Accepted, and then dropped before all of it was there.
    check("a APPEND x {4}\r\nab", "Data", "cd\r\n");
    check("a APPEND x {4+}\r\nab", "Data", "cd {1+}\r\na\r\n");
    check("a APPEND x {1}\r\na", "MessageEnd", "\r\n");
    check("a APPEND x {1}\r\na", "MessageEnd", " {1+}\r\na\r\n");
    check("a APPEND x {1}\r\na", "MessageEnd", " {1}\r\n");
}

#[test]
fn a_complete_command_leaves_nothing_to_skip() {
    check("a APPEND x CATENATE (URL /a)\r\n", "Message", "");
    check("a APPEND x CATENATE (URL /a)\r\n", "MessageEnd", "");
    check("a APPEND x {1+}\r\na\r\n", "a Append", "");
    check("a NOOP\r\n", "a Noop", "");
    check("a FOO {3+}\r\nabc\r\n", "a BAD", "");
    let mut decoder = Decoder::new();
    decoder.abandon();
    assert_eq!(events(decoder, b"b NOOP\r\n", 1), ["b Noop"]);
}

#[test]
fn lines_follow_commands_that_ask_for_them() {
    let mut decoder = logged_in();
    decoder.push(b"a IDLE\r\nDONE\r\nb AUTHENTICATE PLAIN\r\n\n*\r\nc NOOP\r\n");
    let mut next = |line: bool| {
        if line {
            decoder.expect_line();
        }
        show(&decoder.next())
    };
    assert_eq!(next(false), "a Idle");
    assert_eq!(next(true), format!("Line({:?})", b"DONE"));
    assert_eq!(next(false), "b Authenticate { mechanism: \"PLAIN\" }");
    assert_eq!(next(true), "Line([])");
    assert_eq!(next(true), "Line([42])");
    assert_eq!(next(false), "c Noop");
    assert_eq!(next(true), "More");
    assert_eq!(next(false), "More");
    decoder.push(b"AA");
    assert_eq!(decoder.next(), Event::More);
    decoder.push(b"==\r\n");
    assert_eq!(decoder.next(), Event::Line(b"AA==".to_vec()));
}

#[test]
fn the_tag_is_known_before_the_command_is() {
    let mut decoder = logged_in();
    let mut tag_after = |input: &[u8]| {
        decoder.push(input);
        let event = decoder.next();
        (show(&event), decoder.tag().map(str::to_owned))
    };
    assert_eq!(tag_after(b"x1 APPEND"), ("More".into(), None));
    assert_eq!(tag_after(b" {1}\r\n"), ("Continue".into(), Some("x1".into())));
    assert_eq!(tag_after(b"y CATENATE (URL /z)\r\n").1, None);
}

#[test]
fn a_line_without_end_ends_the_connection() {
    let mut decoder = Decoder::new();
    decoder.expect_line();
    decoder.push(&[b'A'; SASL_LINE_LEN_MAX]);
    assert_eq!(decoder.next(), Event::More);
    decoder.push(b"AA");
    assert_eq!(decoder.next(), Event::Fatal("The line is too long.".into()));
    decoder.push(b"\r\na NOOP\r\n");
    assert_eq!(decoder.next(), Event::More);
    assert_eq!(decoder.buffered(), 0);
}

#[test]
fn unread_input_is_dropped_or_taken() {
    let mut decoder = Decoder::new();
    decoder.push(b"a STARTTLS\r\nb NOOP\r\nc");
    assert_eq!(show(&decoder.next()), "a StartTls");
    assert_eq!(decoder.buffered(), 9);
    decoder.discard();
    assert_eq!((decoder.buffered(), decoder.next()), (0, Event::More));
    decoder.push(b"d COMPRESS DEFLATE\r\n\x01\x02");
    assert_eq!(show(&decoder.next()), "d Compress");
    assert_eq!(decoder.take(), [1, 2]);
    decoder.push(b"e NOOP\r\n");
    assert_eq!(show(&decoder.next()), "e Noop");
}

#[test]
fn a_message_leaves_in_pieces() {
    let message: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
    let mut decoder = logged_in();
    decoder.push(format!("a APPEND x {{{}+}}\r\n", message.len()).as_bytes());
    decoder.push(&message);
    decoder.push(b"\r\n");
    let mut found = Vec::new();
    let mut pieces = 0;
    loop {
        match decoder.next() {
            Event::Data(bytes) => {
                assert!(!bytes.is_empty() && bytes.len() <= DATA_PIECE_LEN);
                found.extend(bytes);
                pieces += 1;
            }
            Event::Command(_) => break,
            Event::Message(_) | Event::Part { .. } | Event::MessageEnd => {}
            event => panic!("{event:?}"),
        }
    }
    assert_eq!((found == message, pieces), (true, 4));
}

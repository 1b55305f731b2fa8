//! Input of clients that mean no good: bounded memory and time, and no loss of step.

use super::*;
use crate::limits::{
    APPEND_KEYWORDS_LEN_MAX, APPENDS_MAX, FETCH_ITEMS_MAX, LINE_LEN_BEFORE_LOGIN_MAX, LINE_LEN_MAX,
    LIST_LEN_MAX, LITERAL_LEN_MAX, MAILBOX_NAME_LEN_MAX, SET_RANGES_MAX,
    SKIPPED_LEN_BEFORE_LOGIN_MAX, TAG_LEN_MAX,
};

/// Returns the events of a command after login that a valid one follows; all of it is read.
fn after(input: &str) -> Vec<String> {
    let input = format!("{input}\r\nb NOOP\r\n");
    let mut found = events(logged_in(), input.as_bytes(), 10_000);
    assert_eq!(found.pop().as_deref(), Some("b Noop"), "{found:?}");
    found
}

/// Checks that a command is refused.
fn refused(input: &str, expected: &str) {
    assert_eq!(after(input), [format!("a BAD {expected}")]);
}

/// Checks that a command is accepted.
fn accepted(input: &str) {
    let found = after(input);
    assert!(found.len() == 1 && !found[0].contains(" BAD "), "{found:?}");
}

#[test]
fn long_lines_are_skipped_after_login() {
    accepted(&format!("a SEARCH {}", "ALL ".repeat(4_000)));
    refused(&format!("a SEARCH {}", "ALL ".repeat(500_000)), "The command is too long.");
    let found = after(&"x".repeat(3 * LINE_LEN_MAX));
    assert_eq!(found, ["* BAD The command is too long."]);
    // Literals in what is skipped are skipped, too.
    let long = "x".repeat(LINE_LEN_MAX);
    refused(&format!("a NOOP {long} {{4+}}\r\n\r\n\r\n{{1+}}\r\n\n"), "The command is too long.");
    refused(&format!("a NOOP {long} {{4}}"), "The command is too long.");
    // A literal and the line behind it are one length.
    let half = "x".repeat(LITERAL_LEN_MAX as usize);
    let literal = format!("{{{}+}}\r\n{half}", half.len());
    refused(&format!("a NOOP {literal} {half}"), "The command is too long.");
    refused(&format!("a NOOP {literal} {literal}"), "The literal is too long.");
}

#[test]
fn long_lines_end_the_connection_before_login() {
    let line = "a LOGIN x ".to_owned() + &"y".repeat(LINE_LEN_BEFORE_LOGIN_MAX);
    assert_eq!(
        events(Decoder::new(), line.as_bytes(), 100),
        ["Fatal(\"The command is too long.\")"]
    );
    let skipped = "a FOO {1000+}\r\n".to_owned() + &"y".repeat(1000) + "\r\n";
    let many = skipped.repeat(100);
    let found = events(Decoder::new(), many.as_bytes(), 100);
    let (last, bad) = found.split_last().unwrap();
    assert_eq!(last, "Fatal(\"The command is too long.\")");
    assert!(bad.len() as u64 * 1000 <= SKIPPED_LEN_BEFORE_LOGIN_MAX + 1000, "{}", bad.len());
}

#[test]
fn memory_is_bounded_while_a_line_has_no_end() {
    let mut decoder = logged_in();
    let mut most = 0;
    for _ in 0..1_000 {
        decoder.push(&[b'x'; 10_000]);
        while decoder.next() != Event::More {}
        most = most.max(decoder.buffered());
    }
    assert!(most <= LINE_LEN_MAX + 10_000, "{most}");
    assert_eq!(decoder.buffered(), 0);
}

#[test]
fn long_literals_are_skipped_after_login() {
    let len = 3 * LITERAL_LEN_MAX as usize;
    let literal = format!("a STATUS {{{len}+}}\r\n{} (MESSAGES)", "\n".repeat(len));
    refused(&literal, "The literal is too long.");
    refused(&format!("a STATUS {{{}}}", u64::MAX), "The literal is too long.");
    // Literals without bytes have a length, too.
    refused(&format!("a STATUS {}", "{0+}\r\n".repeat(300_000)), "The command is too long.");
}

#[test]
fn depth_is_bounded() {
    for open in ["(", "NOT ", "OR ", "NOT ("] {
        let found = after(&format!("a SEARCH {}", open.repeat(10_000)));
        assert!(found[0].starts_with("a BAD the search program has too many levels"), "{found:?}");
    }
    for command in
        ["FETCH 1", "STORE 1 FLAGS", "LIST \"\"", "STATUS x", "ID", "SELECT x", "NOTIFY SET"]
    {
        let found = after(&format!("a {command} {}", "(".repeat(500_000)));
        assert!(found[0].starts_with("a BAD "), "{found:?}");
    }
}

#[test]
fn sets_and_lists_are_bounded() {
    let set = |ranges: usize| "1,".repeat(ranges - 1) + "2";
    accepted(&format!("a COPY {} x", set(SET_RANGES_MAX)));
    refused(&format!("a COPY {} x", set(SET_RANGES_MAX + 1)), "The set has too many ranges.");

    let list = |item: &str, len: usize| format!("({})", vec![item; len].join(" "));
    accepted(&format!("a STATUS x {}", list("SIZE", LIST_LEN_MAX)));
    refused(&format!("a STATUS x {}", list("SIZE", LIST_LEN_MAX + 1)), "A list is too long.");
    refused(&format!("a STORE 1 FLAGS {}", list("x", LIST_LEN_MAX + 1)), "A list is too long.");
    refused(&format!("a STORE 1 FLAGS {}", "x ".repeat(LIST_LEN_MAX + 1)), "A list is too long.");
    refused(&format!("a LIST \"\" {}", list("x", LIST_LEN_MAX + 1)), "A list is too long.");
    refused(&format!("a ENABLE {}", "x ".repeat(LIST_LEN_MAX + 1)), "A list is too long.");
    refused(&format!("a CANCELUPDATE {}", "x ".repeat(LIST_LEN_MAX + 1)), "A list is too long.");
    let items: Vec<String> = (1..=FETCH_ITEMS_MAX).map(|at| format!("BODY[{at}]")).collect();
    accepted(&format!("a FETCH 1 ({})", items.join(" ")));
    refused(&format!("a FETCH 1 ({} UID)", items.join(" ")), "A list is too long.");
    let found = after(&format!("a ID {}", list("\"x\" \"y\"", 100)));
    assert_eq!(found[0].matches("(\"x\", Some(\"y\"))").count(), 30);
    let found = after(&format!("a ID (\"{0}\" \"{0}\")", "x".repeat(5_000)));
    assert_eq!(found[0].matches('x').count(), 30 + 1024);
}

#[test]
fn names_and_tags_are_bounded() {
    accepted(&format!("a SELECT {}", "x".repeat(MAILBOX_NAME_LEN_MAX)));
    let found = after(&format!("a SELECT {}", "x".repeat(MAILBOX_NAME_LEN_MAX + 1)));
    assert_eq!(found, ["a NO [CANNOT] The mailbox name is too long."]);
    let found = after(&format!("a LIST \"\" {}", "x".repeat(MAILBOX_NAME_LEN_MAX + 1)));
    assert_eq!(found, ["a BAD [CANNOT] A pattern is too long."]);
    let tag = "t".repeat(TAG_LEN_MAX);
    assert_eq!(after(&format!("{tag} NOOP")), [format!("{tag} Noop")]);
    assert_eq!(after(&format!("{tag}t NOOP")), ["* BAD A command begins with a tag."]);
}

#[test]
fn messages_and_their_parts_are_bounded() {
    let parts = |len: usize| format!("a APPEND x CATENATE ({}", "URL /x ".repeat(len));
    let found = after(&format!("{})", parts(LIST_LEN_MAX)));
    assert_eq!(found.last().map(String::as_str), Some("a Append"));
    refused(&format!("{})", parts(LIST_LEN_MAX + 1)), "Too many parts of CATENATE.");
    // As literals, which are parsed one at a time.
    let literals = " URL {2+}\r\n/x".repeat(LIST_LEN_MAX + 1);
    let found = after(&format!("a APPEND x CATENATE ({literals})"));
    assert_eq!(found.last().map(String::as_str), Some("a BAD Too many parts of CATENATE."));
    assert_eq!(found.len(), 1 + LIST_LEN_MAX);
    let found = after(&format!("a APPEND x{}", " {1+}\r\na".repeat(APPENDS_MAX + 1)));
    assert_eq!(found.len(), 4 * APPENDS_MAX + 1);
    assert_eq!(found.last().map(String::as_str), Some("a BAD Too many messages."));
    // Keywords, of which each message may have many.
    let keywords: Vec<String> = (0..LIST_LEN_MAX).map(|number| format!("{number:0255}")).collect();
    let message = format!(" ({}) {{1+}}\r\na", keywords.join(" "));
    let len_max = APPEND_KEYWORDS_LEN_MAX / (LIST_LEN_MAX * 255);
    let found = after(&format!("a APPEND x{}", message.repeat(len_max / 2)));
    assert_eq!(found.last().map(String::as_str), Some("a Append"));
    let found = after(&format!("a APPEND x{}", message.repeat(len_max)));
    let refused = "a NO [LIMIT] Too many keywords in one command.";
    assert_eq!(found.last().map(String::as_str), Some(refused));
}

#[test]
fn a_decoder_that_waits_has_freed_its_memory() {
    let mut decoder = logged_in();
    decoder.push(format!("a SEARCH {}\r\n", "ALL ".repeat(4_000)).as_bytes());
    while decoder.next() != Event::More {}
    let debug = format!("{decoder:?}");
    assert!(debug.len() < 1_000, "{debug}");
}

/// Pieces of commands, and bytes that matter to the decoder.
const PIECES: &[&str] = &[
    "a ",
    "b NOOP",
    "\r\n",
    "\r\n",
    "\n",
    "\r",
    " ",
    "(",
    ")",
    "\"",
    "\\",
    "{3}",
    "{3+}",
    "~{2+}",
    "{0}",
    "{1",
    "}",
    "+",
    "\0",
    "\u{e4}",
    "abc",
    "a APPEND x",
    "a UID REPLACE 1 x",
    "CATENATE (",
    "URL /x",
    "TEXT ",
    "UTF8 (",
    "\"17-Jul-1996 02:44:25 -0700\"",
    "(\\Seen)",
    "a FETCH 1:*,$",
    "BODY[HEADER.FIELDS (To)]",
    "BODY.PEEK[",
    "]",
    "<0.1>",
    "PREVIEW (LAZY)",
    "a UID ",
    "SEARCH ",
    "RETURN (MIN PARTIAL 1:2)",
    "CHARSET UTF-8 ",
    "OR NOT ",
    "1:2",
    "*",
    "%",
    "a LIST ",
    "STATUS",
    "a SELECT &AOQ-",
    "(QRESYNC (1 2 ",
    "a STORE 1 +FLAGS.SILENT ",
    "a LOGIN x ",
    "a ID (",
    "NIL",
    "a SETMETADATA x (/private/a ",
    "a NOTIFY SET ",
    "(selected-delayed ",
    "(MessageNew (UID) MessageExpunge)",
    "a ESEARCH IN (subtree ",
    "a SORT (REVERSE DATE) ",
];

fn random_input(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..random.usize(..24) {
        match random.u8(..12) {
            0 => input.push(random.u8(..)),
            _ => input.extend_from_slice(PIECES[random.usize(..PIECES.len())].as_bytes()),
        }
    }
    input
}

fn random_decoder(random: &mut fastrand::Rng) -> Decoder {
    let mut decoder = Decoder::new();
    decoder.set_logged_in(random.bool());
    decoder.set_utf8(random.bool());
    decoder
}

#[test]
fn random_bytes_give_the_same_events_in_any_pieces() {
    let mut random = fastrand::Rng::with_seed(9051);
    let mut commands = 0;
    for _ in 0..30_000 {
        let input = random_input(&mut random);
        let seed = random.u64(..);
        let make = || random_decoder(&mut fastrand::Rng::with_seed(seed));
        let whole = events(make(), &input, usize::MAX);
        for piece_len in [1, 1 + random.usize(..8)] {
            assert_eq!(events(make(), &input, piece_len), whole, "{}", input.escape_ascii());
        }
        commands += whole.iter().filter(|event| event.starts_with("a ")).count();
        for event in &whole {
            let (_, text) = event.split_once(" BAD ").unwrap_or(("", ""));
            assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{event}");
        }
    }
    assert!(commands > 3_000, "{commands}");
}

#[test]
fn random_callers_never_hang_or_panic_a_decoder() {
    let mut random = fastrand::Rng::with_seed(3501);
    for _ in 0..30_000 {
        let mut decoder = random_decoder(&mut random);
        for _ in 0..3 {
            let input = random_input(&mut random);
            decoder.push(&input);
            // Every event but More takes input or ends a command.
            for calls in 0.. {
                assert!(calls < 1_000, "{}", input.escape_ascii());
                match random.u8(..20) {
                    0 => decoder.abandon(),
                    1 => decoder.expect_line(),
                    2 => decoder.discard(),
                    3 => decoder.set_utf8(random.bool()),
                    _ => {}
                }
                if decoder.next() == Event::More {
                    break;
                }
            }
        }
    }
}

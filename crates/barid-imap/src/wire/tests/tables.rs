//! Tables of inputs and their events: a line of input, then lines of events, indented. `↵` is CRLF
//! and `␀` is NUL; CRLF ends every input.

use super::*;

/// Returns the inputs of a table with their events.
pub(super) fn cases(table: &str) -> Vec<(&str, Vec<&str>)> {
    let mut cases: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in table.lines().filter(|line| !line.is_empty()) {
        match (line.strip_prefix("  "), cases.last_mut()) {
            (Some(event), Some(case)) => case.1.push(event),
            _ => cases.push((line, Vec::new())),
        }
    }
    cases
}

/// Returns the bytes of an input.
pub(super) fn bytes(input: &str) -> String {
    format!("{input}↵").replace('↵', "\r\n").replace('␀', "\0")
}

/// Checks a table, and that it has `count` inputs.
fn check_table(make: impl Fn() -> Decoder, table: &str, count: usize) {
    let cases = cases(table);
    let mut found = String::new();
    for (input, expected) in &cases {
        let text = bytes(input);
        let whole = events(make(), text.as_bytes(), usize::MAX);
        assert_eq!(events(make(), text.as_bytes(), 1), whole, "{input} byte by byte");
        if whole != *expected {
            found.extend([input, "\n  ", &whole.join("\n  "), "\n"]);
        }
    }
    assert!(found.is_empty(), "the events are\n{found}");
    assert_eq!(cases.len(), count);
}

#[test]
fn valid_commands() {
    check_table(logged_in, include_str!("valid.txt"), 124);
}

#[test]
fn refused_commands() {
    check_table(logged_in, include_str!("refused.txt"), 176);
}

#[test]
fn messages_of_append() {
    check_table(logged_in, include_str!("appends.txt"), 48);
}

#[test]
fn names_in_utf8() {
    let make = || {
        let mut decoder = logged_in();
        decoder.set_utf8(true);
        decoder
    };
    check_table(make, include_str!("utf8.txt"), 12);
}

#[test]
fn before_login() {
    check_table(Decoder::new, include_str!("before_login.txt"), 31);
}

//! Tests of the decoder as its callers see it.

mod appends;
mod commands;

use super::{Decoder, Event};

/// Returns all events of an input, which is given in pieces of `piece_len` bytes. `Continue` is
/// answered with `+ OK` without a line in the list.
fn events(mut decoder: Decoder, input: &[u8], piece_len: usize) -> Vec<String> {
    let mut shown = Vec::new();
    let mut pieces = input.chunks(piece_len);
    let mut data: Vec<u8> = Vec::new();
    loop {
        let event = decoder.next();
        if let Event::Data(bytes) = &event {
            data.extend_from_slice(bytes);
            continue;
        }
        if event != Event::More && !data.is_empty() {
            shown.push(format!("data {}", data.escape_ascii()));
            data.clear();
        }
        match event {
            Event::More => match pieces.next() {
                Some(piece) => decoder.push(piece),
                None => break,
            },
            Event::Command(command) => shown.push(format!("{} {:?}", command.tag, command.command)),
            Event::Bad { tag, code, is_no, text } => {
                let tag = tag.as_deref().unwrap_or("*");
                let code = code.map(|code| format!("[{code}] ")).unwrap_or_default();
                shown.push(format!("{tag} {} {code}{text}", if is_no { "NO" } else { "BAD" }));
            }
            Event::Message(message) => shown.push(format!("{message:?}")),
            Event::Part { part, is_sync } => {
                shown.push(format!("{part:?}{}", if is_sync { " sync" } else { "" }));
            }
            event => shown.push(format!("{event:?}")),
        }
    }
    if !data.is_empty() {
        shown.push(format!("data {}", data.escape_ascii()));
    }
    shown
}

/// Returns a decoder after login.
fn logged_in() -> Decoder {
    let mut decoder = Decoder::new();
    decoder.set_logged_in(true);
    decoder
}

/// Checks the events of an input, whole and byte by byte.
fn check_with(make: impl Fn() -> Decoder, input: &str, expected: &[&str]) {
    let whole = events(make(), input.as_bytes(), usize::MAX);
    assert_eq!(whole, expected, "{input:?}");
    let bytes = events(make(), input.as_bytes(), 1);
    assert_eq!(bytes, whole, "{input:?} byte by byte");
}

fn check(input: &str, expected: &[&str]) {
    check_with(logged_in, input, expected);
}

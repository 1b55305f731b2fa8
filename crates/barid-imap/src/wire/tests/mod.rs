//! Tests of the decoder as its callers see it.

mod abandoned;
mod codec;
mod dovecot;
mod hostile;
mod tables;

use super::{Decoder, Event};

/// Returns all events of an input that arrives in pieces of `piece_len` bytes. Literals are
/// accepted; the bytes of one are one line.
fn events(mut decoder: Decoder, input: &[u8], piece_len: usize) -> Vec<String> {
    let mut shown = Vec::new();
    let mut pieces = input.chunks(piece_len);
    let mut data: Vec<u8> = Vec::new();
    loop {
        match decoder.next() {
            Event::Data(bytes) => data.extend_from_slice(&bytes),
            Event::More => match pieces.next() {
                Some(piece) => decoder.push(piece),
                None => break,
            },
            event => {
                if !data.is_empty() {
                    shown.push(format!("Data {}", data.escape_ascii()));
                    data.clear();
                }
                shown.push(show(&event));
            }
        }
    }
    if !data.is_empty() {
        shown.push(format!("Data {}", data.escape_ascii()));
    }
    shown
}

/// Writes an event as the tables have it.
fn show(event: &Event) -> String {
    match event {
        Event::Command(command) => {
            format!("{} {}", command.tag, short(&format!("{:?}", command.command)))
        }
        Event::Bad { tag, code, is_no, text } => {
            let tag = tag.as_deref().unwrap_or("*");
            let code = code.map(|code| format!("[{code}] ")).unwrap_or_default();
            format!("{tag} {} {code}{text}", if *is_no { "NO" } else { "BAD" })
        }
        event => short(&format!("{event:?}")),
    }
}

/// Leaves out fields of a value that are false or empty.
fn short(debug: &str) -> String {
    let mut text = debug.to_owned();
    for empty in [": false", ": None", ": []", ": {}", ": FlagList {}"] {
        while let Some(at) = text.find(empty) {
            let start = text[..at].rfind([' ', '{']).map_or(0, |at| at + 1);
            let end = at + empty.len();
            let end = if text[end..].starts_with(", ") { end + 2 } else { end };
            text.replace_range(start..end, "");
        }
        for (long, brief) in [(",  }", " }"), (", }", " }"), ("{  }", "{}"), ("{ }", "{}")] {
            text = text.replace(long, brief);
        }
    }
    text
}

/// Returns a decoder after login.
fn logged_in() -> Decoder {
    let mut decoder = Decoder::new();
    decoder.set_logged_in(true);
    decoder
}

//! Random mbox files, as several programs leave them.

use barid_formats::Variant;
use fastrand::Rng;

use super::scenario::{Size, Style};

const KEYWORDS: [&str; 3] = ["Work", "NonJunk", "$Label1"];
/// Length in bytes from which a message of a huge mailbox counts as large.
pub(super) const LARGE_LEN: u64 = 66_000;
const MMDF: &str = "\u{1}\u{1}\u{1}\u{1}";

/// Returns a message: header and body, which ends with a line end. `token` makes it unique.
pub(super) fn text(rng: &mut Rng, token: &str, body_len: usize, eol: &str) -> Vec<u8> {
    let mut text = format!("From: {token}@example.org{eol}Subject: about {token}{eol}");
    if rng.bool() {
        text += &format!("Message-ID: <{token}@example.org>{eol}");
    }
    for number in 0..rng.usize(..4) {
        text += &format!("X-Trace: {number} {}{eol}\tfolded{eol}", "t".repeat(rng.usize(..60)));
    }
    text += eol;
    text += &body(rng, token, body_len, eol);
    text.into_bytes()
}

fn body(rng: &mut Rng, token: &str, len: usize, eol: &str) -> String {
    let mut body = String::new();
    while body.len() < len {
        match rng.u32(..12) {
            0 => body += ">From the start",
            1 => {}
            _ => {
                let line = format!("{token} {} ", rng.u32(..));
                body += &line.repeat(rng.usize(1..4));
            }
        }
        body += eol;
    }
    body.truncate(body.len().min(len.next_multiple_of(512)));
    while body.ends_with(['\r', '\n']) {
        body.pop();
    }
    if !body.is_empty() {
        body += eol;
    }
    body
}

/// Returns a file of `variant`.
pub(super) fn random(rng: &mut Rng, variant: Variant, style: Style, size: Size) -> Vec<u8> {
    let eol = if rng.u32(..8) == 0 && variant != Variant::Mmdf { "\r\n" } else { "\n" };
    let count = match size {
        Size::Small => rng.usize(..12),
        Size::Large => rng.usize(4..60),
        Size::Huge => rng.usize(60..70),
    };
    let mut file = String::new();
    if style == Style::Pseudo {
        let text = format!(
            "Subject: internal data{eol}X-IMAP: 1700000000 {count:010} {}{eol}Status: RO{eol}{eol}\
             Not a message.{eol}",
            KEYWORDS.join(" ")
        );
        put(&mut file, variant, 0, &text, eol);
    }
    let large = rng.usize(1..4);
    for number in 1..=count {
        let len = match (size, rng.u32(..12)) {
            (Size::Huge, _) if number == large => LARGE_LEN as usize + rng.usize(..20_000),
            (Size::Huge, 0..11) => rng.usize(20_000..26_000),
            (Size::Large, 0) => rng.usize(..100_000),
            (Size::Large, 1..4) => rng.usize(..20_000),
            (Size::Small, 0) => rng.usize(..9_000),
            (_, 1..4) => rng.usize(..3_000),
            _ => rng.usize(..400),
        };
        let text = String::from_utf8(text(rng, &format!("m{number}"), len, eol))
            .expect("because it is ASCII");
        let (header, body) = text.split_once(&format!("{eol}{eol}")).expect("because of `text`");
        let mut header = format!("{header}{eol}");
        if matches!(variant, Variant::Mboxcl | Variant::Mboxcl2) || rng.u32(..10) == 0 {
            header += &format!("Content-Length: {}{eol}", body.len());
        }
        header += &block(rng, style, number, count, eol);
        put(&mut file, variant, number, &format!("{header}{eol}{body}"), eol);
    }
    odd_end(rng, variant, &mut file);
    file.into_bytes()
}

/// Appends one message with its separators.
pub(super) fn put(file: &mut String, variant: Variant, number: usize, text: &str, eol: &str) {
    let from = format!("From a@b Sun Sep  9 01:{:02}:40 2001{eol}", number % 60);
    match variant {
        Variant::Mmdf => *file += &format!("{MMDF}{eol}{from}{text}{MMDF}{eol}"),
        _ => *file += &format!("{from}{text}{eol}"),
    }
}

/// Returns the header fields that mailboxes own, for message `number` of `count`.
fn block(rng: &mut Rng, style: Style, number: usize, count: usize, eol: &str) -> String {
    let letters = |rng: &mut Rng, letters: &str| -> String {
        letters.chars().filter(|_| rng.bool()).collect()
    };
    let keywords: Vec<&str> = KEYWORDS.into_iter().filter(|_| rng.u32(..4) == 0).collect();
    let keywords = keywords.iter().map(|name| format!(" {name}")).collect::<String>();
    let names = KEYWORDS.join(" ");
    let (status, flags) = (letters(rng, "RO"), letters(rng, "DFAT"));
    match style {
        Style::None if rng.u32(..3) == 0 => format!("Status: {status}{eol}"),
        Style::None => String::new(),
        Style::Dovecot => {
            let base = format!("X-IMAPbase: 1700000000 {count:010} {names}{eol}");
            let base = if number == 1 { &*base } else { "" };
            let padding = " ".repeat(rng.usize(..92));
            format!(
                "{base}X-UID: {number}{eol}Status: {status}{eol}X-Keywords:{keywords}{padding}{eol}"
            )
        }
        Style::CClient | Style::Pseudo => {
            let mut block = String::new();
            if number == 1 && style == Style::CClient {
                block += &format!("X-IMAPbase: 1700000000 {count} {names}{eol}");
            }
            let width = if block.is_empty() { 50 } else { 80 };
            block += &format!("Status: {status}{eol}X-Status: {flags}{eol}X-Keywords:{keywords}");
            while block.len() < width {
                block.push(' ');
            }
            format!("{block}{eol}X-UID: {number}{eol}")
        }
    }
}

fn odd_end(rng: &mut Rng, variant: Variant, file: &mut String) {
    if variant == Variant::Mmdf || file.is_empty() {
        return;
    }
    match rng.u32(..8) {
        0 => *file += "\n\n",
        1 => drop(file.pop()),
        2 => file.truncate(file.trim_end().len()),
        _ => {}
    }
}

//! The beginning of a message's text, as lists show it (RFC 8970).

use barid_types::BodyStructure;
use mail_parser::decoders::html::html_to_text;

use crate::limits::{PREVIEW_CHARS_MAX, PREVIEW_PART_LENS};
use crate::structure::is_message;
use crate::text::{alternative, is_attachment, is_multipart};
use crate::{body_structure, part_text};

/// Returns the beginning of the text of a message in one line: at most [`PREVIEW_CHARS_MAX`]
/// characters, without markup; empty for a message without text, or with encrypted text. `start`
/// are its first bytes, all of them if `is_whole`; `None` if more of them are needed.
///
/// The text is that of the first part of plain text or HTML that has any; of alternatives the plain
/// one. Attached texts, enclosed messages and other types of text follow. Lines that quote another
/// message are left out, unless there are no others. Only the beginning of a part is decoded.
pub fn preview(start: &[u8], is_whole: bool) -> Option<String> {
    let (structure, _) = body_structure(start);
    let parts = text_parts(&structure);
    for is_other in [false, true] {
        if is_other && !is_whole {
            // A better text may follow.
            return None;
        }
        for (part, _) in parts.iter().filter(|(_, other)| *other == is_other) {
            // A line end before a boundary does not belong to the part.
            let is_cut = !is_whole && part.body_end + 2 >= start.len() as u64;
            let text = preview_of_part(start, part);
            if is_cut && !is_full(&text) {
                return None;
            }
            if !text.is_empty() {
                return Some(text);
            }
        }
    }
    Some(String::new())
}

fn is_full(text: &str) -> bool {
    text.chars().nth(PREVIEW_CHARS_MAX - 1).is_some()
}

/// Returns the text parts in their order, with `true` for those that are used last.
fn text_parts(structure: &BodyStructure) -> Vec<(&BodyStructure, bool)> {
    let mut parts = Vec::new();
    let mut open = vec![(structure, false)];
    while let Some((part, is_other)) = open.pop() {
        if part.media_type.eq_ignore_ascii_case(b"text") {
            let is_usual = [&b"plain"[..], b"html"];
            let is_usual = is_usual.iter().any(|name| part.subtype.eq_ignore_ascii_case(name));
            parts.push((part, is_other || !is_usual));
        } else if part.subtype.eq_ignore_ascii_case(b"alternative") && is_multipart(part) {
            open.extend(alternative(&part.parts).map(|part| (part, is_other)));
        } else {
            let is_other = is_other || is_message(part);
            let children = part.parts.iter().rev();
            open.extend(children.map(|part| (part, is_other || is_attachment(part))));
        }
    }
    parts
}

/// Decodes the beginning of a part, and more of it if that has not enough text.
fn preview_of_part(message: &[u8], part: &BodyStructure) -> String {
    let is_html = part.subtype.eq_ignore_ascii_case(b"html");
    let mut text = String::new();
    for len in PREVIEW_PART_LENS {
        let end = part.body_offset.saturating_add(len).min(part.body_end);
        let (decoded, _) = part_text(message, &BodyStructure { body_end: end, ..part.clone() });
        text = match is_html {
            true => html_in_one_line(&decoded),
            false => in_one_line(&decoded),
        };
        if is_full(&text) || end == part.body_end {
            break;
        }
    }
    text
}

/// Does the same as [`in_one_line`] for HTML, in which `blockquote` quotes.
fn html_in_one_line(html: &str) -> String {
    let own = in_one_line(&html_to_text(&without_quotes(html)));
    if own.is_empty() { in_one_line(&html_to_text(html)) } else { own }
}

/// Removes the elements `blockquote`, nested ones too.
fn without_quotes(html: &str) -> String {
    let (mut own, mut depth, mut from) = (String::new(), 0_usize, 0);
    for at in memchr::memchr_iter(b'<', html.as_bytes()) {
        let tag = &html.as_bytes()[at + 1..];
        let (is_end, name) = match tag.strip_prefix(b"/") {
            Some(name) => (true, name),
            None => (false, tag),
        };
        let name = name.get(..BLOCKQUOTE.len() + 1).unwrap_or_default();
        let is_quote = name.split_last().is_some_and(|(after, name)| {
            name.eq_ignore_ascii_case(BLOCKQUOTE) && !after.is_ascii_alphanumeric()
        });
        if !is_quote {
            continue;
        }
        if depth == 0 {
            own.push_str(&html[from..at]);
        }
        depth = if is_end { depth.saturating_sub(1) } else { depth + 1 };
        from = at;
    }
    if depth == 0 {
        own.push_str(&html[from..]);
    }
    own
}

const BLOCKQUOTE: &[u8] = b"blockquote";

/// Returns the first characters of a text with single spaces for all white space.
fn in_one_line(text: &str) -> String {
    if text.trim_start().starts_with("-----BEGIN PGP MESSAGE-----") {
        return String::new();
    }
    let (mut own, mut quoted) = (Line::default(), Line::default());
    for line in text.lines() {
        let line = line.trim_start();
        match line.strip_prefix('>') {
            Some(rest) => quoted.push(rest.trim_start_matches(['>', ' '])),
            None => own.push(line),
        }
        if own.count >= PREVIEW_CHARS_MAX {
            break;
        }
    }
    match own.text.is_empty() && !quoted.text.is_empty() {
        true => std::iter::once('>').chain(quoted.text.chars()).take(PREVIEW_CHARS_MAX).collect(),
        false => own.text,
    }
}

/// A line that is being filled.
#[derive(Default)]
struct Line {
    text: String,
    /// Number of characters.
    count: usize,
    has_space: bool,
}

impl Line {
    /// Appends a line of text after a space.
    fn push(&mut self, line: &str) {
        self.has_space = true;
        for char in line.chars() {
            if self.count >= PREVIEW_CHARS_MAX {
                return;
            }
            if char.is_whitespace() {
                self.has_space = true;
            } else if !is_invisible(char) {
                let space = std::mem::take(&mut self.has_space) && !self.text.is_empty();
                if space && self.count + 1 == PREVIEW_CHARS_MAX {
                    // No space at the end.
                    self.count = PREVIEW_CHARS_MAX;
                    return;
                }
                if space {
                    self.text.push(' ');
                }
                self.text.push(char);
                self.count += 1 + usize::from(space);
            }
        }
    }
}

/// Returns `true` for control characters, and for those that senders fill invisible lines with.
fn is_invisible(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{ad}' | '\u{34f}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: &str) {
        assert_eq!(preview(message.as_bytes(), true).as_deref(), Some(expected), "{message}");
    }

    #[test]
    fn plain_text_is_one_line() {
        check("Subject: s\n\n  Hello\n\n\tWorld \r\n", "Hello World");
        check("Subject: s\n\n", "");
        check("Subject: s\n", "");
        check("", "");
        check("\n> a\n>> b\nc\n> d\n", "c");
        check("\n> a\n> > b\n", ">a b");
        check("\n-----BEGIN PGP MESSAGE-----\n\nabc\n", "");
        check("Content-Type: application/pdf\n\nabc", "");
        check("\na\u{200b}\u{ad}b\u{a0}c\u{1}", "ab c");
    }

    #[test]
    fn texts_are_decoded() {
        check(
            "Content-Type: text/plain; charset=koi8-r\nContent-Transfer-Encoding: base64\n\n\
               8NLJ18XU\n",
            "Привет",
        );
        check("Content-Transfer-Encoding: quoted-printable\n\ncaf=C3=A9=\n s\n", "café s");
        check(
            "Content-Type: text/html\n\n<html><head><title>t</title><style>a{b:c}</style>\
               <script>if (a < b) {}</script></head><body><p>One &amp; <b>t</b>wo</p><div>three\
               <!-- no --></div><br>&euro;&#33;</body>",
            "One & two three €!",
        );
    }

    #[test]
    fn quotes_are_left_out_unless_there_is_nothing_else() {
        let html = |text: &str| format!("Content-Type: text/html\n\n{text}");
        check(&html("a <blockquote type=cite>b<BLOCKQUOTE>c</blockquote> d</blockquote >e"), "a e");
        check(&html("<blockquote>b</blockquote>"), "b");
        check(&html("a<blockquote>b"), "a");
        check(&html("a<blockquotes>b</blockquote>c<"), "abc");
    }

    #[test]
    fn the_first_text_counts() {
        let multipart = |kind: &str, parts: &[&str]| {
            let parts: String = parts.iter().map(|part| format!("--x\n{part}\n")).collect();
            format!("Content-Type: multipart/{kind}; boundary=x\n\nintro\n{parts}--x--\n")
        };
        let (plain, html) = ("\nplain", "Content-Type: text/html\n\n<p>html");
        let attached = "Content-Disposition: attachment\n\nattached";
        let image = "Content-Type: image/png\nContent-Transfer-Encoding: base64\n\nAAAA";
        let calendar = "Content-Type: text/calendar\n\nBEGIN:VCALENDAR";
        check(&multipart("mixed", &[image, attached, plain, html]), "plain");
        check(&multipart("mixed", &[image, html, plain]), "html");
        check(&multipart("alternative", &[html, plain]), "plain");
        check(&multipart("alternative", &[calendar, html]), "html");
        check(&multipart("mixed", &[image, attached]), "attached");
        check(&multipart("mixed", &["\n \n", plain]), "plain");
        check(&multipart("mixed", &[calendar, plain]), "plain");
        let inner = multipart("related", &[html]).replace("=x", "=y").replace("--x", "--y");
        check(&multipart("mixed", &[&inner]), "html");
        let enclosed = format!("Content-Type: message/rfc822\n\nSubject: e\n\n{}", "enclosed");
        check(&multipart("mixed", &[&enclosed, plain]), "plain");
        check(&multipart("mixed", &[&enclosed]), "enclosed");
    }

    #[test]
    fn length_and_cost_are_bounded() {
        let text = preview(format!("\n{}", "ab ".repeat(1 << 20)).as_bytes(), true).unwrap();
        assert_eq!(text.chars().count(), PREVIEW_CHARS_MAX);
        assert!(text.ends_with('b'), "{text}");
        let text = preview(format!("\n{}", "é".repeat(300)).as_bytes(), true).unwrap();
        assert_eq!(text, "é".repeat(PREVIEW_CHARS_MAX));
        // A long style before the text.
        let html = format!("Content-Type: text/html\n\n<style>{}</style>x", "a{} ".repeat(1 << 18));
        check(&html, "x");
    }

    #[test]
    fn a_start_is_enough_or_says_that_it_is_not() {
        let message = format!(
            "Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: image/png\n\n{}\n\
             --x\n\nThe text of this message is not very long.\n--x\n\nMore.\n--x--\n",
            "AAAA\n".repeat(50)
        );
        let whole = preview(message.as_bytes(), true).unwrap();
        assert_eq!(whole, "The text of this message is not very long.");
        let mut decided = 0;
        for len in 0..message.len() {
            if let Some(text) = preview(&message.as_bytes()[..len], false) {
                assert_eq!(text, whole, "{len}");
                decided += 1;
            }
        }
        assert!(decided > 5, "{decided}");
    }
}

//! The readable content of a message: its text in reading order, and its attachments.

use std::borrow::Cow;

use barid_types::BodyStructure;
use mail_parser::decoders::html::html_to_text;

use crate::body::raw_header;
use crate::limits::READABLE_TEXT_LEN_MAX;
use crate::structure::is_message;
use crate::{HeaderFields, body_structure, decode_words, parameter, part_text};

/// A part with the number by which IMAP fetches it (RFC 9051 §6.4.5.1), such as `1.2`.
#[derive(Clone, Debug)]
pub struct NumberedPart<'s> {
    /// The part number.
    pub number: String,
    /// The part.
    pub part: &'s BodyStructure,
}

/// Returns all parts that have a number, each before the parts in it.
///
/// A message without parts is its own part 1; the structure inside a `message/rfc822` has a number
/// of its own only where it is not a multipart. O(parts).
pub fn numbered_parts(structure: &BodyStructure) -> Vec<NumberedPart<'_>> {
    let mut numbered = Vec::new();
    let mut open = vec![(String::new(), structure)];
    while let Some((number, part)) = open.pop() {
        let children = |prefix: &str| -> Vec<_> {
            let number = |at: usize| match prefix {
                "" => (at + 1).to_string(),
                _ => format!("{prefix}.{}", at + 1),
            };
            part.parts.iter().enumerate().map(|(at, child)| (number(at), child)).collect()
        };
        let is_root = number.is_empty();
        if is_root && is_multipart(part) {
            open.extend(children("").into_iter().rev());
            continue;
        }
        let number = if is_root { "1".to_owned() } else { number };
        match part.parts.first().filter(|_| is_message(part)) {
            // The multipart in a message has the message's number and none of its own.
            Some(inner) if is_multipart(inner) => {
                let inner_parts = inner.parts.iter().enumerate().rev();
                open.extend(inner_parts.map(|(at, child)| (format!("{number}.{}", at + 1), child)));
            }
            _ => open.extend(children(&number).into_iter().rev()),
        }
        numbered.push(NumberedPart { number, part });
    }
    numbered
}

/// Returns the part of a number; see [`numbered_parts`]. O(depth).
pub fn part_by_number<'s>(structure: &'s BodyStructure, number: &str) -> Option<&'s BodyStructure> {
    let mut part = structure;
    // `true` while number 1 may name `part` itself, as in a message without parts.
    let mut is_whole = true;
    for digits in number.split('.') {
        let index: usize = digits.parse().ok().filter(|index| *index > 0)?;
        if is_message(part) && !is_whole {
            part = part.parts.first()?;
            is_whole = true;
        }
        if is_multipart(part) {
            part = part.parts.get(index - 1)?;
        } else if index != 1 || !is_whole {
            return None;
        }
        is_whole = false;
    }
    Some(part)
}

pub(crate) fn is_multipart(part: &BodyStructure) -> bool {
    part.media_type.eq_ignore_ascii_case(b"multipart")
}

/// A part to be saved rather than read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The part number, such as `1.2`.
    pub number: String,
    /// The decoded file name from the part's header; it may contain anything, even `/`.
    pub name: Option<String>,
    /// `type/subtype` in lower case.
    pub media_type: String,
    /// The size in octets as transferred, still encoded.
    pub size: u64,
}

/// Returns the attachments of a message: parts with that disposition, and parts that are neither
/// text nor divided.
pub fn attachments(structure: &BodyStructure) -> Vec<Attachment> {
    let numbered = numbered_parts(structure).into_iter();
    let wanted = numbered.filter(|numbered| is_attachment(numbered.part));
    wanted
        .map(|NumberedPart { number, part }| Attachment {
            number,
            name: file_name(part),
            media_type: media_type(part),
            size: part.size,
        })
        .collect()
}

pub(crate) fn is_attachment(part: &BodyStructure) -> bool {
    let kind = part.disposition.as_ref().map(|disposition| &*disposition.kind);
    let attached = kind.is_some_and(|kind| kind.eq_ignore_ascii_case(b"attachment"));
    let read = part.media_type.eq_ignore_ascii_case(b"text") || !part.parts.is_empty();
    attached || !(read || is_multipart(part))
}

/// Returns the file name of a part: `filename` of its disposition, else `name` of its type.
pub fn file_name(part: &BodyStructure) -> Option<String> {
    let disposition = part.disposition.as_ref();
    let name = disposition.and_then(|disposition| parameter(&disposition.parameters, "filename"));
    name.or_else(|| parameter(&part.parameters, "name")).map(Cow::into_owned)
}

/// Returns `type/subtype` in lower case; bytes that are not UTF-8 are replaced.
pub fn media_type(part: &BodyStructure) -> String {
    let text = [&*part.media_type, b"/", &*part.subtype].concat();
    String::from_utf8_lossy(&text).to_ascii_lowercase()
}

/// Returns the text of a message in reading order: its text parts, decoded, with HTML as plain
/// text.
///
/// Of alternatives the plain text is used, else the HTML, else the last. Attached parts are left
/// out; the text of an enclosed message starts with its sender, date and subject. Line ends become
/// LF. A text longer than [`READABLE_TEXT_LEN_MAX`] bytes is truncated.
pub fn readable_text(message: &[u8]) -> String {
    readable_text_of(message, &body_structure(message).0)
}

/// Returns the [`readable_text`] of a message with a known structure.
pub fn readable_text_of(message: &[u8], structure: &BodyStructure) -> String {
    let mut text = String::new();
    let mut open = vec![structure];
    while let Some(part) = open.pop() {
        if text.len() >= READABLE_TEXT_LEN_MAX {
            break;
        }
        if part.media_type.eq_ignore_ascii_case(b"text") {
            push_paragraph(&mut text, &leaf_text(message, part));
            continue;
        }
        if is_message(part)
            && let Some(inner) = part.parts.first()
        {
            push_paragraph(&mut text, &message_title(raw_header(message, inner)));
        }
        let shown = |child: &&BodyStructure| !(is_attachment(child) && child.parts.is_empty());
        if part.subtype.eq_ignore_ascii_case(b"alternative") && is_multipart(part) {
            open.extend(alternative(&part.parts));
        } else {
            open.extend(part.parts.iter().rev().filter(shown));
        }
    }
    text
}

/// Returns the alternative that reads best as text.
pub(crate) fn alternative(parts: &[BodyStructure]) -> Option<&BodyStructure> {
    let of_type = |wanted: &str| parts.iter().find(|part| media_type(part) == wanted);
    of_type("text/plain").or_else(|| of_type("text/html")).or_else(|| parts.last())
}

fn leaf_text(message: &[u8], part: &BodyStructure) -> String {
    let (text, _) = part_text(message, part);
    let is_html = part.subtype.eq_ignore_ascii_case(b"html");
    let text = if is_html { Cow::Owned(html_to_text(&text)) } else { text };
    text.replace("\r\n", "\n")
}

fn message_title(header: &[u8]) -> String {
    let fields = HeaderFields::scan(header);
    let line = |name: &str, raw: Option<&[u8]>| match raw {
        Some(raw) => format!("{name}: {}\n", decode_words(raw)),
        None => String::new(),
    };
    let (from, date) = (line("From", fields.from), line("Date", fields.date));
    from + &date + &line("Subject", fields.subject)
}

/// Appends a text after an empty line.
fn push_paragraph(text: &mut String, more: &str) {
    let more = more.trim_end_matches(['\n', ' ', '\t']);
    if more.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    let room = READABLE_TEXT_LEN_MAX.saturating_sub(text.len());
    text.push_str(&more[..more.floor_char_boundary(room)]);
    text.push('\n');
}

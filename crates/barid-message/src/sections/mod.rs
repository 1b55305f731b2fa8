//! Sections of a message (RFC 9051 §6.4.5.1, RFC 3516).
//!
//! ```text
//! section       = "[" [section-spec] "]"
//! section-spec  = section-msgtext / (section-part ["." section-text])
//! section-part  = nz-number *("." nz-number)
//! section-text  = section-msgtext / "MIME"
//! section-msgtext = "HEADER" / "HEADER.FIELDS" [".NOT"] SP header-list / "TEXT"
//! header-list   = "(" header-fld-name *(SP header-fld-name) ")"
//! ```

mod parse;

pub use parse::SectionError;

use std::borrow::Cow;

use barid_types::BodyStructure;

use crate::fields::fields;
use crate::structure::is_message;
use crate::{body_offset, is_known_encoding, part_body};

/// The requested text of a message or part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SectionText {
    /// All of it: a message, or the body of a part.
    #[default]
    Whole,
    /// The header of a message, blank line included.
    Header,
    /// Some fields of a header, and a blank line.
    HeaderFields {
        /// `true` for all fields except these.
        not: bool,
        /// Field names, as requested.
        names: Vec<Vec<u8>>,
    },
    /// The body of a message.
    Text,
    /// The header of a part.
    Mime,
}

/// A section of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// The part, from the outermost to the innermost number; empty for the message itself.
    pub part: Vec<u32>,
    /// The requested text of it.
    pub text: SectionText,
}

impl Section {
    /// Returns `true` if the section can be read only with the structure of the message.
    pub fn needs_structure(&self) -> bool {
        !self.part.is_empty()
    }

    /// Returns the part that it names; `None` if the message has no such part.
    pub fn part_of<'s>(&self, structure: &'s BodyStructure) -> Option<&'s BodyStructure> {
        part_at(structure, &self.part)
    }

    /// Returns the bytes of the section; `None` if the message has no such part. `structure` is
    /// that of the same bytes, and is read only if [`Section::needs_structure`].
    ///
    /// A part that is not a message has neither header nor text.
    pub fn of<'m>(&self, message: &'m [u8], structure: &BodyStructure) -> Option<Cow<'m, [u8]>> {
        let (header, body) = if self.part.is_empty() {
            message.split_at(body_offset(message))
        } else {
            let part = part_at(structure, &self.part)?;
            match self.text {
                SectionText::Whole => {
                    let range = part.body_offset as usize..part.body_end as usize;
                    return message.get(range).map(Cow::Borrowed);
                }
                SectionText::Mime => {
                    let range = part.header_offset as usize..part.body_offset as usize;
                    return message.get(range).map(Cow::Borrowed);
                }
                _ if !is_message(part) => return None,
                _ => {}
            }
            let inner = part.parts.first()?;
            let at = |offset: u64| (offset as usize).min(message.len());
            let (start, middle, end) =
                (at(inner.header_offset), at(inner.body_offset), at(part.body_end));
            (&message[start..middle], &message[middle..end.max(middle)])
        };
        Some(Cow::Borrowed(match &self.text {
            SectionText::Whole => message,
            SectionText::Header | SectionText::Mime => header,
            SectionText::Text => body,
            SectionText::HeaderFields { not, names } => {
                return Some(Cow::Owned(some_fields(header, *not, names)));
            }
        }))
    }

    /// Returns the unknown transfer encoding in the section, which prevents an answer to BINARY
    /// (RFC 3516 §4.3); `None` if all are known. O(parts).
    pub fn unknown_encoding<'s>(&self, structure: &'s BodyStructure) -> Option<&'s [u8]> {
        let part = match self.part.as_slice() {
            [] => structure,
            numbers => part_at(structure, numbers)?,
        };
        let mut open = vec![part];
        while let Some(part) = open.pop() {
            if part.parts.is_empty() && !is_known_encoding(&part.encoding) {
                return Some(&part.encoding);
            }
            open.extend(&part.parts);
        }
        None
    }

    /// Returns the bytes of the section without its transfer encoding (BINARY); `None` if there is
    /// no such part, or its encoding is unknown ([`Section::unknown_encoding`]). A text that
    /// consists of parts is returned unchanged.
    pub fn decoded<'m>(
        &self,
        message: &'m [u8],
        structure: &BodyStructure,
    ) -> Option<Cow<'m, [u8]>> {
        if self.unknown_encoding(structure).is_some() {
            return None;
        }
        if self.part.is_empty() {
            return Some(Cow::Borrowed(message));
        }
        let part = part_at(structure, &self.part)?;
        if part.media_type.eq_ignore_ascii_case(b"multipart") || is_message(part) {
            return self.of(message, structure);
        }
        Some(part_body(message, part).0)
    }
}

/// Returns the part with a number: in a message that is not a multipart, 1 is its body.
fn part_at<'s>(root: &'s BodyStructure, numbers: &[u32]) -> Option<&'s BodyStructure> {
    let mut parts = of_message(root);
    let mut found = None;
    for number in numbers {
        let part: &BodyStructure = parts.get(number.checked_sub(1)? as usize)?;
        parts = match part.parts.as_slice() {
            [inner] if is_message(part) => of_message(inner),
            of_multipart => of_multipart,
        };
        found = Some(part);
    }
    found
}

/// Returns the parts of a message.
fn of_message(root: &BodyStructure) -> &[BodyStructure] {
    match root.media_type.eq_ignore_ascii_case(b"multipart") {
        true => &root.parts,
        false => std::slice::from_ref(root),
    }
}

/// Returns the fields of a header that have, or do not have, one of some names, and its blank line.
fn some_fields(header: &[u8], not: bool, names: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields(header) {
        let is_named = names.iter().any(|name| name.eq_ignore_ascii_case(field.name));
        if is_named != not {
            out.extend_from_slice(&header[field.offset..field.end]);
        }
    }
    // RFC 9051 §6.4.5.1: the blank line is present unless the message has neither it nor a body.
    // Dovecot adds it even then if fields were selected. A header truncated in a line lacks its
    // end.
    if !not && !out.is_empty() && !out.ends_with(b"\n") {
        out.extend_from_slice(b"\r\n");
    }
    if !not || header.ends_with(b"\n\r\n") || header == b"\r\n" {
        out.extend_from_slice(b"\r\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body_structure;

    const MESSAGE: &str = "From: a\r\nTo: b\r\n c\r\nSubject: x\r\n\
        Content-Type: multipart/mixed; boundary=B\r\n\r\npreamble\r\n--B\r\n\r\none\r\n--B\r\n\
        Content-Type: message/rfc822\r\n\r\nSubject: inner\r\nX: y\r\n\r\ntwo\r\n\r\n--B\r\n\
        Content-Type: application/x-a\r\nContent-Transfer-Encoding: base64\r\n\r\naGVsbG8=\r\n\
        --B--\r\n";

    fn check(section: &str, expected: Option<&str>) {
        let parsed = Section::parse(section).unwrap();
        assert_eq!(parsed.to_string(), section);
        let (structure, _) = body_structure(MESSAGE.as_bytes());
        let found = parsed.of(MESSAGE.as_bytes(), &structure);
        let found = found.map(|bytes| String::from_utf8(bytes.into_owned()).unwrap());
        assert_eq!(found.as_deref(), expected, "{section}");
    }

    #[test]
    fn sections() {
        check("", Some(MESSAGE));
        let middle = MESSAGE.find("preamble").unwrap();
        check("HEADER", Some(&MESSAGE[..middle]));
        check("TEXT", Some(&MESSAGE[middle..]));
        check("HEADER.FIELDS (TO X-NONE)", Some("To: b\r\n c\r\n\r\n"));
        check("HEADER.FIELDS (X-NONE)", Some("\r\n"));
        check("HEADER.FIELDS.NOT (TO CONTENT-TYPE)", Some("From: a\r\nSubject: x\r\n\r\n"));
        check("1", Some("one"));
        check("1.MIME", Some("\r\n"));
        check("2", Some("Subject: inner\r\nX: y\r\n\r\ntwo\r\n"));
        check("2.HEADER", Some("Subject: inner\r\nX: y\r\n\r\n"));
        check("2.HEADER.FIELDS (X)", Some("X: y\r\n\r\n"));
        check("2.TEXT", Some("two\r\n"));
        check("2.1", Some("two\r\n"));
        check("2.2", None);
        check("2.1.1", None);
        check("2.MIME", Some("Content-Type: message/rfc822\r\n\r\n"));
        check("3", Some("aGVsbG8="));
        check("3.TEXT", None);
        check("4", None);
    }

    #[test]
    fn picked_fields_end_with_a_blank_line() {
        let check = |message: &str, section: &str, expected: &str| {
            let section = Section::parse(section).unwrap();
            let (structure, _) = body_structure(message.as_bytes());
            let found = section.of(message.as_bytes(), &structure).unwrap();
            assert_eq!(String::from_utf8_lossy(&found), expected, "{message:?} {section}");
        };
        for end in ["", "\r\n", "\r\n\r\n", "\r\n\r\nbody"] {
            let message = format!("A: 1\r\nB: 2{end}");
            check(&message, "HEADER.FIELDS (B)", "B: 2\r\n\r\n");
            check(&message, "HEADER.FIELDS (A B)", "A: 1\r\nB: 2\r\n\r\n");
            check(&message, "HEADER.FIELDS (A)", "A: 1\r\n\r\n");
            check(&message, "HEADER.FIELDS (C)", "\r\n");
            let enclosed = format!(
                "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\
                 Content-Type: message/rfc822\r\n\r\n{message}\r\n--b--\r\n"
            );
            check(&enclosed, "1.HEADER.FIELDS (B)", "B: 2\r\n\r\n");
        }
        check("A: 1\r\nB: 2", "HEADER.FIELDS.NOT (A)", "B: 2");
    }

    #[test]
    fn what_cannot_be_decoded_is_named() {
        let message = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\
            Content-Transfer-Encoding: X-New\r\n\r\none\r\n--b\r\n\r\ntwo\r\n--b--\r\n";
        let (structure, _) = body_structure(message.as_bytes());
        let check = |section: &str, unknown: Option<&[u8]>, expected: Option<&[u8]>| {
            let section = Section::parse(section).unwrap();
            let found = section.unknown_encoding(&structure);
            assert_eq!(found.map(<[u8]>::to_ascii_lowercase).as_deref(), unknown, "{section}");
            let decoded = section.decoded(message.as_bytes(), &structure);
            assert_eq!(decoded.as_deref(), expected, "{section}");
        };
        check("1", Some(b"x-new"), None);
        check("2", None, Some(b"two"));
        check("3", None, None);
        check("", Some(b"x-new"), None);
    }

    #[test]
    fn the_body_of_a_simple_message_is_its_part_1() {
        let message = b"Content-Transfer-Encoding: quoted-printable\r\n\r\na=3Db\r\n";
        let (structure, _) = body_structure(message);
        let section = Section::parse("1").unwrap();
        assert_eq!(section.of(message, &structure).as_deref(), Some(&b"a=3Db\r\n"[..]));
        assert_eq!(section.decoded(message, &structure).as_deref(), Some(&b"a=b\r\n"[..]));
        assert_eq!(Section::parse("1.1").unwrap().of(message, &structure), None);
    }
}

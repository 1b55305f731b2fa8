//! Parts of a message: their types, encodings and boundaries, as bogofilter tracks them.
//!
//! The open containers and the part that is read form a stack. A boundary line is compared with the
//! containers from the innermost outwards; the one that it matches closes all parts inside.

use crate::limits::{LINE_PIECE_LEN, PART_DEPTH_MAX};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PartType {
    Unknown,
    Multipart,
    Message,
    #[default]
    Text,
    Html,
    Application,
    Image,
    Audio,
    Video,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    #[default]
    Identity,
    QuotedPrintable,
    Base64,
    Uuencode,
}

/// Prefixes of types; the first that matches is used.
const TYPES: [(&str, PartType); 9] = [
    ("text/html", PartType::Html),
    ("text/plain", PartType::Text),
    ("text", PartType::Text),
    ("application/", PartType::Application),
    ("message/", PartType::Message),
    ("multipart/", PartType::Multipart),
    ("image/", PartType::Image),
    ("audio/", PartType::Audio),
    ("video/", PartType::Video),
];

#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) part_type: PartType,
    pub(super) encoding: Encoding,
    /// `true` if lines are not decoded or converted: set by the first application, image, audio or
    /// video type, and never cleared by a later `Content-Type` field.
    pub(super) is_opaque: bool,
    /// `true` if a known charset was declared for this part.
    pub(super) has_charset: bool,
    /// `true` if the disposition is `inline` or `attachment`.
    pub(super) has_disposition: bool,
    boundary: Vec<u8>,
}

impl Part {
    fn reset(&mut self) {
        let boundary = std::mem::take(&mut self.boundary);
        *self = Self { boundary, ..Self::default() };
        self.boundary.clear();
    }

    fn is_container(&self) -> bool {
        matches!(self.part_type, PartType::Message | PartType::Multipart)
    }

    /// Sets the type from the value of a `Content-Type` field.
    pub(super) fn set_type(&mut self, value: &[u8]) {
        let Some(word) = word(value) else { return };
        let is_prefix = |name: &str| {
            word.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
        };
        let found = TYPES.iter().find(|(name, _)| is_prefix(name));
        self.part_type = found.map_or(PartType::Unknown, |(_, part_type)| *part_type);
        self.is_opaque |= matches!(
            self.part_type,
            PartType::Application | PartType::Image | PartType::Audio | PartType::Video
        );
    }

    /// Sets the encoding from the value of a `Content-Transfer-Encoding` field.
    pub(super) fn set_encoding(&mut self, value: &[u8]) {
        let Some(word) = word(value) else { return };
        self.encoding = if word.eq_ignore_ascii_case(b"quoted-printable") {
            Encoding::QuotedPrintable
        } else if word.eq_ignore_ascii_case(b"base64") {
            Encoding::Base64
        } else if word.eq_ignore_ascii_case(b"x-uuencode") {
            Encoding::Uuencode
        } else {
            Encoding::Identity
        };
    }

    /// Sets the disposition from the value of a `Content-Disposition` field.
    pub(super) fn set_disposition(&mut self, value: &[u8]) {
        let Some(word) = word(value) else { return };
        self.has_disposition =
            word.eq_ignore_ascii_case(b"inline") || word.eq_ignore_ascii_case(b"attachment");
    }

    /// Sets the boundary from the text after `boundary=`. One that is longer than a piece of a
    /// line, [`LINE_PIECE_LEN`], is ignored.
    pub(super) fn set_boundary(&mut self, value: &[u8]) {
        self.boundary.clear();
        if let Some(word) = word(value)
            && word.len() <= LINE_PIECE_LEN
        {
            self.boundary.extend_from_slice(word);
        }
    }
}

/// Returns the first word: after blanks, up to the next blank or, if it starts with a quote, up to
/// the next quote.
fn word(value: &[u8]) -> Option<&[u8]> {
    let start = value.iter().position(|byte| !matches!(byte, b' ' | b'\t'))?;
    let value = &value[start..];
    let end_of = |value: &[u8], is_end: fn(u8) -> bool| {
        value.iter().position(|&byte| is_end(byte)).unwrap_or(value.len())
    };
    match value.strip_prefix(b"\"") {
        Some(quoted) => Some(&quoted[..end_of(quoted, |byte| byte == b'"')]),
        None => Some(&value[..end_of(value, |byte| matches!(byte, b' ' | b'\t'))]),
    }
}

/// The open parts of a message, the outermost first. Parts that were closed keep their buffers.
#[derive(Debug, Default)]
pub(super) struct Parts {
    parts: Vec<Part>,
    depth: usize,
}

impl Parts {
    pub(super) fn reset(&mut self) {
        self.depth = 0;
        self.push();
    }

    fn push(&mut self) {
        if self.depth >= PART_DEPTH_MAX {
            return;
        }
        if self.depth == self.parts.len() {
            self.parts.push(Part::default());
        }
        self.parts[self.depth].reset();
        self.depth += 1;
    }

    /// Returns the part that is read.
    pub(super) fn part(&self) -> &Part {
        &self.parts[self.depth - 1]
    }

    pub(super) fn part_mut(&mut self) -> &mut Part {
        &mut self.parts[self.depth - 1]
    }

    /// Returns the type of the container of the part that is read; `None` for the message itself.
    pub(super) fn parent_type(&self) -> Option<PartType> {
        let parent = self.depth.checked_sub(2)?;
        Some(self.parts[parent].part_type)
    }

    /// Begins the message inside a part of the type message.
    pub(super) fn push_message(&mut self) {
        self.push();
    }

    /// Returns `true` if a line is a boundary of an open container. If so, the parts inside are
    /// closed, and unless the boundary is a final one the next part begins.
    pub(super) fn take_boundary(&mut self, line: &[u8]) -> bool {
        let Some((depth, is_final)) = self.find_boundary(line) else { return false };
        self.depth = depth + 1;
        if !is_final {
            self.push();
        }
        true
    }

    fn find_boundary(&self, line: &[u8]) -> Option<(usize, bool)> {
        let mut end = line.len();
        while end > 2 && matches!(line[end - 1], b'\r' | b'\n') {
            end -= 1;
        }
        let name = line[..end].strip_prefix(b"--").filter(|name| !name.is_empty())?;
        let open = self.parts[..self.depth].iter().enumerate().rev();
        for (depth, part) in open.filter(|(_, part)| part.is_container()) {
            let boundary = part.boundary.as_slice();
            let is_same = matches!(name.len().checked_sub(boundary.len()), Some(0 | 2));
            if is_same && !boundary.is_empty() && name.starts_with(boundary) {
                return Some((depth, &name[boundary.len()..] == b"--"));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_found_from_the_inside() {
        let mut parts = Parts::default();
        parts.reset();
        parts.part_mut().set_type(b" Multipart/mixed; x");
        parts.part_mut().set_boundary(b"\"a b\" c");
        assert!(!parts.take_boundary(b"--a\n"));
        assert!(parts.take_boundary(b"--a b\r\n"));
        assert_eq!(parts.depth, 2);
        parts.part_mut().set_type(b"multipart/alternative");
        parts.part_mut().set_boundary(b"in");
        assert!(parts.take_boundary(b"--in\n") && parts.depth == 3);
        assert!(parts.take_boundary(b"--in--\n") && parts.depth == 2);
        assert!(parts.take_boundary(b"--a b") && parts.depth == 2);
        assert!(parts.take_boundary(b"--a b--") && parts.depth == 1);
    }

    #[test]
    fn nesting_ends_somewhere() {
        let mut parts = Parts::default();
        parts.reset();
        for _ in 0..10_000 {
            parts.part_mut().set_type(b"message/rfc822");
            parts.push_message();
        }
        assert_eq!(parts.depth, PART_DEPTH_MAX);
    }
}

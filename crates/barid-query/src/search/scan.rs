//! The search for texts in whole messages.
//!
//! These are searched separately: the header of every part, with names, decoded; the body of every
//! part of type text or message, without its transfer encoding and in UTF-8. A part with an unknown
//! transfer encoding is not text (RFC 2045 §6.4), nor are the bytes between parts. Most messages
//! are plain: their bytes are searched directly.

use std::borrow::Cow;

use barid_message::{
    attachments, body_structure, decode_plain, fields, is_known_encoding, part_text, raw_header,
};
use barid_types::BodyStructure;

use super::fold::{Needle, fold_into, push_upper};
use super::header::push_header;
use crate::limits::SEARCH_BUFFER_KEPT_LEN;

/// A text to search for in a message.
pub(crate) struct Want<'n> {
    pub(crate) needle: &'n Needle,
    /// `true` to search headers too.
    pub(crate) in_headers: bool,
    pub(crate) is_found: bool,
}

/// Buffers for folded text, reused for each message.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub(crate) line: Vec<u8>,
    pub(crate) folded: Vec<u8>,
}

impl Buffers {
    /// Frees the memory that a huge message needed.
    pub(crate) fn trim(&mut self) {
        for buffer in [&mut self.line, &mut self.folded] {
            buffer.clear();
            buffer.shrink_to(SEARCH_BUFFER_KEPT_LEN);
        }
    }
}

/// A text of a message that is searched by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MessageText<'m> {
    /// The raw header of the message itself, or of a part.
    Header {
        /// The fields.
        raw: &'m [u8],
        /// `true` for the header of the message itself.
        is_root: bool,
    },
    /// A body that is ASCII and not encoded.
    Ascii(&'m [u8]),
    /// A body without its transfer encoding, in UTF-8.
    Text(&'m str),
}

/// Visits the texts of a message until `visit` returns `false`: headers, and the bodies that are
/// text, in the order of the message. Returns the structure, if it was needed.
pub(crate) fn each_text(
    message: &[u8],
    visit: &mut dyn FnMut(MessageText<'_>) -> bool,
) -> Option<BodyStructure> {
    let root = Root::of(message);
    let body = &message[root.body_at..];
    if !visit(MessageText::Header { raw: &message[..root.body_at], is_root: true }) {
        return None;
    }
    match root.kind() {
        RootKind::NoText => {}
        RootKind::Text if body.is_ascii() => drop(visit(MessageText::Ascii(body))),
        RootKind::Text => drop(visit(MessageText::Text(&decode_plain(body)))),
        RootKind::Other => {
            let structure = body_structure(message).0;
            each_text_of_parts(message, &structure, visit);
            return Some(structure);
        }
    }
    None
}

/// Returns the structure of a message whose structure [`each_text`] did not need, if it may have a
/// file name or be an attachment.
pub(crate) fn structure_of_file(message: &[u8]) -> Option<BodyStructure> {
    let root = Root::of(message);
    let may_be_file = root.kind() == RootKind::NoText || root.may_be_file();
    may_be_file.then(|| body_structure(message).0)
}

/// Visits the texts of all parts except the header of the first.
fn each_text_of_parts(
    message: &[u8],
    root: &BodyStructure,
    visit: &mut dyn FnMut(MessageText<'_>) -> bool,
) {
    let mut open = vec![root];
    while let Some(part) = open.pop() {
        let raw = raw_header(message, part);
        if !std::ptr::eq(part, root) && !visit(MessageText::Header { raw, is_root: false }) {
            return;
        }
        if is_text(part) && !visit(MessageText::Text(&part_text(message, part).0)) {
            return;
        }
        open.extend(part.parts.iter().rev());
    }
}

/// Marks the texts that a message contains.
pub(crate) fn scan(message: &[u8], wants: &mut [Want<'_>], buffers: &mut Buffers) {
    each_text(message, &mut |text| scan_one(text, wants, buffers));
    buffers.trim();
}

/// Searches one text; returns `true` if a text to search for is left.
fn scan_one(text: MessageText<'_>, wants: &mut [Want<'_>], buffers: &mut Buffers) -> bool {
    match text {
        MessageText::Header { raw, is_root } => scan_header(raw, is_root, wants, buffers),
        MessageText::Ascii(body) => scan_ascii(body, wants, buffers),
        MessageText::Text(body) => scan_text(body, wants, buffers),
    }
    !are_found(wants)
}

fn are_found(wants: &[Want<'_>]) -> bool {
    wants.iter().all(|want| want.is_found)
}

/// Returns `true` if a message has a part to be saved rather than read.
pub(crate) fn has_attachment(message: &[u8]) -> bool {
    let root = Root::of(message);
    if root.kind() == RootKind::Text && !root.has_disposition {
        return false;
    }
    !attachments(&body_structure(message).0).is_empty()
}

/// The fields of a message's header that describe its body.
#[derive(Default)]
struct Root<'a> {
    body_at: usize,
    content_type: Option<&'a [u8]>,
    encoding: Option<&'a [u8]>,
    has_disposition: bool,
}

impl<'a> Root<'a> {
    /// Reads the fields in one pass over the header.
    fn of(message: &'a [u8]) -> Self {
        let mut root = Self::default();
        let mut fields = fields(message);
        for field in fields.by_ref() {
            let name = field.name;
            if !matches!(name.first(), Some(b'c' | b'C')) {
                continue;
            }
            if root.content_type.is_none() && name.eq_ignore_ascii_case(b"content-type") {
                root.content_type = Some(field.body);
            } else if root.encoding.is_none()
                && name.eq_ignore_ascii_case(b"content-transfer-encoding")
            {
                root.encoding = Some(field.body);
            } else if name.eq_ignore_ascii_case(b"content-disposition") {
                root.has_disposition = true;
            }
        }
        root.body_at = fields.offset();
        root
    }
}

/// The kind of a message, as far as its own header determines it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RootKind {
    /// One part of text that is not encoded, in UTF-8 or ASCII.
    Text,
    /// One part that is not text.
    NoText,
    /// The parts must be read.
    Other,
}

impl Root<'_> {
    /// Returns `true` if a part of text may have a file name or be an attachment.
    fn may_be_file(&self) -> bool {
        let has_name =
            |field: &[u8]| field.windows(4).any(|four| four.eq_ignore_ascii_case(b"name"));
        self.has_disposition || self.content_type.is_some_and(has_name)
    }

    fn kind(&self) -> RootKind {
        let as_it_stands = self.encoding.is_none_or(|encoding| {
            [&b"7bit"[..], b"8bit", b"binary"]
                .iter()
                .any(|known| known.eq_ignore_ascii_case(encoding))
        });
        let Some(kind) = self.content_type else {
            return if as_it_stands { RootKind::Text } else { RootKind::Other };
        };
        let end = kind.iter().position(|byte| matches!(byte, b';' | b' ' | b'\t' | b'\r' | b'\n'));
        let (media_type, parameters) = kind.split_at(end.unwrap_or(kind.len()));
        let token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'+');
        let mut names = media_type.split(|byte| *byte == b'/');
        let (top, sub, end) = (names.next(), names.next(), names.next());
        let named =
            |name: Option<&[u8]>| name.is_some_and(|n| !n.is_empty() && n.iter().all(token));
        if !named(top) || !named(sub) || end.is_some() {
            return RootKind::Other;
        }
        let is = |name: &[u8]| top.is_some_and(|top| top.eq_ignore_ascii_case(name));
        match (is(b"text"), is(b"multipart") || is(b"message")) {
            (true, _) if as_it_stands && is_utf8(parameters) => RootKind::Text,
            (false, false) => RootKind::NoText,
            _ => RootKind::Other,
        }
    }
}

/// Returns `true` if parameters are written in the usual way and name no charset but ASCII or
/// UTF-8.
fn is_utf8(parameters: &[u8]) -> bool {
    if parameters.iter().any(|byte| matches!(byte, b'(' | b'*' | b'\\')) {
        return false;
    }
    let mut charsets = parameters.split(|byte| *byte == b';').filter_map(|parameter| {
        let parameter = parameter.trim_ascii();
        let (name, value) = parameter.split_at_checked(7)?;
        name.eq_ignore_ascii_case(b"charset").then(|| value.trim_ascii_start())
    });
    let value = charsets.next();
    let Some(value) = value else { return true };
    let value = value.strip_prefix(b"=").unwrap_or_default().trim_ascii();
    let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    let bare = bare.unwrap_or(value);
    charsets.next().is_none()
        && [&b"utf-8"[..], b"us-ascii"].iter().any(|known| known.eq_ignore_ascii_case(bare))
}

/// Returns `true` if the body of a part is text to be searched.
fn is_text(part: &BodyStructure) -> bool {
    let is = |name: &[u8]| part.media_type.eq_ignore_ascii_case(name);
    part.parts.is_empty() && (is(b"text") || is(b"message")) && is_known_encoding(&part.encoding)
}

fn scan_header(header: &[u8], is_root: bool, wants: &mut [Want<'_>], buffers: &mut Buffers) {
    let is_wanted = |want: &Want<'_>| want.in_headers && !want.is_found;
    let Buffers { line, folded } = buffers;
    let is_plain = header.is_ascii() && memchr::memmem::find(header, b"=?").is_none();
    if is_plain && wants.iter().any(is_wanted) {
        // A text that is not in the raw bytes is not in the unfolded lines either.
        folded.clear();
        push_upper(header, folded);
        let may_be = |want: &&Want<'_>| {
            let needle = want.needle;
            needle.is_ascii && (needle.has_blank || needle.has_break || needle.is_in(folded))
        };
        if !wants.iter().filter(|want| is_wanted(want)).any(|want| may_be(&want)) {
            return;
        }
    }
    if !wants.iter().any(is_wanted) {
        return;
    }
    folded.clear();
    push_header(header, is_root, line, folded);
    find(wants, is_wanted, folded);
}

fn find(wants: &mut [Want<'_>], is_wanted: impl Fn(&Want<'_>) -> bool, folded: &[u8]) {
    for want in wants.iter_mut().filter(|want| is_wanted(want)) {
        want.is_found = want.needle.is_in(folded);
    }
}

/// Searches a body that is ASCII and not encoded.
fn scan_ascii(body: &[u8], wants: &mut [Want<'_>], buffers: &mut Buffers) {
    let is_wanted = |want: &Want<'_>| want.needle.is_ascii && !want.is_found;
    if !wants.iter().any(is_wanted) {
        return;
    }
    buffers.folded.clear();
    push_upper(body, &mut buffers.folded);
    finish(wants, is_wanted, buffers);
}

/// Searches a body in UTF-8.
fn scan_text(text: &str, wants: &mut [Want<'_>], buffers: &mut Buffers) {
    if text.is_ascii() {
        return scan_ascii(text.as_bytes(), wants, buffers);
    }
    buffers.folded.clear();
    fold_into(text, &mut buffers.folded);
    finish(wants, |want| !want.is_found, buffers);
}

fn finish(wants: &mut [Want<'_>], is_wanted: impl Fn(&Want<'_>) -> bool, buffers: &mut Buffers) {
    find(wants, |want| is_wanted(want) && !want.needle.has_break, &buffers.folded);
    if wants.iter().any(|want| is_wanted(want) && want.needle.has_break) {
        let folded = with_line_feeds(&buffers.folded);
        find(wants, |want| is_wanted(want) && want.needle.has_break, &folded);
    }
}

/// Returns a text with LF for CRLF, as search texts have it.
pub(super) fn with_line_feeds(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\r', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\r\n") {
            Some(line) => {
                out.extend_from_slice(line);
                out.push(b'\n');
            }
            None => out.extend_from_slice(line),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;

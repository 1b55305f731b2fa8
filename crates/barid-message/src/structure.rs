//! The MIME structure of a message (RFC 2045, RFC 2046, RFC 9051 §7.5.2 BODYSTRUCTURE).
//!
//! The walker reads the message once, line by line, with a stack of open parts instead of
//! recursion. Every part records the range of its bytes in the stored message, whatever its line
//! ends. The line end before a boundary belongs to the boundary. Only the header that is being read
//! is kept in memory, so that a message can also arrive in pieces ([`StructureReader`]).

use std::borrow::Cow;

use barid_types::{BodyStructure, Disposition};

use crate::defect::{Defect, DefectKind, Defects};
use crate::fields::{fields, is_empty_line, line_end, trim};
use crate::limits::{DEPTH_MAX, LINE_PIECE_LEN, PARTS_MAX};
use crate::params::{content_type, disposition, first_token, languages};
use crate::{envelope, parameter, unfold};

/// Returns the structure of a message, and its defects.
///
/// Parts contain only what their headers say: a text without a charset has none, where servers
/// report `us-ascii`. A multipart whose boundary is missing or never occurs has no parts. Parts
/// nested deeper than [`DEPTH_MAX`] are not divided; after [`PARTS_MAX`] parts no boundary counts.
/// One pass.
pub fn body_structure(message: &[u8]) -> (BodyStructure, Vec<Defect>) {
    let mut walker = Walker::new();
    let mut at = 0;
    while at < message.len() {
        let end = line_end(message, at);
        walker.line(&message[at..end], true);
        at = end;
    }
    walker.finish()
}

/// A reader for the structure of a message that arrives in pieces of any length, for messages that
/// are too large for memory: it stores the structure so far and one header.
pub struct StructureReader {
    walker: Walker,
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// `true` if the beginning of that line was already read.
    is_continued: bool,
}

impl Default for StructureReader {
    fn default() -> Self {
        Self { walker: Walker::new(), line: Vec::new(), is_continued: false }
    }
}

impl StructureReader {
    /// Reads on, and appends the bytes read to `kept`, except for the bodies of undivided parts
    /// that `keeps` rejects. `keeps` is called with all properties from the header of a part.
    ///
    /// The kept bytes are a message with the same parts, some of which are empty.
    pub fn read(
        &mut self,
        mut bytes: &[u8],
        keeps: &dyn Fn(&BodyStructure) -> bool,
        kept: &mut Vec<u8>,
    ) {
        while !bytes.is_empty() {
            let end = memchr::memchr(b'\n', bytes).map(|at| at + 1);
            let (head, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            bytes = rest;
            if end.is_some() && self.line.is_empty() {
                self.piece(head, true, keeps, kept);
                continue;
            }
            self.line.extend_from_slice(head);
            if end.is_some() || self.line.len() >= LINE_PIECE_LEN {
                let mut line = std::mem::take(&mut self.line);
                // A CR may be the first half of a line end.
                let len = line.len() - usize::from(line.ends_with(b"\r"));
                self.piece(&line[..len], end.is_some(), keeps, kept);
                line.drain(..len);
                self.line = line;
            }
        }
    }

    /// Returns the length in bytes of the header in memory: a header without an end takes that much
    /// memory.
    pub fn header_len(&self) -> usize {
        self.walker.header.len()
    }

    /// Ends the message: reads the last line if it has no end. Returns the structure, as
    /// [`body_structure`] does.
    pub fn finish(
        mut self,
        keeps: &dyn Fn(&BodyStructure) -> bool,
        kept: &mut Vec<u8>,
    ) -> (BodyStructure, Vec<Defect>) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.piece(&line, true, keeps, kept);
        }
        self.walker.finish()
    }

    fn piece(
        &mut self,
        line: &[u8],
        is_end: bool,
        keeps: &dyn Fn(&BodyStructure) -> bool,
        kept: &mut Vec<u8>,
    ) {
        let depth = self.walker.leaf_depth();
        self.walker.line(line, !self.is_continued);
        self.is_continued = !is_end;
        // Only a boundary ends a part.
        let is_body = depth.is_some() && self.walker.leaf_depth() == depth;
        if !is_body || self.walker.stack.last().is_some_and(|open| keeps(&open.part)) {
            kept.extend_from_slice(line);
        }
    }
}

/// An offset in the message, with the number of line feeds before it and how many of them are bare.
#[derive(Clone, Copy, Default)]
struct Mark {
    offset: usize,
    line_feeds: u64,
    bare: u64,
}

enum OpenPartKind {
    /// Its header is being read.
    Header,
    /// No parts.
    Leaf,
    /// The boundary with its `--`; empty once it was closed.
    Multipart { delimiter: Vec<u8>, digest: bool, seen: bool },
    /// `message/rfc822`
    Message,
}

struct OpenPart {
    part: BodyStructure,
    kind: OpenPartKind,
    /// `true` for a part of a `multipart/digest`, where `message/rfc822` is the default type.
    in_digest: bool,
    body: Mark,
}

struct Walker {
    stack: Vec<OpenPart>,
    /// The header of the innermost part, while it is being read.
    header: Vec<u8>,
    /// The start of the line being read.
    here: Mark,
    /// The end of the text of the line before, its line end left out.
    before: Mark,
    parts: usize,
    defects: Defects,
    root: BodyStructure,
}

impl Walker {
    fn new() -> Self {
        let mut walker = Self {
            stack: Vec::new(),
            header: Vec::new(),
            here: Mark::default(),
            before: Mark::default(),
            parts: 0,
            defects: Defects::default(),
            root: BodyStructure::default(),
        };
        walker.open(0, false);
        walker
    }

    /// Starts a part whose header starts at `offset`.
    fn open(&mut self, offset: usize, in_digest: bool) {
        self.parts += 1;
        self.header.clear();
        let part = BodyStructure { header_offset: offset as u64, ..BodyStructure::default() };
        self.stack.push(OpenPart {
            part,
            kind: OpenPartKind::Header,
            in_digest,
            body: Mark::default(),
        });
    }

    /// Reads a line, or a piece of a long one; a piece that is not its start is neither a boundary
    /// nor empty.
    fn line(&mut self, line: &[u8], is_start: bool) {
        let start = self.here.offset;
        let next = self.after(line, start + line.len());
        if is_start && line.starts_with(b"--") && self.boundary(line, next) {
            // The line end before it belongs to the boundary.
        } else if self.in_header() {
            self.header.extend_from_slice(line);
            if is_start && is_empty_line(line) {
                self.end_header(next);
            }
        }
        self.before = self.text_end(line, start);
        self.here = next;
    }

    /// Returns the depth of the innermost part if its body is being read and is not divided.
    fn leaf_depth(&self) -> Option<(usize, usize)> {
        let open = self.stack.last()?;
        matches!(open.kind, OpenPartKind::Leaf).then_some((self.stack.len(), self.parts))
    }

    fn after(&self, line: &[u8], end: usize) -> Mark {
        let fed = line.ends_with(b"\n");
        let bare = fed && !line.ends_with(b"\r\n");
        let Mark { line_feeds, bare: bares, .. } = self.here;
        let (line_feeds, bare) = (line_feeds + u64::from(fed), bares + u64::from(bare));
        Mark { offset: end, line_feeds, bare }
    }

    fn text_end(&self, line: &[u8], start: usize) -> Mark {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        Mark { offset: start + text.len(), ..self.here }
    }

    fn in_header(&self) -> bool {
        matches!(self.stack.last(), Some(OpenPart { kind: OpenPartKind::Header, .. }))
    }

    /// Handles a line that starts with `--`; `false` if it is not a boundary of an open multipart.
    fn boundary(&mut self, line: &[u8], next: Mark) -> bool {
        let matched = self.stack.iter().enumerate().rev().find_map(|(level, open)| {
            let OpenPartKind::Multipart { delimiter, digest, .. } = &open.kind else { return None };
            if delimiter.is_empty() {
                return None;
            }
            let rest = trim_end(line.strip_prefix(&**delimiter)?);
            matches!(rest, b"" | b"--").then_some((level, !rest.is_empty(), *digest))
        });
        let Some((level, closing, digest)) = matched else { return false };
        if self.parts >= PARTS_MAX && !closing {
            self.defects.add(DefectKind::TooManyParts, self.here.offset);
            return false;
        }
        let mut end = self.before;
        while self.stack.len() > level + 1 {
            // A body cannot end before it starts, as it would where a boundary follows a header.
            if self.stack.last().is_some_and(|open| self.starts_after(open)) {
                end = self.here;
            }
            self.close(end);
        }
        if let Some(OpenPart { kind: OpenPartKind::Multipart { delimiter, seen, .. }, .. }) =
            self.stack.last_mut()
        {
            *seen = true;
            if closing {
                delimiter.clear();
            }
        }
        if !closing {
            self.open(next.offset, digest);
        }
        true
    }

    fn starts_after(&self, open: &OpenPart) -> bool {
        let start = match open.kind {
            OpenPartKind::Header => open.part.header_offset as usize,
            _ => open.body.offset,
        };
        start > self.before.offset
    }

    /// Reads the header of the innermost part, whose body starts at `body`.
    fn end_header(&mut self, body: Mark) {
        let depth = self.stack.len();
        let Some(open) = self.stack.last_mut() else { return };
        let from = open.part.header_offset as usize;
        let header = std::mem::take(&mut self.header);
        open.body = body;
        open.part.body_offset = body.offset as u64;
        let names_a_message = depth == 1 || is_in_message(&self.stack);
        self.note_envelope(&header);
        let Some(open) = self.stack.last_mut() else { return };
        read_header(&header, from, open.in_digest, &mut open.part, &mut self.defects);
        check_header(&header, from, names_a_message, &mut self.defects);
        self.header = header;
        let part = &open.part;
        let is_multipart = part.media_type.eq_ignore_ascii_case(b"multipart");
        let is_message = is_message(part);
        let encoded =
            !matches!(&*part.encoding.to_ascii_lowercase(), b"7bit" | b"8bit" | b"binary");
        if (is_multipart || is_message) && encoded {
            self.defects.add(DefectKind::EncodedContainer, from);
        }
        open.kind = OpenPartKind::Leaf;
        if (is_multipart || is_message) && depth >= DEPTH_MAX {
            self.defects.add(DefectKind::TooDeep, from);
        } else if is_multipart {
            match delimiter(part) {
                Some(delimiter) => {
                    let digest = part.subtype.eq_ignore_ascii_case(b"digest");
                    open.kind = OpenPartKind::Multipart { delimiter, digest, seen: false };
                }
                None => self.defects.add(DefectKind::MissingBoundary, from),
            }
        } else if is_message {
            open.kind = OpenPartKind::Message;
            self.open(body.offset, false);
        }
    }

    /// Ends the innermost part at `end` and puts it into the one around it.
    fn close(&mut self, end: Mark) {
        if self.in_header() {
            self.end_header_at(end);
        }
        let Some(OpenPart { mut part, kind, body, .. }) = self.stack.pop() else { return };
        part.body_end = end.offset as u64;
        part.lines = end.line_feeds - body.line_feeds;
        part.size = (end.offset - body.offset) as u64 + end.bare - body.bare;
        match kind {
            OpenPartKind::Multipart { seen: false, .. } => {
                self.defects.add(DefectKind::BoundaryNotFound, body.offset);
            }
            OpenPartKind::Multipart { delimiter, .. } if !delimiter.is_empty() => {
                self.defects.add(DefectKind::UnclosedMultipart, end.offset);
            }
            _ => {}
        }
        match self.stack.last_mut() {
            Some(outer) => outer.part.parts.push(part),
            None => self.root = part,
        }
    }

    /// Ends a header that has no empty line after it; whatever its type, there is no body to
    /// divide.
    fn end_header_at(&mut self, end: Mark) {
        let names_a_message = self.stack.len() == 1 || is_in_message(&self.stack);
        let Some(open) = self.stack.last_mut() else { return };
        let from = open.part.header_offset as usize;
        let end = Mark { offset: end.offset.max(from), ..end };
        let mut header = std::mem::take(&mut self.header);
        header.truncate(end.offset - from);
        open.body = end;
        open.part.body_offset = end.offset as u64;
        open.kind = OpenPartKind::Leaf;
        read_header(&header, from, open.in_digest, &mut open.part, &mut self.defects);
        check_header(&header, from, names_a_message, &mut self.defects);
        self.note_envelope(&header);
        if names_a_message {
            self.defects.add(DefectKind::MissingBlankLine, end.offset);
        }
        if let Some(open) = self.stack.last_mut().filter(|open| is_message(&open.part)) {
            open.part.envelope = Some(Box::default());
            open.part.parts.push(empty_text(end.offset));
        }
    }

    /// Stores the envelope from the header in the message part around the innermost part.
    fn note_envelope(&mut self, header: &[u8]) {
        if let [.., OpenPart { kind: OpenPartKind::Message, part, .. }, _] = &mut *self.stack {
            part.envelope = Some(Box::new(envelope(header)));
        }
    }

    fn finish(mut self) -> (BodyStructure, Vec<Defect>) {
        while !self.stack.is_empty() {
            self.close(self.here);
        }
        (self.root, self.defects.into_vec())
    }
}

fn is_in_message(stack: &[OpenPart]) -> bool {
    matches!(stack, [.., OpenPart { kind: OpenPartKind::Message, .. }, _])
}

/// Returns `true` if a part is an enclosed message, which is parsed further: `message/rfc822` or
/// `message/global` (RFC 6532).
pub fn is_message(part: &BodyStructure) -> bool {
    part.media_type.eq_ignore_ascii_case(b"message")
        && (part.subtype.eq_ignore_ascii_case(b"rfc822")
            || part.subtype.eq_ignore_ascii_case(b"global"))
}

fn empty_text(offset: usize) -> BodyStructure {
    let offset = offset as u64;
    BodyStructure {
        media_type: b"text".to_vec(),
        subtype: b"plain".to_vec(),
        encoding: b"7bit".to_vec(),
        header_offset: offset,
        body_offset: offset,
        body_end: offset,
        ..BodyStructure::default()
    }
}

/// Returns `"--" boundary` of a multipart, without trailing white space, which is not part of it.
fn delimiter(part: &BodyStructure) -> Option<Vec<u8>> {
    let named = |name: &[u8]| name.eq_ignore_ascii_case(b"boundary");
    let plain = part.parameters.iter().find(|parameter| named(&parameter.name));
    let boundary = match plain {
        Some(plain) => Cow::Borrowed(&*plain.value),
        // Written in the extended form of RFC 2231, which occurs.
        None => Cow::Owned(parameter(&part.parameters, "boundary")?.into_owned().into_bytes()),
    };
    let boundary = boundary.trim_ascii_end();
    (!boundary.is_empty()).then(|| [b"--", boundary].concat())
}

fn trim_end(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\t' | b'\r' | b'\n'] = text {
        text = rest;
    }
    text
}

/// Fills the fields of a part from its header.
fn read_header(
    header: &[u8],
    offset: usize,
    in_digest: bool,
    part: &mut BodyStructure,
    defects: &mut Defects,
) {
    let mut has_type = false;
    for field in fields(header) {
        let Some(name) = content_name(field.name) else { continue };
        let body = field.body;
        let text = || Some(unfold(trim(body)).into_owned());
        match &*name {
            b"type" if !has_type => match content_type(body) {
                Some((media_type, subtype, parameters)) => {
                    has_type = true;
                    (part.media_type, part.subtype) = (media_type, subtype);
                    part.parameters = parameters;
                }
                None => defects.add(DefectKind::BadContentType, offset + field.offset),
            },
            b"transfer-encoding" if part.encoding.is_empty() => {
                part.encoding = first_token(body).unwrap_or_default();
            }
            b"disposition" if part.disposition.is_none() => {
                part.disposition =
                    disposition(body).map(|(kind, parameters)| Disposition { kind, parameters });
            }
            b"id" if part.id.is_none() => part.id = text(),
            b"description" if part.description.is_none() => part.description = text(),
            b"md5" if part.md5.is_none() => part.md5 = text(),
            b"location" if part.location.is_none() => part.location = text(),
            b"language" if part.language.is_empty() => part.language = languages(body),
            _ => {}
        }
    }
    if !has_type {
        let (media_type, subtype) =
            if in_digest { ("message", "rfc822") } else { ("text", "plain") };
        (part.media_type, part.subtype) = (media_type.into(), subtype.into());
    }
    if part.encoding.is_empty() {
        part.encoding = b"7bit".to_vec();
    }
}

/// Returns the rest of a field name after `Content-`, in lower case.
fn content_name(name: &[u8]) -> Option<Vec<u8>> {
    let (head, tail) = name.split_at_checked(8)?;
    head.eq_ignore_ascii_case(b"content-").then(|| tail.to_ascii_lowercase())
}

/// Reports the defects of a header itself.
fn check_header(header: &[u8], offset: usize, names_a_message: bool, defects: &mut Defects) {
    if let Some(nul) = memchr::memchr(0, header) {
        defects.add(DefectKind::NulInHeader, offset + nul);
    }
    let junk = |field: &crate::RawField<'_>| field.name.is_empty();
    if let Some(field) = fields(header).find(junk).filter(|_| names_a_message) {
        defects.add(DefectKind::JunkHeaderLine, offset + field.offset);
    }
}

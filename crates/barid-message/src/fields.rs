//! The header scanner: finds fields in one pass without allocating.
//!
//! A header ends at the first empty line, which may be missing. Lines end in LF or CRLF. A line
//! that starts with a space or a tab continues the one before (RFC 5322 §2.2.3). A line without a
//! colon is junk and is skipped with its continuations. Nothing is decoded and nothing is copied.

use memchr::memchr;
use xxhash_rust::xxh3::xxh3_64;

use crate::owned;

/// The fields that a header cache needs, as raw bodies.
///
/// A body is still folded; white space and line ends around it are trimmed. The first occurrence of
/// a repeated field counts, as in Dovecot (`mail_get_first_header`) and c-client
/// (`rfc822_parse_msg_full`), also for `Message-ID` and `References`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderFields<'a> {
    /// `Date`.
    pub date: Option<&'a [u8]>,
    /// `From`.
    pub from: Option<&'a [u8]>,
    /// `Sender`.
    pub sender: Option<&'a [u8]>,
    /// `Reply-To`.
    pub reply_to: Option<&'a [u8]>,
    /// `To`.
    pub to: Option<&'a [u8]>,
    /// `Cc`.
    pub cc: Option<&'a [u8]>,
    /// `Bcc`.
    pub bcc: Option<&'a [u8]>,
    /// `Subject`.
    pub subject: Option<&'a [u8]>,
    /// `Message-ID`.
    pub message_id: Option<&'a [u8]>,
    /// `In-Reply-To`.
    pub in_reply_to: Option<&'a [u8]>,
    /// `References`.
    pub references: Option<&'a [u8]>,
}

/// The result of one pass over a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderScan<'a> {
    /// The fields.
    pub fields: HeaderFields<'a>,
    /// `true` if one of these fields occurs more than once.
    pub has_repeats: bool,
    /// Offset of the body: after the empty line, or the length of the input if there is none.
    pub body_offset: usize,
}

impl<'a> HeaderFields<'a> {
    /// Returns the fields of a header, or of a whole message; see [`HeaderScan::new`].
    pub fn scan(header: &'a [u8]) -> Self {
        HeaderScan::new(header).fields
    }

    /// Returns the slot of the field that starts with `line`, and the offset of its value in the
    /// line.
    #[inline]
    fn slot(&mut self, line: &[u8]) -> Option<(&mut Option<&'a [u8]>, usize)> {
        let (name, slot): (&[u8], _) = match line[0] | 0x20 {
            b'd' => (b"date", &mut self.date),
            b'f' => (b"from", &mut self.from),
            b't' => (b"to", &mut self.to),
            b'c' => (b"cc", &mut self.cc),
            b'b' => (b"bcc", &mut self.bcc),
            b'm' => (b"message-id", &mut self.message_id),
            b'i' => (b"in-reply-to", &mut self.in_reply_to),
            b's' => match line.get(1)? | 0x20 {
                b'u' => (b"subject", &mut self.subject),
                _ => (b"sender", &mut self.sender),
            },
            b'r' => match line.get(2)? | 0x20 {
                b'f' => (b"references", &mut self.references),
                _ => (b"reply-to", &mut self.reply_to),
            },
            _ => return None,
        };
        value_start(line, name).map(|value| (slot, value))
    }
}

impl<'a> HeaderScan<'a> {
    /// Finds the fields in a header. Also accepts a whole message, whose body is ignored.
    ///
    /// Costs one search for each line end; never allocates.
    pub fn new(header: &'a [u8]) -> Self {
        Self::scan_lines(header, |_, _| {})
    }

    /// Computes [`HeaderScan::new`] and [`crate::header_key`] in one pass if all lines of the
    /// header end in LF and it has none of the fields that the key leaves out; else in two.
    pub fn with_key(header: &'a [u8]) -> (Self, u64) {
        let (mut plain, mut fields_end) = (true, 0);
        let scan = Self::scan_lines(header, |start, end| {
            let line = &header[start..end];
            let is_plain = line.ends_with(b"\n") && !line.ends_with(b"\r\n");
            plain &= is_plain && !owned::is_left_out_of_key(line);
            fields_end = end;
        });
        let key = match plain {
            true => xxh3_64(&header[..fields_end]),
            false => owned::header_key(header),
        };
        (scan, key)
    }

    /// Calls `visit` with the range of each line before the empty one. A continuation line is
    /// passed without the field that it continues.
    #[inline]
    fn scan_lines(header: &'a [u8], mut visit: impl FnMut(usize, usize)) -> Self {
        let mut scan = Self::default();
        let mut at = 0;
        while at < header.len() {
            let first = header[at];
            let line_end = line_end(header, at);
            if first == b'\n' || (first == b'\r' && header.get(at + 1) == Some(&b'\n')) {
                scan.body_offset = line_end;
                return scan;
            }
            visit(at, line_end);
            let found = scan.fields.slot(&header[at..line_end]);
            let start = at;
            at = line_end;
            while matches!(header.get(at), Some(b' ' | b'\t')) {
                let line_end = self::line_end(header, at);
                visit(at, line_end);
                at = line_end;
            }
            if let Some((slot, value)) = found {
                let repeats = slot.is_some();
                slot.get_or_insert_with(|| trim(&header[start + value..at]));
                scan.has_repeats |= repeats;
            }
        }
        scan.body_offset = header.len();
        scan
    }
}

/// One field of a header, or one junk line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawField<'a> {
    /// The name as written, without the white space before the colon; empty for a junk line.
    pub name: &'a [u8],
    /// The raw body: still folded, white space and line ends around it trimmed; for a junk line,
    /// all of it.
    pub body: &'a [u8],
    /// The raw body with the white space after it, up to its last line end.
    pub padded: &'a [u8],
    /// Offset of the field in the header.
    pub offset: usize,
    /// Offset of the field's end in the header, after its last line end.
    pub end: usize,
}

/// Walks over all fields of a header in their order, junk lines included, up to the empty line.
///
/// Also accepts a whole message, whose body is ignored. Costs O(header) altogether.
pub fn fields(header: &[u8]) -> Fields<'_> {
    Fields { header, at: 0, ended: false }
}

/// The iterator of [`fields`].
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    header: &'a [u8],
    at: usize,
    ended: bool,
}

impl Fields<'_> {
    /// Returns the offset of the next field; after the iterator has ended, that of the body.
    pub fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = RawField<'a>;

    fn next(&mut self) -> Option<RawField<'a>> {
        let header = self.header;
        let offset = self.at;
        if self.ended || offset >= header.len() {
            return None;
        }
        let mut end = line_end(header, offset);
        if is_empty_line(&header[offset..end]) {
            self.at = end;
            self.ended = true;
            return None;
        }
        let line = &header[offset..end];
        while matches!(header.get(end), Some(b' ' | b'\t')) {
            end = line_end(header, end);
        }
        self.at = end;
        let whole = &header[offset..end];
        let (name, body) = match memchr(b':', line) {
            Some(colon) if is_name(&line[..colon]) => (trim(&line[..colon]), &whole[colon + 1..]),
            _ => (&line[..0], whole),
        };
        let padded = body.strip_suffix(b"\n").unwrap_or(body);
        let padded = trim_start(padded.strip_suffix(b"\r").unwrap_or(padded));
        Some(RawField { name, body: trim(body), padded, offset, end })
    }
}

/// Finds the first field with the name `name` (compared without regard to ASCII case).
pub fn field<'a>(header: &'a [u8], name: &[u8]) -> Option<RawField<'a>> {
    fields(header).find(|field| field.name.eq_ignore_ascii_case(name))
}

/// Returns the offset of the body of a message: after the first empty line, or at the end if there
/// is none.
pub fn body_offset(message: &[u8]) -> usize {
    let mut at = 0;
    while at < message.len() {
        let end = line_end(message, at);
        if is_empty_line(&message[at..end]) {
            return end;
        }
        at = end;
    }
    message.len()
}

/// Returns `true` if a field name is valid. A name has no white space inside, but some mailers have
/// written white space before the colon (RFC 5322 §4.5).
fn is_name(name: &[u8]) -> bool {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    let length = name.len() - name.iter().rev().take_while(|byte| blank(byte)).count();
    length > 0 && !name[..length].iter().any(blank)
}

/// Returns the offset of the value if `line` is a field with the name `name` (lower case).
#[inline]
fn value_start(line: &[u8], name: &[u8]) -> Option<usize> {
    if !line.get(..name.len())?.eq_ignore_ascii_case(name) {
        return None;
    }
    let mut at = name.len();
    while matches!(line.get(at)?, b' ' | b'\t') {
        at += 1;
    }
    (line[at] == b':').then_some(at + 1)
}

/// Returns the offset after the line that starts at `at`.
#[inline]
pub(crate) fn line_end(text: &[u8], at: usize) -> usize {
    memchr(b'\n', &text[at..]).map_or(text.len(), |line_feed| at + line_feed + 1)
}

/// Returns `true` if a line, its line end included, is empty.
pub(crate) fn is_empty_line(line: &[u8]) -> bool {
    matches!(line, b"\n" | b"\r\n")
}

fn trim_start(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = text {
        text = rest;
    }
    text
}

/// Trims spaces, tabs and line ends from both ends.
#[inline]
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    let mut text = trim_start(text);
    while let [rest @ .., b' ' | b'\t' | b'\r' | b'\n'] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, expected: &[(&str, &str)], body: &str) {
        for header in [header.to_owned(), header.replace('\n', "\r\n")] {
            let mut walk = fields(header.as_bytes());
            let found: Vec<_> = walk
                .by_ref()
                .map(|field| {
                    let text = |bytes| String::from_utf8_lossy(bytes).replace("\r\n", "\n");
                    (text(field.name), text(field.body))
                })
                .collect();
            let expected: Vec<_> =
                expected.iter().map(|(n, b)| ((*n).to_owned(), (*b).to_owned())).collect();
            assert_eq!(found, expected);
            assert_eq!(header[walk.offset()..].replace("\r\n", "\n"), body);
            assert_eq!(body_offset(header.as_bytes()), walk.offset());
            assert_eq!(HeaderScan::new(header.as_bytes()).body_offset, walk.offset());
        }
    }

    #[test]
    fn fields_are_walked_in_order() {
        check("A: 1\nB:2\n 3\n\t4\n\nbody\n", &[("A", "1"), ("B", "2\n 3\n\t4")], "body\n");
        check("A : x\nFrom me Mon\nB:\n\n", &[("A", "x"), ("", "From me Mon"), ("B", "")], "");
        check("A:1\nB: 2", &[("A", "1"), ("B", "2")], "");
        check("\nbody: no\n", &[], "body: no\n");
        check("", &[], "");
        check(" lead: x\nA: 1\n", &[("", "lead: x"), ("A", "1")], "");
        check("a b: x\n: y\n", &[("", "a b: x"), ("", ": y")], "");
        check("A: \0x\0\n \n\nb", &[("A", "\0x\0")], "b");
    }

    #[test]
    fn the_first_occurrence_counts() {
        let header = b"Received: x\nSubject: one\nSUBJECT: two\nDate :\tnow\nsubjects: no\n\
            Reply-To: r\nReferences: <a@b>\n\t<c@d>\nRefer: no\nDates: no\nFROM: f\nto:\nSender: s\n\
            cc: c\nbCC: b\nmessage-Id:  <m@n>  \nIn-Reply-To: <i@r>\nTom: no\n\nTo: body\n";
        let scan = HeaderScan::new(header);
        let scanned = scan.fields;
        assert_eq!(scanned.subject, Some(&b"one"[..]));
        assert_eq!(scanned.date, Some(&b"now"[..]));
        assert_eq!(scanned.references, Some(&b"<a@b>\n\t<c@d>"[..]));
        assert_eq!(scanned.reply_to, Some(&b"r"[..]));
        assert_eq!((scanned.from, scanned.to), (Some(&b"f"[..]), Some(&b""[..])));
        assert_eq!((scanned.sender, scanned.cc), (Some(&b"s"[..]), Some(&b"c"[..])));
        assert_eq!(scanned.bcc, Some(&b"b"[..]));
        assert_eq!(scanned.message_id, Some(&b"<m@n>"[..]));
        assert_eq!(scanned.in_reply_to, Some(&b"<i@r>"[..]));
        assert_eq!(&header[scan.body_offset..], b"To: body\n");
        assert!(scan.has_repeats);
    }

    #[test]
    fn only_fields_that_are_kept_repeat() {
        let check = |header: &[u8], expected| {
            assert_eq!(HeaderScan::new(header).has_repeats, expected);
        };
        check(b"To: a\nCc: b\nReceived: x\nReceived: y\nToo: c\n\nTo: d\n", false);
        check(b"To: a\nX: b\nTO : c\n\n", true);
    }
}

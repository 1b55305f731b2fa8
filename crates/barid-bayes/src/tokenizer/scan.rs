//! The scanner: longest match, the earlier rule among equals, as in bogofilter's `lexer_v3`.
//!
//! Every rule that can begin with the next byte returns the length of its match. A rule reads a
//! further line only where its match could continue. If such a line is a MIME boundary, the state
//! changes while the rule runs: it gives up ([`Scan::is_interrupted`]), and matching begins again
//! in the new state.

use super::charset::Charset;
use super::classes::{
    self, BACK, BLANK, BOUNDARY, FRONT, IDLE, IDLE_HTML, IDLE_TAG, IDLE_TEXT, MID,
};
use super::facts::Facts;
use super::joined::Joined;
use super::mime::{PartType, Parts};
use super::text::Text;
use super::work;
use crate::limits::{LOOKAHEAD_LEN_MAX, RESCANS_FREE, RESCANS_PER_BYTE};
use crate::options::{Options, Profile};

/// The state of the scanner: the part of a message that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanState {
    /// A header.
    Header,
    Text,
    Html,
    /// A tag whose words count.
    Tag,
    /// Any other tag.
    OtherTag,
    /// A comment that `-->` ends.
    StrictComment,
    /// A comment that `>` ends.
    LooseComment,
    /// Between the first line of a PGP signature and the next empty one.
    PgpHead,
    PgpBody,
}

/// The kind of token that a rule matched. Its bytes are at the front of [`Scan::text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Word,
    /// A host in a tag whose words do not count.
    Host,
    Money,
    Address,
    /// An address in brackets.
    AddressLiteral,
    /// A return path that contains the address of the receiver (VERP), up to the `=` in that
    /// address.
    Verp,
    /// A header line of which only the field name is a token.
    Line,
    QueueId,
}

/// The header field that a token is in, which determines its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    To,
    From,
    ReturnPath,
    Subject,
    Received,
    Header,
    Mime,
}

impl Tag {
    pub(super) fn prefix(self) -> &'static [u8] {
        match self {
            Self::To => b"to:",
            Self::From => b"from:",
            Self::ReturnPath => b"rtrn:",
            Self::Subject => b"subj:",
            Self::Received => b"rcvd:",
            Self::Header => b"head:",
            Self::Mime => b"mime:",
        }
    }
}

/// The state of the scan of one message.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    pub(super) options: &'a Options,
    pub(super) message: &'a [u8],
    /// Offset in `message` of the next line to read.
    pub(super) at: usize,
    pub(super) text: &'a mut Text,
    pub(super) parts: &'a mut Parts,
    /// Buffer for a decoded line.
    pub(super) line: &'a mut Vec<u8>,
    /// Buffer for a decoded word.
    pub(super) word: &'a mut Vec<u8>,
    pub(super) joined: &'a mut Joined,
    pub(super) facts: &'a mut Facts,
    pub(super) charset: Charset,
    pub(super) charset_default: Charset,
    pub(super) state: ScanState,
    pub(super) tag: Option<Tag>,
    /// `true` if the lines that are read now belong to a header.
    pub(super) in_header: bool,
    /// `true` if the next byte is the first of a line.
    pub(super) at_line_start: bool,
    pub(super) is_ended: bool,
    pub(super) is_interrupted: bool,
    /// Bytes that may still be pushed back and scanned again.
    pub(super) rescans_left: u64,
    /// Places (see [`Text::place`]) through which no VERP address goes.
    pub(super) no_verp: std::ops::Range<u64>,
    /// Places after which no `>` follows in the line.
    pub(super) no_bracket: std::ops::Range<u64>,
}

impl Scan<'_> {
    /// Returns the number of bytes that may be scanned again in a message of `len` bytes.
    pub(super) fn rescans(len: usize) -> u64 {
        RESCANS_FREE + RESCANS_PER_BYTE * len as u64
    }

    /// Returns the byte at `index`, after reading further lines if necessary. `None` at the end of
    /// the message, from [`LOOKAHEAD_LEN_MAX`] on, and once the rule was interrupted.
    #[inline]
    pub(super) fn peek(&mut self, index: usize) -> Option<u8> {
        match self.text.get(index) {
            Some(byte) => Some(byte),
            None => self.peek_on(index),
        }
    }

    #[cold]
    fn peek_on(&mut self, index: usize) -> Option<u8> {
        while !self.is_interrupted && index < LOOKAHEAD_LEN_MAX && self.fill() {
            if let Some(byte) = self.text.get(index) {
                return Some(byte);
            }
        }
        None
    }

    /// Returns the end of the run of bytes from `start` on that are in any of the classes.
    #[inline]
    pub(super) fn run(&mut self, start: usize, classes: u16) -> usize {
        let mut end = start;
        loop {
            end += classes::run(self.text.rest().get(end..).unwrap_or_default(), classes);
            if self.text.get(end).is_some() || self.peek_on(end).is_none() {
                return end;
            }
        }
    }

    /// Returns the index of the next `wanted` from `start` on; with `in_line`, `None` if the line
    /// ends before it.
    pub(super) fn find(&mut self, start: usize, wanted: u8, in_line: bool) -> Option<usize> {
        let mut from = start;
        loop {
            let rest = self.text.rest().get(from..).unwrap_or_default();
            let found = match in_line {
                true => memchr::memchr2(wanted, b'\n', rest),
                false => memchr::memchr(wanted, rest),
            };
            work::note(found.unwrap_or(rest.len()));
            if let Some(at) = found {
                return (rest[at] == wanted).then_some(from + at);
            }
            from += rest.len();
            self.peek_on(from)?;
        }
    }

    /// Returns `true` if `literal` is at `index`, ignoring ASCII case. Reads further lines only
    /// while the text so far matches.
    pub(super) fn is_at(&mut self, index: usize, literal: &[u8]) -> bool {
        let mut wanted = literal.iter().enumerate();
        wanted.all(|(offset, wanted)| {
            self.peek(index + offset).is_some_and(|byte| byte.eq_ignore_ascii_case(wanted))
        })
    }

    /// Returns `true` if there is a line feed at `index`.
    pub(super) fn is_line_end(&mut self, index: usize) -> bool {
        self.peek(index) == Some(b'\n')
    }

    /// Consumes the `len` bytes that were matched.
    #[inline]
    pub(super) fn take(&mut self, len: usize) {
        self.at_line_start = false;
        self.text.consume(len);
    }

    /// Puts text in front to be scanned again.
    pub(super) fn push_back(&mut self, text: &[u8]) {
        self.text.push_back(text);
        self.rescans_left = self.rescans_left.saturating_sub(text.len() as u64);
        // The recorded places are those of the text after the one pushed back.
        let place = self.text.place(text.len());
        self.no_verp.start = self.no_verp.start.max(place);
        self.no_bracket.start = self.no_bracket.start.max(place);
    }

    /// Begins a header: of the message, of a part, or of what follows the last part.
    pub(super) fn begin_header(&mut self) {
        self.state = ScanState::Header;
        self.in_header = true;
        self.set_tag(Tag::Header);
    }

    /// Sets the tag of the tokens that follow. Inside an attached message there is none.
    pub(super) fn set_tag(&mut self, tag: Tag) {
        if !self.options.header_prefixes {
            return;
        }
        if self.parts.parent_type() == Some(PartType::Message) {
            return self.clear_tag();
        }
        let is_part = tag == Tag::Header && self.parts.parent_type().is_some();
        let tag = if is_part { Tag::Mime } else { tag };
        if self.tag.is_some_and(|old| old != tag) {
            self.joined.clear();
        }
        self.tag = Some(tag);
    }

    pub(super) fn clear_tag(&mut self) {
        self.tag = None;
        self.joined.clear();
    }

    pub(super) fn is_modern(&self) -> bool {
        self.options.profile != Profile::Bogofilter
    }

    /// Returns `true` if words are delivered in small letters, with pairs of neighbours. Words that
    /// are joined by `multi_token_count` are not paired as well.
    pub(super) fn is_paired(&self) -> bool {
        self.options.profile == Profile::Modern && self.options.multi_token_bound() < 2
    }

    /// Returns `true` if there is more text, after reading a line if necessary.
    #[inline]
    pub(super) fn is_ready(&mut self) -> bool {
        self.is_interrupted = false;
        let is_ready = self.peek(0).is_some();
        self.is_interrupted = false;
        is_ready
    }

    /// Applies the rules once, after [`Scan::is_ready`]. Returns the kind of the token, its length
    /// and the bytes of text to consume, which the caller does with [`Scan::take`]; `None` if no
    /// token was found.
    pub(super) fn next(&mut self) -> Option<(TokenKind, usize, usize)> {
        let first = self.text.get(0)?;
        if classes::is(first, FRONT) {
            return self.word();
        }
        if self.skip_idle(first) {
            return None;
        }
        self.mark(first)
    }

    /// Skips bytes that have no meaning in this state. Returns `true` if there were any.
    #[inline]
    fn skip_idle(&mut self, first: u8) -> bool {
        let idle = match self.state {
            ScanState::Header | ScanState::StrictComment => IDLE,
            _ if first == b'-' && self.at_line_start => IDLE,
            ScanState::Text | ScanState::PgpHead | ScanState::PgpBody => IDLE_TEXT,
            ScanState::Html => IDLE_HTML,
            ScanState::Tag | ScanState::OtherTag | ScanState::LooseComment => IDLE_TAG,
        };
        let len = classes::run(self.text.rest(), idle);
        if len > 0 {
            self.take(len);
        }
        len > 0
    }

    /// Skips a number that cannot begin an IP address. Returns `true` if there was one.
    fn skip_number(&mut self) -> bool {
        let text = self.text.rest();
        let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_number = text.get(len).is_some_and(|byte| *byte != b'.');
        if is_number {
            self.take(len);
        }
        is_number
    }

    /// Applies the rules that begin with another byte than a letter.
    fn mark(&mut self, first: u8) -> Option<(TokenKind, usize, usize)> {
        match first {
            b'\n' => return self.line_end(),
            b'0'..=b'9' => {
                if self.skip_number() {
                    return None;
                }
                if let Some(len) = self.address(0) {
                    return self.found(TokenKind::Address, len);
                }
            }
            b'[' => {
                if let Some(end) = self.address(1)
                    && self.peek(end) == Some(b']')
                {
                    return self.found(TokenKind::AddressLiteral, end + 1);
                }
            }
            b'$' => return self.money(),
            b'-' => return self.dash(),
            b'<' => return self.angle(),
            b'>' if self.is_in_tag() => self.state = ScanState::Html,
            b'=' if self.state == ScanState::Header => return self.encoded_word(),
            b' ' | b'\t' if self.state == ScanState::Header => return self.queue_id(),
            b'&' if self.state == ScanState::Html => return self.entity(0),
            b'/' if self.state == ScanState::Tag => return self.escapes(),
            _ => {}
        }
        self.skip(1)
    }

    /// Skips `len` bytes, unless the rule was interrupted.
    pub(super) fn skip(&mut self, len: usize) -> Option<(TokenKind, usize, usize)> {
        if !self.is_interrupted {
            self.take(len);
        }
        None
    }

    /// Returns a match of `len` bytes, `None` if the rule was interrupted.
    pub(super) fn found(
        &mut self,
        found: TokenKind,
        len: usize,
    ) -> Option<(TokenKind, usize, usize)> {
        (!self.is_interrupted).then_some((found, len, len))
    }

    fn is_in_tag(&self) -> bool {
        matches!(self.state, ScanState::Tag | ScanState::OtherTag | ScanState::LooseComment)
    }

    fn line_end(&mut self) -> Option<(TokenKind, usize, usize)> {
        match self.state {
            ScanState::Header if self.at_line_start => self.end_header(),
            ScanState::PgpHead if self.at_line_start => self.state = ScanState::PgpBody,
            ScanState::Header => {}
            _ => self.clear_tag(),
        }
        self.take(1);
        self.at_line_start = true;
        None
    }

    fn end_header(&mut self) {
        self.in_header = false;
        self.facts.has_body = true;
        self.clear_tag();
        match self.parts.part().part_type {
            PartType::Html => self.state = ScanState::Html,
            PartType::Message => {
                self.begin_header();
                self.parts.push_message();
            }
            _ => self.state = ScanState::Text,
        }
    }

    /// Matches an IPv4 address, four numbers up to 255 with dots. Returns its end.
    fn address(&mut self, start: usize) -> Option<usize> {
        let mut at = start;
        for field in 0..4 {
            let len = self.number(at)?;
            at += len;
            if field < 3 {
                if self.peek(at) != Some(b'.') {
                    return None;
                }
                at += 1;
            }
        }
        Some(at)
    }

    /// Returns the length of the number up to 255 at `start`. It reads no byte that cannot belong
    /// to the number.
    fn number(&mut self, start: usize) -> Option<usize> {
        let first = self.peek(start).filter(u8::is_ascii_digit)?;
        let Some(second) = self.peek(start + 1).filter(u8::is_ascii_digit) else { return Some(1) };
        let is_low = first < b'2' || (first == b'2' && second <= b'5');
        if !is_low {
            return Some(2);
        }
        match self.peek(start + 2).filter(u8::is_ascii_digit) {
            Some(third) if first < b'2' || second < b'5' || third <= b'5' => Some(3),
            _ => Some(2),
        }
    }

    fn money(&mut self) -> Option<(TokenKind, usize, usize)> {
        let mut end = self.digits(1);
        if end == 1 {
            return self.skip(1);
        }
        if self.peek(end) == Some(b'.') {
            let cents = self.digits(end + 1);
            end = if cents > end + 1 { cents } else { end };
        }
        self.found(TokenKind::Money, end)
    }

    pub(super) fn digits(&mut self, start: usize) -> usize {
        let mut end = start;
        while self.peek(end).is_some_and(|byte| byte.is_ascii_digit()) {
            end += 1;
        }
        end
    }

    /// Matches boundaries, the lines around PGP signatures, and the end of a strict comment.
    fn dash(&mut self) -> Option<(TokenKind, usize, usize)> {
        if self.state == ScanState::StrictComment && self.is_at(0, b"-->") {
            self.state = ScanState::Html;
            return self.skip(3);
        }
        if !self.at_line_start || self.peek(1) != Some(b'-') {
            return self.skip(1);
        }
        for (line, state) in [
            (&b"-----BEGIN PGP SIGNATURE-----"[..], ScanState::PgpHead),
            (b"-----END PGP SIGNATURE-----", ScanState::Text),
        ] {
            if self.is_at(0, line) && self.is_line_end(line.len()) {
                if !self.is_interrupted {
                    self.state = state;
                    // The line is read again, no longer as the start of a line.
                    self.at_line_start = false;
                }
                return None;
            }
        }
        let end = self.run(2, BOUNDARY);
        let is_whole = end > 2 && self.is_line_end(end) && self.text.get(end - 1) != Some(b' ');
        if self.is_interrupted {
            return None;
        }
        if is_whole && self.parts.take_boundary(&self.text.rest()[..end]) {
            self.begin_header();
            return self.skip(end);
        }
        self.skip(if is_whole { 2 } else { 1 })
    }

    /// Matches a word, whose first byte is a letter.
    #[inline]
    fn word(&mut self) -> Option<(TokenKind, usize, usize)> {
        let (mut run, mut len) = classes::word(self.text.rest());
        if self.text.get(run).is_none() {
            // It may continue in the next line.
            run = self.run(run, MID);
            let back = self.text.rest()[..run].iter().rposition(|&byte| classes::is(byte, BACK));
            len = back.map_or(1, |last| last + 1);
        }
        if run >= LOOKAHEAD_LEN_MAX {
            return self.endless_word(run);
        }
        let next = self.peek(run);
        if self.is_interrupted {
            return None;
        }
        match self.state {
            ScanState::Header => self.header_word(run, len, next),
            ScanState::Html if len == run && next == Some(b'<') => self.word_before_tags(len),
            ScanState::Html if len == run && next == Some(b'&') => self.entity(len),
            ScanState::OtherTag if self.is_modern() && self.is_host() => {
                self.found(TokenKind::Host, len)
            }
            ScanState::OtherTag
            | ScanState::LooseComment
            | ScanState::StrictComment
            | ScanState::PgpBody => self.skip(len),
            _ => self.plain_word(len),
        }
    }

    pub(super) fn plain_word(&mut self, len: usize) -> Option<(TokenKind, usize, usize)> {
        self.found(TokenKind::Word, len)
    }

    /// Skips a word of [`LOOKAHEAD_LEN_MAX`] bytes or more to its end.
    fn endless_word(&mut self, run: usize) -> Option<(TokenKind, usize, usize)> {
        let mut run = run;
        while run > 0 && !self.is_interrupted {
            self.take(run);
            run = self.run(0, MID);
        }
        None
    }

    /// Matches the queue id after a blank and `id` in a header (RFC 5321 §4.4), which may be on a
    /// continuation line.
    fn queue_id(&mut self) -> Option<(TokenKind, usize, usize)> {
        if !self.is_at(1, b"id") {
            return self.skip(1);
        }
        let mut start = 3;
        while self.peek(start).is_some_and(|byte| byte == b'\n' || classes::is(byte, BLANK)) {
            start += 1;
        }
        let is_id = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        let mut end = start;
        if start > 3 && self.peek(end) == Some(b'<') {
            end += 1;
        }
        let id_start = end;
        while start > 3 && self.peek(end).is_some_and(is_id) {
            end += 1;
        }
        if end == id_start {
            return self.skip(1);
        }
        if self.peek(end) == Some(b'>') {
            end += 1;
        }
        self.found(TokenKind::QueueId, end)
    }
}

//! Bytes of a client to events.
//!
//! The decoder collects the lines of a command, with literals in their wire form between them,
//! and parses them once the last line is complete. It reads up to the end of a command and not
//! further, because a command may change how the next bytes are read.

use std::collections::VecDeque;

use super::append::{AppendReader, AppendStep};
use super::input::{IDLE_LEN_KEPT, Input, InputLine};
use super::literal::{EndlessLiteral, Literal, announced};
use super::parser::{self, Dialect, ParseError};
use super::{Event, parser::CommandHead};
use crate::command::TaggedCommand;
use crate::limits::{
    DATA_PIECE_LEN, LINE_LEN_BEFORE_LOGIN_MAX, LINE_LEN_MAX, LITERAL_LEN_BEFORE_LOGIN_MAX,
    LITERAL_LEN_MAX, SASL_LINE_LEN_MAX, SKIPPED_LEN_BEFORE_LOGIN_MAX, TAG_LEN_MAX,
};

/// A decoder of the commands of one connection.
///
/// ```
/// use barid_imap::command::Command;
/// use barid_imap::wire::{Decoder, Event};
///
/// let mut decoder = Decoder::new();
/// decoder.push(b"a1 NOOP\r\na2 LOG");
/// let Event::Command(first) = decoder.next() else { panic!("not a command") };
/// assert_eq!((first.tag.as_str(), first.command), ("a1", Command::Noop));
/// assert_eq!(decoder.next(), Event::More);
/// ```
#[derive(Debug, Default)]
pub struct Decoder {
    input: Input,
    dialect: Dialect,
    is_logged_in: bool,
    state: State,
    /// The next line is not a command.
    expects_line: bool,
    /// Events that precede the state.
    queue: VecDeque<Event>,
    /// A synchronizing literal was announced, and the caller may still refuse it.
    is_refusable: bool,
    /// Parts of a command: its lines so far, and its literals in wire form. For an APPEND, the
    /// arguments that are not read yet.
    text: Vec<u8>,
    /// The tag of the command, once its first line is there.
    tag: Option<String>,
    /// A command has begun.
    is_open: bool,
    append: Option<AppendReader>,
    /// Bytes skipped before login.
    skipped: u64,
}

/// The kind of the next byte.
#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    /// Part of a line.
    #[default]
    Line,
    /// Part of a literal that is an argument.
    Argument { left: usize },
    /// Part of a literal of a message.
    Data { left: u64 },
    /// Part of a literal, and then of lines, which are skipped.
    Skip { left: u64, tail: Vec<u8> },
    /// Never read.
    Closed,
}

/// Bytes of a skipped line that are kept: more than an announcement of a literal has.
const TAIL_LEN: usize = 64;

/// Events for which a decoder that waits for input keeps room.
const QUEUE_LEN_KEPT: usize = 4;

impl Decoder {
    /// Creates a decoder for a connection before login, with names of mailboxes in modified UTF-7.
    pub fn new() -> Self {
        Self { dialect: Dialect { separator: '/', ..Dialect::default() }, ..Self::default() }
    }

    /// Appends input. The decoder keeps all of it, so callers read more only after
    /// [`Event::More`].
    pub fn push(&mut self, bytes: &[u8]) {
        if self.state != State::Closed {
            self.input.push(bytes);
        }
    }

    /// Returns the next event.
    #[expect(clippy::should_implement_trait, reason = "an Iterator would end, this does not")]
    pub fn next(&mut self) -> Event {
        if self.queue.is_empty() {
            self.is_refusable = false;
        }
        loop {
            if let Some(event) = self.queue.pop_front() {
                return event;
            }
            if let Some(event) = self.advance() {
                if event == Event::More {
                    self.input.release();
                    self.queue.shrink_to(QUEUE_LEN_KEPT);
                }
                return event;
            }
        }
    }

    /// Sets the limits: larger ones after login.
    pub fn set_logged_in(&mut self, yes: bool) {
        self.is_logged_in = yes;
    }

    /// Sets the form of mailbox names: UTF-8 if `yes` (after ENABLE UTF8=ACCEPT, RFC 6855),
    /// modified UTF-7 if not.
    pub fn set_utf8(&mut self, yes: bool) {
        self.dialect.utf8 = yes;
    }

    /// Sets the revision: IMAP4rev2 if `yes`, where mailbox names are UTF-8, else IMAP4rev1.
    pub fn set_rev2(&mut self, yes: bool) {
        self.dialect.rev2 = yes;
    }

    /// Sets the hierarchy separator, which may end the name of CREATE; `/` at first.
    pub fn set_separator(&mut self, separator: char) {
        self.dialect.separator = separator;
    }

    /// Makes the next event an [`Event::Line`]: DONE of IDLE, or a response of SASL.
    pub fn expect_line(&mut self) {
        self.expects_line = true;
    }

    /// Drops the rest of the command that is being read, or the synchronizing literal that was
    /// announced by the event before. A literal that the client sends anyway is skipped.
    pub fn abandon(&mut self) {
        self.queue.clear();
        let is_open = self.is_open;
        let is_refused = std::mem::take(&mut self.is_refusable);
        self.reset();
        let left = match std::mem::take(&mut self.state) {
            State::Closed => return self.state = State::Closed,
            _ if is_refused => return,
            State::Line if !is_open => return,
            State::Line => 0,
            State::Argument { left } => left as u64,
            State::Data { left } => left,
            skip @ State::Skip { .. } => return self.state = skip,
        };
        self.state = State::Skip { left, tail: Vec::new() };
    }

    /// Returns the tag of the command that is being read, once its first line is there.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns `true` if all input was read and no command has begun.
    pub fn is_between_commands(&self) -> bool {
        let is_idle = self.state == State::Line && !self.is_open && self.append.is_none();
        is_idle && self.queue.is_empty() && self.buffered() == 0
    }

    /// Returns the number of bytes of input that are not read yet.
    pub fn buffered(&self) -> usize {
        self.input.len()
    }

    /// Drops the input that is not read yet: nothing that was sent before TLS counts after it.
    pub fn discard(&mut self) {
        self.input.take();
    }

    /// Takes the input that is not read yet, which is compressed after COMPRESS.
    pub fn take(&mut self) -> Vec<u8> {
        self.input.take()
    }

    /// Reads on. Returns `None` if there is progress without an event.
    fn advance(&mut self) -> Option<Event> {
        match &mut self.state {
            State::Closed => Some(Event::More),
            State::Line if self.expects_line => Some(self.read_line()),
            State::Line => self.command_line(),
            State::Argument { left: 0 } => {
                self.state = State::Line;
                None
            }
            State::Argument { left } => {
                let bytes = self.input.bytes(*left);
                if bytes.is_empty() {
                    return Some(Event::More);
                }
                *left -= bytes.len();
                self.text.extend_from_slice(bytes);
                None
            }
            State::Data { left: 0 } => {
                self.state = State::Line;
                let append = self.append.as_ref();
                append.is_some_and(AppendReader::ends_message).then_some(Event::MessageEnd)
            }
            State::Data { left } => {
                let max = usize::try_from(*left).unwrap_or(usize::MAX).min(DATA_PIECE_LEN);
                let bytes = self.input.bytes(max);
                if bytes.is_empty() {
                    return Some(Event::More);
                }
                *left -= bytes.len() as u64;
                Some(Event::Data(bytes.to_vec()))
            }
            State::Skip { .. } => self.skip(),
        }
    }

    fn read_line(&mut self) -> Event {
        match self.input.line(SASL_LINE_LEN_MAX) {
            InputLine::More => Event::More,
            InputLine::TooLong => self.fatal("The line is too long."),
            InputLine::Line(line) => {
                self.expects_line = false;
                Event::Line(line.to_vec())
            }
        }
    }

    /// Reads a line of a command.
    fn command_line(&mut self) -> Option<Event> {
        let max = match self.is_logged_in {
            true => LINE_LEN_MAX,
            false => LINE_LEN_BEFORE_LOGIN_MAX,
        };
        let line = match self.input.line(max.saturating_sub(self.text.len())) {
            InputLine::More => return Some(Event::More),
            InputLine::TooLong => return Some(self.too_long()),
            InputLine::Line(line) => line,
        };
        let literal = match announced(line) {
            Ok(literal) => literal,
            Err(EndlessLiteral) => return Some(self.fatal("The literal is too long.")),
        };
        let announcement_len = literal.map_or(0, |literal| literal.announcement_len);
        self.text.extend_from_slice(&line[..line.len() - announcement_len]);
        let step = match self.is_open {
            true => Ok(()),
            false => self.begin(),
        };
        let step = step.and_then(|()| match &mut self.append {
            Some(_) => self.append_line(literal),
            None => self.plain_line(literal),
        });
        match step {
            Ok(event) => event,
            Err(error) => Some(self.bad(error, literal)),
        }
    }

    /// Reads the tag and the name of a command.
    fn begin(&mut self) -> Result<(), ParseError> {
        self.is_open = true;
        self.tag = parser::tag(&self.text);
        let CommandHead { append, end } = parser::head(&self.text)?;
        if let Some(kind) = append {
            self.append = Some(AppendReader::new(kind));
            self.text.drain(..end);
        }
        Ok(())
    }

    /// Goes on after a line of a command other than APPEND and REPLACE.
    fn plain_line(&mut self, literal: Option<Literal>) -> Result<Option<Event>, ParseError> {
        if let Some(literal) = literal {
            return self.argument(literal);
        }
        let command = parser::command(&self.text, self.dialect)?;
        Ok(Some(self.complete(command)))
    }

    /// Goes on after a line of APPEND or REPLACE.
    fn append_line(&mut self, literal: Option<Literal>) -> Result<Option<Event>, ParseError> {
        let Some(append) = &mut self.append else { return Ok(None) };
        let queue = &mut self.queue;
        match append.line(&mut self.text, literal, self.dialect, queue)? {
            AppendStep::Argument(literal) => {
                let event = self.argument(literal)?;
                self.queue.extend(event);
                Ok(None)
            }
            AppendStep::Data(literal) => {
                self.is_refusable = literal.is_sync;
                self.state = State::Data { left: literal.len };
                Ok(None)
            }
            AppendStep::End(command) => {
                let event = self.complete(command);
                self.queue.push_back(event);
                Ok(None)
            }
        }
    }

    /// Begins to read a literal that is an argument.
    fn argument(&mut self, literal: Literal) -> Result<Option<Event>, ParseError> {
        let (literal_max, line_max) = match self.is_logged_in {
            true => (LITERAL_LEN_MAX, LINE_LEN_MAX),
            false => (LITERAL_LEN_BEFORE_LOGIN_MAX, LINE_LEN_BEFORE_LOGIN_MAX),
        };
        let room = line_max.saturating_sub(self.text.len()) as u64;
        if literal.len > literal_max || literal.len > room {
            return Err(ParseError::new("The literal is too long."));
        }
        let tilde = if literal.is_binary { "~" } else { "" };
        let announcement = format!("{tilde}{{{}}}\r\n", literal.len);
        self.text.extend_from_slice(announcement.as_bytes());
        self.state = State::Argument { left: literal.len as usize };
        self.is_refusable = literal.is_sync;
        Ok(literal.is_sync.then_some(Event::Continue))
    }

    fn complete(&mut self, command: crate::command::Command) -> Event {
        let tag = self.tag.take().unwrap_or_default();
        self.reset();
        Event::Command(TaggedCommand { tag, command })
    }

    /// Forgets the command.
    fn reset(&mut self) {
        self.text.clear();
        self.text.shrink_to(IDLE_LEN_KEPT);
        self.tag = None;
        self.is_open = false;
        self.append = None;
    }

    /// Refuses a command after a line that ended with `literal`.
    fn bad(&mut self, error: ParseError, literal: Option<Literal>) -> Event {
        let tag = self.tag.take();
        self.reset();
        self.queue.clear();
        self.is_refusable = false;
        if let Some(literal) = literal.filter(|literal| !literal.is_sync) {
            self.state = State::Skip { left: literal.len, tail: Vec::new() };
        }
        let ParseError { code, is_no, text } = error;
        Event::Bad { tag, code, is_no, text: parser::printable(&text) }
    }

    fn too_long(&mut self) -> Event {
        if !self.is_logged_in {
            return self.fatal("The command is too long.");
        }
        if self.tag.is_none() && !self.is_open {
            let unread = self.input.unread();
            self.tag = parser::tag(&unread[..unread.len().min(TAG_LEN_MAX + 1)]);
        }
        let event = self.bad(ParseError::new("The command is too long."), None);
        self.state = State::Skip { left: 0, tail: Vec::new() };
        event
    }

    fn fatal(&mut self, text: &str) -> Event {
        self.reset();
        self.queue.clear();
        self.input.take();
        self.state = State::Closed;
        Event::Fatal(text.to_owned())
    }

    /// Skips the rest of a command: up to a line that announces no literal, or a synchronizing one,
    /// which the client sends only if it is asked to.
    fn skip(&mut self) -> Option<Event> {
        let State::Skip { left, tail } = &mut self.state else { return None };
        let before = self.input.len();
        *left -= self.input.bytes(usize::try_from(*left).unwrap_or(usize::MAX)).len() as u64;
        let mut is_more = *left > 0;
        if !is_more {
            let unread = self.input.unread();
            let line_end = memchr::memchr(b'\n', unread);
            let taken = line_end.map_or(unread.len(), |end| end + 1);
            let piece = &self.input.bytes(taken);
            tail.extend_from_slice(&piece[taken.saturating_sub(TAIL_LEN)..]);
            tail.drain(..tail.len().saturating_sub(TAIL_LEN));
            is_more = line_end.is_none();
        }
        self.skipped += (before - self.input.len()) as u64;
        if !self.is_logged_in && self.skipped > SKIPPED_LEN_BEFORE_LOGIN_MAX {
            return Some(self.fatal("The command is too long."));
        }
        if is_more {
            return Some(Event::More);
        }
        let line = tail.strip_suffix(b"\n").unwrap_or(tail);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // Digits without a beginning are the end of a longer number.
        let is_cut = line.strip_suffix(b"+}").is_some_and(|inner| {
            inner.len() >= TAIL_LEN - 4 && inner.iter().all(u8::is_ascii_digit)
        });
        match announced(line) {
            Ok(None) if !is_cut => self.state = State::Line,
            Ok(Some(literal)) if literal.is_sync => self.state = State::Line,
            Ok(Some(literal)) => {
                self.state = State::Skip { left: literal.len, tail: Vec::new() };
            }
            Ok(None) | Err(EndlessLiteral) => {
                return Some(self.fatal("The literal is too long."));
            }
        }
        None
    }
}

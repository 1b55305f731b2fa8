//! The arguments of APPEND and REPLACE, piece by piece between the literals of their messages.
//!
//! ```text
//! append   = "APPEND" SP mailbox 1*append-message
//! replace  = ["UID" SP] "REPLACE" SP seq-number SP mailbox append-message       ; RFC 8508
//! append-message = [SP flag-list] [SP date-time] SP append-data
//! append-data    = literal / literal8 / "UTF8" SP "(" literal8 ")" /            ; RFC 6855
//!                  "CATENATE" SP "(" cat-part *(SP cat-part) ")"                ; RFC 4469
//! cat-part       = "TEXT" SP literal / "URL" SP astring
//! ```

use std::collections::VecDeque;

use barid_query::search::NumberSet;
use barid_types::Keyword;

use super::Event;
use super::literal::Literal;
use super::parser::{AppendKind, Cursor, Dialect, ParseError, Parsed};
use crate::command::{AppendMessage, AppendPart, Command, FlagList, MailboxName};
use crate::limits::{APPEND_KEYWORDS_LEN_MAX, APPENDS_MAX, LIST_LEN_MAX};

/// A reader of the arguments.
#[derive(Debug)]
pub(super) struct AppendReader {
    kind: AppendKind,
    place: Place,
    mailbox: MailboxName,
    number: Option<NumberSet>,
    /// Number of messages that have begun.
    count: usize,
    /// Memory of the keywords of these messages, in bytes.
    keywords_len: usize,
}

/// The place in the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the mailbox.
    Mailbox,
    /// Before a message, or at the end of the command.
    Message,
    /// In the parts of CATENATE, behind so many.
    Catenate(usize),
    /// Before the parenthesis that closes UTF8.
    Utf8End,
}

/// The continuation of a command after a line.
#[derive(Debug)]
pub(super) enum AppendStep {
    /// The announced literal is an argument.
    Argument(Literal),
    /// The announced literal is part of a message.
    Data(Literal),
    /// The command is complete.
    End(Command),
}

impl AppendReader {
    pub(super) fn new(kind: AppendKind) -> Self {
        Self {
            kind,
            place: Place::Mailbox,
            mailbox: MailboxName(String::new()),
            number: None,
            count: 0,
            keywords_len: 0,
        }
    }

    /// Returns `true` if the literal that was just read is a message of its own.
    pub(super) fn ends_message(&self) -> bool {
        self.place == Place::Message
    }

    /// Reads the arguments of `text`, which a literal or the end of the command follows, and
    /// removes those that are complete.
    pub(super) fn line(
        &mut self,
        text: &mut Vec<u8>,
        literal: Option<Literal>,
        dialect: Dialect,
        queue: &mut VecDeque<Event>,
    ) -> Parsed<AppendStep> {
        let mut cursor = Cursor::new(text, dialect);
        loop {
            let start = cursor.at();
            let step = match self.place {
                Place::Mailbox => self.mailbox(&mut cursor, literal),
                Place::Message => self.message(&mut cursor, literal, queue),
                Place::Catenate(parts) => self.catenate(&mut cursor, literal, parts, queue),
                Place::Utf8End => {
                    cursor.close()?;
                    queue.push_back(Event::MessageEnd);
                    self.place = Place::Message;
                    Ok(None)
                }
            }?;
            match step {
                None => {}
                Some(AppendStep::Argument(literal)) => {
                    text.drain(..start);
                    return Ok(AppendStep::Argument(literal));
                }
                Some(step) => {
                    text.clear();
                    return Ok(step);
                }
            }
        }
    }

    fn mailbox(
        &mut self,
        cursor: &mut Cursor<'_>,
        literal: Option<Literal>,
    ) -> Parsed<Option<AppendStep>> {
        if self.kind != AppendKind::Append {
            self.number = Some(cursor.single_number()?);
            cursor.space()?;
        }
        if let Some(literal) = literal.filter(|_| cursor.is_end()) {
            return Ok(Some(AppendStep::Argument(literal)));
        }
        self.mailbox = cursor.mailbox()?;
        self.place = Place::Message;
        Ok(None)
    }

    fn message(
        &mut self,
        cursor: &mut Cursor<'_>,
        literal: Option<Literal>,
        queue: &mut VecDeque<Event>,
    ) -> Parsed<Option<AppendStep>> {
        cursor.spaces();
        if cursor.is_end() && literal.is_none() && self.count > 0 {
            return Ok(Some(AppendStep::End(self.command())));
        }
        if self.count > 0 && self.kind != AppendKind::Append {
            return Err(ParseError::new("REPLACE has one message."));
        }
        if self.count == APPENDS_MAX {
            return Err(ParseError::new("Too many messages."));
        }
        let flags = match cursor.peek() {
            Some(b'(') => cursor.flag_list()?,
            _ => FlagList::default(),
        };
        self.keywords_len += flags.keywords.iter().map(memory_len).sum::<usize>();
        if self.keywords_len > APPEND_KEYWORDS_LEN_MAX {
            return Err(ParseError::new("Too many keywords in one command.").with_no("LIMIT"));
        }
        cursor.spaces();
        let internal_date = match cursor.peek() {
            Some(b'"') => Some(cursor.date_time()?),
            _ => None,
        };
        cursor.spaces();
        self.count += 1;
        let (mailbox, is_first) = (self.mailbox.clone(), self.count == 1);
        let is_joined = cursor.word_is("CATENATE");
        let is_utf8 = !is_joined && cursor.word_is("UTF8");
        queue.push_back(Event::Message(AppendMessage {
            mailbox,
            is_first,
            flags,
            internal_date,
            replaces: self.kind != AppendKind::Append,
            is_joined,
            is_utf8,
        }));
        if is_joined {
            cursor.space()?;
            cursor.open()?;
            self.place = Place::Catenate(0);
            return Ok(None);
        }
        if is_utf8 {
            cursor.space()?;
            cursor.open()?;
            self.place = Place::Utf8End;
        }
        self.data(cursor, literal, queue).map(Some)
    }

    fn catenate(
        &mut self,
        cursor: &mut Cursor<'_>,
        literal: Option<Literal>,
        parts: usize,
        queue: &mut VecDeque<Event>,
    ) -> Parsed<Option<AppendStep>> {
        cursor.spaces();
        if cursor.peek() == Some(b')') && parts > 0 {
            cursor.close()?;
            queue.push_back(Event::MessageEnd);
            self.place = Place::Message;
            return Ok(None);
        }
        if parts == LIST_LEN_MAX {
            return Err(ParseError::new("Too many parts of CATENATE."));
        }
        self.place = Place::Catenate(parts + 1);
        if cursor.word_is("TEXT") {
            cursor.space()?;
            return self.data(cursor, literal, queue).map(Some);
        }
        if !cursor.word_is("URL") {
            return Err(cursor.expected("TEXT or URL"));
        }
        cursor.space()?;
        if let Some(literal) = literal.filter(|_| cursor.is_end()) {
            self.place = Place::Catenate(parts);
            return Ok(Some(AppendStep::Argument(literal)));
        }
        let url = cursor.text()?;
        queue.push_back(Event::Part { part: AppendPart::Url(url), is_sync: false });
        Ok(None)
    }

    /// Ends a line with the literal of a message.
    fn data(
        &self,
        cursor: &Cursor<'_>,
        literal: Option<Literal>,
        queue: &mut VecDeque<Event>,
    ) -> Parsed<AppendStep> {
        let literal = literal.filter(|_| cursor.is_end());
        let literal = literal.ok_or_else(|| cursor.expected("a literal"))?;
        if literal.len > i64::MAX as u64 {
            return Err(ParseError::new("The message is too long.").with_no("TOOBIG"));
        }
        let part = AppendPart::Literal { len: literal.len, is_binary: literal.is_binary };
        queue.push_back(Event::Part { part, is_sync: literal.is_sync });
        Ok(AppendStep::Data(literal))
    }

    fn command(&mut self) -> Command {
        match (self.kind, self.number.take()) {
            (AppendKind::Replace(uid), Some(number)) => Command::Replace { number, uid },
            _ => Command::Append,
        }
    }
}

/// Returns the memory of a keyword, with that of its allocation, in bytes.
fn memory_len(keyword: &Keyword) -> usize {
    size_of::<Keyword>() + keyword.as_str().len().next_multiple_of(16) + 16
}

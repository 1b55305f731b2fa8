//! Tokens of XML that arrives in pieces, within bounds.
//!
//! Elements are known by their local names: the prefixes of namespaces differ between writers, the
//! names within them do not. A document type is refused, so no entity but the five of XML exists,
//! and nothing expands.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};

use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};

use crate::Failure;
use crate::archive::MemberReader;
use crate::limits::{XML_DEPTH_MAX, XML_TOKEN_LEN_MAX};
use crate::sink::End;

/// A tag, or a piece of text.
pub(crate) enum Token<'t> {
    /// The start of an element with this local name.
    Start(&'t str, &'t BytesStart<'t>),
    /// The end of an element with this local name; also follows the start of an empty one.
    End(&'t str),
    /// Text; a reference to a character is a piece of its own.
    Text(&'t str),
}

/// Reads a member of an archive to its end and passes its tokens to `visit`, except for elements
/// whose local names are in `skipped`, and everything in them.
///
/// # Errors
/// [`Failure::TooDeep`], [`Failure::TokenTooLong`], [`Failure::HasDtd`], [`Failure::BadXml`], and
/// those of the member and of `visit`.
pub(crate) fn read_xml(
    member: MemberReader<'_>,
    skipped: &[&str],
    visit: &mut dyn FnMut(Token<'_>) -> Result<(), End>,
) -> Result<(), End> {
    let source = TokenReader { inner: BufReader::new(member), len: 0 };
    let mut reader = Reader::from_reader(source);
    let config = reader.config_mut();
    config.expand_empty_elements = true;
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    config.allow_dangling_amp = true;
    let (mut buffer, mut depth, mut skipped_from) = (Vec::new(), 0, None);
    loop {
        buffer.clear();
        reader.get_mut().len = 0;
        let event = reader.read_event_into(&mut buffer).map_err(|error| failure(&error))?;
        match &event {
            Event::Start(start) => {
                depth += 1;
                if depth > XML_DEPTH_MAX {
                    return Err(Failure::TooDeep.into());
                }
                let name = start.local_name().into_inner();
                if skipped_from.is_none() && skipped.contains(&name) {
                    skipped_from = Some(depth);
                }
                if skipped_from.is_none() {
                    visit(Token::Start(name, start))?;
                }
            }
            Event::End(end) => {
                if skipped_from.is_none() {
                    visit(Token::End(end.local_name().into_inner()))?;
                }
                skipped_from = skipped_from.filter(|from| *from < depth);
                depth = depth.saturating_sub(1);
            }
            Event::DocType(_) => return Err(Failure::HasDtd.into()),
            Event::Eof => return Ok(()),
            event if skipped_from.is_none() => {
                if let Some(text) = text_of(event) {
                    visit(Token::Text(&text))?;
                }
            }
            _ => {}
        }
    }
}

/// Returns the value of an attribute by its local name; `None` if it is missing or malformed.
pub(crate) fn attribute<'t>(start: &'t BytesStart<'_>, name: &str) -> Option<Cow<'t, str>> {
    // Looking for duplicates would take quadratic time.
    let mut attributes = start.attributes();
    let all = attributes.with_checks(false).flatten();
    let mut named = all.filter(|attribute| attribute.key.local_name().as_ref() == name);
    named.next()?.normalized_value(XmlVersion::Implicit1_0).ok()
}

/// Returns the text that an event stands for, if any.
fn text_of<'e>(event: &'e Event<'_>) -> Option<Cow<'e, str>> {
    match event {
        Event::Text(text) => Some(text.xml10_content()),
        Event::CData(text) => Some(text.xml10_content()),
        Event::GeneralRef(reference) => {
            let known = match &**reference {
                "lt" => Some('<'),
                "gt" => Some('>'),
                "amp" => Some('&'),
                "quot" => Some('"'),
                "apos" => Some('\''),
                _ => reference.resolve_char_ref().ok().flatten(),
            };
            Some(Cow::Owned(known.unwrap_or(char::REPLACEMENT_CHARACTER).to_string()))
        }
        _ => None,
    }
}

fn failure(error: &quick_xml::Error) -> Failure {
    let quick_xml::Error::Io(error) = error else { return Failure::BadXml };
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    inner.copied().unwrap_or(Failure::BadXml)
}

/// A reader that fails if more bytes than a token may have were read since `len` was set to 0.
struct TokenReader<R> {
    inner: BufReader<R>,
    len: usize,
}

impl<R: Read> Read for TokenReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let len = available.len().min(buffer.len());
        buffer[..len].copy_from_slice(&available[..len]);
        self.consume(len);
        Ok(len)
    }
}

impl<R: Read> BufRead for TokenReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.len > XML_TOKEN_LEN_MAX {
            return Err(io::Error::other(Failure::TokenTooLong));
        }
        self.inner.fill_buf()
    }

    fn consume(&mut self, len: usize) {
        self.len += len;
        self.inner.consume(len);
    }
}

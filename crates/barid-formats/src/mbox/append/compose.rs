//! Messages in the form in which a file stores them.

mod body;
mod stored;

use std::borrow::Cow;
use std::fmt::Write as _;

use barid_mailbox::{NewMessage, Result};
use barid_message::{fields, is_owned_field};
use barid_types::{Flag, InternalDate, Uid};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::mbox::Variant;
use crate::mbox::layout::{MMDF_SEPARATOR, PADDING_LEN, SENDER_LEN_MAX, WRITE_LEN};

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Appends one message in the form of `variant`: separator, From_ line, header, the owned fields
/// that its flags need, body, and the bytes that end it.
///
/// `date` is the date of the From_ line, which is written in the local time of `zone`. A body line
/// that looks like a From_ line is quoted as the variant requires, and in the header always (but
/// not in MMDF). A message whose last line has no end gets an LF, but not with a `Content-Length`.
/// One that was stored in a mailbox before ([`NewMessage::stored`]) is written as it was, except
/// for its flags. Added lines end with LF; those of the message stay as they are.
///
/// # Errors
/// Errors of reading the rest of a large message.
pub fn write_message(
    variant: Variant,
    message: &NewMessage<'_>,
    date: InternalDate,
    zone: &TimeZone,
    out: &mut Vec<u8>,
) -> Result<()> {
    let form = Form { variant, is_crlf: false, zone };
    let mut out = Composed { bytes: out, flush: None };
    write_numbered(&form, message, UidHeader::default(), date, &mut out)
}

/// Receiver of composed bytes.
pub(in crate::mbox) type Flush<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

/// Buffer into which messages are composed.
pub(in crate::mbox) struct Composed<'a, 'f> {
    /// Bytes not passed to `flush` yet: always at least the last one.
    pub(in crate::mbox) bytes: &'a mut Vec<u8>,
    /// Receives the bytes of a large message before the buffer grows too long.
    pub(in crate::mbox) flush: Option<&'a mut Flush<'f>>,
}

impl Composed<'_, '_> {
    /// Passes the buffer on if it is full.
    fn flush_if_full(&mut self) -> Result<()> {
        if let Some(flush) = &mut self.flush
            && self.bytes.len() > WRITE_LEN
        {
            // The last byte stays: it shows if the last line still needs an end.
            let len = self.bytes.len() - 1;
            flush(&self.bytes[..len])?;
            self.bytes.drain(..len);
        }
        Ok(())
    }
}

/// Form of the messages of a file.
#[derive(Clone, Copy, Debug)]
pub(in crate::mbox) struct Form<'a> {
    /// The variant.
    pub(in crate::mbox) variant: Variant,
    /// `true` if lines end with CRLF, including those of messages that came with LF.
    pub(in crate::mbox) is_crlf: bool,
    /// Zone of the From_ lines.
    pub(in crate::mbox) zone: &'a TimeZone,
}

/// Returns a text with CRLF in place of LF alone.
fn with_crlf(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 16);
    let mut from = 0;
    for at in memchr::memchr_iter(b'\n', text).filter(|at| *at == 0 || text[at - 1] != b'\r') {
        out.extend_from_slice(&text[from..at]);
        out.extend_from_slice(b"\r");
        from = at;
    }
    out.extend_from_slice(&text[from..]);
    out
}

/// Fields with UIDs for one message.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::mbox) struct UidHeader<'a> {
    /// Its own UID.
    pub(in crate::mbox) uid: Option<Uid>,
    /// The `X-IMAPbase` of the first message of a mailbox, with its line end.
    pub(in crate::mbox) base: Option<&'a str>,
}

/// Appends one message as [`write_message`] does, with its UID fields.
pub(in crate::mbox) fn write_numbered(
    form: &Form<'_>,
    message: &NewMessage<'_>,
    numbered: UidHeader<'_>,
    date: InternalDate,
    composed: &mut Composed<'_, '_>,
) -> Result<()> {
    let Form { variant, zone, .. } = *form;
    if let Some(stored) = &message.stored {
        return stored::write_stored(variant, message, stored, numbered.uid, composed);
    }
    let out = &mut *composed.bytes;
    // The separators of MMDF are lines of its own.
    let is_crlf = form.is_crlf && variant != Variant::Mmdf;
    let end: &[u8] = if is_crlf { b"\r\n" } else { b"\n" };
    if variant == Variant::Mmdf {
        out.extend_from_slice(MMDF_SEPARATOR);
    }
    let head_offset = out.len();
    write_from_line(message.sender, date, zone, out);
    out.extend_from_slice(numbered.base.unwrap_or_default().as_bytes());
    let start = message.start()?;
    let (header, body) = start.split_at(barid_message::body_offset(&start));
    let large = body::LargeBody::of(message, (&start, body), variant, is_crlf);
    let body = match large {
        Some(_) => Cow::Borrowed(&b""[..]),
        None if is_crlf => Cow::Owned(with_crlf(body)),
        None => Cow::Borrowed(body),
    };
    write_header(variant, header, out);
    match numbered.uid {
        Some(uid) => write_block(message, uid, out),
        None => write_flags(message, out),
    }
    let has_length = matches!(variant, Variant::Mboxcl | Variant::Mboxcl2);
    let body = match variant {
        Variant::Mboxcl => {
            let mut quoted = Vec::with_capacity(body.len() + 64);
            quote(variant, &body, &mut quoted);
            Cow::Owned(quoted)
        }
        _ => body,
    };
    if has_length {
        let len = large.as_ref().map_or(Ok(body.len() as u64), body::LargeBody::len)?;
        put(out, format_args!("Content-Length: {len}\n"));
    }
    out.push(b'\n');
    if is_crlf {
        let head = with_crlf(&out[head_offset..]);
        out.truncate(head_offset);
        out.extend_from_slice(&head);
    }
    match (&large, variant) {
        (Some(large), _) => large.write(composed)?,
        (None, Variant::Mboxcl) => out.extend_from_slice(&body),
        (None, _) => quote(variant, &body, out),
    }
    let out = &mut *composed.bytes;
    if !has_length && !out.ends_with(b"\n") {
        out.extend_from_slice(end);
    }
    match variant {
        Variant::Mmdf => out.extend_from_slice(MMDF_SEPARATOR),
        _ => out.extend_from_slice(end),
    }
    Ok(())
}

/// Appends `From SENDER Www Mmm dd hh:mm:ss yyyy`, a form that c-client, Dovecot and NeoMutt
/// accept.
fn write_from_line(sender: Option<&str>, date: InternalDate, zone: &TimeZone, out: &mut Vec<u8>) {
    let sender = sender.unwrap_or_default();
    let allowed = |c: &char| !c.is_whitespace() && !c.is_control() && *c != '"';
    let sender: String = sender.chars().filter(allowed).take(SENDER_LEN_MAX).collect();
    let sender = if sender.is_empty() { "MAILER-DAEMON" } else { &sender };
    let instant = Timestamp::from_second(date.unix_seconds).unwrap_or_default();
    let local = zone.to_datetime(instant);
    let (weekday, month) = (local.weekday().to_monday_zero_offset(), local.month() - 1);
    put(
        out,
        format_args!(
            "From {sender} {} {} {:2} {:02}:{:02}:{:02} {:04}\n",
            WEEKDAYS[weekday as usize],
            MONTHS[month as usize],
            local.day(),
            local.hour(),
            local.minute(),
            local.second(),
            local.year(),
        ),
    );
}

/// Appends a header without its owned fields and blank line, every line ended.
fn write_header(variant: Variant, header: &[u8], out: &mut Vec<u8>) {
    let mut all = fields(header);
    for field in all.by_ref() {
        if is_owned_field(field.name) || field.name.eq_ignore_ascii_case(b"content-length") {
            continue;
        }
        let text = &header[field.offset..field.end];
        match variant {
            Variant::Mmdf => out.extend_from_slice(text),
            Variant::Mboxcl2 => quote(Variant::Mboxcl, text, out),
            _ => quote(variant, text, out),
        }
        if !text.ends_with(b"\n") {
            out.push(b'\n');
        }
    }
}

/// Returns the letters of X-Status, in c-client's order.
fn letters(message: &NewMessage<'_>) -> String {
    let all =
        [(Flag::Deleted, 'D'), (Flag::Flagged, 'F'), (Flag::Answered, 'A'), (Flag::Draft, 'T')];
    let held = all.iter().filter(|(flag, _)| message.flags.contains(*flag));
    held.map(|(_, letter)| letter).collect()
}

/// Appends the whole status block: Status, X-Status, X-Keywords with room for more, X-UID, so that
/// every program can change flags in place. Without `O` the message is \Recent.
fn write_block(message: &NewMessage<'_>, uid: Uid, out: &mut Vec<u8>) {
    let seen = if message.flags.contains(Flag::Seen) { "R" } else { "" };
    put(out, format_args!("Status: {seen}\nX-Status: {}\nX-Keywords:", letters(message)));
    for keyword in &message.keywords {
        put(out, format_args!(" {}", keyword.as_str()));
    }
    out.resize(out.len() + PADDING_LEN, b' ');
    put(out, format_args!("\nX-UID: {uid}\n"));
}

/// Appends those of Status, X-Status and X-Keywords that are not empty. Without `O` the message is
/// \Recent.
fn write_flags(message: &NewMessage<'_>, out: &mut Vec<u8>) {
    if message.flags.contains(Flag::Seen) {
        out.extend_from_slice(b"Status: R\n");
    }
    let letters = letters(message);
    if !letters.is_empty() {
        put(out, format_args!("X-Status: {letters}\n"));
    }
    if !message.keywords.is_empty() {
        out.extend_from_slice(b"X-Keywords:");
        for keyword in &message.keywords {
            put(out, format_args!(" {}", keyword.as_str()));
        }
        out.push(b'\n');
    }
}

/// Copies `text`, putting a `>` before each line that needs it.
fn quote(variant: Variant, text: &[u8], out: &mut Vec<u8>) {
    let needs = |line: &[u8]| {
        let marks = line.iter().take_while(|byte| **byte == b'>').count();
        let quotes = match variant {
            Variant::Mboxo | Variant::Mboxcl => marks == 0,
            Variant::Mboxrd => true,
            Variant::Mboxcl2 | Variant::Mmdf => false,
        };
        quotes && line[marks..].starts_with(b"From ")
    };
    let mut from = 0;
    for at in memchr::memmem::find_iter(text, b"From ") {
        let line = memchr::memrchr(b'\n', &text[from..at]).map_or(from, |end| from + end + 1);
        let starts = line == 0 || text[line - 1] == b'\n';
        if starts && text[line..at].iter().all(|byte| *byte == b'>') && needs(&text[line..]) {
            out.extend_from_slice(&text[from..line]);
            out.push(b'>');
            from = line;
        }
    }
    out.extend_from_slice(&text[from..]);
}

fn put(out: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    let mut text = String::new();
    text.write_fmt(arguments).expect("because writing to a String cannot fail");
    out.extend_from_slice(text.as_bytes());
}

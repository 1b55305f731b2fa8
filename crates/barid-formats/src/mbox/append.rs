//! Appending messages.
//!
//! What is written can be read by all three programs of `from_line.rs`: a From_ line of the form
//! that all accept, and the owned fields at the end of the header as c-client writes them. A
//! message loses the owned fields that it came with, as at Dovecot, and its `Content-Length`.
//!
//! **Order of writing.** All locks held: (1) a missing line end, the blank line of a separator and
//! the first From_ line, `fdatasync`; (2) everything else, `fsync`, which is the commit point. A
//! crash before (1) leaves the old file; during (1), the old file with NULs or a piece of a From_
//! line at its end; during (2), all old messages and behind them what came of the new ones. NULs at
//! the end count to no message, and the next append cuts them off. An error cuts the file back to
//! its old size.

use std::fmt::Write as _;
use std::io;

use barid_message::{fields, is_owned_field};
use barid_types::{Flag, InternalDate};
use barid_vfs::File;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::layout::{MMDF_SEPARATOR, NULS_MAX, SENDER_LEN_MAX, WRITE_LEN};
use super::lock::{Purpose, WriteLocks};
use super::{MboxMailbox, Variant};
use crate::{Error, NewMessage, Result};

/// Appends one message as it stands in a file of `variant`: separator, From_ line, header, the
/// owned fields that its flags need, body, and what ends it.
///
/// `date` is for the From_ line, which is written in the local time of `zone`. A line that would be
/// taken for a From_ line is quoted as the variant wants it; in the header it always is. A message
/// whose last line is not ended gets an LF, but with a `Content-Length` it stays as it is.
pub fn write_message(
    variant: Variant,
    message: &NewMessage<'_>,
    date: InternalDate,
    zone: &TimeZone,
    out: &mut Vec<u8>,
) {
    if variant == Variant::Mmdf {
        out.extend_from_slice(MMDF_SEPARATOR);
    }
    write_from_line(message.sender, date, zone, out);
    let header_len = barid_message::body_offset(message.bytes);
    let (header, body) = message.bytes.split_at(header_len);
    write_header(variant, header, out);
    write_flags(message, out);
    let has_length = matches!(variant, Variant::Mboxcl | Variant::Mboxcl2);
    let text_offset = out.len();
    if has_length && variant == Variant::Mboxcl2 {
        put(out, format_args!("Content-Length: {}\n\n", body.len()));
        out.extend_from_slice(body);
    } else if has_length {
        let mut quoted = Vec::with_capacity(body.len() + 64);
        quote(variant, body, &mut quoted);
        put(out, format_args!("Content-Length: {}\n\n", quoted.len()));
        out.extend_from_slice(&quoted);
    } else {
        out.push(b'\n');
        quote(variant, body, out);
    }
    if !has_length && !out[text_offset..].ends_with(b"\n") {
        out.push(b'\n');
    }
    match variant {
        Variant::Mmdf => out.extend_from_slice(MMDF_SEPARATOR),
        _ => out.push(b'\n'),
    }
}

/// `From SENDER Www Mmm dd hh:mm:ss yyyy`, which c-client, Dovecot and NeoMutt all accept.
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

/// The header without its owned fields and its blank line, every line ended.
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

/// Status, X-Status and X-Keywords, where they say anything; a message without `O` is \Recent.
fn write_flags(message: &NewMessage<'_>, out: &mut Vec<u8>) {
    let has = |flag| message.flags.contains(flag);
    if has(Flag::Seen) {
        out.extend_from_slice(b"Status: R\n");
    }
    let letters =
        [(Flag::Deleted, 'D'), (Flag::Flagged, 'F'), (Flag::Answered, 'A'), (Flag::Draft, 'T')];
    if letters.iter().any(|(flag, _)| has(*flag)) {
        let held: String =
            letters.iter().filter(|(flag, _)| has(*flag)).map(|(_, letter)| letter).collect();
        put(out, format_args!("X-Status: {held}\n"));
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

/// Bytes at the end of a file that tell what is missing there.
const TAIL_LEN: u64 = 8;
const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Appends messages to the file, under all locks; the module's text says in which order.
pub(super) fn append(mailbox: &MboxMailbox, messages: &[NewMessage<'_>]) -> Result<()> {
    if messages.is_empty() {
        return Ok(());
    }
    let at = || Error::at(&mailbox.path);
    let locks = WriteLocks::acquire(mailbox, Purpose::Append)?;
    let size = locks.file().metadata().map_err(at())?.size;
    let end = End::find(locks.file(), size).map_err(at())?;
    let written = write_all(mailbox, &locks, &end, messages);
    if written.is_err() {
        // The error is what matters; what cannot be cut back now is for the next append.
        let _ = locks.file().set_len(size);
    }
    written
}

/// The size of a file without the NULs that an interrupted append left behind its last line end.
/// Costs one read of one byte where there are none.
pub(super) fn size_without_nuls(file: &dyn File, size: u64) -> io::Result<u64> {
    let mut end = size;
    let mut len = 1;
    while end > 0 {
        let start = end.saturating_sub(len as u64);
        let mut bytes = vec![0; (end - start) as usize];
        file.read_exact_at(&mut bytes, start)?;
        let nuls = bytes.iter().rev().take_while(|byte| **byte == 0).count();
        end -= nuls as u64;
        match bytes.len().checked_sub(nuls + 1) {
            Some(last) if bytes[last] == b'\n' => return Ok(end),
            Some(_) => return Ok(size),
            None => len = NULS_MAX,
        }
    }
    Ok(size)
}

/// The end of a file before an append.
struct End {
    /// Where its last byte that counts is.
    size: u64,
    /// The bytes that stand there.
    tail: Vec<u8>,
}

impl End {
    fn find(file: &dyn File, size: u64) -> io::Result<Self> {
        let size = size_without_nuls(file, size)?;
        let mut tail = vec![0; size.min(TAIL_LEN) as usize];
        let start = size - tail.len() as u64;
        file.read_exact_at(&mut tail, start)?;
        Ok(Self { size, tail })
    }

    /// What must stand before the next separator.
    fn missing(&self, variant: Variant) -> &'static [u8] {
        if self.tail.is_empty() {
            return b"";
        }
        let ends = |with: &[u8]| self.tail.ends_with(with);
        if variant == Variant::Mmdf {
            return match () {
                () if ends(MMDF_SEPARATOR) => b"",
                () if ends(b"\n") => MMDF_SEPARATOR,
                () => b"\n\x01\x01\x01\x01\n",
            };
        }
        match () {
            () if ends(b"\n\n") || ends(b"\n\r\n") || self.tail == b"\n" => b"",
            () if ends(b"\n") => b"\n",
            () => b"\n\n",
        }
    }
}

fn write_all(
    mailbox: &MboxMailbox,
    locks: &WriteLocks,
    end: &End,
    messages: &[NewMessage<'_>],
) -> Result<()> {
    let at = || Error::at(&mailbox.path);
    let file = locks.file();
    let variant = mailbox.variant.unwrap_or(Variant::Mboxo);
    let now = InternalDate { unix_seconds: mailbox.vfs.now().unix_seconds(), zone_minutes: 0 };
    if end.size < file.metadata().map_err(at())?.size {
        file.set_len(end.size).map_err(at())?;
    }
    let mut out = end.missing(variant).to_vec();
    let mut offset = end.size;
    for (index, message) in messages.iter().enumerate() {
        let date = message.internal_date.unwrap_or(now);
        let start = out.len();
        write_message(variant, message, date, mailbox.zone(), &mut out);
        if index == 0 {
            let skip = if variant == Variant::Mmdf { MMDF_SEPARATOR.len() } else { 0 };
            let line = memchr::memchr(b'\n', &out[start + skip..]).map_or(0, |at| at + 1);
            let first = start + skip + line;
            file.write_all_at(&out[..first], offset).map_err(at())?;
            file.sync_data().map_err(at())?;
            offset += first as u64;
            out.drain(..first);
        }
        if out.len() >= WRITE_LEN || index + 1 == messages.len() {
            file.write_all_at(&out, offset).map_err(at())?;
            offset += out.len() as u64;
            out.clear();
        }
        locks.touch()?;
    }
    file.sync_all().map_err(at())
}

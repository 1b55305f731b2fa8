//! Mailboxes on disk: those of `barid-corpus`, and a reader of mbox files, to check what programs
//! wrote. It shares no code with the tested crates.
//!
//! It reads mail whose bodies contain no line like a From_ line, as [`MboxVariant::Mboxo`]
//! writes it; LF line ends.

use std::io::{self, Read};
use std::path::Path;

use barid_types::{Flag, FlagSet};
use memchr::memmem;
use xxhash_rust::xxh3::Xxh3Default;

pub use barid_corpus::boxes::{
    MaildirWriter, MboxOptions, MboxVariant, MboxWriter, Written, maildir_name,
};

use crate::disk;

/// Bytes read at a time.
const READ_LEN: usize = 4 << 20;
/// The largest message that is read.
const MESSAGE_LEN_MAX: usize = 1 << 30;

/// The headers that an mbox owns, and the one whose length may be wrong.
const OWN: [&str; 7] =
    ["status", "x-status", "x-keywords", "x-uid", "x-imap", "x-imapbase", "content-length"];

/// A message as stored in an mbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredMessage {
    /// Offset of its From_ line.
    pub offset: u64,
    /// Bytes from its From_ line to the next one.
    pub len: u64,
    /// The hash of the message: without the From_ line, the blank line that ends it, and the
    /// headers that the mailbox owns.
    pub hash: u64,
    /// `X-UID`.
    pub uid: Option<u32>,
    /// `Status` and `X-Status`; \Recent if there is no `O`.
    pub flags: FlagSet,
    /// `X-Keywords`.
    pub keywords: Vec<String>,
}

/// Passes each message of an mbox to `visit`, in order, without the pseudo-message of c-client and
/// Dovecot. Returns the number of messages. Takes memory for a few megabytes and the largest
/// message.
///
/// # Errors
///
/// If the file cannot be read, does not begin with a From_ line, or has a message of more than a
/// gigabyte.
pub fn read_mbox(path: &Path, mut visit: impl FnMut(StoredMessage)) -> io::Result<u64> {
    let mut file = disk::open(path)?;
    let mut buffer: Vec<u8> = Vec::new();
    let (mut offset, mut count, mut is_end) = (0_u64, 0, false);
    // No message begins before `searched`, except at the start of the buffer.
    let mut searched = 1;
    while !is_end {
        let had = buffer.len();
        file.by_ref().take(READ_LEN as u64).read_to_end(&mut buffer)?;
        is_end = buffer.len() == had;
        let mut start = 0;
        while let Some(next) = separator(&buffer, searched, is_end) {
            count += u64::from(message(&buffer[start..next], offset, &mut visit)?);
            offset += (next - start) as u64;
            (start, searched) = (next, next + 1);
        }
        if is_end && start < buffer.len() {
            count += u64::from(message(&buffer[start..], offset, &mut visit)?);
        }
        buffer.drain(..start);
        // The line at the end may be half a From_ line.
        let line = buffer.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        searched = line.max(1);
        if buffer.len() > MESSAGE_LEN_MAX {
            return Err(invalid(path, "a message is too large"));
        }
    }
    Ok(count)
}

fn invalid(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()))
}

/// Returns the offset of the next From_ line from `from` on; it is complete, or the file ends.
fn separator(bytes: &[u8], from: usize, is_end: bool) -> Option<usize> {
    let mut search = from.saturating_sub(1);
    while let Some(found) = memmem::find(bytes.get(search..)?, b"\nFrom ") {
        let start = search + found + 1;
        let end = memchr::memchr(b'\n', &bytes[start..]).map(|len| start + len);
        match end {
            None if !is_end => return None,
            None => {}
            Some(end) if is_from_line(&bytes[start..end]) => return Some(start),
            Some(_) => {}
        }
        search = start;
    }
    None
}

/// Returns `true` if a line that starts with `From ` has a time and a year.
fn is_from_line(line: &[u8]) -> bool {
    let digits = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_digit);
    let has_time = line.windows(5).any(|w| w[2] == b':' && digits(&w[..2]) && digits(&w[3..]));
    has_time && line.windows(5).any(|window| window[0] == b' ' && digits(&window[1..]))
}

/// Passes a message to `visit`. Returns `false` for the pseudo-message.
fn message(bytes: &[u8], offset: u64, visit: &mut impl FnMut(StoredMessage)) -> io::Result<bool> {
    if !bytes.starts_with(b"From ") {
        let text = format!("no From_ line at offset {offset}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let len = bytes.len() as u64;
    let mut stored = StoredMessage { offset, len, ..StoredMessage::default() };
    let (header, body) = split(bytes);
    let mut hash = Xxh3Default::new();
    let mut is_old = false;
    for (name, field) in fields(header) {
        let own = OWN.iter().find(|own| own.as_bytes().eq_ignore_ascii_case(name));
        let value = || String::from_utf8_lossy(&field[(name.len() + 1).min(field.len())..]);
        match own {
            None => hash.update(field),
            Some(&"x-imap") => return Ok(false),
            Some(&"status" | &"x-status") => {
                stored.flags = value().chars().fold(stored.flags, |flags, letter| match letter {
                    'R' => flags.with(Flag::Seen),
                    'A' => flags.with(Flag::Answered),
                    'F' => flags.with(Flag::Flagged),
                    'D' => flags.with(Flag::Deleted),
                    'T' => flags.with(Flag::Draft),
                    _ => flags,
                });
                is_old |= value().contains('O');
            }
            Some(&"x-uid") => stored.uid = value().trim().parse().ok(),
            Some(&"x-keywords") => {
                stored.keywords = value().split_ascii_whitespace().map(str::to_owned).collect();
            }
            Some(_) => {}
        }
    }
    if !is_old {
        stored.flags = stored.flags.with(Flag::Recent);
    }
    hash.update(b"\n");
    hash.update(body);
    stored.hash = hash.digest();
    visit(stored);
    Ok(true)
}

/// Returns the header without From_ line and blank line, and the body without the blank line at its
/// end.
fn split(message: &[u8]) -> (&[u8], &[u8]) {
    let first = memchr::memchr(b'\n', message).map_or(message.len(), |at| at + 1);
    let rest = &message[first..];
    let end = if rest.starts_with(b"\n") {
        Some(0)
    } else {
        memmem::find(rest, b"\n\n").map(|at| at + 1)
    };
    let Some(end) = end else { return (rest, b"") };
    let body = &rest[end + 1..];
    let has_blank = body == b"\n" || body.ends_with(b"\n\n");
    (&rest[..end], &body[..body.len() - usize::from(has_blank)])
}

/// Returns the fields of a header: name, and all lines.
fn fields(header: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = header;
    std::iter::from_fn(move || {
        let mut end = 0;
        loop {
            end += memchr::memchr(b'\n', &rest[end..]).map_or(rest.len() - end, |at| at + 1);
            if end >= rest.len() || !matches!(rest[end], b' ' | b'\t') {
                break;
            }
        }
        let (field, after) = rest.split_at(end);
        rest = after;
        let name = field.split(|byte| *byte == b':').next().unwrap_or_default();
        (!field.is_empty()).then_some((name, field))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;
    use crate::corpus::Corpus;

    fn read(text: &[u8]) -> Vec<StoredMessage> {
        let scratch = Scratch::new("read").unwrap();
        let path = scratch.path().join("box");
        disk::write(&path, text).unwrap();
        let mut messages = Vec::new();
        let count = read_mbox(&path, |message| messages.push(message)).unwrap();
        assert_eq!(count as usize, messages.len());
        messages
    }

    const FROM: &str = "From a@b Thu Jan  1 00:00:00 1970\n";

    #[test]
    fn the_mailboxs_own_headers_do_not_count() {
        let plain = format!("{FROM}Subject: x\nTo: y\n\ntext\n\nmore\n");
        let dressed = "From c  Thu Jan  2 00:00:00 1971\nstatus: RO\nSubject: x\nX-Status: FA\n\
                       X-Keywords: a b\n c   \nTo: y\nX-UID: 17\nContent-Length: 3\n\ntext\n\nmore\n\n";
        let (one, two) = (read(plain.as_bytes()).remove(0), read(dressed.as_bytes()).remove(0));
        assert_eq!(one.hash, two.hash);
        assert_eq!(two.uid, Some(17));
        assert_eq!(two.keywords, ["a", "b", "c"]);
        let flags = [Flag::Seen, Flag::Flagged, Flag::Answered].into_iter().collect::<FlagSet>();
        assert_eq!((one.flags, two.flags), (FlagSet::EMPTY.with(Flag::Recent), flags));
        let other = read(plain.replace("more", "less").as_bytes()).remove(0);
        assert_ne!(one.hash, other.hash);
    }

    #[test]
    fn only_from_lines_separate() {
        let text = format!("{FROM}S: x\n\nFrom here to there\nFrom 12:30\n\n{FROM}S: y\n\n\n");
        let messages = read(text.as_bytes());
        assert_eq!(messages.iter().map(|m| m.len).sum::<u64>(), text.len() as u64);
        assert_eq!(messages.len(), 2);
        let pseudo = format!("{FROM}X-IMAP: 1 2\n\nx\n\n{FROM}S: y\n\n");
        assert_eq!(read(pseudo.as_bytes()).len(), 1);
        assert_eq!(read(b""), []);
    }

    #[test]
    fn reads_may_end_anywhere() {
        let corpus = Corpus::new(5, 3_000);
        let scratch = Scratch::new("read").unwrap();
        let path = scratch.path().join("box");
        let options = MboxOptions { status: false, ..MboxOptions::new(MboxVariant::Mboxo) };
        let written = corpus.write_mbox(&path, options).unwrap();
        assert!(written.bytes > 2 * READ_LEN as u64);
        let (mut end, mut number) = (0, 0);
        let count = read_mbox(&path, |stored| {
            assert_eq!(stored.offset, end);
            let mut alone = Vec::new();
            options.render(&corpus.message(number), &mut alone);
            assert_eq!(stored.hash, read(&alone)[0].hash);
            end += stored.len;
            number += 1;
        });
        assert_eq!((count.unwrap(), end), (3_000, written.bytes));
    }
}

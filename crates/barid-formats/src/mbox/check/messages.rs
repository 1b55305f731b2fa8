//! Check of every message: its header, its length, its UID.

use std::io;
use std::ops::Range;

use barid_message::RawField;

use super::super::layout::MMDF_SEPARATOR;
use super::super::status::{HeadEnd, MailboxFields};
use super::super::walk::{Next, Separator, Walked};
use super::{MboxCheck, WrongLength};
use crate::check::{DOUBT, NEW_UIDVALIDITY, Severity, UidsFound, new_uidvalidity, uidvalidity_now};

/// Properties of a message that the check of UIDs needs.
struct CheckedMessage {
    uid: u32,
    /// Range of the value of its X-UID, if it has one.
    uid_at: Option<Range<u64>>,
}

/// Properties of the whole mailbox, from its first message.
#[derive(Default)]
struct FirstMessage {
    /// X-IMAPbase or X-IMAP, with the range of its value.
    base: Option<(MailboxFields, Range<u64>)>,
}

/// Checks all messages from the first one on.
pub(super) fn look_at_messages(look: &mut MboxCheck<'_>, first: Separator) -> io::Result<()> {
    let mut walker = look.walker();
    let (mut messages, mut whole) = (Vec::new(), FirstMessage::default());
    let mut next = Next::Message(first);
    while let Next::Message(separator) = next {
        let is_first = messages.is_empty();
        next = walker.message(separator, |walked: &Walked<'_>| -> io::Result<()> {
            let message = look_at_message(look, walked, is_first, &mut whole);
            messages.push(message);
            Ok(())
        })?;
        if look.is_mmdf()
            && let Next::Message(separator) = next
        {
            opening(look, separator.offset)?;
        }
    }
    let pseudo = whole.base.as_ref().is_some_and(|(base, _)| base.pseudo);
    look.diagnosis.messages = (messages.len() - usize::from(pseudo)) as u64;
    look_at_uids(look, &messages, &whole);
    Ok(())
}

fn look_at_message(
    look: &mut MboxCheck<'_>,
    walked: &Walked<'_>,
    is_first: bool,
    whole: &mut FirstMessage,
) -> CheckedMessage {
    let Walked { separator, header, head_end, owned, .. } = walked;
    let start = separator.offset + u64::from(separator.len);
    let end = start + header.len() as u64;
    if !is_first && look.quotes() && is_no_header(header) {
        let what = "no header follows the separator: it is a line of the previous message";
        let damage = look.damage("no-header", Severity::Warning, separator.offset).what(what);
        let repair = "it is quoted, which joins both into one message";
        look.fix(separator.offset..separator.offset, b">", damage.repair(repair));
    } else if matches!(head_end, HeadEnd::Separator | HeadEnd::Eof) && !header.is_empty() {
        let what = "no blank line ends the header";
        let damage = look.damage("no-blank-line", Severity::Warning, end).what(what);
        let line_end: &[u8] = if header.ends_with(b"\n") { b"\n" } else { b"\n\n" };
        look.fix(end..end, line_end, damage.repair("it is added"));
    }
    if walked.length_lies && !look.is_mmdf() {
        content_length(look, walked, start);
    }
    if owned.content_length.is_some() && !walked.length_lies && !look.is_mmdf() {
        look.bodies.push(end..end + walked.body_len);
    }
    base(look, walked, start, is_first, whole);
    let uid = field(header, start, b"X-UID");
    CheckedMessage { uid: owned.uid.unwrap_or(0), uid_at: uid }
}

/// Returns `true` if the text after a separator does not begin with a header field.
fn is_no_header(header: &[u8]) -> bool {
    let line = header.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let name = line.iter().take_while(|byte| matches!(byte, 33..=57 | 59..=126)).count();
    let is_field = name > 0 && line[name..].trim_ascii_start().first() == Some(&b':');
    let line = line.trim_ascii();
    !line.is_empty() && !is_field && !line.starts_with(b">From ")
}

/// Returns the range of a field's value in the file.
fn field(header: &[u8], start: u64, name: &[u8]) -> Option<Range<u64>> {
    let RawField { offset, end, .. } = barid_message::field(header, name)?;
    let text = header.get(offset..end)?;
    let colon = memchr::memchr(b':', text)?;
    let len = text[colon + 1..].trim_ascii_end().len();
    let from = start + (offset + colon + 1) as u64;
    Some(from..from + len as u64)
}

/// Returns a value with a space before it, padded to the length of the range that it replaces.
fn padded(value: &str, range: &Range<u64>) -> Vec<u8> {
    let len = (range.end - range.start) as usize;
    format!(" {value:<width$}", width = len.saturating_sub(1)).into_bytes()
}

/// Records a `Content-Length` that leads nowhere.
fn content_length(look: &mut MboxCheck<'_>, walked: &Walked<'_>, start: u64) {
    let Some(range) = field(walked.header, start, b"Content-Length") else { return };
    let bytes = padded(&walked.body_len.to_string(), &range);
    let end = start + walked.header.len() as u64;
    look.lengths.push(WrongLength { range, bytes, body: end..end + walked.body_len });
}

/// Checks X-IMAPbase and X-IMAP.
fn base(
    look: &mut MboxCheck<'_>,
    walked: &Walked<'_>,
    start: u64,
    is_first: bool,
    whole: &mut FirstMessage,
) {
    let header = walked.header;
    let names: [&[u8]; 2] = [b"X-IMAPbase", b"X-IMAP"];
    let Some(range) = names.iter().find_map(|name| field(header, start, name)) else { return };
    if !is_first {
        let what = "it has the mailbox fields that belong only in the first message";
        let damage = look.damage("imapbase-place", Severity::Note, range.start).what(what);
        look.diagnosis.note(damage);
        return;
    }
    match walked.owned.base(header) {
        Some(base) => whole.base = Some((base, range)),
        None => {
            let what = "the UIDVALIDITY and the last UID of the mailbox cannot be read";
            let damage = look.damage("imapbase", Severity::Warning, range.start).what(what);
            let now = uidvalidity_now(&*look.mailbox.vfs);
            let bytes = padded(&format!("{now} 0000000000"), &range);
            look.fix(range, &bytes, damage.repair(NEW_UIDVALIDITY));
        }
    }
}

/// Checks for the opening separator of MMDF before a message.
fn opening(look: &mut MboxCheck<'_>, offset: u64) -> io::Result<()> {
    let len = MMDF_SEPARATOR.len() as u64;
    let mut before = [0; MMDF_SEPARATOR.len()];
    if offset >= len {
        look.file.read_exact_at(&mut before, offset - len)?;
    }
    if before != *MMDF_SEPARATOR {
        let what = "only one separator is between two messages, instead of two";
        let damage = look.damage("mmdf-separator", Severity::Warning, offset).what(what);
        look.fix(offset..offset, MMDF_SEPARATOR, damage.repair("the other one is added"));
    }
    Ok(())
}

/// Checks that UIDs ascend, and that the last UID is right.
fn look_at_uids(look: &mut MboxCheck<'_>, messages: &[CheckedMessage], whole: &FirstMessage) {
    // Without a UIDVALIDITY, UIDs mean nothing.
    let Some((base, base_at)) = &whole.base else { return };
    let from = usize::from(base.pseudo);
    let messages = &messages[from.min(messages.len())..];
    let with_uid: Vec<&CheckedMessage> =
        messages.iter().filter(|message| message.uid > 0).collect();
    let found: Vec<u32> = with_uid.iter().map(|message| message.uid).collect();
    let uids = UidsFound { found: &found, last: Some(base.uid_last) };
    let is_kept = uids.longest_rise().is_kept(found.len());
    let mut last = base.uid_last;
    for (at, message) in with_uid.iter().enumerate() {
        if is_kept[at] {
            last = last.max(message.uid);
            continue;
        }
        let Some(range) = message.uid_at.clone() else { continue };
        let what = format!("its UID {} is not above that of the previous message", message.uid);
        let damage = look.damage("uid-order", Severity::Warning, range.start).of(message.uid);
        // If only one UID fits between the neighbours', the message had that one.
        let below = if at == 0 { Some(0) } else { is_kept[at - 1].then(|| found[at - 1]) };
        let above = found.get(at + 1).filter(|_| is_kept.get(at + 1) == Some(&true));
        let only = below.zip(above).filter(|(below, above)| **above == below + 2);
        let bytes = match only {
            Some((below, _)) => padded(&(below + 1).to_string(), &range),
            None => padded("", &range),
        };
        let repair = "it gets the only possible UID, or a new one at the next opening";
        look.fix(range, &bytes, damage.what(what).repair(repair));
    }
    let mut goes = found.iter().zip(&is_kept).filter(|(_, is_kept)| !**is_kept);
    let is_doubtful = goes.any(|(uid, _)| *uid > last);
    numbers(look, (base, base_at), last, is_doubtful);
}

/// Repairs the last UID, and the UIDVALIDITY if UIDs may have been assigned twice.
fn numbers(
    look: &mut MboxCheck<'_>,
    base: (&MailboxFields, &Range<u64>),
    last: u32,
    is_doubtful: bool,
) {
    let (MailboxFields { validity, uid_last, keywords, .. }, base_at) = base;
    let mut told = Vec::new();
    let mut validity = validity.get();
    if is_doubtful {
        let damage = look.damage("uidvalidity", Severity::Error, base_at.start);
        told.push(damage.what(DOUBT).repair(NEW_UIDVALIDITY));
        let now = uidvalidity_now(&*look.mailbox.vfs);
        validity = new_uidvalidity(now, validity);
    }
    if last > *uid_last {
        let what = format!("the last UID is {uid_last}, but a message has {last}");
        let damage = look.damage("uid-last", Severity::Warning, base_at.start).of(last).what(what);
        told.push(damage.repair("it becomes that of the last message"));
    }
    if told.is_empty() {
        return;
    }
    told.into_iter().for_each(|damage| look.diagnosis.note(damage));
    let words = keywords.names().iter().map(|keyword| format!(" {}", keyword.as_str()));
    let words: String = words.collect();
    let bytes = padded(&format!("{validity} {last:010}{words}"), base_at);
    look.fixes.0.push((base_at.clone(), bytes));
}

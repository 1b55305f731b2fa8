//! A message that was stored in the mailbox before, restored as it was.
//!
//! Separator, header and body are copied byte for byte, with their line ends, quoting and
//! `Content-Length`. The exceptions are the fields in which the mailbox keeps the UID and the
//! flags: the old UID is not used again, `X-IMAPbase` belongs to the message that is now the first,
//! and flags may have changed after the fields were written.

use barid_mailbox::{MessageRest, NewMessage, Result, StoredMessage};
use barid_message::{fields, is_owned_field};
use barid_types::{Flag, FlagSet, Keyword, Uid};

use super::{Composed, letters, put};
use crate::mbox::Variant;
use crate::mbox::from_line::FromProfile;
use crate::mbox::layout::{MMDF_SEPARATOR, PADDING_LEN};
use crate::mbox::status::{self, Owned, Separators};

/// Appends `message`, whose bytes in the mailbox were `stored`.
pub(super) fn write_stored(
    variant: Variant,
    message: &NewMessage<'_>,
    stored: &StoredMessage<'_>,
    uid: Option<Uid>,
    composed: &mut Composed<'_, '_>,
) -> Result<()> {
    let out = &mut *composed.bytes;
    let separator_len = stored.separator_len.min(stored.bytes.len());
    let (separator, text) = stored.bytes.split_at(separator_len);
    let end = if separator.ends_with(b"\r\n") { "\r\n" } else { "\n" };
    out.extend_from_slice(separator);
    let (header, body) = text.split_at(barid_message::body_offset(text));
    let blank = [&b"\r\n"[..], b"\n"].into_iter().find(|blank| is_blank(header, blank));
    let lines = &header[..header.len() - blank.map_or(0, <[u8]>::len)];
    let owned = owned_of(variant, header);
    let is_same = has_flags(&owned, header, message);
    let has_uid = write_lines(lines, uid, is_same, end, out);
    if !out.ends_with(b"\n") {
        out.extend_from_slice(end.as_bytes());
    }
    if !is_same {
        write_flags(header, message, uid.is_some(), end, out);
    }
    if let Some(uid) = uid.filter(|_| !has_uid) {
        put(out, format_args!("X-UID: {uid}{end}"));
    }
    out.extend_from_slice(blank.unwrap_or_default());
    out.extend_from_slice(body);
    message.read_rest(&mut |piece| {
        composed.bytes.extend_from_slice(piece);
        composed.flush_if_full()
    })?;
    let out = &mut *composed.bytes;
    let body_len = body.len() as u64 + message.rest.map_or(0, MessageRest::size);
    let has_length = owned.content_length == Some(body_len)
        || matches!(variant, Variant::Mboxcl | Variant::Mboxcl2);
    if !has_length && !out.ends_with(b"\n") {
        out.extend_from_slice(end.as_bytes());
    }
    match variant {
        Variant::Mmdf => out.extend_from_slice(MMDF_SEPARATOR),
        _ => out.extend_from_slice(end.as_bytes()),
    }
    Ok(())
}

/// Returns `true` if a header ends with this blank line.
fn is_blank(header: &[u8], blank: &[u8]) -> bool {
    header.strip_suffix(blank).is_some_and(|lines| lines.is_empty() || lines.ends_with(b"\n"))
}

/// Returns the values of the owned fields of a header.
fn owned_of(variant: Variant, header: &[u8]) -> Owned {
    let separators = match variant {
        Variant::Mmdf => Separators::Mmdf,
        _ => Separators::From(FromProfile::default()),
    };
    let mut owned = Owned::default();
    status::head(header, true, separators, &mut owned);
    owned
}

/// Returns `true` if the fields of a header state the flags and keywords of the message.
fn has_flags(owned: &Owned, header: &[u8], message: &NewMessage<'_>) -> bool {
    let mut keywords: Vec<Keyword> = Vec::new();
    owned.keywords(header, |keyword| {
        keywords.push(keyword.clone());
        None
    });
    let plain = |flags: FlagSet| flags.without(Flag::Recent);
    plain(owned.flags()) == plain(message.flags)
        && keywords.iter().all(|keyword| message.keywords.contains(keyword))
        && message.keywords.iter().all(|keyword| keywords.contains(keyword))
}

/// Writes the lines of a header without `X-IMAPbase`, with the new UID in place of the old one, and
/// without flags unless `keeps_flags`. Returns `true` if the UID was written.
fn write_lines(
    lines: &[u8],
    uid: Option<Uid>,
    keeps_flags: bool,
    end: &str,
    out: &mut Vec<u8>,
) -> bool {
    let mut from = 0;
    let mut has_uid = false;
    for field in fields(lines).filter(|field| is_owned_field(field.name)) {
        let is = |name: &[u8]| field.name.eq_ignore_ascii_case(name);
        let is_base = is(b"X-IMAP") || is(b"X-IMAPbase");
        let is_uid = is(b"X-UID");
        if !is_base && !is_uid && keeps_flags {
            continue;
        }
        out.extend_from_slice(&lines[from..field.offset]);
        from = field.end;
        if let Some(uid) = uid.filter(|_| is_uid && !has_uid) {
            put(out, format_args!("X-UID: {uid}{end}"));
            has_uid = true;
        }
    }
    out.extend_from_slice(&lines[from..]);
    has_uid
}

/// Writes the fields of flags and keywords, with padding if the mailbox is numbered.
fn write_flags(
    header: &[u8],
    message: &NewMessage<'_>,
    is_numbered: bool,
    end: &str,
    out: &mut Vec<u8>,
) {
    let is_old = fields(header)
        .any(|field| field.name.eq_ignore_ascii_case(b"status") && field.body.contains(&b'O'));
    let seen = if message.flags.contains(Flag::Seen) { "R" } else { "" };
    let old = if is_old { "O" } else { "" };
    put(
        out,
        format_args!("Status: {seen}{old}{end}X-Status: {}{end}X-Keywords:", letters(message)),
    );
    for keyword in &message.keywords {
        put(out, format_args!(" {}", keyword.as_str()));
    }
    if is_numbered {
        out.resize(out.len() + PADDING_LEN, b' ');
    }
    out.extend_from_slice(end.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `stored` is a message with its From_ line; `flags` are letters of Status, `k` is a keyword.
    fn check(variant: Variant, stored: &str, flags: &str, uid: u32, expected: &str) {
        let separator_len = match variant {
            Variant::Mmdf => MMDF_SEPARATOR.len(),
            _ => stored.find('\n').map_or(0, |at| at + 1),
        };
        let all = [('R', Flag::Seen), ('F', Flag::Flagged), ('A', Flag::Answered)];
        let held = all.into_iter().filter(|(letter, _)| flags.contains(*letter));
        let keyword = flags.contains('k').then(|| Keyword::new("k").unwrap());
        let message = NewMessage {
            bytes: b"",
            rest: None,
            internal_date: None,
            flags: held.map(|(_, flag)| flag).collect(),
            keywords: keyword.into_iter().collect(),
            sender: None,
            stored: Some(StoredMessage { bytes: stored.as_bytes(), separator_len }),
            uid: None,
            uidnext: None,
        };
        let mut out = Vec::new();
        let mut composed = Composed { bytes: &mut out, flush: None };
        let stored = message.stored.unwrap();
        write_stored(variant, &message, &stored, Uid::new(uid), &mut composed).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn bytes_are_restored() {
        for variant in [Variant::Mboxo, Variant::Mboxrd, Variant::Mboxcl, Variant::Mboxcl2] {
            let stored =
                "From a@b  Sat Jan  3 01:05:34 1996\nA: b\nContent-Length: 12\n\nFrom me\n>x\n\n";
            check(variant, stored, "", 0, &format!("{stored}\n"));
            let stored = "From a@b Sat Jan  3 01:05:34 1996\r\nA: b\r\nStatus: RO\r\n\r\nx\r\n";
            check(variant, stored, "R", 0, &format!("{stored}\r\n"));
        }
        let stored = "\x01\x01\x01\x01\nA: b\n\nx\n";
        check(Variant::Mmdf, stored, "", 0, &format!("{stored}\x01\x01\x01\x01\n"));
        check(Variant::Mboxcl2, "From x\nA: b\n\nx", "", 0, "From x\nA: b\n\nx\n");
        let stored = "From x\nContent-Length: 1\n\nx";
        check(Variant::Mboxo, stored, "", 0, &format!("{stored}\n"));
        check(Variant::Mboxo, "From x\nA: b\n\nx", "", 0, "From x\nA: b\n\nx\n\n");
        check(Variant::Mboxo, "From x\nA: b", "", 0, "From x\nA: b\n\n");
        check(Variant::Mboxo, "From x\n\nx\n", "", 0, "From x\n\nx\n\n");
    }

    #[test]
    fn the_uid_and_changed_flags_are_new() {
        let stored = "From x\nX-IMAPbase: 1 0000000007 k\nX-UID: 3\nStatus: RO\nX-Keywords: k   \n\
                      A: b\n\nx\n";
        let same = "From x\nX-UID: 9\nStatus: RO\nX-Keywords: k   \nA: b\n\nx\n\n";
        check(Variant::Mboxo, stored, "Rk", 9, same);
        let unnumbered = "From x\nStatus: RO\nX-Keywords: k   \nA: b\n\nx\n\n";
        check(Variant::Mboxo, stored, "Rk", 0, unnumbered);
        let flagged = "From x\nA: b\nStatus: RO\nX-Status: F\nX-Keywords: k\n\nx\n\n";
        check(Variant::Mboxo, stored, "RFk", 0, flagged);
        let without = "From x\r\nA: b\r\n\r\nx\r\n";
        let padding = " ".repeat(PADDING_LEN);
        let with = format!(
            "From x\r\nA: b\r\nStatus: R\r\nX-Status: A\r\nX-Keywords:{padding}\r\nX-UID: 9\r\n\
             \r\nx\r\n\r\n"
        );
        check(Variant::Mboxrd, without, "RA", 9, &with);
    }
}

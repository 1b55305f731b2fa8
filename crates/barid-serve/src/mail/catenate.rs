//! The URLs of CATENATE (RFC 4469, RFC 5092): messages and their parts, by mailbox and UID.

use barid::fetch::{FetchItem, FetchItems};
use barid::{Cancel, Uid};
use barid_imap::backend::{Answer, Refusal};
use barid_imap::command::MailboxName;

use super::refusal::refused;
use super::user::UserMail;
use crate::limits::CATENATED_LEN_MAX;

/// A message, or a part of one, of the same account.
#[derive(Debug, PartialEq, Eq)]
struct MessageUrl {
    mailbox: String,
    uidvalidity: Option<u32>,
    uid: u32,
    section: String,
    /// First byte and number of bytes.
    partial: Option<(u64, Option<u64>)>,
}

/// Returns the bytes that a URL names, with CRLF at the ends of lines.
pub(crate) fn bytes_of(user: &UserMail, url: &str, cancel: &Cancel) -> Answer<Vec<u8>> {
    let bad = || Refusal::new("BADURL", format!("{url} is not a message of this account"));
    let parsed = parse(url).ok_or_else(bad)?;
    let mailbox = user.open_mailbox(&MailboxName::from(&*parsed.mailbox)).map_err(|_| bad())?;
    let view = mailbox.refresh(cancel).map_err(refused)?;
    let is_same = |expected| view.view_status().uidvalidity.get() == expected;
    let uid = Uid::new(parsed.uid).filter(|_| parsed.uidvalidity.is_none_or(is_same));
    let uid = uid.ok_or_else(bad)?;
    let partial = parsed.partial.map_or(String::new(), |(first, count)| match count {
        Some(count) => format!("<{first}.{count}>"),
        None => format!("<{first}>"),
    });
    let item = format!("BODY.PEEK[{}]{partial}", parsed.section);
    let items = FetchItems::parse(&item).map_err(|_| bad())?;
    let write = |message: &barid::fetch::Fetched<'_>, out: &mut Vec<u8>| {
        if let [FetchItem::Section { section, partial, .. }] = message.items().items()
            && let Some(bytes) = message.section(section, *partial)
        {
            // A message that exists is told from one that does not.
            out.push(1);
            out.extend_from_slice(&bytes);
        }
    };
    let (mut bytes, mut is_too_large) = (Vec::new(), false);
    let report = view.fetch(&[uid], &items, &write, &mut |piece| {
        is_too_large = bytes.len() + piece.len() > CATENATED_LEN_MAX;
        if !is_too_large {
            bytes.extend_from_slice(piece);
        }
        !is_too_large
    });
    let report = report.map_err(refused)?;
    if is_too_large || !report.unreadable.is_empty() {
        return Err(Refusal::new("TOOBIG", format!("{url} is too large, or cannot be read")));
    }
    if bytes.is_empty() { Err(bad()) } else { Ok(bytes.split_off(1)) }
}

/// Parses `"/" mailbox [";UIDVALIDITY=" n] "/;UID=" n ["/;SECTION=" s] ["/;PARTIAL=" n ["." n]]`.
fn parse(url: &str) -> Option<MessageUrl> {
    let mut parts = url.strip_prefix('/')?.split("/;");
    let mut mailbox = parts.next()?;
    let mut uidvalidity = None;
    if let Some((name, parameter)) = mailbox.split_once(';') {
        (mailbox, uidvalidity) = (name, Some(value(parameter, "UIDVALIDITY")?.parse().ok()?));
    }
    let uid = value(parts.next()?, "UID")?.parse().ok()?;
    let (mut section, mut partial) = (String::new(), None);
    for part in parts {
        match (value(part, "SECTION"), value(part, "PARTIAL")) {
            (Some(text), _) => section = decoded(text)?,
            (None, Some(text)) => {
                let (first, count) = match text.split_once('.') {
                    Some((first, count)) => (first, Some(count.parse().ok()?)),
                    None => (text, None),
                };
                partial = Some((first.parse().ok()?, count));
            }
            (None, None) => return None,
        }
    }
    Some(MessageUrl { mailbox: decoded(mailbox)?, uidvalidity, uid, section, partial })
}

fn value<'u>(part: &'u str, name: &str) -> Option<&'u str> {
    let (found, value) = part.split_once('=')?;
    found.eq_ignore_ascii_case(name).then_some(value)
}

/// Decodes `%XX`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        let mut byte = *first;
        if byte == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            byte = u8::from_str_radix(digits, 16).ok()?;
            rest = &tail[2..];
        }
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        let check = |url: &str, expected: Option<(&str, Option<u32>, u32, &str)>| {
            let found = parse(url);
            let found =
                found.as_ref().map(|url| (&*url.mailbox, url.uidvalidity, url.uid, &*url.section));
            assert_eq!(found, expected, "{url}");
        };
        check("/INBOX/;uid=3", Some(("INBOX", None, 3, "")));
        check("/A%20b;UIDVALIDITY=7/;UID=3/;SECTION=1.mime", Some(("A b", Some(7), 3, "1.mime")));
        check("/a/b/;uid=1/;section=header/;partial=0.9", Some(("a/b", None, 1, "header")));
        check("imap://host/INBOX/;uid=3", None);
        check("/INBOX", None);
        check("/INBOX/;uid=x", None);
        check("/IN%zzBOX/;uid=1", None);
        check("/INBOX/;uid=1/;other=2", None);
    }
}

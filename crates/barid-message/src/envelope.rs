//! The envelope of a message (RFC 9051 §7.5.2).

use barid_types::{Address, Envelope};

use crate::limits::ADDRESSES_MAX;
use crate::{fields, parse_addresses, unfold};

/// Returns the envelope of a header. Also accepts a whole message, whose body is ignored.
///
/// The addresses of a repeated field are concatenated, as in Dovecot and c-client; for every other
/// field the first occurrence counts. `Sender` and `Reply-To` are copied from `From` where they are
/// missing or contain no address.
pub fn envelope(header: &[u8]) -> Envelope {
    let mut envelope = Envelope::default();
    for field in fields(header) {
        if let Some(text) = text_slot(&mut envelope, field.name) {
            text.get_or_insert_with(|| unfold(field.body).into_owned());
        } else if let Some(list) = list_slot(&mut envelope, field.name) {
            let room = ADDRESSES_MAX.saturating_sub(list.len());
            list.extend(parse_addresses(field.body).into_iter().take(room));
        }
    }
    let Envelope { from, sender, reply_to, .. } = &mut envelope;
    for list in [sender, reply_to] {
        if list.is_empty() {
            list.clone_from(from);
        }
    }
    envelope
}

fn text_slot<'e>(envelope: &'e mut Envelope, name: &[u8]) -> Option<&'e mut Option<Vec<u8>>> {
    let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
    match name.len() {
        4 if is("date") => Some(&mut envelope.date),
        7 if is("subject") => Some(&mut envelope.subject),
        10 if is("message-id") => Some(&mut envelope.message_id),
        11 if is("in-reply-to") => Some(&mut envelope.in_reply_to),
        _ => None,
    }
}

fn list_slot<'e>(envelope: &'e mut Envelope, name: &[u8]) -> Option<&'e mut Vec<Address>> {
    let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
    match name.len() {
        2 if is("to") => Some(&mut envelope.to),
        2 if is("cc") => Some(&mut envelope.cc),
        3 if is("bcc") => Some(&mut envelope.bcc),
        4 if is("from") => Some(&mut envelope.from),
        6 if is("sender") => Some(&mut envelope.sender),
        8 if is("reply-to") => Some(&mut envelope.reply_to),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_fills_in_sender_and_reply_to() {
        let header = b"From: A <a@b>\r\nSender: (nobody)\r\nTo: c@d\r\nSubject: x\r\n\ty\r\n\r\n";
        let envelope = envelope(header);
        assert_eq!(envelope.subject.as_deref(), Some(&b"x\ty"[..]));
        assert_eq!(envelope.from, parse_addresses(b"A <a@b>"));
        assert_eq!(envelope.sender, envelope.from);
        assert_eq!(envelope.reply_to, envelope.from);
        assert_eq!(envelope.to, parse_addresses(b"c@d"));
        assert!(envelope.cc.is_empty() && envelope.bcc.is_empty());
        assert_eq!((envelope.date, envelope.message_id), (None, None));
    }

    #[test]
    fn of_texts_the_first_counts_and_lists_are_joined() {
        let envelope =
            envelope(b"To: a@b\nMessage-ID: <1@x>\nTO: c@d\nMessage-Id: <2@x>\n\nTo: e@f\n");
        assert_eq!(envelope.message_id.as_deref(), Some(&b"<1@x>"[..]));
        assert_eq!(envelope.to, parse_addresses(b"a@b, c@d"));
    }
}

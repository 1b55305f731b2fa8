//! The envelope of a message (RFC 9051 §7.5.2).

use barid_types::{Address, Envelope};

use crate::{HeaderFields, parse_addresses, unfold};

/// The envelope of a header, or of a whole message, whose body is not looked at.
///
/// Of a field that occurs more than once the first counts. `Sender` and `Reply-To` are those of
/// `From` where they are missing or hold no address.
pub fn envelope(header: &[u8]) -> Envelope {
    envelope_of(&HeaderFields::scan(header))
}

/// [`envelope`] of fields already found.
pub fn envelope_of(fields: &HeaderFields<'_>) -> Envelope {
    let text = |raw: Option<&[u8]>| raw.map(|raw| unfold(raw).into_owned());
    let addresses = |raw: Option<&[u8]>| raw.map_or_else(Vec::new, parse_addresses);
    let from = addresses(fields.from);
    let or_from = |list: Vec<Address>| if list.is_empty() { from.clone() } else { list };
    Envelope {
        date: text(fields.date),
        subject: text(fields.subject),
        sender: or_from(addresses(fields.sender)),
        reply_to: or_from(addresses(fields.reply_to)),
        to: addresses(fields.to),
        cc: addresses(fields.cc),
        bcc: addresses(fields.bcc),
        in_reply_to: text(fields.in_reply_to),
        message_id: text(fields.message_id),
        from,
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
}

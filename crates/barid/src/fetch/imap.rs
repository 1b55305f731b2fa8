//! Responses to FETCH (RFC 9051 §7.5.2).
//!
//! ```text
//! message-data = nz-number SP "FETCH" SP msg-att
//! ```

use barid_imap::fetch::{
    nstring, number, write_bytes, write_date, write_envelope, write_fields_envelope,
    write_structure,
};
use barid_message::envelope;
use barid_types::Flag;

use super::{FetchItem, Fetched};

impl Fetched<'_> {
    /// Appends `* n FETCH (...)` and CRLF, with the number of the row.
    pub fn write_imap(&self, out: &mut Vec<u8>) {
        self.write_imap_as(self.summary.row + 1, None, out);
    }

    /// Appends `* n FETCH (...)` and CRLF for a session, with the number that the message has
    /// there, and with \Recent if the session has it; `None` for the flag as it is in the mailbox.
    pub fn write_imap_as(&self, seq: u32, is_recent: Option<bool>, out: &mut Vec<u8>) {
        self.write_response((seq, b" FETCH ("), is_recent, out);
    }

    /// Appends `* uid UIDFETCH (...)` and CRLF (RFC 9586 §3.3), with \Recent as
    /// [`Fetched::write_imap_as`] has it.
    pub fn write_imap_by_uid(&self, is_recent: Option<bool>, out: &mut Vec<u8>) {
        self.write_response((self.summary.uid.get(), b" UIDFETCH ("), is_recent, out);
    }

    fn write_response(
        &self,
        (seq, name): (u32, &[u8]),
        is_recent: Option<bool>,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(b"* ");
        number(u64::from(seq), out);
        out.extend_from_slice(name);
        let items = self.items().items().iter();
        for (at, item) in items.filter(|item| self.unknown_encoding(item).is_none()).enumerate() {
            if at > 0 {
                out.push(b' ');
            }
            self.write_item(item, is_recent, out);
        }
        out.extend_from_slice(b")\r\n");
    }

    fn write_item(&self, item: &FetchItem, is_recent: Option<bool>, out: &mut Vec<u8>) {
        let summary = self.summary;
        item.push_name(out);
        out.push(b' ');
        match item {
            FetchItem::Flags => {
                out.push(b'(');
                let flags = match is_recent {
                    Some(true) => summary.flags.with(Flag::Recent),
                    Some(false) => summary.flags.without(Flag::Recent),
                    None => summary.flags,
                };
                let flags = flags.iter().map(|flag| flag.name());
                for (at, word) in flags.chain(summary.keyword_names()).enumerate() {
                    if at > 0 {
                        out.push(b' ');
                    }
                    out.extend_from_slice(word.as_bytes());
                }
                out.push(b')');
            }
            FetchItem::Uid => number(u64::from(summary.uid.get()), out),
            FetchItem::ModSeq => {
                out.push(b'(');
                number(summary.modseq.get(), out);
                out.push(b')');
            }
            FetchItem::InternalDate => {
                let date = summary.internal_date;
                write_date(date, out);
            }
            FetchItem::Rfc822Size => number(self.rfc822_size().unwrap_or(0), out),
            FetchItem::Envelope => match self.whole() {
                Some(message) => write_envelope(&envelope(message), out),
                None => write_fields_envelope(summary.fields, out),
            },
            FetchItem::Body => write_structure(self.structure(), false, out),
            FetchItem::BodyStructure => write_structure(self.structure(), true, out),
            FetchItem::Section { section, partial, .. } => {
                write_bytes(self.section(section, *partial).as_deref(), None, false, out);
            }
            FetchItem::Binary { section, partial } => {
                write_bytes(self.binary(section).as_deref(), *partial, true, out);
            }
            FetchItem::BinarySize(section) => {
                number(self.binary(section).map_or(0, |bytes| bytes.len() as u64), out);
            }
            FetchItem::EmailId => {
                let id = self.email_id().map(|id| format!("({id})")).unwrap_or_default();
                out.extend_from_slice(id.as_bytes());
            }
            FetchItem::Preview { .. } => nstring(self.preview().map(str::as_bytes), out),
            // No format records when a message was saved in it; threads have no lasting names.
            FetchItem::SaveDate | FetchItem::ThreadId => {
                out.extend_from_slice(b"NIL");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barid_message::HeaderFields;

    use crate::fetch::fetched::known_envelope;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_envelope_is_the_same_from_cached_fields() {
        for header in [
            "",
            "From: A B <a@b>, c@d\nTo: g: x@y;\nSubject: s \"t\" \\\n",
            "Sender: s@t\nFrom: f@g\nReply-To:\nDate: now\nBcc: b@c, \"d\" <d@e>\n",
            "Subject: \u{e9}\n folded\nReply-To: r@s\nCc: (comment) c@d\nMessage-ID: <1@x>\n",
            "In-Reply-To: <0@x>\n <9@x>\nFrom: <@route:a@b>\nTo: undisclosed-recipients:;\n",
        ] {
            let fields = HeaderFields::scan(header.as_bytes());
            assert_eq!(
                text(|out| write_fields_envelope(&fields, out)),
                text(|out| write_envelope(&known_envelope(&fields), out)),
                "{header:?}"
            );
        }
    }
}

//! Header records (`docs/formats/cache.md`, "Header records").

use barid_message::{HeaderFields, HeaderScan};
use barid_vfs::le::{LeReader, PutLe, u32_at};

use crate::limits::FIELD_LEN_MAX;

/// Most header fields of a record.
pub(crate) const FIELD_COUNT: usize = 11;
/// Bit in the set of present fields for a message that has more of some field; the fields that were
/// cut follow.
const BIT_CUT: u16 = 1 << 15;
/// Bytes before a record in a sequence of records.
const FRAME_HEAD_LEN: usize = 4;

/// The header fields of one message: raw bodies, still folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record<'a> {
    /// The fields.
    pub fields: HeaderFields<'a>,
    /// `true` if the message has more of some field than is stored: the field is longer, or occurs
    /// again.
    pub cut: bool,
}

impl<'a> From<&HeaderScan<'a>> for Record<'a> {
    fn from(scan: &HeaderScan<'a>) -> Self {
        Self { fields: scan.fields, cut: scan.has_repeats }
    }
}

impl<'a> Record<'a> {
    /// Returns the fields in the order in which they are stored.
    fn stored_fields(&self) -> [Option<&'a [u8]>; FIELD_COUNT] {
        let fields = &self.fields;
        [
            fields.date,
            fields.from,
            fields.sender,
            fields.reply_to,
            fields.to,
            fields.cc,
            fields.bcc,
            fields.subject,
            fields.message_id,
            fields.in_reply_to,
            fields.references,
        ]
    }

    /// Appends the record to `out`; returns `true` if the message has more of some field.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> bool {
        let fields = self.stored_fields();
        let (mut present, mut cut) = (0u16, 0u16);
        for (index, field) in fields.iter().enumerate() {
            let Some(field) = field else { continue };
            present |= 1 << index;
            if field.len() > FIELD_LEN_MAX {
                cut |= 1 << index;
            }
        }
        let is_cut = self.cut || cut != 0;
        if !is_cut {
            out.put_u16(present);
        } else {
            out.put_u16(present | BIT_CUT);
            out.put_u16(cut);
        }
        for field in fields.iter().flatten() {
            out.put_varint(field.len().min(FIELD_LEN_MAX));
        }
        for field in fields.iter().flatten() {
            out.extend_from_slice(&field[..field.len().min(FIELD_LEN_MAX)]);
        }
        is_cut
    }

    /// Decodes a record; `None` if `bytes` are not exactly one record.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = LeReader(bytes);
        let present = reader.u16()?;
        let cut = present & BIT_CUT != 0;
        if cut {
            reader.u16()?;
        }
        let mut lens = [0; FIELD_COUNT];
        for (index, len) in lens.iter_mut().enumerate() {
            if present >> index & 1 == 1 {
                *len = reader.varint()?;
            }
        }
        let mut fields = [None; FIELD_COUNT];
        for (index, field) in fields.iter_mut().enumerate() {
            if present >> index & 1 == 1 {
                *field = Some(reader.take(lens[index])?);
            }
        }
        let [date, from, sender, reply_to, to, cc, bcc, subject, message_id, replied, references] =
            fields;
        let fields = HeaderFields {
            date,
            from,
            sender,
            reply_to,
            to,
            cc,
            bcc,
            subject,
            message_id,
            in_reply_to: replied,
            references,
        };
        reader.0.is_empty().then_some(Self { fields, cut })
    }

    /// Returns the record at the front of a sequence of records.
    pub(crate) fn framed(bytes: &[u8]) -> Option<&[u8]> {
        let (head, rest) = bytes.split_at_checked(FRAME_HEAD_LEN)?;
        rest.get(..u32_at(head, 0) as usize)
    }

    /// Returns the length of a record in a sequence of records, in bytes.
    pub(crate) fn framed_len(record: &[u8]) -> usize {
        FRAME_HEAD_LEN + record.len()
    }
}

/// Appends the record that `fill` appends, in the form of a sequence of records.
pub(crate) fn put_framed<T>(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let start = out.len();
    out.put_u32(0);
    let value = fill(out);
    let len = (out.len() - start - FRAME_HEAD_LEN) as u32;
    out[start..start + FRAME_HEAD_LEN].copy_from_slice(&len.to_le_bytes());
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uncut(fields: HeaderFields<'_>) -> Record<'_> {
        Record { fields, cut: false }
    }

    fn check(record: Record<'_>) {
        let mut bytes = b"before".to_vec();
        let cut = put_framed(&mut bytes, |out| record.encode(out));
        bytes.extend_from_slice(b"after");
        let body = Record::framed(&bytes[6..]).unwrap();
        let decoded = Record::decode(body).unwrap();
        assert_eq!(decoded.cut, cut);
        for (got, put) in decoded.stored_fields().iter().zip(record.stored_fields()) {
            assert_eq!(*got, put.map(|body| &body[..body.len().min(FIELD_LEN_MAX)]));
        }
        for len in 6..bytes.len() - 5 {
            assert_eq!(Record::framed(&bytes[6..len]), None, "cut at {len}");
        }
        for len in 0..body.len() {
            assert_eq!(Record::decode(&body[..len]), None, "cut at {len}");
        }
    }

    #[test]
    fn records_come_back() {
        check(Record::default());
        let none = HeaderFields::default();
        check(uncut(HeaderFields { date: Some(b""), references: Some(b"<a@b> <c@d>"), ..none }));
        check(uncut(HeaderFields { subject: Some(&[b'x'; 300]), to: Some(b"a"), ..none }));
    }

    #[test]
    fn a_huge_field_is_cut_and_marked() {
        let huge = vec![b'x'; FIELD_LEN_MAX + 1];
        let none = HeaderFields::default();
        let record = uncut(HeaderFields { cc: Some(&huge), bcc: Some(b"b"), ..none });
        let mut bytes = Vec::new();
        assert!(record.encode(&mut bytes));
        let decoded = Record::decode(&bytes).unwrap();
        assert_eq!(decoded.fields.cc.map(<[u8]>::len), Some(FIELD_LEN_MAX));
        assert_eq!((decoded.fields.bcc, decoded.cut), (Some(&b"b"[..]), true));
    }

    #[test]
    fn a_message_with_two_fields_of_a_name_is_marked() {
        for (header, expected) in [(&b"To: a\nTo: b\n\n"[..], true), (b"To: a\nCc: b\n\n", false)] {
            let record = Record::from(&HeaderScan::new(header));
            let mut bytes = Vec::new();
            assert_eq!(record.encode(&mut bytes), expected);
            let decoded = Record::decode(&bytes).unwrap();
            assert_eq!((decoded.fields.to, decoded.cut), (Some(&b"a"[..]), expected));
        }
    }
}

//! Encoding the structure of a message as bytes (`docs/formats/derived.md`, "structures").
//!
//! Parts are stored one after another, each before the parts inside it, so nothing recurses. Their
//! places in the message are left out: formats may put fields of their own into its header.

use barid_message::limits::{DEPTH_MAX, PARTS_MAX};
use barid_types::{Address, BodyStructure, Disposition, Envelope, Parameter};

/// Texts that occur in most structures; they are encoded as indexes into this list, which are part
/// of the format.
const WORDS: [&str; 48] = [
    "text",
    "plain",
    "html",
    "multipart",
    "mixed",
    "alternative",
    "signed",
    "related",
    "report",
    "digest",
    "message",
    "rfc822",
    "delivery-status",
    "application",
    "octet-stream",
    "pdf",
    "pgp-signature",
    "image",
    "png",
    "jpeg",
    "gif",
    "7bit",
    "8bit",
    "quoted-printable",
    "base64",
    "binary",
    "7BIT",
    "8BIT",
    "QUOTED-PRINTABLE",
    "BASE64",
    "TEXT",
    "PLAIN",
    "charset",
    "us-ascii",
    "US-ASCII",
    "utf-8",
    "UTF-8",
    "iso-8859-1",
    "ISO-8859-1",
    "format",
    "flowed",
    "boundary",
    "name",
    "micalg",
    "protocol",
    "inline",
    "attachment",
    "filename",
];

/// Maximum number of parts of a structure: besides those between boundaries there is one in each
/// message.
const DECODED_PARTS_MAX: usize = 2 * PARTS_MAX + DEPTH_MAX;

const HAS_ENVELOPE: u64 = 1;
const HAS_DISPOSITION: u64 = 2;

/// Appends a structure, without offsets.
pub(super) fn encode(root: &BodyStructure, out: &mut Vec<u8>) {
    let mut open = vec![root];
    while let Some(part) = open.pop() {
        let bits = |is: bool, bit: u64| if is { bit } else { 0 };
        let has = bits(part.envelope.is_some(), HAS_ENVELOPE)
            | bits(part.disposition.is_some(), HAS_DISPOSITION);
        put_number(has | (part.parts.len() as u64) << 2, out);
        for text in [&part.media_type, &part.subtype, &part.encoding] {
            put_text(Some(text), out);
        }
        put_number(part.size, out);
        put_number(part.lines, out);
        put_parameters(&part.parameters, out);
        for text in [&part.id, &part.description, &part.md5, &part.location] {
            put_text(text.as_deref(), out);
        }
        if let Some(disposition) = &part.disposition {
            put_text(Some(&disposition.kind), out);
            put_parameters(&disposition.parameters, out);
        }
        put_number(part.language.len() as u64, out);
        part.language.iter().for_each(|tag| put_text(Some(tag), out));
        if let Some(envelope) = &part.envelope {
            put_envelope(envelope, out);
        }
        open.extend(part.parts.iter().rev());
    }
}

/// Parses a structure; `None` if the bytes are not exactly one structure.
pub(super) fn decode(bytes: &[u8]) -> Option<BodyStructure> {
    let mut input = Input(bytes);
    // Parts whose inner parts are incomplete, with the number of missing ones.
    let mut open: Vec<(BodyStructure, u64)> = Vec::new();
    for _ in 0..DECODED_PARTS_MAX {
        let (part, missing) = input.part()?;
        if missing > 0 {
            open.push((part, missing));
            if open.len() > DEPTH_MAX {
                return None;
            }
            continue;
        }
        // A complete part is added to the part around it, which may then be complete.
        let mut whole = part;
        loop {
            let Some((mut outer, missing)) = open.pop() else {
                return input.0.is_empty().then_some(whole);
            };
            outer.parts.push(whole);
            if missing > 1 {
                open.push((outer, missing - 1));
                break;
            }
            whole = outer;
        }
    }
    None
}

fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes 0 for no text, from 1 an index into [`WORDS`], and beyond those the length, then the
/// text.
fn put_text(text: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(text) = text else { return out.push(0) };
    if let Some(place) = WORDS.iter().position(|word| word.as_bytes() == text) {
        return out.push(place as u8 + 1);
    }
    put_number(text.len() as u64 + WORDS.len() as u64 + 1, out);
    out.extend_from_slice(text);
}

fn put_parameters(parameters: &[Parameter], out: &mut Vec<u8>) {
    put_number(parameters.len() as u64, out);
    for Parameter { name, value } in parameters {
        put_text(Some(name), out);
        put_text(Some(value), out);
    }
}

fn put_envelope(envelope: &Envelope, out: &mut Vec<u8>) {
    let Envelope { date, subject, from, sender, reply_to, to, cc, bcc, .. } = envelope;
    for text in [date, subject, &envelope.in_reply_to, &envelope.message_id] {
        put_text(text.as_deref(), out);
    }
    for list in [from, sender, reply_to, to, cc, bcc] {
        put_number(list.len() as u64, out);
        for Address { name, route, mailbox, host } in list {
            [name, route, mailbox, host]
                .into_iter()
                .for_each(|text| put_text(text.as_deref(), out));
        }
    }
}

/// Reads values from the front; `None` if there is no valid one.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..63).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Reads a number of items, each of which takes at least a byte.
    fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    fn text(&mut self) -> Option<Option<Vec<u8>>> {
        let Some(number) = (self.number()? as usize).checked_sub(1) else { return Some(None) };
        if let Some(word) = WORDS.get(number) {
            return Some(Some(word.as_bytes().to_vec()));
        }
        let (text, rest) = self.0.split_at_checked(number - WORDS.len())?;
        self.0 = rest;
        Some(Some(text.to_vec()))
    }

    fn parameters(&mut self) -> Option<Vec<Parameter>> {
        let count = self.count()?;
        let parameter = |_| Some(Parameter { name: self.text()??, value: self.text()?? });
        (0..count).map(parameter).collect()
    }

    fn addresses(&mut self) -> Option<Vec<Address>> {
        let count = self.count()?;
        let address = |_| {
            Some(Address {
                name: self.text()?,
                route: self.text()?,
                mailbox: self.text()?,
                host: self.text()?,
            })
        };
        (0..count).map(address).collect()
    }

    fn envelope(&mut self) -> Option<Envelope> {
        Some(Envelope {
            date: self.text()?,
            subject: self.text()?,
            in_reply_to: self.text()?,
            message_id: self.text()?,
            from: self.addresses()?,
            sender: self.addresses()?,
            reply_to: self.addresses()?,
            to: self.addresses()?,
            cc: self.addresses()?,
            bcc: self.addresses()?,
        })
    }

    /// Reads a part, and the number of inner parts that follow.
    fn part(&mut self) -> Option<(BodyStructure, u64)> {
        let head = self.number()?;
        let mut part = BodyStructure {
            media_type: self.text()??,
            subtype: self.text()??,
            encoding: self.text()??,
            size: self.number()?,
            lines: self.number()?,
            parameters: self.parameters()?,
            id: self.text()?,
            description: self.text()?,
            md5: self.text()?,
            location: self.text()?,
            ..BodyStructure::default()
        };
        if head & HAS_DISPOSITION != 0 {
            let (kind, parameters) = (self.text()??, self.parameters()?);
            part.disposition = Some(Disposition { kind, parameters });
        }
        part.language = (0..self.count()?).map(|_| self.text()?).collect::<Option<_>>()?;
        if head & HAS_ENVELOPE != 0 {
            part.envelope = Some(Box::new(self.envelope()?));
        }
        Some((part, head >> 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barid_message::body_structure;

    /// Returns the structure without offsets.
    fn bare(mut part: BodyStructure) -> BodyStructure {
        (part.header_offset, part.body_offset, part.body_end) = (0, 0, 0);
        part.parts = part.parts.into_iter().map(bare).collect();
        part
    }

    fn check(message: &str) {
        let structure = bare(body_structure(message.as_bytes()).0);
        let mut bytes = Vec::new();
        encode(&structure, &mut bytes);
        assert_eq!(decode(&bytes), Some(structure), "{message}");
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), None, "{len}");
        }
        bytes.push(0);
        assert_eq!(decode(&bytes), None);
    }

    #[test]
    fn structures_come_back() {
        check("\nbody\n");
        check("Content-Type: text/html; charset=x; format=flowed\nContent-ID: <a@b>\n\n<p>\n");
        check(
            "Content-Type: multipart/mixed; boundary=x\nContent-Language: en, de\n\n--x\n\none\n\
             --x\nContent-Type: message/rfc822\nContent-Disposition: attachment; filename=\"m\"\n\n\
             From: A <a@b>\nTo: c@d, g: e@f;\nSubject: s\nContent-Type: multipart/digest;\n \
             boundary=y\n\n--y\n\nSubject: t\n\ntwo\n--y--\n--x\nContent-MD5: q\n\
             Content-Location: l\nContent-Description: d\n\nthree\n--x--\n",
        );
        check(&"Content-Type: message/rfc822\n\n".repeat(200));
    }

    #[test]
    fn many_parts_come_back() {
        let parts = "--x\n\n\n".repeat(PARTS_MAX + 10);
        let message = format!("Content-Type: multipart/mixed; boundary=x\n\n{parts}");
        let structure = bare(body_structure(message.as_bytes()).0);
        let mut bytes = Vec::new();
        encode(&structure, &mut bytes);
        assert_eq!(decode(&bytes), Some(structure));
    }

    #[test]
    fn what_is_no_structure_is_none() {
        // More parts than there are, and parts within parts without end.
        assert_eq!(decode(&[0x84, 0x80, 0x80, 0x80, 0x10]), None);
        let part = [4, 1, 2, 22, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(Input(&part).part().is_some());
        assert_eq!(decode(&part.repeat(20_000)), None);
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let mut bytes = part.repeat(3);
            for _ in 0..random.usize(1..6) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            let _ = decode(&bytes);
        }
    }
}

//! Messages, their fields, and the texts in them: `barid-message` and `barid-charset`.

use barid_charset::Charset;
use barid_message::limits::{MESSAGE_IDS_MAX, PREVIEW_CHARS_MAX};
use barid_message::{
    AddressRef, CrlfPieces, HeaderScan, LinePieces, Profile, Section, address_display_name,
    attachments, base_subject, body_offset, body_structure, casemap, crlf_size, decode_charset,
    decode_plain, decode_words, display_name, display_name_as, envelope, field, fields, file_name,
    first_mailbox, first_mailbox_as, header_key, is_known_encoding, media_type, message_id,
    message_ids, numbered_parts, parse_addresses, parse_date, parse_date_as, part_body,
    part_by_number, part_text, preview, push_crlf, raw_body, readable_text_of, rfc822_size,
    rfc822_size_of_crlf, strip_owned, unfold, visit_addresses, wire_message,
};
use barid_types::BodyStructure;

const PROFILES: [Profile; 3] = [Profile::Rfc, Profile::Dovecot, Profile::CClient];

/// Fields of a header: all scanners agree on them.
pub(crate) fn headers(bytes: &[u8]) {
    let header = HeaderScan::new(bytes);
    assert_eq!(header.body_offset, body_offset(bytes));
    assert!(header.body_offset <= bytes.len());
    assert_eq!(HeaderScan::with_key(bytes), (header, header_key(bytes)));
    let mut all = fields(bytes);
    let first_subject = all.by_ref().find(|field| field.name.eq_ignore_ascii_case(b"subject"));
    assert_eq!(header.fields.subject, first_subject.map(|field| field.body));
    assert_eq!(field(bytes, b"Subject").map(|field| field.body), header.fields.subject);
    all.by_ref().for_each(drop);
    assert!(all.offset() <= bytes.len());
    let stripped = strip_owned(bytes);
    assert_eq!(rfc822_size(bytes), crlf_size(&stripped));
    assert_eq!(header_key(bytes), header_key(&stripped));
    rfc822_size_of_crlf(&bytes[..header.body_offset], bytes.len() as u64);
    envelope(bytes);
    let wire = wire_message(bytes);
    assert_eq!(wire.len() as u64, crlf_size(&stripped));
}

/// Line ends: whole and in pieces.
pub(crate) fn lines(bytes: &[u8]) {
    let mut crlf = Vec::new();
    push_crlf(bytes, &mut crlf);
    assert_eq!(crlf.len() as u64, crlf_size(bytes));
    assert_eq!(crlf_size(&crlf), crlf.len() as u64, "CRLF stays CRLF");
    let (mut pieces, mut in_pieces) = (CrlfPieces::default(), Vec::new());
    let (mut lines, mut all_lines) = (LinePieces::default(), Vec::new());
    let scale = bytes.len() >> 12;
    let len = bytes.first().map_or(1, |first| usize::from(*first) % 17 + 1) << scale.min(6);
    for piece in bytes.chunks(len) {
        pieces.push(piece, &mut in_pieces);
        lines.push(piece, &mut |taken, _| all_lines.extend_from_slice(taken));
    }
    lines.finish(&mut |taken, _| all_lines.extend_from_slice(taken));
    assert_eq!(in_pieces, crlf);
    assert_eq!(all_lines, bytes);
}

/// The parts of a message: offsets fit, each part is found by its number, bodies decode.
pub(crate) fn mime(bytes: &[u8]) {
    let (structure, _) = body_structure(bytes);
    offsets_fit(bytes, &structure);
    for numbered in numbered_parts(&structure) {
        let found = part_by_number(&structure, &numbered.number);
        assert!(found.is_some_and(|part| std::ptr::eq(part, numbered.part)), "{}", numbered.number);
        part_body(bytes, numbered.part);
        part_text(bytes, numbered.part);
        file_name(numbered.part);
        media_type(numbered.part);
        is_known_encoding(&numbered.part.encoding);
        for kind in ["", ".MIME", ".HEADER", ".TEXT"] {
            if let Ok(section) = Section::parse(&format!("{}{kind}", numbered.number)) {
                section.of(bytes, &structure);
                section.decoded(bytes, &structure);
            }
        }
    }
    attachments(&structure);
    readable_text_of(bytes, &structure);
    let text = preview(bytes, true).expect("because the message is whole");
    assert!(text.chars().count() <= PREVIEW_CHARS_MAX && !text.contains(['\r', '\n']), "{text:?}");
    preview(bytes, false);
}

/// Asserts that parts lie inside the part around them, one after the other, with correct sizes.
fn offsets_fit(message: &[u8], root: &BodyStructure) {
    assert_eq!((root.header_offset, root.body_end), (0, message.len() as u64));
    let mut open = vec![root];
    while let Some(part) = open.pop() {
        assert!(part.header_offset <= part.body_offset && part.body_offset <= part.body_end);
        let mut from = part.body_offset;
        for child in &part.parts {
            assert!(child.header_offset >= from && child.body_end <= part.body_end);
            from = child.body_end;
            open.push(child);
        }
        assert_eq!(part.size, crlf_size(raw_body(message, part)));
    }
}

/// Dates in all profiles.
pub(crate) fn dates(bytes: &[u8]) {
    assert_eq!(parse_date(bytes), parse_date_as(bytes, Profile::Rfc));
    for profile in PROFILES {
        if let Some(date) = parse_date_as(bytes, profile) {
            assert!(date.zone_minutes.abs() < 100 * 60, "{date:?}");
        }
    }
}

/// Lists of addresses: the first one is the same whoever asks for it.
pub(crate) fn addresses(bytes: &[u8]) {
    let all = parse_addresses(bytes);
    let mut visited = 0;
    visit_addresses(bytes, |_| visited += 1);
    assert_eq!(visited, all.len());
    let first = all.first();
    let mailbox = first.and_then(|address| address.mailbox.clone()).unwrap_or_default();
    assert_eq!(first_mailbox(bytes), mailbox);
    assert_eq!(display_name(bytes), first.map(address_display_name).unwrap_or_default());
    for address in &all {
        let _ = AddressRef::of(address);
    }
    for profile in PROFILES {
        first_mailbox_as(bytes, profile);
        display_name_as(bytes, profile);
    }
}

/// Message ids: none is empty.
pub(crate) fn ids(bytes: &[u8]) {
    for profile in PROFILES {
        let mut visited = 0;
        let skipped = message_ids(bytes, profile, &mut |id| {
            assert!(!id.is_empty());
            visited += 1;
        });
        assert!(visited <= MESSAGE_IDS_MAX);
        assert!(visited == MESSAGE_IDS_MAX || skipped <= 1);
        message_id(bytes, profile);
    }
}

/// Encoded words and folded lines.
pub(crate) fn words(bytes: &[u8]) {
    let unfolded = unfold(bytes);
    assert!(unfolded.len() <= bytes.len());
    decode_words(bytes);
    decode_plain(bytes);
}

/// Base subjects: that of a base subject is itself.
pub(crate) fn subjects(bytes: &[u8]) {
    for profile in PROFILES {
        base_subject(bytes, profile);
    }
    let text = String::from_utf8_lossy(bytes);
    let mapped = casemap(&text);
    assert!(mapped.len() <= 64 + 32 * text.len());
}

/// A text in a charset: the first line names it.
pub(crate) fn charsets(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let (name, text) = (&bytes[..end], bytes.get(end + 1..).unwrap_or(&[]));
    let len_max = 64 + 16 * text.len();
    if let Some(decoded) = decode_charset(name, text) {
        assert!(decoded.len() <= len_max);
    }
    if let Some(charset) = Charset::named(name) {
        assert!(charset.decode(text).len() <= len_max);
    }
    barid_charset::encoding_named(name);
}

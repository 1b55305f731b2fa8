//! The integration tests of `barid-message`, one module per subject.

#[cfg(test)]
mod corpora;
mod hostile;
mod mutation;
mod structure;

/// A test file that this list lacks would be ignored without notice.
#[test]
fn no_test_file_is_forgotten() {
    let source = include_str!("runner.rs");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    #[expect(clippy::disallowed_methods, reason = "looks at the source tree, not at mail")]
    let entries = std::fs::read_dir(folder).unwrap();
    for entry in entries {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let stem = name.strip_suffix(".rs").unwrap();
        assert!(stem == "runner" || source.contains(&format!("mod {stem};")), "{name}");
    }
}

/// Calls everything the crate offers on one message; returns its defects.
fn exercise(message: &[u8]) -> Vec<barid_message::Defect> {
    use barid_message::*;

    let scan = HeaderScan::new(message);
    let fields = scan.fields;
    assert!(scan.body_offset <= message.len());
    assert_eq!(scan.body_offset, body_offset(message));
    for profile in [Profile::Rfc, Profile::Dovecot, Profile::CClient] {
        if let Some(date) = fields.date {
            parse_date_as(date, profile);
        }
        if let Some(subject) = fields.subject {
            base_subject(subject, profile);
        }
        for raw in [fields.message_id, fields.in_reply_to, fields.references].into_iter().flatten()
        {
            message_id(raw, profile);
            message_ids(raw, profile, &mut |id| assert!(!id.is_empty()));
        }
    }
    for raw in [fields.from, fields.to, fields.cc].into_iter().flatten() {
        let first = parse_addresses(raw).into_iter().next();
        let mailbox =
            first.as_ref().and_then(|address| address.mailbox.clone()).unwrap_or_default();
        assert_eq!(first_mailbox(raw), mailbox, "{}", raw.escape_ascii());
        let name = first.as_ref().map(address_display_name).unwrap_or_default();
        assert_eq!(display_name(raw), name, "{}", raw.escape_ascii());
    }
    envelope(message);
    let stripped = strip_owned(message);
    assert_eq!(rfc822_size(message), crlf_size(&stripped));
    assert_eq!(header_key(message), header_key(&stripped));
    assert_eq!(HeaderScan::with_key(message), (scan, header_key(message)));
    let (structure, mut defects) = body_structure(message);
    check_offsets(message, &structure);
    for numbered in numbered_parts(&structure) {
        let found = part_by_number(&structure, &numbered.number);
        assert!(found.is_some_and(|part| std::ptr::eq(part, numbered.part)), "{}", numbered.number);
        defects.extend(part_body(message, numbered.part).1);
        part_text(message, numbered.part);
    }
    attachments(&structure);
    readable_text_of(message, &structure);
    defects
}

/// Asserts that parts lie inside the part around them, one after the other, with correct sizes.
fn check_offsets(message: &[u8], root: &barid_types::BodyStructure) {
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
        let body = barid_message::raw_body(message, part);
        assert_eq!(part.size, barid_message::crlf_size(body));
        assert_eq!(part.lines, body.iter().filter(|byte| **byte == b'\n').count() as u64);
    }
}

//! Known structures: examples of RFC 2046 and RFC 9051, and the broken forms that occur.

use barid_message::{
    DefectKind, StructureReader, attachments, body_structure, media_type, numbered_parts,
    readable_text,
};

/// Renders the parts as `number type size lines` and the kinds of the defects.
fn check(message: &str, expected: &[&str], defects: &[DefectKind]) {
    for (message, crlf) in [(message.to_owned(), false), (message.replace('\n', "\r\n"), true)] {
        let (structure, found) = body_structure(message.as_bytes());
        let parts: Vec<_> = numbered_parts(&structure)
            .iter()
            .map(|numbered| {
                let part = numbered.part;
                format!("{} {} {} {}", numbered.number, media_type(part), part.size, part.lines)
            })
            .collect();
        assert_eq!(parts, expected, "crlf {crlf}");
        let found: Vec<_> = found.iter().map(|defect| defect.kind).collect();
        assert_eq!(found, defects, "crlf {crlf}");
        super::exercise(message.as_bytes());
        in_pieces(message.as_bytes());
    }
}

/// Reads a message in pieces of several lengths: its structure is the same, and so is that of the
/// kept bytes, except for the bodies that were not kept.
fn in_pieces(message: &[u8]) {
    let expected = body_structure(message);
    for len in [1, 2, 7, 64, message.len().max(1)] {
        for keeps_images in [true, false] {
            let (mut reader, mut kept) = (StructureReader::default(), Vec::new());
            let keeps = |part: &barid_types::BodyStructure| {
                keeps_images || part.media_type.eq_ignore_ascii_case(b"text")
            };
            message.chunks(len).for_each(|piece| reader.read(piece, &keeps, &mut kept));
            let found = reader.finish(&keeps, &mut kept);
            assert_eq!(found.0, expected.0, "{len}");
            assert_eq!(found.1.len(), expected.1.len(), "{len}");
            compare_kept(message, &expected.0, &kept, &body_structure(&kept).0, &keeps);
        }
    }
}

fn compare_kept(
    message: &[u8],
    part: &barid_types::BodyStructure,
    kept: &[u8],
    kept_part: &barid_types::BodyStructure,
    keeps: &dyn Fn(&barid_types::BodyStructure) -> bool,
) {
    use barid_message::{raw_body, raw_header};
    assert_eq!(raw_header(message, part), raw_header(kept, kept_part));
    assert_eq!(part.parts.len(), kept_part.parts.len());
    // A multipart without parts turns out to be undivided only at its end.
    if part.parts.is_empty() && !part.media_type.eq_ignore_ascii_case(b"multipart") {
        let expected = if keeps(part) { raw_body(message, part) } else { b"" };
        assert_eq!(raw_body(kept, kept_part).trim_ascii(), expected.trim_ascii());
    }
    for (part, kept_part) in part.parts.iter().zip(&kept_part.parts) {
        compare_kept(message, part, kept, kept_part, keeps);
    }
}

#[test]
fn lines_without_an_end_come_in_pieces() {
    let text = format!(
        "Content-Type: multipart/mixed; boundary=b\n\n--b\n\n{}\r\n\r\n--b--\n",
        "x".repeat(200_000)
    );
    in_pieces(text.as_bytes());
}

#[test]
fn single_parts() {
    check("Subject: x\n\nhello\n", &["1 text/plain 7 1"], &[]);
    check("Content-Type: IMAGE/PNG\n\nabc", &["1 image/png 3 0"], &[]);
    check("Content-Type: text\n\nabc\n", &["1 text/plain 5 1"], &[DefectKind::BadContentType]);
    check("\n", &["1 text/plain 0 0"], &[]);
    check("", &["1 text/plain 0 0"], &[DefectKind::MissingBlankLine]);
    check("Subject: x\n", &["1 text/plain 0 0"], &[DefectKind::MissingBlankLine]);
    check("junk\nA: b\n\n", &["1 text/plain 0 0"], &[DefectKind::JunkHeaderLine]);
}

#[test]
fn the_example_of_rfc_2046_section_5_1_1() {
    let message = "From: Nathaniel Borenstein <nsb@bellcore.com>\nMIME-Version: 1.0\n\
        Content-type: multipart/mixed; boundary=\"simple boundary\"\n\n\
        This is the preamble.\n\n--simple boundary\n\nThis is implicitly typed plain US-ASCII text.\n\
        It does NOT end with a linebreak.\n--simple boundary\n\
        Content-type: text/plain; charset=us-ascii\n\nThis is explicitly typed plain US-ASCII text.\n\
        It DOES end with a linebreak.\n\n--simple boundary--\n\nThis is the epilogue.\n";
    check(message, &["1 text/plain 80 1", "2 text/plain 78 2"], &[]);
    assert!(readable_text(message.as_bytes()).starts_with("This is implicitly typed"));
}

#[test]
fn the_part_numbers_of_rfc_9051_section_6_4_5_1() {
    let leaf = |kind: &str| format!("Content-Type: {kind}\n\nx\n");
    let multipart = |kind: &str, boundary: &str, parts: &[String]| {
        let parts: String = parts.iter().map(|part| format!("--{boundary}\n{part}\n")).collect();
        format!("Content-Type: multipart/{kind}; boundary={boundary}\n\n{parts}--{boundary}--\n")
    };
    let message = |inner: &str| format!("Content-Type: message/rfc822\n\n{inner}");
    let text = || leaf("text/plain");
    let alternative = multipart("alternative", "d", &[text(), leaf("text/richtext")]);
    let part_4 = multipart(
        "mixed",
        "b",
        &[leaf("image/gif"), message(&multipart("mixed", "c", &[text(), alternative]))],
    );
    let whole = multipart(
        "mixed",
        "a",
        &[
            text(),
            leaf("application/octet-stream"),
            message(&multipart("mixed", "e", &[text(), leaf("application/octet-stream")])),
            part_4,
            message(&text()),
        ],
    );
    let (structure, defects) = body_structure(whole.as_bytes());
    assert_eq!(defects, []);
    let parts: Vec<_> = numbered_parts(&structure)
        .iter()
        .map(|numbered| format!("{} {}", numbered.number, media_type(numbered.part)))
        .collect();
    assert_eq!(
        parts,
        [
            "1 text/plain",
            "2 application/octet-stream",
            "3 message/rfc822",
            "3.1 text/plain",
            "3.2 application/octet-stream",
            "4 multipart/mixed",
            "4.1 image/gif",
            "4.2 message/rfc822",
            "4.2.1 text/plain",
            "4.2.2 multipart/alternative",
            "4.2.2.1 text/plain",
            "4.2.2.2 text/richtext",
            "5 message/rfc822",
            "5.1 text/plain",
        ]
    );
    super::exercise(whole.as_bytes());
}

#[test]
fn broken_multiparts() {
    let head = "Content-Type: multipart/mixed; boundary=b\n\n";
    check(&format!("{head}text\n"), &[], &[DefectKind::BoundaryNotFound]);
    check(&format!("{head}--b\n\na\n"), &["1 text/plain 3 1"], &[DefectKind::UnclosedMultipart]);
    check(&format!("{head}--b\n--b--\n"), &["1 text/plain 0 0"], &[]);
    check(&format!("{head}--b\nContent-Type: a/b\n--b--\n"), &["1 a/b 0 0"], &[]);
    check(
        &format!("{head}--b\n\n--b \t\n\nx\n--b--"),
        &["1 text/plain 0 0", "2 text/plain 1 0"],
        &[],
    );
    check(&format!("{head}--bb\n\nx\n--b--\n"), &[], &[]);
    check("Content-Type: multipart/mixed; boundary*=us-ascii''%62\n\n--b--\n", &[], &[]);
    check("Content-Type: multipart/mixed\n\n--b\n", &[], &[DefectKind::MissingBoundary]);
    check(
        &format!("{head}--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\n\nx\n--b--\n"),
        &["1 multipart/mixed 8 2", "1.1 text/plain 1 0"],
        &[DefectKind::UnclosedMultipart],
    );
    check(
        &format!("{head}--b\nContent-Type: message/rfc822\n\n--b--\n"),
        &["1 message/rfc822 0 0", "1.1 text/plain 0 0"],
        &[DefectKind::MissingBlankLine],
    );
    check(
        "Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nA: b\n\nx",
        &["1 message/rfc822 9 2", "1.1 text/plain 1 0"],
        &[DefectKind::EncodedContainer],
    );
    check(
        "Content-Type: multipart/digest; boundary=b\n\n--b\n\nSubject: x\n\ny\n--b--\n",
        &["1 message/rfc822 15 2", "1.1 text/plain 1 0"],
        &[],
    );
}

#[test]
fn text_and_attachments() {
    let message = "Content-Type: multipart/mixed; boundary=m\n\n--m\n\
        Content-Type: multipart/alternative; boundary=a\n\n\
        --a\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n\
        caf=C3=A9\n--a\nContent-Type: text/html\n\n<p>no</p>\n--a--\n\
        --m\nContent-Type: text/html\n\n<p>one</p><p>t&amp;o</p>\n\
        --m\nContent-Type: text/plain; name=x.txt\nContent-Disposition: attachment\n\nhidden\n\
        --m\nContent-Type: application/pdf\nContent-Disposition: inline;\n filename*=utf-8''%C3%A9.pdf\n\n\
        abc\n--m\nContent-Type: message/rfc822\n\nFrom: a@b\nSubject: inner\n\nquoted\n--m--\n";
    let text = readable_text(message.as_bytes());
    assert_eq!(text, "caf\u{e9}\n\none\nt&o\n\nFrom: a@b\nSubject: inner\n\nquoted\n");
    let (structure, _) = body_structure(message.as_bytes());
    let found: Vec<_> = attachments(&structure)
        .into_iter()
        .map(|a| format!("{} {} {} {}", a.number, a.name.unwrap_or_default(), a.media_type, a.size))
        .collect();
    assert_eq!(found, ["3 x.txt text/plain 6", "4 \u{e9}.pdf application/pdf 3"]);
}

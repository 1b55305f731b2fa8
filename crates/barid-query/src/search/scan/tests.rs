use super::*;
use barid_message::body_offset;

/// Searches a message for a text, in LF and in CRLF: in header and body, and in the body.
fn check(message: &str, needle: &str, in_text: bool, in_body: bool) {
    let needle_of = Needle::new(needle);
    for message in [message.to_owned(), message.replace('\n', "\r\n")] {
        for (in_headers, expected) in [(true, in_text), (false, in_body)] {
            let mut wants = [Want { needle: &needle_of, in_headers, is_found: false }];
            scan(message.as_bytes(), &mut wants, &mut Buffers::default());
            assert_eq!(wants[0].is_found, expected, "{needle:?} headers {in_headers}: {message}");
        }
    }
}

#[test]
fn plain_messages() {
    let message = "Subject: Release\n plan\nStatus: RO\n\nHello,\nWorld\n";
    check(message, "world", true, true);
    check(message, "release plan", true, false);
    check(message, "SUBJECT: rel", true, false);
    check(message, "hello,\r\nworld", true, true);
    check(message, "hello,\nworld", true, true);
    check(message, "hello, world", false, false);
    check(message, "plan\r\n\r\nhello", false, false);
    check(message, "status", false, false);
    check(message, "caf\u{e9}", false, false);
    check("", "a", false, false);
    check("A: b", "b", true, false);
    check("\n\nb", "b", true, true);
}

#[test]
fn encoded_texts() {
    let header = "Subject: =?utf-8?q?caf=C3=A9?=\nContent-Type: text/plain; charset=iso-8859-1\n";
    let quoted = format!("{header}Content-Transfer-Encoding: quoted-printable\n\nol=E9 so=\nft\n");
    check(&quoted, "Caf\u{c9}", true, false);
    check(&quoted, "ol\u{e9} soft", true, true);
    check(&quoted, "=E9", false, false);
    check(&quoted, "=?utf", false, false);
    let base64 = "Content-Transfer-Encoding: base64\n\naGVsbG8gd29ybGQ=\n";
    check(base64, "o WORLD", true, true);
    check(base64, "aGVs", false, false);
    let unknown = "Content-Transfer-Encoding: x-none\n\nhello\n";
    check(unknown, "hello", false, false);
    check("\ngr\u{fc}n\n", "GR\u{dc}N", true, true);
    // i;unicode-casemap: the ligature has no capital and is decomposed after that.
    check("\n\u{fb01}n\n", "fin", false, false);
    check("Content-Type: text/plain; charset=\"UTF-8\"\n\ngr\u{fc}n\n", "gr\u{fc}n", true, true);
}

#[test]
fn parts() {
    let message = "Content-Type: multipart/mixed; boundary=b\n\nprologue\n--b\n\
        Content-Type: text/html\n\n<b>bold</b>\n--b\n\
        Content-Type: application/pdf; name=file.pdf\n\npdfbytes\n--b\n\
        Content-Type: message/rfc822\n\nSubject: inner\n\ninnerbody\n--b\n\
        Content-Type: message/delivery-status\n\nAction: failed\n--b--\nepilogue\n";
    check(message, "<b>bold", true, true);
    check(message, "pdfbytes", false, false);
    check(message, "file.pdf", true, false);
    check(message, "subject: inner", true, false);
    check(message, "innerbody", true, true);
    check(message, "action: failed", true, true);
    check(message, "prologue", false, false);
    check(message, "epilogue", false, false);
    check("Content-Type: image/png\n\nbytes", "bytes", false, false);
    check("Content-Type: text\n\nbytes", "bytes", true, true);
}

#[test]
fn attachments_are_seen() {
    let check = |message: &str, expected| {
        assert_eq!(has_attachment(message.as_bytes()), expected, "{message}");
    };
    check("\nplain", false);
    check("Content-Type: text/html; charset=koi8-r\n\nplain", false);
    check("Content-Disposition: attachment\n\nplain", true);
    check("Content-Type: image/png\n\nbytes", true);
    check("Content-Type: multipart/mixed; boundary=b\n\n--b\n\na\n--b--\n", false);
    check(
        "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: a/b\n\na\n--b--\n",
        true,
    );
}

#[test]
fn the_short_way_finds_what_the_long_one_finds() {
    let mut random = fastrand::Rng::with_seed(2045);
    let types = ["", "Content-Type: text/plain\n", "Content-Type: TEXT/x; charset=us-ascii\n"];
    let pieces = ["ab", "c ", "\u{e9}", "\n", "\n ", "d", "Ab", ": ", "=?", "\t"];
    let mut found = 0;
    for _ in 0..20_000 {
        let mut text = |count: usize| -> String {
            (0..random.usize(..count)).map(|_| pieces[random.usize(..pieces.len())]).collect()
        };
        let (subject, body, needle) = (text(6), text(9), Needle::new(&text(4)));
        let kind = types[random.usize(..types.len())];
        let message = format!("{kind}Subject: {}\n\n{body}", subject.trim_end()).into_bytes();
        let mut short = [Want { needle: &needle, in_headers: true, is_found: false }];
        scan(&message, &mut short, &mut Buffers::default());
        let mut long = [Want { needle: &needle, in_headers: true, is_found: false }];
        let (mut line, mut folded) = (Vec::new(), Vec::new());
        let at = body_offset(&message);
        push_header(&message[..at], true, &mut line, &mut folded);
        find(&mut long, |_| true, &folded);
        if !long[0].is_found {
            let (root, mut buffers) = (body_structure(&message).0, Buffers::default());
            each_text_of_parts(&message, &root, &mut |text| {
                scan_one(text, &mut long, &mut buffers)
            });
        }
        assert_eq!(short[0].is_found, long[0].is_found, "{}", String::from_utf8_lossy(&message));
        found += usize::from(short[0].is_found);
    }
    assert!((1_000..19_000).contains(&found), "{found}");
}

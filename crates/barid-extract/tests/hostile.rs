//! Documents made to exhaust their reader. Each must end at a limit that has a name, in time and
//! memory that do not depend on what it declares.

use barid_extract::limits::{
    INFLATED_LEN_MAX, INPUT_LEN_MAX, MEMBERS_MAX, SHARED_STRINGS_MAX, TEXT_LEN_MAX, XML_DEPTH_MAX,
    XML_TOKEN_LEN_MAX,
};
use barid_extract::{DocumentType, Failure, extract};

use barid_testkit::zip::{Entry, archive, of_one};

const DOCUMENT: &str = "word/document.xml";

#[track_caller]
fn check(bytes: &[u8], expected: Failure) {
    let found = extract(DocumentType::Office, "", bytes);
    assert_eq!(found.map(|found| found.text.len()), Err(expected));
}

#[test]
fn what_inflates_is_counted_and_not_what_is_declared() {
    // 100 MB of one token in 100 KB, declared as 10 bytes.
    let bomb = || Entry::filled(DOCUMENT, b"<w:t>", b"a", 100 << 20, b"</w:t>").stating(10);
    check(&archive(&[bomb()]), Failure::TokenTooLong);
    // Of many tokens: the ratio.
    let tags = Entry::filled(DOCUMENT, b"<w:p>", b"<w:r/>", 10 << 20, b"</w:p>").stating(10);
    check(&archive(&[tags]), Failure::RatioTooHigh);
    // Little enough in each of many members: the sum.
    let mut random = fastrand::Rng::with_seed(7);
    let noise: String = (0..600_000).map(|_| random.alphanumeric()).collect();
    let slide =
        format!("<p>{}</p>", format!("<x y='{}'/>", &noise[..1000]).repeat(600) + &noise[..9]);
    let mut entries = vec![Entry::stored("ppt/presentation.xml", b"<p/>")];
    let count = INFLATED_LEN_MAX as usize / slide.len() + 2;
    assert!(count < MEMBERS_MAX);
    for number in 0..count {
        entries.push(Entry::deflated(&format!("ppt/slides/slide{number}.xml"), slide.as_bytes()));
    }
    check(&archive(&entries), Failure::InflatedTooLong);
}

#[test]
fn archives_in_archives_are_not_opened() {
    let inner = of_one(DOCUMENT, "<w:p><w:t>inner</w:t></w:p>");
    check(&archive(&[Entry::deflated("0.zip", &inner)]), Failure::NotADocument);
    check(
        &archive(&[Entry::deflated("inner/word/document.xml", b"<w:t/>")]),
        Failure::NotADocument,
    );
    check(&archive(&[]), Failure::NotADocument);
}

#[test]
fn billion_laughs() {
    let laughs = "<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;&a;\">\
                  <!ENTITY c \"&b;&b;&b;&b;\">]><w:p><w:t>&c;</w:t></w:p>";
    check(&of_one(DOCUMENT, laughs), Failure::HasDtd);
    check(&of_one(DOCUMENT, "<!DOCTYPE x SYSTEM \"file:///etc/passwd\"><x/>"), Failure::HasDtd);
    // Without a definition an entity is nothing.
    let unknown = of_one(DOCUMENT, "<w:p><w:t>a&c;b</w:t></w:p>");
    assert_eq!(extract(DocumentType::Office, "", &unknown).unwrap().text, "a\u{fffd}b\n");
}

#[test]
fn deep_nesting() {
    let deep = |depth: usize| "<w:p>".repeat(depth) + "<w:t>x</w:t>" + &"</w:p>".repeat(depth);
    check(&of_one(DOCUMENT, &deep(XML_DEPTH_MAX)), Failure::TooDeep);
    check(&of_one(DOCUMENT, &"<a>".repeat(100_000)), Failure::TooDeep);
    let fits = of_one(DOCUMENT, &deep(XML_DEPTH_MAX - 1));
    assert_eq!(extract(DocumentType::Office, "", &fits).unwrap().text, "x\n");
}

#[test]
fn a_million_members() {
    let entry = |number: usize| Entry::stored(&format!("{number}"), b"");
    let many: Vec<Entry> = (0..MEMBERS_MAX + 1).map(entry).collect();
    let mut bytes = archive(&many);
    check(&bytes, Failure::TooManyMembers);
    // The count is a lie.
    let end = bytes.len() - 22;
    bytes[end + 10..end + 12].copy_from_slice(&1_u16.to_le_bytes());
    check(&bytes, Failure::TooManyMembers);
    // Entries of a directory for members that do not exist: 47 MB are too long, 30 MB are walked.
    let mut directory = b"PK\x01\x02".to_vec();
    directory.resize(46, 0);
    directory[28] = 1;
    directory.push(b'x');
    let make = |count: usize| {
        let mut bytes = directory.repeat(count);
        let len = u32::try_from(bytes.len()).unwrap().to_le_bytes();
        bytes.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
        bytes.extend(len);
        bytes.extend([0; 6]);
        bytes
    };
    check(&make(1_000_000), Failure::InputTooLong);
    check(&make(600_000), Failure::TooManyMembers);
}

#[test]
fn shared_strings_are_bounded() {
    let workbook = || Entry::stored("xl/workbook.xml", b"<workbook/>");
    let mut random = fastrand::Rng::with_seed(8);
    let noise: String = (0..3 << 20).map(|_| random.alphanumeric()).collect();
    let text: String =
        (0..18).map(|at| format!("<si><t>{}</t></si>", &noise[at..1 << 20])).collect();
    let sheet = Entry::stored("xl/sharedStrings.xml", format!("<sst>{text}</sst>").as_bytes());
    check(&archive(&[workbook(), sheet]), Failure::StringsTooLong);
    let many = format!("<sst>{}</sst>", "<si/>".repeat(SHARED_STRINGS_MAX + 1));
    let many = Entry::stored("xl/sharedStrings.xml", many.as_bytes());
    check(&archive(&[workbook(), many]), Failure::StringsTooLong);
    // One string that a million cells use is text that is cut.
    let string = format!("<sst><si><t>{}</t></si></sst>", "long ".repeat(2000));
    let cells = "<c t=\"s\"><v>0</v></c>".repeat(50_000);
    let bytes = archive(&[
        workbook(),
        Entry::stored("xl/sharedStrings.xml", string.as_bytes()),
        Entry::stored("xl/worksheets/sheet1.xml", format!("<row>{cells}</row>").as_bytes()),
    ]);
    let found = extract(DocumentType::Office, "", &bytes).unwrap();
    assert_eq!((found.text.len(), found.is_cut), (TEXT_LEN_MAX, true));
}

#[test]
fn attributes_take_linear_time() {
    let attributes: String = (0..60_000).map(|number| format!(" a{number}=''")).collect();
    assert!(attributes.len() < XML_TOKEN_LEN_MAX);
    let sheet = format!("<row><c{attributes} t=\"s\"><v>0</v></c></row>");
    let bytes = archive(&[
        Entry::stored("xl/workbook.xml", format!("<sheet{attributes} name='n'/>").as_bytes()),
        Entry::stored("xl/worksheets/sheet1.xml", sheet.repeat(20).as_bytes()),
    ]);
    assert_eq!(extract(DocumentType::Office, "", &bytes).unwrap().text, "n\n");
}

#[test]
fn damaged_archives() {
    let whole = of_one(DOCUMENT, &"<w:p><w:t>some text</w:t></w:p>".repeat(50));
    let text = extract(DocumentType::Office, "", &whole).unwrap().text;
    assert_eq!(text.lines().count(), 50);
    for len in 0..whole.len() {
        check(&whole[..len], Failure::BadArchive);
    }
    let mut decided = [0, 0];
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            let found = extract(DocumentType::Office, "", &bytes);
            decided[usize::from(found.is_ok())] += 1;
        }
    }
    assert!(decided[0] > 100 && decided[1] > 10, "{decided:?}");
    check(b"", Failure::BadArchive);
    check(&vec![b'P'; INPUT_LEN_MAX + 1], Failure::InputTooLong);
}

#[test]
fn members_that_cannot_be_read() {
    let entry = || Entry::deflated(DOCUMENT, b"<w:t>text</w:t>");
    check(&archive(&[entry().encrypted()]), Failure::Encrypted);
    let packed = Entry::with_data(DOCUMENT, 12, b"BZh".to_vec(), 3);
    check(&archive(&[packed]), Failure::UnknownCompression);
    check(&archive(&[Entry::with_data(DOCUMENT, 8, vec![0xff; 64], 3)]), Failure::BadArchive);
    check(&of_one(DOCUMENT, "<w:t"), Failure::BadXml);
    check(&archive(&[Entry::deflated(DOCUMENT, b"<w:t>\xff\xfe</w:t>")]), Failure::BadXml);
    let zeros = extract(DocumentType::Text, "", b"a\0b");
    assert_eq!(zeros, Err(Failure::NotText));
}

#[test]
fn text_is_cut_at_whole_characters() {
    let text = "\u{20ac}".repeat(TEXT_LEN_MAX / 3 + 1);
    let found = extract(DocumentType::Text, "utf-8", text.as_bytes()).unwrap();
    assert_eq!((found.text.len(), found.is_cut), (TEXT_LEN_MAX / 3 * 3, true));
}

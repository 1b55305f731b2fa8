//! Office documents with the elements that their writers use.

use barid_extract::{DocumentType, ExtractedText, extract};

use barid_testkit::zip::{Entry, archive};

#[track_caller]
fn check(members: &[(&str, &str)], expected: &str) {
    let entries = members.iter().map(|(name, text)| Entry::deflated(name, text.as_bytes()));
    let bytes = archive(&entries.collect::<Vec<_>>());
    let found = extract(DocumentType::Office, "", &bytes);
    assert_eq!(found, Ok(ExtractedText { text: expected.to_owned(), is_cut: false }));
}

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\r\n";

#[test]
fn docx() {
    let document = format!(
        "{HEAD}<w:document xmlns:w=\"w\"><w:body><w:p><w:pPr><w:tabs><w:tab w:val=\"left\"/></w:tabs>\
         </w:pPr><w:r><w:t>Quarterly</w:t></w:r><w:r><w:t xml:space=\"preserve\"> r</w:t></w:r>\
         <w:r><w:t>eport &amp; plan&#8211;A</w:t><w:tab/><w:t>x</w:t><w:br/><w:t>y</w:t></w:r></w:p>\
         <w:p><w:r><w:delText>gone</w:delText><w:instrText>PAGE</w:instrText></w:r></w:p>\
         <w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r>\
         </w:p></w:tc></w:tr></w:tbl><mc:AlternateContent><mc:Choice><w:t>once</w:t></mc:Choice>\
         <mc:Fallback><w:t>twice</w:t></mc:Fallback></mc:AlternateContent></w:body></w:document>"
    );
    let part = |text: &str| format!("{HEAD}<w:x><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:x>");
    check(
        &[
            ("[Content_Types].xml", "<Types/>"),
            ("word/footer2.xml", &part("foot")),
            ("word/header1.xml", &part("head")),
            ("word/comments.xml", &part("comment")),
            ("word/footnotes.xml", &part("note")),
            ("word/document.xml", &document),
        ],
        "Quarterly report & plan\u{2013}A\tx\ny\na\tb\nonce\nnote\ncomment\nhead\nfoot\n",
    );
}

#[test]
fn xlsx() {
    let workbook = "<workbook><sheets><sheet name=\"Q1 &amp; Q2\" r:id=\"1\"/></sheets></workbook>";
    let strings = "<sst><si><t>Name</t></si><si><r><rPr><t>no</t></rPr><t>Gr\u{fc}</t></r><r><t>n</t>\
                   </r><rPh><t>yomi</t></rPh></si><si/></sst>";
    let sheet = "<worksheet><sheetData><row><c t=\"s\"><v>0</v></c><c t=\"s\"><v>1</v></c></row>\
                 <row><c><f>SUM(A1)</f><v>17.5</v></c><c t=\"inlineStr\"><is><t>in</t></is></c>\
                 <c t=\"str\"><v>formula</v></c><c t=\"s\"><v>99</v></c></row><row><c/></row>\
                 </sheetData></worksheet>";
    let second = "<worksheet><row><c t=\"s\"><v>1</v></c></row></worksheet>";
    let comments = "<comments><comment><text><r><t>check this</t></r></text></comment></comments>";
    check(
        &[
            ("xl/workbook.xml", workbook),
            ("xl/worksheets/sheet10.xml", second),
            ("xl/worksheets/sheet2.xml", sheet),
            ("xl/sharedStrings.xml", strings),
            ("xl/comments1.xml", comments),
        ],
        "Q1 & Q2\nName\tGr\u{fc}n\n17.5\tin\tformula\nGr\u{fc}n\ncheck this\n",
    );
}

#[test]
fn pptx() {
    let slide = |text: &str| {
        format!(
            "<p:sld><a:p><a:r><a:t>{text}</a:t></a:r><a:br/><a:r><a:t>more</a:t></a:r></a:p></p:sld>"
        )
    };
    check(
        &[
            ("ppt/presentation.xml", "<p/>"),
            ("ppt/slides/slide10.xml", &slide("ten")),
            ("ppt/slides/slide2.xml", &slide("two")),
            ("ppt/slides/slide02.xml", &slide("not a slide")),
            ("ppt/notesSlides/notesSlide1.xml", &slide("note")),
        ],
        "two\nmore\nten\nmore\nnote\nmore\n",
    );
}

#[test]
fn opendocument() {
    let content = "<office:document-content><office:automatic-styles><p>style</p>\
        </office:automatic-styles><office:body><office:text><text:tracked-changes><text:p>deleted</text:p>\
        </text:tracked-changes>\n  <text:h>Title</text:h>\n <text:p>one\n <text:span>two</text:span>\
        <text:s text:c=\"9999999\"/>three<text:tab/>four<text:line-break/>f\u{ef}ve</text:p>\
        <table:table-row><table:table-cell table:number-columns-repeated=\"99999\"><text:p>a</text:p>\
        </table:table-cell><table:table-cell><text:p>b</text:p></table:table-cell></table:table-row>\
        <draw:page><draw:text-box><text:p>slide</text:p></draw:text-box></draw:page></office:text>\
        </office:body></office:document-content>";
    let styles = "<office:document-styles><style:header><text:p>top</text:p></style:header>\
                  </office:document-styles>";
    for kind in ["text", "spreadsheet", "presentation"] {
        let kind = format!("application/vnd.oasis.opendocument.{kind}");
        check(
            &[("mimetype", &kind), ("content.xml", content), ("styles.xml", styles)],
            "Title\none two three\tfour\nf\u{ef}ve\na\tb\nslide\ntop\n",
        );
    }
}

#[test]
fn an_archive_may_have_bytes_before_and_after_it() {
    let document = Entry::stored("word/document.xml", b"<w:p><w:t>text</w:t></w:p>");
    let mut bytes = archive(&[document]);
    bytes.splice(0..0, *b"#!/bin/sh\n");
    let comment = bytes.len() - 2;
    bytes[comment] = 7;
    bytes.extend(b"comment");
    let found = extract(DocumentType::Office, "", &bytes).unwrap();
    assert_eq!(found.text, "text\n");
}

#[test]
fn texts_and_html() {
    let text = |kind, charset: &str, bytes: &[u8]| extract(kind, charset, bytes).unwrap().text;
    assert_eq!(text(DocumentType::Text, "iso-8859-1", b"caf\xe9,1\r\n"), "caf\u{e9},1\r\n");
    let html = b"<meta charset=koi8-r><p>\xf0\xd2\xc9\xd7\xc5\xd4";
    assert_eq!(text(DocumentType::Html, "", html), "\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442}\n");
}

//! Documents: `barid-extract`, whose readers run in a process of their own and should never need
//! to.

use std::path::Path;
use std::sync::Arc;

use barid_extract::limits::TEXT_LEN_MAX;
use barid_extract::{DocumentType, ExtractedText, Failure, TextCache, TextKey, extract};
use barid_testkit::zip::{self, Entry};
use barid_vfs::{MemVfs, OpenOptions, Vfs};

/// Pieces of documents.
pub(crate) const DOCUMENT_WORDS: &[&str] = &[
    "PK\u{3}\u{4}",
    "PK\u{1}\u{2}",
    "PK\u{5}\u{6}",
    "word/document.xml",
    "xl/sharedStrings.xml",
    "<w:t>",
    "</w:p>",
    "<c t=\"s\"><v>0</v></c>",
    "<si><t>",
    "<text:p>",
    "<mc:Fallback>",
    "<!DOCTYPE x [<!ENTITY a \"b\">]>",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<?xml",
    "/>",
    "=\"",
    "&amp;",
    "&#x10FFFF;",
    "&#0;",
    "<script>",
    "</script",
    "<td>",
    "<a href='",
    "charset=",
];

/// The members of which the first byte of an input selects one.
const MEMBERS: [&str; 6] = [
    "word/document.xml",
    "xl/workbook.xml",
    "xl/sharedStrings.xml",
    "xl/worksheets/sheet1.xml",
    "ppt/slides/slide1.xml",
    "content.xml",
];

/// A whole archive.
pub(crate) fn office(bytes: &[u8]) {
    read(DocumentType::Office, bytes);
}

/// The XML of a member in a sound archive.
pub(crate) fn members(bytes: &[u8]) {
    let Some((first, xml)) = bytes.split_first() else { return };
    let name = MEMBERS[usize::from(*first) % MEMBERS.len()];
    let others = [("xl/workbook.xml", &b""[..]), ("ppt/presentation.xml", b"")];
    let others = match name {
        "content.xml" | "word/document.xml" | "xl/workbook.xml" => &[][..],
        name if name.starts_with("ppt") => &others[1..],
        "xl/sharedStrings.xml" => &[others[0], ("xl/worksheets/sheet1.xml", SHEET)],
        _ => &[others[0], ("xl/sharedStrings.xml", STRINGS)],
    };
    let all: Vec<_> = others.iter().copied().chain([(name, xml)]).collect();
    let found = extract(DocumentType::Office, "", &archive(&all));
    let is_of_archive = matches!(found, Err(Failure::BadArchive | Failure::NotADocument));
    assert!(!is_of_archive, "the archive is sound");
}

/// HTML and plain text.
pub(crate) fn texts(bytes: &[u8]) {
    for charset in ["", "utf-8", "iso-2022-jp", "utf-16"] {
        for kind in [DocumentType::Html, DocumentType::Text] {
            if let Ok(found) = extract(kind, charset, bytes) {
                // A byte becomes at most a character of three.
                assert!(found.text.len() <= 3 * bytes.len() + 64, "{}", found.text.len());
            }
        }
    }
}

/// A file of remembered texts: what is found is a text or a failure, and new ones can be added.
pub(crate) fn remembered(bytes: &[u8]) {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let file = vfs.open(Path::new(REMEMBERED), OpenOptions::create(0o600));
    file.and_then(|file| file.write_all_at(bytes, 0)).expect("because memory has no errors");
    let cache = TextCache::new(Arc::clone(&vfs), "/".into());
    for number in 0..4 {
        if let Some(Ok(found)) = cache.get(key(number)) {
            assert!(found.text.len() <= TEXT_LEN_MAX);
        }
    }
    let new = Ok(ExtractedText { text: "new".to_owned(), is_cut: true });
    cache.put(key(7), &new);
    assert_eq!(TextCache::new(vfs, "/".into()).get(key(7)), Some(new));
}

/// The file of remembered texts, in a folder of its own.
const REMEMBERED: &str = "/attachments.texts";

fn key(number: u8) -> TextKey {
    TextKey::of(DocumentType::Text, "", b"", &[number])
}

/// A file of texts and a failure.
pub(crate) fn remembered_seeds() -> Vec<Vec<u8>> {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let cache = TextCache::new(Arc::clone(&vfs), "/".into());
    for number in 0..3 {
        let text = "remembered ".repeat(usize::from(number) * 9);
        cache.put(key(number), &Ok(ExtractedText { text, is_cut: number == 2 }));
    }
    cache.put(key(3), &Err(Failure::HasDtd));
    vec![vfs.read(Path::new(REMEMBERED), 1 << 20).expect("because it was written")]
}

/// The type of an attachment: its media type and its name are the first two lines.
pub(crate) fn types(bytes: &[u8]) {
    let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
    let mut next = || lines.next().unwrap_or_default();
    let (media_type, name) = (String::from_utf8_lossy(next()), String::from_utf8_lossy(next()));
    let document = next();
    let found = DocumentType::of(&media_type, Some(&name), document);
    if let Some(found) = found {
        read(found, document);
    }
}

fn read(kind: DocumentType, bytes: &[u8]) {
    match extract(kind, "", bytes) {
        Ok(found) => assert!(found.text.len() <= TEXT_LEN_MAX),
        Err(failure) => assert_eq!(Failure::named(failure.name()), Some(failure)),
    }
}

const SHEET: &[u8] =
    b"<worksheet><row><c t=\"s\"><v>0</v></c><c t=\"s\"><v>1</v></c></row></worksheet>";
const STRINGS: &[u8] = b"<sst><si><t>one</t></si><si><r><t>two</t></r></si></sst>";
const DOCUMENT: &[u8] =
    b"<?xml version=\"1.0\"?><w:document><w:p><w:r><w:t>text &amp; more&#233;</w:t>\
    <w:tab/></w:r></w:p><mc:Fallback><w:t>no</w:t></mc:Fallback><![CDATA[x]]></w:document>";
const CONTENT: &[u8] = b"<office:body><text:h>Title</text:h><text:p>one <text:s/>two</text:p>\
    <table:table-cell><text:p>a</text:p></table:table-cell></office:body>";
const HTML: &[u8] = b"<!DOCTYPE html><meta charset=utf-8><title>t</title><script>a < b</script>\
    <table><tr><td>one<td title='>'>two</table><p>&euro;&#x20ac;&nbsp;<!-- no --><br>end";

/// Documents of every type.
pub(crate) fn office_seeds() -> Vec<Vec<u8>> {
    vec![
        archive(&[("[Content_Types].xml", b"<Types/>"), ("word/document.xml", DOCUMENT)]),
        archive(&[
            ("xl/workbook.xml", b"<workbook><sheet name='a'/></workbook>"),
            ("xl/sharedStrings.xml", STRINGS),
            ("xl/worksheets/sheet1.xml", SHEET),
        ]),
        archive(&[("ppt/presentation.xml", b"<p/>"), ("ppt/slides/slide1.xml", DOCUMENT)]),
        archive(&[
            ("mimetype", b"application/vnd.oasis.opendocument.text"),
            ("content.xml", CONTENT),
        ]),
    ]
}

/// A member of each kind after the byte that selects it.
pub(crate) fn member_seeds() -> Vec<Vec<u8>> {
    let all = [DOCUMENT, b"<sheet name=\"a\"/>", STRINGS, SHEET, DOCUMENT, CONTENT];
    (0..).zip(all).map(|(number, xml)| [&[number], xml].concat()).collect()
}

/// Texts.
pub(crate) fn text_seeds() -> Vec<Vec<u8>> {
    vec![HTML.to_vec(), b"caf\xe9;1\r\n".to_vec(), b"\xff\xfea\0\n\0".to_vec()]
}

/// Types, names and documents.
pub(crate) fn type_seeds() -> Vec<Vec<u8>> {
    let seed = |head: &str, document: &[u8]| [head.as_bytes(), document].concat();
    vec![
        seed("application/octet-stream\nplan.docx\n", &office_seeds()[0]),
        seed("application/pdf\na.pdf\n", b"%PDF-1.4\n"),
        seed("text/plain; charset=x\na.html\n", HTML),
    ]
}

/// Returns an archive of members that are not compressed.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let entries = members.iter().map(|(name, bytes)| Entry::stored(name, bytes));
    zip::archive(&entries.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_have_text() {
        for seed in office_seeds() {
            let found = extract(DocumentType::Office, "", &seed).unwrap();
            assert!(!found.text.is_empty());
        }
    }
}

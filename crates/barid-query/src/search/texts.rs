//! The texts of a message as search keys compare them, for indexes.
//!
//! They are made by the code with which a search reads messages: a text that a key finds is in one
//! of them, and a text that is in one of them is found.

use barid_message::{attachments, file_name};
use barid_types::BodyStructure;

use super::fold::{fold_into, push_upper};
use super::header::{push_addresses, push_field, push_subject, searched_fields};
use super::scan::{Buffers, MessageText, each_text, structure_of_file};
use super::view::{CachedField, FieldText, MessageView, SearchView};
use super::{AddressField, Facts};

/// Version of the texts: changed whenever the same message gives other texts, since an index of the
/// old ones answers for other texts than a search compares.
pub const TEXTS_VERSION: u32 = 2;

/// A kind of text of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextKind {
    /// The body of a part of type text or message.
    Body,
    /// A header field that people write or read, with its name, on one line.
    Header,
    /// A header field that only programs write and read, such as a signature or an id, with its
    /// name, on one line.
    OpaqueHeader,
    /// The subject of the envelope.
    Subject,
    /// The From addresses of the envelope.
    From,
    /// The To addresses.
    To,
    /// The Cc addresses.
    Cc,
    /// The file name of a part, or the text of an attachment.
    Attachment,
}

impl TextKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Body,
        Self::Header,
        Self::OpaqueHeader,
        Self::Subject,
        Self::From,
        Self::To,
        Self::Cc,
        Self::Attachment,
    ];
}

/// Fields that only programs write and read, without regard to case.
const OPAQUE_FIELDS: [&[u8]; 16] = [
    b"authentication-results",
    b"autocrypt",
    b"dkim-filter",
    b"dkim-signature",
    b"domainkey-signature",
    b"in-reply-to",
    b"message-id",
    b"openpgp",
    b"received",
    b"received-spf",
    b"references",
    b"return-path",
    b"thread-index",
    b"x-face",
    b"x-received",
    b"x-spam-status",
];

/// Beginnings of the names of such fields.
const OPAQUE_PREFIXES: [&[u8]; 8] = [
    b"arc-",
    b"x-amp-",
    b"x-forefront-",
    b"x-gm-",
    b"x-google-",
    b"x-microsoft-",
    b"x-ms-",
    b"x-spam-",
];

/// Returns `true` if a field of this name is a [`TextKind::OpaqueHeader`].
pub(super) fn is_opaque_field(name: &[u8]) -> bool {
    let begins = |prefix: &[u8]| {
        name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    OPAQUE_FIELDS.iter().any(|known| known.eq_ignore_ascii_case(name))
        || OPAQUE_PREFIXES.iter().any(|prefix| begins(prefix))
}

/// Returns `true` for the field that programs change in an mbox as they change its messages: it is
/// no part of what a message is, and so of no text of an index.
fn is_content_length(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"content-length")
}

/// Returns `true` if a folded text could be within the line of that field.
fn may_be_content_length(needle: &[u8]) -> bool {
    const NAME: &[u8] = b"CONTENT-LENGTH:";
    let rest = needle.iter().rev().skip_while(|byte| **byte == b'\n');
    let rest = rest.skip_while(|byte| byte.is_ascii_digit() || byte.is_ascii_whitespace()).count();
    NAME.ends_with(&needle[..rest]) || memchr::memmem::find(NAME, &needle[..rest]).is_some()
}

/// Takes the texts of a message.
pub type TakeText<'t> = dyn FnMut(TextKind, &[u8]) + 't;

/// Buffers that are reused for each message.
#[derive(Debug, Default)]
pub struct TextBuffers(Buffers);

impl TextBuffers {
    /// Returns the text of an attachment folded, as [`each_folded_text`] folds others. O(length).
    pub fn fold(&mut self, text: &str) -> &[u8] {
        self.0.trim();
        fold_into(text, &mut self.0.folded);
        &self.0.folded
    }
}

/// Properties of a message that its texts do not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoldedMessage {
    /// `true` if it has a Content-Length, which searches see and indexes do not.
    pub has_length: bool,
    /// `true` if it has attachments ([`barid_message::attachments`]), whose texts are not among
    /// those that were passed.
    pub has_attachments: bool,
}

/// Passes every text of a message, folded as search texts are: in titlecase, decomposed, in UTF-8
/// (RFC 5051). Nothing is found across two of them, but for a text with a line end, which can
/// begin in one header field and end in the next.
///
/// Of attachments the file names are passed; [`TextBuffers::fold`] folds their texts.
pub fn each_folded_text(
    message: &[u8],
    buffers: &mut TextBuffers,
    take: &mut TakeText<'_>,
) -> FoldedMessage {
    let TextBuffers(buffers) = buffers;
    let mut has_length = false;
    let structure = each_text(message, &mut |text| {
        has_length |= take_text(text, buffers, take);
        true
    });
    envelope_texts(message, buffers, take);
    let mut has_attachments = false;
    if let Some(root) = &structure.or_else(|| structure_of_file(message)) {
        has_attachments = !attachments(root).is_empty();
        file_names(root, buffers, take);
    }
    buffers.trim();
    FoldedMessage { has_length, has_attachments }
}

/// Passes the file names of all parts.
fn file_names(root: &BodyStructure, buffers: &mut Buffers, take: &mut TakeText<'_>) {
    let mut open = vec![root];
    while let Some(part) = open.pop() {
        if let Some(name) = file_name(part) {
            buffers.folded.clear();
            fold_into(&name, &mut buffers.folded);
            take(TextKind::Attachment, &buffers.folded);
        }
        open.extend(&part.parts);
    }
}

/// Passes a text; returns `true` if it is a header with a Content-Length.
fn take_text(text: MessageText<'_>, buffers: &mut Buffers, take: &mut TakeText<'_>) -> bool {
    let mut has_length = false;
    let Buffers { line, folded, .. } = buffers;
    folded.clear();
    match text {
        MessageText::Header { raw, is_root } => {
            for field in searched_fields(raw, is_root) {
                if is_root && is_content_length(field.name) {
                    has_length = true;
                    continue;
                }
                folded.clear();
                push_field(raw, &field, line, folded);
                let kind = match is_opaque_field(field.name) {
                    true => TextKind::OpaqueHeader,
                    false => TextKind::Header,
                };
                take(kind, folded);
            }
        }
        MessageText::Ascii(body) => {
            push_upper(body, folded);
            take(TextKind::Body, folded);
        }
        MessageText::Text(body) => {
            fold_into(body, folded);
            take(TextKind::Body, folded);
        }
    }
    has_length
}

/// Passes the texts of the fields that keys of their own compare.
fn envelope_texts(message: &[u8], buffers: &mut Buffers, take: &mut TakeText<'_>) {
    type Push = fn(&[u8], &mut Vec<u8>, &mut Vec<u8>);
    let keys: [(CachedField, TextKind, Push); 4] = [
        (CachedField::Subject, TextKind::Subject, push_subject),
        (CachedField::From, TextKind::From, push_addresses),
        (CachedField::To, TextKind::To, push_addresses),
        (CachedField::Cc, TextKind::Cc, push_addresses),
    ];
    let mut view = MessageView::new(Facts::unknown(), message);
    for (field, kind, push) in keys {
        view.any_field(field, &mut |text| {
            let (FieldText::Trimmed(raw) | FieldText::Padded(raw)) = text;
            buffers.folded.clear();
            push(raw, &mut buffers.line, &mut buffers.folded);
            take(kind, &buffers.folded);
            // Goes on to further fields of this name.
            Some(false)
        });
    }
}

/// The texts in which a key looks for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextScope {
    /// One kind.
    Kind(TextKind),
    /// All bodies and headers.
    Message,
}

impl TextScope {
    /// Returns the texts among which the addresses of a field are, as their keys compare them;
    /// `None` for the one field that has no kind.
    pub(super) fn of_address(field: AddressField) -> Option<Self> {
        match field {
            AddressField::From => Some(Self::Kind(TextKind::From)),
            AddressField::To => Some(Self::Kind(TextKind::To)),
            AddressField::Cc => Some(Self::Kind(TextKind::Cc)),
            AddressField::Bcc => None,
        }
    }

    /// Returns the texts among which a header field of this name is; `None` if it is in none.
    pub(super) fn of_header(name: &str) -> Option<Self> {
        match name.as_bytes() {
            name if is_content_length(name) => None,
            name if is_opaque_field(name) => Some(Self::Kind(TextKind::OpaqueHeader)),
            _ => Some(Self::Kind(TextKind::Header)),
        }
    }
}

/// A key that compares texts.
#[derive(Clone, Copy, Debug)]
pub struct TextTest<'m> {
    /// Its node in the program, for [`super::SearchView::indexed`].
    pub node: usize,
    /// The texts it looks in.
    pub scope: TextScope,
    /// The text it looks for, folded; not empty.
    pub needle: &'m [u8],
    /// `true` if it holds for exactly the messages with such a text that contains the other;
    /// otherwise it does not hold for messages without.
    pub is_exact: bool,
    /// `true` if it may hold for messages with a Content-Length whatever an index knows
    /// ([`each_folded_text`]).
    pub may_be_length: bool,
    /// `true` if it also compares the texts of attachments, where a view has them; the scope is
    /// [`TextKind::Attachment`] then.
    pub is_extracted: bool,
}

impl<'m> TextTest<'m> {
    pub(super) fn new(node: usize, scope: TextScope, needle: &'m [u8], is_exact: bool) -> Self {
        let may_be_length = match scope {
            TextScope::Message | TextScope::Kind(TextKind::Header) => may_be_content_length(needle),
            TextScope::Kind(_) => false,
        };
        Self { node, scope, needle, is_exact, may_be_length, is_extracted: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_the_length_may_have() {
        for text in
            ["123", "LENGTH: 12", "CONTENT-LENGTH: 5\n", "CONTENT", "T-L", ": 4", " 7", "\n"]
        {
            assert!(may_be_content_length(text.as_bytes()), "{text}");
        }
        for text in ["BUDGET", "LENGTHS", "LENGTH: 12 X", "X123", "CONTENT-TYPE"] {
            assert!(!may_be_content_length(text.as_bytes()), "{text}");
        }
        let has_length = |message: &[u8]| {
            each_folded_text(message, &mut TextBuffers::default(), &mut |_, _| {}).has_length
        };
        assert!(has_length(b"A: b\ncontent-length: 5\n\nx"));
        assert!(!has_length(b"A: b\n\nContent-Length: 5\n"));
    }

    #[test]
    fn fields_that_programs_read_are_opaque() {
        for name in ["Received", "ARC-Seal", "x-ms-exchange-x", "DKIM-Signature", "X-GM-A"] {
            assert!(is_opaque_field(name.as_bytes()), "{name}");
        }
        for name in ["", "Subject", "Receive", "X-M", "List-Id", "arc"] {
            assert!(!is_opaque_field(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn texts_are_those_that_keys_compare() {
        let message = "From: Ann (x) <a@b>\nSubject: =?utf-8?q?caf=C3=A9?=\n now\nReceived: by x\n\
            Subject: again\nStatus: RO\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\
            Content-Type: text/html\n\n<b>r\u{fc}n</b>\n--b\nContent-Type: image/png\n\nx\n--b--\n";
        let mut texts = Vec::new();
        each_folded_text(message.as_bytes(), &mut TextBuffers::default(), &mut |kind, text| {
            texts.push((kind, String::from_utf8(text.to_vec()).unwrap()));
        });
        let of = |kind: TextKind| -> Vec<&str> {
            texts.iter().filter(|(of, _)| *of == kind).map(|(_, text)| &**text).collect()
        };
        assert_eq!(of(TextKind::Body), ["<B>RU\u{308}N</B>"]);
        assert_eq!(of(TextKind::OpaqueHeader), ["RECEIVED: BY X\n"]);
        assert_eq!(of(TextKind::Subject), ["CAFE\u{301} NOW", "AGAIN"]);
        assert_eq!(of(TextKind::From), ["ANN <A@B>"]);
        assert_eq!(of(TextKind::Header)[1], "SUBJECT: CAFE\u{301} NOW\n");
        assert!(of(TextKind::To).is_empty());
    }

    #[test]
    fn file_names_of_all_parts_are_texts() {
        let check = |message: &str, has_attachments: bool, expected: &[&str]| {
            let mut names = Vec::new();
            let mut take = |kind, text: &[u8]| {
                if kind == TextKind::Attachment {
                    names.push(String::from_utf8(text.to_vec()).unwrap());
                }
            };
            let buffers = &mut TextBuffers::default();
            let found = each_folded_text(message.as_bytes(), buffers, &mut take);
            assert_eq!(
                (found.has_attachments, &*names),
                (has_attachments, &*expected.to_strings())
            );
        };
        check("Subject: a\n\nname=\"b\"\n", false, &[]);
        check("Content-Type: text/plain; NAME=\"b.txt\"\n\nx\n", false, &["B.TXT"]);
        check("Content-Disposition: attachment; filename=b.c\n\nx\n", true, &["B.C"]);
        check("Content-Type: image/png; name*=utf-8''%C3%A9\n\nx\n", true, &["E\u{301}"]);
        check(
            "Content-Type: multipart/mixed; boundary=b; name=m\n\n--b\n\n--b\n\
             Content-Type: text/plain; name=t\n\n--b\n\
             Content-Disposition: attachment; filename=f\n\n--b--\n",
            true,
            &["M", "F", "T"],
        );
    }

    trait ToStrings {
        fn to_strings(&self) -> Vec<String>;
    }

    impl ToStrings for [&str] {
        fn to_strings(&self) -> Vec<String> {
            self.iter().map(ToString::to_string).collect()
        }
    }
}

//! The text of a message: its form for storing it in another mailbox, and for comparing mailboxes.

use std::borrow::Cow;

use barid_mailbox::Format;
use barid_message::{fields, has_only_crlf, is_owned_field, push_crlf, strip_owned};
use sha2::{Digest as _, Sha256};

/// SHA-256 of a text whose lines end with CRLF.
pub type Digest = [u8; 32];

/// The form in which texts are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// All of the text.
    Whole,
    /// The part that an mbox keeps of every text: without the fields that mailbox formats own and
    /// without `Content-Length`, the header ended by a blank line and the last line ended.
    Same,
}

/// The treatment of texts for a pair of formats.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextTreatment {
    /// The form for comparison.
    pub(super) form: Form,
    strips: bool,
    pub(super) lines: Lines,
    pub(super) quotes: bool,
}

/// The conversion of line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lines {
    AsTheyAre,
    ToCrlf,
    ToLf,
}

impl TextTreatment {
    /// Returns the treatment for a copy from one format to another.
    pub(super) fn between(source: Format, target: Format) -> Self {
        let lines = match (source.has_crlf, target.has_crlf) {
            (_, true) => Lines::ToCrlf,
            (true, false) => Lines::ToLf,
            (false, false) => Lines::AsTheyAre,
        };
        let has_status_fields = source.has_status_fields || target.has_status_fields;
        let form = if has_status_fields { Form::Same } else { Form::Whole };
        Self { form, strips: source.has_status_fields, lines, quotes: target.keeps_quotes }
    }

    /// Returns the form of a text for storing it, and the digest for comparing it; `scratch` is
    /// overwritten. Mostly both forms are the same bytes, which are then made once.
    pub(super) fn prepare(self, text: &[u8], scratch: &mut Vec<u8>) -> (Vec<u8>, Digest) {
        let made = write_canonical(self.form, text, scratch);
        let digest = Sha256::digest(made.of(text, scratch)).into();
        let is_stored = self.lines == Lines::ToCrlf && !made.is_other;
        let stored = match (is_stored, made.is_stripped) {
            (true, None) => text.to_vec(),
            (true, Some(is_stripped)) if self.strips || !is_stripped => std::mem::take(scratch),
            _ => self.to_store(text),
        };
        (stored, digest)
    }

    /// Returns the form of a text for storing it.
    pub(super) fn to_store(self, text: &[u8]) -> Vec<u8> {
        let text = match strip_owned(text) {
            stripped if self.strips => stripped,
            _ => Cow::Borrowed(text),
        };
        match self.lines {
            // A message of no bytes cannot be stored everywhere; one empty line is equivalent.
            Lines::ToCrlf if text.is_empty() => b"\r\n".to_vec(),
            Lines::ToCrlf => {
                let mut out = Vec::with_capacity(text.len() + text.len() / 24 + 16);
                push_crlf(&text, &mut out);
                out
            }
            Lines::ToLf => with_lf(text.into_owned(), b'\n'),
            Lines::AsTheyAre => text.into_owned(),
        }
    }

    /// Returns the digest for comparing a text with texts of the target, if it is not that of the
    /// whole text: a target whose quoting is not undone may have other `From ` lines.
    pub(super) fn likeness(self, text: &[u8], scratch: &mut Vec<u8>) -> Option<Digest> {
        let unquoted = if self.quotes { without_quotes(text)? } else { return None };
        Some(self.digest(&unquoted, scratch))
    }

    /// Returns `true` if quoting changes a text and is not undone.
    pub(super) fn is_quoted(self, text: &[u8]) -> bool {
        self.quotes && has_from_line(text)
    }

    /// Returns the digest of a text; `scratch` is overwritten.
    pub(super) fn digest(self, text: &[u8], scratch: &mut Vec<u8>) -> Digest {
        let made = write_canonical(self.form, text, scratch);
        Sha256::digest(made.of(text, scratch)).into()
    }
}

/// Returns `true` if a line begins with `From `.
pub(super) fn has_from_line(text: &[u8]) -> bool {
    let starts = |at: usize| at == 0 || text[at - 1] == b'\n';
    memchr::memmem::find_iter(text, b"From ").any(starts)
}

/// Returns a text without the `>` before lines that begin with `From `; `None` if it has no such
/// lines.
pub(super) fn without_quotes(text: &[u8]) -> Option<Vec<u8>> {
    let quotes = |at: usize| text[..at].iter().rev().take_while(|byte| **byte == b'>').count();
    let starts = |at: usize| at == 0 || text[at - 1] == b'\n';
    let froms = || memchr::memmem::find_iter(text, b"From ").map(|at| (at - quotes(at), at));
    if !froms().any(|(start, _)| starts(start)) {
        return None;
    }
    let (mut unquoted, mut from) = (Vec::with_capacity(text.len()), 0);
    for (start, at) in froms().filter(|(start, _)| starts(*start)) {
        unquoted.extend_from_slice(&text[from..start]);
        from = at;
    }
    unquoted.extend_from_slice(&text[from..]);
    Some(unquoted)
}

/// Description of a text written for comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Canonical {
    /// `true` if fields that mailbox formats own were left out; `None` if the text itself is
    /// compared, and nothing was written.
    is_stripped: Option<bool>,
    /// `true` if there are other differences than that and CRLF for line ends.
    is_other: bool,
}

impl Canonical {
    /// Returns the text to compare: the original or the written one.
    pub(super) fn of<'a>(self, text: &'a [u8], written: &'a [u8]) -> &'a [u8] {
        if self.is_stripped.is_some() { written } else { text }
    }
}

/// Writes the text for comparison, unless it is the text itself.
pub(super) fn write_canonical(form: Form, text: &[u8], out: &mut Vec<u8>) -> Canonical {
    out.clear();
    let mut made = Canonical { is_stripped: None, is_other: false };
    let reserve = |out: &mut Vec<u8>| out.reserve(text.len() + text.len() / 24 + 16);
    let (mut from, mut end) = (0, 0);
    let mut has_blank_line = form == Form::Whole;
    if form == Form::Same {
        let mut all = fields(text);
        for field in all.by_ref() {
            let is_owned = is_owned_field(field.name);
            if is_owned || field.name.eq_ignore_ascii_case(b"content-length") {
                reserve(out);
                push_crlf(&text[from..field.offset], out);
                from = field.end;
                made.is_other |= !is_owned;
            }
            end = field.end;
        }
        has_blank_line = all.offset() > end;
    }
    let is_ended = match form {
        // See `Texts::to_store`.
        Form::Whole => !text.is_empty(),
        Form::Same => text.ends_with(b"\n") || from == text.len(),
    };
    if from == 0 && has_blank_line && is_ended && has_only_crlf(text) {
        return made;
    }
    made.is_stripped = Some(from > 0);
    made.is_other |= !is_ended || !has_blank_line;
    reserve(out);
    push_crlf(&text[from..], out);
    if !is_ended {
        out.extend_from_slice(b"\r\n");
    }
    if !has_blank_line {
        out.extend_from_slice(b"\r\n");
    }
    made
}

/// Converts every CRLF to LF except one that follows a CR: with LF it would be CRLF again, a line
/// end of the same length. `before` is the byte before the text.
pub(super) fn with_lf(mut text: Vec<u8>, before: u8) -> Vec<u8> {
    let mut to = 0;
    for at in 0..text.len() {
        // The byte before is unchanged: only positions after it were written.
        let last = if at == 0 { before } else { text[at - 1] };
        let is_dropped = text[at..].starts_with(b"\r\n") && last != b'\r';
        if !is_dropped {
            text[to] = text[at];
            to += 1;
        }
    }
    text.truncate(to);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::format_named;

    fn canonical(form: Form, text: &str) -> String {
        let mut out = b"left over".to_vec();
        let made = write_canonical(form, text.as_bytes(), &mut out);
        String::from_utf8(made.of(text.as_bytes(), &out).to_vec()).unwrap()
    }

    #[test]
    fn what_an_mbox_keeps() {
        let check = |text: &str, expected: &str| {
            assert_eq!(canonical(Form::Same, text), expected, "{text:?}");
            let crlf = text.replace('\n', "\r\n");
            assert_eq!(canonical(Form::Same, &crlf), expected, "{crlf:?}");
            assert_eq!(canonical(Form::Same, expected), expected, "once more");
        };
        check("A: b\n\nc\n", "A: b\r\n\r\nc\r\n");
        check("A: b\nStatus: RO\nContent-Length: 2\nC: d\n\nc", "A: b\r\nC: d\r\n\r\nc\r\n");
        check("X-UID: 2\n", "\r\n");
        check("A: b\nX-UID: 2", "A: b\r\n\r\n");
        check("A: b", "A: b\r\n\r\n");
        check("", "\r\n");
        check("\n", "\r\n");
        check("\nStatus: body", "\r\nStatus: body\r\n");
    }

    #[test]
    fn all_of_a_text() {
        let check = |text: &str, expected: &str| {
            assert_eq!(canonical(Form::Whole, text), expected, "{text:?}");
        };
        check("Status: R\nA: b\n\nc", "Status: R\r\nA: b\r\n\r\nc");
        check("a\r\nb\rc\n", "a\r\nb\rc\r\n");
        check("", "\r\n");
    }

    #[test]
    fn what_is_stored() {
        let check = |source, target, text: &str, expected: &str| {
            let texts = TextTreatment::between(source, target);
            let stored = texts.to_store(text.as_bytes());
            assert_eq!(String::from_utf8_lossy(&stored), expected, "{source:?} {target:?}");
            let mut scratch = Vec::new();
            let before = texts.digest(text.as_bytes(), &mut scratch);
            assert_eq!(before, texts.digest(&stored, &mut scratch));
        };
        let text = "A: b\nStatus: R\n\nx\ny";
        check(
            format_named("maildir"),
            format_named("mix"),
            text,
            "A: b\r\nStatus: R\r\n\r\nx\r\ny",
        );
        check(format_named("mboxo"), format_named("mbx"), text, "A: b\r\n\r\nx\r\ny");
        check(format_named("mboxo"), format_named("maildir"), text, "A: b\n\nx\ny");
        check(format_named("maildir"), format_named("mh"), "A: b\r\n\r\nx", "A: b\r\n\r\nx");
        check(format_named("mix"), format_named("mh"), "A: b\r\n\r\nx\ry\r\n", "A: b\n\nx\ry\n");
        check(format_named("mix"), format_named("mbx"), "A: b\r\n", "A: b\r\n");
        let doubled = "A: b\r\n\r\nx\r\r\ny\r\r\r\n\r\n";
        let as_lf = "A: b\n\nx\r\r\ny\r\r\r\n\n";
        for lf in ["maildir", "mh", "mboxrd"].map(format_named) {
            for crlf in ["mbx", "mix"].map(format_named) {
                check(crlf, lf, doubled, as_lf);
                check(lf, crlf, as_lf, doubled);
            }
        }
        check(format_named("mbx"), format_named("mh"), "\r\nx\r", "\nx\r");
        check(format_named("maildir"), format_named("mbx"), "", "\r\n");
    }

    #[test]
    fn what_is_stored_is_made_with_the_digest() {
        let parts = [
            "A: b",
            "Status: RO",
            "X-UID: 1",
            "Content-Length: 3",
            " c",
            "\n",
            "\n",
            "\n",
            "\r\n",
            "\r\n",
            "\r",
            "x",
            "From y",
        ];
        let formats = ["mboxrd", "maildir", "mh", "mbx", "mix"].map(format_named);
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..20_000 {
            let text: String = (0..rng.usize(..9)).map(|_| rng.choice(parts).unwrap()).collect();
            for source in formats {
                for target in formats {
                    let texts = TextTreatment::between(source, target);
                    let mut scratch = b"left over".to_vec();
                    let digest = texts.digest(text.as_bytes(), &mut scratch);
                    let stored = texts.to_store(text.as_bytes());
                    let made = texts.prepare(text.as_bytes(), &mut scratch);
                    assert_eq!(made, (stored, digest), "{text:?} {source:?} {target:?}");
                }
            }
        }
    }

    #[test]
    fn quoting_is_foreseen() {
        let check = |target, text: &str, expected| {
            let texts = TextTreatment::between(format_named("maildir"), target);
            assert_eq!(texts.is_quoted(text.as_bytes()), expected, "{target:?} {text:?}");
        };
        check(format_named("mboxo"), "A: b\n\nFrom me", true);
        check(format_named("mboxo"), "A: b\n\n>From me\nNot From me", false);
        check(format_named("mboxrd"), "A: b\n\nFrom me", false);
        check(format_named("mbx"), "A: b\n\nFrom me", false);
    }
}

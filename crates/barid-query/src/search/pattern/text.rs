//! A text of a message in the forms in which patterns are compared with it.

use std::borrow::Cow;
use std::cell::OnceCell;

use barid_message::casemap;
use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// A decoded text. Each form is made when it is first needed.
#[derive(Debug)]
pub(crate) struct PatternText<'t> {
    /// With LF as line end.
    text: Cow<'t, str>,
    is_ascii: bool,
    composed: OnceCell<String>,
    without_accents: OnceCell<String>,
    folded: OnceCell<String>,
    folded_without_accents: OnceCell<String>,
}

impl<'t> PatternText<'t> {
    /// Takes a text with line ends of any kind.
    pub(crate) fn new(text: Cow<'t, str>) -> Self {
        let text = match text.contains('\r') {
            true => Cow::Owned(text.replace("\r\n", "\n")),
            false => text,
        };
        Self {
            is_ascii: text.is_ascii(),
            text,
            composed: OnceCell::new(),
            without_accents: OnceCell::new(),
            folded: OnceCell::new(),
            folded_without_accents: OnceCell::new(),
        }
    }

    /// Returns the text in Normalization Form C (UAX #15), in its own case.
    pub(crate) fn regex_form(&self, folds_accents: bool) -> &str {
        if self.is_ascii {
            return &self.text;
        }
        if folds_accents {
            let fold = || self.text.nfd().filter(|c| !is_accent(*c)).nfc().collect();
            return self.without_accents.get_or_init(fold);
        }
        if is_nfc(&self.text) {
            return &self.text;
        }
        self.composed.get_or_init(|| self.text.nfc().collect())
    }

    /// Returns the text in i;unicode-casemap (RFC 5051).
    pub(crate) fn folded_form(&self, folds_accents: bool) -> &str {
        let folded = self.folded.get_or_init(|| casemap(&self.text));
        if self.is_ascii || !folds_accents {
            return folded;
        }
        self.folded_without_accents
            .get_or_init(|| folded.chars().filter(|c| !is_accent(*c)).collect())
    }
}

/// Appends a folded text without its accents; bytes that are not UTF-8 stay.
pub(crate) fn push_without_accents(folded: &[u8], out: &mut Vec<u8>) {
    if folded.is_ascii() {
        return out.extend_from_slice(folded);
    }
    for chunk in folded.utf8_chunks() {
        let mut room = [0; 4];
        for c in chunk.valid().chars().filter(|c| !is_accent(*c)) {
            out.extend_from_slice(c.encode_utf8(&mut room).as_bytes());
        }
        out.extend_from_slice(chunk.invalid());
    }
}

/// Returns `true` for marks that are accents: all that combine with a letter (UAX #44,
/// Canonical_Combining_Class), except those that make it another letter: nukta, voicing of kana,
/// virama.
fn is_accent(c: char) -> bool {
    !c.is_ascii() && !matches!(canonical_combining_class(c), 0 | 7..=9)
}

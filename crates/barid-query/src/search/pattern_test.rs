//! Patterns as search keys: which texts of a message they are compared with.

use std::borrow::Cow;

use barid_message::{body_structure, decode_words, file_name, media_type};

use super::cost::Cost;
use super::fold::Needle;
use super::header::{address_line, header_lines, subject_line, value_line};
use super::pattern::{PatternFinder, PatternText, TextPattern};
use super::program::TextPlace;
use super::scan::{MessageText, each_text};
use super::texts::{TextKind, TextScope};
use super::view::{CachedField, FieldText, SearchView};

/// Appends the text of a raw field on one line; the encoded words stay.
type Line = fn(&[u8], &mut Vec<u8>);

/// A search key with a pattern, or for the kind of a part.
#[derive(Clone, Debug)]
pub(crate) struct PatternTest {
    place: Place,
    /// A text that the pattern requires, and the texts of an index in which it is.
    required: Option<(TextScope, Needle)>,
    finder: Finder,
}

#[derive(Clone, Debug)]
enum Place {
    Field(CachedField, Line),
    Header(String),
    Text {
        in_headers: bool,
    },
    FileName,
    /// The file names, and the texts of attachments.
    Attachment,
    MediaType,
}

#[derive(Clone, Debug)]
enum Finder {
    Pattern(PatternFinder),
    Text(Needle),
}

impl PatternTest {
    pub(crate) fn new(place: &TextPlace, pattern: &TextPattern) -> Self {
        let scope = match place {
            TextPlace::Address(field) => TextScope::of_address(*field),
            TextPlace::Subject => Some(TextScope::Kind(TextKind::Subject)),
            TextPlace::Header(name) => TextScope::of_header(name),
            TextPlace::Body => Some(TextScope::Kind(TextKind::Body)),
            TextPlace::Text => Some(TextScope::Message),
            TextPlace::FileName | TextPlace::Attachment => {
                Some(TextScope::Kind(TextKind::Attachment))
            }
        };
        let place = match place {
            TextPlace::Address(field) => Place::Field((*field).into(), address_line),
            TextPlace::Subject => Place::Field(CachedField::Subject, subject_line),
            TextPlace::Header(name) => match CachedField::named(name) {
                Some(field) => Place::Field(field, value_line),
                None => Place::Header(name.clone()),
            },
            TextPlace::Body => Place::Text { in_headers: false },
            TextPlace::Text => Place::Text { in_headers: true },
            TextPlace::FileName => Place::FileName,
            TextPlace::Attachment => Place::Attachment,
        };
        let required = pattern.required_texts().into_iter().max_by_key(String::len);
        let required = required.map(|text| Needle::of_folded(text.as_bytes()));
        Self {
            place,
            required: scope.zip(required),
            finder: Finder::Pattern(PatternFinder::new(pattern)),
        }
    }

    /// Returns the test for a part whose media type contains a text.
    pub(crate) fn media_type(text: &str) -> Self {
        Self { place: Place::MediaType, required: None, finder: Finder::Text(Needle::new(text)) }
    }

    pub(crate) fn cost(&self) -> Cost {
        match self.place {
            Place::Field(..) => Cost::Fields,
            Place::Header(_) => Cost::Message,
            Place::Text { .. } | Place::FileName | Place::Attachment | Place::MediaType => {
                Cost::Text
            }
        }
    }

    /// Returns `true` if the texts of attachments are asked where no file name decides.
    pub(crate) fn is_in_attachments(&self) -> bool {
        matches!(self.place, Place::Attachment)
    }

    /// Returns `true` if [`PatternTest::required`] is all that a text must contain.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(&self.finder, Finder::Pattern(finder) if finder.is_plain())
    }

    /// Returns a text that the pattern requires, and the texts of an index in which it is; `None`
    /// if there is none.
    pub(crate) fn required(&self) -> Option<(TextScope, &Needle)> {
        self.required.as_ref().map(|(scope, needle)| (*scope, needle))
    }

    /// Returns the answer of a field, if the view can provide it.
    pub(crate) fn ask_field(&self, view: &mut dyn SearchView) -> Option<bool> {
        match &self.place {
            Place::Field(field, line) => {
                view.any_field(*field, &mut |text| Some(self.is_in_field(text, *line)))
            }
            Place::Header(name) => {
                let message = view.message()?;
                let mut fields = barid_message::fields(message)
                    .filter(|field| field.name.eq_ignore_ascii_case(name.as_bytes()));
                let is_in = |field: barid_message::RawField<'_>| {
                    self.is_in_field(FieldText::Padded(field.padded), value_line)
                };
                Some(!barid_message::is_owned_field(name.as_bytes()) && fields.any(is_in))
            }
            Place::Text { .. } | Place::FileName | Place::Attachment | Place::MediaType => None,
        }
    }

    /// Compares a field without the white space around it, which caches do not keep.
    fn is_in_field(&self, text: FieldText<'_>, line: Line) -> bool {
        let (FieldText::Trimmed(raw) | FieldText::Padded(raw)) = text;
        let mut unfolded = Vec::new();
        line(raw.trim_ascii(), &mut unfolded);
        self.is_in(decode_words(&unfolded))
    }

    fn is_in(&self, text: Cow<'_, str>) -> bool {
        self.is_in_text(&PatternText::new(text))
    }

    fn is_in_text(&self, text: &PatternText<'_>) -> bool {
        match &self.finder {
            Finder::Pattern(finder) => finder.is_in(text),
            Finder::Text(needle) => needle.is_in(text.folded_form(false).as_bytes()),
        }
    }

    fn is_in_header(&self) -> bool {
        matches!(self.place, Place::Text { in_headers: true })
    }
}

/// Returns which of the tests of [`Cost::Text`] match a message. One pass over its texts, and one
/// over the structure of its parts, if they are needed.
pub(crate) fn search_parts(message: &[u8], tests: &[&PatternTest]) -> Vec<bool> {
    let mut found = vec![false; tests.len()];
    let is_text = |test: &PatternTest| matches!(test.place, Place::Text { .. });
    if tests.iter().any(|test| is_text(test)) {
        let has_header = tests.iter().any(|test| test.is_in_header());
        each_text(message, &mut |part| {
            let (text, is_header) = match part {
                MessageText::Header { .. } if !has_header => return true,
                MessageText::Header { raw, is_root } => (header_lines(raw, is_root), true),
                MessageText::Ascii(body) => (String::from_utf8_lossy(body), false),
                MessageText::Text(body) => (Cow::Borrowed(body), false),
            };
            let text = PatternText::new(text);
            let mut is_over = true;
            for (test, found) in tests.iter().zip(&mut found).filter(|(test, _)| is_text(test)) {
                *found = *found || (!is_header || test.is_in_header()) && test.is_in_text(&text);
                is_over &= *found;
            }
            !is_over
        });
    }
    if !tests.iter().all(|test| is_text(test)) {
        let (root, _) = body_structure(message);
        let mut open = vec![&root];
        while let Some(part) = open.pop() {
            let (name, kind) = (file_name(part), media_type(part));
            for (test, found) in tests.iter().zip(&mut found) {
                let text = match test.place {
                    Place::FileName | Place::Attachment => name.as_deref(),
                    Place::MediaType => Some(&*kind),
                    _ => None,
                };
                *found |= text.is_some_and(|text| test.is_in(text.into()));
            }
            open.extend(&part.parts);
        }
    }
    found
}

/// Returns which of the tests match a text of an attachment; `None` if the view does not know the
/// texts. Each text is made ready once for all tests.
pub(crate) fn search_attachments(
    view: &mut dyn SearchView,
    tests: &[&PatternTest],
) -> Option<Vec<bool>> {
    let mut found = vec![false; tests.len()];
    let is_known = view.attachment_texts(&mut |text| {
        let text = PatternText::new(Cow::Borrowed(text));
        for (test, found) in tests.iter().zip(&mut found) {
            *found = *found || test.is_in_text(&text);
        }
        !found.iter().all(|found| *found)
    });
    is_known.then_some(found)
}

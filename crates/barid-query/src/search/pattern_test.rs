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

#[cfg(test)]
mod tests {
    use barid_types::KeywordTable;

    use super::*;
    use crate::search::{Day, Facts, Matcher, MatcherContext, MessageView, Scratch, parse_short};

    const MESSAGE: &[u8] = b"Subject: files\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\n\
        the body\n--b\nContent-Type: application/pdf; name=plan.pdf\n\nx\n--b--\n";

    /// A message with texts of attachments, if they are known.
    struct Extracting<'a> {
        message: MessageView<'a>,
        texts: Option<&'a [&'a str]>,
        /// Number of texts that were passed.
        passed: usize,
    }

    impl SearchView for Extracting<'_> {
        fn facts(&self) -> &Facts {
            self.message.facts()
        }

        fn any_field(
            &mut self,
            field: CachedField,
            holds: &mut dyn FnMut(FieldText<'_>) -> Option<bool>,
        ) -> Option<bool> {
            self.message.any_field(field, holds)
        }

        fn message(&mut self) -> Option<&[u8]> {
            self.message.message()
        }

        fn attachment_texts(&mut self, take: &mut dyn FnMut(&str) -> bool) -> bool {
            for text in self.texts.unwrap_or_default() {
                self.passed += 1;
                if !take(text) {
                    break;
                }
            }
            self.texts.is_some()
        }
    }

    /// Returns the answer for the message, and the number of texts that were asked for.
    fn answer(query: &str, texts: Option<&[&str]>) -> (Option<bool>, usize) {
        let keywords = KeywordTable::default();
        let context =
            MatcherContext { now: 0, exists: 1, greatest_uid: 1, keywords: &keywords, saved: &[] };
        let matcher = Matcher::new(&parse_short(query, Day(0)).unwrap(), &context);
        assert_eq!(matcher.asks(Cost::Attachments), query.contains("attachment:"), "{query}");
        let message = MessageView::new(Facts::unknown(), MESSAGE);
        let mut view = Extracting { message, texts, passed: 0 };
        (matcher.matches(&mut view, &mut Scratch::default()), view.passed)
    }

    #[test]
    fn texts_of_attachments_are_asked_last() {
        let texts: &[&str] = &["The secret\r\nbudget", "another plan", "and more"];
        let check = |query: &str, expected: bool, passed: usize| {
            assert_eq!(answer(query, Some(texts)), (Some(expected), passed), "{query}");
        };
        check("attachment:plan", true, 0);
        check("attachment:SECRET", true, 1);
        check("attachment:\"secret\nbudget\"", true, 1);
        check("attachment:another", true, 2);
        check("attachment:anoth*", true, 2);
        check("attachment:/more$/", true, 3);
        check("attachment:nothing", false, 3);
        check("-attachment:nothing", true, 3);
        // Each text is one of its own.
        check("attachment:/secret.*plan/", false, 3);
        check("attachment:secret attachment:more", true, 3);
        check("attachment:secret or attachment:nothing", true, 3);
        // Other keys decide first, and see no attachment.
        check("attachment:nothing subject:other", false, 0);
        check("attachment:nothing body:other", false, 0);
        check("attachment:nothing or body:body", true, 0);
        check("body:secret or secret or filename:secret", false, 0);
    }

    #[test]
    fn unknown_texts_leave_the_answer_open() {
        assert_eq!(answer("attachment:secret", None).0, None);
        assert_eq!(answer("-attachment:secret", None).0, None);
        assert_eq!(answer("attachment:plan", None).0, Some(true));
        assert_eq!(answer("attachment:secret body:other", None).0, Some(false));
        // Without an extraction, names are all.
        let message = &mut MessageView::new(Facts::unknown(), MESSAGE);
        let keywords = KeywordTable::default();
        let context =
            MatcherContext { now: 0, exists: 1, greatest_uid: 1, keywords: &keywords, saved: &[] };
        for (query, expected) in [("attachment:secret", false), ("attachment:plan", true)] {
            let matcher = Matcher::new(&parse_short(query, Day(0)).unwrap(), &context);
            assert_eq!(matcher.matches(message, &mut Scratch::default()), Some(expected));
        }
    }
}

//! The search keys of the short form.

use barid_types::{Flag, Keyword};

use super::ShortOptions;
use super::lexer::{Shape, Value, Word};
use super::values::{DateKey, dates, seconds, size};
use crate::limits::KEY_COMPARED_LEN_MAX;
use crate::search::day::number;
use crate::search::{
    AddressField, DateColumn, NodeId, NumberSet, PatternSource, ProgramBuilder, SearchError,
    SearchKey, TextPattern, TextPlace,
};

/// The keys, for suggestions and completion.
pub(super) const KEYS: [&str; 41] = [
    "from:",
    "to:",
    "cc:",
    "bcc:",
    "subject:",
    "body:",
    "text:",
    "id:",
    "list:",
    "header:",
    "filename:",
    "attachment:",
    "mimetype:",
    "is:",
    "has:",
    "since:",
    "after:",
    "before:",
    "on:",
    "date:",
    "received-since:",
    "received-before:",
    "received-on:",
    "older:",
    "younger:",
    "newer:",
    "larger:",
    "smaller:",
    "tag:",
    "keyword:",
    "uid:",
    "seq:",
    "modseq:",
    "thread:",
    "in:",
    "list-id:",
    "reply-to:",
    "sender:",
    "user-agent:",
    "message-id:",
    "references:",
];

/// The usual states behind `is:`.
pub(super) const STATES: [&str; 11] = [
    "unread",
    "read",
    "flagged",
    "unflagged",
    "answered",
    "unanswered",
    "deleted",
    "draft",
    "recent",
    "spam",
    "ham",
];

/// Header fields that are keys without `header:`; so are all whose names begin with `X-`.
const FIELDS: [&str; 16] = [
    "content-type",
    "delivered-to",
    "in-reply-to",
    "list-id",
    "list-post",
    "list-unsubscribe",
    "mailing-list",
    "message-id",
    "organization",
    "received",
    "references",
    "reply-to",
    "resent-from",
    "return-path",
    "sender",
    "user-agent",
];

/// Words of other programs, and the keys that they stand for.
const SYNONYMS: [(&str, &str); 13] = [
    ("mime", "mimetype:"),
    ("type", "mimetype:"),
    ("file", "filename:"),
    ("label", "tag:"),
    ("flag", "is:"),
    ("folder", "in:"),
    ("mailbox", "in:"),
    ("path", "in:"),
    ("msgid", "id:"),
    ("mid", "id:"),
    ("recipient", "to:"),
    ("size", "larger:"),
    ("age", "older:"),
];

/// Adds the node of a word with its key.
pub(super) fn term(
    builder: &mut ProgramBuilder,
    word: Word,
    options: &ShortOptions,
) -> Result<NodeId, SearchError> {
    let Word { key, field, value } = word;
    let Some(key) = key else {
        return builder.key(text_key(TextPlace::Text, value, options)?);
    };
    // A web address is a text.
    if value.text.starts_with("//") && value.shape == Shape::Text {
        let text = format!("{key}:{}", value.text);
        return builder.key(text_key(TextPlace::Text, Value { text, ..value }, options)?);
    }
    let with_colon = format!("{key}:");
    if let Some(place) = place(&key, field, &value) {
        let tests_presence = matches!(key.as_str(), "from" | "to" | "cc" | "bcc" | "subject");
        let is_field = matches!(place, TextPlace::Header(_));
        let may_be_empty = key == "header" || value.is_quoted && (tests_presence || is_field);
        if value.text.is_empty() && !may_be_empty {
            return Err(SearchError::NoValue { key: with_colon });
        }
        let value = match (key.as_str(), &place) {
            // `header:NAME` without a value.
            ("header", TextPlace::Header(name)) if *name == value.text => Value::default(),
            _ => value,
        };
        return builder.key(text_key(place, value, options)?);
    }
    if value.text.is_empty() && KEYS.contains(&with_colon.as_str()) {
        return Err(SearchError::NoValue { key: with_colon });
    }
    if value.shape != Shape::Text && KEYS.contains(&with_colon.as_str()) {
        let what = "value: only texts are searched by patterns, it is";
        return Err(SearchError::bad(&with_colon, what, value.text));
    }
    match key.as_str() {
        "is" => state(builder, &value.text),
        _ => builder.key(simple(&key, value.text, options)?),
    }
}

/// Returns the place in which the text of a key is searched.
fn place(key: &str, field: Option<String>, value: &Value) -> Option<TextPlace> {
    let header = |name: &str| TextPlace::Header(name.to_owned());
    Some(match key {
        "from" => TextPlace::Address(AddressField::From),
        "to" => TextPlace::Address(AddressField::To),
        "cc" => TextPlace::Address(AddressField::Cc),
        "bcc" => TextPlace::Address(AddressField::Bcc),
        "subject" => TextPlace::Subject,
        "body" => TextPlace::Body,
        "text" => TextPlace::Text,
        "id" => header("Message-ID"),
        "list" => header("List-Id"),
        "filename" => TextPlace::FileName,
        "attachment" => TextPlace::Attachment,
        "header" => TextPlace::Header(field.unwrap_or_else(|| value.text.clone())),
        key if FIELDS.contains(&key) || key.starts_with("x-") => header(key),
        _ => return None,
    })
}

/// Returns the key for a text in a place.
fn text_key(
    place: TextPlace,
    value: Value,
    options: &ShortOptions,
) -> Result<SearchKey, SearchError> {
    let Value { mut text, stars, shape, .. } = value;
    let source = match (shape, stars.as_slice()) {
        (Shape::Regex, _) => PatternSource::Regex(text),
        (Shape::Near(distance), _) => PatternSource::Near(text, distance),
        (Shape::Text, []) => PatternSource::Text(text),
        (Shape::Text, [at]) if *at > 0 && at + 1 == text.len() => {
            text.pop();
            PatternSource::Prefix(text)
        }
        _ => return Err(SearchError::Wildcard(text)),
    };
    let text = match source {
        PatternSource::Text(text) if !options.fold_accents || text.is_empty() => text,
        source => {
            let pattern = TextPattern::new(source, options.fold_accents)?;
            return Ok(SearchKey::Pattern(place, pattern));
        }
    };
    Ok(match place {
        TextPlace::Address(field) => SearchKey::Address(field, text),
        TextPlace::Subject => SearchKey::Subject(text),
        TextPlace::Header(name) => SearchKey::Header(name, text),
        TextPlace::Body => SearchKey::Body(text),
        TextPlace::Text => SearchKey::Text(text),
        TextPlace::FileName | TextPlace::Attachment => {
            SearchKey::Pattern(place, TextPattern::new(PatternSource::Text(text), false)?)
        }
    })
}

/// Returns the key of `key:text` for keys that are not texts.
fn simple(key: &str, text: String, options: &ShortOptions) -> Result<SearchKey, SearchError> {
    let dates = |column, kind| -> Result<SearchKey, SearchError> {
        Ok(SearchKey::Date(column, dates(key, kind, &text, options.today)?))
    };
    Ok(match key {
        "has" => match &*text.to_ascii_lowercase() {
            "attachment" | "attachments" => SearchKey::Attachment,
            _ => return Err(SearchError::bad(key, "thing to have (attachment)", text)),
        },
        "mimetype" => SearchKey::MediaType(match text.strip_suffix("/*") {
            Some(kind) => format!("{kind}/"),
            None if text.contains('*') => return Err(SearchError::Wildcard(text)),
            None => text,
        }),
        "since" | "after" => dates(DateColumn::Shown, DateKey::Since)?,
        "before" => dates(DateColumn::Shown, DateKey::Before)?,
        "on" | "date" => dates(DateColumn::Shown, DateKey::On)?,
        "received-since" => dates(DateColumn::Internal, DateKey::Since)?,
        "received-before" => dates(DateColumn::Internal, DateKey::Before)?,
        "received-on" => dates(DateColumn::Internal, DateKey::On)?,
        "older" => SearchKey::Older(seconds(key, &text)?),
        "younger" | "newer" => SearchKey::Younger(seconds(key, &text)?),
        "larger" => SearchKey::Larger(size(key, &text)?),
        "smaller" => SearchKey::Smaller(size(key, &text)?),
        "tag" | "keyword" => SearchKey::Keyword(keyword(key, text)?),
        "uid" => SearchKey::Uid(NumberSet::parse(&text)?),
        "seq" => SearchKey::Seq(NumberSet::parse(&text)?),
        "thread" => SearchKey::ThreadOf(NumberSet::parse(&text)?),
        "in" => SearchKey::InMailbox(text),
        "modseq" => {
            let modseq = number(&text);
            SearchKey::ModSeq(modseq.ok_or(SearchError::bad(key, "mod-sequence", text))?)
        }
        _ => return Err(no_such(key)),
    })
}

fn keyword(key: &str, text: String) -> Result<Keyword, SearchError> {
    Keyword::new(&text).ok_or_else(|| SearchError::bad(key, "keyword", text))
}

/// Adds the node of `is:unread` and the like.
fn state(builder: &mut ProgramBuilder, text: &str) -> Result<NodeId, SearchError> {
    let (flag, is_set) = match &*text.to_ascii_lowercase() {
        "read" | "seen" => (Flag::Seen, true),
        "unread" | "unseen" => (Flag::Seen, false),
        "flagged" | "starred" => (Flag::Flagged, true),
        "unflagged" => (Flag::Flagged, false),
        "answered" | "replied" => (Flag::Answered, true),
        "unanswered" => (Flag::Answered, false),
        "deleted" => (Flag::Deleted, true),
        "undeleted" => (Flag::Deleted, false),
        "draft" => (Flag::Draft, true),
        "recent" => (Flag::Recent, true),
        "old" => (Flag::Recent, false),
        "spam" | "junk" => return spam(builder),
        "ham" => {
            let spam = spam(builder)?;
            return builder.not(spam);
        }
        _ => {
            let what = "state (unread, read, flagged, answered, deleted, draft, recent, spam, ham)";
            return Err(SearchError::bad("is", what, text));
        }
    };
    let node = builder.key(SearchKey::Flag(flag))?;
    if is_set { Ok(node) } else { builder.not(node) }
}

/// Adds the node of `is:spam`: the keyword $Junk (RFC 9051 §2.3.2), or Junk as Thunderbird writes
/// it, or the verdict of the spam filter in `X-Bogosity`, unless a keyword says that it is not.
fn spam(builder: &mut ProgramBuilder) -> Result<NodeId, SearchError> {
    let of = |builder: &mut ProgramBuilder, names: [&str; 2]| {
        let nodes =
            names.map(|name| builder.key(SearchKey::Keyword(keyword("is", name.to_owned())?)));
        nodes.into_iter().collect::<Result<Vec<_>, _>>()
    };
    let mut is_spam = of(builder, ["$Junk", "Junk"])?;
    // bogofilter's terse form is `Yes`.
    let verdict = TextPattern::new(PatternSource::Regex("^(spam|yes)\\b".to_owned()), false)?;
    let verdict = SearchKey::Pattern(TextPlace::Header("X-Bogosity".to_owned()), verdict);
    is_spam.push(builder.key(verdict)?);
    let is_spam = builder.or(is_spam)?;
    let is_ham = of(builder, ["$NotJunk", "NonJunk"])?;
    let is_ham = builder.or(is_ham)?;
    let is_ham = builder.not(is_ham)?;
    builder.and(vec![is_spam, is_ham])
}

/// Returns the error for an unknown key, with the key that is written most alike.
fn no_such(key: &str) -> SearchError {
    // A comparison costs the product of the lengths.
    if key.len() > KEY_COMPARED_LEN_MAX {
        return SearchError::NoSuchKey { key: format!("{key}:"), suggestion: None };
    }
    let keys = KEYS.into_iter().map(|known| (known.trim_end_matches(':'), known));
    let distance = |(known, _): &(&str, &str)| strsim::osa_distance(known, key);
    // Nothing is alike to a short word but by accident.
    let most = if key.len() < 4 { 1 } else { 2 };
    let nearest = keys.chain(SYNONYMS).min_by_key(distance);
    let suggestion = nearest.filter(|known| distance(known) <= most).map(|(_, found)| found);
    SearchError::NoSuchKey { key: format!("{key}:"), suggestion }
}

//! A parser for the short form of programs, for people.
//!
//! ```text
//! query   = and *("or" and)
//! and     = *(["not" / "-" / "!"] term)
//! term    = "(" query ")" / key ":" value / word
//! value   = word / DQUOTE text DQUOTE
//! ```
//!
//! A word or a quoted text without a key is searched in the whole message; `all` matches every
//! message, and `1:5` or `*` is rejected, since it could be UIDs, sequence numbers or a text. Keys
//! and words such as `or` are case-insensitive; in quotes they are text.

use barid_types::{Flag, Keyword};

use super::day::number;
use super::program::DateRange;
use super::{
    AddressField, DateColumn, Day, NodeId, NumberSet, ProgramBuilder, SearchError, SearchKey,
    SearchProgram,
};
use crate::limits::SEARCH_DEPTH_MAX;

/// Parses a query in the short form; `today` and `7d` in it count from the day `today`.
///
/// An empty query matches every message.
///
/// # Errors
/// Returns a [`SearchError`] if the text is not a valid query.
pub fn parse_short(text: &str, today: Day) -> Result<SearchProgram, SearchError> {
    let mut parser = QueryParser {
        lexer: QueryLexer { text, at: 0, depth: 0 },
        builder: ProgramBuilder::default(),
        open: vec![Level::default()],
        today,
    };
    let root = parser.run()?;
    Ok(parser.builder.finish(root))
}

/// A word of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
enum QueryToken {
    Open,
    Close,
    Minus,
    /// A word without its quotes; the text before its first colon outside of quotes, if that can be
    /// a key; `true` if any of it was quoted.
    Word {
        key: Option<String>,
        text: String,
        is_quoted: bool,
    },
}

struct QueryLexer<'a> {
    text: &'a str,
    at: usize,
    /// Number of open parentheses; a closing one without an open one is part of a word.
    depth: usize,
}

impl QueryLexer<'_> {
    fn next(&mut self) -> Result<Option<QueryToken>, SearchError> {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        let token = match rest.bytes().next() {
            None => return Ok(None),
            Some(b'(') => QueryToken::Open,
            Some(b')') if self.depth > 0 => QueryToken::Close,
            Some(b'-' | b'!') if rest[1..].starts_with(|c: char| !c.is_whitespace()) => {
                QueryToken::Minus
            }
            _ => return self.word(rest).map(Some),
        };
        self.at += 1;
        Ok(Some(token))
    }

    fn word(&mut self, rest: &str) -> Result<QueryToken, SearchError> {
        let (mut key, mut text, mut is_quoted) = (None, String::new(), false);
        let mut chars = rest.char_indices();
        let mut len = rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    is_quoted = true;
                    loop {
                        match chars.next() {
                            Some((_, '"')) => break,
                            Some((_, '\\')) => text.extend(chars.next().map(|(_, c)| c)),
                            Some((_, c)) => text.push(c),
                            None => {
                                let what = "a closing quote";
                                return Err(SearchError::Missing { what, after: text });
                            }
                        }
                    }
                }
                ':' if key.is_none() && !is_quoted && is_key(&text) => {
                    key = Some(std::mem::take(&mut text).to_ascii_lowercase());
                }
                c if c.is_whitespace() || c == ')' && self.depth > 0 => {
                    len = at;
                    break;
                }
                c => text.push(c),
            }
        }
        self.at += len;
        Ok(QueryToken::Word { key, text, is_quoted })
    }
}

/// Returns `true` if a word is a set of messages in IMAP. A single number, or several with commas,
/// is more often a text.
fn is_range(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_digit() || b":,*".contains(&byte);
    text.bytes().all(is_part) && text.contains([':', '*'])
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
}

/// A query or a part of it in parentheses.
#[derive(Default)]
struct Level {
    /// Operands of `or` so far.
    ors: Vec<NodeId>,
    /// Terms after the last `or`.
    ands: Vec<NodeId>,
    /// `true` if the next term is negated.
    is_negated: bool,
    /// `true` if the level, once complete, is negated in the level around it.
    was_negated: bool,
}

struct QueryParser<'a> {
    lexer: QueryLexer<'a>,
    builder: ProgramBuilder,
    open: Vec<Level>,
    today: Day,
}

impl QueryParser<'_> {
    fn run(&mut self) -> Result<NodeId, SearchError> {
        while let Some(token) = self.lexer.next()? {
            match token {
                QueryToken::Open => self.begin()?,
                QueryToken::Close => self.end()?,
                QueryToken::Minus => self.negate(),
                QueryToken::Word { key: None, text, is_quoted: false } => match &*text {
                    "or" | "OR" | "|" => self.or()?,
                    "and" | "AND" => {}
                    "not" | "NOT" => self.negate(),
                    _ if text.eq_ignore_ascii_case("all") => {
                        let node = self.builder.key(SearchKey::All)?;
                        self.add(node)?;
                    }
                    _ if is_range(&text) => return Err(SearchError::Numbers(text)),
                    _ => self.term(None, text)?,
                },
                QueryToken::Word { key, text, .. } => self.term(key, text)?,
            }
        }
        let missing = |what, after: &str| SearchError::Missing { what, after: after.into() };
        match (self.open.pop(), self.open.is_empty()) {
            (Some(level), true) if level.is_negated => Err(missing("a search key", "not")),
            (Some(level), true) if level.ors.is_empty() && level.ands.is_empty() => {
                self.builder.key(SearchKey::All)
            }
            (Some(level), true) => self.join(level),
            _ => Err(missing(")", "(")),
        }
    }

    fn level(&mut self) -> &mut Level {
        self.open.last_mut().expect("because the outermost level stays until the end")
    }

    fn negate(&mut self) {
        let level = self.level();
        level.is_negated = !level.is_negated;
    }

    fn begin(&mut self) -> Result<(), SearchError> {
        if self.open.len() > SEARCH_DEPTH_MAX {
            return Err(SearchError::TooMuch { what: "levels", max: SEARCH_DEPTH_MAX });
        }
        let was_negated = std::mem::take(&mut self.level().is_negated);
        self.open.push(Level { was_negated, ..Level::default() });
        self.lexer.depth += 1;
        Ok(())
    }

    fn end(&mut self) -> Result<(), SearchError> {
        self.lexer.depth -= 1;
        let level = self.open.pop().expect("because the depth counts the levels");
        let was_negated = level.was_negated;
        let node = self.join(level)?;
        self.level().is_negated = was_negated;
        self.add(node)
    }

    fn or(&mut self) -> Result<(), SearchError> {
        let level = self.level();
        if level.ands.is_empty() || level.is_negated {
            let after = if level.ors.is_empty() { "(" } else { "or" };
            return Err(SearchError::Missing { what: "a search key", after: after.into() });
        }
        let ands = std::mem::take(&mut level.ands);
        let node = self.builder.and(ands)?;
        self.level().ors.push(node);
        Ok(())
    }

    fn join(&mut self, mut level: Level) -> Result<NodeId, SearchError> {
        if level.ands.is_empty() || level.is_negated {
            let after = if level.ors.is_empty() { "(" } else { "or" };
            return Err(SearchError::Missing { what: "a search key", after: after.into() });
        }
        let last = self.builder.and(level.ands)?;
        level.ors.push(last);
        self.builder.or(level.ors)
    }

    /// Adds a node to the current terms, negated if `not` precedes it.
    fn add(&mut self, mut node: NodeId) -> Result<(), SearchError> {
        if std::mem::take(&mut self.level().is_negated) {
            node = self.builder.not(node)?;
        }
        self.level().ands.push(node);
        Ok(())
    }

    fn term(&mut self, key: Option<String>, text: String) -> Result<(), SearchError> {
        let Some(key) = key else {
            let node = self.builder.key(SearchKey::Text(text))?;
            return self.add(node);
        };
        // A web address is a text.
        if text.starts_with("//") {
            let node = self.builder.key(SearchKey::Text(format!("{key}:{text}")))?;
            return self.add(node);
        }
        if text.is_empty() && !may_be_empty(&key) {
            return Err(SearchError::Missing { what: "a value", after: format!("{key}:") });
        }
        let (found, is_set) = simple(&key, text, self.today)?;
        let mut node = self.builder.key(found)?;
        if !is_set {
            node = self.builder.not(node)?;
        }
        self.add(node)
    }
}

/// Returns `true` for a key with which an empty text tests whether the field exists.
fn may_be_empty(key: &str) -> bool {
    matches!(key, "from" | "to" | "cc" | "bcc" | "subject")
}

/// Returns the key of `key:text`, and `true` if it must match, `false` if it must not.
fn simple(key: &str, text: String, today: Day) -> Result<(SearchKey, bool), SearchError> {
    let address = |field| move |text| SearchKey::Address(field, text);
    let header = |name: &str, text| SearchKey::Header(name.to_owned(), text);
    let dates = |column, kind| -> Result<SearchKey, SearchError> {
        Ok(SearchKey::Date(column, dates(key, kind, &text, today)?))
    };
    Ok((
        match key {
            "is" => return state(&text),
            "has" => match &*text.to_ascii_lowercase() {
                "attachment" | "attachments" => SearchKey::Attachment,
                _ => return Err(SearchError::bad(key, "thing to have (attachment)", text)),
            },
            "from" => address(AddressField::From)(text),
            "to" => address(AddressField::To)(text),
            "cc" => address(AddressField::Cc)(text),
            "bcc" => address(AddressField::Bcc)(text),
            "subject" => SearchKey::Subject(text),
            "body" => SearchKey::Body(text),
            "text" => SearchKey::Text(text),
            "id" => header("Message-ID", text),
            "list" => header("List-Id", text),
            "header" => {
                let (name, value) = text.split_once('=').unwrap_or((&text, ""));
                header(name, value.to_owned())
            }
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
            "tag" | "keyword" => {
                let keyword = Keyword::new(&text);
                SearchKey::Keyword(keyword.ok_or_else(|| SearchError::bad(key, "keyword", text))?)
            }
            "uid" => SearchKey::Uid(NumberSet::parse(&text)?),
            "seq" => SearchKey::Seq(NumberSet::parse(&text)?),
            "modseq" => {
                let modseq = number(&text);
                SearchKey::ModSeq(modseq.ok_or(SearchError::bad(key, "mod-sequence", text))?)
            }
            _ => return Err(SearchError::UnknownKey(format!("{key}:"))),
        },
        true,
    ))
}

/// Parses the value of `is:unread` and the like.
fn state(text: &str) -> Result<(SearchKey, bool), SearchError> {
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
        _ => {
            let what = "state (unread, read, flagged, answered, deleted, draft, recent)";
            return Err(SearchError::bad("is", what, text));
        }
    };
    Ok((SearchKey::Flag(flag), is_set))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DateKey {
    Since,
    Before,
    On,
}

/// Parses `2024`, `2024-05`, `2024-05-17`, `today`, `yesterday`, `7d`, and for [`DateKey::On`] two
/// of them with `..` between.
fn dates(key: &str, kind: DateKey, text: &str, today: Day) -> Result<DateRange, SearchError> {
    let bad = || SearchError::bad(key, "date such as 2024-05-17, 2024-05, 2024, today or 7d", text);
    let one = |text: &str| period(text, today).ok_or_else(bad);
    Ok(match (kind, text.split_once("..")) {
        (DateKey::Since, _) => DateRange { from: Some(one(text)?.0), to: None },
        (DateKey::Before, _) => DateRange { from: None, to: Some(one(text)?.0) },
        (DateKey::On, None) => {
            let (from, to) = one(text)?;
            DateRange { from: Some(from), to: Some(to) }
        }
        (DateKey::On, Some((from, to))) => {
            let from = (!from.is_empty()).then(|| one(from)).transpose()?;
            let to = (!to.is_empty()).then(|| one(to)).transpose()?;
            DateRange { from: from.map(|period| period.0), to: to.map(|period| period.1) }
        }
    })
}

/// Returns the first day of a period and the day after its last.
fn period(text: &str, today: Day) -> Option<(Day, Day)> {
    let day = |day: Day| Some((day, day.plus(1)));
    match &*text.to_ascii_lowercase() {
        "today" => return day(today),
        "yesterday" => return day(today.plus(-1)),
        _ => {}
    }
    if let Some(ago) = days_ago(text) {
        return day(today.plus(-ago));
    }
    if let Some(imap) = Day::parse_imap(text) {
        return day(imap);
    }
    let mut parts = text.split('-');
    let year = parts.next().filter(|year| year.len() == 4)?;
    let year: i32 = number(year)?;
    match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => Some((Day::of(year, 1, 1)?, Day::of(year, 12, 31)?.plus(1))),
        (Some(month), None, _) => {
            let month = number(month)?;
            let first = Day::of(year, month, 1)?;
            let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            Some((first, Day::of(next.0, next.1, 1)?))
        }
        (Some(month), Some(date), None) => day(Day::of(year, number(month)?, number(date)?)?),
        _ => None,
    }
}

/// Parses `7d`, `2w`, `3m`, `1y`. Returns days.
fn days_ago(text: &str) -> Option<i64> {
    let unit = text.chars().last().filter(char::is_ascii)?;
    let count: i64 = number(&text[..text.len() - 1]).filter(|count| *count < 1_000_000)?;
    let days = match unit.to_ascii_lowercase() {
        'd' => 1,
        'w' => 7,
        'm' => 30,
        'y' => 365,
        _ => return None,
    };
    Some(count * days)
}

/// Parses `90s`, `15min`, `2h`, `7d`, `2w`, `3m`, `1y`, or seconds alone.
fn seconds(key: &str, text: &str) -> Result<u32, SearchError> {
    let bad = || SearchError::bad(key, "span of time such as 2h, 7d or 1y", text);
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let count: u64 = number(&text[..split]).ok_or_else(bad)?;
    let unit = match &*text[split..].to_ascii_lowercase() {
        "" | "s" => 1,
        "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        "m" => 30 * 86_400,
        "y" => 365 * 86_400,
        _ => return Err(bad()),
    };
    let seconds = count.checked_mul(unit).and_then(|seconds| u32::try_from(seconds).ok());
    seconds.filter(|seconds| *seconds > 0).ok_or_else(bad)
}

/// Parses `1M`, `500k`, `2G`, or bytes alone.
fn size(key: &str, text: &str) -> Result<u64, SearchError> {
    let bad = || SearchError::bad(key, "size such as 20000, 500k or 1M", text);
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let count: u64 = number(&text[..split]).ok_or_else(bad)?;
    let shift = match &*text[split..].to_ascii_lowercase() {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _ => return Err(bad()),
    };
    count.checked_mul(1 << shift).ok_or_else(bad)
}

#[cfg(test)]
mod tests;

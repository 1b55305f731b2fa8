//! Settings of delivery.

use std::time::Duration;

use barid::{Flag, Keyword};
use barid_auth::Template;

use super::location::template;
use super::reader::Section;
use super::values::time;
use crate::limits::{DELIVERY_TIMEOUT, PATTERN_LEN_MAX};

/// Settings of delivery.
#[derive(Clone, Debug)]
pub struct DeliverySettings {
    /// Character between a user and a detail in addresses.
    pub detail_separator: Option<char>,
    /// `true` if the detail of an address names a mailbox, which must exist.
    pub detail_mailbox: bool,
    /// `true` if the mailboxes of rules and of spam are created if they are missing; otherwise
    /// messages for them go to INBOX.
    pub create_mailboxes: bool,
    /// Time for which a message with the same Message-ID is not delivered again.
    pub duplicates: Option<Duration>,
    /// Time after which the process that delivers a message is ended.
    pub timeout: Duration,
    /// The spam filter.
    pub spam: Option<SpamSettings>,
    /// Rules; the first one that matches counts.
    pub rules: Vec<Rule>,
}

/// Settings of the spam filter.
#[derive(Clone, Debug)]
pub struct SpamSettings {
    /// The mailbox of spam.
    pub mailbox: String,
    /// The profile, `bogofilter` or `modern`.
    pub profile: Option<String>,
    /// The word list; that of the user if `None`.
    pub wordlist: Option<Template>,
}

/// A rule of delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The conditions, all of which must be met.
    pub conditions: Vec<RuleCondition>,
    /// The mailbox; INBOX if `None`.
    pub mailbox: Option<String>,
    /// Flags and keywords of the message.
    pub flags: Vec<String>,
}

/// A condition of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleCondition {
    /// A header field has a value.
    Header {
        /// The names of the fields, one of which is enough.
        names: Vec<String>,
        /// The test of the value.
        test: HeaderTest,
    },
    /// An address in a header field.
    Address {
        /// The names of the fields.
        names: Vec<String>,
        /// The addresses.
        patterns: Vec<AddressPattern>,
    },
    /// The identifier of a mailing list (RFC 2919).
    ListId(Vec<Pattern>),
}

/// A test of the value of a header field, as decoded text in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderTest {
    /// The field exists.
    Exists,
    /// It contains one of these texts, which are in lower case.
    Contains(Vec<String>),
    /// It matches one of these patterns.
    Matches(Vec<Pattern>),
}

/// A pattern of addresses, such as `ann@example.org` or `*@example.org`.
pub type AddressPattern = Pattern;

/// A text in which `*` stands for any bytes and `?` for one byte, compared without case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Box<[u8]>);

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// If it is empty or too long.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.len() {
            0 => Err("must not be empty".to_owned()),
            len if len > PATTERN_LEN_MAX => Err(format!("longer than {PATTERN_LEN_MAX} bytes")),
            _ => Ok(Self(text.to_lowercase().into_bytes().into())),
        }
    }

    /// Returns `true` if a text matches. Costs at most the product of both lengths.
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> bool {
        let (pattern, mut at, mut next) = (&self.0, 0, 0);
        // Where to go on if the text does not match: the last star, and the text after it.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match (pattern.get(at), text.get(next)) {
                (None, None) => return true,
                (Some(b'*'), _) => {
                    retry = Some((at + 1, next));
                    at += 1;
                    continue;
                }
                (Some(b'?'), Some(_)) => {
                    (at, next) = (at + 1, next + 1);
                    continue;
                }
                (Some(byte), Some(found)) if *byte == found.to_ascii_lowercase() => {
                    (at, next) = (at + 1, next + 1);
                    continue;
                }
                _ => {}
            }
            match retry {
                Some((star, from)) if from < text.len() => {
                    retry = Some((star, from + 1));
                    (at, next) = (star, from + 1);
                }
                _ => return false,
            }
        }
    }
}

impl DeliverySettings {
    pub(super) fn read(section: Option<&Section<'_>>) -> Self {
        let flag = |key| section.and_then(|section| section.flag(key));
        let separator = match section.is_some_and(|section| section.has("detail_separator")) {
            true => section.and_then(|section| section.parsed("detail_separator", separator)),
            false => Some(Some('+')),
        };
        let spam = section.and_then(|section| section.section("spam", "delivery.spam"));
        let rules = section.map(|section| section.sections("rule", "delivery.rule"));
        Self {
            detail_separator: separator.flatten(),
            detail_mailbox: flag("detail_mailbox").unwrap_or(false),
            create_mailboxes: flag("create_mailboxes").unwrap_or(true),
            duplicates: section.and_then(|section| section.parsed("duplicates", time)),
            timeout: section
                .and_then(|section| section.parsed("timeout", time))
                .unwrap_or(DELIVERY_TIMEOUT),
            spam: spam.as_ref().map(spam_settings),
            rules: rules.unwrap_or_default().iter().map(rule).collect(),
        }
    }
}

impl Default for DeliverySettings {
    fn default() -> Self {
        Self::read(None)
    }
}

fn separator(text: &str) -> Result<Option<char>, String> {
    match text.chars().collect::<Vec<_>>()[..] {
        [] => Ok(None),
        [char] if char.is_ascii_punctuation() && !"@./:".contains(char) => Ok(Some(char)),
        _ => Err(format!("{text:?} is not one character such as \"+\" or \"-\", and not empty")),
    }
}

fn spam_settings(section: &Section<'_>) -> SpamSettings {
    let profiles = [("bogofilter", "bogofilter"), ("modern", "modern")];
    SpamSettings {
        mailbox: section.text("mailbox").unwrap_or_else(|| "Junk".to_owned()),
        profile: section.choice("profile", &profiles).map(str::to_owned),
        wordlist: section.parsed("wordlist", template),
    }
}

/// The fields with addresses that a rule looks at unless it names others.
const ADDRESS_FIELDS: &[&str] = &["From", "Sender", "Reply-To", "To", "Cc", "Resent-To"];

fn rule(section: &Section<'_>) -> Rule {
    let names = section.list("header", field_name);
    let contains = section.list("contains", |text| match text.is_empty() {
        true => Err("must not be empty"),
        false => Ok(text.to_lowercase()),
    });
    let matches = section.list("matches", Pattern::parse);
    let addresses = section.list("address", Pattern::parse);
    let lists = section.list("list_id", Pattern::parse);
    if (section.has("contains") || section.has("matches")) && !section.has("header") {
        section.problem_here("`contains` and `matches` need a `header`");
    }
    let mut conditions = Vec::new();
    if !contains.is_empty() {
        let test = HeaderTest::Contains(contains);
        conditions.push(RuleCondition::Header { names: names.clone(), test });
    }
    if !matches.is_empty() {
        let test = HeaderTest::Matches(matches);
        conditions.push(RuleCondition::Header { names: names.clone(), test });
    }
    if !addresses.is_empty() {
        let default = || ADDRESS_FIELDS.iter().map(|name| (*name).to_owned()).collect();
        let names = if names.is_empty() { default() } else { names.clone() };
        conditions.push(RuleCondition::Address { names, patterns: addresses });
    }
    if !lists.is_empty() {
        conditions.push(RuleCondition::ListId(lists));
    }
    if conditions.is_empty() && !names.is_empty() {
        conditions.push(RuleCondition::Header { names, test: HeaderTest::Exists });
    }
    if conditions.is_empty() {
        section.problem_here("a rule needs `header`, `address` or `list_id`");
    }
    let mailbox = section.text("mailbox");
    let flags = section.list("flags", flag_name);
    if !section.has("mailbox") && !section.has("flags") {
        section.problem_here("a rule needs `mailbox` or `flags`");
    }
    Rule { conditions, mailbox, flags }
}

fn field_name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && b != b':');
    match is_name {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not the name of a header field")),
    }
}

fn flag_name(text: &str) -> Result<String, String> {
    let is_flag = text.strip_prefix('\\').is_some_and(|_| system_flag(text).is_some());
    match is_flag || Keyword::new(text).is_some() && !text.starts_with('\\') {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is neither a flag such as \"\\\\Seen\" nor a keyword")),
    }
}

/// Returns the system flag that a message can be delivered with.
pub(crate) fn system_flag(text: &str) -> Option<Flag> {
    let flags = [Flag::Seen, Flag::Answered, Flag::Flagged, Flag::Draft, Flag::Deleted];
    let names = ["\\Seen", "\\Answered", "\\Flagged", "\\Draft", "\\Deleted"];
    let at = names.iter().position(|name| name.eq_ignore_ascii_case(text))?;
    flags.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expected: bool) {
        let parsed = Pattern::parse(pattern).unwrap();
        assert_eq!(parsed.matches(text.as_bytes()), expected, "{pattern} {text}");
    }

    #[test]
    fn patterns_have_stars_and_question_marks() {
        check("*@Example.org", "Ann@example.ORG", true);
        check("*@example.org", "ann@example.org.evil", false);
        check("a*b*c", "aXbYbZc", true);
        check("a?c", "abc", true);
        check("a?c", "ac", false);
        check("*", "", true);
        check("a", "", false);
        check("**", "x", true);
        assert!(Pattern::parse("").is_err());
    }

    #[test]
    fn patterns_with_many_stars_end() {
        let pattern = "*a".repeat(100);
        check(&pattern, &"a".repeat(99), false);
        check(&format!("{pattern}b"), &"a".repeat(100_000), false);
    }
}

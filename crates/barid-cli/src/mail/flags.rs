//! Flags by their names on the command line: `+seen`, `-flagged`, `=seen`, `+$Forwarded`.

use std::str::FromStr;

use barid::{Flag, FlagChange, FlagSet, Keyword, KeywordTable};

/// A flag or a keyword.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FlagName {
    /// A system flag.
    System(Flag),
    /// A keyword.
    Keyword(Keyword),
}

/// The operation on a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// `+`
    Add,
    /// `-`
    Remove,
    /// `=`
    Set,
}

/// A sign and a flag; the flag may only be missing after `=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlagWord {
    sign: Sign,
    name: Option<FlagName>,
}

/// The system flags that can be changed, by their names.
const SETTABLE: [(&str, Flag); 5] = [
    ("seen", Flag::Seen),
    ("answered", Flag::Answered),
    ("flagged", Flag::Flagged),
    ("deleted", Flag::Deleted),
    ("draft", Flag::Draft),
];

/// A list of the flags for error messages.
const SYSTEM_FLAGS: &str = "the system flags are seen, answered, flagged, deleted and draft";

impl FromStr for FlagName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, is_system) = match text.strip_prefix('\\') {
            Some(name) => (name, true),
            None => (text, false),
        };
        let named = |(known, _): &&(&str, Flag)| known.eq_ignore_ascii_case(name);
        if let Some((_, flag)) = SETTABLE.iter().find(named) {
            return Ok(Self::System(*flag));
        }
        if name.eq_ignore_ascii_case("recent") {
            return Err(
                "\\Recent is not set or removed by name: `barid sync` drops it from every \
                        message"
                    .to_owned(),
            );
        }
        if is_system {
            return Err(format!("there is no flag {text:?}; {SYSTEM_FLAGS}"));
        }
        Keyword::new(text).map(Self::Keyword).ok_or_else(|| {
            format!(
                "a keyword has 1 to {} characters, none of them a space, a control character or \
                 one of ( ) {{ }} % * \" \\ ]; {SYSTEM_FLAGS}",
                Keyword::LEN_MAX
            )
        })
    }
}

impl FromStr for FlagWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut rest = text.chars();
        let sign = match rest.next() {
            Some('+') => Sign::Add,
            Some('-') => Sign::Remove,
            Some('=') => Sign::Set,
            _ => {
                let words = "; a query of several words goes in quotes";
                let hint = if text.contains(':') { words } else { "" };
                return Err(format!(
                    "write +{text} to add it, -{text} to remove it, or ={text} to remove all \
                     others{hint}"
                ));
            }
        };
        let name = rest.as_str();
        if name.is_empty() {
            let none = Self { sign, name: None };
            return if sign == Sign::Set { Ok(none) } else { Err(SYSTEM_FLAGS.to_owned()) };
        }
        if name.contains(',') && sign != Sign::Remove {
            let first = text.chars().next().unwrap_or('+');
            let words: Vec<String> = name
                .split(',')
                .map(|name| format!("{first}{}", name.trim_start_matches(['+', '='])))
                .collect();
            return Err(format!("write each separately, as in {}", words.join(" ")));
        }
        Ok(Self { sign, name: Some(name.parse()?) })
    }
}

/// The combined request of several words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlagRequest {
    add: FlagNames,
    remove: FlagNames,
    /// `true` if all other flags are removed.
    is_exact: bool,
}

/// Flags and keywords.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlagNames {
    pub(crate) flags: FlagSet,
    pub(crate) keywords: Vec<Keyword>,
}

impl FlagNames {
    pub(crate) fn insert(&mut self, name: &FlagName) {
        match name {
            FlagName::System(flag) => self.flags = self.flags.with(*flag),
            FlagName::Keyword(keyword) if self.keywords.contains(keyword) => {}
            FlagName::Keyword(keyword) => self.keywords.push(keyword.clone()),
        }
    }

    fn contains(&self, name: &FlagName) -> bool {
        match name {
            FlagName::System(flag) => self.flags.contains(*flag),
            FlagName::Keyword(keyword) => self.keywords.contains(keyword),
        }
    }
}

impl FlagRequest {
    /// Combines words.
    ///
    /// # Errors
    ///
    /// Returns an error if words contradict each other.
    pub(crate) fn new(words: &[FlagWord]) -> Result<Self, String> {
        let mut request = Self::default();
        for word in words {
            match word.sign {
                Sign::Remove => word.name.iter().for_each(|name| request.remove.insert(name)),
                Sign::Add | Sign::Set => {
                    request.is_exact |= word.sign == Sign::Set;
                    word.name.iter().for_each(|name| request.add.insert(name));
                }
            }
        }
        let is_mixed = words.iter().any(|word| word.sign != Sign::Set);
        if request.is_exact && is_mixed {
            return Err(
                "`=` names all flags that a message will have: it cannot be combined with `+` and \
                 `-`"
                .to_owned(),
            );
        }
        let twice = words.iter().filter_map(|word| word.name.as_ref());
        match twice
            .into_iter()
            .find(|name| request.add.contains(name) && request.remove.contains(name))
        {
            Some(FlagName::System(flag)) => {
                Err(format!("{} cannot be both added and removed", flag.name()))
            }
            Some(FlagName::Keyword(keyword)) => {
                Err(format!("{} cannot be both added and removed", keyword.as_str()))
            }
            None => Ok(request),
        }
    }

    /// Returns the change for each message of a mailbox with these keywords.
    pub(crate) fn change(&self, known: &KeywordTable) -> FlagChange {
        let mut remove = self.remove.clone();
        if self.is_exact {
            let others = SETTABLE.iter().map(|(_, flag)| *flag);
            remove.flags = others.filter(|flag| !self.add.flags.contains(*flag)).collect();
            let others = known.names().iter().filter(|name| !self.add.keywords.contains(name));
            remove.keywords = others.cloned().collect();
        }
        FlagChange {
            add: self.add.flags,
            remove: remove.flags,
            add_keywords: self.add.keywords.clone(),
            remove_keywords: remove.keywords,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the change of words in a mailbox with the keywords `old` and `work`: added flags and
    /// keywords, and removed ones.
    fn check(words: &[&str], expected: Result<(&str, &str), &str>) {
        let parsed: Result<Vec<FlagWord>, String> = words.iter().map(|word| word.parse()).collect();
        let known: KeywordTable = ["old", "work"].into_iter().filter_map(Keyword::new).collect();
        let found = parsed.and_then(|words| FlagRequest::new(&words)).map(|request| {
            let change = request.change(&known);
            let text = |flags: FlagSet, keywords: &[Keyword]| {
                let flags = flags.iter().map(|flag| flag.name().to_owned());
                let keywords = keywords.iter().map(|keyword| keyword.as_str().to_owned());
                flags.chain(keywords).collect::<Vec<_>>().join(" ")
            };
            (text(change.add, &change.add_keywords), text(change.remove, &change.remove_keywords))
        });
        match (found, expected) {
            (Ok((add, remove)), Ok(expected)) => {
                assert_eq!((add.as_str(), remove.as_str()), expected, "{words:?}");
            }
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
            (found, expected) => panic!("{words:?}: {found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn flags_are_named_in_any_case_with_or_without_a_backslash() {
        check(&["+seen"], Ok(("\\Seen", "")));
        check(&["+\\SEEN", "-Flagged"], Ok(("\\Seen", "\\Flagged")));
        check(&["+answered", "+deleted", "+draft"], Ok(("\\Answered \\Deleted \\Draft", "")));
    }

    #[test]
    fn anything_else_is_a_keyword() {
        check(&["+$Forwarded", "-todo"], Ok(("$Forwarded", "todo")));
        check(&["+Todo", "+todo"], Ok(("Todo", "")));
        check(&["+a b"], Err("a keyword has"));
        check(&["+\\Seem"], Err("the system flags are"));
    }

    #[test]
    fn an_equals_sign_leaves_no_other() {
        check(
            &["=seen", "=new"],
            Ok(("\\Seen new", "\\Answered \\Flagged \\Deleted \\Draft old work")),
        );
        check(
            &["=work", "=seen", "=flagged"],
            Ok(("\\Flagged \\Seen work", "\\Answered \\Deleted \\Draft old")),
        );
        check(&["="], Ok(("", "\\Answered \\Flagged \\Deleted \\Seen \\Draft old work")));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        check(&["seen"], Err("+seen"));
        check(&["+"], Err("the system flags are"));
        check(&["+recent"], Err("barid sync"));
        check(&["-\\Recent"], Err("barid sync"));
        check(&["+seen,deleted"], Err("as in +seen +deleted"));
        check(&["-a,b"], Ok(("", "a,b")));
        check(&["+seen", "-Seen"], Err("\\Seen cannot be both added and removed"));
        check(&["+a", "-A"], Err("cannot be both added and removed"));
        check(&["=seen", "+flagged"], Err("cannot be combined with"));
    }
}

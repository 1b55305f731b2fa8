//! The patterns of LIST (RFC 9051 §6.3.9): `*` matches anything, `%` anything but the separator.

use crate::names::INBOX;

/// A pattern, with the reference name before it.
#[derive(Clone, Debug)]
pub(crate) struct ListPattern {
    parts: Vec<PatternPart>,
    separator: char,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternPart {
    /// A character of a name.
    Char(char),
    /// `%`.
    Level,
    /// `*`.
    All,
}

impl ListPattern {
    /// Reads a pattern. Wildcards that follow each other are one. One separator at the end has no
    /// effect, as it has none in a name, unless a wildcard is before it.
    pub(crate) fn new(reference: &str, pattern: &str, separator: char) -> Self {
        let mut parts: Vec<PatternPart> = Vec::new();
        for c in reference.chars().chain(pattern.chars()) {
            let part = match c {
                '*' => PatternPart::All,
                '%' => PatternPart::Level,
                c => PatternPart::Char(c),
            };
            match (parts.last_mut(), part) {
                (Some(PatternPart::All), PatternPart::All | PatternPart::Level)
                | (Some(PatternPart::Level), PatternPart::Level) => {}
                (Some(last @ PatternPart::Level), PatternPart::All) => *last = part,
                _ => parts.push(part),
            }
        }
        let has_wildcard = parts.iter().any(|part| !matches!(part, PatternPart::Char(_)));
        if !has_wildcard && parts.len() > 1 && parts.last() == Some(&PatternPart::Char(separator)) {
            parts.pop();
        }
        Self { parts, separator }
    }

    /// Returns `true` if a name matches. The case of a first level `INBOX` does not matter.
    ///
    /// O(name × pattern): all positions that the pattern can be at are followed at once.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let rest = name.strip_prefix(INBOX);
        let has_inbox =
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(self.separator));
        let inbox_len = if has_inbox { INBOX.len() } else { 0 };
        let mut at = vec![false; self.parts.len() + 1];
        at[0] = true;
        self.skip_wildcards(&mut at);
        for (index, c) in name.char_indices() {
            let mut next = vec![false; at.len()];
            for (position, part) in self.parts.iter().enumerate() {
                if !at[position] {
                    continue;
                }
                match part {
                    PatternPart::All => next[position] = true,
                    PatternPart::Level => next[position] |= c != self.separator,
                    PatternPart::Char(wanted) => {
                        let same =
                            *wanted == c || index < inbox_len && wanted.eq_ignore_ascii_case(&c);
                        next[position + 1] |= same;
                    }
                }
            }
            self.skip_wildcards(&mut next);
            if !next.contains(&true) {
                return false;
            }
            at = next;
        }
        at[self.parts.len()]
    }

    /// Adds the positions behind wildcards, which may match nothing.
    fn skip_wildcards(&self, at: &mut [bool]) {
        for (position, part) in self.parts.iter().enumerate() {
            if at[position] && !matches!(part, PatternPart::Char(_)) {
                at[position + 1] = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, names: &[(&str, bool)]) {
        let pattern_read = ListPattern::new("", pattern, '/');
        for (name, expected) in names {
            assert_eq!(pattern_read.matches(name), *expected, "{pattern} {name}");
        }
    }

    #[test]
    fn wildcards_match() {
        check("*", &[("a", true), ("a/b", true), ("", true)]);
        check("%", &[("a", true), ("a/b", false)]);
        check("a/%", &[("a", false), ("a/b", true), ("a/b/c", false)]);
        check("%/%", &[("a", false), ("a/b", true), ("a/b/c", false)]);
        check("a*c", &[("ac", true), ("a/b/c", true), ("a/b/cd", false)]);
        check("a%c*", &[("abcd/e", true), ("a/c", false), ("axxc", true)]);
        check("*%", &[("a/b", true)]);
        check("%*b", &[("a/b", true), ("a/c", false)]);
        check("%t*4", &[("test3/test4", true), ("x/t4", false), ("t4", true)]);
        check("*a%b", &[("x/a/ab", true), ("a/b", false), ("aab", true)]);
        check("ä%", &[("äöü", true), ("a", false)]);
        check("", &[("", true), ("a", false)]);
    }

    #[test]
    fn inbox_has_no_case() {
        check("inbox", &[("INBOX", true), ("INBOXES", false), ("inbox", true)]);
        check("InB%", &[("INBOX", true), ("INBOX/a", false)]);
        check("inbox/a", &[("INBOX/a", true), ("INBOX/A", false)]);
        check("a", &[("A", false)]);
    }

    #[test]
    fn a_separator_at_the_end_is_tolerated() {
        check("a/", &[("a", true), ("a/b", false)]);
        check("%/", &[("a", false)]);
        check("/", &[("", false), ("/", true)]);
        let with_reference = ListPattern::new("a/", "b%", '/');
        assert!(with_reference.matches("a/bc") && !with_reference.matches("bc"));
    }

    /// A pattern of many wildcards takes no exponential time.
    #[test]
    fn hostile_patterns_end() {
        let pattern = "a*".repeat(400) + "b";
        assert!(!ListPattern::new("", &pattern, '/').matches(&"a".repeat(1000)));
    }
}

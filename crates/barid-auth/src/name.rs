//! User names.

use std::fmt;

use crate::limits::USER_NAME_LEN_MAX;

/// The bytes of a user name besides letters and digits, as in Dovecot's `auth_username_chars`.
const PUNCTUATION: &[u8] = b".-_@";

/// The name of a user: not empty, at most [`USER_NAME_LEN_MAX`] bytes, and safe as a component of a
/// path, as are the parts before and after its `@`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName(Box<str>);

impl UserName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part before the first `@`, or all of a name without one.
    #[must_use]
    pub fn local_part(&self) -> &str {
        self.0.split_once('@').map_or(&*self.0, |(local, _)| local)
    }

    /// Returns the part after the first `@`, or nothing.
    #[must_use]
    pub fn domain(&self) -> &str {
        self.0.split_once('@').map_or("", |(_, domain)| domain)
    }
}

impl fmt::Debug for UserName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, out)
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The names that are accepted, and the form in which they are compared.
///
/// The default is Dovecot's: ASCII letters, digits and `.-_@`, compared in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameRules {
    /// Letters of ASCII are made lower case, as with Dovecot's `auth_username_format = %Lu`.
    pub lower_case: bool,
    /// More characters that names may have, such as `+`. Control characters, `/`, `:` and white
    /// space are never accepted.
    pub extra: String,
}

impl Default for NameRules {
    fn default() -> Self {
        Self { lower_case: true, extra: String::new() }
    }
}

impl NameRules {
    /// Returns the name that a client or a file means, or `None` if it is not acceptable.
    #[must_use]
    pub fn name(&self, bytes: &[u8]) -> Option<UserName> {
        if bytes.is_empty() || bytes.len() > USER_NAME_LEN_MAX {
            return None;
        }
        let text = std::str::from_utf8(bytes).ok()?;
        if !text.chars().all(|char| self.accepts(char)) {
            return None;
        }
        let name = if self.lower_case { text.to_ascii_lowercase() } else { text.to_owned() };
        let is_safe = |part: &str| !part.is_empty() && part != "." && part != "..";
        let is_path_safe = is_safe(&name) && name.splitn(2, '@').all(is_safe);
        is_path_safe.then(|| UserName(name.into_boxed_str()))
    }

    fn accepts(&self, char: char) -> bool {
        let is_never = char.is_control() || char.is_whitespace() || matches!(char, '/' | ':');
        let is_plain = char.is_ascii_alphanumeric()
            || u8::try_from(char).is_ok_and(|byte| PUNCTUATION.contains(&byte));
        !is_never && (is_plain || self.extra.contains(char))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &NameRules, given: &str, expected: Option<&str>) {
        let name = rules.name(given.as_bytes());
        assert_eq!(name.as_ref().map(UserName::as_str), expected, "{given:?}");
    }

    #[test]
    fn names_are_safe_and_in_one_form() {
        let rules = NameRules::default();
        check(&rules, "Ann", Some("ann"));
        check(&rules, "a.b-c_d@Example.ORG", Some("a.b-c_d@example.org"));
        for bad in ["", ".", "..", "..@x", "x@..", "@x", "x@", "a/b", "a b", "a:b", "a\nb", "a+b"] {
            check(&rules, bad, None);
        }
        check(&rules, "caf\u{e9}", None);
        check(&rules, &"a".repeat(255), Some(&"a".repeat(255)));
        check(&rules, &"a".repeat(256), None);
        assert_eq!(rules.name(b"a\xff"), None);
        assert_eq!(rules.name(b"a\0b"), None);
    }

    #[test]
    fn more_characters_and_case_are_a_choice() {
        let rules = NameRules { lower_case: false, extra: "+\u{e9}/".to_owned() };
        check(&rules, "Ann+lists", Some("Ann+lists"));
        check(&rules, "caf\u{e9}", Some("caf\u{e9}"));
        check(&rules, "a/b", None);
    }

    #[test]
    fn parts_are_split_at_the_first_at_sign() {
        let name = NameRules::default().name(b"ann@example.org").unwrap();
        assert_eq!((name.local_part(), name.domain()), ("ann", "example.org"));
        let name = NameRules::default().name(b"ann").unwrap();
        assert_eq!((name.local_part(), name.domain()), ("ann", ""));
    }
}

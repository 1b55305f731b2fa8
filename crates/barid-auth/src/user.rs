//! Users who may log in, and values that depend on them.

use std::fmt;

use crate::limits::EXPANDED_LEN_MAX;
use crate::name::UserName;

/// A user and his account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: UserName,
    /// The user id of his files; `None` if the configuration must say.
    pub uid: Option<u32>,
    /// The group id of his files.
    pub gid: Option<u32>,
    /// The home folder.
    pub home: Option<String>,
    /// Further fields, such as `mail`, `quota_rule` or a setting, in the order of the file; names
    /// are without Dovecot's prefix `userdb_`.
    pub fields: Vec<(String, String)>,
}

impl User {
    /// Creates a user of whom only the name is known.
    #[must_use]
    pub fn named(name: UserName) -> Self {
        Self { name, uid: None, gid: None, home: None, fields: Vec::new() }
    }

    /// Returns the last field with a name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter().rev();
        fields.find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}

/// A text with variables of a user, such as `maildir:/var/mail/%d/%n`.
///
/// | variable | value |
/// | --- | --- |
/// | `%u`, `%{user}` | the name |
/// | `%n`, `%{user \| username}` | the part before `@` |
/// | `%d`, `%{user \| domain}` | the part after `@` |
/// | `%h`, `%{home}` | the home folder |
/// | `~/` at the start, after `:` or after `=` | the home folder |
/// | `%%` | `%` |
///
/// An `L` before the letter, as in `%Lu`, makes the value lower case.
#[derive(Clone, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Value { variable: Variable, lower_case: bool },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Variable {
    Name,
    LocalPart,
    Domain,
    Home,
}

/// A text with variables cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpandError {
    /// A variable that does not exist.
    #[error("unknown variable {0}; there are %u, %n, %d, %h and %%")]
    Variable(String),
    /// The text uses the home folder of a user who has none.
    #[error("the user has no home folder")]
    NoHome,
    /// The value is longer than a path may be.
    #[error("the value has more than {EXPANDED_LEN_MAX} bytes")]
    TooLong,
}

impl Template {
    /// Parses a text.
    ///
    /// # Errors
    /// Returns [`ExpandError::Variable`].
    pub fn parse(text: &str) -> Result<Self, ExpandError> {
        let (mut parts, mut literal) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some(char) = rest.chars().next() {
            let found = match char {
                '%' => variable(rest)?,
                '~' if starts_path(&literal, parts.is_empty()) && rest.starts_with("~/") => {
                    (Some((Variable::Home, false)), 1)
                }
                _ => (None, 0),
            };
            match found {
                (Some((variable, lower_case)), len) => {
                    if !literal.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut literal)));
                    }
                    parts.push(Part::Value { variable, lower_case });
                    rest = &rest[len..];
                }
                (None, len) => {
                    literal.push(char);
                    rest = &rest[len.max(char.len_utf8())..];
                }
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self(parts))
    }

    /// Returns the text before the first variable, which is the same for all users.
    #[must_use]
    pub fn fixed_part(&self) -> &str {
        match self.0.first() {
            Some(Part::Text(literal)) => literal,
            Some(Part::Value { .. }) | None => "",
        }
    }

    /// Returns `true` if the text has no variables.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// Returns the text for a user.
    ///
    /// # Errors
    /// Returns [`ExpandError::NoHome`] or [`ExpandError::TooLong`].
    pub fn expand(&self, name: &UserName, home: Option<&str>) -> Result<String, ExpandError> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Value { variable, lower_case } => {
                    let value = match variable {
                        Variable::Name => name.as_str(),
                        Variable::LocalPart => name.local_part(),
                        Variable::Domain => name.domain(),
                        Variable::Home => home.ok_or(ExpandError::NoHome)?,
                    };
                    match lower_case {
                        true => text.push_str(&value.to_ascii_lowercase()),
                        false => text.push_str(value),
                    }
                }
            }
            if text.len() > EXPANDED_LEN_MAX {
                return Err(ExpandError::TooLong);
            }
        }
        Ok(text)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Template(..)")
    }
}

/// Returns `true` if a path may start after the text so far.
fn starts_path(literal: &str, is_first: bool) -> bool {
    (literal.is_empty() && is_first) || literal.ends_with([':', '='])
}

/// Returns the variable at the start of a text that begins with `%`, and its length; no variable
/// and the length 2 for `%%`.
fn variable(text: &str) -> Result<(Option<(Variable, bool)>, usize), ExpandError> {
    if text.starts_with("%%") {
        return Ok((None, 2));
    }
    let unknown = |len: usize| {
        let shown: String = text.chars().take(len).collect();
        ExpandError::Variable(shown.escape_debug().to_string())
    };
    if let Some(inner) = text.strip_prefix("%{") {
        let (inner, _) = inner.split_once('}').ok_or_else(|| unknown(8))?;
        let len = inner.len() + 3;
        let words: String = inner.chars().filter(|char| *char != ' ').collect();
        let variable = match words.as_str() {
            "user" => Variable::Name,
            "user|username" | "username" => Variable::LocalPart,
            "user|domain" | "domain" => Variable::Domain,
            "home" => Variable::Home,
            _ => return Err(unknown(len.min(40))),
        };
        return Ok((Some((variable, false)), len));
    }
    let lower_case = text.starts_with("%L");
    let at = if lower_case { 2 } else { 1 };
    let variable = match text.as_bytes().get(at) {
        Some(b'u') => Variable::Name,
        Some(b'n') => Variable::LocalPart,
        Some(b'd') => Variable::Domain,
        Some(b'h') => Variable::Home,
        _ => return Err(unknown(at + 1)),
    };
    Ok((Some((variable, lower_case)), at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::NameRules;

    fn check(text: &str, home: Option<&str>, expected: Result<&str, ExpandError>) {
        let rules = NameRules { lower_case: false, extra: String::new() };
        let name = rules.name(b"Ann@example.org").unwrap();
        let found = Template::parse(text).and_then(|template| template.expand(&name, home));
        assert_eq!(found.as_deref().map_err(Clone::clone), expected, "{text}");
    }

    #[test]
    fn variables_are_expanded() {
        let home = Some("/home/ann");
        check("maildir:/m/%d/%n", home, Ok("maildir:/m/example.org/Ann"));
        check("%u %Lu %Ln", home, Ok("Ann@example.org ann@example.org ann"));
        check(
            "%{user}/%{user | username}/%{user|domain}",
            home,
            Ok("Ann@example.org/Ann/example.org"),
        );
        check("100%%u", home, Ok("100%u"));
        check(
            "maildir:~/Maildir:INDEX=~/i",
            home,
            Ok("maildir:/home/ann/Maildir:INDEX=/home/ann/i"),
        );
        check("~/m~/x", home, Ok("/home/ann/m~/x"));
        check("%n~/x", home, Ok("Ann~/x"));
        check("%h/mail", home, Ok("/home/ann/mail"));
        check("%{home}/mail", None, Err(ExpandError::NoHome));
        check("", None, Ok(""));
    }

    #[test]
    fn the_part_before_the_first_variable_is_fixed() {
        let check = |text: &str, fixed: &str, is_fixed| {
            let template = Template::parse(text).unwrap();
            assert_eq!((template.fixed_part(), template.is_fixed()), (fixed, is_fixed), "{text}");
        };
        check("/srv/mail/%d/%n", "/srv/mail/", false);
        check("/srv/100%%/%n", "/srv/100%/", false);
        check("~/Maildir", "", false);
        check("/srv/all", "/srv/all", true);
        check("", "", true);
    }

    #[test]
    fn unknown_variables_are_errors() {
        check("a%x", None, Err(ExpandError::Variable("%x".to_owned())));
        check("a%", None, Err(ExpandError::Variable("%".to_owned())));
        check("%{x}", None, Err(ExpandError::Variable("%{x}".to_owned())));
        check("%{user", None, Err(ExpandError::Variable("%{user".to_owned())));
        check("%\u{e9}", None, Err(ExpandError::Variable("%\u{e9}".to_owned())));
    }

    #[test]
    fn the_last_field_counts() {
        let mut user = User::named(NameRules::default().name(b"ann").unwrap());
        let field = |value: &str| ("mail".to_owned(), value.to_owned());
        user.fields = vec![field("a"), field("b")];
        assert_eq!(user.field("mail"), Some("b"));
        assert_eq!(user.field("quota"), None);
    }
}

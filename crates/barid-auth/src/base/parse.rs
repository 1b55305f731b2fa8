//! Lines of a passwd-file: `user:{SCHEME}hash:uid:gid:gecos:home:shell:extra_fields`, as Dovecot's
//! `passwd-file` driver reads them.
//!
//! | extra field | effect |
//! | --- | --- |
//! | `userdb_NAME=VALUE` | the field NAME of the [`User`]; `uid`, `gid` and `home` set those |
//! | `allow_nets=NET,NET` | logs in from these networks only; `local` stands for no address |
//! | `nologin` | never logs in |
//! | `nopassword`, `noauthenticate`, `user`, `proxy...`, `host` | not supported: a problem |
//! | others | no effect |
//!
//! Extra fields are separated by spaces, and may have the variables of a [`Template`]. A line with
//! a problem makes no user, so that a mistake lets nobody in; the other lines count.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::fmt;
use std::net::IpAddr;

use super::{Refusal, Verdict};
use crate::error::{Error, Result};
use crate::limits::{EXTRA_FIELDS_MAX, PASSWD_LINE_LEN_MAX, PROBLEMS_MAX};
use crate::name::{NameRules, UserName};
use crate::net::Network;
use crate::scheme::{Password, Scheme, SchemeError};
use crate::user::{ExpandError, Template, User};

/// Extra fields that change who is logged in or where, and cannot be ignored.
const UNSUPPORTED: &[&str] = &[
    "nopassword",
    "noauthenticate",
    "user",
    "login_user",
    "proxy",
    "proxy_maybe",
    "proxy_always",
    "host",
    "destuser",
    "pass",
    "master",
];

/// A function that finds the number of a user or group in the system's accounts.
pub type NumberOf<'a> = &'a dyn Fn(&str) -> Option<u32>;

/// Settings of the reader of passwd-files.
pub struct ParseOptions<'a> {
    /// The rules of user names.
    pub rules: &'a NameRules,
    /// The scheme of passwords that name none; [`Scheme::Crypt`] as in Dovecot.
    pub default_scheme: Scheme,
    /// Finds the uid of a user named in the uid field, such as `vmail`.
    pub uid_of: NumberOf<'a>,
    /// Finds the gid of a group named in the gid field.
    pub gid_of: NumberOf<'a>,
}

impl fmt::Debug for ParseOptions<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ParseOptions").field("default_scheme", &self.default_scheme).finish()
    }
}

/// A line that makes no user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: user {user}: {kind}")]
pub struct Problem {
    /// The number of the line; the first is 1.
    pub line: usize,
    /// The user name, with unprintable characters escaped.
    pub user: String,
    /// The problem.
    pub kind: LineProblem,
}

/// A reason for which a line makes no user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineProblem {
    /// A name that clients cannot log in with.
    #[error("the name is empty, too long, or has characters that are not allowed")]
    Name,
    /// An earlier line has the same name.
    #[error("the user is on line {0} already")]
    Twice(usize),
    /// The password cannot be used.
    #[error(transparent)]
    Password(#[from] SchemeError),
    /// The uid or gid is 0, or neither a number nor known to the system.
    #[error("{0}: neither a number above 0 nor known to this system")]
    Number(&'static str),
    /// The home folder or an extra field is not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// A network in `allow_nets`.
    #[error("allow_nets: not an address or a network such as 10.0.0.0/8")]
    Network,
    /// A value with a variable that does not exist.
    #[error("{field}: {error}")]
    Variable {
        /// The field.
        field: String,
        /// The reason.
        error: ExpandError,
    },
    /// An extra field that cannot be ignored.
    #[error("the extra field {0} is not supported")]
    Unsupported(&'static str),
    /// Too many extra fields.
    #[error("more than {EXTRA_FIELDS_MAX} extra fields")]
    TooManyFields,
    /// The line is too long.
    #[error("longer than {PASSWD_LINE_LEN_MAX} bytes")]
    TooLong,
}

/// A user of a passwd-file.
#[derive(Debug)]
pub(super) struct Account {
    line: usize,
    pub(super) password: Password,
    uid: Option<u32>,
    gid: Option<u32>,
    home: Option<String>,
    fields: Vec<(String, Template)>,
    /// Networks from which the user may log in.
    nets: Option<Box<[Network]>>,
    /// With `nets`: may log in from this machine, without an address.
    is_local_allowed: bool,
    is_nologin: bool,
}

/// The users of a passwd-file, and its problems.
#[derive(Debug, Default)]
pub struct ParsedFile {
    pub(super) accounts: HashMap<UserName, Account>,
    problems: Vec<Problem>,
    more_problems: usize,
}

impl ParsedFile {
    /// Returns the number of users.
    #[must_use]
    pub fn len(&self) -> usize {
        self.accounts.len()
    }

    /// Returns `true` if there are no users.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Returns the first [`PROBLEMS_MAX`] problems, in the order of the lines.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns the number of problems beyond [`ParsedFile::problems`].
    #[must_use]
    pub fn more_problems(&self) -> usize {
        self.more_problems
    }

    /// Returns a user without asking for a password.
    ///
    /// # Errors
    /// Returns [`Error::Setting`] if a field cannot be expanded.
    pub fn user(&self, name: &UserName, peer: Option<IpAddr>) -> Result<Verdict> {
        match self.accounts.get(name) {
            Some(account) => account.admit(name, peer),
            None => Ok(Err(Refusal::UnknownUser)),
        }
    }

    /// Returns a user for delivering mail to him, which is possible even if he may not log in.
    ///
    /// # Errors
    /// Returns [`Error::Setting`] if a field cannot be expanded.
    pub fn recipient(&self, name: &UserName) -> Result<Option<User>> {
        self.accounts.get(name).map(|account| account.user(name)).transpose()
    }

    fn add(
        &mut self,
        line: usize,
        name: &[u8],
        account: std::result::Result<(UserName, Account), LineProblem>,
    ) {
        let kind = match account {
            Ok((name, account)) => match self.accounts.entry(name) {
                Slot::Vacant(slot) => {
                    slot.insert(account);
                    return;
                }
                // As in Dovecot, the first line counts.
                Slot::Occupied(slot) => LineProblem::Twice(slot.get().line),
            },
            Err(kind) => kind,
        };
        if self.problems.len() < PROBLEMS_MAX {
            let shown = name.get(..40).unwrap_or(name);
            let user = shown.escape_ascii().to_string();
            self.problems.push(Problem { line, user, kind });
        } else {
            self.more_problems += 1;
        }
    }
}

impl Account {
    /// Returns the user, whose password was verified or need not be, unless he may not log in from
    /// an address.
    pub(super) fn admit(&self, name: &UserName, peer: Option<IpAddr>) -> Result<Verdict> {
        if self.is_nologin {
            return Ok(Err(Refusal::Locked));
        }
        let is_allowed = match (&self.nets, peer) {
            (None, _) => true,
            (Some(_), None) => self.is_local_allowed,
            (Some(nets), Some(peer)) => nets.iter().any(|net| net.contains(peer)),
        };
        if !is_allowed {
            return Ok(Err(Refusal::Address));
        }
        self.user(name).map(Ok)
    }

    /// Returns the user, with all fields expanded.
    fn user(&self, name: &UserName) -> Result<User> {
        let mut user = User { uid: self.uid, gid: self.gid, ..User::named(name.clone()) };
        user.home.clone_from(&self.home);
        for (field, template) in &self.fields {
            let value = template.expand(name, user.home.as_deref()).map_err(|error| {
                let why = format!("line {}: {field}: {error}", self.line);
                Error::Setting { setting: "passwd-file", why }
            })?;
            if field == "home" {
                user.home = Some(value);
            } else {
                user.fields.push((field.clone(), value));
            }
        }
        Ok(user)
    }
}

/// Parses a passwd-file. Empty lines, and lines that begin with `#` or `:`, are skipped.
#[must_use]
pub fn parse(bytes: &[u8], options: &ParseOptions<'_>) -> ParsedFile {
    let mut parsed = ParsedFile::default();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || line.starts_with(b"#") || line.starts_with(b":") {
            continue;
        }
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let account = account(index + 1, line, options);
        parsed.add(index + 1, name, account);
    }
    parsed
}

fn account(
    line: usize,
    bytes: &[u8],
    options: &ParseOptions<'_>,
) -> std::result::Result<(UserName, Account), LineProblem> {
    if bytes.len() > PASSWD_LINE_LEN_MAX {
        return Err(LineProblem::TooLong);
    }
    let mut fields = bytes.splitn(8, |byte| *byte == b':');
    let mut next = || fields.next().unwrap_or_default();
    let (name, password, uid, gid) = (next(), next(), next(), next());
    let (_gecos, home, _shell, extra) = (next(), next(), next(), next());
    let name = options.rules.name(name).ok_or(LineProblem::Name)?;
    let home = std::str::from_utf8(home).map_err(|_| LineProblem::NotUtf8)?;
    let mut account = Account {
        line,
        password: Password::parse(password, options.default_scheme)?,
        uid: number("uid", uid, options.uid_of)?,
        gid: number("gid", gid, options.gid_of)?,
        home: (!home.is_empty()).then(|| home.to_owned()),
        fields: Vec::new(),
        nets: None,
        is_local_allowed: false,
        is_nologin: false,
    };
    let extra = std::str::from_utf8(extra).map_err(|_| LineProblem::NotUtf8)?;
    let extra = extra.split(' ').filter(|field| !field.is_empty());
    for (number, field) in extra.enumerate() {
        if number == EXTRA_FIELDS_MAX {
            return Err(LineProblem::TooManyFields);
        }
        account.set(field, options)?;
    }
    Ok((name, account))
}

impl Account {
    /// Applies an extra field.
    fn set(
        &mut self,
        field: &str,
        options: &ParseOptions<'_>,
    ) -> std::result::Result<(), LineProblem> {
        let (key, value) = field.split_once('=').unwrap_or((field, ""));
        if let Some(unsupported) = UNSUPPORTED.iter().find(|known| **known == key) {
            return Err(LineProblem::Unsupported(unsupported));
        }
        match (key, key.strip_prefix("userdb_")) {
            ("allow_nets", _) => self.allow(value)?,
            ("nologin", _) => self.is_nologin = true,
            (_, Some("uid")) => self.uid = number("userdb_uid", value.as_bytes(), options.uid_of)?,
            (_, Some("gid")) => self.gid = number("userdb_gid", value.as_bytes(), options.gid_of)?,
            (_, Some(name)) if !name.is_empty() => {
                let template = Template::parse(value).map_err(|error| {
                    let field = key.escape_debug().take(40).collect();
                    LineProblem::Variable { field, error }
                })?;
                self.fields.push((name.to_owned(), template));
            }
            _ => {}
        }
        Ok(())
    }

    fn allow(&mut self, value: &str) -> std::result::Result<(), LineProblem> {
        let mut nets = Vec::new();
        for net in value.split(',').filter(|net| !net.is_empty()) {
            match net {
                "local" => self.is_local_allowed = true,
                _ => nets.push(net.parse().map_err(|_| LineProblem::Network)?),
            }
        }
        self.nets = Some(nets.into_boxed_slice());
        Ok(())
    }
}

/// Returns the number in a field, or the number of the account that is named there.
fn number(
    field: &'static str,
    text: &[u8],
    number_of: NumberOf<'_>,
) -> std::result::Result<Option<u32>, LineProblem> {
    if text.is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(text).map_err(|_| LineProblem::Number(field))?;
    let number = text.parse::<u32>().ok().or_else(|| number_of(text));
    match number.filter(|number| *number != 0 && *number != u32::MAX) {
        Some(number) => Ok(Some(number)),
        None => Err(LineProblem::Number(field)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> ParsedFile {
        let rules = NameRules::default();
        let options = ParseOptions {
            rules: &rules,
            default_scheme: Scheme::Crypt,
            uid_of: &|name| (name == "vmail").then_some(5000),
            gid_of: &|name| (name == "mail").then_some(8),
        };
        parse(text.as_bytes(), &options)
    }

    fn user(file: &ParsedFile, name: &str, peer: Option<&str>) -> Verdict {
        let name = NameRules::default().name(name.as_bytes()).unwrap();
        file.user(&name, peer.map(|peer| peer.parse().unwrap())).unwrap()
    }

    #[test]
    fn lines_make_users() {
        let file = parsed(
            "# comment\n\nann:{PLAIN}secret:1000:1001:Ann, Bob:/home/ann:/bin/sh:userdb_mail=maildir:~/Maildir userdb_quota_rule=*:storage=1G x=y\r\n:nobody:\nbob:{PLAIN}x:vmail:mail::/m/%n::userdb_home=/v/%d/%n userdb_mail=mbox:~/m\nOnlyName\ncarl@Example.org:{PLAIN}x",
        );
        assert_eq!(file.problems(), []);
        assert_eq!(file.len(), 4);
        let ann = user(&file, "ann", None).unwrap();
        assert_eq!((ann.uid, ann.gid), (Some(1000), Some(1001)));
        assert_eq!(ann.home.as_deref(), Some("/home/ann"));
        assert_eq!(ann.field("mail"), Some("maildir:/home/ann/Maildir"));
        assert_eq!(ann.field("quota_rule"), Some("*:storage=1G"));
        assert_eq!(ann.fields.len(), 2);
        let bob = user(&file, "bob", None).unwrap();
        assert_eq!((bob.uid, bob.gid), (Some(5000), Some(8)));
        assert_eq!(bob.home.as_deref(), Some("/v//bob"));
        assert_eq!(bob.field("mail"), Some("mbox:/v//bob/m"));
        assert_eq!(user(&file, "carl@example.org", None).unwrap().home, None);
        assert!(user(&file, "onlyname", None).is_ok());
        assert_eq!(user(&file, "dora", None), Err(Refusal::UnknownUser));
    }

    #[test]
    fn users_may_be_bound_to_networks() {
        let file = parsed(
            "ann:{PLAIN}x::::::allow_nets=10.0.0.0/8,2001:db8::1\nbob:{PLAIN}x::::::allow_nets=local\ncarl:{PLAIN}x::::::nologin reason=moved\ndora:{PLAIN}x::::::allow_nets=",
        );
        assert_eq!(file.problems(), []);
        assert!(user(&file, "ann", Some("10.1.1.1")).is_ok());
        assert!(user(&file, "ann", Some("2001:db8::1")).is_ok());
        assert_eq!(user(&file, "ann", Some("11.1.1.1")), Err(Refusal::Address));
        assert_eq!(user(&file, "ann", None), Err(Refusal::Address));
        assert!(user(&file, "bob", None).is_ok());
        assert_eq!(user(&file, "bob", Some("10.1.1.1")), Err(Refusal::Address));
        assert_eq!(user(&file, "carl", None), Err(Refusal::Locked));
        assert_eq!(user(&file, "dora", Some("10.1.1.1")), Err(Refusal::Address));
    }

    fn check(line: &str, expected: &str) {
        let file = parsed(&format!("first:{{PLAIN}}x\n{line}\n"));
        let problems: Vec<String> = file.problems().iter().map(ToString::to_string).collect();
        assert_eq!(problems, [expected], "{line}");
        assert_eq!(file.len(), 1, "{line}");
    }

    #[test]
    fn problems_name_the_line_and_nothing_secret() {
        check(
            "ann:{FOO}hash",
            "line 2: user ann: unknown password scheme {FOO}; use {ARGON2ID}, {SHA512-CRYPT} or {SCRAM-SHA-256}",
        );
        check(
            "ann:secret",
            "line 2: user ann: no supported hash of crypt(3): $6$, $5$, $y$, $2a$, $2b$ and $2y$ are; name the scheme of others, such as {PLAIN}",
        );
        check("first:{PLAIN}y", "line 2: user first: the user is on line 1 already");
        check("FIRST:{PLAIN}y", "line 2: user FIRST: the user is on line 1 already");
        check(
            "a b\t:{PLAIN}y",
            "line 2: user a b\\t: the name is empty, too long, or has characters that are not allowed",
        );
        check(
            "ann:{PLAIN}x:0",
            "line 2: user ann: uid: neither a number above 0 nor known to this system",
        );
        check(
            "ann:{PLAIN}x:1:who",
            "line 2: user ann: gid: neither a number above 0 nor known to this system",
        );
        check(
            "ann:{PLAIN}x::::::nopassword",
            "line 2: user ann: the extra field nopassword is not supported",
        );
        check(
            "ann:{PLAIN}x::::::proxy=y host=h",
            "line 2: user ann: the extra field proxy is not supported",
        );
        check(
            "ann:{PLAIN}x::::::allow_nets=10.0.0.0/99",
            "line 2: user ann: allow_nets: not an address or a network such as 10.0.0.0/8",
        );
        check(
            "ann:{PLAIN}x::::::userdb_mail=%x",
            "line 2: user ann: userdb_mail: unknown variable %x; there are %u, %n, %d, %h and %%",
        );
        check(
            &format!("ann:{{PLAIN}}{}", "x".repeat(20_000)),
            "line 2: user ann: longer than 16384 bytes",
        );
        check(
            &format!("ann:{{PLAIN}}x::::::{}", "a ".repeat(65)),
            "line 2: user ann: more than 64 extra fields",
        );
    }

    #[test]
    fn problems_are_bounded() {
        let file = parsed(&"a b:{PLAIN}x\n".repeat(PROBLEMS_MAX + 7));
        assert_eq!((file.problems().len(), file.more_problems()), (PROBLEMS_MAX, 7));
    }

    #[test]
    fn a_value_without_its_home_is_an_error_of_the_file() {
        let file = parsed("ann:{PLAIN}x::::::userdb_mail=maildir:~/m");
        let name = NameRules::default().name(b"ann").unwrap();
        let error = file.user(&name, None).unwrap_err();
        assert_eq!(error.to_string(), "passwd-file: line 1: mail: the user has no home folder");
    }
}

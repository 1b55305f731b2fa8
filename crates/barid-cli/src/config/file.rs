//! The sections of the file and their meaning.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use barid_serve::config::{
    ANY_NAME, ConfigErrors, ConfigSection, PlainValue, Section, one, parse_config,
};

use super::names::{at_name, is_loop};
use super::{MailboxName, NameKind, OptionDefault, SettingSource, UserConfig};

/// The sections of the file, in the order of the reference in `docs/design/config.md`.
pub(super) const SECTIONS: &[ConfigSection] = &[
    one("", &["mailbox"]),
    one("mailboxes", &[ANY_NAME]),
    one("account.*", &["root", "inbox"]),
    one("special", &SPECIAL),
    one("queries", &[ANY_NAME]),
    one("spam", &["wordlist"]),
    one("options", &[ANY_NAME]),
    one("options.*", &[ANY_NAME]),
    one("options.*.*", &[ANY_NAME]),
];

/// The special folders (RFC 6154 has their counterparts in IMAP).
pub(super) const SPECIAL: [&str; 5] = ["archive", "sent", "trash", "drafts", "junk"];

/// The deepest section of options: that of a command of a command.
const COMMAND_DEPTH_MAX: usize = 2;

/// Parses the text of a file; `path` is for messages, `home` stands for `~`.
pub(super) fn parse(
    path: &Path,
    text: &str,
    home: Option<&OsStr>,
) -> Result<UserConfig, ConfigErrors> {
    let home = home.and_then(OsStr::to_str);
    parse_config((path, text), SECTIONS, |root| read(root, home))
}

fn read(root: &Section<'_>, home: Option<&str>) -> UserConfig {
    let mut config = UserConfig::default();
    read_names(root, home, &mut config.names);
    if let Some(mailbox) = root.parsed("mailbox", |text| mailbox_of(text, home)) {
        check_name(root, "mailbox", &mailbox, &config.names);
        let place = root.place_of("mailbox").unwrap_or(NO_PLACE);
        config.mailbox = Some((OsString::from(mailbox), SettingSource::File(place)));
    }
    if let Some(queries) = root.section("queries", "queries") {
        for key in queries.keys() {
            check_key(&queries, key);
            if let Some(text) = queries.text(key) {
                let place = queries.place_of(key).unwrap_or(NO_PLACE);
                config.queries.insert(key.to_owned(), (text, place));
            }
        }
    }
    for (key, error) in super::queries::problems(&config.queries) {
        if let Some(queries) = root.section("queries", "queries") {
            queries.problem(&key, error);
        }
    }
    if let Some(spam) = root.section("spam", "spam")
        && let Some(wordlist) = spam.parsed("wordlist", |text| absolute(text, home))
    {
        config.options.push(OptionDefault {
            command: vec!["spam".to_owned()],
            option: "wordlist".to_owned(),
            key: "spam.wordlist".to_owned(),
            value: PlainValue::Texts(vec![wordlist]),
            place: spam.place_of("wordlist").unwrap_or(NO_PLACE),
        });
    }
    if let Some(options) = root.section("options", "options") {
        read_options(&options, home, &mut config.options);
    }
    config
}

/// The place of a value whose key is not found, which does not happen.
const NO_PLACE: barid_serve::config::ConfigPlace =
    barid_serve::config::ConfigPlace { line: 1, column: 1 };

fn read_names(root: &Section<'_>, home: Option<&str>, names: &mut BTreeMap<String, MailboxName>) {
    let mut sections = Vec::new();
    for (key, kind) in [("mailboxes", NameKind::Mailbox), ("special", NameKind::Special)] {
        let Some(section) = root.section(key, key) else { continue };
        for name in section.keys() {
            let target = section.parsed(name, |text| mailbox_of(text, home));
            let place = section.place_of(name).unwrap_or(NO_PLACE);
            let Some(target) = target else { continue };
            let added = MailboxName { kind, target, root: None, place };
            add_name(&section, (name, added), names);
        }
        sections.push((section, kind));
    }
    if let Some(accounts) = root.section("account", "account") {
        for name in accounts.keys() {
            let Some(account) = accounts.section(name, format!("account.{name}")) else { continue };
            let folder = account.parsed("root", |text| mailbox_of(text, home));
            if !account.has("root") {
                account.problem_here("`root` is missing: the folder of the account's mailboxes");
            }
            let inbox = account.parsed("inbox", |text| mailbox_of(text, home));
            let place = accounts.place_of(name).unwrap_or(NO_PLACE);
            let Some(folder) = folder else { continue };
            let target = inbox.unwrap_or_else(|| folder.clone());
            let kind = NameKind::Account;
            let added = MailboxName { kind, target, root: Some(folder), place };
            add_name(&accounts, (name, added), names);
        }
    }
    for (section, kind) in sections {
        let own = names.iter().filter(|(_, found)| found.kind == kind);
        for (name, found) in own {
            check_name(&section, name, &found.target, names);
        }
    }
}

fn add_name(
    section: &Section<'_>,
    (name, added): (&str, MailboxName),
    names: &mut BTreeMap<String, MailboxName>,
) {
    check_key(section, name);
    if added.kind != NameKind::Special && SPECIAL.contains(&name) {
        section.problem_of_key(name, "the name of a special folder: define it in [special]");
    } else if names.contains_key(name) {
        section.problem_of_key(name, "a mailbox has this name already");
    } else {
        names.insert(name.to_owned(), added);
    }
}

/// Reports a name that cannot be written on a command line as it is meant to be.
fn check_key(section: &Section<'_>, name: &str) {
    let is_part = |char: char| char.is_alphanumeric() || "._-".contains(char);
    if !name.chars().all(is_part) || !name.starts_with(char::is_alphanumeric) {
        let why = "a name has letters, digits, `.`, `_` and `-`, and begins with a letter or digit";
        section.problem_of_key(name, why);
    }
}

/// Reports a name that is not defined, or that leads back to itself.
fn check_name(
    section: &Section<'_>,
    key: &str,
    target: &str,
    names: &BTreeMap<String, MailboxName>,
) {
    let Some(name) = at_name(target) else { return };
    if !names.contains_key(name) {
        let known: Vec<&str> = names.keys().map(String::as_str).collect();
        let hint = barid_serve::config::nearest(name, &known);
        section.problem(key, format!("`@{name}` is not the name of a mailbox{hint}"));
    } else if is_loop(name, names) {
        section.problem(key, format!("`@{name}` leads back to itself"));
    }
}

/// Checks the name of a mailbox: an absolute path, one below the home, or another name; a format
/// may be named before a path.
fn mailbox_of(text: &str, home: Option<&str>) -> Result<String, String> {
    if let Some(rest) = text.strip_prefix('@') {
        return match rest.is_empty() {
            true => Err("`@` is the default mailbox, which this may define: name one".to_owned()),
            false => Ok(text.to_owned()),
        };
    }
    let format = barid::MailboxSpec::parse(text).format;
    let (prefix, path) = match (format, text.split_once(':')) {
        (Some(_), Some((name, path))) => (format!("{name}:"), path),
        _ => (String::new(), text),
    };
    Ok(prefix + &absolute(path, home)?)
}

/// Returns an absolute path, with the home for `~`.
fn absolute(text: &str, home: Option<&str>) -> Result<String, String> {
    match (with_home(text, home), text.starts_with('/')) {
        (Some(path), _) => Ok(path),
        (None, true) => Ok(text.to_owned()),
        (None, false) if text.starts_with("~/") => Err("HOME is not set".to_owned()),
        (None, false) => {
            Err(format!("{text:?} is not an absolute path, and does not begin with `~/`"))
        }
    }
}

fn with_home(text: &str, home: Option<&str>) -> Option<String> {
    let rest = text.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
    Some(format!("{}{rest}", home?.trim_end_matches('/')))
}

fn read_options(section: &Section<'_>, home: Option<&str>, options: &mut Vec<OptionDefault>) {
    let mut open = vec![(section.clone(), Vec::<String>::new())];
    while let Some((section, command)) = open.pop() {
        for key in section.keys() {
            if section.is_table(key) {
                let mut inner = command.clone();
                inner.push(key.to_owned());
                if inner.len() > COMMAND_DEPTH_MAX {
                    section.problem_of_key(key, "no command has commands of this depth");
                } else if let Some(found) =
                    section.section(key, format!("options.{}", inner.join(".")))
                {
                    open.push((found, inner));
                }
                continue;
            }
            let Some(value) = section.plain(key) else { continue };
            let value = match value {
                PlainValue::Texts(texts) => PlainValue::Texts(
                    texts.into_iter().map(|it| with_home(&it, home).unwrap_or(it)).collect(),
                ),
                flag @ PlainValue::Flag(_) => flag,
            };
            let place = section.place_of(key).unwrap_or(NO_PLACE);
            // The keys of TOML usually have `_`, and those of a command line `-`.
            let option = key.replace('_', "-");
            let parts = ["options"].into_iter().chain(command.iter().map(String::as_str));
            let key = parts.chain([key]).collect::<Vec<_>>().join(".");
            options.push(OptionDefault { command: command.clone(), option, value, key, place });
        }
    }
    options.sort_by_key(|default| default.place);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let parsed = parse(Path::new("c.toml"), text, Some(OsStr::new("/home/ann")));
        let found = parsed.err().map(|errors| errors.to_string()).unwrap_or_default();
        assert_eq!(found.lines().collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn a_whole_file_is_read() {
        let text = "mailbox = \"@work\"\n[mailboxes]\nlists = \"mbox:~/mail/lists\"\n\
            [account.work]\nroot = \"/srv/mail\"\ninbox = \"/var/mail/ann\"\n\
            [special]\narchive = \"@work/Archive\"\n[queries]\ntodo = \"is:flagged\"\n\
            [spam]\nwordlist = \"~/words\"\n[options]\nstore = \"lmdb\"\n[options.ls]\n\
            sort = [\"date\", \"from\"]\nlimit = 1_000\n[options.spam.classify]\nexplain = true\n";
        let config = parse(Path::new("c.toml"), text, Some(OsStr::new("/home/ann"))).unwrap();
        let targets: Vec<_> =
            config.names.iter().map(|(name, it)| format!("{name} {}", it.target)).collect();
        let expected =
            ["archive @work/Archive", "lists mbox:/home/ann/mail/lists", "work /var/mail/ann"];
        assert_eq!(targets, expected);
        assert_eq!(config.names["work"].root.as_deref(), Some("/srv/mail"));
        let options: Vec<_> = config
            .options
            .iter()
            .map(|it| format!("{} {} {:?}", it.place.line, it.key, it.value))
            .collect();
        let expected = [
            "12 spam.wordlist Texts([\"/home/ann/words\"])",
            "14 options.store Texts([\"lmdb\"])",
            "16 options.ls.sort Texts([\"date\", \"from\"])",
            "17 options.ls.limit Texts([\"1000\"])",
            "19 options.spam.classify.explain Flag(true)",
        ];
        assert_eq!(options, expected);
    }

    #[test]
    fn every_problem_has_its_place_and_the_way_out() {
        check(
            "mailboxs = 1\n",
            &["c.toml:1:1: unknown section `mailboxs`; did you mean `mailboxes`?"],
        );
        check(
            "mailbox = \"mail/x\"\n[mailboxes]\nli/sts = \"/a\"\n",
            &["c.toml:3:3: invalid unquoted key, expected letters, numbers, `-`, `_`"],
        );
        check(
            "mailbox = \"mail/x\"\n[mailboxes]\n\"li/sts\" = \"/a\"\narchive = \"/b\"\n",
            &[
                "c.toml:1:11: mailbox: \"mail/x\" is not an absolute path, and does not begin \
                 with `~/`",
                "c.toml:3:1: mailboxes.li/sts: a name has letters, digits, `.`, `_` and `-`, and \
                 begins with a letter or digit",
                "c.toml:4:1: mailboxes.archive: the name of a special folder: define it in \
                 [special]",
            ],
        );
        check(
            "mailbox = \"@lits\"\n[mailboxes]\nlists = \"~/l\"\n",
            &["c.toml:1:11: mailbox: `@lits` is not the name of a mailbox; did you mean \
                 `lists`?"],
        );
        check(
            "[mailboxes]\na = \"@b\"\nb = \"@a/x\"\n",
            &[
                "c.toml:2:5: mailboxes.a: `@b` leads back to itself",
                "c.toml:3:5: mailboxes.b: `@a` leads back to itself",
            ],
        );
        check(
            "[account.work]\nrot = \"/a\"\n[special]\nsend = \"/x\"\n",
            &[
                "c.toml:1:1: [account.work]: `root` is missing: the folder of the account's \
                 mailboxes",
                "c.toml:2:1: unknown key in [account.work]: `rot`; did you mean `root`?",
                "c.toml:4:1: unknown key in [special]: `send`; did you mean `sent`?",
            ],
        );
        check(
            "[queries]\na = \"\"\nb = 7\nc = \"query:d\"\n[spam]\nwordlist = \"words\"\n\
             [options]\nx = 1979-05-27\n",
            &[
                "c.toml:2:5: queries.a: must not be empty",
                "c.toml:3:5: queries.b: expected a text in quotes, found a number",
                "c.toml:4:5: queries.c: `query:d` is not a saved query",
                "c.toml:6:12: spam.wordlist: \"words\" is not an absolute path, and does not \
                 begin with `~/`",
                "c.toml:8:5: options.x: expected a text, a number, true or false, or an array of \
                 texts, found a date",
            ],
        );
    }
}

//! Names of mailboxes, and the names of files that they have on the disk.
//!
//! A name of IMAP is UTF-8, with a prefix, and with separators between its levels. Below the root
//! each level is in modified UTF-7 (RFC 3501 §5.1.3), as Dovecot has it; a file whose name is not
//! valid modified UTF-7, such as one that mutt made in UTF-8, has the name that it shows. A file
//! name has at most one name, and leads to it: what decodes to control characters, to a separator,
//! or to another file's name has none and is not listed.
//!
//! The first level `INBOX` is written in any case, and is `INBOX` here.

use barid::message::{decode_utf7, encode_utf7};
use barid::{FormatName, MessageLayout, Subfolders};

use crate::error::{Error, Result};
use crate::limits::{
    FILE_NAME_LEN_MAX, LEVELS_MAX, MAILBOX_FILE_NAME_LEN_MAX, NAME_LEN_MAX, PATH_LEN_MAX,
};
use crate::options::Layout;

/// The name of the mailbox that every account has.
pub(crate) const INBOX: &str = "INBOX";

/// Levels of a name below the root, at least one.
pub(crate) type Levels = Vec<String>;

/// The place that a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NamedPlace {
    /// INBOX itself.
    Inbox,
    /// A place below the root.
    Below(Levels),
}

/// The rules by which names are read and written.
#[derive(Clone, Debug)]
pub(crate) struct NameRules {
    pub(crate) layout: Layout,
    pub(crate) separator: char,
    pub(crate) prefix: String,
}

impl NameRules {
    /// Returns the place of a name. One separator at its end is ignored.
    ///
    /// # Errors
    /// [`Error::Cannot`] for a name that no mailbox can have.
    pub(crate) fn parse(&self, name: &str) -> Result<NamedPlace> {
        let cannot = |why| Err(Error::Cannot { name: name.to_owned(), why });
        if name.len() > NAME_LEN_MAX {
            return cannot("the name is too long");
        }
        if name.chars().any(char::is_control) {
            return cannot("a name cannot have control characters");
        }
        let whole = name.strip_suffix(self.separator).unwrap_or(name);
        if whole.eq_ignore_ascii_case(INBOX) {
            return Ok(NamedPlace::Inbox);
        }
        let Some(rest) = self.without_prefix(whole) else {
            return cannot("the name is outside of the namespace");
        };
        let mut levels: Levels = rest.split(self.separator).map(str::to_owned).collect();
        if self.prefix.is_empty() && levels[0].eq_ignore_ascii_case(INBOX) {
            INBOX.clone_into(&mut levels[0]);
        }
        if levels.len() > LEVELS_MAX {
            return cannot("the name has too many levels");
        }
        match levels.iter().find_map(|level| self.refusal(level)) {
            Some(why) => cannot(why),
            None => Ok(NamedPlace::Below(levels)),
        }
    }

    /// Returns the name without the prefix, of which the case of `INBOX` does not matter.
    fn without_prefix<'a>(&self, name: &'a str) -> Option<&'a str> {
        let prefix = self.prefix.as_str();
        let (start, rest) = name.split_at_checked(prefix.len())?;
        let inbox = INBOX.len().min(prefix.len());
        let has_inbox = prefix.get(..inbox).is_some_and(|p| p.eq_ignore_ascii_case(INBOX));
        let same = match has_inbox {
            true => {
                let begin = start.get(..inbox).is_some_and(|s| s.eq_ignore_ascii_case(INBOX));
                begin && start.get(inbox..) == prefix.get(inbox..)
            }
            false => start == prefix,
        };
        same.then_some(rest)
    }

    /// Returns the reason for which a level cannot be that of a mailbox.
    pub(crate) fn refusal(&self, level: &str) -> Option<&'static str> {
        if level.is_empty() {
            return Some("a level of the name is empty");
        }
        if level.contains(['/', '\0']) {
            return Some("a name cannot have '/' here");
        }
        if level.contains(self.separator) {
            return Some("a level cannot contain the separator");
        }
        if self.layout == Layout::MaildirPlusPlus {
            return level.contains('.').then_some("a name cannot have '.' here");
        }
        if level.starts_with('.') {
            return Some("a level cannot begin with '.'");
        }
        self.is_reserved(level).then_some("a level has a name that mailboxes use for themselves")
    }

    /// Returns `true` if files or folders of that name belong to a mailbox or to a program.
    fn is_reserved(&self, level: &str) -> bool {
        let format = match self.layout {
            Layout::Files(format) => Some(format),
            Layout::NestedMaildirs | Layout::MaildirPlusPlus => dotted_format(),
        };
        let of_format = format.is_some_and(|format| {
            let mut own = format.message_folders.iter().chain(format.work_folders);
            own.any(|folder| *folder == level) || (format.is_message_name)(level)
        });
        of_format
            || RESERVED.contains(&level)
            || RESERVED_PREFIXES.iter().any(|prefix| level.starts_with(prefix))
            || level.ends_with(".lock")
            || level.contains(".lock.")
    }

    /// Checks a name that is to be created, beyond [`NameRules::parse`]. `root_len` is the length
    /// of the path of the root, and `is_mailbox` is `false` for a folder that only contains
    /// mailboxes.
    ///
    /// # Errors
    /// [`Error::Cannot`].
    pub(crate) fn check_new(
        &self,
        name: &str,
        levels: &[String],
        root_len: usize,
        is_mailbox: bool,
    ) -> Result<()> {
        let cannot = |why| Err(Error::Cannot { name: name.to_owned(), why });
        if levels[0].starts_with('~') {
            return cannot("the name begins with '~'");
        }
        let files = self.file_names(levels);
        let total: usize = files.iter().map(|file| file.len() + 1).sum();
        let is_too_long = files.iter().enumerate().any(|(at, file)| {
            let is_last = at + 1 == files.len();
            let most = match self.layout {
                Layout::Files(format)
                    if is_last && is_mailbox && format.layout == MessageLayout::OneFile =>
                {
                    MAILBOX_FILE_NAME_LEN_MAX
                }
                _ => FILE_NAME_LEN_MAX,
            };
            file.len() > most
        });
        match is_too_long || root_len + total > PATH_LEN_MAX {
            true => cannot("the name is too long"),
            false => Ok(()),
        }
    }

    /// Returns the names of the folders, or the one folder, in which a place is to be made: in
    /// modified UTF-7.
    pub(crate) fn file_names(&self, levels: &[String]) -> Vec<String> {
        let encoded = levels.iter().map(|level| encode_utf7(level));
        self.joined(encoded)
    }

    /// Returns the same as [`NameRules::file_names`], not encoded.
    pub(crate) fn raw_file_names(&self, levels: &[String]) -> Vec<String> {
        self.joined(levels.iter().cloned())
    }

    fn joined(&self, levels: impl Iterator<Item = String>) -> Vec<String> {
        match self.layout {
            Layout::MaildirPlusPlus => {
                vec![levels.fold(String::new(), |name, level| name + "." + &level)]
            }
            Layout::NestedMaildirs | Layout::Files(_) => levels.collect(),
        }
    }

    /// Returns the levels that the name of one file below the root stands for, and `true` if it is
    /// in modified UTF-7. `None` if no name leads to it.
    pub(crate) fn levels_of_file(&self, file: &[u8]) -> Option<(Levels, bool)> {
        let parts: Vec<&[u8]> = match self.layout {
            Layout::MaildirPlusPlus => file.strip_prefix(b".")?.split(|b| *b == b'.').collect(),
            Layout::NestedMaildirs | Layout::Files(_) => vec![file],
        };
        let mut levels = Levels::new();
        let mut is_encoded = true;
        for part in &parts {
            let text = std::str::from_utf8(part).ok()?;
            let decoded = decoded_name(part);
            is_encoded &= encode_utf7(&decoded) == text;
            levels.push(decoded);
        }
        if !is_encoded {
            levels = parts.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect();
        }
        let is_name =
            |level: &String| self.refusal(level).is_none() && !level.chars().any(char::is_control);
        levels.iter().all(is_name).then_some((levels, is_encoded))
    }

    /// Returns the whole name of levels below the root.
    pub(crate) fn name_of(&self, levels: &[String]) -> String {
        let mut name = self.prefix.clone();
        for (at, level) in levels.iter().enumerate() {
            if at > 0 {
                name.push(self.separator);
            }
            name.push_str(level);
        }
        name
    }
}

/// Returns the format whose mailboxes have Maildir++ folders.
pub(crate) fn dotted_format() -> Option<barid::Format> {
    let mut formats = FormatName::all().map(FormatName::format);
    formats.find(|format| format.subfolders == Subfolders::Dotted)
}

/// Names of files that Dovecot, Courier and maildrop have beside mailboxes.
const RESERVED: [&str; 6] = [
    "subscriptions",
    "maildirfolder",
    "maildirsize",
    "dovecot-acl",
    "dovecot-acl-list",
    "dovecot-keywords",
];
/// Beginnings of such names.
const RESERVED_PREFIXES: [&str; 5] = [
    "dovecot-uidlist",
    "dovecot-uidvalidity",
    "dovecot.index",
    "dovecot.list.index",
    "dovecot.mailbox.log",
];

/// Decodes the name of a file in modified UTF-7; a name that is not valid stays as it is.
pub(crate) fn decoded_name(name: &[u8]) -> String {
    decode_utf7(name).unwrap_or_else(|| String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(layout: Layout, separator: char, prefix: &str) -> NameRules {
        NameRules { layout, separator, prefix: prefix.to_owned() }
    }

    fn format(name: &str) -> barid::Format {
        FormatName::named(name).unwrap().format()
    }

    /// Checks the file that a name has, and that the file leads back to the name.
    fn check(rules: &NameRules, name: &str, file: &str, back: &str) {
        let NamedPlace::Below(levels) = rules.parse(name).unwrap() else { panic!("{name}") };
        let files = rules.file_names(&levels);
        assert_eq!(files.join("/"), file, "{name}");
        let found: Vec<String> = files
            .iter()
            .flat_map(|file| {
                let (levels, is_encoded) = rules.levels_of_file(file.as_bytes()).unwrap();
                assert!(is_encoded);
                levels
            })
            .collect();
        assert_eq!(found, levels, "{name}");
        assert_eq!(rules.name_of(&levels), back, "{name}");
    }

    #[test]
    fn names_have_files_and_files_have_names() {
        let dotted = rules(Layout::MaildirPlusPlus, '.', "");
        check(&dotted, "a.b c", ".a.b c", "a.b c");
        check(&dotted, "Entwürfe.&", ".Entw&APw-rfe.&-", "Entwürfe.&");
        check(&dotted, "inBox.x.", ".INBOX.x", "INBOX.x");
        check(&dotted, "cur", ".cur", "cur");
        let courier = rules(Layout::MaildirPlusPlus, '.', "INBOX.");
        check(&courier, "Inbox.a.b", ".a.b", "INBOX.a.b");
        let slashes = rules(Layout::MaildirPlusPlus, '/', "mail/");
        check(&slashes, "mail/a/b", ".a.b", "mail/a/b");
        let nested = rules(Layout::NestedMaildirs, '/', "");
        check(&nested, "a.b/日本語", "a.b/&ZeVnLIqe-", "a.b/日本語");
        check(&nested, "inbox/x", "INBOX/x", "INBOX/x");
        for name in ["INBOX", "inbox", "inbox."] {
            assert_eq!(dotted.parse(name).unwrap(), NamedPlace::Inbox);
            assert_eq!(courier.parse(name).unwrap(), NamedPlace::Inbox);
        }
    }

    #[test]
    fn hostile_names_are_refused() {
        let dotted = rules(Layout::MaildirPlusPlus, '.', "");
        let slashed = rules(Layout::MaildirPlusPlus, '/', "");
        let nested = rules(Layout::NestedMaildirs, '/', "");
        let numbers = rules(Layout::Files(format("mh")), '/', "");
        let long = "x".repeat(1001);
        let deep = ["a"; 31].join("/");
        for (rules, names) in [
            (&dotted, &["", ".", "..", "a..b", ".a", "a/b", "../x", "a\0b", "a\r\nb", &long][..]),
            (&slashed, &["a.b", "a//b", "/a", "..", "../..", "a/../b"][..]),
            (
                &nested,
                &[
                    "/etc",
                    "a/../b",
                    "..",
                    ".",
                    "./a",
                    "a//b",
                    ".x",
                    "a/.x",
                    "cur",
                    "a/new/b",
                    "tmp",
                    "subscriptions",
                    "dovecot-uidlist",
                    "a/dovecot.index.log",
                    "x.lock",
                    &deep,
                    "a\u{85}b",
                    "a\u{7f}",
                ][..],
            ),
            (&numbers, &["12", "a/1"][..]),
            (&rules(Layout::NestedMaildirs, '.', "mail."), &["other.a", "mai", "x"][..]),
        ] {
            for name in names {
                let found = rules.parse(name);
                assert!(matches!(found, Err(Error::Cannot { .. })), "{name:?}: {found:?}");
            }
        }
        assert!(numbers.parse("cur").is_ok());
        let refused = |rules: &NameRules, name: &str| {
            let NamedPlace::Below(levels) = rules.parse(name).unwrap() else { panic!("{name}") };
            rules.check_new(name, &levels, 10, true).is_err()
        };
        assert!(refused(&dotted, "~a") && refused(&nested, "~/a") && !refused(&nested, "a/~"));
        let long = "z".repeat(255);
        assert!(refused(&dotted, &long) && !refused(&dotted, &long[1..]));
        assert!(!refused(&nested, &long) && refused(&nested, &format!("{long}z")));
        let files = rules(Layout::Files(format("mboxrd")), '/', "");
        assert!(refused(&files, &long) && !refused(&files, &format!("{long}/x")));
        assert!(refused(&dotted, &"日".repeat(100)));
    }

    #[test]
    fn a_file_has_at_most_one_name() {
        let dotted = rules(Layout::MaildirPlusPlus, '.', "");
        let nested = rules(Layout::NestedMaildirs, '/', "");
        let check = |rules: &NameRules, file: &[u8], expected: Option<(&str, bool)>| {
            let found = rules.levels_of_file(file);
            let found = found.map(|(levels, is_encoded)| (rules.name_of(&levels), is_encoded));
            assert_eq!(found, expected.map(|(name, is_encoded)| (name.to_owned(), is_encoded)));
        };
        check(&dotted, ".Entwürfe".as_bytes(), Some(("Entwürfe", false)));
        check(&nested, b"a&b", Some(("a&b", false)));
        // A slash and a letter in base64 would be other names of files that exist.
        check(&nested, b"a&AC8-b", Some(("a&AC8-b", false)));
        check(&nested, b"&AGE-", Some(("&AGE-", false)));
        for file in [&b".a\xffb"[..], b".", b"..", b".a..b", b".&AAE-", b"a", b".a\nb"] {
            check(&dotted, file, None);
        }
        for file in [&b".x"[..], b"cur", b"subscriptions", b"&AAA-", b"a\x01"] {
            check(&nested, file, None);
        }
    }
}

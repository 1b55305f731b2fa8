//! Names of mailboxes: `@`, `@NAME` and `@NAME/FOLDER` wherever a mailbox is named.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use barid::vfs::{OsVfs, Vfs as _};
use barid_serve::config::nearest;

use super::{MAILBOX_VARIABLE, MailboxName, UserConfig};
use crate::hint::WithHint;

/// Names that may lead to one another; checked when the file is read.
const STEPS_MAX: usize = 8;

/// Returns the name in `@NAME` or `@NAME/FOLDER`; `None` for other texts.
pub(super) fn at_name(text: &str) -> Option<&str> {
    text.strip_prefix('@')?.split('/').next()
}

/// Returns `true` if a name leads to another without end.
pub(super) fn is_loop(name: &str, names: &BTreeMap<String, MailboxName>) -> bool {
    let mut at = Some(name);
    for _ in 0..=STEPS_MAX {
        let Some(found) = at.and_then(|name| names.get(name)) else { return false };
        at = at_name(&found.target);
    }
    true
}

impl UserConfig {
    /// Returns the names of mailboxes, without the at sign.
    pub(crate) fn mailbox_names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Returns the mailbox that a text names: the text itself, unless it begins with an at sign.
    ///
    /// # Errors
    /// If the name is not defined, and no file of the current folder has it.
    pub(crate) fn mailbox_named(&self, text: &OsStr) -> anyhow::Result<OsString> {
        let mut text = text.to_owned();
        for _ in 0..=STEPS_MAX {
            let Some(rest) = text.as_bytes().strip_prefix(b"@") else { break };
            let len = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
            let (name, folder) = rest.split_at(len);
            let name = String::from_utf8_lossy(name);
            text = match (self.names.get(&*name), name.is_empty()) {
                (Some(found), _) => below(found, folder),
                (None, true) => self.default_mailbox(folder)?,
                (None, false) if OsVfs.symlink_metadata(text.as_ref()).is_ok() => break,
                (None, false) => return Err(self.unknown(&name)),
            };
        }
        Ok(text)
    }

    fn default_mailbox(&self, folder: &[u8]) -> anyhow::Result<OsString> {
        let Some((mailbox, _)) = &self.mailbox else {
            let hint = match &self.path {
                Some(path) => format!(
                    "write `mailbox = \"PATH\"` into {}, or set {MAILBOX_VARIABLE}",
                    path.display()
                ),
                None => format!("set {MAILBOX_VARIABLE}"),
            };
            return Err(WithHint::error("`@` is the default mailbox, and none is set", hint));
        };
        Ok(joined(mailbox.as_bytes(), folder))
    }

    fn unknown(&self, name: &str) -> anyhow::Error {
        let known: Vec<&str> = self.names.keys().map(String::as_str).collect();
        let hint = nearest(name, &known);
        let out = match (&self.path, known.is_empty()) {
            (Some(path), true) => format!(
                "names are defined in {}: `[mailboxes]`, then `{name} = \"PATH\"`; `./@{name}` is \
                 a file of that name",
                path.display()
            ),
            _ => format!("the names are @{}; `barid config` shows them", known.join(", @")),
        };
        WithHint::error(format!("@{name}: no mailbox has this name{hint}"), out)
    }
}

/// Returns the target of a name, or a mailbox below it.
fn below(name: &MailboxName, folder: &[u8]) -> OsString {
    let top = match (&name.root, folder) {
        (_, []) => &name.target,
        (Some(root), _) => root,
        (None, _) => &name.target,
    };
    joined(top.as_bytes(), folder)
}

fn joined(top: &[u8], folder: &[u8]) -> OsString {
    let top = if folder.is_empty() { top } else { top.strip_suffix(b"/").unwrap_or(top) };
    OsString::from_vec([top, folder].concat())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let file = "mailbox = \"@work\"\n[mailboxes]\nlists = \"mbox:/m/lists\"\n\
                    trees = \"/t/\"\n[account.work]\nroot = \"/srv\"\ninbox = \"/var/ann\"\n\
                    [special]\narchive = \"@work/Old\"\n";
        let config = super::super::file::parse(Path::new("c"), file, None).unwrap();
        let found = config.mailbox_named(OsStr::new(text)).map_err(|error| error.to_string());
        let found = found.as_ref().map(|name| name.to_str().unwrap()).map_err(String::as_str);
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn names_stand_for_mailboxes_and_what_is_below_them() {
        check("@lists", Ok("mbox:/m/lists"));
        check("@trees", Ok("/t/"));
        check("@trees/a/b", Ok("/t/a/b"));
        check("@work", Ok("/var/ann"));
        check("@work/Lists/rust", Ok("/srv/Lists/rust"));
        check("@archive", Ok("/srv/Old"));
        check("@archive/2024", Ok("/srv/Old/2024"));
        check("@", Ok("/var/ann"));
        check("@/x", Ok("/srv/x"));
        check("a@b", Ok("a@b"));
        check("./@lists", Ok("./@lists"));
        check("@list", Err("@list: no mailbox has this name; did you mean `lists`?"));
        check("@nothing-like-it", Err("@nothing-like-it: no mailbox has this name"));
    }

    #[test]
    fn without_a_default_mailbox_the_sign_is_explained() {
        let error = UserConfig::default().mailbox_named(OsStr::new("@")).unwrap_err();
        assert_eq!(error.to_string(), "`@` is the default mailbox, and none is set");
    }
}

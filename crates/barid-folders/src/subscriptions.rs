//! The file of subscriptions, which Dovecot reads and writes, too (`subscription-file.c`).
//!
//! A name on each line, without the prefix, in modified UTF-7. In version 2, which begins with
//! `V\t2` and an empty line, tabs are between the levels of a name; before, the separator of the
//! layout. Lines that are not understood are kept as they are. A new file has version 2.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use barid::message::encode_utf7;

use crate::names::decoded_name;
use barid_imap::command::MailboxName;
use barid_vfs::{DotLock, DotLockOptions, Ownership, Vfs, replace_as};

use crate::change::of_lock;
use crate::error::{Error, Result};
use crate::limits::{SUBSCRIPTIONS_LEN_MAX, SUBSCRIPTIONS_LOCK_STALE, SUBSCRIPTIONS_LOCK_TIMEOUT};
use crate::names::{INBOX, Levels, NamedPlace};
use crate::options::Layout;
use crate::tree::{FolderTree, Occupant, is_absent};

/// First lines of version 2.
const HEADER: &[u8] = b"V\t2\n\n";

impl FolderTree {
    /// Adds or removes a subscription. To remove one, no mailbox of the name need exist.
    ///
    /// **Commit point:** the rename of the new file into its place, under Dovecot's lock of it; the
    /// file and the root are synced before this returns. A crash leaves the old file or the new
    /// one.
    ///
    /// # Errors
    /// [`Error::NoSuchMailbox`] for a subscription to a mailbox that does not exist;
    /// [`Error::Cannot`]; [`Error::Locked`]; errors of the file system.
    pub fn subscribe(&self, name: &MailboxName, is_subscribed: bool) -> Result<()> {
        let place = self.rules.parse(&name.0)?;
        if is_subscribed && place != NamedPlace::Inbox {
            self.settle()?;
            if self.occupant(&place, &name.0)?.1 == Occupant::Nothing {
                return Err(Error::NoSuchMailbox { name: name.0.clone() });
            }
        }
        if self.options.mailboxes.read_only {
            let why = "the mailboxes are opened read-only";
            return Err(Error::Cannot { name: name.0.clone(), why });
        }
        self.make_root()?;
        let path = self.subscriptions_path();
        let options = DotLockOptions {
            timeout: SUBSCRIPTIONS_LOCK_TIMEOUT,
            stale_after: SUBSCRIPTIONS_LOCK_STALE,
            break_before_boot: true,
            ..DotLockOptions::default()
        };
        let lock = DotLock::acquire(&self.vfs, &path, options);
        let lock = lock.map_err(|error| of_lock(error, &path))?;
        let old = read(&*self.vfs, &path)?;
        let levels = match place {
            NamedPlace::Inbox => vec![INBOX.to_owned()],
            NamedPlace::Below(levels) => levels,
        };
        if let Some(new) = with(&old, &levels, is_subscribed, self.disk_separator()) {
            let root = self.vfs.metadata(&self.root).map_err(Error::at(&self.root))?;
            let mode = Ownership::in_folder(&root).mode();
            let ownership = Ownership::replacing(&*self.vfs, &path, mode);
            let ownership = ownership.map_err(Error::at(&path))?;
            replace_as(&*self.vfs, &path, &ownership, |file| file.write_all_at(&new, 0))
                .map_err(Error::at(&path))?;
        }
        drop(lock);
        Ok(())
    }

    /// Returns the places that are subscribed to. INBOX may be among those below the root.
    pub(crate) fn subscriptions(&self) -> Result<BTreeSet<NamedPlace>> {
        let text = read(&*self.vfs, &self.subscriptions_path())?;
        let (is_tabbed, lines) = lines(&text);
        let separator = self.disk_separator();
        let levels = lines.filter_map(|line| levels_of(line, is_tabbed, separator));
        let place = |levels: Levels| match &levels[..] {
            [level] if level.eq_ignore_ascii_case(INBOX) => Some(NamedPlace::Inbox),
            levels => {
                let refused = levels.iter().any(|level| {
                    self.rules.refusal(level).is_some() || level.chars().any(char::is_control)
                });
                (!refused).then(|| NamedPlace::Below(levels.to_vec()))
            }
        };
        Ok(levels.filter_map(place).collect())
    }

    /// Returns the path of the file, as Dovecot has it by default.
    fn subscriptions_path(&self) -> PathBuf {
        self.root.join(match self.rules.layout {
            Layout::MaildirPlusPlus | Layout::NestedMaildirs => "subscriptions",
            Layout::Files(_) => ".subscriptions",
        })
    }

    /// Returns the separator of names in a file before version 2.
    fn disk_separator(&self) -> u8 {
        match self.rules.layout {
            Layout::MaildirPlusPlus => b'.',
            Layout::NestedMaildirs | Layout::Files(_) => b'/',
        }
    }
}

fn read(vfs: &dyn Vfs, path: &Path) -> Result<Vec<u8>> {
    match vfs.read(path, SUBSCRIPTIONS_LEN_MAX) {
        Err(error) if is_absent(&error) => Ok(HEADER.to_vec()),
        result => result.map_err(Error::at(path)),
    }
}

/// Returns `true` for version 2, and the lines of a file that have names.
fn lines(text: &[u8]) -> (bool, impl Iterator<Item = &[u8]>) {
    let rest = text.strip_prefix(HEADER);
    let lines = rest.unwrap_or(text).split(|byte| *byte == b'\n');
    (rest.is_some(), lines.filter(|line| !line.is_empty()))
}

/// Returns the content with or without a name; `None` if that changes nothing.
fn with(text: &[u8], levels: &Levels, is_subscribed: bool, separator: u8) -> Option<Vec<u8>> {
    let (is_tabbed, lines) = lines(text);
    let is_it = |line: &&[u8]| match levels_of(line, is_tabbed, separator) {
        Some(found) if found.len() == 1 && levels.len() == 1 && levels[0] == INBOX => {
            found[0].eq_ignore_ascii_case(INBOX)
        }
        found => found.as_ref() == Some(levels),
    };
    let mut new = if is_tabbed { HEADER.to_vec() } else { Vec::new() };
    let mut had = false;
    for line in lines {
        let is_it = is_it(&line);
        had |= is_it;
        if is_subscribed || !is_it {
            new.extend_from_slice(line);
            new.push(b'\n');
        }
    }
    if had == is_subscribed {
        return None;
    }
    if is_subscribed {
        let level = |level: &String| {
            let encoded = encode_utf7(level).into_bytes();
            if is_tabbed { escaped(&encoded) } else { encoded }
        };
        let levels: Vec<Vec<u8>> = levels.iter().map(level).collect();
        new.extend(levels.join(&if is_tabbed { b'\t' } else { separator }));
        new.push(b'\n');
    }
    Some(new)
}

/// Returns the levels of a line; `None` if it is not UTF-8.
fn levels_of(line: &[u8], is_tabbed: bool, separator: u8) -> Option<Levels> {
    let separator = if is_tabbed { b'\t' } else { separator };
    let level = |part: &[u8]| {
        let part = if is_tabbed { unescaped(part) } else { part.to_vec() };
        let text = std::str::from_utf8(&part).ok()?;
        let decoded = decoded_name(&part);
        let is_encoded = encode_utf7(&decoded) == text;
        Some(if is_encoded { decoded } else { text.to_owned() })
    };
    line.split(|byte| *byte == separator).map(level).collect()
}

/// The bytes that Dovecot escapes in fields, and the letters that stand for them after a 1.
const ESCAPES: [(u8, u8); 5] = [(0, b'0'), (1, b'1'), (b'\t', b't'), (b'\r', b'r'), (b'\n', b'n')];

fn escaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match ESCAPES.iter().find(|(escaped, _)| escaped == byte) {
            Some((_, letter)) => out.extend_from_slice(&[1, *letter]),
            None => out.push(*byte),
        }
    }
    out
}

fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            1 => {
                let letter = bytes.next();
                let found = ESCAPES.iter().find(|(_, known)| Some(*known) == letter);
                out.extend(found.map(|(escaped, _)| *escaped).or(letter));
            }
            byte => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(name: &str) -> Levels {
        name.split('.').map(str::to_owned).collect()
    }

    #[track_caller]
    fn check(text: &str, name: &str, is_subscribed: bool, expected: Option<&str>) {
        let new = with(text.as_bytes(), &levels(name), is_subscribed, b'.');
        let new = new.map(|new| String::from_utf8(new).unwrap());
        assert_eq!(new.as_deref(), expected, "{text:?} {name} {is_subscribed}");
    }

    #[test]
    fn lines_are_added_and_removed() {
        let two = "V\t2\n\nfoo\tbar\n&AOQ-\nINBOX\n";
        check(two, "foo.bar", true, None);
        check(two, "ä", true, None);
        check(two, "ä", false, Some("V\t2\n\nfoo\tbar\nINBOX\n"));
        check(two, "foo", false, None);
        check(two, "foo.&", true, Some(&format!("{two}foo\t&-\n")));
        check("V\t2\n\n", "a", true, Some("V\t2\n\na\n"));
        check("a.b\nc", "c", false, Some("a.b\n"));
        check("a.b", "c.ü", true, Some("a.b\nc.&APw-\n"));
        check("", "c", true, Some("c\n"));
        check("inbox\n", "INBOX", true, None);
        check("inbox\nInbox\n", "INBOX", false, Some(""));
        check("ü\n\n&APw-\n\u{1}x\n", "ü", false, Some("\u{1}x\n"));
    }

    #[test]
    fn fields_are_escaped_as_by_dovecot() {
        let plain = b"a\x00b\x01c\td\re\nf";
        let escaped_text = b"a\x010b\x011c\x01td\x01re\x01nf";
        assert_eq!(escaped(plain), escaped_text);
        assert_eq!(unescaped(escaped_text), plain);
        assert_eq!(unescaped(b"\x01"), b"");
        assert_eq!(unescaped(b"\x01x"), b"x");
    }
}

//! The file in a folder of links that names the messages behind them (`docs/design/links.md`).

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use barid::vfs::{File, LockKind, LockMode, OpenOptions, OsVfs, Vfs, atomic_replace};
use barid::{Flag, FlagSet, MailboxSpec, Uid};

use super::state_file::write_state;
use crate::exit::WithHint;
use crate::limits::LINKS_FILE_LEN_MAX;

/// The first line of the file, with its version.
const HEADER: &str = "barid-links 2";
/// The same of the first version, which had no flags that links are about to get.
const HEADER_1: &str = "barid-links 1";

/// The flags that names of files have (Maildir), by their letters in order.
const LETTERS: [(char, Flag); 5] = [
    ('D', Flag::Draft),
    ('F', Flag::Flagged),
    ('R', Flag::Answered),
    ('S', Flag::Seen),
    ('T', Flag::Deleted),
];

/// The contents of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkedMailboxes {
    /// A random name of the folder. The state folder has a file of that name: a folder that
    /// somebody else has made changes no mailbox.
    pub(crate) id: String,
    pub(crate) mailboxes: Vec<LinkedMailbox>,
}

/// A mailbox and the links to its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkedMailbox {
    /// Its absolute name, as on the command line.
    pub(crate) name: OsString,
    pub(crate) uidvalidity: u32,
    pub(crate) links: Vec<MessageLink>,
}

/// A link, or a copy of a message that is not a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageLink {
    /// The name of its file without flags.
    pub(crate) base: String,
    pub(crate) uid: Uid,
    /// The flags that link and message last had in common.
    pub(crate) flags: FlagSet,
    /// The flags of the message that a rename is about to give the link. After a crash the link has
    /// these or still `flags`.
    pub(crate) next: Option<FlagSet>,
}

impl MessageLink {
    /// Returns the flags that were set or taken away at the link, which has the flags `now`.
    ///
    /// A flag that a rename was about to change is none of them: whichever the link has, the
    /// message has the last word.
    pub(crate) fn changed_at(&self, now: FlagSet) -> FlagSet {
        let moving = self.next.map_or(0, |next| next.bits() ^ self.flags.bits());
        FlagSet::from_bits((now.bits() ^ self.flags.bits()) & !moving)
    }
}

/// Returns the path of the file in a folder of links.
pub(crate) fn links_file(dir: &Path) -> PathBuf {
    dir.join(".barid-links")
}

/// Returns `true` if a folder was made of links.
pub(crate) fn is_links_dir(dir: &Path) -> bool {
    OsVfs.metadata(&links_file(dir)).is_ok()
}

/// Returns the letters of flags in the name of a file.
pub(crate) fn letters(flags: FlagSet) -> String {
    LETTERS.iter().filter(|(_, flag)| flags.contains(*flag)).map(|(letter, _)| letter).collect()
}

/// Returns the flags of letters; others are ignored.
pub(crate) fn flags_of(letters: &[u8]) -> FlagSet {
    let is_set = |letter: char| letters.contains(&(letter as u8));
    let set = LETTERS.iter().filter(|(letter, _)| is_set(*letter));
    set.fold(FlagSet::EMPTY, |flags, (_, flag)| flags.with(*flag))
}

/// Returns a new name of a folder, which the state folder then knows, durably.
pub(crate) fn new_id(vfs: &dyn Vfs, state_dir: &Path) -> anyhow::Result<String> {
    let mut random = [0; 16];
    vfs.random(&mut random).context("no random bytes for the name of the links")?;
    let id = format!("{:032x}", u128::from_le_bytes(random));
    let path = known_file(state_dir, &id);
    write_state(vfs, &path, b"").with_context(|| path.display().to_string())?;
    Ok(id)
}

/// Locks the name of a folder; `None` if no folder of this name was made with this state folder.
///
/// # Errors
/// If another program has the lock, and errors of the file system.
pub(crate) fn lock_known(
    vfs: &dyn Vfs,
    state_dir: &Path,
    id: &str,
) -> anyhow::Result<Option<Box<dyn File>>> {
    let path = known_file(state_dir, id);
    let at = || path.display().to_string();
    let file = match vfs.open(&path, OpenOptions::WRITE) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.with_context(at)?,
    };
    if !file.try_lock(LockKind::Fcntl, LockMode::Exclusive).with_context(at)? {
        return Err(WithHint::error(
            "another `barid sync` brings the flags of these links together",
            "run it again when that one has ended",
        ));
    }
    Ok(Some(file))
}

fn known_file(state_dir: &Path, id: &str) -> PathBuf {
    state_dir.join(format!("{id}.links"))
}

/// Replaces the file durably: the rename is the commit point.
pub(crate) fn write_links(
    vfs: &dyn Vfs,
    dir: &Path,
    links: &LinkedMailboxes,
) -> anyhow::Result<()> {
    let path = links_file(dir);
    let mut text = format!("{HEADER} {}\n", links.id);
    for mailbox in &links.mailboxes {
        let name = escaped(mailbox.name.as_bytes());
        text.push_str(&format!("mailbox {} {name}\n", mailbox.uidvalidity));
        for link in &mailbox.links {
            let next = link.next.map(|next| format!(":{}", letters(next))).unwrap_or_default();
            let (uid, flags) = (link.uid, letters(link.flags));
            text.push_str(&format!("link {uid} :{flags}{next} {}\n", link.base));
        }
    }
    let write = |file: &dyn File| file.write_all_at(text.as_bytes(), 0);
    let written = atomic_replace(vfs, &path, 0o600, true, write);
    written.map(drop).with_context(|| path.display().to_string())
}

/// Reads the file.
pub(crate) fn read_links(vfs: &dyn Vfs, dir: &Path) -> anyhow::Result<LinkedMailboxes> {
    let path = links_file(dir);
    let bytes = vfs.read(&path, LINKS_FILE_LEN_MAX).with_context(|| path.display().to_string())?;
    let parsed = std::str::from_utf8(&bytes).ok().and_then(parse);
    parsed.ok_or_else(|| {
        WithHint::error(
            format!("{}: damaged, or of another version of barid", path.display()),
            "make the folder anew with `barid search --output links --to DIR`",
        )
    })
}

fn parse(text: &str) -> Option<LinkedMailboxes> {
    let mut lines = text.lines();
    let header = lines.next()?;
    let id = header.strip_prefix(HEADER).or_else(|| header.strip_prefix(HEADER_1))?;
    let id = id.strip_prefix(' ')?.to_owned();
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(())?;
    let mut mailboxes: Vec<LinkedMailbox> = Vec::new();
    for line in lines {
        let mut words = line.split(' ');
        match words.next()? {
            "mailbox" => {
                let uidvalidity = words.next()?.parse().ok()?;
                let name = OsString::from_vec(unescaped(words.next()?)?);
                is_absolute(&name).then_some(())?;
                mailboxes.push(LinkedMailbox { name, uidvalidity, links: Vec::new() });
            }
            "link" => {
                let uid = words.next()?.parse().ok().and_then(Uid::new)?;
                let flags = words.next()?.strip_prefix(':')?;
                let (flags, next) = match flags.split_once(':') {
                    Some((flags, next)) => (flags, Some(flags_of(next.as_bytes()))),
                    None => (flags, None),
                };
                let flags = flags_of(flags.as_bytes());
                let base = words.next()?.to_owned();
                let is_name = !base.is_empty() && !base.starts_with('.') && !base.contains('/');
                is_name.then_some(())?;
                mailboxes.last_mut()?.links.push(MessageLink { base, uid, flags, next });
            }
            _ => return None,
        }
        words.next().is_none().then_some(())?;
    }
    Some(LinkedMailboxes { id, mailboxes })
}

/// Returns `true` for the name of a mailbox that is the same in every folder.
fn is_absolute(name: &OsStr) -> bool {
    match name.to_str() {
        Some(name) => MailboxSpec::parse(name).path.is_absolute(),
        None => Path::new(name).is_absolute(),
    }
}

/// Writes bytes as one printable word.
fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'!'..=b'~' if *byte != b'%' => out.push(char::from(*byte)),
            _ => write!(out, "%{byte:02X}").expect("because writing to a string does not fail"),
        }
    }
    out
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = tail;
    }
    Some(out)
}

/// Returns the name of a file without its flags, and their letters.
pub(crate) fn split_name(name: &OsStr) -> Option<(&str, &[u8])> {
    let name = name.to_str()?;
    match name.split_once(":2,") {
        Some((base, letters)) => Some((base, letters.as_bytes())),
        None => Some((name, b"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_word() {
        for name in [&b"maildir:/mail/a b%c"[..], b"/\xff\n", b"", b"/plain"] {
            let text = escaped(name);
            assert!(!text.contains([' ', '\n']) && text.is_ascii(), "{text}");
            assert_eq!(unescaped(&text).as_deref(), Some(name));
        }
        for broken in ["%", "%4", "%zz"] {
            assert_eq!(unescaped(broken), None, "{broken}");
        }
    }

    #[test]
    fn damaged_files_are_refused() {
        let good = "barid-links 2 0123456789abcdef0123456789abcdef\nmailbox 7 /a%20b\n\
            link 4 :FS 1.L1.barid\nlink 5 ::R 1.L2.barid\n";
        let parsed = parse(good).unwrap().mailboxes;
        assert_eq!((parsed.len(), parsed[0].uidvalidity, parsed[0].links.len()), (1, 7, 2));
        assert_eq!(parsed[0].name, "/a b");
        assert_eq!(letters(parsed[0].links[0].flags), "FS");
        let [first, second] = [&parsed[0].links[0], &parsed[0].links[1]];
        assert_eq!((first.next, second.flags), (None, FlagSet::EMPTY));
        assert_eq!(second.next.map(letters).as_deref(), Some("R"));
        // Files of the first version have no second flags.
        let first = good.replace("links 2", "links 1").replace("::R", ":");
        assert_eq!(parse(&first).unwrap().mailboxes[0].links.len(), 2);
        for (from, to) in [
            ("links 2", "links 3"),
            (" 0123", ""),
            ("abcdef\n", "/../..\n"),
            ("7 /a", "7 a"),
            ("mailbox 7 /a%20b\n", ""),
            ("link 4", "link 0"),
            (":FS", "FS"),
            ("1.L1", "../1"),
            ("mailbox 7", "box 7"),
            ("L2.barid", "L2.barid x"),
        ] {
            assert_eq!(parse(&good.replace(from, to)), None, "{from} {to}");
        }
    }

    #[test]
    fn a_flag_that_a_rename_was_about_to_change_is_no_change_of_the_link() {
        let link = |flags: &str, next: Option<&str>| MessageLink {
            base: "1.L1.barid".to_owned(),
            uid: Uid::new(1).unwrap(),
            flags: flags_of(flags.as_bytes()),
            next: next.map(|next| flags_of(next.as_bytes())),
        };
        for (flags, next, now, changed) in [
            ("FS", None, "FS", ""),
            ("FS", None, "RS", "FR"),
            ("S", Some("RS"), "S", ""),
            ("S", Some("RS"), "RS", ""),
            ("S", Some("RS"), "FRS", "F"),
            ("S", Some("R"), "F", "F"),
        ] {
            let found = letters(link(flags, next).changed_at(flags_of(now.as_bytes())));
            assert_eq!(found, changed, "{flags} {next:?} {now}");
        }
    }

    #[test]
    fn flags_are_letters() {
        let flags = flags_of(b"ASFx");
        assert_eq!(letters(flags), "FS");
        let name = OsStr::new("1.L1.barid:2,FS");
        assert_eq!(split_name(name), Some(("1.L1.barid", &b"FS"[..])));
        assert_eq!(split_name(OsStr::new("1.L1.barid")), Some(("1.L1.barid", &b""[..])));
    }
}

//! Commits and trees.

use barid_types::InternalDate;

use super::oid::Oid;

/// Type of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Commit,
    Tree,
    Blob,
    Tag,
}

impl ObjectKind {
    /// Returns the kind with this name, as in a loose object.
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"commit" => Self::Commit,
            b"tree" => Self::Tree,
            b"blob" => Self::Blob,
            b"tag" => Self::Tag,
            _ => return None,
        })
    }
}

/// A parsed commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Its tree.
    pub(crate) tree: Oid,
    /// Its first parent; the others of a merge are not followed.
    pub(crate) parent: Option<Oid>,
    /// The time of its committer, which public-inbox takes from the newest Received field.
    pub(crate) committed: InternalDate,
}

impl Commit {
    /// Parses the header of a commit; `None` if it is not one. A time that cannot be read is 1970.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mut lines = text.split(|byte| *byte == b'\n');
        let tree = Oid::parse(lines.next()?.strip_prefix(b"tree ")?)?;
        let (mut parent, mut committed) = (None, InternalDate::default());
        for line in lines.take_while(|line| !line.is_empty()) {
            if let Some(hex) = line.strip_prefix(b"parent ") {
                let oid = Oid::parse(hex)?;
                parent = parent.or(Some(oid));
            } else if let Some(line) = line.strip_prefix(b"committer ") {
                committed = time(line).unwrap_or_default();
                break;
            }
        }
        Some(Self { tree, parent, committed })
    }
}

/// Parses the end of `NAME <ADDRESS> SECONDS ZONE`.
fn time(line: &[u8]) -> Option<InternalDate> {
    let rest = &line[memchr::memrchr(b'>', line)? + 1..];
    let mut words = std::str::from_utf8(rest).ok()?.split_ascii_whitespace();
    let unix_seconds = words.next()?.parse().ok()?;
    let zone: i32 = words.next().and_then(|zone| zone.parse().ok()).unwrap_or(0);
    let (hours, minutes) = (zone / 100, zone % 100);
    let is_zone = hours.abs() < 24 && minutes.abs() < 60;
    let zone_minutes = if is_zone { (hours * 60 + minutes) as i16 } else { 0 };
    Some(InternalDate { unix_seconds, zone_minutes })
}

/// Blobs of a tree of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageOfTree {
    /// `m`: a message.
    pub(crate) added: Option<Oid>,
    /// `d`: a message that is deleted.
    pub(crate) deleted: Option<Oid>,
}

/// Returns the files `m` and `d` of a tree; `None` if it is not a tree. As for public-inbox, only
/// ordinary files count.
pub(crate) fn message_of_tree(tree: &[u8]) -> Option<MessageOfTree> {
    let mut found = MessageOfTree::default();
    for entry in entries(tree) {
        match entry? {
            (b"100644 m", oid) => found.added = Some(oid),
            (b"100644 d", oid) => found.deleted = Some(oid),
            _ => {}
        }
    }
    Some(found)
}

/// Returns `true` for the tree of an archive of version 1, whose messages are files `ab/cdef...`.
pub(crate) fn is_version_1(tree: &[u8]) -> bool {
    let is_folder = |entry: Option<(&[u8], Oid)>| {
        let name = entry.and_then(|(entry, _)| entry.strip_prefix(b"40000 "));
        name.is_some_and(|name| name.len() == 2 && name.iter().all(u8::is_ascii_hexdigit))
    };
    !tree.is_empty() && entries(tree).all(is_folder)
}

/// Returns mode with name, and object, of each entry of a tree; `None` at last if it is damaged.
fn entries(tree: &[u8]) -> impl Iterator<Item = Option<(&[u8], Oid)>> {
    let mut rest = tree;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut next = || {
            let nul = memchr::memchr(0, rest)?;
            let (entry, after) = rest.split_at(nul);
            let oid = Oid::of_bytes(&after[1..])?;
            rest = &after[1 + Oid::LEN..];
            Some((entry, oid))
        };
        let entry = next();
        if entry.is_none() {
            rest = &[];
        }
        Some(entry)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";

    fn check(committer: &str, seconds: i64, zone_minutes: i16) {
        let text = format!("tree {HEX}\nauthor A <a> 1 +0000\ncommitter {committer}\n\ntext\n");
        let commit = Commit::parse(text.as_bytes()).unwrap();
        assert_eq!(commit.committed, InternalDate { unix_seconds: seconds, zone_minutes });
        assert_eq!((commit.tree, commit.parent), (Oid::EMPTY_BLOB, None));
    }

    #[test]
    fn a_commit_has_tree_parent_and_time() {
        check("A B <a@b> 1700000000 +0130", 1_700_000_000, 90);
        check("A <x> 5 -0500", 5, -300);
        check("> <> -7 -0030", -7, -30);
        check("A <a> 5", 5, 0);
        check("A <a> 5 +9999", 5, 0);
        check("A <a> 99999999999999999999 +0000", 0, 0);
        check("nobody", 0, 0);
        let parents = format!("tree {HEX}\nparent {HEX}\nparent {}\n\n", "0".repeat(40));
        assert_eq!(Commit::parse(parents.as_bytes()).unwrap().parent, Some(Oid::EMPTY_BLOB));
        for none in ["", "tree x\n", "blob", &format!("tree {HEX}\nparent 1\n\n")] {
            assert_eq!(Commit::parse(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn a_tree_has_a_message() {
        let entry = |name: &str| [name.as_bytes(), b"\0", &Oid::EMPTY_BLOB.0].concat();
        let (some, none) = (Some(Oid::EMPTY_BLOB), MessageOfTree::default());
        let check = |tree: Vec<u8>, expected| assert_eq!(message_of_tree(&tree), expected);
        check(entry("100644 m"), Some(MessageOfTree { added: some, ..none }));
        check(entry("100644 d"), Some(MessageOfTree { deleted: some, ..none }));
        check([entry("100644 a"), entry("40000 m")].concat(), Some(none));
        check(Vec::new(), Some(none));
        check(b"100644 m".to_vec(), None);
        check(entry("100644 m")[..20].to_vec(), None);
    }

    #[test]
    fn archives_of_version_1_have_folders() {
        let entry = |name: &str| [name.as_bytes(), b"\0", &Oid::EMPTY_BLOB.0].concat();
        assert!(is_version_1(&[entry("40000 0a"), entry("40000 ff")].concat()));
        assert!(!is_version_1(&[entry("40000 0a"), entry("100644 m")].concat()));
        for not in ["40000 0g", "40000 abc", "100644 ab"] {
            assert!(!is_version_1(&entry(not)), "{not}");
        }
        assert!(!is_version_1(b"") && !is_version_1(b"40000 ab\0"));
    }
}

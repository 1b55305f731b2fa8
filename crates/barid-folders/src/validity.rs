//! Dovecot's record of the last UIDVALIDITY that it gave to a mailbox of an account.
//!
//! It is the name of an empty file in the root, `dovecot-uidvalidity.XXXXXXXX` in hex, and again
//! the content of `dovecot-uidvalidity` (`mailbox-uidvalidity.c`). In a tree of mboxes they are in
//! the folder `.imap`. Dovecot renames the file to give a new one, and does not sync it. Where
//! there is such a file it is raised here, too, so that the UIDVALIDITYs of a site that goes back
//! to Dovecot go on rising.

use std::path::{Path, PathBuf};

use barid_vfs::{OpenOptions, Vfs};

/// Name of the file.
const FILE: &str = "dovecot-uidvalidity";
/// Folder in the root of a tree of mboxes in which Dovecot has it.
const MBOX_FOLDER: &str = ".imap";

/// Returns the highest recorded UIDVALIDITY; 0 if there is none.
pub(crate) fn highest(vfs: &dyn Vfs, root: &Path) -> u32 {
    folders(root).iter().filter_map(|folder| recorded(vfs, folder)).max().unwrap_or(0)
}

/// Raises the record where there is one. Errors have no effect: Dovecot takes the current second
/// then, which is as good for all names that are not in use.
pub(crate) fn raise(vfs: &dyn Vfs, root: &Path, uidvalidity: u32) {
    for folder in folders(root) {
        let Some(old) = recorded(vfs, &folder).filter(|old| *old < uidvalidity) else { continue };
        let from = folder.join(format!("{FILE}.{old:08x}"));
        if vfs.rename(&from, &folder.join(format!("{FILE}.{uidvalidity:08x}"))).is_ok() {
            let content = vfs.open(&folder.join(FILE), OpenOptions::WRITE);
            let _ = content
                .and_then(|file| file.write_all_at(format!("{uidvalidity:08x}").as_bytes(), 0));
        }
    }
}

fn folders(root: &Path) -> [PathBuf; 2] {
    [root.to_owned(), root.join(MBOX_FOLDER)]
}

/// Returns the highest UIDVALIDITY in a name in a folder.
fn recorded(vfs: &dyn Vfs, folder: &Path) -> Option<u32> {
    let mut found = None;
    let dir = vfs.open_dir(folder).ok()?;
    let listed = dir.list(&mut |name, _| {
        let digits = std::str::from_utf8(name).ok().and_then(|name| {
            name.strip_prefix(FILE)?.strip_prefix('.').filter(|digits| digits.len() == 8)
        });
        let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        found = found.max(number);
    });
    listed.ok().and(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use barid_vfs::MemVfs;

    #[test]
    fn the_record_is_raised_as_dovecot_does() {
        let vfs = MemVfs::new();
        vfs.create_dir_all(Path::new("/m/.imap"), 0o700).unwrap();
        let root = Path::new("/m");
        assert_eq!(highest(&vfs, root), 0);
        raise(&vfs, root, 9);
        assert_eq!(highest(&vfs, root), 0);
        for (path, content) in [
            ("/m/dovecot-uidvalidity", "0000001a"),
            ("/m/dovecot-uidvalidity.0000001a", ""),
            ("/m/dovecot-uidvalidity.00000010", ""),
            ("/m/dovecot-uidvalidity.zz", ""),
            ("/m/.imap/dovecot-uidvalidity.00000020", ""),
        ] {
            let file = vfs.open(Path::new(path), OpenOptions::create_new(0o600)).unwrap();
            file.write_all_at(content.as_bytes(), 0).unwrap();
        }
        assert_eq!(highest(&vfs, root), 0x20);
        raise(&vfs, root, 0x1f);
        assert_eq!(vfs.read(&root.join(FILE), 9).unwrap(), b"0000001f");
        assert!(vfs.metadata(&root.join("dovecot-uidvalidity.0000001f")).is_ok());
        assert!(vfs.metadata(&root.join("dovecot-uidvalidity.0000001a")).is_err());
        assert_eq!(highest(&vfs, root), 0x20);
    }
}

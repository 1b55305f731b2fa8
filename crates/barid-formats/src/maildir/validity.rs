//! The UIDVALIDITY of a Maildir alone: reading it without its UIDs, and changing it.

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{Error, Result};
use barid_types::{Uid, UidValidity};
use barid_vfs::{OpenOptions, Vfs};

use super::layout::{UIDLIST, UIDLIST_LEN_MAX};
use super::uidlist::{self, UidListHeader, first_line, read_header};
use super::uids::take_lock;

/// Returns the UIDVALIDITY of `dovecot-uidlist`; `None` if there is no such file or its first line
/// cannot be read.
pub(super) fn stored(vfs: &dyn Vfs, maildir: &Path) -> Result<Option<UidValidity>> {
    let path = maildir.join(UIDLIST);
    let file = match vfs.open(&path, OpenOptions::READ) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::at(&path)(source)),
    };
    Ok(read_header(&*file, &path)?.map(|header| header.uidvalidity))
}

/// Changes the UIDVALIDITY; messages keep their UIDs. Returns `false` without a list of version 3,
/// or if its lock cannot be taken.
///
/// Commit point: the rename of the new `dovecot-uidlist`, which has all lines of the old one.
pub(super) fn renumber(
    vfs: &Arc<dyn Vfs>,
    maildir: &Path,
    uidvalidity: UidValidity,
) -> Result<bool> {
    let path = maildir.join(UIDLIST);
    let Some(_lock) = take_lock(vfs, &path)? else { return Ok(false) };
    let old = match vfs.read(&path, UIDLIST_LEN_MAX) {
        Ok(old) => old,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(Error::at(&path)(source)),
    };
    let Some((header, lines)) = first_line(&old) else { return Ok(false) };
    let (UidListHeader { version: 3, uidnext, .. }, Some(guid)) = (&header, header.guid) else {
        return Ok(false);
    };
    let (mut text, uidnext): (Vec<u8>, Uid) = (Vec::new(), *uidnext);
    let header = UidListHeader { uidvalidity, ..header };
    uidlist::write_header(&header, uidnext, &guid, &mut text);
    text.extend_from_slice(lines);
    uidlist::replace(&**vfs, maildir, &path, &text)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use barid_vfs::MemVfs;

    fn check(list: Option<&str>, expected: Option<u32>, renumbered: Option<&str>) {
        let vfs = Arc::new(MemVfs::new());
        let (dir, path) = (Path::new("/m"), Path::new("/m/dovecot-uidlist"));
        vfs.create_dir(dir, 0o700).unwrap();
        if let Some(list) = list {
            let file = vfs.open(path, OpenOptions::create_new(0o600)).unwrap();
            file.write_all_at(list.as_bytes(), 0).unwrap();
        }
        assert_eq!(stored(&*vfs, dir).unwrap().map(UidValidity::get), expected, "{list:?}");
        let vfs: Arc<dyn Vfs> = vfs;
        let done = renumber(&vfs, dir, UidValidity::new(77).unwrap()).unwrap();
        assert_eq!(done, renumbered.is_some(), "{list:?}");
        if let Some(renumbered) = renumbered {
            assert_eq!(vfs.read(path, 999).unwrap(), renumbered.as_bytes());
        }
    }

    #[test]
    fn the_first_line_alone_is_read_and_changed() {
        let guid = "G0123456789abcdef0123456789abcdef";
        let lines = "3 W20 :name\n8 :b\n";
        let list = format!("3 V5 N9 {guid} Xy\n{lines}");
        check(Some(&list), Some(5), Some(&format!("3 V77 N9 {guid} Xy\n{lines}")));
        check(Some("3 V5 N9\n"), Some(5), None);
        check(Some("1 5 9\n3 name\n"), Some(5), None);
        check(Some("3 V5 N9"), None, None);
        check(Some("garbage\n"), None, None);
        check(None, None, None);
    }
}

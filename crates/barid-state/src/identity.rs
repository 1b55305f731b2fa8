//! The identity of a mailbox, which survives renames.
//!
//! The extended attribute `user.barid.id` of the mailbox (the mbox file, the Maildir folder) holds
//! 16 random bytes in hex, a space, the inode, a space, and the canonical path at which the mailbox
//! was last seen. Inode and path distinguish a copy (`cp -a` copies attributes) from a move.
//! Without extended attributes the id is derived from the canonical path.

use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use barid_vfs::Vfs;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{At, Result};
use crate::limits::IDENTITY_LEN_MAX;

/// The attribute's name.
const ATTRIBUTE: &str = "user.barid.id";

/// The identity of a mailbox: names its ledger and its cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A 128-bit id: the extended attribute `user.barid.id` where there is one, else derived from
    /// the canonical path.
    pub id: u128,
    /// The canonical path when it was opened.
    pub path: PathBuf,
    /// The inode of the mailbox when it was opened.
    pub inode: u64,
}

/// The attribute's value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Home {
    id: u128,
    inode: u64,
    path: PathBuf,
}

impl Identity {
    /// Determines the identity of the mailbox at `path`. With `may_write` it sets or corrects the
    /// attribute, which changes the mailbox's ctime: call it before taking a stamp.
    ///
    /// - Attribute present, path and inode as recorded: the same mailbox.
    /// - Path or inode differs, and the recorded path is another mailbox with the same id: a copy.
    ///   It gets a new id, or, without `may_write`, the one derived from its path.
    /// - Path or inode differs otherwise: the mailbox was moved or restored, and keeps its id.
    /// - No attribute, and it cannot or may not be set: the id is derived from the path.
    ///
    /// Costs a canonicalization, a stat and one read of the attribute if nothing changed.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if the mailbox does not exist or is not accessible.
    pub fn of(vfs: &dyn Vfs, path: &Path, may_write: bool) -> Result<Self> {
        let canonical = vfs.canonicalize(path).at(path)?;
        let inode = vfs.metadata(&canonical).at(path)?.inode;
        let home = read_home(vfs, &canonical).at(path)?;
        let of_path = xxh3_128(canonical.as_os_str().as_bytes());
        let here = |id| Home { id, inode, path: canonical.clone() };
        let id = match home {
            Some(home) if home == here(home.id) => home.id,
            Some(home) if !is_copy(vfs, &home, inode) => {
                if may_write {
                    // If this fails, the old record is still usable, and the next call tries again.
                    let _ = write_home(vfs, &here(home.id)).at(path)?;
                }
                home.id
            }
            home if may_write => {
                let mut random = [0; 16];
                vfs.random(&mut random).at(path)?;
                let new = here(u128::from_le_bytes(random));
                give_home(vfs, &new, home.is_some()).at(path)?.unwrap_or(of_path)
            }
            _ => of_path,
        };
        Ok(Self { id, path: canonical, inode })
    }
}

/// Returns `true` if the recorded path is another file than ours and still has that id.
fn is_copy(vfs: &dyn Vfs, home: &Home, inode: u64) -> bool {
    let original = vfs.metadata(&home.path).is_ok_and(|metadata| metadata.inode != inode);
    original && read_home(vfs, &home.path).is_ok_and(|there| there.is_some_and(|t| t.id == home.id))
}

fn read_home(vfs: &dyn Vfs, path: &Path) -> io::Result<Option<Home>> {
    Ok(vfs.xattr(path, ATTRIBUTE)?.and_then(|value| decode(&value)))
}

/// Sets the attribute of a mailbox that has none, or, with `overwrite`, replaces it. Returns the id
/// that the mailbox has then: the other process's if one set it first, or `None` if the attribute
/// cannot be set.
fn give_home(vfs: &dyn Vfs, home: &Home, overwrite: bool) -> io::Result<Option<u128>> {
    if !overwrite {
        match vfs.create_xattr(&home.path, ATTRIBUTE, &encode(home)) {
            Ok(()) => return Ok(Some(home.id)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // A malformed attribute is overwritten below.
                if let Some(there) = read_home(vfs, &home.path)? {
                    return Ok(Some(there.id));
                }
            }
            Err(error) if is_refusal(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(write_home(vfs, home)?.then_some(home.id))
}

/// Sets the attribute; returns `false` if it cannot be set here.
fn write_home(vfs: &dyn Vfs, home: &Home) -> io::Result<bool> {
    match vfs.set_xattr(&home.path, ATTRIBUTE, &encode(home)) {
        Ok(()) => Ok(true),
        Err(error) if is_refusal(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns `true` if attributes are unsupported, not permitted, or out of space.
fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ArgumentListTooLong, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
        Unsupported,
    };
    let kinds = [
        Unsupported,
        PermissionDenied,
        ReadOnlyFilesystem,
        StorageFull,
        QuotaExceeded,
        ArgumentListTooLong,
    ];
    kinds.contains(&error.kind())
}

fn encode(home: &Home) -> Vec<u8> {
    let mut value = format!("{:032x} {} ", home.id, home.inode).into_bytes();
    value.extend(home.path.as_os_str().as_bytes());
    value
}

fn decode(value: &[u8]) -> Option<Home> {
    if value.len() > IDENTITY_LEN_MAX {
        return None;
    }
    let mut fields = value.splitn(3, |byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok().filter(|id| id.len() == 32)?;
    let inode = std::str::from_utf8(fields.next()?).ok()?;
    let path = std::ffi::OsString::from_vec(fields.next()?.to_vec());
    Some(Home {
        id: u128::from_str_radix(id, 16).ok()?,
        inode: inode.parse().ok()?,
        path: path.into(),
    })
}

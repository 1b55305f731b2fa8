//! Opening word lists whatever program made them.

use std::path::Path;
use std::sync::Arc;

use barid_kv::{Choice, Kv, registry};
use barid_vfs::{OpenOptions, Vfs};

use crate::{Error, Native, OnStore, Result, Sharing, WordList};

/// First bytes of a file of Tokyo Cabinet.
const TOKYO_MAGIC: &[u8] = b"ToKyO CaBiNeT";
/// First bytes of a file of SQLite.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3";
/// Offset of the magic number in a file of Berkeley DB.
const BDB_MAGIC_OFFSET: usize = 12;
/// Magic number of a B-tree, in either byte order.
const BDB_MAGIC: [&[u8]; 2] = [&[0x62, 0x31, 5, 0], &[0, 5, 0x31, 0x62]];

/// Reason why a list of bogofilter's cannot be used, and what to do.
const NO_LIBRARY: &str = "a list of bogofilter whose library is missing or unusable (-V shows the \
                          reason): install it, or load a dump of bogofilter's bogoutil -d";

/// A word list that can be passed from thread to thread.
pub type AnyList = Box<dyn WordList + Send>;

/// Returns the store of a file of bogofilter's, detected by its first bytes.
pub fn store_of_bogofilter(vfs: &dyn Vfs, path: &Path) -> Option<&'static str> {
    let mut head = [0; 16];
    let file = vfs.open(path, OpenOptions::READ).ok()?;
    let len = file.read_full_at(&mut head, 0);
    barid_kv::close_sqlite_file(file);
    let head = &head[..len.ok()?];
    let at = |offset: usize, magic: &[u8]| {
        head.get(offset..).is_some_and(|rest| rest.starts_with(magic))
    };
    match () {
        () if at(0, TOKYO_MAGIC) => Some("tokyocabinet"),
        () if at(0, SQLITE_MAGIC) => Some("sqlite"),
        () if BDB_MAGIC.iter().any(|magic| at(BDB_MAGIC_OFFSET, magic)) => Some("bdb"),
        () => None,
    }
}

/// Opens a word list: barid's own, or a file of bogofilter's in its place (its Berkeley DB, Tokyo
/// Cabinet and SQLite builds), which keeps no receipts.
///
/// # Errors
/// [`Error::NotFound`], and the other errors of [`Native::open`] and
/// [`OnStore::open`].
pub fn open_list(vfs: &Arc<dyn Vfs>, path: &Path) -> Result<AnyList> {
    let choice = match store_of_bogofilter(&**vfs, path) {
        None => return Ok(Box::new(Native::open(Arc::clone(vfs), path)?)),
        Some("sqlite") => Choice { kv: registry::SQLITE, builtin: None },
        Some(store) => Choice::parse(store)?,
    };
    if choice.kv.version().is_err() {
        return Err(Error::Unsupported { path: path.to_owned(), what: NO_LIBRARY });
    }
    Ok(Box::new(OnStore::open(Arc::clone(vfs), path, choice, Sharing::Bogofilter)?))
}

/// A build of bogofilter, whose lists [`open_list`] may open in place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Build {
    /// Name of the store of its lists.
    pub name: &'static str,
    /// Version of the library that reads them here, or the reason why there is none.
    pub version: std::result::Result<String, String>,
}

/// Returns the known builds of bogofilter. Loads their libraries.
pub fn builds() -> [Build; 3] {
    let version = |kv: barid_kv::Result<&'static dyn Kv>| {
        kv.and_then(|kv| kv.version()).map_err(|error| match error {
            barid_kv::Error::Unavailable { why, .. } => why,
            error => error.to_string(),
        })
    };
    [
        Build { name: "Berkeley DB", version: version(registry::find("bdb")) },
        Build { name: "Tokyo Cabinet", version: version(registry::find("tokyocabinet")) },
        Build { name: "SQLite", version: version(Ok(registry::SQLITE)) },
    ]
}

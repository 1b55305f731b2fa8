//! Small files of an index: magic, checksum of all that follows it, version, content.

use std::io;
use std::path::Path;

use barid_vfs::le::{LeReader, PutLe};
use barid_vfs::{Vfs, atomic_replace};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes before those that the checksum is of.
const HEAD_LEN: usize = 16;

/// Returns a file without content.
pub(crate) fn begin(magic: &[u8; 8], version: u32) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.put_u64(0);
    bytes.put_u32(version);
    bytes
}

/// Writes the checksum of a file that has its content.
pub(crate) fn seal(bytes: &mut [u8]) {
    let checksum = xxh3_64(&bytes[HEAD_LEN..]);
    bytes[8..HEAD_LEN].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns the content of a file; `None` if it is damaged, or of another kind or version.
pub(crate) fn content<'b>(bytes: &'b [u8], magic: &[u8; 8], version: u32) -> Option<LeReader<'b>> {
    let mut reader = LeReader(bytes);
    let is_known = reader.take(8)? == magic
        && reader.u64()? == xxh3_64(bytes.get(HEAD_LEN..)?)
        && reader.u32()? == version;
    is_known.then_some(reader)
}

/// Reads a file; `None` if it is missing, or longer than `len_max`.
pub(crate) fn read(vfs: &dyn Vfs, path: &Path, len_max: u64) -> io::Result<Option<Vec<u8>>> {
    match vfs.read(path, len_max) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::FileTooLarge => Ok(None),
            _ => Err(error),
        },
    }
}

/// Replaces a file. The rename is the commit point; nothing is fsynced.
pub(crate) fn replace(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) -> io::Result<()> {
    atomic_replace(vfs, path, 0o600, false, |file| file.write_all_at(bytes, 0)).map(drop)
}

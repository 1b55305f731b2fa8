//! Files without a name: temporary data of one process.

use std::io;
use std::path::Path;

use crate::api::{File, OpenOptions, Vfs};

/// Creates a file in `folder`, which is created if it is missing, and removes its name: nobody else
/// can open it, and it ends with the process.
///
/// # Errors
/// Errors of the file system.
pub fn create_unlinked(vfs: &dyn Vfs, folder: &Path) -> io::Result<Box<dyn File>> {
    vfs.create_dir_all(folder, 0o700)?;
    let mut random = [0; 8];
    vfs.random(&mut random)?;
    let path = folder.join(format!(".spill-{:016x}", u64::from_le_bytes(random)));
    let file = vfs.open(&path, OpenOptions::create_new(0o600))?;
    vfs.remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemVfs;

    #[test]
    fn a_file_without_a_name_is_written_and_read() {
        let (vfs, folder) = (MemVfs::new(), Path::new("/missing/folder"));
        let file = create_unlinked(&vfs, folder).unwrap();
        file.write_all_at(b"text", 2).unwrap();
        let mut text = [0; 6];
        file.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"\0\0text");
        let mut left = 0;
        vfs.open_dir(folder).unwrap().list(&mut |_, _| left += 1).unwrap();
        assert_eq!(left, 0);
    }
}

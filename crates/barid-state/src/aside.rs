//! Second names for damaged files, under which they are kept when a new file replaces them.

use std::io;
use std::path::{Path, PathBuf};

use barid_vfs::{OpenOptions, Vfs};

use crate::error::{At, Result};
use crate::limits::SCAN_BUFFER_LEN;
use crate::modes::FILE_MODE;

/// Returns the second name of a file for a random number.
pub(crate) fn aside_path(path: &Path, random: u32) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".damaged-{random:08x}"));
    path.with_file_name(name)
}

/// Gives a file a second name, durably: a hard link, or a copy if the file system has no links.
/// Returns the random number in the name, which is not 0.
///
/// **Commit point:** the fsync of the folder.
pub(crate) fn keep_aside(vfs: &dyn Vfs, path: &Path) -> Result<u32> {
    let mut random = [0; 4];
    vfs.random(&mut random).at(path)?;
    let random = u32::from_le_bytes(random).max(1);
    let aside = aside_path(path, random);
    if vfs.hard_link(path, &aside).is_err() {
        copy(vfs, path, &aside).at(&aside)?;
    }
    let dir = path.parent().unwrap_or(path);
    vfs.sync_dir(dir).at(dir)?;
    Ok(random)
}

fn copy(vfs: &dyn Vfs, from: &Path, to: &Path) -> io::Result<()> {
    let source = vfs.open(from, OpenOptions::READ)?;
    let target = vfs.open(to, OpenOptions::create_new(FILE_MODE))?;
    let (mut buffer, mut at) = (vec![0; SCAN_BUFFER_LEN], 0);
    loop {
        let len = source.read_full_at(&mut buffer, at)?;
        target.write_all_at(&buffer[..len], at)?;
        at += len as u64;
        if len < buffer.len() {
            return target.sync_all();
        }
    }
}

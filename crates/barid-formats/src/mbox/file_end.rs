//! The end of a file that an interrupted append may have left.

use std::io;

use barid_vfs::File;

use super::layout::NULS_MAX;

/// Returns the size of a file without the NULs that an interrupted append left after its last line
/// end, or in place of everything. Costs one read of one byte if there are none.
pub(super) fn size_without_nuls(file: &dyn File, size: u64) -> io::Result<u64> {
    let mut end = size;
    let mut len = 1;
    while end > 0 {
        let start = end.saturating_sub(len as u64);
        let mut bytes = vec![0; (end - start) as usize];
        file.read_exact_at(&mut bytes, start)?;
        let nuls = bytes.iter().rev().take_while(|byte| **byte == 0).count();
        end -= nuls as u64;
        match bytes.len().checked_sub(nuls + 1) {
            Some(last) if bytes[last] == b'\n' => return Ok(end),
            Some(_) => return Ok(size),
            None => len = NULS_MAX,
        }
    }
    Ok(0)
}

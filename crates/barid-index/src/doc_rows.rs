//! The file that says which row of a header cache each document of an index is.

use std::io;
use std::path::Path;

use barid_vfs::Vfs;
use barid_vfs::le::PutLe;

use crate::limits::ROWS_LEN_MAX;
use crate::sealed;

const MAGIC: &[u8; 8] = b"BARIDTR\n";
const VERSION: u32 = 1;

/// Consecutive rows that are consecutive documents of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocRun {
    /// The first row.
    pub row: u32,
    /// The segment, by its number in the manifest.
    pub segment: u32,
    /// The document of the first row.
    pub doc: u32,
    /// Number of rows.
    pub len: u32,
}

impl DocRun {
    /// Returns the row behind the last one.
    pub fn end(&self) -> u32 {
        self.row.saturating_add(self.len)
    }
}

/// The rows that are documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocRows {
    /// The runs, by rows ascending; no row is in two of them.
    pub runs: Vec<DocRun>,
    /// The rows that are candidates of every search, ascending.
    pub open: Vec<u32>,
}

impl DocRows {
    /// Adds a row behind all others.
    pub fn push(&mut self, row: u32, (segment, doc): (u32, u32), is_open: bool) {
        match self.runs.last_mut() {
            Some(run) if run.end() == row && run.segment == segment && run.doc + run.len == doc => {
                run.len += 1;
            }
            _ => self.runs.push(DocRun { row, segment, doc, len: 1 }),
        }
        if is_open {
            self.open.push(row);
        }
    }

    /// Returns the number of rows.
    pub fn count(&self) -> u32 {
        self.runs.iter().map(|run| run.len).sum()
    }

    /// Reads what [`DocRows::store`] wrote; `None` if it is missing, damaged, of another version or
    /// not of `source`.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn load(vfs: &dyn Vfs, path: &Path, source: u64) -> io::Result<Option<Self>> {
        let bytes = sealed::read(vfs, path, ROWS_LEN_MAX)?;
        Ok(bytes.and_then(|bytes| Self::parse(&bytes, source)))
    }

    /// Replaces the file, unless it would be too long to be read. `source` is a digest of all that
    /// rows and documents depend on. The rename is the commit point; nothing is fsynced.
    ///
    /// # Errors
    /// Errors of the file system; the old file is still there then.
    pub fn store(&self, vfs: &dyn Vfs, path: &Path, source: u64) -> io::Result<()> {
        let bytes = self.to_bytes(source);
        match bytes.len() as u64 <= ROWS_LEN_MAX {
            true => sealed::replace(vfs, path, &bytes),
            false => Ok(()),
        }
    }

    fn to_bytes(&self, source: u64) -> Vec<u8> {
        let mut bytes = sealed::begin(MAGIC, VERSION);
        bytes.put_u64(source);
        bytes.put_u32(self.runs.len() as u32);
        bytes.put_u32(self.open.len() as u32);
        for DocRun { row, segment, doc, len } in &self.runs {
            [row, segment, doc, len].into_iter().for_each(|number| bytes.put_u32(*number));
        }
        self.open.iter().for_each(|row| bytes.put_u32(*row));
        sealed::seal(&mut bytes);
        bytes
    }

    fn parse(bytes: &[u8], source: u64) -> Option<Self> {
        let mut reader = sealed::content(bytes, MAGIC, VERSION)?;
        if reader.u64()? != source {
            return None;
        }
        let (runs, open) = (reader.u32()?, reader.u32()?);
        let mut rows = Self::default();
        for _ in 0..runs {
            let (row, segment, doc, len) =
                (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
            let is_after = rows.runs.last().is_none_or(|run| run.end() <= row);
            if !is_after || len == 0 || row.checked_add(len).is_none() {
                return None;
            }
            rows.runs.push(DocRun { row, segment, doc, len });
        }
        for _ in 0..open {
            rows.open.push(reader.u32()?);
        }
        (rows.open.is_sorted() && reader.0.is_empty()).then_some(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barid_vfs::MemVfs;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let vfs = MemVfs::new();
        let path = Path::new("/r");
        assert_eq!(DocRows::load(&vfs, path, 5).unwrap(), None);
        let mut rows = DocRows::default();
        for (row, doc) in [(0, 7), (1, 8), (2, 10), (4, 11), (5, 12)] {
            rows.push(row, (1, doc), row == 4);
        }
        rows.push(6, (2, 13), true);
        let run = |row, segment, doc, len| DocRun { row, segment, doc, len };
        assert_eq!(
            rows.runs,
            [run(0, 1, 7, 2), run(2, 1, 10, 1), run(4, 1, 11, 2), run(6, 2, 13, 1)]
        );
        assert_eq!((rows.count(), &*rows.open), (6, &[4, 6][..]));
        rows.store(&vfs, path, 5).unwrap();
        assert_eq!(DocRows::load(&vfs, path, 5).unwrap(), Some(rows.clone()));
        assert_eq!(DocRows::load(&vfs, path, 6).unwrap(), None);
        let bytes = rows.to_bytes(5);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert_eq!(DocRows::parse(&damaged, 5), None, "{at}");
            assert_eq!(DocRows::parse(&bytes[..at], 5), None, "{at}");
        }
        // Runs that overlap are no rows, whatever their checksum says.
        rows.runs[1].row = 1;
        assert_eq!(DocRows::parse(&rows.to_bytes(5), 5), None);
    }
}

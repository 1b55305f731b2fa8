//! The list of the segments of a mailbox, with the UIDs of their documents.

use std::io;
use std::path::Path;

use barid_vfs::Vfs;
use barid_vfs::le::PutLe;

use crate::limits::{MANIFEST_DOCS_MAX, MANIFEST_LEN_MAX, SEGMENT_DOCS_MAX, SEGMENTS_MAX};
use crate::sealed;

const MAGIC: &[u8; 8] = b"BARIDTM\n";
const VERSION: u32 = 1;

/// A segment of a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Names the file.
    pub name: u64,
    /// The UID of each document, ascending.
    pub uids: Vec<u32>,
}

/// The segments of a mailbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The UIDVALIDITY of all UIDs.
    pub uidvalidity: u32,
    /// The segments, oldest first.
    pub segments: Vec<SegmentEntry>,
}

impl Manifest {
    /// Reads a manifest; `None` if it is missing, damaged, or of another version.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn load(vfs: &dyn Vfs, path: &Path) -> io::Result<Option<Self>> {
        let bytes = sealed::read(vfs, path, MANIFEST_LEN_MAX)?;
        Ok(bytes.and_then(|bytes| Self::parse(&bytes)))
    }

    /// Replaces the manifest. The rename is the commit point; nothing is fsynced.
    ///
    /// # Errors
    /// Errors of the file system; the old manifest is still there then.
    pub fn store(&self, vfs: &dyn Vfs, path: &Path) -> io::Result<()> {
        sealed::replace(vfs, path, &self.to_bytes())
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = sealed::begin(MAGIC, VERSION);
        bytes.put_u32(self.uidvalidity);
        bytes.put_u32(self.segments.len() as u32);
        for segment in &self.segments {
            bytes.put_u64(segment.name);
            let follows = |one: &u32, other: &u32| one.checked_add(1) == Some(*other);
            let runs = segment.uids.chunk_by(follows);
            bytes.put_u32(runs.clone().count() as u32);
            for run in runs {
                bytes.put_u32(run[0]);
                bytes.put_u32(run.len() as u32);
            }
        }
        sealed::seal(&mut bytes);
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = sealed::content(bytes, MAGIC, VERSION)?;
        let uidvalidity = reader.u32()?;
        let count = reader.u32()? as usize;
        if count > SEGMENTS_MAX {
            return None;
        }
        let mut segments = Vec::with_capacity(count);
        let mut docs = 0;
        for _ in 0..count {
            let name = reader.u64()?;
            let mut uids = Vec::new();
            for _ in 0..reader.u32()? {
                let (first, len) = (reader.u32()?, reader.u32()?);
                let last = first.checked_add(len.checked_sub(1)?)?;
                if uids.len() + len as usize > SEGMENT_DOCS_MAX as usize {
                    return None;
                }
                uids.extend(first..=last);
            }
            docs += uids.len();
            if docs > MANIFEST_DOCS_MAX {
                return None;
            }
            segments.push(SegmentEntry { name, uids });
        }
        Some(Self { uidvalidity, segments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barid_vfs::MemVfs;

    #[test]
    fn manifests_are_read_as_they_were_written() {
        let vfs = MemVfs::new();
        let path = Path::new("/m");
        assert_eq!(Manifest::load(&vfs, path).unwrap(), None);
        let segments = vec![
            SegmentEntry { name: 7, uids: vec![1, 2, 900, u32::MAX] },
            SegmentEntry { name: u64::MAX, uids: Vec::new() },
        ];
        let manifest = Manifest { uidvalidity: 9, segments };
        manifest.store(&vfs, path).unwrap();
        assert_eq!(Manifest::load(&vfs, path).unwrap(), Some(manifest.clone()));
        let bytes = manifest.to_bytes();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert_eq!(Manifest::parse(&damaged), None, "{at}");
            assert_eq!(Manifest::parse(&bytes[..at]), None, "{at}");
        }
    }
}

//! The note of an unfinished conversion, in the state folder (`docs/formats/convert-note.md`).
//!
//! It is durable before the target is created, and removed when the target is complete; so while a
//! note exists, the mailbox at the target's path was made by a conversion, perhaps incompletely.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use barid_vfs::Vfs;
use barid_vfs::le::PutLe as _;
use xxhash_rust::xxh3::xxh3_128;

use super::locked_note::{LockedNote, opened, sealed};
use super::{ConvertOptions, Dedupe};
use crate::limits::CONVERT_NOTE_LEN_MAX;
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"barid-cv";
const VERSION: u32 = 1;

/// Source, target and options of a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConvertNote {
    /// The identity of the source.
    pub(super) source: u128,
    /// Its UIDVALIDITY.
    pub(super) uidvalidity: u32,
    /// The name of the target's format.
    pub(super) format: String,
    /// `true` if the conversion creates the target; `false` if an empty mailbox was there.
    pub(super) is_made: bool,
    /// The criterion for duplicates.
    pub(super) dedupe: Option<Dedupe>,
    /// The target.
    pub(super) target: PathBuf,
}

impl ConvertNote {
    pub(super) fn new(
        source: u128,
        uidvalidity: u32,
        format: &str,
        target: &Path,
        options: &ConvertOptions,
    ) -> Self {
        let (format, target) = (format.to_owned(), target.to_owned());
        Self { source, uidvalidity, format, is_made: true, dedupe: options.dedupe, target }
    }

    fn encode(&self) -> Vec<u8> {
        sealed(MAGIC, VERSION, |out| {
            out.put_u32(self.uidvalidity);
            out.put_u128(self.source);
            out.put_u32(self.is_made.into());
            out.put_u32(match self.dedupe {
                None => 0,
                Some(Dedupe::MessageId) => 1,
                Some(Dedupe::Content) => 2,
            });
            out.put_long_bytes(self.format.as_bytes());
            out.put_long_bytes(self.target.as_os_str().as_bytes());
        })
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = opened(bytes, MAGIC, VERSION)?;
        let uidvalidity = rest.u32()?;
        let source = rest.u128()?;
        let is_made = rest.u32()? == 1;
        let dedupe = match rest.u32()? {
            0 => None,
            1 => Some(Dedupe::MessageId),
            2 => Some(Dedupe::Content),
            _ => return None,
        };
        let format = String::from_utf8(rest.long_bytes()?.to_vec()).ok()?;
        let target = std::ffi::OsStr::from_bytes(rest.long_bytes()?).into();
        rest.0.is_empty().then_some(Self { source, uidvalidity, format, is_made, dedupe, target })
    }
}

/// Location of the note of a target. It is locked as long as this value exists.
#[derive(Debug)]
pub(super) struct NotePlace<'a>(LockedNote<'a>);

impl<'a> NotePlace<'a> {
    /// Locates the note, and locks it.
    ///
    /// # Errors
    /// [`Error::ConversionRunning`] if another process converts to the same place.
    pub(super) fn lock(vfs: &'a dyn Vfs, dir: &Path, target: &Path) -> Result<Self> {
        let name = format!("convert-{:032x}", xxh3_128(target.as_os_str().as_bytes()));
        let locked = LockedNote::lock(vfs, dir, &name)?;
        locked.map(Self).ok_or_else(|| Error::ConversionRunning { path: target.to_owned() })
    }

    /// Loads the note; `None` if there is none or it is malformed.
    pub(super) fn read(&self) -> Result<Option<ConvertNote>> {
        let bytes = self.0.read(CONVERT_NOTE_LEN_MAX)?;
        Ok(bytes.and_then(|bytes| ConvertNote::decode(&bytes)))
    }

    /// Writes the note. Durable when this returns.
    pub(super) fn write(&self, note: &ConvertNote) -> Result<()> {
        self.0.write(&note.encode())
    }

    /// Removes the note, durably.
    pub(super) fn remove(&self) -> Result<()> {
        self.0.remove()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> ConvertNote {
        let options = ConvertOptions { dedupe: Some(Dedupe::Content), ..Default::default() };
        ConvertNote::new(7 << 64 | 9, 1_700_000_000, "mbx", Path::new("/mail/box"), &options)
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let bytes = note().encode();
        assert_eq!(ConvertNote::decode(&bytes), Some(note()));
        for at in 0..bytes.len() {
            assert_eq!(ConvertNote::decode(&bytes[..at]), None, "cut at {at}");
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_eq!(ConvertNote::decode(&other), None, "another byte at {at}");
        }
    }

    #[test]
    fn the_layout_is_what_it_was() {
        let hex: String = note().encode().iter().map(|byte| format!("{byte:02x}")).collect();
        let (body, _) = hex.split_at(hex.len() - 16);
        assert_eq!(
            body,
            "62617269642d6376010000000\
             0f1536509000000000000000700000000000000010000000200000003000000\
             00000000\
             6d627809000000000000002f6d61696c2f626f78"
        );
    }

    #[test]
    fn one_at_a_time() {
        let vfs = barid_vfs::MemVfs::new();
        let place = |target: &str| NotePlace::lock(&vfs, Path::new("/state"), Path::new(target));
        let first = place("/a").unwrap();
        assert!(matches!(place("/a"), Err(Error::ConversionRunning { .. })));
        assert!(place("/b").is_ok());
        assert_eq!(first.read().unwrap(), None);
        first.write(&note()).unwrap();
        assert_eq!(first.read().unwrap(), Some(note()));
        drop(first);
        let again = place("/a").unwrap();
        assert_eq!(again.read().unwrap(), Some(note()));
        again.remove().unwrap();
        again.remove().unwrap();
        assert_eq!(again.read().unwrap(), None);
        let mut left = Vec::new();
        let dir = vfs.open_dir(Path::new("/state")).unwrap();
        dir.list(&mut |name, _| left.push(String::from_utf8_lossy(name).into_owned())).unwrap();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}

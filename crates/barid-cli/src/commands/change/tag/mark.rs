//! The note of how far `barid tag --new` has come.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use barid::Uid;
use barid::vfs::Vfs;
use xxhash_rust::xxh3::xxh3_64;

use crate::exit::WithHint;
use crate::mail::state_file::write_state;

/// Most bytes of a note.
const LEN_MAX: u64 = 64;

/// The note of one file of rules for one mailbox: `UIDVALIDITY UIDNEXT` and a line end.
pub(super) struct TagProgress<'v> {
    vfs: &'v dyn Vfs,
    path: PathBuf,
}

impl<'v> TagProgress<'v> {
    /// Locates the note in the state folder.
    pub(super) fn of(
        vfs: &'v dyn Vfs,
        state_dir: &Path,
        mailbox: u128,
        rules: &Path,
    ) -> anyhow::Result<Self> {
        let rules = std::path::absolute(rules).context("the current folder is not there")?;
        let name = xxh3_64(OsStr::new(&rules).as_bytes());
        Ok(Self { vfs, path: state_dir.join(format!("{mailbox:032x}-{name:016x}.tagged")) })
    }

    /// Returns the UIDVALIDITY, and the first UID that no rule has seen; `None` before the first
    /// run.
    pub(super) fn read(&self) -> anyhow::Result<Option<(u32, Uid)>> {
        let bytes = match self.vfs.read(&self.path, LEN_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.with_context(|| self.path.display().to_string())?,
        };
        let text = std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_suffix('\n'));
        let numbers = text.and_then(|text| text.split_once(' '));
        let parsed = numbers.and_then(|(validity, next)| {
            Some((validity.parse().ok()?, Uid::new(next.parse().ok()?)?))
        });
        match parsed {
            Some(numbers) => Ok(Some(numbers)),
            None => Err(WithHint::error(
                format!(
                    "{}: damaged, so it is not known which messages are new",
                    self.path.display()
                ),
                "remove the file; the next run then treats all messages as new",
            )),
        }
    }

    /// Notes that all messages before `uidnext` have been there. Durable when this returns: the
    /// changes themselves were so before.
    ///
    /// Another run may have come further meanwhile: a note never goes back.
    pub(super) fn advance(&self, uidvalidity: u32, uidnext: Uid) -> anyhow::Result<()> {
        let known = self.read()?;
        if known.is_some_and(|(validity, next)| validity == uidvalidity && next >= uidnext) {
            return Ok(());
        }
        let text = format!("{uidvalidity} {}\n", uidnext.get());
        write_state(self.vfs, &self.path, text.as_bytes()).with_context(|| {
            let path = self.path.display();
            format!("{path}: the flags are changed, and the next --new sees these messages again")
        })
    }
}

#[cfg(test)]
mod tests {
    use barid::vfs::MemVfs;

    use super::*;

    #[test]
    fn a_note_is_read_as_written() {
        let vfs = MemVfs::new();
        let mark = |rules| TagProgress::of(&vfs, Path::new("/s"), 7, Path::new(rules)).unwrap();
        assert_eq!(mark("/a").read().unwrap(), None);
        mark("/a").advance(5, Uid::MIN).unwrap();
        mark("/a").advance(5, Uid::new(9).unwrap()).unwrap();
        mark("/a").advance(5, Uid::new(3).unwrap()).unwrap();
        assert_eq!(mark("/a").read().unwrap(), Some((5, Uid::new(9).unwrap())));
        assert_eq!(mark("/b").read().unwrap(), None);
    }
}

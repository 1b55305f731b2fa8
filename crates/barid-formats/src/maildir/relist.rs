//! Search for files that were renamed since they were listed.

use super::Dirs;
use super::layout::RELISTS_MAX;
use super::table::{Index, Name, Names};
use crate::{Error, Result};

/// The directories, listed once more while messages are read.
#[derive(Debug, Default)]
pub(super) struct Relisted {
    lists: u32,
    quiet: bool,
    names: Names,
    entries: Vec<(Name, bool)>,
    index: Index,
}

impl Relisted {
    /// Searches the file that was called `stale` a moment ago; returns its name and `true` if it is
    /// in `new`. Lists the directories if no earlier listing contains it.
    pub(super) fn find_renamed(
        &mut self,
        dirs: &Dirs,
        hash: u64,
        base: &[u8],
        stale: &[u8],
    ) -> Result<Option<(Vec<u8>, bool)>> {
        if self.lists > 0 {
            match self.find(hash, base) {
                Some(found) if found.0 != stale => return Ok(Some(found)),
                None if self.quiet => return Ok(None),
                _ => {}
            }
        }
        if self.lists == RELISTS_MAX {
            return Ok(None);
        }
        self.list(dirs)?;
        Ok(self.find(hash, base))
    }

    fn list(&mut self, dirs: &Dirs) -> Result<()> {
        *self = Self { lists: self.lists + 1, ..Self::default() };
        let before = dirs.stamps()?;
        for (at, in_new) in [(0, true), (1, false)] {
            let listed = dirs.handles[at].list(&mut |name, _| {
                if let Some(name) = self.names.add(name) {
                    let entries = &self.entries;
                    let thing = entries.len() as u32;
                    self.index.insert(name.hash, thing, |at| entries[at as usize].0.hash);
                    self.entries.push((name, in_new));
                }
            });
            listed.map_err(Error::at(&dirs.paths[at]))?;
        }
        self.quiet = before == dirs.stamps()?;
        Ok(())
    }

    fn find(&self, hash: u64, base: &[u8]) -> Option<(Vec<u8>, bool)> {
        let found = self.index.find(hash, |at| {
            let name = self.entries[at as usize].0;
            name.hash == hash && self.names.base(name) == base
        })?;
        let (name, in_new) = self.entries[found as usize];
        Some((self.names.get(name).to_vec(), in_new))
    }
}

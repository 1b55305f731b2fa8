//! The expunges of a mailbox that are kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::Vfs;

use super::{Expunged, ExpungedWriter, KeptFrom};
use crate::Identity;
use crate::error::{At, Result};
use crate::limits::KEPT_FOLDERS_MAX;
use crate::modes::is_absent;

/// What ends the name of a folder.
const SUFFIX: &str = ".kept";

/// The expunges of a mailbox that are kept, each a file with a number. Whoever writes holds the
/// lock of the pending changes.
#[derive(Clone, Debug)]
pub struct KeptFolder {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    identity: Identity,
}

impl KeptFolder {
    /// That of a mailbox in the state folder `dir`. Touches nothing.
    pub fn new(vfs: Arc<dyn Vfs>, dir: &Path, identity: &Identity) -> Self {
        let dir = dir.join(format!("{:032x}{SUFFIX}", identity.id));
        Self { vfs, dir, identity: identity.clone() }
    }

    /// The numbers of what is kept, ascending; none if there is no folder. One listing.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn numbers(&self) -> Result<Vec<u64>> {
        let mut numbers: Vec<u64> = self.names()?.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Opens one; `None` if it is not there. Nothing is written.
    ///
    /// # Errors
    /// [`crate::Error::Version`] for a file of another version; [`crate::Error::Damaged`] if its
    /// head is; [`crate::Error::Io`].
    pub fn open(&self, number: u64) -> Result<Option<Expunged>> {
        Expunged::open(Arc::clone(&self.vfs), self.path_of(number), number, self.identity.id)
    }

    /// Begins a file that is numbered after the one numbered `last`; tells its number.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn create(&self, last: Option<u64>, from: &KeptFrom) -> Result<(u64, ExpungedWriter)> {
        let number = last.unwrap_or(0).saturating_add(1);
        let (vfs, path) = (Arc::clone(&self.vfs), self.path_of(number));
        let writer = ExpungedWriter::create(vfs, &self.dir, path, &self.identity, from)?;
        Ok((number, writer))
    }

    /// Removes one, if it is there. Not durable at once.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn remove(&self, number: u64) -> Result<()> {
        self.remove_name(&name(number))
    }

    /// Removes the oldest as long as all take more than `bytes` or are more than `count`, but never
    /// the last; and what an interrupted writer left. Not durable at once.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn prune(&self, bytes: u64, count: usize) -> Result<()> {
        let names = self.names()?;
        for name in names.iter().filter(|name| name.ends_with(".tmp")) {
            self.remove_name(name)?;
        }
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        let (mut total, mut left) = (0_u64, 0);
        for number in numbers.into_iter().rev() {
            let path = self.path_of(number);
            total = total.saturating_add(self.vfs.metadata(&path).at(&path)?.size);
            left += 1;
            if left > 1 && (total > bytes || left > count) {
                // Those before it are older still.
                total = u64::MAX;
                self.remove(number)?;
            }
        }
        Ok(())
    }

    /// Removes all, what is damaged included; tells how many there were.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn discard(&self) -> Result<u32> {
        let names = self.names()?;
        // The later ones first: what is left by a crash must not look like the last.
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        for number in numbers.iter().rev() {
            self.remove(*number)?;
        }
        for rest in names.iter().filter(|name| number(name).is_none()) {
            self.remove_name(rest)?;
        }
        if !names.is_empty() {
            self.vfs.sync_dir(&self.dir).at(&self.dir)?;
        }
        Ok(numbers.len() as u32)
    }

    /// Those of mailboxes that stood at the path of this one and had another identity, as if they
    /// were this one's. Costs a listing of the state folder and an opening for each mailbox with
    /// something kept.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn of_former(&self) -> Result<Vec<Self>> {
        let state = self.dir.parent().unwrap_or(&self.dir);
        let mut former = Vec::new();
        for name in list(&*self.vfs, state)?.iter().take(KEPT_FOLDERS_MAX) {
            let Some(id) = name.strip_suffix(SUFFIX).filter(|id| id.len() == 32) else { continue };
            let Ok(id) = u128::from_str_radix(id, 16) else { continue };
            if id == self.identity.id {
                continue;
            }
            let identity = Identity { id, ..self.identity.clone() };
            let folder = Self { vfs: Arc::clone(&self.vfs), dir: state.join(name), identity };
            let Some(last) = folder.numbers()?.last().copied() else { continue };
            // What cannot be read is not found.
            if let Ok(Some(kept)) = folder.open(last)
                && kept.from().path == self.identity.path
            {
                former.push(folder);
            }
        }
        Ok(former)
    }

    fn path_of(&self, number: u64) -> PathBuf {
        self.dir.join(name(number))
    }

    fn remove_name(&self, name: &str) -> Result<()> {
        let path = self.dir.join(name);
        match self.vfs.remove_file(&path) {
            Err(error) if !is_absent(&error) => Err(error).at(&path),
            _ => Ok(()),
        }
    }

    fn names(&self) -> Result<Vec<String>> {
        list(&*self.vfs, &self.dir)
    }
}

/// The names in a folder; none if it is not there.
fn list(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<String>> {
    let folder = match vfs.open_dir(dir) {
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        result => result.at(dir)?,
    };
    let mut names = Vec::new();
    let mut add = |name: &[u8], _| names.extend(String::from_utf8(name.to_vec()));
    folder.list(&mut add).at(dir)?;
    Ok(names)
}

fn name(number: u64) -> String {
    format!("{number:08}")
}

fn number(name: &str) -> Option<u64> {
    let is_number = name.len() >= 8 && name.bytes().all(|byte| byte.is_ascii_digit());
    name.parse().ok().filter(|_| is_number)
}

//! The folder of a mailbox's kept expunges.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::{Timestamp, Vfs};

use super::{Expunged, ExpungedWriter, KeptFrom, links_path};
use crate::Identity;
use crate::error::{At, Result};
use crate::limits::KEPT_FOLDERS_MAX;
use crate::modes::is_absent;

/// Suffix of the folder of a mailbox's kept expunges.
const SUFFIX: &str = ".kept";
/// Suffix of a folder of links.
const LINKS_SUFFIX: &str = ".links";

/// The kept expunges of a mailbox, each a numbered file. A writer must hold the lock of the pending
/// changes ([`crate::Pending::lock`]).
#[derive(Clone, Debug)]
pub struct KeptFolder {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    identity: Identity,
}

impl KeptFolder {
    /// Returns the folder of a mailbox in the state folder `dir`. Does no I/O.
    pub fn new(vfs: Arc<dyn Vfs>, dir: &Path, identity: &Identity) -> Self {
        let dir = dir.join(format!("{:032x}{SUFFIX}", identity.id));
        Self { vfs, dir, identity: identity.clone() }
    }

    /// Returns the numbers of the kept expunges, ascending; none if there is no folder. Costs one
    /// listing.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn numbers(&self) -> Result<Vec<u64>> {
        let mut numbers: Vec<u64> = self.names()?.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Opens a kept expunge; `None` if it does not exist. Writes nothing.
    ///
    /// # Errors
    /// [`crate::Error::Version`] for a file of another version; [`crate::Error::Damaged`] if its
    /// header is damaged; [`crate::Error::Io`].
    pub fn open(&self, number: u64) -> Result<Option<Expunged>> {
        Expunged::open(Arc::clone(&self.vfs), self.path_of(number), number, self.identity.id)
    }

    /// Begins the file that follows number `last`; returns its number and its writer.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn create(&self, last: Option<u64>, from: &KeptFrom) -> Result<(u64, ExpungedWriter)> {
        let number = last.unwrap_or(0).saturating_add(1);
        let (vfs, path) = (Arc::clone(&self.vfs), self.path_of(number));
        let writer = ExpungedWriter::create(vfs, &self.dir, path, &self.identity, from)?;
        Ok((number, writer))
    }

    /// Removes a kept expunge, if it exists. The removal is not durable when this returns.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn remove(&self, number: u64) -> Result<()> {
        self.remove_name(&name(number))?;
        remove_links(&*self.vfs, &links_path(&self.path_of(number)))
    }

    /// Removes expired expunges, then the oldest until the rest is within the `bytes` and `count`
    /// of `bounds`, and leftovers of interrupted writers. With `keeps_last` it never removes the
    /// newest. The removals are not durable when this returns.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn prune(&self, now: Timestamp, bounds: &KeptBounds) -> Result<()> {
        let names = self.names()?;
        let numbers = self.numbers()?;
        for name in &names {
            let of = name.strip_suffix(LINKS_SUFFIX);
            let is_left = of.and_then(number).is_some_and(|number| !numbers.contains(&number));
            if name.ends_with(".tmp") {
                self.remove_name(name)?;
            } else if is_left {
                remove_links(&*self.vfs, &self.dir.join(name))?;
            }
        }
        let (mut total, mut left) = (0_u64, 0);
        for number in numbers.into_iter().rev() {
            let (bytes, until) = self.bytes_and_end(number)?;
            let is_safe = left == 0 && bounds.keeps_last;
            if !is_safe && until.is_some_and(|until| until <= now) {
                self.remove(number)?;
                continue;
            }
            total = total.saturating_add(bytes);
            left += 1;
            if !is_safe && (total > bounds.bytes || left > bounds.count) {
                // All older expunges are removed, too, even if a small one would fit.
                total = u64::MAX;
                self.remove(number)?;
            }
        }
        Ok(())
    }

    /// Returns the bytes of an expunge, its links included, and the time at which it expires. For a
    /// damaged file it returns its size and no time; for a missing one, 0 bytes.
    fn bytes_and_end(&self, number: u64) -> Result<(u64, Option<Timestamp>)> {
        match self.open(number) {
            Ok(Some(kept)) => Ok((kept.len(), Some(kept.from().until))),
            Ok(None) => Ok((0, None)),
            Err(crate::Error::Damaged { .. } | crate::Error::Version { .. }) => {
                let path = self.path_of(number);
                Ok((self.vfs.metadata(&path).at(&path)?.size, None))
            }
            Err(error) => Err(error),
        }
    }

    /// Sums up all kept expunges. Opens each of them.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn summary(&self) -> Result<KeptSummary> {
        let mut summary = KeptSummary::default();
        for number in self.numbers()? {
            let (bytes, until) = self.bytes_and_end(number)?;
            summary.expunges += 1;
            summary.bytes = summary.bytes.saturating_add(bytes);
            summary.until = summary.until.max(until);
        }
        Ok(summary)
    }

    /// Removes expired expunges of other mailboxes; a mailbox in which nothing is expunged any more
    /// does not prune its own. Costs a listing of the state folder, and a listing and an open for
    /// each mailbox with kept expunges.
    ///
    /// # Errors
    /// [`crate::Error::Io`] of listing and removing.
    pub fn prune_others(&self, now: Timestamp) -> Result<()> {
        let state = self.dir.parent().unwrap_or(&self.dir);
        for name in list(&*self.vfs, state)?.iter().take(KEPT_FOLDERS_MAX) {
            let Some(id) = id_of(name).filter(|id| *id != self.identity.id) else { continue };
            let identity = Identity { id, ..self.identity.clone() };
            let folder = Self { vfs: Arc::clone(&self.vfs), dir: state.join(name), identity };
            for number in folder.numbers()? {
                // Those after the first that has not expired are newer. What cannot be read is left
                // to the mailbox itself.
                match folder.bytes_and_end(number) {
                    Ok((_, Some(until))) if until <= now => folder.remove(number)?,
                    Ok((_, Some(_))) => break,
                    Ok((_, None)) | Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Removes all kept expunges, damaged ones included, durably; returns their number.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn discard(&self) -> Result<u32> {
        let names = self.names()?;
        // Newest first: after a crash, an expunge that is left must not look like the latest one.
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        for number in numbers.iter().rev() {
            self.remove(*number)?;
        }
        for rest in names.iter().filter(|name| number(name).is_none()) {
            match rest.ends_with(LINKS_SUFFIX) {
                true => remove_links(&*self.vfs, &self.dir.join(rest))?,
                false => self.remove_name(rest)?,
            }
        }
        if !names.is_empty() {
            self.vfs.sync_dir(&self.dir).at(&self.dir)?;
        }
        Ok(numbers.len() as u32)
    }

    /// Returns the folders of mailboxes that were at this mailbox's path under another identity.
    /// Costs a listing of the state folder, and a listing and an open for each mailbox with kept
    /// expunges.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn of_former(&self) -> Result<Vec<Self>> {
        let state = self.dir.parent().unwrap_or(&self.dir);
        let mut former = Vec::new();
        for name in list(&*self.vfs, state)?.iter().take(KEPT_FOLDERS_MAX) {
            let Some(id) = id_of(name).filter(|id| *id != self.identity.id) else { continue };
            let identity = Identity { id, ..self.identity.clone() };
            let folder = Self { vfs: Arc::clone(&self.vfs), dir: state.join(name), identity };
            let numbers = folder.numbers()?;
            // The newest that can be read names the mailbox.
            let kept = numbers.iter().rev().find_map(|number| folder.open(*number).ok().flatten());
            if kept.is_some_and(|kept| kept.from().path == self.identity.path) {
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

/// Totals of the kept expunges of a mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptSummary {
    /// Number of expunges.
    pub expunges: u32,
    /// Bytes of all of them, their links included.
    pub bytes: u64,
    /// Time at which the last of them expires; `None` if there is none that can be read.
    pub until: Option<Timestamp>,
}

/// Limits on the kept expunges of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptBounds {
    /// Maximum size of all expunges, in bytes.
    pub bytes: u64,
    /// Maximum number of expunges.
    pub count: usize,
    /// `true` to keep the newest expunge, whatever the other limits and its age.
    pub keeps_last: bool,
}

/// Returns the identity in the name of a folder of kept expunges.
fn id_of(name: &str) -> Option<u128> {
    let id = name.strip_suffix(SUFFIX).filter(|id| id.len() == 32)?;
    u128::from_str_radix(id, 16).ok()
}

/// Removes a folder of links, if it exists. The removal is not durable when this returns.
pub(super) fn remove_links(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    for name in list(vfs, dir)? {
        let path = dir.join(name);
        match vfs.remove_file(&path) {
            Err(error) if !is_absent(&error) => return Err(error).at(&path),
            _ => {}
        }
    }
    match vfs.remove_dir(dir) {
        Err(error) if !is_absent(&error) => Err(error).at(dir),
        _ => Ok(()),
    }
}

/// Returns the names in a folder that are UTF-8; none if the folder does not exist.
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

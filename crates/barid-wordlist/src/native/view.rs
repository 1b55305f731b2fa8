//! A consistent view of a list: its open tables and its log.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::Vfs;

use super::cursor::{Source, each};
use super::log::Log;
use super::table::Table;
use crate::error::At;
use crate::limits::{DELTA_PART, OPENINGS_MAX, SMALL_ENTRIES};
use crate::{Counts, Damage, Error, Result, TokenEntry};

/// Returns the path `<path>.<what>`.
pub(crate) fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".");
    name.push(what);
    PathBuf::from(name)
}

/// Returns the path of the log of a generation.
pub(crate) fn log_path(path: &Path, generation: u64) -> PathBuf {
    beside(path, &format!("log-{generation}"))
}

/// Returns the path of the table of a generation that is a base.
pub(crate) fn base_path(path: &Path, generation: u64) -> PathBuf {
    beside(path, &format!("base-{generation}"))
}

/// The open files of a list.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) top: Table,
    pub(crate) base: Option<Table>,
    pub(crate) log: Log,
    lost: Vec<Damage>,
}

impl View {
    /// Opens the files of a list. If one is missing, either the table was replaced meanwhile, and
    /// all are opened again, or the file is lost.
    pub(crate) fn open(vfs: &Arc<dyn Vfs>, path: &Path) -> Result<Self> {
        for _ in 0..OPENINGS_MAX {
            let top = Table::open(vfs, path)?;
            let log_path = log_path(path, top.header.generation);
            let base_path = base_path(path, top.header.base);
            let log = Log::open(vfs, &log_path, top.header.log())?;
            let base = match top.header.base {
                0 => Ok(None),
                _ => Table::open(vfs, &base_path).map(Some),
            };
            let is_whole = log.is_some() && base.is_ok();
            if !is_whole && vfs.metadata(path).at(path)?.inode != top.inode {
                continue;
            }
            let log = log.unwrap_or_else(|| Log::lost(&log_path, top.header.log()));
            let mut lost = Vec::new();
            let base = match base {
                Err(Error::NotFound { .. } | Error::Damaged { .. }) => {
                    lost.push(Damage { path: base_path, offset: 0, what: "the table is lost" });
                    None
                }
                base => base?,
            };
            return Ok(Self { top, base, log, lost });
        }
        Err(Error::Busy { path: path.to_owned() })
    }

    /// Reads the changes of others; returns `true` if there were any.
    pub(crate) fn refresh(&mut self, vfs: &Arc<dyn Vfs>, path: &Path) -> Result<bool> {
        let metadata = match vfs.metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::NotFound { path: path.to_owned() });
            }
            metadata => metadata.at(path)?,
        };
        if metadata.inode == self.top.inode {
            return self.log.follow();
        }
        let sequence = self.log.sequence;
        *self = Self::open(vfs, path)?;
        Ok(self.log.sequence != sequence)
    }

    /// Looks up the tokens for which `found` is `None`.
    pub(crate) fn find(&mut self, tokens: &[&[u8]], found: &mut [Option<Counts>]) -> Result<()> {
        self.log.find(tokens, found);
        self.top.find(tokens, found)?;
        match &mut self.base {
            Some(base) => base.find(tokens, found),
            None => Ok(()),
        }
    }

    /// Returns the entry of a token; `None` if it has none.
    pub(crate) fn entry(&mut self, token: &[u8]) -> Result<Option<TokenEntry>> {
        if let Some(entry) = self.log.entry(token) {
            return Ok(Some(entry));
        }
        match (self.top.entry_or_counts(token)?, &mut self.base) {
            (None, Some(base)) => base.entry_or_counts(token),
            (entry, _) => Ok(entry),
        }
    }

    /// Visits all keys in order, receipts included, until `visit` returns `false`.
    pub(crate) fn each(
        &mut self,
        visit: &mut dyn FnMut(&[u8], TokenEntry) -> Result<bool>,
    ) -> Result<()> {
        let changes = self.log.sorted();
        let mut sources = Vec::new();
        if !changes.is_empty() {
            sources.push(Source::changes(&changes)?);
        }
        sources.push(Source::table(&mut self.top)?);
        if let Some(base) = &mut self.base {
            sources.push(Source::table(base)?);
        }
        each(sources, visit)
    }

    /// Visits keys as [`View::each`] does, but only those of `changes`, the log and, if there is a
    /// base, the delta table.
    pub(crate) fn each_newer(
        &mut self,
        changes: &[(&[u8], TokenEntry)],
        visit: &mut dyn FnMut(&[u8], TokenEntry) -> Result<bool>,
    ) -> Result<()> {
        let log = self.log.sorted();
        let mut sources = vec![Source::changes(changes)?, Source::changes(&log)?];
        if self.base.is_some() {
            sources.push(Source::table(&mut self.top)?);
        }
        each(sources, visit)
    }

    /// Returns the sum of the numbers of keys of all parts.
    pub(crate) fn entries(&self) -> u64 {
        let base = self.base.as_ref().map_or(0, |base| base.header.entries);
        base + self.top.header.entries + self.log.entries()
    }

    /// Returns `true` if the oldest table is so small, or newer parts with `more` changes are so
    /// large, that the next merge should write a single table.
    pub(crate) fn merges_whole(&self, more: u64) -> bool {
        let (last, newer) = match &self.base {
            Some(base) => (base.header.entries, self.top.header.entries),
            None => (self.top.header.entries, 0),
        };
        last < SMALL_ENTRIES || (newer + self.log.entries() + more) * DELTA_PART > last
    }

    /// Returns `true` if the list is a single table with an empty log.
    pub(crate) fn is_compact(&self) -> bool {
        self.base.is_none() && self.log.entries() == 0
    }

    /// Returns the damage found so far.
    pub(crate) fn damage(&self) -> impl Iterator<Item = &Damage> {
        let tables = self.base.iter().chain([&self.top]);
        let damage = tables.flat_map(|table| &table.damage);
        damage.chain(&self.log.damage).chain(&self.lost)
    }
}

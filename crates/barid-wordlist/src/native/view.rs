//! The files of a list, open: its tables and its log, as they were at one moment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::Vfs;

use super::cursor::{Source, each};
use super::log::Log;
use super::table::Table;
use crate::error::At;
use crate::limits::{DELTA_PART, OPENINGS_MAX, SMALL_ENTRIES};
use crate::{Counts, Damage, Entry, Error, Result};

/// `<path>.<what>`.
pub(crate) fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".");
    name.push(what);
    PathBuf::from(name)
}

/// The log before the table of a generation.
pub(crate) fn log_path(path: &Path, generation: u64) -> PathBuf {
    beside(path, &format!("log-{generation}"))
}

/// The table of a generation behind a newer one.
pub(crate) fn base_path(path: &Path, generation: u64) -> PathBuf {
    beside(path, &format!("base-{generation}"))
}

/// The files of a list.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) top: Table,
    pub(crate) base: Option<Table>,
    pub(crate) log: Log,
    lost: Vec<Damage>,
}

impl View {
    /// Opens them. A file that is gone means that there is a newer table by now, or that it is
    /// lost.
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

    /// Looks for changes; whether there were some.
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

    /// Finds tokens that have no counts yet.
    pub(crate) fn find(&mut self, tokens: &[&[u8]], found: &mut [Option<Counts>]) -> Result<()> {
        self.log.find(tokens, found);
        self.top.find(tokens, found)?;
        match &mut self.base {
            Some(base) => base.find(tokens, found),
            None => Ok(()),
        }
    }

    /// All that is there of one token.
    pub(crate) fn entry(&mut self, token: &[u8]) -> Result<Option<Entry>> {
        if let Some(entry) = self.log.entry(token) {
            return Ok(Some(entry));
        }
        match (self.top.entry_or_counts(token)?, &mut self.base) {
            (None, Some(base)) => base.entry_or_counts(token),
            (entry, _) => Ok(entry),
        }
    }

    /// Shows everything in order, receipts included, until `visit` says `false`.
    pub(crate) fn each(
        &mut self,
        visit: &mut dyn FnMut(&[u8], Entry) -> Result<bool>,
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

    /// As [`View::each`], of what overrides the last table only, and `changes` before that.
    pub(crate) fn each_newer(
        &mut self,
        changes: &[(&[u8], Entry)],
        visit: &mut dyn FnMut(&[u8], Entry) -> Result<bool>,
    ) -> Result<()> {
        let log = self.log.sorted();
        let mut sources = vec![Source::changes(changes)?, Source::changes(&log)?];
        if self.base.is_some() {
            sources.push(Source::table(&mut self.top)?);
        }
        each(sources, visit)
    }

    /// Tokens of all parts; of the log only those that it has.
    pub(crate) fn entries(&self) -> u64 {
        let base = self.base.as_ref().map_or(0, |base| base.header.entries);
        base + self.top.header.entries + self.log.entries()
    }

    /// Whether the last table is so small, or so much overrides it, that the next merge is to be of
    /// everything.
    pub(crate) fn merges_whole(&self, more: u64) -> bool {
        let (last, newer) = match &self.base {
            Some(base) => (base.header.entries, self.top.header.entries),
            None => (self.top.header.entries, 0),
        };
        last < SMALL_ENTRIES || (newer + self.log.entries() + more) * DELTA_PART > last
    }

    /// Whether everything is in one table.
    pub(crate) fn is_compact(&self) -> bool {
        self.base.is_none() && self.log.entries() == 0
    }

    /// What is damaged, as far as it was read.
    pub(crate) fn damage(&self) -> impl Iterator<Item = &Damage> {
        let tables = self.base.iter().chain([&self.top]);
        let damage = tables.flat_map(|table| &table.damage);
        damage.chain(&self.log.damage).chain(&self.lost)
    }
}

//! barid's own word list: a table, a log of newer changes, and in large lists a delta table between
//! them.
//!
//! `docs/formats/wordlist.md` describes the format, `docs/design/wordlist.md` the reasons. A table
//! is never changed in place. The entry of a token in a newer part overrides those in older ones.
//! So a change is a record of the log with the new counts, and merging keeps the newest entry of
//! each token.
//!
//! Commit points: the fsync of a record of the log, or the rename of a new table. Readers take no
//! lock: files are opened by generation, and if one is missing, there is a newer table. Writers
//! hold `<path>.lock`.

mod commit;
mod cursor;
mod hashed;
mod header;
mod log;
mod sorted;
mod table;
mod view;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::{File, LockError, LockKind, LockMode, OpenOptions, Vfs, lock_file};

use self::header::Header;
use self::table::FILE_MODE;
use self::view::{View, beside};
use crate::batch::{Bent, Op, ReceiptChanges};
use crate::entry::{content_of, is_receipt, keys, receipt_key};
use crate::error::At;
use crate::limits::{DAMAGE_MAX, LOCK_TIMEOUT, LOG_LEN_FULL, LOG_LEN_MAX};
use crate::{
    Batch, Beside, Change, Conflict, Conflicts, Counts, Damage, Decide, Error, Receipt, Result,
    Rewritten, TokenEntry, Updated, Visit, WordList,
};

/// Options of a new list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// The date of its special keys as YYYYMMDD; 0 for none.
    pub date: u32,
    /// The value of [`keys::ENCODING`]; with `None` the list gets no special keys, like one that
    /// `bogoutil -l` creates.
    pub encoding: Option<u32>,
}

/// barid's own word list.
#[derive(Debug)]
pub struct Native {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    view: View,
    poisoned: bool,
    damage: Vec<Damage>,
    healed: Vec<Damage>,
    /// Results of the last lookup, kept to reuse the memory.
    found: Vec<Option<Counts>>,
}

impl Native {
    /// Opens a list. Costs two or three opens and as many reads, whatever its size.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Damaged`], [`Error::Version`], [`Error::Io`].
    pub fn open(vfs: Arc<dyn Vfs>, path: &Path) -> Result<Self> {
        let view = View::open(&vfs, path)?;
        let path = path.to_owned();
        let (damage, healed, found) = (Vec::new(), Vec::new(), Vec::new());
        let mut list = Self { vfs, path, view, poisoned: false, damage, healed, found };
        list.collect_damage();
        Ok(list)
    }

    /// Creates a list; its folder must exist. Durable when this returns.
    ///
    /// # Errors
    /// [`Error::Io`], with `AlreadyExists` if the path exists; [`Error::Busy`].
    pub fn create(vfs: Arc<dyn Vfs>, path: &Path, created: &Created) -> Result<Self> {
        let lock = lock(&*vfs, path)?;
        if vfs.symlink_metadata(path).is_ok() {
            return Err(std::io::ErrorKind::AlreadyExists.into()).at(path);
        }
        let mut random = [0; 24];
        vfs.random(&mut random).at(path)?;
        let mut header = Header { generation: 1, ..Header::default() };
        header.id.copy_from_slice(&random[..16]);
        header.seed = barid_vfs::le::u64_at(&random, 16);
        let mut entries = Vec::new();
        if let Some(encoding) = created.encoding {
            let entry = |spam| TokenEntry { spam, ham: 0, date: created.date };
            entries.push((keys::ENCODING, entry(encoding)));
            entries.push((keys::WORDLIST_VERSION, entry(keys::VERSION)));
        }
        commit::begin(&*vfs, path, header, &entries)?;
        drop(lock);
        Self::open(vfs, path)
    }

    /// Opens a list, or creates it if it does not exist.
    ///
    /// # Errors
    /// As [`Native::open`] and [`Native::create`].
    pub fn open_or_create(vfs: Arc<dyn Vfs>, path: &Path, created: &Created) -> Result<Self> {
        match Self::open(Arc::clone(&vfs), path) {
            Err(Error::NotFound { .. }) => {}
            opened => return opened,
        }
        match Self::create(Arc::clone(&vfs), path, created) {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::AlreadyExists => {
                Self::open(vfs, path)
            }
            created => created,
        }
    }

    /// Returns the path of the list.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns an upper bound of the number of keys: those that a newer part overrides are counted
    /// twice.
    pub fn tokens_max(&self) -> u64 {
        self.view.entries()
    }

    fn collect_damage(&mut self) {
        for damage in self.view.damage() {
            if self.damage.len() < DAMAGE_MAX && !self.damage.contains(damage) {
                self.damage.push(damage.clone());
            }
        }
    }

    /// Takes the lock of writers and refreshes the view.
    fn begin(&mut self) -> Result<Box<dyn File>> {
        if self.poisoned {
            return Err(Error::Poisoned { path: self.path.clone() });
        }
        let lock = lock(&*self.vfs, &self.path)?;
        self.view.refresh(&self.vfs, &self.path)?;
        self.collect_damage();
        Ok(lock)
    }

    fn find(&mut self, tokens: &[&[u8]]) -> Result<()> {
        self.found.clear();
        self.found.resize(tokens.len(), None);
        self.view.find(tokens, &mut self.found)?;
        self.collect_damage();
        Ok(())
    }

    /// Computes the new receipts of a batch and the conflicts with existing ones.
    fn train(&mut self, batch: &Batch, generation: u64) -> Result<NativeReceiptChanges> {
        if batch.trainings().is_empty() {
            return Ok(NativeReceiptChanges::default());
        }
        let contents: Vec<u128> = batch.trainings().iter().map(|one| one.content).collect();
        let found = contents.iter().copied().zip(self.receipts(&contents)?);
        let found: HashMap<u128, Option<Receipt>> = found.collect();
        let find = |content: u128| Ok(found.get(&content).copied().flatten());
        let ReceiptChanges { receipts, conflicts } = batch.receipt_changes(generation, find)?;
        let entry = |(content, receipt): (u128, Option<Receipt>)| {
            let void = TokenEntry { date: batch.date(), ..TokenEntry::default() };
            (receipt_key(content), receipt.map_or(void, Receipt::to_entry))
        };
        Ok(NativeReceiptChanges { receipts: receipts.into_iter().map(entry).collect(), conflicts })
    }

    /// Computes the entries of tokens after their changes.
    fn resolve<'a>(
        &mut self,
        ops: &[(&'a [u8], Op)],
        bent: &mut Bent,
    ) -> Result<Vec<(&'a [u8], TokenEntry)>> {
        let mut tokens: Vec<&[u8]> = ops.iter().map(|(token, _)| *token).collect();
        tokens.dedup();
        self.find(&tokens)?;
        let mut changes: Vec<(&[u8], TokenEntry)> = Vec::with_capacity(tokens.len());
        let mut found = tokens.iter().zip(&self.found);
        for (token, op) in ops {
            match changes.last_mut() {
                Some((last, entry)) if last == token => *entry = op.apply(Some(*entry), bent),
                _ => {
                    let counts = found.next().and_then(|(_, counts)| *counts);
                    let had = counts.map(|Counts { spam, ham }| TokenEntry { spam, ham, date: 0 });
                    changes.push((token, op.apply(had, bent)));
                }
            }
        }
        Ok(changes)
    }

    fn poison<T>(&mut self, result: Result<T>) -> Result<T> {
        self.poisoned |= result.is_err();
        result
    }

    fn apply(&mut self, ops: &[(&[u8], Op)], updated: &mut Updated) -> Result<()> {
        let mut bent = Bent::default();
        let len = ops.iter().map(|(token, _)| token.len() as u64 + 24).sum::<u64>();
        let joins = ops.iter().any(|(_, op)| matches!(op, Op::Join(_)));
        let is_large = len > LOG_LEN_MAX;
        let whole = joins || !self.damage.is_empty();
        if whole || is_large && self.view.merges_whole(ops.len() as u64) {
            self.commit_whole(ops, &|_| false, &mut bent)?;
        } else {
            let changes = self.resolve(ops, &mut bent)?;
            if is_large || self.view.log.len() > LOG_LEN_FULL {
                self.commit_delta(&changes)?;
            } else {
                let appended = self.view.log.append(&*self.vfs, &changes);
                self.poison(appended)?;
                updated.afterwards = self.compact().err();
            }
        }
        (updated.saturated, updated.floored) = (bent.saturated, bent.floored);
        Ok(())
    }

    /// Merges the log if it is longer than [`LOG_LEN_MAX`].
    fn compact(&mut self) -> Result<()> {
        if self.view.log.len() <= LOG_LEN_MAX {
            return Ok(());
        }
        match self.view.merges_whole(0) {
            true => self.commit_whole(&[], &|_| false, &mut Bent::default()),
            false => self.commit_delta(&[]),
        }
    }
}

/// The receipts that a batch changes, with their new entries, and conflicts.
#[derive(Debug, Default)]
struct NativeReceiptChanges {
    receipts: Vec<([u8; crate::entry::RECEIPT_KEY_LEN], TokenEntry)>,
    conflicts: Vec<Conflict>,
}

impl WordList for Native {
    fn generation(&self) -> u64 {
        self.view.log.sequence
    }

    fn refresh(&mut self) -> Result<bool> {
        let changed = self.view.refresh(&self.vfs, &self.path)?;
        self.collect_damage();
        Ok(changed)
    }

    fn counts(&mut self, tokens: &[&[u8]], counts: &mut [Counts]) -> Result<()> {
        assert!(counts.len() >= tokens.len(), "a place for every token");
        self.find(tokens)?;
        for (count, found) in counts.iter_mut().zip(&self.found) {
            *count = found.unwrap_or_default();
        }
        Ok(())
    }

    fn entry(&mut self, token: &[u8]) -> Result<Option<TokenEntry>> {
        let entry = self.view.entry(token);
        self.collect_damage();
        entry
    }

    fn receipts(&mut self, contents: &[u128]) -> Result<Vec<Option<Receipt>>> {
        let keys: Vec<_> = contents.iter().map(|content| receipt_key(*content)).collect();
        let tokens: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        self.find(&tokens)?;
        Ok(self.found.iter().map(|found| found.and_then(Receipt::of_counts)).collect())
    }

    /// The commit point is the fsync of a record of the log or, for large batches and damaged
    /// lists, the rename of a new table. A crash leaves the list unchanged or completely changed.
    fn update(&mut self, batch: &Batch) -> Result<Updated> {
        let _lock = self.begin()?;
        let generation = self.generation() + 1;
        let trained = self.train(batch, generation)?;
        if !trained.conflicts.is_empty() && batch.conflicts() == Conflicts::Refuse {
            return Err(Error::Conflicts(trained.conflicts));
        }
        let receipts = trained.receipts.iter().map(|(key, entry)| (&key[..], Op::Set(*entry)));
        let ops: Vec<(&[u8], Op)> = receipts.chain(batch.sorted()).collect();
        let conflicts = trained.conflicts;
        let mut updated = Updated { generation, conflicts, ..Updated::default() };
        match ops.is_empty() {
            true => updated.generation = generation - 1,
            false => self.apply(&ops, &mut updated)?,
        }
        Ok(updated)
    }

    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        let done = self.view.each(&mut |token, entry| Ok(is_receipt(token) || visit(token, entry)));
        self.collect_damage();
        done
    }

    fn scan_receipts(&mut self, visit: &mut dyn FnMut(u128, Receipt)) -> Result<()> {
        // Receipts sort before all tokens.
        self.view.each(&mut |key, entry| {
            let receipt = content_of(key).zip(Receipt::of_counts(entry.counts()));
            receipt.into_iter().for_each(|(content, receipt)| visit(content, receipt));
            Ok(is_receipt(key))
        })
    }

    /// The commit point is the rename of the new table.
    fn rewrite_beside(
        &mut self,
        decide: &mut Decide<'_>,
        beside: &mut Beside<'_>,
    ) -> Result<Rewritten> {
        let _lock = self.begin()?;
        let (mut dropped, mut nth) = (Vec::<u64>::new(), 0_usize);
        let (mut batch, mut joins) = (Batch::new(0), Vec::new());
        let mut rewritten = Rewritten::default();
        self.view.each(&mut |token, entry| {
            if nth.is_multiple_of(64) {
                dropped.push(0);
            }
            nth += 1;
            let change = if is_receipt(token) { Change::Keep } else { decide(token, entry) };
            let goes = matches!(change, Change::Drop | Change::Rename(_));
            dropped[(nth - 1) / 64] |= u64::from(goes) << ((nth - 1) % 64);
            match change {
                Change::Keep => rewritten.kept += u64::from(!is_receipt(token)),
                Change::Drop => rewritten.dropped += 1,
                Change::Set(entry) => batch.set(token, entry)?,
                Change::Rename(name) => joins.push((name, entry)),
            }
            Ok(true)
        })?;
        self.collect_damage();
        // Renamed tokens are added after the changes of the tokens that they join.
        joins.iter().try_for_each(|(token, entry)| batch.join(token, *entry))?;
        rewritten.changed = batch.len() as u64;
        beside(&mut batch)?;
        let is_compact = self.view.is_compact() && self.damage.is_empty();
        if rewritten.dropped > 0 || !batch.is_empty() || !is_compact {
            let drops = |nth: usize| dropped[nth / 64] >> (nth % 64) & 1 == 1;
            self.commit_whole(&batch.sorted(), &drops, &mut Bent::default())?;
        }
        Ok(rewritten)
    }

    fn damage(&self) -> &[Damage] {
        &self.damage
    }

    fn healed(&self) -> &[Damage] {
        &self.healed
    }
}

/// Takes the lock of writers, waiting for others.
fn lock(vfs: &dyn Vfs, path: &Path) -> Result<Box<dyn File>> {
    let path = beside(path, "lock");
    let file = vfs.open(&path, OpenOptions::create(FILE_MODE)).at(&path)?;
    let how = (LockKind::Flock, LockMode::Exclusive);
    match lock_file(vfs, &*file, &path, how, LOCK_TIMEOUT) {
        Ok(()) => Ok(file),
        Err(LockError::Io { path, source }) => Err(Error::Io { path, source }),
        Err(_) => Err(Error::Busy { path }),
    }
}

//! Word lists in a store of `barid-kv`, with bogofilter's record format.
//!
//! A key is a token; its value is two or three 32-bit numbers: spam, ham, and the date unless it is
//! zero. A list of our own ([`Sharing::Own`]) is read and written under the rules of
//! [`barid_kv::Store`], and has receipts. One that bogofilter created ([`Sharing::Bogofilter`]) is
//! read and written in place, with the library that bogofilter uses, under the lock that bogofilter
//! takes on the file itself, or in SQLite's transactions; only records that bogofilter would write
//! are written.

mod record;
mod session;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use barid_kv::Choice;
use barid_vfs::Vfs;

use self::record::Order;
use self::session::Writing;
use crate::batch::{Bent, Op, ReceiptChanges};
use crate::entry::{content_of, is_receipt, keys, receipt_key};
use crate::{
    Batch, Beside, Change, Conflicts, Counts, Created, Decide, Error, Receipt, Result, Rewritten,
    TokenEntry, Updated, Visit, WordList,
};

/// Key of the generation in a list of our own.
const GENERATION: &[u8] = b"\0g";

/// Owner of a list's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Only barid uses the file.
    Own,
    /// The file belongs to bogofilter, which may use it at the same time.
    Bogofilter,
}

/// A word list in a store. Every call is a separate session, which waits for writers.
#[derive(Debug)]
pub struct OnStore {
    place: session::ListStore,
    generation: u64,
}

impl OnStore {
    /// Opens a list. For a file of bogofilter, `choice` must be the store of its build: bdb for
    /// Berkeley DB, tokyocabinet for Tokyo Cabinet, and [`barid_kv::registry::SQLITE`], which users
    /// cannot choose by name, for SQLite.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Store`], [`Error::Unsupported`] for a Berkeley DB file that is
    /// part of an environment with transactions.
    pub fn open(vfs: Arc<dyn Vfs>, path: &Path, choice: Choice, sharing: Sharing) -> Result<Self> {
        let place = session::ListStore::new(vfs, path, choice, sharing);
        place.check()?;
        let mut list = Self { place, generation: 0 };
        list.refresh()?;
        Ok(list)
    }

    /// Creates a list.
    ///
    /// # Errors
    /// As [`OnStore::open`]; [`Error::Store`] if the file exists.
    pub fn create(
        vfs: Arc<dyn Vfs>,
        path: &Path,
        choice: Choice,
        sharing: Sharing,
        created: &Created,
    ) -> Result<Self> {
        let place = session::ListStore::new(vfs, path, choice, sharing);
        let mut writing = place.create()?;
        let mut batch = barid_kv::Batch::new();
        let mut put = |key, spam| {
            let entry = TokenEntry { spam, ham: 0, date: created.date };
            batch.put_with(key, |bytes| place.order.put(bytes, entry));
        };
        if let Some(encoding) = created.encoding {
            put(keys::ENCODING, encoding);
            put(keys::WORDLIST_VERSION, keys::VERSION);
        }
        if sharing == Sharing::Own {
            put(GENERATION, 1);
        }
        place.mark(&mut batch);
        writing.apply(&batch)?;
        writing.close()?;
        Self::open(Arc::clone(&place.vfs), path, choice, sharing)
    }

    /// Returns the path of the list.
    pub fn path(&self) -> &Path {
        &self.place.path
    }

    fn own(&self) -> bool {
        self.place.sharing == Sharing::Own
    }

    /// Reads the current generation of the list; for a file of bogofilter, its modification time.
    fn generation_in(&self, get: &mut Get<'_>) -> Result<u64> {
        if self.own() {
            let entry = get(GENERATION)?.unwrap_or_default();
            return Ok(u64::from(entry.ham) << 32 | u64::from(entry.spam));
        }
        Ok(self.place.modified()?.unix_nanos.unsigned_abs())
    }

    /// Computes the new receipts of a batch and the conflicts with existing ones.
    fn train(
        &self,
        batch: &Batch,
        generation: u64,
        writing: &mut Writing,
    ) -> Result<ReceiptChanges> {
        if batch.trainings().is_empty() {
            return Ok(ReceiptChanges::default());
        }
        if !self.own() {
            return Err(self.without_receipts());
        }
        batch.receipt_changes(generation, |content| {
            let entry = writing.get(&receipt_key(content))?;
            Ok(entry.map(TokenEntry::counts).and_then(Receipt::of_counts))
        })
    }

    fn without_receipts(&self) -> Error {
        let what = "a word list of bogofilter has no receipts";
        Error::Unsupported { path: self.place.path.clone(), what }
    }

    /// Writes the next generation and ends the session.
    fn finish(&mut self, mut writing: Writing, mut batch: barid_kv::Batch) -> Result<u64> {
        if self.own() {
            let next = self.generation_in(&mut |key| writing.get(key))? + 1;
            let entry = TokenEntry { spam: next as u32, ham: (next >> 32) as u32, date: 0 };
            batch.put_with(GENERATION, |bytes| Order::Little.put(bytes, entry));
        }
        writing.apply(&batch)?;
        writing.close()?;
        self.refresh()?;
        Ok(self.generation)
    }
}

type Get<'a> = dyn FnMut(&[u8]) -> Result<Option<TokenEntry>> + 'a;

impl WordList for OnStore {
    fn generation(&self) -> u64 {
        self.generation
    }

    fn refresh(&mut self) -> Result<bool> {
        let before = self.generation;
        self.generation = match self.own() {
            true => {
                let mut reading = self.place.read()?;
                self.generation_in(&mut |key| reading.get(key))?
            }
            false => self.generation_in(&mut |_| Ok(None))?,
        };
        Ok(self.generation != before)
    }

    /// Looks tokens up in byte order, so that each page is read once.
    fn counts(&mut self, tokens: &[&[u8]], counts: &mut [Counts]) -> Result<()> {
        assert!(counts.len() >= tokens.len(), "a place for every token");
        let mut order: Vec<usize> = (0..tokens.len()).collect();
        if !tokens.is_sorted() {
            order.sort_unstable_by_key(|nth| tokens[*nth]);
        }
        let mut reading = self.place.read()?;
        for nth in order {
            counts[nth] = reading.get(tokens[nth])?.unwrap_or_default().counts();
        }
        Ok(())
    }

    fn entry(&mut self, token: &[u8]) -> Result<Option<TokenEntry>> {
        self.place.read()?.get(token)
    }

    fn receipts(&mut self, contents: &[u128]) -> Result<Vec<Option<Receipt>>> {
        if !self.own() {
            return Err(self.without_receipts());
        }
        let mut reading = self.place.read()?;
        let mut receipt = |content: &u128| -> Result<Option<Receipt>> {
            let entry = reading.get(&receipt_key(*content))?;
            Ok(entry.map(TokenEntry::counts).and_then(Receipt::of_counts))
        };
        contents.iter().map(&mut receipt).collect()
    }

    /// Commit point and crash safety are those of the store; see
    /// [`barid_kv::Capabilities::atomic`].
    fn update(&mut self, batch: &Batch) -> Result<Updated> {
        let mut writing = self.place.write()?;
        let before = self.generation_in(&mut |key| writing.get(key))?;
        let trained = match self.train(batch, before + 1, &mut writing) {
            Ok(trained) => trained,
            // Without closing the session, the store would have no seal of a clean close.
            Err(error) => return writing.close().and(Err(error)),
        };
        if !trained.conflicts.is_empty() && batch.conflicts() == Conflicts::Refuse {
            return writing.close().and(Err(Error::Conflicts(trained.conflicts)));
        }
        let mut updated = Updated { conflicts: trained.conflicts, ..Updated::default() };
        if batch.is_empty() {
            updated.generation = before;
            return writing.close().map(|()| updated);
        }
        let order = self.place.order;
        let mut changes = barid_kv::Batch::new();
        for (content, receipt) in trained.receipts {
            match receipt {
                Some(receipt) => changes.put_with(&receipt_key(content), |bytes| {
                    order.put(bytes, receipt.to_entry());
                }),
                None => changes.delete(&receipt_key(content)),
            }
        }
        let mut bent = Bent::default();
        let mut last: Option<(&[u8], TokenEntry)> = None;
        for (token, op) in batch.sorted() {
            let had = match last {
                Some((before, entry)) if before == token => Some(entry),
                _ => {
                    if let Some((token, entry)) = last {
                        changes.put_with(token, |bytes| order.put(bytes, entry));
                    }
                    match writing.get(token) {
                        Ok(had) => had,
                        Err(error) => return writing.close().and(Err(error)),
                    }
                }
            };
            last = Some((token, Op::apply(op, had, &mut bent)));
        }
        if let Some((token, entry)) = last {
            changes.put_with(token, |bytes| order.put(bytes, entry));
        }
        updated.generation = self.finish(writing, changes)?;
        (updated.saturated, updated.floored) = (bent.saturated, bent.floored);
        Ok(updated)
    }

    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        let mut show = |key: &[u8], entry| is_receipt(key) || visit(key, entry);
        self.place.read()?.scan(&mut show)
    }

    fn scan_receipts(&mut self, visit: &mut dyn FnMut(u128, Receipt)) -> Result<()> {
        self.place.read()?.scan(&mut |key, entry| {
            let receipt = content_of(key).zip(Receipt::of_counts(entry.counts()));
            receipt.into_iter().for_each(|(content, receipt)| visit(content, receipt));
            true
        })
    }

    fn rewrite_beside(
        &mut self,
        decide: &mut Decide<'_>,
        beside: &mut Beside<'_>,
    ) -> Result<Rewritten> {
        let mut writing = self.place.write()?;
        let mut rewritten = Rewritten::default();
        let (mut dropped, mut joins) = (Vec::new(), Vec::new());
        let mut set: HashMap<Vec<u8>, TokenEntry> = HashMap::new();
        let scanned = writing.scan(&mut |key, entry| {
            if is_receipt(key) {
                return true;
            }
            match decide(key, entry) {
                Change::Keep => rewritten.kept += 1,
                Change::Drop => dropped.push(key.to_vec()),
                Change::Set(entry) => drop(set.insert(key.to_vec(), entry)),
                Change::Rename(name) => joins.push((key.to_vec(), name, entry)),
            }
            true
        });
        // Without closing the session, the store would have no seal of a clean close.
        if let Err(error) = scanned {
            return writing.close().and(Err(error));
        }
        rewritten.dropped = dropped.len() as u64;
        rewritten.changed = (set.len() + joins.len()) as u64;
        let mut last = Batch::default();
        if let Err(error) = beside(&mut last) {
            return writing.close().and(Err(error));
        }
        if rewritten.dropped + rewritten.changed == 0 && last.is_empty() {
            return writing.close().map(|()| rewritten);
        }
        let order = self.place.order;
        let mut changes = barid_kv::Batch::new();
        let gone = joins.iter().map(|(token, ..)| token).chain(&dropped);
        let gone: HashSet<&[u8]> = gone.map(Vec::as_slice).collect();
        gone.iter().for_each(|token| changes.delete(token));
        let joins = joins.iter().map(|(_, name, entry)| (&name[..], Op::Join(*entry)));
        for (token, op) in joins.chain(last.sorted()) {
            let had = match set.get(token) {
                Some(entry) => Some(*entry),
                None if gone.contains(token) => None,
                None => match writing.get(token) {
                    Ok(had) => had,
                    Err(error) => return writing.close().and(Err(error)),
                },
            };
            set.insert(token.to_vec(), op.apply(had, &mut Bent::default()));
        }
        for (token, entry) in &set {
            changes.put_with(token, |bytes| order.put(bytes, *entry));
        }
        self.finish(writing, changes)?;
        Ok(rewritten)
    }
}

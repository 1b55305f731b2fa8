//! What every store is asked and what it answers.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use barid_vfs::Vfs;

use crate::{Batch, Capabilities, Library, Result};

/// Where a store is to keep its pairs, and how.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The file system; stores with a library of their own take it to be the operating system's.
    pub vfs: &'a Arc<dyn Vfs>,
    /// The file, or the folder of a store that keeps many.
    pub path: &'a Path,
    /// The compression of the store's own, one of [`Capabilities::builtin`]; `None` for none.
    pub builtin: Option<&'a str>,
    /// Whether a commit is on stable storage when [`KvWrite::apply`] returns. A cache never asks.
    pub durable: bool,
}

/// What a place is opened for writing for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Nothing is there yet, and nobody reads before [`KvWrite::close`]: what is written need not
    /// be whole before that. What is there all the same is an error.
    Create,
    /// Something is there; each batch is to be there whole or not at all, where the store can.
    Update,
}

/// A kind of store. `stores/` has one file for each, `registry.rs` the list.
///
/// Callers keep the order: a place is open in one writer, or in any number of readers, never both
/// ([`crate::Store`] sees to it). No method locks, waits or prints, but for those of
/// [`crate::registry::SQLITE`], whose sessions are transactions among those of other programs.
pub trait Kv: Debug + Send + Sync {
    /// Its name, as a user writes it: lower case.
    fn name(&self) -> &'static str;

    /// What it can and cannot do.
    fn capabilities(&self) -> &'static Capabilities;

    /// The library that it needs; `None` if it is built in.
    fn library(&self) -> Option<&'static Library>;

    /// Loads the library, unless that is done, and tells its version.
    ///
    /// # Errors
    /// [`crate::Error::Unavailable`], saying what to install.
    fn version(&self) -> Result<String>;

    /// Opens what is there for reading.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if nothing is there; [`crate::Error::Damaged`] if it cannot be
    /// what was written; [`crate::Error::Io`], [`crate::Error::Unavailable`].
    fn read(&self, place: &Place<'_>) -> Result<Box<dyn KvRead>>;

    /// Opens a place for writing.
    ///
    /// # Errors
    /// As [`Kv::read`]; with [`Purpose::Create`] also if something is there.
    fn write(&self, place: &Place<'_>, purpose: Purpose) -> Result<Box<dyn KvWrite>>;

    /// Whether it finds whatever is wrong with a file, and so needs no probe.
    fn trusted(&self) -> bool {
        false
    }

    /// Suffixes of the files that a store keeps beside `path`, for those that do.
    fn companions(&self) -> &'static [&'static str] {
        &[]
    }
}

/// Reads a store as it was when it was opened.
pub trait KvRead: Debug + Send {
    /// Shows the value of `key`; `false` if there is none. The bytes live as long as the call.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`], [`crate::Error::Io`].
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Visits all pairs whose key begins with `prefix` until `visit` says `false`: in the order of
    /// the keys' bytes where the store is [`Capabilities::ordered`], else in any order, each once.
    ///
    /// # Errors
    /// As [`KvRead::get`].
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()>;
}

/// Takes key and value; `false` ends the scan.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> bool + 'a;

/// Writes a store, and reads what it wrote.
pub trait KvWrite: KvRead {
    /// Does what the batch says, in its order; the commit point of [`Purpose::Update`].
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::Damaged`]; nothing of the
    /// batch counts then, where the store has [`Capabilities::atomic`].
    fn apply(&mut self, batch: &Batch) -> Result<()>;

    /// Closes the store; the commit point of [`Purpose::Create`]. Dropped without it, a new store
    /// is void.
    ///
    /// # Errors
    /// As [`KvWrite::apply`].
    fn close(self: Box<Self>) -> Result<()>;
}

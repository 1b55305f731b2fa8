//! The interface of all stores.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use barid_vfs::Vfs;

use crate::{Batch, Capabilities, Library, Result};

/// The location and options of a store.
#[derive(Clone, Copy, Debug)]
pub struct StoreSpec<'a> {
    /// The file system; stores with a library of their own assume that it is the operating
    /// system's.
    pub vfs: &'a Arc<dyn Vfs>,
    /// The file, or the folder of a store with several files.
    pub path: &'a Path,
    /// The built-in compression, one of [`Capabilities::builtin`]; `None` for none.
    pub builtin: Option<&'a str>,
    /// `true` if a commit must be on stable storage when [`KvWrite::apply`] returns. Caches never
    /// need it.
    pub durable: bool,
}

/// The purpose of opening a store for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Creates the store. It must not exist, and nobody reads it before [`KvWrite::close`]: until
    /// then an interrupted write may leave it incomplete.
    Create,
    /// Changes an existing store; each batch must be applied completely or not at all, if the store
    /// supports that.
    Update,
}

/// A kind of store. `stores/` has one file for each, `registry.rs` the list.
///
/// Callers follow these rules: a store is open in one writer, or in any number of readers, never
/// both ([`crate::Store`] enforces that). No method locks, waits or prints, except those of
/// [`crate::registry::SQLITE`], whose sessions are transactions beside those of other programs.
pub trait Kv: Debug + Send + Sync {
    /// Returns its name, in lower case, as the user writes it.
    fn name(&self) -> &'static str;

    /// Returns its capabilities.
    fn capabilities(&self) -> &'static Capabilities;

    /// Returns the library that it needs; `None` if it is built in.
    fn library(&self) -> Option<&'static Library>;

    /// Loads the library, unless it is already loaded, and returns its version.
    ///
    /// # Errors
    /// Returns [`crate::Error::Unavailable`], which names the package to install.
    fn version(&self) -> Result<String>;

    /// Opens an existing store for reading.
    ///
    /// # Errors
    /// Returns [`crate::Error::NotFound`] if the store does not exist; [`crate::Error::Damaged`] if
    /// it differs from what was written; [`crate::Error::Io`], [`crate::Error::Unavailable`].
    fn read(&self, place: &StoreSpec<'_>) -> Result<Box<dyn KvRead>>;

    /// Opens a store for writing.
    ///
    /// # Errors
    /// As [`Kv::read`]; with [`Purpose::Create`] also if the store exists.
    fn write(&self, place: &StoreSpec<'_>, purpose: Purpose) -> Result<Box<dyn KvWrite>>;

    /// Returns `true` if the store detects any damage of a file itself, and so needs no probe.
    fn trusted(&self) -> bool {
        false
    }

    /// Returns the suffixes of the files that the store keeps beside `path`, if any.
    fn companions(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the prefix of the name under which the library fills the file of a new store before
    /// it renames it, if it does so. A killed process leaves that file behind, and the library
    /// refuses to create the store as long as it exists.
    fn unfinished_prefix(&self) -> Option<&'static str> {
        None
    }
}

/// A reader of a store in its state at opening.
pub trait KvRead: Debug + Send {
    /// Passes the value of `key` to `visit`; `false` if there is none. The bytes are valid during
    /// the call.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`], [`crate::Error::Io`].
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Visits all pairs whose key begins with `prefix` until `visit` returns `false`: in the order
    /// of the keys' bytes if the store is [`Capabilities::ordered`], else in any order, each once.
    ///
    /// # Errors
    /// As [`KvRead::get`].
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()>;
}

/// A callback for a key and its value; `false` ends the scan.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> bool + 'a;

/// A writer of a store, which also reads its own writes.
pub trait KvWrite: KvRead {
    /// Applies a batch, in its order; the commit point of [`Purpose::Update`].
    ///
    /// # Errors
    /// Returns [`crate::Error::Io`] or [`crate::Error::Damaged`]; the batch then has no effect if
    /// the store has [`Capabilities::atomic`].
    fn apply(&mut self, batch: &Batch) -> Result<()>;

    /// Closes the store; the commit point of [`Purpose::Create`]. A new store that is dropped
    /// without it is void.
    ///
    /// # Errors
    /// As [`KvWrite::apply`].
    fn close(self: Box<Self>) -> Result<()>;
}

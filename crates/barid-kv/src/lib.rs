//! Key-value stores behind one trait, and compressors of single records.
//!
//! A [`Store`] is a path with the [`Kv`] that stores pairs there. [`Store::read`] and
//! [`Store::write`] open short sessions under barid's own lock, whatever the rules of the library
//! are; [`registry`] lists the stores. Libraries are loaded on first use.

mod batch;
mod capabilities;
mod choice;
pub mod compress;
mod error;
mod ffi;
mod files;
mod kv;
mod library;
pub mod limits;
mod lock;
mod probe;
pub mod registry;
mod seal;
mod store;
mod stores;

pub use batch::{Batch, Op};
pub use capabilities::{Capabilities, Library};
pub use choice::Choice;
pub use compress::Compression;
pub use error::{Error, Result};
pub use kv::{Kv, KvRead, KvWrite, Purpose, StoreSpec, Visit};
pub use store::{Reader, Space, Store, Writer};
pub use stores::sqlite::close_sqlite_file;

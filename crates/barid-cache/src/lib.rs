//! The header cache: one file per mailbox, which answers all requests except those for the text of
//! messages.
//!
//! A scan of a whole mailbox fills a [`Builder`], which becomes a [`Snapshot`]. A [`Snapshot`] of
//! any size is opened in a few system calls, and reads only the requested blocks.
//! `docs/formats/cache.md` has the byte map.
//!
//! The cache may vanish at any moment, is never fsynced and never contains the only copy of
//! anything. All data is verified when read: a damaged file is detected and built again.

mod additions;
mod base;
mod blocks;
mod builder;
mod bulk;
mod column;
mod columns;
mod core_row;
mod delta;
mod derived;
mod dir;
mod error;
mod figures;
mod follow;
mod header;
mod heap;
mod kept;
mod known;
pub mod limits;
mod log;
mod meta;
mod modseqs;
mod options;
mod overlay;
mod pack;
mod parse;
mod random;
mod record;
mod records;
mod refresh;
mod restate;
mod rewrite;
mod rows;
mod shared;
mod shifts;
mod since;
mod sink;
mod snapshot;
mod spool;
mod store;
mod thread_row;
mod verify;

pub use additions::ColumnLens;
pub use builder::{Builder, Finish, KeepModSeq, PreparedCache};
pub use core_row::Core;
pub use delta::Delta;
pub use derived::Derived;
pub use dir::{CacheContent, CacheDir, CacheEntry, Pruned, file_name};
pub use error::{Damage, Error, Result, ScanFault};
pub use figures::Figures;
pub use follow::{Follow, Follower};
pub use meta::Meta;
pub use options::{CacheOptions, StoreKind};
pub use record::Record;
pub use rewrite::convert;
pub use since::Since;
pub use snapshot::{Opened, RecordBuf, Snapshot};
pub use thread_row::{IdHash, ThreadView};
pub use verify::{RecordFault, VerifyReport, verify};

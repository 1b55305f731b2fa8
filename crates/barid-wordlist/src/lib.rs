//! The word lists of the spam filter: counts of spam and ham messages for every token.
//!
//! A [`WordList`] looks up the counts of many tokens at once, applies a [`Batch`] of changes
//! atomically, and iterates over all tokens in byte order. [`Native`] is barid's own format: tables
//! that are never changed in place, and a log of newer changes (`docs/formats/wordlist.md`).
//! [`OnStore`] is any store of `barid-kv` with bogofilter's record format, bogofilter's own files
//! included; [`open_list`] detects the kind of a file. [`remote`] queries a daemon that has the
//! list open. [`Sums`] collects the tokens of many messages for a batch. [`dump`], [`load`],
//! [`maintain`], [`merge`] and [`robx`] do what `bogoutil` does.

mod any;
mod batch;
mod date;
mod entry;
mod error;
mod interner;
pub mod limits;
mod list;
mod maintain;
mod native;
pub mod remote;
mod robx;
mod store;
mod sums;
mod text;
mod varint;

pub use any::{AnyList, Build, builds, open_list, store_of_bogofilter};
pub use batch::{Batch, Conflicts};
pub use date::{date_of, day_of, today};
pub use entry::{Class, Counts, Receipt, TokenEntry, keys};
pub use error::{Damage, Error, Result};
pub use interner::Interner;
pub use list::{Beside, Change, Conflict, Decide, Rewritten, Updated, Visit, WordList};
pub use maintain::{Maintain, Merged, maintain, merge, oldest};
pub use native::{Created, Native};
pub use robx::{Robx, robx, store_robx};
pub use store::{OnStore, Sharing};
pub use sums::{DistinctTokens, Sums, storable_hashed, storable_tokens};
pub use text::{Load, Loaded, check_dump, dump, load};

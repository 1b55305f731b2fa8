//! The spam filter's word lists: how often every token was seen in spam and in ham.
//!
//! A [`WordList`] answers counts of many tokens at once, takes a [`Batch`] of changes whole or not
//! at all, and shows everything in the order of the tokens' bytes. [`Native`] is barid's own: one
//! table that is never changed in place, and a log before it (`docs/formats/wordlist.md`).
//! [`OnStore`] is any store of `barid-kv` in bogofilter's record form, bogofilter's own files
//! included. [`dump`], [`load`], [`maintain`], [`merge`] and [`robx`] do what `bogoutil` does.

mod batch;
mod date;
mod entry;
mod error;
pub mod limits;
mod list;
mod maintain;
mod native;
mod robx;
mod store;
mod text;
mod varint;

pub use batch::{Batch, Conflicts};
pub use date::{date_of, day_of};
pub use entry::{Class, Counts, Entry, Receipt, keys};
pub use error::{Damage, Error, Result};
pub use list::{Beside, Change, Conflict, Decide, Rewritten, Updated, Visit, WordList};
pub use maintain::{Maintain, Merged, maintain, merge, oldest};
pub use native::{Created, Native};
pub use robx::{Robx, robx, store_robx};
pub use store::{OnStore, Sharing};
pub use text::{Load, Loaded, check_dump, dump, load};

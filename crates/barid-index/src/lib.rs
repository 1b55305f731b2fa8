//! An index of the texts of messages, which can miss no match.
//!
//! A [`Builder`] takes the folded texts of messages and writes a segment, a file that never
//! changes; [`Segment::find`] answers which of its documents contain a text for certain, and which
//! may. The others do not, whatever the text is: a part of a word, a phrase, punctuation, any
//! script. `docs/design/index.md` has the reasons, `docs/formats/index.md` the byte map.
//!
//! It is a cache: it may vanish at any moment, is never fsynced, and all data is verified when it
//! is read. Damage is `None`, and whoever asked reads the messages instead.

mod build;
mod codec;
mod doc;
mod doc_rows;
mod find;
pub mod limits;
mod manifest;
mod merge;
mod packed;
mod sealed;
mod segment;
mod terms;

pub use build::Builder;
pub use doc::{AttachmentTexts, Doc};
pub use doc_rows::{DocRows, DocRun};
pub use find::Answer;
pub use manifest::{Manifest, SegmentEntry};
pub use merge::{Merged, merge};
pub use segment::Segment;

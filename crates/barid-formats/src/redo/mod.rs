//! A redo journal for changes of some bytes of the files of one mailbox, in place.
//!
//! A [`Change`] lists, file by file, the bytes to be written, their offsets and the new length of
//! the file. [`apply`] carries it out so that a crash leaves all of it or nothing: the journal is
//! written and made durable, then the files are written in place and made durable, then the journal
//! is removed. A change within one sector of one file is written without a journal. [`recover`]
//! completes a change that was begun; it can be repeated. If a sector to be written contains
//! neither the old bytes nor the new ones, another program has written the files since: then they
//! are left as they are, and the journal is put aside. What others have only appended is kept.
//!
//! All functions here require that the caller holds the locks of the mailbox. Another program that
//! reads in the middle of a change sees what it would see in the middle of any change in place.
//!
//! The bytes of a journal: `docs/formats/redo-journal.md`.

mod apply;
mod change;
mod encode;
mod limits;
mod place;
mod plan;
#[cfg(test)]
mod tests;

pub(crate) use apply::{Cost, Mend, apply, recover, summary};
pub(crate) use change::{Change, FileChange};
pub(crate) use place::{JournalPath, JournalSearch};

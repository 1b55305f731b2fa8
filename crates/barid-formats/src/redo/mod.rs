//! A redo journal for changes of some bytes of the files of one mailbox, in place.
//!
//! A [`Change`] lists, file by file, which bytes are to be written where and how long the file is
//! to be. [`apply`] does it so that a crash leaves all of it or nothing: the journal is written and
//! made durable, then the files are written in place and made durable, then the journal goes. What
//! lies in one sector of one file is written without a journal. [`recover`] completes what was
//! begun; doing so again and again does no harm. If some sector of what is to be written holds
//! neither the old bytes nor the new ones, another program has written the files since: then they
//! are left as they are, and the journal is put aside. What others have only appended is kept.
//!
//! Everything here wants the caller to hold the locks of the mailbox. What another program reads in
//! the middle of a change is what it would read in the middle of any change in place.
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
pub(crate) use place::{Found, Place};

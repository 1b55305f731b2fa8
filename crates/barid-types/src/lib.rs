//! The vocabulary of barid: the values that a mail store exchanges with its clients.
//!
//! Names are those of RFC 9051 (IMAP4rev2), RFC 5322 and RFC 5256; `docs/glossary.md` lists them.
//! This crate holds values only: nothing here reads a file or parses a message.

mod civil;
mod date;
mod envelope;
mod flags;
mod structure;
mod uid;
mod uid_set;

pub use civil::CivilDay;
pub use date::{InternalDate, SentDate};
pub use envelope::{Address, Envelope};
pub use flags::{Flag, FlagSet, Keyword, KeywordMask, KeywordTable, KeywordTableFull};
pub use structure::{BodyStructure, Disposition, Parameter};
pub use uid::{ModSeq, SeqNum, Uid, UidValidity};
pub use uid_set::UidSet;

//! Saved messages: a folder of files whose names end with `.eml`, or one such file (RFC 5322, as
//! mail programs save and attach messages). They can only be read.
//!
//! `mh/` reads them as an MH folder without sequences: all are \Seen, the internal date is the time
//! of the file, UIDs are in the ledger by message key, in the order of names at first, and a file
//! that is renamed keeps its UID. Nothing is written, not even an identity: that is the path and
//! the inode. A file that is changed in place is noticed when it is read, or with a full check.
//!
//! They are detected only when a path is opened, and not in trees: a folder of a user that happens
//! to contain a saved message is not a mailbox for an IMAP client.

mod format;

pub(crate) use self::format::FORMATS;

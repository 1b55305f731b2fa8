//! The parameters of SELECT and EXAMINE (RFC 7162).

use barid_query::search::NumberSet;

/// The parameters of SELECT and EXAMINE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectParameters {
    /// CONDSTORE.
    pub condstore: bool,
    /// QRESYNC with what the client knows of the mailbox.
    pub qresync: Option<QresyncKnown>,
}

/// The state of a mailbox that a client knows (RFC 7162 §3.2.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QresyncKnown {
    /// The UIDVALIDITY.
    pub uidvalidity: u32,
    /// The mod-sequence.
    pub modseq: u64,
    /// The UIDs; `None` for all.
    pub uids: Option<NumberSet>,
    /// Sequence numbers and the UIDs that they had.
    pub numbers: Option<(NumberSet, NumberSet)>,
}

//! The data that a list shows of a message, without reading it.

use barid_cache::{Core, Record};
use barid_message::HeaderFields;
use barid_types::{Flag, FlagSet, InternalDate, KeywordMask, KeywordTable, ModSeq, SentDate, Uid};

use crate::shown::Shown;
use crate::{Result, View};

/// The cached data of one message.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    /// Row of the message; its sequence number less one.
    pub row: u32,
    /// UID of the message.
    pub uid: Uid,
    /// Mod-sequence of its last change.
    pub modseq: ModSeq,
    /// Date of arrival.
    pub internal_date: InternalDate,
    /// Date of sending, if the message has one that can be parsed.
    pub sent_date: Option<SentDate>,
    /// Flags, including pending changes.
    pub flags: FlagSet,
    /// Keywords, including pending changes.
    pub keywords: KeywordMask,
    /// Size in bytes as stored.
    pub size: u64,
    /// RFC822.SIZE, if known; see [`fill_rfc822_sizes`](crate::Mailbox::fill_rfc822_sizes).
    pub rfc822_size: Option<u64>,
    /// The header fields as in the message.
    pub fields: &'a HeaderFields<'a>,
    /// `true` if the message has more of some field than the cache: the field is longer, or occurs
    /// again.
    pub is_cut: bool,
    names: &'a KeywordTable,
}

impl<'a> Summary<'a> {
    /// Returns the names of its keywords, in the order of their slots.
    pub fn keyword_names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.names.select(self.keywords).map(|keyword| keyword.as_str())
    }

    pub(crate) fn new(
        row: u32,
        core: &Core,
        record: &'a Record<'a>,
        names: &'a KeywordTable,
        shown: &Shown,
    ) -> Self {
        let (flags, keywords, modseq) = shown.of_message(core);
        Self {
            row,
            uid: core.uid,
            modseq,
            internal_date: core.internal_date,
            sent_date: core.sent_date_own.then_some(core.sent_date),
            flags,
            keywords,
            size: core.size,
            rfc822_size: core.rfc822_size,
            fields: &record.fields,
            is_cut: record.cut,
            names,
        }
    }
}

impl View {
    /// Visits summaries of `rows` in the order given, until `visit` returns `false`.
    ///
    /// Reads each block of the cache once where the rows allow it; no message is read.
    ///
    /// # Errors
    /// A damaged cache, or a row that does not exist.
    pub fn summaries(
        &self,
        rows: &[u32],
        visit: &mut dyn FnMut(&Summary<'_>) -> bool,
    ) -> Result<()> {
        self.check_read()?;
        let names = self.keywords();
        let result = self.snapshot.records_while(rows, &mut |row, core, record| {
            visit(&Summary::new(row, core, record, names, &self.shown))
        });
        self.done(result)
    }

    /// Returns the UIDs of the messages that have `flag`, pending changes included, in ascending
    /// order. Reads no header texts.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn uids_with(&self, flag: Flag) -> Result<Vec<Uid>> {
        let mut uids = Vec::new();
        let result = self.snapshot.cores(0..self.len(), &mut |_, core| {
            if self.shown.of_message(core).0.contains(flag) {
                uids.push(core.uid);
            }
        });
        self.done(result)?;
        Ok(uids)
    }
}

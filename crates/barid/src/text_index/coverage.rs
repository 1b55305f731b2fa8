//! The messages of a mailbox that an index covers.

use std::collections::HashMap;
use std::io;
use std::ops::Range;

use barid_index::{AttachmentTexts, Doc, Segment};
use barid_state::MessageKey;
use xxhash_rust::xxh3::xxh3_64;

use super::place::OpenSegments;
use crate::{Result, View};

/// The document of each row.
pub(crate) struct Coverage {
    /// By row: the segment in the order of the manifest, and the document.
    docs: Vec<Option<CoveredDoc>>,
    /// The identity of each row.
    pub(super) rows: Vec<RowIdentity>,
    /// Identity of the programs that read attachments, if they are to be read.
    reader: Option<u32>,
    /// A segment whose documents cannot be read now: it covers nothing, and is not damaged.
    pub(super) unread: Option<(usize, io::Error)>,
    /// `true` if the documents of all segments were read, and are sound.
    pub(super) are_docs_whole: bool,
}

/// A document of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoveredDoc {
    pub(crate) segment: u32,
    pub(crate) doc: u32,
    /// `true` if the message is a candidate of every search.
    pub(crate) is_open: bool,
    /// `true` if the message has a field that is in no text of the index.
    pub(crate) has_more: bool,
    /// The texts of its attachments.
    attachments: AttachmentTexts,
    /// Identity of the programs that read them.
    reader: u32,
}

impl CoveredDoc {
    fn new(opened: &OpenSegments, segment: u32, doc: u32, known: &Doc) -> Self {
        let Doc { is_open, has_more, attachments, .. } = *known;
        let reader = opened.segment(segment as usize).map_or(0, Segment::reader);
        Self { segment, doc, is_open, has_more, attachments, reader }
    }

    /// Returns which texts of its attachments are there for a reader, or as any reader gave them.
    pub(crate) fn attachments(&self, reader: Option<u32>) -> AttachmentTexts {
        match self.attachments {
            AttachmentTexts::There { .. } if reader.is_some_and(|reader| reader != self.reader) => {
                AttachmentTexts::Missing
            }
            attachments => attachments,
        }
    }

    /// Returns `true` if it counts instead of an older document of the message: one with the texts
    /// that the reader gives is the best, one with those of another reader the second best.
    fn replaces(&self, other: &Self, reader: Option<u32>) -> bool {
        let rank = |doc: &Self| match (doc.attachments(reader), doc.attachments) {
            (AttachmentTexts::There { .. }, _) => 2,
            (_, AttachmentTexts::There { .. }) => 1,
            _ => 0,
        };
        rank(self) > 0 && rank(self) >= rank(other)
    }
}

/// The UID of a row, and a digest of its message.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowIdentity {
    pub(super) uid: u32,
    pub(super) digest: u64,
}

impl RowIdentity {
    /// Returns the identities of a stretch of rows.
    pub(super) fn of_rows(view: &View, rows: Range<u32>) -> Result<Vec<Self>> {
        let mut identities = Vec::with_capacity(rows.len());
        let read = view.snapshot.identities(rows, &mut |uid, key, body_len| {
            identities.push(Self { uid, digest: digest_of(key, body_len) });
        });
        view.done(read)?;
        Ok(identities)
    }
}

/// Returns the documents of a segment; none if it is damaged.
pub(super) fn docs_of(opened: &OpenSegments, number: usize) -> io::Result<Vec<Doc>> {
    let docs = opened.segment(number).map_or(Ok(None), Segment::docs)?;
    Ok(docs.unwrap_or_default())
}

/// Returns what a message is: the hash of its header, and the length of its body.
fn digest_of(key: MessageKey, body_len: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&key.0.to_le_bytes());
    bytes[8..].copy_from_slice(&body_len.to_le_bytes());
    xxh3_64(&bytes)
}

impl Coverage {
    /// Finds the documents of all rows.
    pub(super) fn of(view: &View, opened: &OpenSegments) -> Result<Self> {
        let rows = RowIdentity::of_rows(view, 0..view.len())?;
        let docs = (0..opened.segments.len()).map(|number| docs_of(opened, number)).collect();
        Ok(Self::new(view, opened, rows, docs))
    }

    /// Finds the documents of these rows, which are all, in these lists, which are of all segments.
    /// A document covers a row if its UID and what it is are the same; after a renumbering, if no
    /// other row and no other document is the same. Of several the one with the texts of its
    /// attachments counts, best those of `OpenOptions::attachments`.
    pub(super) fn new(
        view: &View,
        opened: &OpenSegments,
        rows: Vec<RowIdentity>,
        docs: Vec<io::Result<Vec<Doc>>>,
    ) -> Self {
        let mut unread = None;
        let docs = docs.into_iter().enumerate().map(|(number, docs)| {
            docs.unwrap_or_else(|error| {
                unread = Some((number, error));
                Vec::new()
            })
        });
        let docs: Vec<Vec<Doc>> = docs.collect();
        let reader = view.options.attachment_reader_id();
        let are_docs_whole = docs.iter().all(|docs| !docs.is_empty());
        let docs_by_row = vec![None; rows.len()];
        let mut coverage = Self { docs: docs_by_row, rows, reader, unread, are_docs_whole };
        if opened.manifest.uidvalidity == view.snapshot.meta().uidvalidity.get() {
            coverage.add_by_uid(opened, &docs);
        } else if are_docs_whole {
            coverage.add_by_digest(opened, &docs);
        }
        coverage
    }

    fn add_by_uid(&mut self, opened: &OpenSegments, docs: &[Vec<Doc>]) {
        for ((segment, docs), number) in opened.manifest.segments.iter().zip(docs).zip(0..) {
            let mut row = 0;
            for ((uid, doc), at) in segment.uids.iter().zip(docs).zip(0..) {
                let rest = &self.rows[row..];
                let is_next = rest.first().is_some_and(|known| known.uid >= *uid);
                row += match is_next {
                    true => 0,
                    false => rest.partition_point(|known| known.uid < *uid),
                };
                match self.rows.get(row) {
                    Some(known) if known.uid == *uid && known.digest == doc.digest => {
                        let new = CoveredDoc::new(opened, number, at, doc);
                        let known = self.docs[row].get_or_insert(new);
                        if new.replaces(known, self.reader) {
                            *known = new;
                        }
                        row += 1;
                    }
                    Some(_) => {}
                    None => break,
                }
            }
        }
    }

    fn add_by_digest(&mut self, opened: &OpenSegments, docs: &[Vec<Doc>]) {
        // Row, or `None` for several.
        let mut row_of: HashMap<u64, Option<usize>> = HashMap::with_capacity(self.rows.len());
        for (row, identity) in self.rows.iter().enumerate() {
            row_of.entry(identity.digest).and_modify(|row| *row = None).or_insert(Some(row));
        }
        let mut seen: HashMap<u64, u32> = HashMap::new();
        for doc in docs.iter().flatten() {
            *seen.entry(doc.digest).or_default() += 1;
        }
        for (docs, segment) in docs.iter().zip(0..) {
            for (doc, at) in docs.iter().zip(0..) {
                let row = row_of.get(&doc.digest).copied().flatten();
                if let Some(row) = row.filter(|_| seen[&doc.digest] == 1) {
                    self.docs[row] = Some(CoveredDoc::new(opened, segment, at, doc));
                }
            }
        }
    }

    /// Returns the documents by row; `None` for rows that are not covered.
    pub(super) fn docs(&self) -> &[Option<CoveredDoc>] {
        &self.docs
    }

    /// Returns the rows that are not covered, ascending; for a reader of attachments also those
    /// whose attachments it has not read.
    pub(super) fn uncovered(&self, reader: Option<u32>) -> Vec<u32> {
        let lacks = |doc: &CoveredDoc| {
            reader.is_some() && doc.attachments(reader) == AttachmentTexts::Missing
        };
        let rows = self.docs.iter().zip(0..);
        rows.filter(|(doc, _)| doc.as_ref().is_none_or(lacks)).map(|(_, row)| row).collect()
    }

    /// Returns the number of covered rows whose attachments have this state for the reader.
    pub(super) fn with_attachments(&self, is: impl Fn(AttachmentTexts) -> bool) -> u32 {
        let docs = self.docs.iter().flatten();
        docs.filter(|doc| is(doc.attachments(self.reader))).count() as u32
    }

    /// Returns the number of rows that are covered.
    pub(super) fn covered(&self) -> u32 {
        self.docs.iter().flatten().count() as u32
    }

    /// Returns the number of covered rows that are candidates of every search.
    pub(super) fn open(&self) -> u32 {
        self.docs.iter().flatten().filter(|doc| doc.is_open).count() as u32
    }
}

//! Building a segment in memory, message by message.

use std::io;
use std::path::Path;

use barid_query::search::{BitSet, TextKind};
use barid_vfs::Vfs;
use barid_vfs::le::{LeReader, PutLe};
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use crate::doc::{AttachmentTexts, Doc};
use crate::limits::{BUILDER_BYTES_MAX, DOC_BYTES_MAX, SEGMENT_DOCS_MAX};
use crate::segment::SegmentWriter;
use crate::terms::{GRAMS, TermSink, each_term};

/// A segment that is being built.
///
/// Messages are added one after another; each gets the next document number.
#[derive(Debug, Default)]
pub struct Builder {
    docs: Vec<Doc>,
    kinds: [KindBuilder; TextKind::ALL.len()],
    /// Bytes up to which the current message may grow the segment.
    limit: usize,
    /// The same for the texts of its attachments, once there is one.
    attachments_limit: Option<usize>,
    /// `true` if not all terms of its attachments are there.
    is_attachments_open: bool,
}

/// A term of a kind of text.
#[derive(Debug)]
struct Term {
    start: u32,
    len: u16,
    first: u32,
    last: u32,
    /// Number of documents.
    count: u32,
}

/// The terms of one kind of text.
#[derive(Debug)]
struct KindBuilder {
    arena: Vec<u8>,
    terms: Vec<Term>,
    by_text: HashTable<u32>,
    /// Terms of each document that were in an earlier one, as numbers of terms.
    again: DocLog,
    /// Boundaries of the current document, each once.
    current_grams: Vec<u32>,
    seen_grams: BitSet,
    grams: DocLog,
    doc: u32,
}

impl Default for KindBuilder {
    fn default() -> Self {
        Self {
            arena: Vec::new(),
            terms: Vec::new(),
            by_text: HashTable::new(),
            again: DocLog::default(),
            current_grams: Vec::new(),
            seen_grams: BitSet::none(GRAMS as u32),
            grams: DocLog::default(),
            doc: 0,
        }
    }
}

/// Numbers of each document, in turn.
#[derive(Debug, Default)]
struct DocLog {
    bytes: Vec<u8>,
    /// Documents with numbers, and where these end.
    ends: Vec<(u32, usize)>,
}

impl Builder {
    /// Begins a message; `digest` names what it is.
    pub fn begin(&mut self, digest: u64) {
        self.limit = self.bytes() + DOC_BYTES_MAX;
        let doc = self.docs.len() as u32;
        let attachments = AttachmentTexts::None;
        self.docs.push(Doc { digest, is_open: false, has_more: false, attachments });
        (self.attachments_limit, self.is_attachments_open) = (None, false);
        self.kinds.iter_mut().for_each(|kind| kind.doc = doc);
    }

    /// Adds a text of the current message, folded. A message of too many different terms is a
    /// candidate of every search.
    pub fn add(&mut self, kind: TextKind, text: &[u8]) {
        if self.docs.last().is_none_or(|doc| doc.is_open) {
            return;
        }
        let is_full = self.add_terms(kind, text, self.limit);
        if let Some(doc) = self.docs.last_mut() {
            doc.is_open = is_full;
        }
    }

    /// Adds the text of an attachment of the current message, folded, after all of its other texts.
    /// Too many different terms make it a candidate of searches in attachments only.
    pub fn add_attachment(&mut self, text: &[u8]) {
        let limit = self.bytes() + DOC_BYTES_MAX;
        let limit = *self.attachments_limit.get_or_insert(limit);
        if !self.is_attachments_open {
            self.is_attachments_open = self.add_terms(TextKind::Attachment, text, limit);
        }
    }

    /// Adds the terms of a text up to a limit of bytes in memory; returns `true` if it was reached.
    fn add_terms(&mut self, kind: TextKind, text: &[u8], limit: usize) -> bool {
        let left = limit.saturating_sub(self.bytes());
        let with_grams = has_grams(kind);
        let kind = &mut self.kinds[kind as usize];
        let mut sink = BoundedSink { limit: kind.bytes() + left, kind, is_full: false };
        each_term(text, with_grams, &mut sink);
        sink.is_full
    }

    /// Ends a message; `has_more` says that it has a field that is not among its texts, and
    /// `attachments` which texts of attachments were added. Returns `true` if the segment is to be
    /// written now.
    pub fn end(&mut self, has_more: bool, attachments: AttachmentTexts) -> bool {
        if let Some(doc) = self.docs.last_mut() {
            doc.has_more = has_more;
            doc.attachments = match attachments {
                AttachmentTexts::There { is_open, has_unread } => AttachmentTexts::There {
                    is_open: is_open || self.is_attachments_open,
                    has_unread,
                },
                other => other,
            };
        }
        self.kinds.iter_mut().for_each(KindBuilder::end_doc);
        self.docs.len() as u32 == SEGMENT_DOCS_MAX || self.bytes() >= BUILDER_BYTES_MAX
    }

    /// Returns the number of messages.
    pub fn len(&self) -> u32 {
        self.docs.len() as u32
    }

    /// Returns `true` if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.docs.is_empty()
    }

    /// Returns the bytes in memory, about.
    fn bytes(&self) -> usize {
        self.kinds.iter().map(KindBuilder::bytes).sum()
    }

    /// Writes the segment to a new file. `reader` is the identity of the programs that read
    /// attachments, 0 if no texts of any were added. The rename to `path` is the commit point;
    /// nothing is fsynced, as in every cache.
    ///
    /// # Errors
    /// Errors of the file system; there is no new file then.
    pub fn write(self, vfs: &dyn Vfs, path: &Path, reader: u32) -> io::Result<()> {
        let docs = self.docs.len() as u32;
        let kinds = self.kinds;
        SegmentWriter::write(vfs, path, (&self.docs, reader), |writer| {
            for (kind, builder) in TextKind::ALL.into_iter().zip(kinds) {
                builder.write(kind, docs, writer)?;
            }
            Ok(())
        })
    }
}

/// Returns `true` if the boundaries of a kind of text are indexed. Those of others are verified at
/// little cost, or seldom asked for; a candidate among attachments costs a process.
pub(crate) fn has_grams(kind: TextKind) -> bool {
    matches!(kind, TextKind::Body | TextKind::Header | TextKind::Attachment)
}

/// Adds terms up to a limit of bytes.
struct BoundedSink<'k> {
    kind: &'k mut KindBuilder,
    limit: usize,
    is_full: bool,
}

impl TermSink for BoundedSink<'_> {
    fn term(&mut self, term: &[u8]) {
        self.is_full |= self.kind.bytes() > self.limit;
        if !self.is_full {
            self.kind.term(term);
        }
    }

    fn gram(&mut self, gram: u32) {
        if !self.is_full && !self.kind.seen_grams.contains(gram) {
            self.kind.seen_grams.insert(gram);
            self.kind.current_grams.push(gram);
        }
    }
}

impl KindBuilder {
    fn bytes(&self) -> usize {
        // A term and its place in the table, at the load of the table.
        const TERM_LEN: usize = size_of::<Term>() + 8;
        self.arena.len()
            + self.terms.len() * TERM_LEN
            + self.again.bytes.len()
            + self.grams.bytes.len()
            + self.current_grams.len() * size_of::<u32>()
    }

    fn term(&mut self, text: &[u8]) {
        let Self { arena, terms, by_text, again, doc, .. } = self;
        let hash = xxh3_64(text);
        let text_of = |term: &Term| &arena[term.start as usize..][..usize::from(term.len)];
        let found = by_text.find(hash, |id| text_of(&terms[*id as usize]) == text).copied();
        let Some(id) = found else {
            let id = terms.len() as u32;
            let (start, len) = (arena.len() as u32, text.len() as u16);
            by_text.insert_unique(hash, id, |id| xxh3_64(text_of(&terms[*id as usize])));
            arena.extend_from_slice(text);
            terms.push(Term { start, len, first: *doc, last: *doc, count: 1 });
            return;
        };
        let term = &mut terms[id as usize];
        if term.last != *doc {
            term.last = *doc;
            term.count += 1;
            again.bytes.put_varint(id as usize);
        }
    }

    fn end_doc(&mut self) {
        self.again.end(self.doc);
        let grams = &mut self.current_grams;
        grams.sort_unstable();
        let mut last = 0;
        for gram in grams.drain(..) {
            self.seen_grams.remove(gram);
            self.grams.bytes.put_varint((gram - last) as usize);
            last = gram;
        }
        self.grams.end(self.doc);
    }

    fn write(self, kind: TextKind, docs: u32, writer: &mut SegmentWriter<'_>) -> io::Result<()> {
        let Self { arena, terms, again, grams, by_text, .. } = self;
        drop(by_text);
        let text_of = |term: &Term| &arena[term.start as usize..][..usize::from(term.len)];
        // Terms are in the order in which they were first met.
        for term in terms.iter().filter(|term| term.count == 1) {
            writer.single(kind, term.first, text_of(term))?;
        }
        let lists = Lists::of_terms(&terms, &again);
        for (term, list) in terms.iter().zip(lists.iter()).filter(|(term, _)| term.count > 1) {
            writer.shared(kind, text_of(term), list, docs)?;
        }
        drop(lists);
        if has_grams(kind) {
            let lists = Lists::of_grams(&grams);
            for (gram, list) in lists.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
                writer.gram(kind, gram as u32, list, docs)?;
            }
        }
        Ok(())
    }
}

impl DocLog {
    fn end(&mut self, doc: u32) {
        let last = self.ends.last().map_or(0, |(_, end)| *end);
        if self.bytes.len() > last {
            self.ends.push((doc, self.bytes.len()));
        }
    }

    /// Passes the documents with the numbers of each.
    fn each(&self, mut take: impl FnMut(u32, &mut dyn Iterator<Item = u32>)) {
        let mut start = 0;
        for (doc, end) in &self.ends {
            let mut reader = LeReader(&self.bytes[start..*end]);
            take(*doc, &mut std::iter::from_fn(|| Some(reader.varint()? as u32)));
            start = *end;
        }
    }
}

/// Lists of documents, one after another.
struct Lists {
    docs: Vec<u32>,
    /// The end of each so far; at first its start.
    ends: Vec<u32>,
}

impl Lists {
    /// Returns the documents of each term that is in several.
    fn of_terms(terms: &[Term], again: &DocLog) -> Self {
        let len = |term: &Term| if term.count > 1 { term.count } else { 0 };
        let mut lists = Self::with_lens(terms.iter().map(len).collect());
        for (id, term) in terms.iter().enumerate().filter(|(_, term)| term.count > 1) {
            lists.push(id, term.first);
        }
        again.each(|doc, ids| ids.for_each(|id| lists.push(id as usize, doc)));
        lists
    }

    /// Returns the documents of each boundary.
    fn of_grams(log: &DocLog) -> Self {
        let of_doc = |deltas: &mut dyn Iterator<Item = u32>, take: &mut dyn FnMut(usize)| {
            let mut gram = 0;
            deltas.for_each(|delta| {
                gram += delta;
                take(gram as usize);
            });
        };
        let mut lens = vec![0; GRAMS];
        log.each(|_, deltas| of_doc(deltas, &mut |gram| lens[gram] += 1));
        let mut lists = Self::with_lens(lens);
        log.each(|doc, deltas| of_doc(deltas, &mut |gram| lists.push(gram, doc)));
        lists
    }

    fn with_lens(lens: Vec<u32>) -> Self {
        let (mut total, mut ends) = (0, lens);
        for end in &mut ends {
            total += std::mem::replace(end, total);
        }
        Self { docs: vec![0; total as usize], ends }
    }

    fn push(&mut self, list: usize, doc: u32) {
        self.docs[self.ends[list] as usize] = doc;
        self.ends[list] += 1;
    }

    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let list = &self.docs[start..*end as usize];
            start = *end as usize;
            list
        })
    }
}

//! Building a segment in memory, message by message.

use std::io;
use std::path::Path;

use barid_query::search::TextKind;
use barid_vfs::Vfs;
use barid_vfs::le::{LeReader, PutLe};
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use crate::limits::{BUILDER_BYTES_MAX, DOC_BYTES_MAX, SEGMENT_DOCS_MAX};
use crate::segment::{Doc, SegmentWriter};
use crate::terms::{GRAMS, TermSink, each_term};

/// A segment that is being built.
///
/// Messages are added one after another; each gets the next document number.
#[derive(Debug, Default)]
pub struct Builder {
    docs: Vec<Doc>,
    kinds: [KindBuilder; TextKind::ALL.len()],
    /// Bytes at the beginning of the current message.
    bytes_before: usize,
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
#[derive(Debug, Default)]
struct KindBuilder {
    arena: Vec<u8>,
    terms: Vec<Term>,
    by_text: HashTable<u32>,
    /// Terms of each document that were in an earlier one, as numbers of terms.
    again: DocLog,
    /// Boundaries of the current document.
    current_grams: Vec<u32>,
    grams: DocLog,
    doc: u32,
}

/// Numbers of each document, in turn.
#[derive(Debug, Default)]
struct DocLog {
    bytes: Vec<u8>,
    /// Documents with numbers, and where these end.
    ends: Vec<(u32, usize)>,
}

impl Builder {
    /// Begins a message; `digest` names what it is, and `has_more` says that it has a field that is
    /// not among its texts.
    pub fn begin(&mut self, digest: u64, has_more: bool) {
        self.bytes_before = self.bytes();
        let doc = self.docs.len() as u32;
        self.docs.push(Doc { digest, is_open: false, has_more });
        self.kinds.iter_mut().for_each(|kind| kind.doc = doc);
    }

    /// Adds a text of the current message, folded. A message of too many different terms is a
    /// candidate of every search.
    pub fn add(&mut self, kind: TextKind, text: &[u8]) {
        let before = self.bytes_before;
        let is_full = self.bytes().saturating_sub(before) > DOC_BYTES_MAX;
        let Some(doc) = self.docs.last_mut().filter(|doc| !doc.is_open) else { return };
        if is_full {
            doc.is_open = true;
            return;
        }
        // A single text may be as long as a message.
        let with_grams = has_grams(kind);
        let kind = &mut self.kinds[kind as usize];
        let mut sink = BoundedSink { limit: kind.bytes() + DOC_BYTES_MAX, kind, is_full: false };
        each_term(text, with_grams, &mut sink);
        doc.is_open |= sink.is_full;
    }

    /// Ends a message. Returns `true` if the segment is to be written now.
    pub fn end(&mut self) -> bool {
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

    /// Writes the segment to a new file. The rename to `path` is the commit point; nothing is
    /// fsynced, as in every cache.
    ///
    /// # Errors
    /// Errors of the file system; there is no new file then.
    pub fn write(self, vfs: &dyn Vfs, path: &Path) -> io::Result<()> {
        let docs = self.docs.len() as u32;
        let kinds = self.kinds;
        SegmentWriter::write(vfs, path, &self.docs, |writer| {
            for (kind, builder) in TextKind::ALL.into_iter().zip(kinds) {
                builder.write(kind, docs, writer)?;
            }
            Ok(())
        })
    }
}

/// Returns `true` if the boundaries of a kind of text are indexed. Those of others are verified at
/// little cost, or seldom asked for.
pub(crate) fn has_grams(kind: TextKind) -> bool {
    matches!(kind, TextKind::Body | TextKind::Header)
}

/// Boundaries of a message that are held before repetitions are removed.
const GRAMS_KEPT_MAX: usize = 1 << 17;

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
        if !self.is_full {
            let grams = &mut self.kind.current_grams;
            grams.push(gram);
            // Most are there already.
            if grams.len() == 2 * GRAMS_KEPT_MAX {
                grams.sort_unstable();
                grams.dedup();
            }
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
        grams.dedup();
        let mut last = 0;
        for gram in grams.drain(..) {
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
        let first = terms.iter().map(|term| (term.count > 1).then_some(term.first));
        let lists = Lists::of_terms(first, &terms, &again);
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
    /// The start of each, and the end of the last.
    starts: Vec<usize>,
}

impl Lists {
    /// Returns the documents of each term that is in several.
    fn of_terms(first: impl Iterator<Item = Option<u32>>, terms: &[Term], again: &DocLog) -> Self {
        let count = |term: &Term| if term.count > 1 { term.count as usize } else { 0 };
        let mut lists = Self::with_lens(terms.iter().map(count));
        let mut next = lists.starts.clone();
        for (id, first) in first.enumerate() {
            if let Some(doc) = first {
                lists.docs[next[id]] = doc;
                next[id] += 1;
            }
        }
        again.each(|doc, ids| {
            for id in ids {
                lists.docs[next[id as usize]] = doc;
                next[id as usize] += 1;
            }
        });
        lists
    }

    /// Returns the documents of each boundary.
    fn of_grams(log: &DocLog) -> Self {
        let mut lens = vec![0_usize; GRAMS];
        let of_doc = |deltas: &mut dyn Iterator<Item = u32>, take: &mut dyn FnMut(usize)| {
            let mut gram = 0;
            deltas.for_each(|delta| {
                gram += delta;
                take(gram as usize);
            });
        };
        log.each(|_, deltas| of_doc(deltas, &mut |gram| lens[gram] += 1));
        let mut lists = Self::with_lens(lens.into_iter());
        let mut next = lists.starts.clone();
        log.each(|doc, deltas| {
            of_doc(deltas, &mut |gram| {
                lists.docs[next[gram]] = doc;
                next[gram] += 1;
            });
        });
        lists
    }

    fn with_lens(lens: impl Iterator<Item = usize>) -> Self {
        let mut end = 0;
        let mut starts = vec![0];
        starts.extend(lens.map(|len| {
            end += len;
            end
        }));
        Self { docs: vec![0; end], starts }
    }

    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.starts.windows(2).map(|ends| &self.docs[ends[0]..ends[1]])
    }
}

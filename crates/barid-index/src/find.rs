//! Finding the documents that contain a text.

use std::borrow::Cow;
use std::io;
use std::ops::Range;

use barid_query::search::{BitSet, TextKind, TextScope};
use barid_vfs::le::LeReader;
use memchr::memmem::Finder;

use crate::codec::decode_into;
use crate::limits::{BLOCK_LEN, BLOCK_LEN_MAX};
use crate::segment::{BLOCK_HEAD_LEN, BlockEntry, Section, Segment, parts};
use crate::terms::{END, PAIR, Piece, Pieces, Probe};

/// Knowledge of a segment about a search text.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Documents that contain it.
    pub certain: BitSet,
    /// Documents that may contain it; no other does. Includes the certain ones.
    pub possible: BitSet,
}

impl Segment {
    /// Finds the documents with a folded search text; `None` if the segment is damaged.
    ///
    /// Reads the terms of the kinds of text that are searched once, and the lists of those that
    /// contain the search text: O(bytes of terms).
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn find(&self, scope: TextScope, needle: &[u8]) -> io::Result<Option<Answer>> {
        let pieces = Pieces::of(needle);
        if pieces.pieces.is_empty() {
            let (certain, possible) = (BitSet::none(self.len()), BitSet::all(self.len()));
            return Ok(Some(Answer { certain, possible }));
        }
        match scope {
            TextScope::Kind(kind) => self.find_in(&[kind], &pieces),
            TextScope::Message => self.find_in_message(&pieces),
        }
    }

    fn find_in_message(&self, pieces: &Pieces) -> io::Result<Option<Answer>> {
        let headers: &[&[TextKind]] = match pieces.has_break {
            // One that begins in one field can end in another.
            true => &[&[TextKind::Header, TextKind::OpaqueHeader]],
            false => &[&[TextKind::Header], &[TextKind::OpaqueHeader]],
        };
        let Some(mut all) = self.find_in(&[TextKind::Body], pieces)? else { return Ok(None) };
        for kinds in headers {
            let Some(answer) = self.find_in(kinds, pieces)? else { return Ok(None) };
            all.certain.add(&answer.certain);
            all.possible.add(&answer.possible);
        }
        Ok(Some(all))
    }

    /// Finds a search text in texts of these kinds, taken as one.
    fn find_in(&self, kinds: &[TextKind], pieces: &Pieces) -> io::Result<Option<Answer>> {
        let mut hunt = Hunt::new(self, pieces);
        for kind in kinds {
            let is_whole = hunt.shared(*kind)?.is_some() && hunt.singles(*kind, None)?.is_some();
            if !is_whole {
                return Ok(None);
            }
        }
        // The other pieces can only be in documents with the longest one.
        let longest = hunt.docs_of_longest();
        if pieces.pieces.len() > 1 && !longest.is_empty() {
            for kind in kinds {
                if hunt.singles(*kind, Some(&longest))?.is_none() {
                    return Ok(None);
                }
            }
        }
        let mut answer = hunt.answer();
        if let [kind] = kinds
            && self.keep_grams(*kind, pieces, &mut answer.possible)?.is_none()
        {
            return Ok(None);
        }
        Ok(Some(answer))
    }

    /// Removes the documents that lack a boundary of a search text.
    fn keep_grams(
        &self,
        kind: TextKind,
        pieces: &Pieces,
        possible: &mut BitSet,
    ) -> io::Result<Option<()>> {
        let section = self.section(Section::Grams(kind));
        if !crate::build::has_grams(kind) {
            return Ok(Some(()));
        }
        let mut buffer = Vec::new();
        for gram in &pieces.grams {
            if possible.is_empty() {
                break;
            }
            let mut with_gram = BitSet::none(self.len());
            let after = section.partition_point(|entry| entry.first <= u64::from(*gram));
            if let Some(entry) = after.checked_sub(1).and_then(|at| section.get(at)) {
                let Some(block) = self.block(entry, &mut buffer)? else { return Ok(None) };
                if add_gram(block, entry.first, *gram, &mut with_gram).is_none() {
                    return Ok(None);
                }
            }
            possible.keep(&with_gram);
        }
        Ok(Some(()))
    }
}

/// Adds the documents of a boundary, if it is in the block.
fn add_gram(block: &[u8], first: u64, gram: u32, docs: &mut BitSet) -> Option<()> {
    let mut unpacked = Vec::new();
    let (lists, mut numbers) = parts(block, &mut unpacked)?;
    let (mut lists, mut at) = (LeReader(lists), first as usize);
    while let Some(delta) = numbers.varint() {
        at = at.saturating_add(delta);
        let (count, len) = (numbers.varint()?, numbers.varint()?);
        let list = lists.take(len)?;
        if at >= gram as usize {
            return if at == gram as usize {
                decode_into(list, count as u32, docs)
            } else {
                Some(())
            };
        }
    }
    Some(())
}

/// A probe, and the documents of the terms in which it was found.
struct Hunted<'p> {
    finder: Finder<'p>,
    /// `true` for pairs only.
    in_pairs: bool,
    docs: BitSet,
}

/// The lookup of all pieces of a search text.
struct Hunt<'s, 'p> {
    segment: &'s Segment,
    pieces: &'p Pieces,
    /// Of one piece after another: the probes among tokens, then those among pairs.
    hunted: Vec<Hunted<'p>>,
}

/// A term of several documents in which a probe was found.
struct SharedHit {
    probe: usize,
    count: u32,
    offset: u64,
    len: usize,
}

impl<'s, 'p> Hunt<'s, 'p> {
    fn new(segment: &'s Segment, pieces: &'p Pieces) -> Self {
        let has_pairs = segment.has_pairs;
        let probes = pieces.pieces.iter().flat_map(|piece| {
            piece.plain.iter().chain(piece.pairs.iter().filter(move |_| has_pairs))
        });
        let hunted = probes.map(|probe| {
            let (text, in_pairs) = match probe {
                Probe::Text(text) => (text, false),
                Probe::PairWith(text) => (text, true),
            };
            Hunted { finder: Finder::new(text), in_pairs, docs: BitSet::none(segment.len()) }
        });
        Self { segment, pieces, hunted: hunted.collect() }
    }

    /// Returns the number of probes of a piece among tokens, and among pairs.
    fn probes_of(&self, piece: &Piece) -> (usize, usize) {
        (piece.plain.len(), if self.segment.has_pairs { piece.pairs.len() } else { 0 })
    }

    /// Looks for the longest piece through the terms of single documents; or, with the documents
    /// that have it, for the others through the terms of those.
    fn singles(&mut self, kind: TextKind, within: Option<&BitSet>) -> io::Result<Option<()>> {
        let blocks = self.segment.section(Section::Singles(kind));
        let (plain, pairs) =
            self.pieces.pieces.first().map_or((0, 0), |piece| self.probes_of(piece));
        let (longest, others) = self.hunted.split_at_mut(plain + pairs);
        let (hunted, blocks) = match within {
            None => (longest, Cow::Borrowed(blocks)),
            Some(docs) => (others, Cow::Owned(blocks_of(blocks, docs))),
        };
        let mut unpacked = Vec::new();
        self.segment.each_block(&blocks, &mut |entry, block| {
            let (text, numbers) = parts(block, &mut unpacked)?;
            for hunted in hunted.iter_mut() {
                let Hunted { finder, in_pairs, docs } = hunted;
                let mut runs = Runs { numbers: LeReader(numbers.0), doc: entry.first, end: 0 };
                for ordinal in hits(text, finder, *in_pairs) {
                    docs.insert(runs.doc_of(ordinal)?);
                }
            }
            Some(())
        })
    }

    /// Looks through the terms of several documents.
    fn shared(&mut self, kind: TextKind) -> io::Result<Option<()>> {
        let mut found = Vec::new();
        let (hunted, mut unpacked) = (&self.hunted, Vec::new());
        let read = self.segment.each_block(
            self.segment.section(Section::Shared(kind)),
            &mut |entry, block| {
                let (text, numbers) = parts(block, &mut unpacked)?;
                for (probe, hunted) in hunted.iter().enumerate() {
                    let mut numbers = LeReader(numbers.0);
                    let (mut next, mut offset) = (0, entry.first);
                    for ordinal in hits(text, &hunted.finder, hunted.in_pairs) {
                        loop {
                            let (count, len) = (numbers.varint()? as u32, numbers.varint()?);
                            let start = offset;
                            offset = offset.saturating_add(len as u64);
                            next += 1;
                            if next > ordinal {
                                found.push(SharedHit { probe, count, offset: start, len });
                                break;
                            }
                        }
                    }
                }
                Some(())
            },
        )?;
        if read.is_none() {
            return Ok(None);
        }
        found.sort_unstable_by_key(|hit| hit.offset);
        let mut lists = ListReader::new(self.segment, kind);
        for hit in found {
            let Some(list) = lists.list(hit.offset, hit.len)? else { return Ok(None) };
            if decode_into(list, hit.count, &mut self.hunted[hit.probe].docs).is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// Returns the documents with all of some probes.
    fn joined(&self, probes: Range<usize>) -> BitSet {
        let mut sets = self.hunted[probes].iter().map(|hunted| &hunted.docs);
        let first = sets.next().cloned();
        let mut docs = first.unwrap_or_else(|| BitSet::none(self.segment.len()));
        sets.for_each(|set| docs.keep(set));
        docs
    }

    /// Returns the documents with a piece among their tokens, and among their pairs. The probes of
    /// the piece begin at `at`.
    fn docs_of(&self, piece: &Piece, at: usize) -> (BitSet, BitSet) {
        let (plain, pairs) = self.probes_of(piece);
        (self.joined(at..at + plain), self.joined(at + plain..at + plain + pairs))
    }

    /// Returns the documents with the longest piece.
    fn docs_of_longest(&self) -> BitSet {
        let Some(piece) = self.pieces.pieces.first() else {
            return BitSet::all(self.segment.len());
        };
        let (mut docs, in_pairs) = self.docs_of(piece, 0);
        docs.add(&in_pairs);
        docs
    }

    /// Joins what was found of the pieces.
    fn answer(&self) -> Answer {
        let len = self.segment.len();
        let mut all = Answer { certain: BitSet::none(len), possible: BitSet::all(len) };
        let mut at = 0;
        for piece in &self.pieces.pieces {
            let (mut docs, in_pairs) = self.docs_of(piece, at);
            let (plain, pairs) = self.probes_of(piece);
            at += plain + pairs;
            if self.pieces.is_one {
                all.certain = if piece.is_plain_exact { docs.clone() } else { BitSet::none(len) };
                if piece.is_pairs_exact {
                    all.certain.add(&in_pairs);
                }
            }
            docs.add(&in_pairs);
            all.possible.keep(&docs);
        }
        all
    }
}

/// Returns the blocks with terms of documents of a set. A block has those from its first document
/// to the first one of the next.
fn blocks_of(blocks: &[BlockEntry], docs: &BitSet) -> Vec<BlockEntry> {
    let ends = blocks.iter().skip(1).map(|next| next.first).chain([u64::MAX]);
    let number = |doc: u64| u32::try_from(doc).unwrap_or(u32::MAX);
    let has_any =
        |(block, end): &(&BlockEntry, u64)| docs.has_any_of(number(block.first), number(*end));
    blocks.iter().zip(ends).filter(has_any).map(|(block, _)| *block).collect()
}

/// Returns the numbers of the terms of a block in which a text is, ascending, each once.
fn hits<'t>(
    text: &'t [u8],
    finder: &'t Finder<'_>,
    in_pairs: bool,
) -> impl Iterator<Item = usize> + 't {
    let (mut ends, mut counted_to, mut at) = (0_usize, 0, 0);
    std::iter::from_fn(move || {
        loop {
            let start = at + finder.find(text.get(at..)?)?;
            // The first byte of a term.
            let inside = start + usize::from(text[start] == END);
            let rest = &text[inside..];
            let end = inside + memchr::memchr(END, rest).unwrap_or(rest.len());
            // The END behind a term is that before the next.
            at = end;
            let begin = memchr::memrchr(END, &text[..inside]).map_or(0, |end| end + 1);
            if in_pairs && text.get(begin) != Some(&PAIR) {
                continue;
            }
            ends += memchr::memchr_iter(END, &text[counted_to..begin]).count();
            counted_to = begin;
            return ends.checked_sub(1);
        }
    })
}

/// The documents of terms of single documents: for each the distance from the last, and the number
/// of its terms.
struct Runs<'n> {
    numbers: LeReader<'n>,
    doc: u64,
    /// Number of terms up to the end of the current document's.
    end: usize,
}

impl Runs<'_> {
    /// Returns the document of a term; terms are asked for in order.
    fn doc_of(&mut self, ordinal: usize) -> Option<u32> {
        while ordinal >= self.end {
            self.doc = self.doc.saturating_add(self.numbers.varint()? as u64);
            self.end = self.end.saturating_add(self.numbers.varint()?);
        }
        u32::try_from(self.doc).ok()
    }
}

/// Reads lists of documents, best in ascending order.
pub(crate) struct ListReader<'s> {
    segment: &'s Segment,
    entries: &'s [BlockEntry],
    /// The block that was read last, with its head, and its number.
    block: Vec<u8>,
    number: Option<usize>,
    /// A list that is in several blocks.
    joined: Vec<u8>,
}

impl<'s> ListReader<'s> {
    pub(crate) fn new(segment: &'s Segment, kind: TextKind) -> Self {
        let entries = segment.section(Section::Lists(kind));
        Self { segment, entries, block: Vec::new(), number: None, joined: Vec::new() }
    }

    /// Returns the bytes of a list; `None` if they are damaged.
    pub(crate) fn list(&mut self, offset: u64, len: usize) -> io::Result<Option<&[u8]>> {
        let mut number = (offset / BLOCK_LEN as u64) as usize;
        let mut start = (offset % BLOCK_LEN as u64) as usize;
        if len > BLOCK_LEN_MAX {
            return Ok(None);
        }
        if start + len <= BLOCK_LEN {
            return Ok(self.content(number)?.and_then(|block| block.get(start..start + len)));
        }
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        while joined.len() < len {
            let part = self.content(number)?.and_then(|block| block.get(start..));
            let Some(part) = part.filter(|part| !part.is_empty()) else { return Ok(None) };
            joined.extend_from_slice(&part[..part.len().min(len - joined.len())]);
            (number, start) = (number + 1, 0);
        }
        self.joined = joined;
        Ok(Some(&self.joined))
    }

    /// Returns the content of a block; `None` if it is damaged or missing.
    fn content(&mut self, number: usize) -> io::Result<Option<&[u8]>> {
        if self.number != Some(number) {
            self.number = None;
            let Some(entry) = self.entries.get(number) else { return Ok(None) };
            if self.segment.block(entry, &mut self.block)?.is_none() {
                return Ok(None);
            }
            self.number = Some(number);
        }
        let content = self.block.get(BLOCK_HEAD_LEN..);
        Ok(content.filter(|content| content.len() <= BLOCK_LEN))
    }
}

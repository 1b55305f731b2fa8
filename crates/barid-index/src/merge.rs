//! Merging small segments into one.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;

use barid_query::search::{BitSet, TextKind};
use barid_vfs::Vfs;
use barid_vfs::le::LeReader;

use crate::build::has_grams;
use crate::codec::decode_into;
use crate::doc::Doc;
use crate::find::ListReader;
use crate::segment::{Section, Segment, SegmentWriter, parts};

/// A segment to merge, and the new numbers of its documents: ascending; `None` for one that is
/// left out.
#[derive(Debug)]
pub struct Merged<'s> {
    /// The segment.
    pub segment: &'s Segment,
    /// The new number of each document.
    pub docs: Vec<Option<u32>>,
}

/// Writes one segment of the documents of several; `None` if one of them is damaged. `reader` is
/// the identity of the programs that read the attachments of all documents whose texts are
/// [`AttachmentTexts::There`](crate::AttachmentTexts::There).
///
/// Holds all terms with their documents in memory: several times the bytes of the segments.
///
/// # Errors
/// Errors of the file system.
pub fn merge(
    vfs: &dyn Vfs,
    path: &Path,
    parts: &[Merged<'_>],
    docs: &[Doc],
    reader: u32,
) -> io::Result<Option<()>> {
    let written = SegmentWriter::write(vfs, path, (docs, reader), |writer| {
        for kind in TextKind::ALL {
            let merge = Merge::read(kind, parts)?.ok_or(io::ErrorKind::InvalidData)?;
            merge.write(kind, docs.len() as u32, writer)?;
        }
        Ok(())
    });
    match written {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        written => written.map(Some),
    }
}

/// The terms and boundaries of one kind of text, with their new documents.
#[derive(Default)]
struct Merge {
    terms: HashMap<Vec<u8>, Vec<u32>>,
    grams: BTreeMap<u32, Vec<u32>>,
}

impl Merge {
    fn read(kind: TextKind, merged: &[Merged<'_>]) -> io::Result<Option<Self>> {
        let mut merge = Self::default();
        for part in merged {
            let is_whole = merge.read_singles(kind, part)?.is_some()
                && merge.read_shared(kind, part)?.is_some()
                && merge.read_grams(kind, part)?.is_some();
            if !is_whole {
                return Ok(None);
            }
        }
        Ok(Some(merge))
    }

    fn add(&mut self, term: &[u8], docs: impl Iterator<Item = u32>) {
        let mut docs = docs.peekable();
        if docs.peek().is_none() {
            return;
        }
        match self.terms.get_mut(term) {
            Some(known) => known.extend(docs),
            None => {
                self.terms.insert(term.to_vec(), docs.collect());
            }
        }
    }

    fn read_singles(&mut self, kind: TextKind, part: &Merged<'_>) -> io::Result<Option<()>> {
        let blocks = part.segment.section(Section::Singles(kind));
        part.segment.each_block(blocks, &mut |entry, block| {
            let mut unpacked = Vec::new();
            let (text, mut numbers) = parts(block, &mut unpacked)?;
            let (mut terms, mut doc) = (terms_of(text), entry.first as usize);
            while let Some(delta) = numbers.varint() {
                doc = doc.checked_add(delta)?;
                let new = *part.docs.get(doc)?;
                for _ in 0..numbers.varint()? {
                    self.add(terms.next()?, new.into_iter());
                }
            }
            Some(())
        })
    }

    fn read_shared(&mut self, kind: TextKind, part: &Merged<'_>) -> io::Result<Option<()>> {
        let mut found: Vec<(Vec<u8>, u32, u64, usize)> = Vec::new();
        let blocks = part.segment.section(Section::Shared(kind));
        let read = part.segment.each_block(blocks, &mut |entry, block| {
            let mut unpacked = Vec::new();
            let (text, mut numbers) = parts(block, &mut unpacked)?;
            let mut offset = entry.first;
            for term in terms_of(text) {
                let (count, len) = (numbers.varint()? as u32, numbers.varint()?);
                found.push((term.to_vec(), count, offset, len));
                offset = offset.checked_add(len as u64)?;
            }
            Some(())
        })?;
        if read.is_none() {
            return Ok(None);
        }
        let mut lists = ListReader::new(part.segment, kind);
        for (term, count, offset, len) in found {
            let Some(list) = lists.list(offset, len)? else { return Ok(None) };
            let Some(docs) = new_docs(list, count, part) else { return Ok(None) };
            self.add(&term, docs.into_iter());
        }
        Ok(Some(()))
    }

    fn read_grams(&mut self, kind: TextKind, part: &Merged<'_>) -> io::Result<Option<()>> {
        let blocks = part.segment.section(Section::Grams(kind));
        part.segment.each_block(blocks, &mut |entry, block| {
            let mut unpacked = Vec::new();
            let (lists, mut numbers) = parts(block, &mut unpacked)?;
            let (mut lists, mut gram) = (LeReader(lists), entry.first as u32);
            while let Some(delta) = numbers.varint() {
                gram = gram.checked_add(delta as u32)?;
                let (count, len) = (numbers.varint()? as u32, numbers.varint()?);
                let docs = new_docs(lists.take(len)?, count, part)?;
                if !docs.is_empty() {
                    self.grams.entry(gram).or_default().extend(docs);
                }
            }
            Some(())
        })
    }

    fn write(self, kind: TextKind, docs: u32, writer: &mut SegmentWriter<'_>) -> io::Result<()> {
        let mut terms: Vec<(Vec<u8>, Vec<u32>)> = self.terms.into_iter().collect();
        for (_, list) in &mut terms {
            list.sort_unstable();
        }
        // The terms of single documents in the order of these, then the others.
        terms.sort_unstable_by(|(one, one_docs), (other, other_docs)| {
            let order = |list: &[u32]| (list.len() > 1, if list.len() > 1 { 0 } else { list[0] });
            order(one_docs).cmp(&order(other_docs)).then_with(|| one.cmp(other))
        });
        let singles = terms.partition_point(|(_, list)| list.len() == 1);
        for (term, list) in &terms[..singles] {
            writer.single(kind, list[0], term)?;
        }
        for (term, list) in &terms[singles..] {
            writer.shared(kind, term, list, docs)?;
        }
        if has_grams(kind) {
            for (gram, mut list) in self.grams {
                list.sort_unstable();
                writer.gram(kind, gram, &list, docs)?;
            }
        }
        Ok(())
    }
}

/// Returns the terms of the text of a block.
fn terms_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    inner.split(|byte| *byte == crate::terms::END)
}

/// Returns the new numbers of the documents of a list.
fn new_docs(list: &[u8], count: u32, part: &Merged<'_>) -> Option<Vec<u32>> {
    let mut set = BitSet::none(part.segment.len());
    decode_into(list, count, &mut set)?;
    Some(set.iter().filter_map(|doc| *part.docs.get(doc as usize)?).collect())
}

//! The file of a segment, which never changes (`docs/formats/index.md`).
//!
//! A header, blocks, and a directory of the blocks at the end. A block is about 64 KB, has a
//! checksum, and belongs to a section: the documents; or, of one kind of text, the terms of single
//! documents in the order of these, the terms of several with the lengths of their lists, the
//! lists, and the boundaries with their lists.

use std::io;
use std::path::Path;

use barid_query::search::{TEXTS_VERSION, TextKind};
use barid_vfs::le::{LeReader, PutLe};
use barid_vfs::{File, OpenOptions, Vfs, atomic_replace};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::codec::encode;
use crate::doc::Doc;
use crate::limits::{BLOCK_LEN, BLOCK_LEN_MAX, BLOCKS_MAX, READ_LEN, SEGMENT_DOCS_MAX};
use crate::packed::{pack, packed_len, unpack};
use crate::terms::{END, PAIR};

const MAGIC: &[u8; 8] = b"BARIDTX\n";
/// Version of the file, in which that of the texts is stored beside it.
const VERSION: u32 = 1;
/// Bytes of the header.
const HEAD_LEN: usize = 56;
/// Bytes of a block in the directory.
const ENTRY_LEN: usize = 24;
/// Bytes of a document.
const DOC_LEN: usize = 9;
/// The section whose texts are packed, if they can be: they are many, and like no other.
const PACKED: Section = Section::Singles(TextKind::OpaqueHeader);
/// Bit of the length of a text that is packed.
const PACKED_BIT: u32 = 1 << 31;
/// Checksum before each block.
pub(crate) const BLOCK_HEAD_LEN: usize = 8;

/// The section of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Docs,
    /// Terms of single documents.
    Singles(TextKind),
    /// Terms of several documents.
    Shared(TextKind),
    /// Lists of the documents of those.
    Lists(TextKind),
    /// Boundaries with their lists.
    Grams(TextKind),
}

impl Section {
    fn code(self) -> [u8; 2] {
        match self {
            Self::Docs => [0, 0],
            Self::Singles(kind) => [1, kind as u8],
            Self::Shared(kind) => [2, kind as u8],
            Self::Lists(kind) => [3, kind as u8],
            Self::Grams(kind) => [4, kind as u8],
        }
    }

    fn of_code(code: u8, kind: u8) -> Option<Self> {
        let kind = *TextKind::ALL.get(usize::from(kind))?;
        Some(match code {
            0 => Self::Docs,
            1 => Self::Singles(kind),
            2 => Self::Shared(kind),
            3 => Self::Lists(kind),
            4 => Self::Grams(kind),
            _ => return None,
        })
    }
}

/// A block of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockEntry {
    pub(crate) section: Section,
    /// Bytes with the checksum.
    pub(crate) len: u32,
    pub(crate) offset: u64,
    /// The first document of singles, the first boundary of grams, the offset of the first list of
    /// shared terms within their section.
    pub(crate) first: u64,
}

/// A segment that is being written.
pub(crate) struct SegmentWriter<'f> {
    file: &'f dyn File,
    offset: u64,
    /// Names the file: the seed of all checksums.
    seed: u64,
    /// Identity of the programs that read attachments.
    reader: u32,
    entries: Vec<BlockEntry>,
    open: Option<OpenBlock>,
    /// Lists of the shared terms so far, and their bytes in all.
    lists: Vec<u8>,
    has_pairs: bool,
}

/// A block that is being filled.
struct OpenBlock {
    section: Section,
    first: u64,
    /// The document or boundary before the one that was added last.
    last: u32,
    /// The document that was added last, and the number of its terms so far.
    next: u32,
    run: u32,
    text: Vec<u8>,
    numbers: Vec<u8>,
}

impl<'f> SegmentWriter<'f> {
    /// Writes a segment whose terms `write` passes: kind after kind, singles first, then shared
    /// terms, then boundaries. `reader` is the identity of the programs that read attachments.
    pub(crate) fn write(
        vfs: &dyn Vfs,
        path: &Path,
        (docs, reader): (&[Doc], u32),
        write: impl FnOnce(&mut SegmentWriter<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        atomic_replace(vfs, path, 0o600, false, |file| {
            let seed = xxh3_64(path.as_os_str().as_encoded_bytes());
            let mut writer = SegmentWriter::new(file, seed, reader);
            writer.docs(docs)?;
            write(&mut writer)?;
            writer.finish(docs.len() as u32)
        })?;
        Ok(())
    }

    fn new(file: &'f dyn File, seed: u64, reader: u32) -> Self {
        Self {
            file,
            offset: HEAD_LEN as u64,
            seed,
            reader,
            entries: Vec::new(),
            open: None,
            lists: Vec::new(),
            has_pairs: false,
        }
    }

    fn docs(&mut self, docs: &[Doc]) -> io::Result<()> {
        for some in docs.chunks(BLOCK_LEN / DOC_LEN) {
            let mut bytes = Vec::with_capacity(some.len() * DOC_LEN);
            for doc in some {
                bytes.put_u64(doc.digest);
                bytes.put_u8(doc.bits());
            }
            self.block(Section::Docs, 0, &[&bytes])?;
        }
        Ok(())
    }

    /// Adds a term of one document. Terms of a kind come in the order of their documents.
    pub(crate) fn single(&mut self, kind: TextKind, doc: u32, term: &[u8]) -> io::Result<()> {
        self.has_pairs |= term.first() == Some(&PAIR);
        let block = self.block_for(Section::Singles(kind), doc.into())?;
        if doc != block.next {
            block.end_run();
            block.next = doc;
        }
        block.run += 1;
        block.term(term);
        Ok(())
    }

    /// Adds a term of several documents.
    pub(crate) fn shared(
        &mut self,
        kind: TextKind,
        term: &[u8],
        list: &[u32],
        docs: u32,
    ) -> io::Result<()> {
        self.has_pairs |= term.first() == Some(&PAIR);
        let section = Section::Shared(kind);
        // Ends the section before, with its lists.
        if self.open.as_ref().is_some_and(|open| open.section != section) {
            self.close(Some(section))?;
        }
        let start = self.lists.len();
        encode(list, docs, &mut self.lists);
        let len = self.lists.len() - start;
        let block = self.block_for(section, start as u64)?;
        block.numbers.put_varint(list.len());
        block.numbers.put_varint(len);
        block.term(term);
        Ok(())
    }

    /// Adds a boundary. Those of a kind come in ascending order.
    pub(crate) fn gram(
        &mut self,
        kind: TextKind,
        gram: u32,
        list: &[u32],
        docs: u32,
    ) -> io::Result<()> {
        let block = self.block_for(Section::Grams(kind), gram.into())?;
        block.numbers.put_varint((gram - block.last) as usize);
        block.last = gram;
        block.numbers.put_varint(list.len());
        let start = block.text.len();
        encode(list, docs, &mut block.text);
        let len = block.text.len() - start;
        block.numbers.put_varint(len);
        Ok(())
    }

    /// Returns the block to which something of a section is added.
    fn block_for(&mut self, section: Section, first: u64) -> io::Result<&mut OpenBlock> {
        let fits = |open: &OpenBlock| {
            open.section == section && open.text.len() + open.numbers.len() < BLOCK_LEN
        };
        if !self.open.as_ref().is_some_and(fits) {
            self.close(Some(section))?;
        }
        Ok(self.open.get_or_insert_with(|| OpenBlock::new(section, first)))
    }

    /// Writes the block that is being filled, and the lists of a section that ends.
    fn close(&mut self, next: Option<Section>) -> io::Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        open.end_run();
        let OpenBlock { section, first, text, numbers, .. } = open;
        let mut packed = Vec::new();
        let is_packed = section == PACKED && pack(&text, &mut packed);
        let mut head = Vec::with_capacity(4);
        head.put_u32(text.len() as u32 | if is_packed { PACKED_BIT } else { 0 });
        let text = if is_packed { &packed } else { &text };
        self.block(section, first, &[&head, text, &numbers])?;
        match section {
            Section::Shared(kind) if next != Some(section) => {
                let lists = std::mem::take(&mut self.lists);
                for some in lists.chunks(BLOCK_LEN) {
                    self.block(Section::Lists(kind), 0, &[some])?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn block(&mut self, section: Section, first: u64, parts: &[&[u8]]) -> io::Result<()> {
        let mut bytes = vec![0; BLOCK_HEAD_LEN];
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        let checksum = block_checksum(&bytes, self.seed, self.offset);
        bytes[..BLOCK_HEAD_LEN].copy_from_slice(&checksum.to_le_bytes());
        self.file.write_all_at(&bytes, self.offset)?;
        let len = bytes.len() as u32;
        self.entries.push(BlockEntry { section, len, offset: self.offset, first });
        self.offset += u64::from(len);
        Ok(())
    }

    fn finish(mut self, docs: u32) -> io::Result<()> {
        self.close(None)?;
        let mut directory = Vec::with_capacity(self.entries.len() * ENTRY_LEN);
        for entry in &self.entries {
            directory.extend(entry.section.code());
            directory.put_u16(0);
            directory.put_u32(entry.len);
            directory.put_u64(entry.offset);
            directory.put_u64(entry.first);
        }
        self.file.write_all_at(&directory, self.offset)?;
        let mut head = Vec::with_capacity(HEAD_LEN);
        head.extend_from_slice(MAGIC);
        head.put_u32(VERSION);
        head.put_u32(TEXTS_VERSION);
        head.put_u64(self.seed);
        head.put_u32(docs);
        head.put_u32(u32::from(self.has_pairs));
        head.put_u64(self.offset);
        head.put_u32(self.entries.len() as u32);
        head.put_u32(self.reader);
        let checksum = xxh3_64_with_seed(&directory, xxh3_64(&head));
        head.put_u64(checksum);
        self.file.write_all_at(&head, 0)
    }
}

impl OpenBlock {
    fn new(section: Section, first: u64) -> Self {
        let text = match section {
            Section::Singles(_) | Section::Shared(_) => vec![END],
            _ => Vec::new(),
        };
        let last = match section {
            Section::Shared(_) => 0,
            _ => first as u32,
        };
        Self { section, first, last, next: last, run: 0, text, numbers: Vec::new() }
    }

    /// Writes the document that was added last with the number of its terms.
    fn end_run(&mut self) {
        if self.run > 0 {
            self.numbers.put_varint((self.next - self.last) as usize);
            self.numbers.put_varint(self.run as usize);
            (self.last, self.run) = (self.next, 0);
        }
    }

    fn term(&mut self, term: &[u8]) {
        self.text.extend_from_slice(term);
        self.text.push(END);
    }
}

/// Returns the checksum of a block, whose first bytes are to hold it.
fn block_checksum(block: &[u8], seed: u64, offset: u64) -> u64 {
    xxh3_64_with_seed(&block[BLOCK_HEAD_LEN..], seed.wrapping_add(offset))
}

/// Returns the two parts of a block of terms or boundaries: the text, which may be unpacked into
/// `unpacked`, and the numbers.
pub(crate) fn parts<'b>(
    block: &'b [u8],
    unpacked: &'b mut Vec<u8>,
) -> Option<(&'b [u8], LeReader<'b>)> {
    let mut reader = LeReader(block);
    let head = reader.u32()?;
    let len = (head & !PACKED_BIT) as usize;
    if head & PACKED_BIT == 0 {
        return Some((reader.take(len)?, reader));
    }
    unpack(reader.take(packed_len(len))?, len, unpacked);
    Some((unpacked, reader))
}

/// A segment that is read.
#[derive(Debug)]
pub struct Segment {
    pub(crate) file: Box<dyn File>,
    seed: u64,
    docs: u32,
    reader: u32,
    pub(crate) has_pairs: bool,
    pub(crate) blocks: Vec<BlockEntry>,
    len: u64,
}

impl Segment {
    /// Opens a segment; reads its header and its directory. `None` if it is missing, damaged, or of
    /// another version.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn open(vfs: &dyn Vfs, path: &Path) -> io::Result<Option<Self>> {
        let file = match vfs.open(path, OpenOptions::READ) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut head = [0; HEAD_LEN];
        if file.read_full_at(&mut head, 0)? < HEAD_LEN {
            return Ok(None);
        }
        let Some(parsed) = Head::parse(&head) else { return Ok(None) };
        let mut directory = vec![0; parsed.blocks as usize * ENTRY_LEN];
        let is_whole = file.read_full_at(&mut directory, parsed.directory_at)? == directory.len();
        let checksum = xxh3_64_with_seed(&directory, xxh3_64(&head[..HEAD_LEN - 8]));
        if !is_whole || checksum != parsed.checksum {
            return Ok(None);
        }
        let blocks: Option<Vec<BlockEntry>> =
            directory.chunks_exact(ENTRY_LEN).map(BlockEntry::parse).collect();
        let len = parsed.directory_at + directory.len() as u64;
        let Head { seed, docs, reader, has_pairs, .. } = parsed;
        Ok(blocks.map(|blocks| Self { file, seed, docs, reader, has_pairs, blocks, len }))
    }

    /// Returns the number of documents.
    pub fn len(&self) -> u32 {
        self.docs
    }

    /// Returns `true` if there are no documents.
    pub fn is_empty(&self) -> bool {
        self.docs == 0
    }

    /// Returns the identity of the programs that read attachments; 0 if no texts of any are there.
    pub fn reader(&self) -> u32 {
        self.reader
    }

    /// Returns the length of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Returns the bytes of the blocks of a kind of text.
    pub fn bytes_of(&self, kind: TextKind) -> u64 {
        let is_of_kind = |entry: &&BlockEntry| match entry.section {
            Section::Docs => false,
            Section::Singles(of)
            | Section::Shared(of)
            | Section::Lists(of)
            | Section::Grams(of) => of == kind,
        };
        self.blocks.iter().filter(is_of_kind).map(|entry| u64::from(entry.len)).sum()
    }

    /// Returns the documents; `None` if they are damaged.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn docs(&self) -> io::Result<Option<Vec<Doc>>> {
        let mut docs = Vec::with_capacity(self.docs as usize);
        let is_whole = self.each_block(self.section(Section::Docs), &mut |_, bytes| {
            docs.extend(bytes.chunks_exact(DOC_LEN).filter_map(|row| {
                let mut reader = LeReader(row);
                let (digest, bits) = (reader.u64()?, reader.u8()?);
                Some(Doc::of_bits(digest, bits))
            }));
            Some(())
        })?;
        Ok((is_whole.is_some() && docs.len() == self.docs as usize).then_some(docs))
    }

    /// Returns `true` if every block is as it was written. Reads all of them.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn is_whole(&self) -> io::Result<bool> {
        Ok(self.each_block(&self.blocks, &mut |_, _| Some(()))?.is_some())
    }

    /// Returns the blocks of a section, which stand together.
    pub(crate) fn section(&self, section: Section) -> &[BlockEntry] {
        let is_in = |entry: &BlockEntry| entry.section == section;
        let Some(start) = self.blocks.iter().position(is_in) else { return &[] };
        let rest = &self.blocks[start..];
        let len = rest.iter().position(|entry| !is_in(entry)).unwrap_or(rest.len());
        &rest[..len]
    }

    /// Passes the content of each of some blocks, which are read several at once; `None` as soon as
    /// one is damaged or `take` returns it.
    pub(crate) fn each_block(
        &self,
        blocks: &[BlockEntry],
        take: &mut dyn FnMut(&BlockEntry, &[u8]) -> Option<()>,
    ) -> io::Result<Option<()>> {
        let (mut rest, mut buffer) = (blocks, Vec::new());
        while let Some(first) = rest.first() {
            let mut len = 0;
            let follows = |entry: &&BlockEntry| {
                let is_next = entry.offset == first.offset.saturating_add(len as u64);
                len += entry.len as usize;
                is_next && len <= READ_LEN
            };
            let count = rest.iter().take_while(follows).count().max(1);
            let (some, others) = rest.split_at(count);
            rest = others;
            buffer.resize(some.iter().map(|entry| entry.len as usize).sum(), 0);
            if self.file.read_full_at(&mut buffer, first.offset)? < buffer.len() {
                return Ok(None);
            }
            let mut at = 0;
            for entry in some {
                let block = &buffer[at..at + entry.len as usize];
                at += block.len();
                if self.checked(entry, block).and_then(|content| take(entry, content)).is_none() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(()))
    }

    /// Reads the content of a block; `None` if it is damaged.
    pub(crate) fn block<'b>(
        &self,
        entry: &BlockEntry,
        buffer: &'b mut Vec<u8>,
    ) -> io::Result<Option<&'b [u8]>> {
        buffer.resize(entry.len as usize, 0);
        let is_whole = self.file.read_full_at(buffer, entry.offset)? == buffer.len();
        Ok(if is_whole { self.checked(entry, buffer) } else { None })
    }

    /// Returns the content of a block as it was read.
    fn checked<'b>(&self, entry: &BlockEntry, block: &'b [u8]) -> Option<&'b [u8]> {
        let (head, content) = block.split_first_chunk::<BLOCK_HEAD_LEN>()?;
        let checksum = block_checksum(block, self.seed, entry.offset);
        (u64::from_le_bytes(*head) == checksum).then_some(content)
    }
}

/// The header of a segment.
struct Head {
    seed: u64,
    docs: u32,
    reader: u32,
    has_pairs: bool,
    directory_at: u64,
    blocks: u32,
    checksum: u64,
}

impl Head {
    fn parse(head: &[u8]) -> Option<Self> {
        let mut reader = LeReader(head);
        let is_known =
            reader.take(8)? == MAGIC && reader.u32()? == VERSION && reader.u32()? == TEXTS_VERSION;
        let seed = reader.u64()?;
        let docs = reader.u32()?;
        let has_pairs = reader.u32()? != 0;
        let directory_at = reader.u64()?;
        let blocks = reader.u32()?;
        let attachment_reader = reader.u32()?;
        let checksum = reader.u64()?;
        let is_bounded = docs <= SEGMENT_DOCS_MAX && blocks as usize <= BLOCKS_MAX;
        (is_known && is_bounded).then_some(Self {
            seed,
            docs,
            reader: attachment_reader,
            has_pairs,
            directory_at,
            blocks,
            checksum,
        })
    }
}

impl BlockEntry {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = LeReader(bytes);
        let code = reader.take(2)?;
        let section = Section::of_code(code[0], code[1])?;
        reader.take(2)?;
        let len = reader.u32()?;
        let (offset, first) = (reader.u64()?, reader.u64()?);
        let is_bounded = (BLOCK_HEAD_LEN..=BLOCK_LEN_MAX).contains(&(len as usize));
        is_bounded.then_some(Self { section, len, offset, first })
    }
}

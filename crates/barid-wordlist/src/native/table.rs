//! A table file: read by hash, by token or sequentially; written once as a whole.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::{File, OpenOptions, Vfs, atomic_replace};

use super::hashed::{self, Answer, Collision, Hashed};
use super::header::{BLOCKS_OFFSET, HEADER_LEN, Header, NoHeader, Part};
use super::sorted::{self, BlockTokens, Builder};
use crate::entry::is_receipt;
use crate::error::At;
use crate::limits::{
    CHUNK_LEN, COLD, DAMAGE_MAX, ENTRIES_MAX, KEPT_LEN_MAX, PREFETCH_LEN_MAX, WHOLE_LEN_MAX,
};
use crate::{Counts, Damage, Error, Result, TokenEntry};

/// Length of the hashed part, in bytes, above which it is assumed not to stay in the processor's
/// cache.
const IN_CACHE_LEN: usize = 1024 * 1024;

/// Permission bits of all files of a list.
pub(crate) const FILE_MODE: u32 = 0o600;

/// An open table.
#[derive(Debug)]
pub(crate) struct Table {
    vfs: Arc<dyn Vfs>,
    pub(crate) path: PathBuf,
    file: Box<dyn File>,
    pub(crate) header: Header,
    pub(crate) inode: u64,
    hashed: HashedBlocks,
    /// The blocks of the most frequent tokens, read at the first lookup; empty if one is damaged.
    frequent: Option<Vec<u8>>,
    asked: Vec<TokenQuery>,
    /// Sorted blocks that were found damaged.
    bad_sorted: HashSet<u32>,
    pub(crate) damage: Vec<Damage>,
}

/// A token to look up: its index and its hash.
#[derive(Clone, Copy, Debug)]
struct TokenQuery {
    nth: usize,
    hash: u64,
}

/// The blocks of the hashed part in memory.
#[derive(Debug)]
enum HashedBlocks {
    /// No blocks: there was no lookup yet.
    None,
    /// Some blocks, with their indexes in `bytes`.
    Some { places: HashMap<u32, u32>, bytes: Vec<u8> },
    /// All blocks, and the sorted numbers of damaged ones.
    All { bytes: Vec<u8>, bad: Vec<u32> },
}

impl Table {
    /// Opens a table. Costs an `open`, an `fstat` and a read.
    pub(crate) fn open(vfs: &Arc<dyn Vfs>, path: &Path) -> Result<Self> {
        let file = match vfs.open(path, OpenOptions::READ) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::NotFound { path: path.to_owned() });
            }
            opened => opened.at(path)?,
        };
        let metadata = file.metadata().at(path)?;
        let mut damage = Vec::new();
        let header = read_header(&*file, path, metadata.size, &mut damage)?;
        if metadata.size != header.file_len() {
            let offset = metadata.size;
            damage.push(Damage { path: path.to_owned(), offset, what: "the end of the table" });
        }
        let (vfs, path, inode) = (Arc::clone(vfs), path.to_owned(), metadata.inode);
        let (hashed, frequent, asked) = (HashedBlocks::None, None, Vec::new());
        let bad_sorted = HashSet::new();
        Ok(Self { vfs, path, file, header, inode, hashed, frequent, asked, bad_sorted, damage })
    }

    pub(crate) fn damaged(&mut self, offset: u64, what: &'static str) {
        let damage = Damage { path: self.path.clone(), offset, what };
        if self.damage.len() < DAMAGE_MAX && !self.damage.contains(&damage) {
            self.damage.push(damage);
        }
    }

    fn hashed_len(&self) -> u64 {
        self.header.region(Part::Hashed).len()
    }

    /// Looks up the tokens for which `found` is `None`.
    pub(crate) fn find(&mut self, tokens: &[&[u8]], found: &mut [Option<Counts>]) -> Result<()> {
        if self.header.entries == 0 {
            return Ok(());
        }
        let mut asked = std::mem::take(&mut self.asked);
        asked.clear();
        let missing = tokens.iter().zip(&*found).enumerate();
        asked.extend(
            missing.filter(|(_, (_, found))| found.is_none()).map(|(nth, (token, _))| TokenQuery {
                nth,
                hash: hashed::hash(&self.header, token),
            }),
        );
        let done = self.find_frequent(&mut asked, found);
        let done = done.and_then(|()| self.find_all(&asked, tokens, found));
        self.asked = asked;
        done
    }

    /// Looks up tokens among the most frequent ones, and removes those found from `asked`.
    fn find_frequent(
        &mut self,
        asked: &mut Vec<TokenQuery>,
        found: &mut [Option<Counts>],
    ) -> Result<()> {
        if self.frequent.is_none() {
            self.frequent = Some(self.read_frequent()?);
        }
        let region = self.header.region(Part::Frequent);
        if let Some(bytes) = self.frequent.as_ref().filter(|bytes| !bytes.is_empty()) {
            asked.retain(|TokenQuery { nth, hash }| match region.find_in(*hash, bytes) {
                Answer::Found(counts) => {
                    found[*nth] = Some(counts);
                    false
                }
                _ => true,
            });
        }
        Ok(())
    }

    fn find_all(
        &mut self,
        asked: &[TokenQuery],
        tokens: &[&[u8]],
        found: &mut [Option<Counts>],
    ) -> Result<()> {
        let Some(first_asked) = asked.first() else { return Ok(()) };
        let first = matches!(self.hashed, HashedBlocks::None);
        if first && self.hashed_len() <= WHOLE_LEN_MAX {
            self.load_all()?;
        } else if let HashedBlocks::Some { bytes, .. } = &self.hashed {
            if bytes.len() as u64 * 2 > self.hashed_len() && self.hashed_len() <= KEPT_LEN_MAX {
                self.load_all()?;
            } else if bytes.len() as u64 > KEPT_LEN_MAX {
                self.hashed = HashedBlocks::Some { places: HashMap::new(), bytes: Vec::new() };
            }
        }
        if first && !matches!(self.hashed, HashedBlocks::All { .. }) {
            self.fetch(first_asked, &asked[1..])?;
        }
        let mut block = [0; hashed::BLOCK_LEN];
        let header = self.header.clone();
        if let HashedBlocks::All { bytes, .. } = &self.hashed
            && bytes.len() > IN_CACHE_LEN
        {
            let touch = |seen, asked: &TokenQuery| seen ^ hashed::touch(&header, asked.hash, bytes);
            std::hint::black_box(asked.iter().fold(0, touch));
        }
        for asked in asked {
            let token = tokens[asked.nth];
            found[asked.nth] = self.find_one(&header, token, asked.hash, &mut block)?;
        }
        if first && matches!(self.hashed, HashedBlocks::None) {
            self.hashed = HashedBlocks::Some { places: HashMap::new(), bytes: Vec::new() };
        }
        Ok(())
    }

    /// Reads the blocks of the most frequent tokens; returns none if one is damaged, because all of
    /// their tokens are in the other blocks, too.
    fn read_frequent(&mut self) -> Result<Vec<u8>> {
        let (region, offset) = (self.header.region(Part::Frequent), self.header.frequent_offset());
        let mut bytes = vec![0; region.len() as usize];
        self.file.read_full_at(&mut bytes, offset).at(&self.path)?;
        let blocks = (0..).zip(bytes.chunks_exact(hashed::BLOCK_LEN));
        let is_bad = |(number, block)| !hashed::is_sound(&self.header, region.part, number, block);
        if let Some((number, _)) = blocks.clone().find(|block| is_bad(*block)) {
            self.damaged(offset + u64::from(number) * hashed::BLOCK_LEN as u64, "frequent counts");
            bytes.clear();
        }
        Ok(bytes)
    }

    /// Reads the block of the first token and, if that came from the disk, prefetches those of all
    /// others.
    fn fetch(&mut self, first: &TokenQuery, others: &[TokenQuery]) -> Result<()> {
        let (region, start) = (self.header.region(Part::Hashed), self.header.hashed_offset);
        let offset = |asked: &TokenQuery| {
            start + u64::from(region.home(asked.hash)) * hashed::BLOCK_LEN as u64
        };
        let before = self.vfs.now().unix_nanos;
        let read = self.file.read_at(&mut [0; hashed::BLOCK_LEN], offset(first));
        read.at(&self.path)?;
        let nanos = self.vfs.now().unix_nanos.saturating_sub(before);
        if nanos < COLD.as_nanos() as i64 {
            return Ok(());
        }
        if region.len() <= PREFETCH_LEN_MAX {
            self.file.prefetch(start, region.len());
        } else {
            others.iter().for_each(|asked| {
                self.file.prefetch(offset(asked), hashed::BLOCK_LEN as u64);
            });
        }
        Ok(())
    }

    fn find_one(
        &mut self,
        header: &Header,
        token: &[u8],
        hash: u64,
        block: &mut [u8; hashed::BLOCK_LEN],
    ) -> Result<Option<Counts>> {
        match self.find_hash(header, hash, block)? {
            Answer::Found(counts) => Ok(Some(counts)),
            Answer::Damaged => Ok(self.entry(token)?.map(TokenEntry::counts)),
            Answer::Absent | Answer::Next => Ok(None),
        }
    }

    /// Looks up a hash in the hashed part only.
    fn find_hash(
        &mut self,
        header: &Header,
        hash: u64,
        block: &mut [u8; hashed::BLOCK_LEN],
    ) -> Result<Answer> {
        let region = header.region(Part::Hashed);
        let home = region.home(hash);
        for (distance, number) in (home..header.hashed_blocks).enumerate() {
            let answer = match self.block(number, block)? {
                Some(bytes) => hashed::find(region, hash, distance as u32, bytes),
                None => Answer::Damaged,
            };
            match answer {
                Answer::Next => {}
                Answer::Damaged => {
                    let before = u64::from(number) * hashed::BLOCK_LEN as u64;
                    self.damaged(header.hashed_offset + before, "counts by hash");
                    return Ok(answer);
                }
                answer => return Ok(answer),
            }
        }
        Ok(Answer::Absent)
    }

    /// Reads a hashed block; returns `false` if it is damaged.
    fn read_block(&self, number: u32, block: &mut [u8]) -> Result<bool> {
        let offset = self.header.hashed_offset + u64::from(number) * hashed::BLOCK_LEN as u64;
        let len = self.file.read_full_at(block, offset).at(&self.path)?;
        Ok(len == block.len() && hashed::is_sound(&self.header, Part::Hashed, number, block))
    }

    /// Returns a hashed block, which is kept in memory from the second lookup on; `None` if it is
    /// damaged.
    fn block<'a>(&'a mut self, number: u32, block: &'a mut [u8]) -> Result<Option<&'a [u8]>> {
        let place = match &self.hashed {
            HashedBlocks::None => return Ok(self.read_block(number, block)?.then_some(block)),
            HashedBlocks::All { bad, .. } => match bad.binary_search(&number) {
                Ok(_) => return Ok(None),
                Err(_) => Some(number),
            },
            HashedBlocks::Some { places, .. } => places.get(&number).copied(),
        };
        let sound = place.is_some() || self.read_block(number, block)?;
        let (HashedBlocks::All { bytes, .. } | HashedBlocks::Some { bytes, .. }) = &mut self.hashed
        else {
            return Ok(None);
        };
        let place = place.unwrap_or((bytes.len() / hashed::BLOCK_LEN) as u32);
        let start = place as usize * hashed::BLOCK_LEN;
        if sound && start == bytes.len() {
            bytes.extend_from_slice(block);
            if let HashedBlocks::Some { places, .. } = &mut self.hashed {
                places.insert(number, place);
            }
        }
        let (HashedBlocks::All { bytes, .. } | HashedBlocks::Some { bytes, .. }) = &self.hashed
        else {
            return Ok(None);
        };
        Ok(bytes.get(start..start + hashed::BLOCK_LEN).filter(|_| sound))
    }

    fn load_all(&mut self) -> Result<()> {
        let mut bytes = vec![0; self.hashed_len() as usize];
        let read = self.file.read_full_at(&mut bytes, self.header.hashed_offset);
        read.at(&self.path)?;
        let blocks = bytes.chunks_exact(hashed::BLOCK_LEN).enumerate();
        let blocks = blocks.map(|(number, block)| (number as u32, block));
        let bad = blocks.filter(|(number, block)| {
            !hashed::is_sound(&self.header, Part::Hashed, *number, block)
        });
        let bad: Vec<u32> = bad.map(|(number, _)| number).collect();
        for number in &bad {
            let before = u64::from(*number) * hashed::BLOCK_LEN as u64;
            self.damaged(self.header.hashed_offset + before, "counts by hash");
        }
        self.hashed = HashedBlocks::All { bytes, bad };
        Ok(())
    }

    /// Returns the entry of a token, by a binary search of the sorted blocks.
    pub(crate) fn entry(&mut self, token: &[u8]) -> Result<Option<TokenEntry>> {
        let (mut low, mut high) = (0, self.header.sorted_blocks);
        let (mut block, mut found) = (vec![0; sorted::BLOCK_LEN], Vec::new());
        // Searches for the last block whose first token is not greater than `token`.
        while high - low > 1 {
            let mut middle = (low + high) / 2;
            while middle < high && !self.first_of(middle, &mut block, &mut found)? {
                middle += 1;
            }
            match middle < high && found[..] <= *token {
                true => low = middle,
                false if middle == high => high = (low + high) / 2,
                false => high = middle,
            }
        }
        for number in low..self.header.sorted_blocks {
            if !self.first_of(number, &mut block, &mut found)? {
                continue;
            }
            let Some(mut tokens) = BlockTokens::of(&self.header, number, &block) else { continue };
            found.clear();
            while let Some(entry) = tokens.next(&mut found) {
                match found[..].cmp(token) {
                    Ordering::Less => {}
                    Ordering::Equal => return Ok(Some(entry)),
                    Ordering::Greater => return Ok(None),
                }
            }
        }
        Ok(None)
    }

    /// Returns the number and the first token of the first sound sorted block from `number` on; the
    /// token is empty after the last block.
    pub(crate) fn next_sound(&mut self, mut number: u32) -> Result<(u32, Vec<u8>)> {
        let (mut block, mut token) = (vec![0; sorted::BLOCK_LEN], Vec::new());
        while number < self.header.sorted_blocks
            && !self.first_of(number, &mut block, &mut token)?
        {
            number += 1;
        }
        Ok((number, token))
    }

    /// Returns the tokens of a damaged sorted block whose counts agree with the hashed part, as far
    /// as they are in ascending order, after `after` and before `before`, if that is not empty.
    pub(crate) fn rescued(
        &mut self,
        bytes: &[u8],
        (after, before): (&[u8], &[u8]),
    ) -> Result<Vec<(Vec<u8>, TokenEntry)>> {
        let (mut token, mut rescued) = (Vec::new(), Vec::<(Vec<u8>, TokenEntry)>::new());
        let header = self.header.clone();
        let mut block = [0; hashed::BLOCK_LEN];
        let mut tokens = BlockTokens::of_damaged(&header, bytes);
        while let Some(entry) = tokens.next(&mut token) {
            let last = rescued.last().map_or(after, |(last, _)| &last[..]);
            let is_in_order = *last < token[..] && (before.is_empty() || token[..] < *before);
            let hash = hashed::hash(&header, &token);
            let found = is_in_order.then(|| self.find_hash(&header, hash, &mut block));
            if found.transpose()? == Some(Answer::Found(entry.counts())) {
                rescued.push((token.clone(), entry));
            }
        }
        Ok(rescued)
    }

    /// Returns the entry of a token; if sorted blocks are damaged, at least its counts from the
    /// hashed part, without a date.
    pub(crate) fn entry_or_counts(&mut self, token: &[u8]) -> Result<Option<TokenEntry>> {
        let entry = self.entry(token)?;
        if entry.is_some() || self.bad_sorted.is_empty() {
            return Ok(entry);
        }
        let (header, mut block) = (self.header.clone(), [0; hashed::BLOCK_LEN]);
        let hash = hashed::hash(&header, token);
        Ok(match self.find_hash(&header, hash, &mut block)? {
            Answer::Found(Counts { spam, ham }) => Some(TokenEntry { spam, ham, date: 0 }),
            _ => None,
        })
    }

    /// Reads all sorted blocks; returns `true` if none is damaged.
    pub(crate) fn check_sorted(&mut self) -> Result<bool> {
        let (mut bytes, mut first) = (Vec::new(), 0);
        while first < self.header.sorted_blocks {
            let blocks =
                (self.header.sorted_blocks - first).min((CHUNK_LEN / sorted::BLOCK_LEN) as u32);
            self.read_sorted(first, blocks, &mut bytes)?;
            for (number, block) in (first..).zip(bytes.chunks_exact(sorted::BLOCK_LEN)) {
                if BlockTokens::of(&self.header, number, block).is_none() {
                    let before = u64::from(number) * sorted::BLOCK_LEN as u64;
                    self.damaged(BLOCKS_OFFSET + before, "tokens in order");
                    self.bad_sorted.insert(number);
                }
            }
            first += blocks;
        }
        Ok(self.bad_sorted.is_empty())
    }

    /// Reads a sorted block and its first token; returns `false` if it is damaged.
    fn first_of(&mut self, number: u32, block: &mut [u8], token: &mut Vec<u8>) -> Result<bool> {
        token.clear();
        if self.bad_sorted.contains(&number) {
            return Ok(false);
        }
        let offset = BLOCKS_OFFSET + u64::from(number) * sorted::BLOCK_LEN as u64;
        let len = self.file.read_full_at(block, offset).at(&self.path)?;
        let tokens = (len == block.len()).then(|| BlockTokens::of(&self.header, number, block));
        let sound = tokens.flatten().and_then(|mut tokens| tokens.next(token)).is_some();
        if !sound {
            self.damaged(offset, "tokens in order");
            self.bad_sorted.insert(number);
        }
        Ok(sound)
    }

    /// Reads sorted blocks from `first` on. Bytes beyond the end of the file are zeros.
    pub(crate) fn read_sorted(&self, first: u32, blocks: u32, bytes: &mut Vec<u8>) -> Result<()> {
        let offset = BLOCKS_OFFSET + u64::from(first) * sorted::BLOCK_LEN as u64;
        bytes.clear();
        bytes.resize(blocks as usize * sorted::BLOCK_LEN, 0);
        self.file.read_full_at(bytes, offset).at(&self.path)?;
        Ok(())
    }
}

fn read_header(
    file: &dyn File,
    path: &Path,
    size: u64,
    damage: &mut Vec<Damage>,
) -> Result<Header> {
    let mut bytes = [0; HEADER_LEN];
    let mut first = None;
    // The copy is at the end of the file.
    for offset in [0, size.saturating_sub(HEADER_LEN as u64)] {
        let len = file.read_full_at(&mut bytes, offset).at(path)?;
        let decoded = match len {
            HEADER_LEN => Header::decode(&bytes),
            _ => Err(NoHeader::Damaged),
        };
        match decoded {
            Ok(header) => {
                if first.is_some() {
                    damage.push(Damage { path: path.to_owned(), offset: 0, what: "header" });
                }
                return Ok(header);
            }
            Err(error) => first = first.or(Some(error)),
        }
    }
    match first {
        Some(NoHeader::Version(version)) => Err(Error::Version { path: path.to_owned(), version }),
        _ => Err(Error::Damaged { path: path.to_owned(), what: "not a header of a word list" }),
    }
}

/// Replaces the table at `path`, durably, by one that `fill` writes. `header` has its generation,
/// base, sequence number, seed, day and id; the other fields are set here.
pub(crate) fn write(
    vfs: &dyn Vfs,
    path: &Path,
    header: &mut Header,
    fill: &mut dyn FnMut(&mut Writer<'_>) -> Result<()>,
) -> Result<()> {
    let mut failed = None;
    let written = atomic_replace(vfs, path, FILE_MODE, true, |file| {
        let mut writer = Writer::new(file, path, header);
        let done = fill(&mut writer).and_then(|()| writer.finish());
        done.map_err(|error| {
            failed = Some(error);
            std::io::ErrorKind::Other.into()
        })
    });
    match failed {
        Some(error) => Err(error),
        None => written.map(drop).at(path),
    }
}

/// A writer of a new table.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    file: &'a dyn File,
    path: &'a Path,
    header: &'a mut Header,
    sorted: Builder,
    hashed: Vec<Hashed>,
    /// The hashes of receipts, which are never among the frequent tokens.
    receipts: Vec<u64>,
    out: Vec<u8>,
    offset: u64,
}

impl<'a> Writer<'a> {
    fn new(file: &'a dyn File, path: &'a Path, header: &'a mut Header) -> Self {
        let sorted = Builder::new(header);
        let (hashed, receipts, out) = (Vec::new(), Vec::new(), Vec::new());
        Self { file, path, header, sorted, hashed, receipts, out, offset: BLOCKS_OFFSET }
    }

    /// Appends a token, which must sort after all before it.
    pub(crate) fn push(&mut self, token: &[u8], entry: TokenEntry) -> Result<()> {
        self.sorted.push(self.header, token, entry, &mut self.out);
        let hash = hashed::hash(self.header, token);
        self.hashed.push(Hashed { hash, counts: entry.counts() });
        if is_receipt(token) {
            self.receipts.push(hash);
        }
        if self.hashed.len() as u64 > ENTRIES_MAX {
            return Err(Error::Refused { what: "more tokens than a list can store" });
        }
        if self.out.len() >= CHUNK_LEN { self.write_out() } else { Ok(()) }
    }

    fn write_out(&mut self) -> Result<()> {
        self.file.write_all_at(&self.out, self.offset).at(self.path)?;
        self.offset += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    /// Writes the hashed part, and then the header and its copy.
    ///
    /// # Errors
    /// [`Error::Collision`]: try another seed.
    fn finish(self) -> Result<()> {
        let Self { file, path, header, sorted, hashed, receipts, mut out, offset } = self;
        header.entries = hashed.len() as u64;
        header.sorted_blocks = sorted.finish(header, &mut out);
        header.hashed_offset = offset + out.len() as u64;
        if hashed::build(header, hashed, receipts, &mut out) == Err(Collision) {
            return Err(Error::Collision);
        }
        let encoded = header.encode();
        out.extend_from_slice(&encoded);
        file.write_all_at(&out, offset).at(path)?;
        file.write_all_at(&encoded, 0).at(path)
    }
}

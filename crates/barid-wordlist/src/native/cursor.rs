//! Merging tables and changes in the order of their tokens.

use super::header::BLOCKS_OFFSET;
use super::sorted::{BLOCK_LEN, BlockTokens};
use super::table::Table;
use crate::limits::CHUNK_LEN;
use crate::{Result, TokenEntry};

/// An iterator over a table, which skips what is damaged.
#[derive(Debug)]
struct Cursor<'a> {
    table: &'a mut Table,
    /// Blocks in memory, the number of the first, and of the one after the last.
    chunk: Vec<u8>,
    first: u32,
    end: u32,
    /// Number of the next block.
    next: u32,
    /// The rest of the current block: the last date, the number of tokens, and their range in
    /// `chunk`.
    date: u32,
    left: u16,
    at: usize,
    until: usize,
    /// Rescued tokens of a damaged block, and the next sound block with its first token.
    rescued: std::vec::IntoIter<(Vec<u8>, TokenEntry)>,
    sound: (u32, Vec<u8>),
}

impl<'a> Cursor<'a> {
    fn new(table: &'a mut Table) -> Self {
        let (chunk, first, end, next) = (Vec::new(), 0, 0, 0);
        let (rescued, sound) = (Vec::new().into_iter(), (0, Vec::new()));
        let (date, left, at, until) = (0, 0, 0, 0);
        Self { table, chunk, first, end, next, date, left, at, until, rescued, sound }
    }

    #[inline]
    fn advance(&mut self, token: &mut Vec<u8>) -> Result<Option<TokenEntry>> {
        loop {
            if self.left > 0 {
                let rest = &self.chunk[self.at..self.until];
                let mut all =
                    BlockTokens::resume(self.table.header.day, self.date, self.left, rest);
                if let Some(entry) = all.next(token) {
                    let (date, left, rest) = all.pause();
                    (self.date, self.left, self.at) = (date, left, self.until - rest.len());
                    return Ok(Some(entry));
                }
                self.left = 0;
            }
            if let Some((rescued, entry)) = self.rescued.next() {
                *token = rescued;
                return Ok(Some(entry));
            }
            if self.next == self.end && !self.fill()? {
                return Ok(None);
            }
            self.begin(token)?;
        }
    }

    /// Starts the next block of the chunk.
    fn begin(&mut self, token: &mut Vec<u8>) -> Result<()> {
        let start = (self.next - self.first) as usize * BLOCK_LEN;
        let block = &self.chunk[start..start + BLOCK_LEN];
        match BlockTokens::of(&self.table.header, self.next, block) {
            Some(tokens) => {
                let (date, left, rest) = tokens.pause();
                (self.date, self.left) = (date, left);
                self.at = start + BlockTokens::OFFSET;
                self.until = self.at + rest.len();
                token.clear();
            }
            None => {
                let offset = BLOCKS_OFFSET + u64::from(self.next) * BLOCK_LEN as u64;
                self.table.damaged(offset, "tokens in order");
                if self.sound.0 <= self.next {
                    self.sound = self.table.next_sound(self.next + 1)?;
                }
                let between = (&token[..], &self.sound.1[..]);
                self.rescued = self.table.rescued(block, between)?.into_iter();
            }
        }
        self.next += 1;
        Ok(())
    }

    fn fill(&mut self) -> Result<bool> {
        let blocks = self.table.header.sorted_blocks - self.end;
        let blocks = blocks.min((CHUNK_LEN / BLOCK_LEN) as u32);
        self.table.read_sorted(self.end, blocks, &mut self.chunk)?;
        (self.first, self.end) = (self.end, self.end + blocks);
        Ok(blocks > 0)
    }
}

/// Sorted tokens from one source.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    from: From<'a>,
    token: Vec<u8>,
    entry: Option<TokenEntry>,
}

#[derive(Debug)]
enum From<'a> {
    Table(Cursor<'a>),
    Changes(std::slice::Iter<'a, (&'a [u8], TokenEntry)>),
}

impl<'a> Source<'a> {
    /// Creates a source of all tokens of a table.
    pub(crate) fn table(table: &'a mut Table) -> Result<Self> {
        Self::new(From::Table(Cursor::new(table)))
    }

    /// Creates a source of sorted changes.
    pub(crate) fn changes(changes: &'a [(&'a [u8], TokenEntry)]) -> Result<Self> {
        Self::new(From::Changes(changes.iter()))
    }

    fn new(from: From<'a>) -> Result<Self> {
        let mut source = Self { from, token: Vec::new(), entry: None };
        source.advance()?;
        Ok(source)
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        self.entry = match &mut self.from {
            From::Table(cursor) => cursor.advance(&mut self.token)?,
            From::Changes(changes) => changes.next().map(|(token, entry)| {
                self.token.clear();
                self.token.extend_from_slice(token);
                *entry
            }),
        };
        Ok(())
    }
}

/// Visits every token of all sources, in order, with the entry of the first source that has it,
/// until `visit` returns `false`.
pub(crate) fn each(
    mut sources: Vec<Source<'_>>,
    visit: &mut dyn FnMut(&[u8], TokenEntry) -> Result<bool>,
) -> Result<()> {
    while sources.len() > 1 {
        sources.retain(|source| source.entry.is_some());
        let mut least = 0;
        let mut alike = false;
        for other in 1..sources.len() {
            match sources[other].token.cmp(&sources[least].token) {
                std::cmp::Ordering::Less => (least, alike) = (other, false),
                std::cmp::Ordering::Equal => alike = true,
                std::cmp::Ordering::Greater => {}
            }
        }
        let Some(source) = sources.get_mut(least) else { return Ok(()) };
        let Some(entry) = source.entry else { return Ok(()) };
        if !visit(&source.token, entry)? {
            return Ok(());
        }
        let (source, others) = sources[least..].split_first_mut().expect("because it is there");
        for other in others.iter_mut().filter(|_| alike) {
            if other.entry.is_some() && other.token == source.token {
                other.advance()?;
            }
        }
        source.advance()?;
    }
    let Some(mut source) = sources.pop() else { return Ok(()) };
    while let Some(entry) = source.entry {
        if !visit(&source.token, entry)? {
            break;
        }
        source.advance()?;
    }
    Ok(())
}

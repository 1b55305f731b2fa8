//! The recently used blocks of all open caches of a process, checked and unpacked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter, sync::DefaultLifecycle};

use crate::error::Result;
use crate::limits::{CACHED_BLOCKS, CACHED_BYTES_MAX, CACHED_SHARDS};

/// A checked block.
pub(crate) type Block = Arc<Vec<u8>>;

/// The number of a file in this process, and the start of a block in it.
type Key = (u64, u64);

type Blocks = Cache<Key, Block, Lengths>;

static BLOCKS: LazyLock<Option<Blocks>> = LazyLock::new(|| {
    let options = OptionsBuilder::new()
        .estimated_items_capacity(CACHED_BLOCKS)
        .weight_capacity(CACHED_BYTES_MAX)
        .shards(CACHED_SHARDS)
        .build()
        .ok()?;
    let hash = DefaultHashBuilder::default();
    Some(Cache::with_options(options, Lengths, hash, DefaultLifecycle::default()))
});

static LAST_FILE: AtomicU64 = AtomicU64::new(0);

#[derive(Clone)]
struct Lengths;

impl Weighter<Key, Block> for Lengths {
    fn weight(&self, _: &Key, block: &Block) -> u64 {
        block.len() as u64
    }
}

/// The cached blocks of one file.
#[derive(Debug)]
pub(crate) struct FileBlocks {
    file: u64,
}

impl FileBlocks {
    pub(crate) fn new() -> Self {
        Self { file: LAST_FILE.fetch_add(1, Ordering::Relaxed) }
    }

    /// Returns the block that begins at `start`; calls `read` if it is not cached.
    pub(crate) fn get_or_read(
        &self,
        start: u64,
        read: impl FnOnce() -> Result<Block>,
    ) -> Result<Block> {
        let key = (self.file, start);
        let Some(blocks) = &*BLOCKS else { return read() };
        if let Some(block) = blocks.get(&key) {
            return Ok(block);
        }
        let block = read()?;
        blocks.insert(key, Arc::clone(&block));
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_files_are_told_apart_and_bounded() {
        let (one, other) = (FileBlocks::new(), FileBlocks::new());
        let block = |byte| move || Ok(Arc::new(vec![byte; 64 << 10]));
        let mut hits = 0;
        for start in 0..1000 {
            assert_eq!(one.get_or_read(start, block(1)).unwrap()[0], 1);
            assert_eq!(other.get_or_read(start, block(2)).unwrap()[0], 2);
            hits += usize::from(one.get_or_read(start, block(3)).unwrap()[0] == 1);
        }
        assert!(hits > 0);
        assert!(BLOCKS.as_ref().unwrap().weight() <= CACHED_BYTES_MAX);
    }
}

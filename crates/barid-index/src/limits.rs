//! Named bounds of indexes.

/// Bytes of the longest token that is indexed as a whole. A longer one is cut into pieces of this
/// length that overlap.
pub(crate) const TOKEN_LEN_MAX: usize = 64;

/// Bytes from one piece of a long token to the next.
pub(crate) const PIECE_STEP: usize = 32;

/// Bytes of a text that is in one of these pieces wherever it is in the token.
pub(crate) const PIECE_TEXT_LEN_MAX: usize = TOKEN_LEN_MAX - PIECE_STEP + 1;

/// Bytes of the longest token beyond ASCII that is indexed as a whole. A longer one, such as a
/// sentence in a script without spaces, is indexed by its pairs of characters.
pub(crate) const FOREIGN_TOKEN_LEN_MAX: usize = 30;

/// Bytes of the longest separator of two tokens that is indexed.
pub(crate) const SEPARATOR_LEN_MAX: usize = 4;

/// Most messages of a segment.
pub const SEGMENT_DOCS_MAX: u32 = 1 << 17;

/// Bytes that a builder holds before its segment is to be written.
pub const BUILDER_BYTES_MAX: usize = 42 << 20;

/// Bytes of terms and lists that one message may add. A message beyond is a candidate of every
/// search.
pub(crate) const DOC_BYTES_MAX: usize = 4 << 20;

/// Bytes of a block, about.
pub(crate) const BLOCK_LEN: usize = 64 << 10;

/// Longest block that a reader accepts.
pub(crate) const BLOCK_LEN_MAX: usize = 1 << 20;

/// Most blocks of a segment.
pub(crate) const BLOCKS_MAX: usize = 1 << 20;

/// Most bytes that are read at once.
pub(crate) const READ_LEN: usize = 512 << 10;

/// Most pieces of a search text that are looked up, the longest ones; a message is then a candidate
/// without the rest.
pub(crate) const PIECES_MAX: usize = 4;

/// Most parts of one piece that are looked up.
pub(crate) const PROBES_MAX: usize = 4;

/// Most boundaries of a search text that are looked up.
pub(crate) const GRAMS_MAX: usize = 32;

/// Most documents of a mailbox.
pub(crate) const MANIFEST_DOCS_MAX: usize = 1 << 26;

/// Most segments of a mailbox.
pub const SEGMENTS_MAX: usize = 1 << 14;

/// Most bytes of the file of the rows that are documents: those of 4,000,000 runs.
pub(crate) const ROWS_LEN_MAX: u64 = 64 << 20;

/// Most bytes of a manifest.
pub(crate) const MANIFEST_LEN_MAX: u64 = 1 << 30;

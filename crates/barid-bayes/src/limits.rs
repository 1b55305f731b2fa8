//! Named bounds on lengths, depths and counts that mail determines.

/// Most bytes of decoded text that one rule of the scanner reads: a longer tag, comment or word
/// ends there. It bounds the memory of a tokenizer.
pub(crate) const LOOKAHEAD_LEN_MAX: usize = 1 << 20;

/// Most containers and nested messages that are open at once; parts deeper than that are read as
/// belonging to the deepest.
pub(crate) const PART_DEPTH_MAX: usize = 256;

/// Longest physical line that is decoded at once; longer ones are read in pieces (bogofilter's
/// piece: a sixth of what its scanner requests).
pub const LINE_PIECE_LEN: usize = 1365;

/// Longest piece of a line in parts that are not decoded.
pub const RAW_PIECE_LEN: usize = 8192;

/// Most bytes scanned again for each byte of a message (words joined over tags, decoded entities
/// and escapes); after that such tags, entities and escapes are separators.
pub(crate) const RESCANS_PER_BYTE: u64 = 32;

/// Bytes scanned again that any message may have on top of [`RESCANS_PER_BYTE`], even a short one.
pub(crate) const RESCANS_FREE: u64 = 1 << 20;

/// Bytes of a buffer that a tokenizer keeps for the next message.
pub(crate) const BUFFER_KEPT_LEN: usize = 256 * 1024;

/// Most words that are joined to one token.
pub const MULTI_TOKEN_COUNT_MAX: usize = 16;

/// Most words of the text of one message that are paired with their neighbours: the start of a
/// message is enough to classify it, and long digests do not fill the word list.
pub(crate) const PAIRED_WORDS_MAX: usize = 2_000;

/// Longest token that can be requested, in bytes.
pub const TOKEN_LEN_MAX: usize = 1024;

/// Most distinct tokens of one message.
pub const DISTINCT_TOKENS_MAX: usize = 1 << 24;

//! Named bounds on everything that mail can make long or deep.

/// Most messages in one query: rows and numbers of containers must fit together into 32 bits.
pub const MESSAGES_MAX: usize = 1 << 30;

/// Most different message ids of one mailbox, including ids that occur only in references.
pub const MESSAGE_IDS_MAX: usize = 1 << 30;

/// Most keys of one sort program (also Dovecot's limit).
pub const SORT_KEYS_MAX: usize = 32;

/// Steps up a thread that a mailbox may spend on detecting loops, for each link made; beyond it the
/// links are stored in a structure with logarithmic cost.
pub(crate) const LOOP_STEPS_PER_LINK: u64 = 32;

/// Steps that every mailbox may spend on detecting loops before that limit applies.
pub(crate) const LOOP_STEPS_FREE: u64 = 1 << 16;

/// Most identifiers of content in a search program: each is compared with those of all messages.
pub const SEARCH_EMAIL_IDS_MAX: usize = 64;

/// Most nodes of a search program: keys and operators.
pub const SEARCH_KEYS_MAX: usize = 4096;

/// Most levels of parentheses, NOT and OR that are open at once.
pub const SEARCH_DEPTH_MAX: usize = 100;

/// Most bytes of all texts of a search program.
pub const SEARCH_TEXT_LEN_MAX: usize = 256 * 1024;

/// Most bytes of an unknown search key that is compared with the known ones.
pub(crate) const KEY_COMPARED_LEN_MAX: usize = 32;

/// Most patterns of a search program: regular expressions, prefixes, words near each other.
pub const SEARCH_PATTERNS_MAX: usize = 64;

/// Most texts of a search program by which messages are ordered: each is searched by itself.
pub const RELEVANCE_TERMS_MAX: usize = 64;

/// Most bytes of a regular expression.
pub const REGEX_LEN_MAX: usize = 4096;

/// Most bytes of a compiled regular expression, and of the states that a search builds of it.
pub(crate) const REGEX_COMPILED_LEN_MAX: usize = 4 * 1024 * 1024;

/// Most levels of parentheses in a regular expression.
pub(crate) const REGEX_LEVELS_MAX: u32 = 100;

/// Most bytes of the beginning of a word.
pub const PREFIX_LEN_MAX: usize = 1000;

/// Most words that are near each other.
pub const NEAR_WORDS_MAX: usize = 16;

/// Most other words between words that are near each other.
pub const NEAR_DISTANCE_MAX: u32 = 1000;

/// Most ranges of one set of numbers in a search program.
pub const SEARCH_RANGES_MAX: usize = 100_000;

/// Bytes of a buffer that a search keeps for the next message.
pub(crate) const SEARCH_BUFFER_KEPT_LEN: usize = 4 * 1024 * 1024;

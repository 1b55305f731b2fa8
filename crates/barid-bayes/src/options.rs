//! What can be chosen.

use crate::limits::{MULTI_TOKEN_COUNT_MAX, TOKEN_LEN_MAX};
use crate::score::Rule;

/// Whose tokens are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// bogofilter 1.2.5, token for token.
    #[default]
    Bogofilter,
    /// The first version of [`Profile::Modern`]: word lists that were taught with it stay usable,
    /// and its trainings can be taken back.
    Modern1,
    /// The same words without what was found wrong, in small letters, and pairs of neighbours: see
    /// `docs/design/bayes.md`.
    Modern,
}

impl Profile {
    /// The combination of tokens that its scores are made by.
    pub fn rule(self) -> Rule {
        match self {
            Self::Bogofilter | Self::Modern1 => Rule::Fisher,
            Self::Modern => Rule::Balance,
        }
    }
}

/// What the tokens of a word list are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WordEncoding {
    /// The bytes of the mail, transfer encodings decoded.
    Raw,
    /// UTF-8.
    #[default]
    Utf8,
}

/// The prefix of IP addresses in headers where they are blocked by subnet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AddressPrefix {
    /// `ip:`, in word lists of the version 20040500.
    #[default]
    Ip,
    /// `url:`, in older ones.
    Url,
}

/// How messages are turned into tokens. The default is bogofilter's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whose tokens are made.
    pub profile: Profile,
    /// Shortest token, in bytes (`min-token-len`).
    pub token_len_min: usize,
    /// Longest token, in bytes (`max-token-len`); more than
    /// [`TOKEN_LEN_MAX`](crate::limits::TOKEN_LEN_MAX) counts as that.
    pub token_len_max: usize,
    /// Up to how many consecutive tokens are joined to one (`multi-token-count`); more than
    /// [`MULTI_TOKEN_COUNT_MAX`](crate::limits::MULTI_TOKEN_COUNT_MAX) counts as that.
    pub multi_token_count: usize,
    /// Longest joined token, in bytes (`max-multi-token-len`); 0 is enough for all.
    pub multi_token_len_max: usize,
    /// Whether tokens of headers say which header (`-H` turns it off).
    pub header_prefixes: bool,
    /// Whether the networks of an IP address are tokens too (`block_on_subnets`).
    pub block_on_subnets: bool,
    /// The prefix of IP addresses in headers, with `block_on_subnets`.
    pub address_prefix: AddressPrefix,
    /// Whether bytes from 0x80 on become `?` (`replace_nonascii_characters`).
    pub replace_non_ascii: bool,
    /// The charset of text that names none or an unknown one (`charset_default`).
    pub charset_default: String,
    /// What tokens are written in (`unicode`).
    pub word_encoding: WordEncoding,
    /// The start of the header lines that are passed over (`spam_header_name`).
    pub spam_header_name: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            profile: Profile::Bogofilter,
            token_len_min: 3,
            token_len_max: 30,
            multi_token_count: 1,
            multi_token_len_max: 0,
            header_prefixes: true,
            block_on_subnets: false,
            address_prefix: AddressPrefix::Ip,
            replace_non_ascii: false,
            charset_default: "iso-8859-1".to_owned(),
            word_encoding: WordEncoding::Utf8,
            spam_header_name: "X-Bogosity".to_owned(),
        }
    }
}

impl Options {
    /// The default of a profile.
    pub fn new(profile: Profile) -> Self {
        Self { profile, ..Self::default() }
    }

    pub(crate) fn token_len_bound(&self) -> usize {
        self.token_len_max.min(TOKEN_LEN_MAX)
    }

    pub(crate) fn multi_token_bound(&self) -> usize {
        self.multi_token_count.clamp(1, MULTI_TOKEN_COUNT_MAX)
    }

    /// Longest joined token: what was asked for, else what all words and the longest prefix take.
    pub(crate) fn multi_token_len_bound(&self) -> usize {
        let all = (self.token_len_bound() + 1) * self.multi_token_bound() + 5;
        match self.multi_token_len_max {
            0 => all,
            len => len.min((TOKEN_LEN_MAX + 1) * MULTI_TOKEN_COUNT_MAX),
        }
    }
}

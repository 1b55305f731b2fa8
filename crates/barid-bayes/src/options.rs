//! Options of the tokenizer.

use crate::limits::{MULTI_TOKEN_COUNT_MAX, TOKEN_LEN_MAX};

/// The set of rules by which tokens are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// bogofilter 1.2.5, token for token.
    #[default]
    Bogofilter,
    /// The first version of [`Profile::Modern`], for word lists that were trained with it: they
    /// stay usable, and their messages can be untrained.
    Modern1,
    /// The same words in small letters, without bogofilter's known mistakes, and with pairs of
    /// neighbouring words: see `docs/design/bayes.md`.
    Modern,
}

/// The encoding of tokens in a word list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WordEncoding {
    /// The bytes of the message after its transfer encoding is decoded, in any charset.
    Raw,
    /// UTF-8.
    #[default]
    Utf8,
}

/// The prefix of IP addresses in headers, with [`Options::block_on_subnets`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AddressPrefix {
    /// `ip:`, in word lists of the version 20040500.
    #[default]
    Ip,
    /// `url:`, in older ones.
    Url,
}

/// Options of the tokenizer, each with the name of bogofilter's option. The default is
/// bogofilter's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The set of rules by which tokens are made.
    pub profile: Profile,
    /// Shortest token, in bytes (`min-token-len`).
    pub token_len_min: usize,
    /// Longest token, in bytes (`max-token-len`); more than
    /// [`TOKEN_LEN_MAX`](crate::limits::TOKEN_LEN_MAX) counts as that.
    pub token_len_max: usize,
    /// Most consecutive tokens that are joined to one (`multi-token-count`); more than
    /// [`MULTI_TOKEN_COUNT_MAX`](crate::limits::MULTI_TOKEN_COUNT_MAX) counts as that.
    pub multi_token_count: usize,
    /// Longest joined token, in bytes (`max-multi-token-len`); 0: long enough for any.
    pub multi_token_len_max: usize,
    /// `true` if tokens of headers have a prefix that names the field, such as `subj:` (`-H` turns
    /// it off).
    pub header_prefixes: bool,
    /// `true` if the networks of an IP address (`1.2.3`, `1.2`, `1`) are tokens as well
    /// (`block_on_subnets`).
    pub block_on_subnets: bool,
    /// The prefix of IP addresses in headers, with `block_on_subnets`.
    pub address_prefix: AddressPrefix,
    /// `true` if bytes from 0x80 on become `?` in tokens (`replace_nonascii_characters`).
    pub replace_non_ascii: bool,
    /// The charset of text that declares none or an unknown one (`charset_default`).
    pub charset_default: String,
    /// The encoding of tokens (`unicode`).
    pub word_encoding: WordEncoding,
    /// Name of the header field that is skipped, by default bogofilter's own (`spam_header_name`);
    /// lines of the header that begin with it are not read. Empty: no line is skipped.
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
    /// Returns the defaults with the given profile.
    pub fn new(profile: Profile) -> Self {
        Self { profile, ..Self::default() }
    }

    pub(crate) fn token_len_bound(&self) -> usize {
        self.token_len_max.min(TOKEN_LEN_MAX)
    }

    pub(crate) fn multi_token_bound(&self) -> usize {
        self.multi_token_count.clamp(1, MULTI_TOKEN_COUNT_MAX)
    }

    /// Returns the length of the longest joined token, in bytes: as configured, else enough for the
    /// longest words and the longest prefix.
    pub(crate) fn multi_token_len_bound(&self) -> usize {
        let all = (self.token_len_bound() + 1) * self.multi_token_bound() + 5;
        match self.multi_token_len_max {
            0 => all,
            len => len.min((TOKEN_LEN_MAX + 1) * MULTI_TOKEN_COUNT_MAX),
        }
    }
}

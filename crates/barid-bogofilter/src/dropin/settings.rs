//! The settings of bogofilter's options and configuration files.

use barid_bayes::{Options, Parameters, Status, WordEncoding};
use barid_wordlist::{Class, Counts};

/// All settings. The default is bogofilter's: classify, and report nothing but the exit code.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Options for making words of messages. [`Options::word_encoding`] and
    /// [`Options::address_prefix`] follow from the word list.
    pub tokens: Options,
    /// Encoding of words (`unicode`); `None`: as in the word list.
    pub encoding: Option<WordEncoding>,
    /// Parameters of scoring. A `robs`, `min_dev` or `spam_cutoff` of 0 stands for the default, and
    /// a `robx` of 0 for the word list's.
    pub parameters: Parameters,
    /// Start of the header line before which the result is inserted (`spam_header_place`); empty:
    /// the end of the header.
    pub header_place: Vec<u8>,
    /// Text before the subject of spam (`spam_subject_tag`).
    pub spam_subject_tag: Option<Vec<u8>>,
    /// Text before the subject of unsure messages (`unsure_subject_tag`).
    pub unsure_subject_tag: Option<Vec<u8>>,
    /// `true` if statistics are formatted as part of the header (`stats_in_header`).
    pub stats_in_header: bool,
    /// Formats of results.
    pub formats: Formats,
    /// Distance from 0 or 1 within which `-u` does not register a message (`thresh_update`).
    pub thresh_update: f64,
    /// Registration of messages (`-s`, `-n`, `-S`, `-N`).
    pub registration: Option<Registration>,
    /// `true` if messages are registered as the class of their verdict (`-u`).
    pub updates: bool,
    /// `true` if messages are written out with the result in their headers (`-p`).
    pub passes_through: bool,
    /// `true` if [`Formats::terse`] replaces [`Formats::header`] (`-t`).
    pub is_terse: bool,
    /// `true` if no statistics are printed (`-q`).
    pub is_quiet: bool,
    /// `true` if a table for R is printed (`-R`).
    pub r_table: bool,
    /// `true` if statistics are printed for unsure messages (`-U`).
    pub unsure_stats: bool,
    /// `true` if results go to the system's log (`-l`).
    pub logs: bool,
    /// Verbosity (`-v`).
    pub verbose: u32,
    /// Date of registrations, YYYYMMDD (`-y`); 0 for words without dates (`timestamp`).
    pub date: u32,
    /// Name of the user, for `%u`.
    pub user: Vec<u8>,
    /// Faults of bogofilter that are reproduced.
    pub quirks: Quirks,
}

/// Formats of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formats {
    /// The header line (`header_format`).
    pub header: Vec<u8>,
    /// The line of `-t` (`terse_format`).
    pub terse: Vec<u8>,
    /// The log line of a result (`log_header_format`).
    pub log_header: Vec<u8>,
    /// The log line of a registration (`log_update_format`).
    pub log_update: Vec<u8>,
    /// Names of spam, ham and unsure messages (`spamicity_tags`).
    pub tags: [Vec<u8>; 3],
    /// `printf` formats for the scores of spam, ham and unsure messages (`spamicity_formats`).
    pub spamicity: [Vec<u8>; 3],
    /// Value of `%l` (`-L`).
    pub log_tag: Vec<u8>,
}

/// Change of the counts by a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    /// Class to which the message is added (`-s`, `-n`).
    pub add: Option<Class>,
    /// Class from which the message is removed (`-S`, `-N`).
    pub sub: Option<Class>,
}

/// Faults of bogofilter 1.2.5 that scripts may have come to rely on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// `-u` adds the running number of a message to the message count instead of one.
    pub update_counts: bool,
    /// `-v` reports twice as many words as `-s`, `-n`, `-S` and `-N` register, and more.
    pub word_counts: bool,
    /// `bogoutil -m` without `--unicode` loses the encoding of words.
    pub encoding_reset: bool,
}

impl Default for Formats {
    fn default() -> Self {
        Self {
            header: b"%h: %c, tests=bogofilter, spamicity=%p, version=%v".to_vec(),
            terse: b"%1.1c %f".to_vec(),
            log_header: b"%h: %c, spamicity=%p, version=%v".to_vec(),
            log_update: b"register-%r, %w words, %m messages".to_vec(),
            tags: [b"Spam".to_vec(), b"Ham".to_vec(), b"Unsure".to_vec()],
            spamicity: std::array::from_fn(|_| b"%0.6f".to_vec()),
            log_tag: Vec::new(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tokens: Options::default(),
            encoding: None,
            parameters: Parameters { robx: 0.0, ..Parameters::default() },
            header_place: Vec::new(),
            spam_subject_tag: None,
            unsure_subject_tag: None,
            stats_in_header: true,
            formats: Formats::default(),
            thresh_update: 0.0,
            registration: None,
            updates: false,
            passes_through: false,
            is_terse: false,
            is_quiet: false,
            r_table: false,
            unsure_stats: false,
            logs: false,
            verbose: 0,
            date: 0,
            user: Vec::new(),
            quirks: Quirks::default(),
        }
    }
}

impl Settings {
    /// Returns `true` if messages are scored.
    pub fn classifies(&self) -> bool {
        self.registration.is_none() || self.passes_through || self.r_table
    }

    /// Returns `true` if the word list may be written.
    pub fn writes(&self) -> bool {
        self.registration.is_some() || self.updates
    }

    /// Returns the subject tag of a class.
    pub(super) fn subject_tag(&self, status: Status) -> Option<&[u8]> {
        match status {
            Status::Spam => self.spam_subject_tag.as_deref(),
            Status::Unsure => self.unsure_subject_tag.as_deref(),
            Status::Ham => None,
        }
    }
}

impl Registration {
    /// Creates a registration as one class.
    pub const fn of(class: Class) -> Self {
        Self { add: Some(class), sub: None }
    }

    /// Returns the counts that are added and subtracted for `n` messages.
    pub(super) fn counts(self, n: u32) -> (Counts, Counts) {
        let of = |class: Option<Class>| class.map_or(Counts::default(), |class| class.counts(n));
        (of(self.add), of(self.sub))
    }

    /// Returns the value of `%r`.
    pub(super) fn letters(self) -> &'static str {
        match (self.sub, self.add) {
            (None, None) => "",
            (None, Some(Class::Spam)) => "s",
            (None, Some(Class::Ham)) => "n",
            (Some(Class::Spam), None) => "S",
            (Some(Class::Ham), None) => "N",
            (Some(Class::Spam), Some(_)) => "Sn",
            (Some(Class::Ham), Some(_)) => "Ns",
        }
    }
}

/// Returns the index of the format and tag of a class.
pub(super) fn index_of(status: Status) -> usize {
    match status {
        Status::Spam => 0,
        Status::Ham => 1,
        Status::Unsure => 2,
    }
}

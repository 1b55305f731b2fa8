//! What bogofilter's options and configuration files set.

use barid_bayes::{Options, Parameters, Status, WordEncoding};
use barid_wordlist::{Class, Counts};

/// All that can be set. The default is bogofilter's: classify, and say nothing but the exit code.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How words are made of messages. [`Options::word_encoding`] and [`Options::address_prefix`]
    /// follow from the word list.
    pub tokens: Options,
    /// What words are written in (`unicode`); `None`: as in the word list.
    pub encoding: Option<WordEncoding>,
    /// How messages are scored. What is 0 stands for the default, and a `robx` of 0 for what the
    /// word list holds.
    pub parameters: Parameters,
    /// The start of the header line before which the result goes (`spam_header_place`); empty: the
    /// end of the header.
    pub header_place: Vec<u8>,
    /// What is put before the subject of spam (`spam_subject_tag`).
    pub spam_subject_tag: Option<Vec<u8>>,
    /// What is put before the subject of messages that are unsure (`unsure_subject_tag`).
    pub unsure_subject_tag: Option<Vec<u8>>,
    /// How statistics are set out (`stats_in_header`).
    pub stats_in_header: bool,
    /// How results are said.
    pub formats: Formats,
    /// How sure a result must be for `-u` to pass it by (`thresh_update`).
    pub thresh_update: f64,
    /// What messages are registered as (`-s`, `-n`, `-S`, `-N`).
    pub registration: Option<Registration>,
    /// Whether messages are registered as what they are found to be (`-u`).
    pub updates: bool,
    /// Whether messages are written out with the result in their headers (`-p`).
    pub passes_through: bool,
    /// Whether [`Formats::terse`] takes the place of [`Formats::header`] (`-t`).
    pub is_terse: bool,
    /// Whether no statistics are printed (`-q`).
    pub is_quiet: bool,
    /// Whether a table for R is printed (`-R`).
    pub r_table: bool,
    /// Whether statistics are printed of messages that are unsure (`-U`).
    pub unsure_stats: bool,
    /// Whether results go to the system's log (`-l`).
    pub logs: bool,
    /// How much is said (`-v`).
    pub verbose: u32,
    /// The date of what is registered, YYYYMMDD (`-y`); 0 for words without dates (`timestamp`).
    pub date: u32,
    /// Who runs this, for `%u`.
    pub user: Vec<u8>,
    /// Which of bogofilter's faults are reproduced.
    pub quirks: Quirks,
}

/// How results are said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formats {
    /// The header line (`header_format`).
    pub header: Vec<u8>,
    /// The line of `-t` (`terse_format`).
    pub terse: Vec<u8>,
    /// What is logged of a result (`log_header_format`).
    pub log_header: Vec<u8>,
    /// What is logged of a registration (`log_update_format`).
    pub log_update: Vec<u8>,
    /// What spam, ham and unsure messages are called (`spamicity_tags`).
    pub tags: [Vec<u8>; 3],
    /// How `printf` writes the scores of spam, ham and unsure messages (`spamicity_formats`).
    pub spamicity: [Vec<u8>; 3],
    /// What stands for `%l` (`-L`).
    pub log_tag: Vec<u8>,
}

/// What is done with the counts of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    /// What it counts as from now on (`-s`, `-n`).
    pub add: Option<Class>,
    /// What it counts as no longer (`-S`, `-N`).
    pub sub: Option<Class>,
}

/// Faults of bogofilter 1.2.5 that scripts may have come to rely on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// `-u` counts the running number of a message, and not one, as so many messages.
    pub update_counts: bool,
    /// `-v` tells of twice as many words as `-s`, `-n`, `-S` and `-N` register, and more.
    pub word_counts: bool,
    /// `bogoutil -m` without `--unicode` forgets what words are written in.
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
    /// Whether messages are scored.
    pub fn classifies(&self) -> bool {
        self.registration.is_none() || self.passes_through || self.r_table
    }

    /// Whether the word list may be written to.
    pub fn writes(&self) -> bool {
        self.registration.is_some() || self.updates
    }

    /// The subject's tag of a message.
    pub(super) fn subject_tag(&self, status: Status) -> Option<&[u8]> {
        match status {
            Status::Spam => self.spam_subject_tag.as_deref(),
            Status::Unsure => self.unsure_subject_tag.as_deref(),
            Status::Ham => None,
        }
    }
}

impl Registration {
    /// As one class.
    pub const fn of(class: Class) -> Self {
        Self { add: Some(class), sub: None }
    }

    /// What is added and taken off for `n` messages.
    pub(super) fn counts(self, n: u32) -> (Counts, Counts) {
        let of = |class: Option<Class>| class.map_or(Counts::default(), |class| class.counts(n));
        (of(self.add), of(self.sub))
    }

    /// As `%r` says it.
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

/// Where formats and tags of a status are.
pub(super) fn index_of(status: Status) -> usize {
    match status {
        Status::Spam => 0,
        Status::Ham => 1,
        Status::Unsure => 2,
    }
}

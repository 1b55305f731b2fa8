//! Finding and combining word lists as bogofilter does.
//!
//! Counts and message totals of all lists are added up; a word that is in an ignored list ends the
//! search. The numbers of lists only determine their order.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_bayes::{Evidence, MessagePart, WordEncoding};
use barid_vfs::Vfs;
use barid_wordlist::{AnyList, Counts, Created, Error as ListError, Native, keys, open_list};

use super::{Error, Result};

/// Name of a list in most builds of bogofilter, and of ours.
const NAME: &str = "wordlist.db";
/// Name of a list in the build with Tokyo Cabinet.
const NAME_TOKYO: &str = "wordlist.tc";

/// Encoding of words if nothing else is specified, as a value of [`keys::ENCODING`].
const UTF8: u32 = 2;
const RAW: u32 = 1;
/// Keys of a list's own values: encoding, messages, robx and version.
const METADATA: [&[u8]; 4] = [keys::ENCODING, keys::MSG_COUNT, keys::ROBX, keys::WORDLIST_VERSION];
/// Version of lists from which IP addresses have a prefix of their own.
const IP_VERSION: u32 = keys::VERSION;

/// Specification of a list to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListSpec {
    /// Path of the list. If `wordlist.db` is missing, `wordlist.tc` in the same folder is used if
    /// it exists.
    pub path: PathBuf,
    /// `true` if the words of the list are ignored.
    pub is_ignored: bool,
}

/// Purpose of opening lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Reading; the lists must exist.
    Read,
    /// Reporting the setup; the lists need not exist.
    Ask,
    /// Writing; a missing list is created, with keys of this date.
    Write {
        /// YYYYMMDD, or 0 for none.
        date: u32,
    },
}

/// An open list.
#[derive(Debug)]
pub struct Listed {
    /// The list.
    pub list: AnyList,
    /// `true` if its words are ignored.
    pub is_ignored: bool,
    /// Number of messages that were trained.
    pub totals: Counts,
    /// `true` once its totals and other own values were read.
    is_known: bool,
}

/// The open lists of a run.
#[derive(Debug)]
pub struct Lists {
    lists: Vec<Listed>,
    default: Option<usize>,
    /// The requested encoding, then the actual one.
    asked: Option<WordEncoding>,
    encoding: Option<WordEncoding>,
    version: u32,
    robx: u32,
    counts: Vec<Counts>,
}

impl Lists {
    /// Opens lists. `encoding` is the requested one. The own values of lists that are only read are
    /// looked up together with the first words: one query is faster than two.
    ///
    /// # Errors
    /// [`Error::NoList`], [`Error::Encodings`], [`Error::NoDefaultList`], [`Error::List`].
    pub fn open(
        vfs: &Arc<dyn Vfs>,
        specs: &[ListSpec],
        opening: Opening,
        encoding: Option<WordEncoding>,
    ) -> Result<Self> {
        Self::open_by(vfs, specs, opening, encoding, &mut |_| None)
    }

    /// As [`Lists::open`], but opens lists that are only read through `by` where it returns one,
    /// such as the daemon that has them open.
    ///
    /// # Errors
    /// As [`Lists::open`].
    pub fn open_by(
        vfs: &Arc<dyn Vfs>,
        specs: &[ListSpec],
        opening: Opening,
        encoding: Option<WordEncoding>,
        by: &mut dyn FnMut(&Path) -> Option<AnyList>,
    ) -> Result<Self> {
        let mut lists = Self {
            lists: Vec::with_capacity(specs.len()),
            default: specs.iter().position(|spec| !spec.is_ignored),
            asked: encoding,
            encoding,
            version: 0,
            robx: 0,
            counts: Vec::new(),
        };
        if lists.default.is_none() {
            return Err(Error::NoDefaultList);
        }
        for spec in specs {
            let opening = if spec.is_ignored { Opening::Read } else { opening };
            let other = if opening == Opening::Read { by(&spec.path) } else { None };
            let opened = match other {
                Some(list) => Ok(list),
                None => open_one(vfs, &spec.path, opening, lists.encoding),
            };
            let list = match opened {
                Err(Error::NoList { .. }) if opening == Opening::Ask => {
                    lists.default = None;
                    break;
                }
                list => list?,
            };
            let (totals, is_known) = (Counts::default(), false);
            let is_ignored = spec.is_ignored;
            lists.lists.push(Listed { list, is_ignored, totals, is_known });
        }
        if opening != Opening::Read || encoding.is_some() {
            lists.ask()?;
        }
        Ok(lists)
    }

    /// Looks up the lists' own values, unless they are known.
    ///
    /// # Errors
    /// [`Error::Encodings`], [`Error::List`].
    pub fn ask(&mut self) -> Result<()> {
        for index in 0..self.lists.len() {
            if !self.lists[index].is_known {
                let mut metadata = [Counts::default(); METADATA.len()];
                self.lists[index].list.counts(&METADATA, &mut metadata)?;
                self.take(index, metadata)?;
            }
        }
        Ok(())
    }

    /// Returns `true` if the lists' own values are known.
    pub(super) fn are_known(&self) -> bool {
        self.lists.iter().all(|listed| listed.is_known)
    }

    /// Stores a list's own values.
    fn take(&mut self, index: usize, metadata: [Counts; METADATA.len()]) -> Result<()> {
        let [encoding, totals, robx, version] = metadata;
        let encoding = match encoding.spam {
            RAW => Some(WordEncoding::Raw),
            UTF8 => Some(WordEncoding::Utf8),
            _ => None,
        };
        if encoding.is_some() {
            if self.encoding.is_some() && self.encoding != encoding {
                return Err(Error::Encodings);
            }
            self.encoding = encoding;
        }
        if self.version == 0 {
            self.version = version.spam;
        }
        if self.default == Some(index) {
            self.robx = robx.spam;
        }
        let listed = &mut self.lists[index];
        (listed.totals, listed.is_known) = (totals, true);
        Ok(())
    }

    /// Returns the encoding of words.
    pub fn encoding(&self) -> WordEncoding {
        self.encoding.unwrap_or_default()
    }

    /// Returns `true` if IP addresses have a prefix of their own.
    pub(super) fn has_ip_prefix(&self) -> bool {
        self.version >= IP_VERSION
    }

    /// Returns the probability of a word never seen before, if the default list has one.
    pub fn robx(&self) -> Option<f64> {
        (self.robx != 0).then(|| f64::from(self.robx) / 1_000_000.0)
    }

    /// Returns the list that registrations go to.
    pub(super) fn default_list(&mut self) -> Result<&mut Listed> {
        self.default.and_then(|index| self.lists.get_mut(index)).ok_or(Error::NoDefaultList)
    }

    /// Loads what others have changed. Returns `true` if there were changes.
    ///
    /// # Errors
    /// [`Error::List`].
    pub fn refresh(&mut self) -> Result<bool> {
        let mut is_changed = false;
        for listed in &mut self.lists {
            is_changed |= listed.list.refresh()?;
        }
        if is_changed {
            // The lists' own values may have changed.
            (self.encoding, self.version, self.robx) = (self.asked, 0, 0);
            self.lists.iter_mut().for_each(|listed| listed.is_known = false);
        }
        self.ask()?;
        Ok(is_changed)
    }

    /// Looks up words in one list, together with its own values if they are not known.
    fn count(&mut self, index: usize, tokens: &[&[u8]]) -> Result<()> {
        let listed = &mut self.lists[index];
        self.counts.clear();
        if listed.is_known {
            self.counts.resize(tokens.len(), Counts::default());
            listed.list.counts(tokens, &mut self.counts)?;
            return Ok(());
        }
        let asked = [tokens, &METADATA[..]].concat();
        self.counts.resize(asked.len(), Counts::default());
        listed.list.counts(&asked, &mut self.counts)?;
        let mut metadata = [Counts::default(); METADATA.len()];
        metadata.copy_from_slice(&self.counts[tokens.len()..]);
        self.counts.truncate(tokens.len());
        self.take(index, metadata)
    }

    /// Looks up the counts of words, in byte order, and replaces the content of `evidence`.
    pub(super) fn look_up(&mut self, tokens: &[&[u8]], evidence: &mut Vec<Evidence>) -> Result<()> {
        evidence.clear();
        let unknown = |token| Evidence { place: MessagePart::of(token), ..Evidence::default() };
        evidence.extend(tokens.iter().copied().map(unknown));
        let mut is_done = Vec::new();
        for index in 0..self.lists.len() {
            self.count(index, tokens)?;
            let listed = &mut self.lists[index];
            if !listed.is_ignored && is_done.is_empty() {
                for (evidence, counts) in evidence.iter_mut().zip(&self.counts) {
                    add(evidence, *counts, listed.totals);
                }
                continue;
            }
            is_done.resize(tokens.len(), false);
            let known = self.counts.iter().zip(tokens).zip(&mut is_done);
            for (evidence, ((counts, token), is_done)) in evidence.iter_mut().zip(known) {
                if *is_done {
                    continue;
                }
                // A word in an ignored list may have no counts at all.
                let is_there = listed.is_ignored
                    && (*counts != Counts::default() || listed.list.entry(token)?.is_some());
                if is_there {
                    evidence.counts = barid_bayes::Counts::default();
                    *is_done = true;
                } else {
                    add(evidence, *counts, listed.totals);
                }
            }
        }
        Ok(())
    }
}

fn add(evidence: &mut Evidence, counts: Counts, totals: Counts) {
    let sum = |one: &mut barid_bayes::Counts, more: Counts| {
        one.spam = one.spam.wrapping_add(more.spam);
        one.ham = one.ham.wrapping_add(more.ham);
    };
    sum(&mut evidence.counts, counts);
    sum(&mut evidence.totals, totals);
}

fn open_one(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
    opening: Opening,
    encoding: Option<WordEncoding>,
) -> Result<AnyList> {
    match open_list(vfs, path) {
        Err(ListError::NotFound { .. }) => {}
        opened => return Ok(opened?),
    }
    if path.file_name().is_some_and(|name| name == NAME) {
        match open_list(vfs, &path.with_file_name(NAME_TOKYO)) {
            Err(ListError::NotFound { .. }) => {}
            opened => return Ok(opened?),
        }
    }
    let Opening::Write { date } = opening else {
        return Err(Error::NoList { path: path.to_owned() });
    };
    let encoding = match encoding.unwrap_or_default() {
        WordEncoding::Raw => RAW,
        WordEncoding::Utf8 => UTF8,
    };
    let created = Created { date, encoding: Some(encoding) };
    Ok(Box::new(Native::open_or_create(Arc::clone(vfs), path, &created)?))
}

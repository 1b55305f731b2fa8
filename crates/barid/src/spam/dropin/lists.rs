//! Finding and combining word lists as bogofilter does.
//!
//! Counts and message totals of all lists are added up; a word that is in an ignored list ends the
//! search. The numbers of lists only determine their order.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_bayes::{Evidence, WordEncoding};
use barid_kv::{Choice, Kv, registry};
use barid_vfs::{OpenOptions, Vfs};
use barid_wordlist::{Counts, Created, Error as ListError, Native, OnStore, Sharing, keys};

use super::{Error, Result};
use crate::spam::AnyList;

/// First bytes of a file of Tokyo Cabinet.
const TOKYO_MAGIC: &[u8] = b"ToKyO CaBiNeT";
/// First bytes of a file of SQLite.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3";
/// Offset of the magic number in a file of Berkeley DB.
const BDB_MAGIC_OFFSET: usize = 12;
/// Magic number of a B-tree, in either byte order.
const BDB_MAGIC: [&[u8]; 2] = [&[0x62, 0x31, 5, 0], &[0, 5, 0x31, 0x62]];

/// Reason why a list of bogofilter's cannot be used, and what to do.
const NO_LIBRARY: &str = "a list of bogofilter's whose library is missing or cannot be used (-V tells \
                          why): install it, or load what bogofilter's own bogoutil -d prints";

/// Name of a list in most builds of bogofilter, and of ours.
const NAME: &str = "wordlist.db";
/// Name of a list in the build with Tokyo Cabinet.
const NAME_TOKYO: &str = "wordlist.tc";

/// Encoding of words if nothing else is specified, as a value of [`keys::ENCODING`].
const UTF8: u32 = 2;
const RAW: u32 = 1;
/// Keys of a list's own values: encoding, messages, robx and version.
const SAID: [&[u8]; 4] = [keys::ENCODING, keys::MSG_COUNT, keys::ROBX, keys::WORDLIST_VERSION];
/// Version of lists from which IP addresses have a prefix of their own.
const IP_VERSION: u32 = keys::VERSION;

/// Returns the store of a file of bogofilter's, detected by its first bytes.
pub(in crate::spam) fn store_of_bogofilter(vfs: &dyn Vfs, path: &Path) -> Option<&'static str> {
    let mut head = [0; 16];
    let file = vfs.open(path, OpenOptions::READ).ok()?;
    let len = file.read_full_at(&mut head, 0);
    barid_kv::close_sqlite_file(file);
    let head = &head[..len.ok()?];
    let at = |offset: usize, magic: &[u8]| {
        head.get(offset..).is_some_and(|rest| rest.starts_with(magic))
    };
    match () {
        () if at(0, TOKYO_MAGIC) => Some("tokyocabinet"),
        () if at(0, SQLITE_MAGIC) => Some("sqlite"),
        () if BDB_MAGIC.iter().any(|magic| at(BDB_MAGIC_OFFSET, magic)) => Some("bdb"),
        () => None,
    }
}

/// Opens a word list: barid's own, or a file of bogofilter's in its place (its Berkeley DB, Tokyo
/// Cabinet and SQLite builds), which keeps no receipts.
///
/// # Errors
/// [`barid_wordlist::Error::NotFound`], and the other errors of [`Native::open`] and
/// [`OnStore::open`].
pub fn open_list(vfs: &Arc<dyn Vfs>, path: &Path) -> barid_wordlist::Result<AnyList> {
    let choice = match store_of_bogofilter(&**vfs, path) {
        None => return Ok(Box::new(Native::open(Arc::clone(vfs), path)?)),
        Some("sqlite") => Choice { kv: registry::SQLITE, builtin: None },
        Some(store) => Choice::parse(store)?,
    };
    if choice.kv.version().is_err() {
        return Err(ListError::Unsupported { path: path.to_owned(), what: NO_LIBRARY });
    }
    Ok(Box::new(OnStore::open(Arc::clone(vfs), path, choice, Sharing::Bogofilter)?))
}

/// A build of bogofilter, whose lists [`open_list`] may open in place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Build {
    /// Name of the store of its lists.
    pub name: &'static str,
    /// Version of the library that reads them here, or the reason why there is none.
    pub version: std::result::Result<String, String>,
}

/// Returns the known builds of bogofilter. Loads their libraries.
pub fn builds() -> [Build; 3] {
    let version = |kv: barid_kv::Result<&'static dyn Kv>| {
        kv.and_then(|kv| kv.version()).map_err(|error| match error {
            barid_kv::Error::Unavailable { why, .. } => why,
            error => error.to_string(),
        })
    };
    [
        Build { name: "Berkeley DB", version: version(registry::find("bdb")) },
        Build { name: "Tokyo Cabinet", version: version(registry::find("tokyocabinet")) },
        Build { name: "SQLite", version: version(Ok(registry::SQLITE)) },
    ]
}

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
                let mut said = [Counts::default(); SAID.len()];
                self.lists[index].list.counts(&SAID, &mut said)?;
                self.take(index, said)?;
            }
        }
        Ok(())
    }

    /// Returns `true` if the lists' own values are known.
    pub(super) fn are_known(&self) -> bool {
        self.lists.iter().all(|listed| listed.is_known)
    }

    /// Stores a list's own values.
    fn take(&mut self, index: usize, said: [Counts; SAID.len()]) -> Result<()> {
        let [encoding, totals, robx, version] = said;
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
        let asked = [tokens, &SAID[..]].concat();
        self.counts.resize(asked.len(), Counts::default());
        listed.list.counts(&asked, &mut self.counts)?;
        let mut said = [Counts::default(); SAID.len()];
        said.copy_from_slice(&self.counts[tokens.len()..]);
        self.counts.truncate(tokens.len());
        self.take(index, said)
    }

    /// Looks up the counts of words, in byte order, and replaces the content of `evidence`.
    pub(super) fn look_up(&mut self, tokens: &[&[u8]], evidence: &mut Vec<Evidence>) -> Result<()> {
        evidence.clear();
        evidence.resize(tokens.len(), Evidence::default());
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

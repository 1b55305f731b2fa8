//! The filter: its options, its word list, and the damage found in that.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use barid::{LongOperation, Progress, ProgressFn, Unit};
use barid_bayes::{Parameters, Profile};
use barid_vfs::Vfs;
use barid_wordlist::limits::DAMAGE_MAX;
use barid_wordlist::{AnyList, Created, Damage, Native, WordList, open_list, today};

use crate::{Error, Result};

/// Options of the filter.
#[derive(Clone)]
pub struct SpamOptions {
    /// Profile for making tokens of messages.
    pub profile: Profile,
    /// Parameters of scoring; a `robx` of 0 stands for the word list's.
    pub parameters: Parameters,
    /// Date of trainings, YYYYMMDD; today if `None`.
    pub date: Option<u32>,
    /// Number of threads for files and messages in memory; 0 for one per core.
    pub threads: usize,
    /// Once `true`, long work ends after its current step.
    pub stop: Option<Arc<AtomicBool>>,
    /// Called with the progress of long work.
    pub progress: Option<ProgressFn>,
}

impl Default for SpamOptions {
    fn default() -> Self {
        Self::new(Profile::Bogofilter)
    }
}

impl SpamOptions {
    /// Creates the default options of a profile: its tokens, scored by its parameters.
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            parameters: Parameters { robx: 0.0, ..Parameters::new(profile) },
            date: None,
            threads: 0,
            stop: None,
            progress: None,
        }
    }
}

impl fmt::Debug for SpamOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpamOptions")
            .field("profile", &self.profile)
            .field("parameters", &self.parameters)
            .field("date", &self.date)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// A spam filter with one word list, which need not exist yet.
#[derive(Clone, Debug)]
pub struct Filter {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) path: PathBuf,
    pub(crate) options: SpamOptions,
    damage: Arc<Damages>,
}

/// Damage found by the handles of a filter.
#[derive(Debug, Default)]
struct Damages {
    all: Mutex<Vec<Damage>>,
    count: AtomicUsize,
}

/// Value of [`barid_wordlist::keys::ENCODING`] for tokens in UTF-8.
const UTF8: u32 = 2;

impl Filter {
    /// Creates a filter with the word list at `path`. Reads nothing.
    pub fn new(vfs: Arc<dyn Vfs>, path: PathBuf, options: SpamOptions) -> Self {
        Self { vfs, path, options, damage: Arc::default() }
    }

    /// Returns the default path of the word list: in the state folder, which must survive.
    pub fn default_path(state_dir: &Path) -> PathBuf {
        state_dir.join("spam").join("wordlist")
    }

    /// Returns the path of the word list.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the options.
    pub fn options(&self) -> &SpamOptions {
        &self.options
    }

    /// Opens the word list: barid's own, or a file of bogofilter's in its place (its Berkeley DB,
    /// Tokyo Cabinet and SQLite builds), which keeps no receipts.
    ///
    /// # Errors
    /// As [`open_list`].
    pub fn open_list(&self) -> Result<AnyList> {
        let list = open_list(&self.vfs, &self.path)?;
        self.look_for_damage(&*list);
        Ok(list)
    }

    /// Records the damage that a handle of the word list has found or healed.
    pub fn look_for_damage(&self, list: &dyn WordList) {
        if list.damage().is_empty() && list.healed().is_empty() {
            return;
        }
        let mut all = self.damage.all.lock().unwrap_or_else(PoisonError::into_inner);
        for damage in list.damage().iter().chain(list.healed()) {
            if all.len() < DAMAGE_MAX && !all.contains(damage) {
                all.push(damage.clone());
            }
        }
        self.damage.count.store(all.len(), Ordering::Release);
    }

    /// Returns the damage found so far through this filter and its clones, each item once, without
    /// the first `known` items. Everything readable was used, and is kept.
    pub fn damage(&self, known: usize) -> Vec<Damage> {
        if self.damage.count.load(Ordering::Acquire) <= known {
            return Vec::new();
        }
        let all = self.damage.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(known..).unwrap_or_default().to_vec()
    }

    /// Opens the word list, and creates it with its folder if it does not exist; with `for_dump`,
    /// without any keys, so that a dump can be loaded.
    ///
    /// # Errors
    /// As [`Filter::open_list`]; errors of the file system.
    pub fn open_or_create_list(&self, for_dump: bool) -> Result<AnyList> {
        match self.open_list() {
            Err(Error::WordList(barid_wordlist::Error::NotFound { .. })) => {}
            opened => return opened,
        }
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let made = barid_vfs::create_dir_durable(&*self.vfs, folder, 0o700);
            made.map_err(|source| barid_wordlist::Error::Io { path: folder.to_owned(), source })?;
        }
        let encoding = (!for_dump).then_some(UTF8);
        let created = Created { date: self.date(), encoding };
        let list = Native::open_or_create(Arc::clone(&self.vfs), &self.path, &created)?;
        Ok(Box::new(list))
    }

    /// Returns the date of a training now, YYYYMMDD.
    pub fn date(&self) -> u32 {
        self.options.date.unwrap_or_else(|| today(&*self.vfs))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.options.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    pub(crate) fn report_progress(&self, work: LongOperation, done: usize, total: usize) {
        if let Some(progress) = &self.options.progress {
            let (done, total) = (done as u64, total as u64);
            let unit = if work == LongOperation::Tune { Unit::Trials } else { Unit::Messages };
            progress(Progress { work, unit, done, total });
        }
    }
}

/// Returns the number by which receipts name a profile.
pub(crate) fn number_of(profile: Profile) -> u8 {
    match profile {
        Profile::Bogofilter => 0,
        Profile::Modern1 => 1,
        Profile::Modern => 2,
    }
}

/// Returns the profile that a receipt names.
pub(crate) fn profile_of(number: u8) -> Option<Profile> {
    let known = [Profile::Bogofilter, Profile::Modern1, Profile::Modern];
    known.into_iter().find(|it| number_of(*it) == number)
}

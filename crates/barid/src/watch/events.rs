//! Finding the watched mailboxes that may have changed: by events of the system, and by intervals.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use barid_vfs::{Vfs, Watch, WatchId};

use super::WatchOptions;
use crate::View;
use crate::limits::{
    WATCH_LOOK_INTERVAL, WATCH_REST_FACTOR, WATCH_REST_MAX, WATCH_SETTLE, WATCH_SLICE,
    WATCH_UNSETTLED,
};

/// The watched mailboxes, by number, and the times at which they are checked next.
#[derive(Debug)]
pub(crate) struct Events {
    vfs: Arc<dyn Vfs>,
    pub(crate) options: WatchOptions,
    /// The system's watch, or the reason why there is none.
    watch: Result<Box<dyn Watch>, String>,
    watched: BTreeMap<usize, WatchedPath>,
    last: usize,
    /// The mailboxes to which a file or folder belongs.
    about: HashMap<WatchId, BTreeSet<usize>>,
    /// Age of the watcher, by a monotonic clock.
    clock: Duration,
    /// `true` if the last wait found events: more of them are likely to follow at once.
    is_busy: bool,
}

/// A watched mailbox.
#[derive(Debug)]
struct WatchedPath {
    /// Time of the next check, by the watcher's clock.
    due: Duration,
    /// Time before which events cause no check: a mailbox that takes long is not checked all the
    /// time.
    earliest: Duration,
    /// The reason why it is polled.
    polled: Option<String>,
    /// Its files and folders.
    ids: Vec<WatchId>,
}

/// The result of a check of a mailbox, for the time of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// It was read.
    Settled,
    /// It was read, and a change may continue without an event.
    Settling,
    /// It could not be read.
    Failed,
}

impl Events {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, options: WatchOptions) -> Self {
        let watch = match (options.poll, &options.source) {
            (true, _) => Err("as requested".to_owned()),
            (false, Some(source)) => (source.0)().map_err(|error| error.to_string()),
            (false, None) => vfs.watch().map_err(|error| error.to_string()),
        };
        let (watched, about) = (BTreeMap::new(), HashMap::new());
        Self { vfs, options, watch, watched, last: 0, about, clock: Duration::ZERO, is_busy: false }
    }

    /// Adds the mailbox at a path, or one that has none; it is due at once. Returns its number.
    pub(crate) fn add(&mut self, path: Option<&Path>) -> usize {
        let polled = match (&self.watch, path) {
            (Err(why), _) => Some(why.clone()),
            (Ok(_), None) => Some("it is not on a file system".to_owned()),
            (Ok(_), Some(path)) if self.vfs.is_local(path) => None,
            (Ok(_), Some(_)) => Some("other machines may change it".to_owned()),
        };
        let number = self.last;
        self.last += 1;
        self.watched.insert(
            number,
            WatchedPath { due: self.clock, earliest: self.clock, polled, ids: Vec::new() },
        );
        number
    }

    /// Stops watching a mailbox.
    pub(crate) fn remove(&mut self, number: usize) {
        let Some(watched) = self.watched.remove(&number) else { return };
        for id in watched.ids {
            self.forget(id, number);
        }
    }

    /// Forgets that a file or folder belongs to a mailbox; one that belongs to none is not watched
    /// any longer.
    fn forget(&mut self, id: WatchId, number: usize) {
        let Some(numbers) = self.about.get_mut(&id) else { return };
        numbers.remove(&number);
        if numbers.is_empty() {
            self.about.remove(&id);
            if let Ok(watch) = &mut self.watch {
                watch.remove(id);
            }
        }
    }

    /// Returns the reason why a mailbox is polled; `None` if the system reports its changes.
    pub(crate) fn why_polled(&self, number: usize) -> Option<&str> {
        self.watched.get(&number)?.polled.as_deref()
    }

    /// Returns the time, by the watcher's clock.
    pub(crate) fn now(&self) -> Duration {
        self.clock
    }

    /// Returns the mailboxes that are due, in the order of their numbers.
    pub(crate) fn due(&self) -> Vec<usize> {
        let is_due = |(_, watched): &(&usize, &WatchedPath)| watched.due <= self.clock;
        self.watched.iter().filter(is_due).map(|(number, _)| *number).collect()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.options.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Checks a mailbox, whose newest view is `view`, and sets the time of its next check.
    pub(crate) fn check<T>(
        &mut self,
        number: usize,
        view: &View,
        check: impl FnOnce() -> (Checked, T),
    ) -> T {
        let started = Instant::now();
        // Later changes cause an event; earlier ones are found now.
        self.watch_files(number, view);
        let (checked, result) = check();
        let taken = started.elapsed();
        self.clock += taken;
        if let Some(watched) = self.watched.get_mut(&number) {
            watched.earliest = self.clock + (taken * WATCH_REST_FACTOR).min(WATCH_REST_MAX);
            let is_watched = watched.polled.is_none() && checked != Checked::Failed;
            let pause = if is_watched { WATCH_LOOK_INTERVAL } else { self.options.interval };
            let pause = match checked {
                Checked::Settling => pause.min(WATCH_UNSETTLED),
                _ => pause,
            };
            watched.due = self.clock + pause.max(WATCH_SETTLE);
        }
        result
    }

    /// Makes the system watch the files of a mailbox, which may be others than before.
    fn watch_files(&mut self, number: usize, view: &View) {
        let Ok(watch) = &mut self.watch else { return };
        let Some(watched) = self.watched.get_mut(&number) else { return };
        let mut ids = Vec::new();
        for path in files_of(view) {
            match watch.add(&path) {
                Ok(id) => ids.push(id),
                // A missing file is noticed when the mailbox is read.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => watched.polled = Some(format!("{}: {error}", path.display())),
            }
        }
        ids.extend(watch_folder(&mut **watch, &view.options.state_dir));
        let before = std::mem::replace(&mut watched.ids, ids.clone());
        for id in &ids {
            self.about.entry(*id).or_default().insert(number);
        }
        for id in before.into_iter().filter(|id| !ids.contains(id)) {
            self.forget(id, number);
        }
    }

    /// Waits for the next event or check, until `end` at the latest, but no longer than a slice: a
    /// signal that arrives just before a wait does not end it.
    ///
    /// After events it pauses before it looks for others, so that a change of thousands of files
    /// wakes it once in [`WATCH_SETTLE`] and not once for each file.
    pub(crate) fn wait(&mut self, end: Option<Duration>) {
        let due = self.watched.values().map(|watched| watched.due).chain(end).min();
        let until_due = due.map_or(WATCH_SLICE, |due| due.saturating_sub(self.clock));
        let slice = until_due.min(WATCH_SLICE);
        let Ok(watch) = &mut self.watch else {
            self.vfs.sleep(slice);
            self.clock += slice;
            return;
        };
        let started = Instant::now();
        let pause = if self.is_busy { slice.min(WATCH_SETTLE) } else { Duration::ZERO };
        if !pause.is_zero() {
            self.vfs.sleep(pause);
        }
        let slice = slice.saturating_sub(started.elapsed());
        let mut happened = Vec::new();
        let waited = watch.wait(slice, &mut happened);
        self.clock += started.elapsed();
        if let Err(error) = waited {
            self.do_without(&error.to_string());
        }
        self.is_busy = !happened.is_empty();
        let soon = self.clock + WATCH_SETTLE;
        for id in happened {
            let of_id = self.about.get(&id);
            let is_of_id = |number| of_id.is_some_and(|numbers| numbers.contains(number));
            for (_, watched) in self
                .watched
                .iter_mut()
                .filter(|(number, _)| id == WatchId::LOST || is_of_id(number))
            {
                watched.due = watched.due.min(soon.max(watched.earliest));
            }
        }
    }

    /// Polls from now on, because the system reports nothing.
    fn do_without(&mut self, why: &str) {
        self.watch = Err(why.to_owned());
        for watched in self.watched.values_mut() {
            watched.polled.get_or_insert_with(|| why.to_owned());
            watched.due = watched.due.min(self.clock);
        }
    }
}

/// Returns the files and folders whose change may be a change of the mailbox.
fn files_of(view: &View) -> Vec<PathBuf> {
    let Some(path) = view.storage.path() else { return Vec::new() };
    let mut files = vec![path.to_owned()];
    files.extend(view.format().message_folders.iter().map(|folder| path.join(folder)));
    files.extend(view.storage.watched_folders());
    files
}

/// Watches a folder, or its nearest existing ancestor.
fn watch_folder(watch: &mut dyn Watch, folder: &Path) -> Option<WatchId> {
    folder.ancestors().find_map(|folder| watch.add(folder).ok())
}

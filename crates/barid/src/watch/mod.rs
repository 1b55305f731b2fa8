//! Watching mailboxes: reporting the changes of others as they happen (`docs/design/watch.md`).
//!
//! The system reports that the files of a mailbox changed; a [`Mailbox::refresh`] and a comparison
//! with the previous state find the changes. If the system cannot report, or other machines may
//! write, the mailbox is polled instead.

mod seen;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use barid_formats::Format;
use barid_vfs::{Vfs, Watch, WatchId};

pub use seen::MailboxChange;
use seen::Seen;

use crate::limits::{WATCH_LOOK_INTERVAL, WATCH_SETTLE, WATCH_SLICE, WATCH_UNSETTLED};
use crate::{Error, Mailbox, Result};

/// Options for watching mailboxes.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// `true` to poll the mailboxes, even if the system can report changes.
    pub poll: bool,
    /// Polling interval.
    pub interval: Duration,
    /// Once `true`, [`Watcher::next`] ends.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self { poll: false, interval: Duration::from_secs(1), stop: None }
    }
}

/// Waits for changes of mailboxes.
#[derive(Debug)]
pub struct Watcher {
    vfs: Arc<dyn Vfs>,
    options: WatchOptions,
    /// The system's watch, or the reason why there is none.
    watch: std::result::Result<Box<dyn Watch>, String>,
    mailboxes: Vec<Watched>,
    /// The mailboxes to which a file or folder belongs.
    about: HashMap<WatchId, Vec<usize>>,
    /// Age of the watcher, by a monotonic clock.
    clock: Duration,
}

/// A mailbox and its last reported state.
#[derive(Debug)]
struct Watched {
    mailbox: Mailbox,
    seen: Seen,
    inode: u64,
    /// Time of the next check, by the watcher's clock.
    due: Duration,
    /// The reason why it is polled.
    polled: Option<String>,
    /// The error that was reported last, while it lasts.
    failing: Option<String>,
}

impl Watcher {
    /// Creates a watcher without mailboxes.
    pub fn new(vfs: Arc<dyn Vfs>, options: WatchOptions) -> Self {
        let watch = match options.poll {
            true => Err("as it was told to".to_owned()),
            false => vfs.watch().map_err(|error| error.to_string()),
        };
        let (mailboxes, about) = (Vec::new(), HashMap::new());
        Self { vfs, options, watch, mailboxes, about, clock: Duration::ZERO }
    }

    /// Watches a mailbox; changes since it was opened are reported, too. Returns its number,
    /// counted from 0.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn add(&mut self, mut mailbox: Mailbox) -> Result<usize> {
        let seen = match Seen::of(&mailbox) {
            Err(error) => {
                mailbox.heal(error)?;
                Seen::of(&mailbox)?
            }
            seen => seen?,
        };
        let inode = self.vfs.metadata(mailbox.path()).map_or(0, |metadata| metadata.inode);
        let is_remote = !self.vfs.is_local(mailbox.path());
        let polled = match &self.watch {
            Err(why) => Some(why.clone()),
            Ok(_) => is_remote.then(|| "other machines may change it".to_owned()),
        };
        let due = self.clock;
        self.mailboxes.push(Watched { mailbox, seen, inode, due, polled, failing: None });
        Ok(self.mailboxes.len() - 1)
    }

    /// Returns a mailbox in its last reported state.
    ///
    /// # Panics
    /// If no mailbox has this number.
    pub fn mailbox(&self, number: usize) -> &Mailbox {
        &self.mailboxes[number].mailbox
    }

    /// Returns the reason why a mailbox is polled; `None` if the system reports its changes.
    ///
    /// # Panics
    /// If no mailbox has this number.
    pub fn why_polled(&self, number: usize) -> Option<&str> {
        self.mailboxes[number].polled.as_deref()
    }

    /// Recovers a mailbox from an error of its cache, as [`Mailbox::heal`].
    ///
    /// # Errors
    /// As [`Mailbox::heal`].
    ///
    /// # Panics
    /// If no mailbox has this number.
    pub fn heal(&mut self, number: usize, error: Error) -> Result<()> {
        self.mailboxes[number].mailbox.heal(error)
    }

    /// Waits for changes, and returns them by mailbox; returns nothing once `timeout` has passed,
    /// or when asked to stop. A mailbox that cannot be read is reported once, and polled until it
    /// can be read again.
    ///
    /// Costs a refresh for each mailbox with an event, and, if that found changes, reading the
    /// fixed-size data of all its messages.
    pub fn next(&mut self, timeout: Option<Duration>) -> Vec<(usize, Result<Vec<MailboxChange>>)> {
        let end = timeout.map(|timeout| self.clock + timeout);
        loop {
            let mut told = Vec::new();
            for number in 0..self.mailboxes.len() {
                if self.mailboxes[number].due > self.clock || self.is_stopped() {
                    continue;
                }
                let started = Instant::now();
                let changes = self.look_at(number);
                self.clock += started.elapsed();
                match changes {
                    Ok(changes) if changes.is_empty() => {}
                    changes => {
                        told.extend(self.is_news(number, &changes).then_some((number, changes)))
                    }
                }
            }
            let is_over = end.is_some_and(|end| end <= self.clock);
            if !told.is_empty() || is_over || self.is_stopped() {
                return told;
            }
            self.wait(end);
        }
    }

    fn is_stopped(&self) -> bool {
        self.options.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Waits for the next event or check, but no longer than a slice: a signal that arrives just
    /// before a wait does not end it.
    fn wait(&mut self, end: Option<Duration>) {
        let due = self.mailboxes.iter().map(|watched| watched.due).chain(end).min();
        let until_due = due.map_or(WATCH_SLICE, |due| due.saturating_sub(self.clock));
        let slice = until_due.min(WATCH_SLICE);
        let Ok(watch) = &mut self.watch else {
            self.vfs.sleep(slice);
            self.clock += slice;
            return;
        };
        let started = Instant::now();
        let mut happened = Vec::new();
        let waited = watch.wait(slice, &mut happened);
        self.clock += started.elapsed();
        if let Err(error) = waited {
            self.do_without(&error.to_string());
        }
        let soon = self.clock + WATCH_SETTLE;
        for id in happened {
            let of_id = self.about.get(&id).map(Vec::as_slice).unwrap_or_default();
            for (number, watched) in self.mailboxes.iter_mut().enumerate() {
                if id == WatchId::LOST || of_id.contains(&number) {
                    watched.due = watched.due.min(soon);
                }
            }
        }
    }

    /// Polls from now on, because the system reports nothing.
    fn do_without(&mut self, why: &str) {
        self.watch = Err(why.to_owned());
        for watched in &mut self.mailboxes {
            watched.polled.get_or_insert_with(|| why.to_owned());
            watched.due = watched.due.min(self.clock);
        }
    }

    /// Finds the changes of a mailbox.
    fn look_at(&mut self, number: usize) -> Result<Vec<MailboxChange>> {
        // Later changes cause an event; earlier ones are found now.
        self.watch_files(number);
        let Self { vfs, options, mailboxes, clock, .. } = self;
        let watched = &mut mailboxes[number];
        let changes = watched.look(vfs);
        let is_watched = watched.polled.is_none() && changes.is_ok();
        let mut pause = if is_watched { WATCH_LOOK_INTERVAL } else { options.interval };
        if changes.is_ok() && watched.mailbox.snapshot.meta().stamp.is_settling() {
            pause = pause.min(WATCH_UNSETTLED);
        }
        watched.due = *clock + pause.max(WATCH_SETTLE);
        changes
    }

    /// Makes the system watch the files of a mailbox, which may be others than before.
    fn watch_files(&mut self, number: usize) {
        let Ok(watch) = &mut self.watch else { return };
        let watched = &mut self.mailboxes[number];
        let mut ids = Vec::new();
        for path in files_of(&watched.mailbox) {
            match watch.add(&path) {
                Ok(id) => ids.push(id),
                // A missing file is noticed when the mailbox is read.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => watched.polled = Some(format!("{}: {error}", path.display())),
            }
        }
        ids.extend(watch_folder(&mut **watch, &watched.mailbox.options.state_dir));
        self.about.retain(|_, numbers| {
            numbers.retain(|of| *of != number);
            !numbers.is_empty()
        });
        for id in ids {
            self.about.entry(id).or_default().push(number);
        }
    }

    /// Returns `true` if a result is to be reported: not the same error again.
    fn is_news(&mut self, number: usize, found: &Result<Vec<MailboxChange>>) -> bool {
        let failing = found.as_ref().err().map(ToString::to_string);
        let watched = &mut self.mailboxes[number];
        let is_news = failing.is_none() || failing != watched.failing;
        watched.failing = failing;
        is_news
    }
}

impl Watched {
    /// Returns the changes since the last check.
    fn look(&mut self, vfs: &Arc<dyn Vfs>) -> Result<Vec<MailboxChange>> {
        let at = |source| Error::Io { path: self.mailbox.path().to_owned(), source };
        let inode = vfs.metadata(self.mailbox.path()).map_err(at)?.inode;
        if inode == self.inode {
            if let Err(error) = self.mailbox.refresh() {
                self.mailbox.heal(error)?;
            }
        } else {
            // Another file has taken its place, and may be another mailbox.
            self.mailbox =
                Mailbox::open_in(Arc::clone(vfs), &self.mailbox.spec, &self.mailbox.options)?;
            self.inode = inode;
        }
        let changes = match self.seen.update(&self.mailbox) {
            Err(error) => {
                self.mailbox.heal(error)?;
                self.seen.update(&self.mailbox)?
            }
            changes => changes?,
        };
        self.failing = None;
        Ok(changes)
    }
}

/// Returns the files and folders whose change may be a change of the mailbox.
fn files_of(mailbox: &Mailbox) -> Vec<PathBuf> {
    let path = mailbox.path();
    let mut files = vec![path.to_owned()];
    if mailbox.format() == Format::Maildir {
        files.extend(["new", "cur"].map(|folder| path.join(folder)));
    }
    files
}

/// Watches a folder, or its nearest existing ancestor.
fn watch_folder(watch: &mut dyn Watch, folder: &Path) -> Option<WatchId> {
    folder.ancestors().find_map(|folder| watch.add(folder).ok())
}

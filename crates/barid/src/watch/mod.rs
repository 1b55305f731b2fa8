//! Watching mailboxes: reporting the changes of others as they happen (`docs/design/watch.md`).
//!
//! The system reports that the files of a mailbox changed; a [`Mailbox::refresh`] and a comparison
//! with the previous state find the changes. If the system cannot report, or other machines may
//! write, the mailbox is polled instead.

mod events;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{fmt, io};

use barid_vfs::{Vfs, Watch};

pub(crate) use self::events::{Checked, Events};
use crate::{Error, Mailbox, MailboxChange, Result, View};

/// Options for watching mailboxes.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// `true` to poll the mailboxes, even if the system can report changes.
    pub poll: bool,
    /// Polling interval.
    pub interval: Duration,
    /// The source of the system's reports, if it is not that of the file system.
    pub source: Option<WatchSource>,
    /// Once `true`, [`Watcher::next`] ends.
    pub stop: Option<Arc<AtomicBool>>,
}

/// A source of watches in place of [`Vfs::watch`]: a process that watches for several, for example.
#[derive(Clone)]
pub struct WatchSource(Arc<dyn Fn() -> io::Result<Box<dyn Watch>> + Send + Sync>);

impl WatchSource {
    /// Creates a source that calls a function for each watch.
    pub fn new(watch: impl Fn() -> io::Result<Box<dyn Watch>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(watch))
    }
}

impl fmt::Debug for WatchSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("WatchSource(..)")
    }
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self { poll: false, interval: Duration::from_secs(1), source: None, stop: None }
    }
}

/// A watcher of changes of mailboxes.
#[derive(Debug)]
pub struct Watcher {
    events: Events,
    mailboxes: Vec<ReportedView>,
}

/// A mailbox and the view of it that was reported last.
#[derive(Debug)]
struct ReportedView {
    mailbox: Mailbox,
    reported: View,
    /// The error that was reported last, while it lasts.
    failing: Option<String>,
}

impl Watcher {
    /// Creates a watcher without mailboxes.
    pub fn new(vfs: Arc<dyn Vfs>, options: WatchOptions) -> Self {
        Self { events: Events::new(vfs, options), mailboxes: Vec::new() }
    }

    /// Watches a mailbox; changes since it was opened are reported, too. Returns its number,
    /// counted from 0.
    pub fn add(&mut self, mailbox: Mailbox) -> usize {
        let reported = mailbox.view();
        let number = self.events.add(mailbox.storage.path());
        self.mailboxes.push(ReportedView { mailbox, reported, failing: None });
        number
    }

    /// Returns a mailbox in its last reported state.
    ///
    /// # Panics
    /// If no mailbox has this number.
    pub fn mailbox(&self, number: usize) -> &Mailbox {
        &self.mailboxes[number].mailbox
    }

    /// Returns the reason why a mailbox is polled; `None` if the system reports its changes.
    pub fn why_polled(&self, number: usize) -> Option<&str> {
        self.events.why_polled(number)
    }

    /// Recovers a mailbox from an error of its cache, as [`Mailbox::heal`] does.
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
    /// or [`WatchOptions::stop`] is `true`. A mailbox that cannot be read is reported once, and
    /// polled until it can be read again. [`MailboxChange::ModSeq`] is not reported.
    ///
    /// Costs a refresh for each mailbox with an event, and, if that found changes, as much as
    /// [`View::changes_since`].
    pub fn next(&mut self, timeout: Option<Duration>) -> Vec<(usize, Result<Vec<MailboxChange>>)> {
        let end = timeout.map(|timeout| self.events.now() + timeout);
        loop {
            let mut told = Vec::new();
            for number in self.events.due() {
                if self.events.is_stopped() {
                    break;
                }
                let watched = &mut self.mailboxes[number];
                let view = watched.mailbox.view();
                match self.events.check(number, &view, || watched.check()) {
                    Ok(changes) if changes.is_empty() => {}
                    changes => told.extend(watched.is_news(&changes).then_some((number, changes))),
                }
            }
            let is_over = end.is_some_and(|end| end <= self.events.now());
            if !told.is_empty() || is_over || self.events.is_stopped() {
                return told;
            }
            self.events.wait(end);
        }
    }
}

impl ReportedView {
    /// Finds the changes since the last check.
    fn check(&mut self) -> (Checked, Result<Vec<MailboxChange>>) {
        let changes = self.changes();
        let checked = match &changes {
            Err(_) => Checked::Failed,
            Ok(_) if self.mailbox.is_settling() => Checked::Settling,
            Ok(_) => Checked::Settled,
        };
        (checked, changes)
    }

    fn changes(&mut self) -> Result<Vec<MailboxChange>> {
        self.mailbox.refresh_path()?;
        let mut changes = match self.mailbox.changes_since(&self.reported) {
            Err(error) => {
                self.mailbox.heal(error)?;
                self.changes_after_damage()?
            }
            changes => changes?,
        };
        // Nobody sees that pending changes were written.
        changes.retain(|change| !matches!(change, MailboxChange::ModSeq(_)));
        self.reported = self.mailbox.view();
        self.failing = None;
        Ok(changes)
    }

    /// Returns the changes since the last check, now that the cache is sound again. What was
    /// reported may be unreadable.
    fn changes_after_damage(&self) -> Result<Vec<MailboxChange>> {
        match self.mailbox.changes_since(&self.reported) {
            Err(Error::Cache(_) | Error::Superseded { .. }) => {
                Ok(vec![MailboxChange::Renumbered(self.mailbox.status().uidvalidity)])
            }
            changes => changes,
        }
    }

    /// Returns `true` if a result is to be reported: not the same error again.
    fn is_news(&mut self, changes: &Result<Vec<MailboxChange>>) -> bool {
        let failing = changes.as_ref().err().map(ToString::to_string);
        let is_news = failing.is_none() || failing != self.failing;
        self.failing = failing;
        is_news
    }
}

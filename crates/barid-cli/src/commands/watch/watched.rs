//! The mailboxes that are watched: those that were named, and those of trees, in which more may
//! appear.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use barid::vfs::OsVfs;
use barid::{IndexAmount, Mailbox, MailboxChange, MailboxSpec, Uid, WatchOptions, Watcher};

use crate::context::Context;
use crate::exit::report;
use crate::limits::{
    WATCH_INDEXED, WATCH_INDEXED_BYTES, WATCH_INDEXED_MESSAGES, WATCH_TREE_INTERVAL,
};
use crate::mail::mailboxes::{mailboxes_below, no_mailbox_below};

/// Changes of mailboxes, by their numbers.
pub(super) type ChangesOf = Vec<(usize, barid::Result<Vec<MailboxChange>>)>;

/// The mailboxes that are watched.
pub(super) struct WatchedMailboxes {
    watcher: Watcher,
    stop: Arc<AtomicBool>,
    names: Vec<OsString>,
    paths: HashSet<PathBuf>,
    /// Mailboxes of trees that cannot be opened, with the errors that were reported.
    failing: HashMap<PathBuf, String>,
    /// New messages of each since some were indexed.
    unindexed: Vec<usize>,
    trees: Vec<PathBuf>,
    /// Time of the last look for further mailboxes.
    looked: Instant,
}

impl WatchedMailboxes {
    pub(super) fn new(options: WatchOptions, stop: Arc<AtomicBool>) -> Self {
        Self {
            watcher: Watcher::new(Arc::new(OsVfs), options),
            stop,
            names: Vec::new(),
            paths: HashSet::new(),
            failing: HashMap::new(),
            unindexed: Vec::new(),
            trees: Vec::new(),
            looked: Instant::now(),
        }
    }

    /// Watches a mailbox; returns its number.
    pub(super) fn add(
        &mut self,
        context: &Context,
        name: &OsStr,
        spec: &MailboxSpec,
    ) -> anyhow::Result<usize> {
        let mailbox =
            context.open_with(spec, &|options| options.stop = Some(Arc::clone(&self.stop)))?;
        let number = self.watcher.add(mailbox);
        self.names.push(name.to_owned());
        self.paths.insert(spec.path.clone());
        self.unindexed.push(0);
        if let Some(why) = self.watcher.why_polled(number) {
            context.detail(&format!("{}: checked at intervals: {why}", name.display()));
        }
        Ok(number)
    }

    /// Watches a mailbox of a tree; returns its number. One that cannot be opened is reported once,
    /// and tried again later.
    fn try_add(&mut self, context: &Context, spec: &MailboxSpec) -> Option<usize> {
        match self.add(context, spec.path.as_os_str(), spec) {
            Ok(number) => {
                self.failing.remove(&spec.path);
                Some(number)
            }
            Err(error) => {
                let text = format!("{error:#}");
                if self.failing.insert(spec.path.clone(), text.clone()).as_ref() != Some(&text) {
                    report(context, &error);
                }
                None
            }
        }
    }

    /// Watches the mailboxes of a tree.
    pub(super) fn add_tree(&mut self, context: &Context, dir: &Path) -> anyhow::Result<()> {
        let dir = context.spec(dir.as_os_str())?.path;
        let specs = self.further(&dir)?;
        if specs.is_empty() {
            return Err(no_mailbox_below(&dir));
        }
        for spec in specs {
            self.try_add(context, &spec);
        }
        self.trees.push(dir);
        Ok(())
    }

    /// Returns the mailboxes of a tree that are not watched.
    fn further(&self, dir: &Path) -> barid::Result<Vec<MailboxSpec>> {
        mailboxes_below(dir, &|path| !self.paths.contains(path))
    }

    /// Waits for changes, as [`Watcher::next`] does; in trees for seconds only.
    pub(super) fn next(&mut self, left: Option<Duration>) -> ChangesOf {
        let most = (!self.trees.is_empty()).then_some(WATCH_TREE_INTERVAL);
        let wait = match (left, most) {
            (Some(left), Some(most)) => Some(left.min(most)),
            (left, most) => left.or(most),
        };
        self.watcher.next(wait)
    }

    /// Looks for mailboxes that have appeared in the trees, and returns their messages as new.
    pub(super) fn look_for_more(&mut self, context: &Context) -> ChangesOf {
        let mut found = ChangesOf::new();
        if self.trees.is_empty() || self.looked.elapsed() < WATCH_TREE_INTERVAL {
            return found;
        }
        self.looked = Instant::now();
        for dir in self.trees.clone() {
            // A tree that cannot be listed now is listed again.
            for spec in self.further(&dir).unwrap_or_default() {
                if let Some(number) = self.try_add(context, &spec) {
                    found.push((number, all_new(self.mailbox(number))));
                }
            }
        }
        found
    }

    /// Adds messages to the index of a mailbox, if enough are new.
    pub(super) fn index(&mut self, context: &Context, number: usize, changes: &[MailboxChange]) {
        let new = changes.iter().filter(|change| matches!(change, MailboxChange::New(_)));
        self.unindexed[number] += new.count();
        if self.unindexed[number] < WATCH_INDEXED {
            return;
        }
        self.unindexed[number] = 0;
        let amount =
            IndexAmount::UpTo { messages: WATCH_INDEXED_MESSAGES, bytes: WATCH_INDEXED_BYTES };
        if let Err(error) = self.mailbox(number).view().index_texts(amount) {
            context.warn(&format!("{}: not indexed: {error}", self.names[number].display()));
        }
    }

    pub(super) fn names(&self) -> &[OsString] {
        &self.names
    }

    pub(super) fn mailbox(&self, number: usize) -> &Mailbox {
        self.watcher.mailbox(number)
    }

    pub(super) fn heal(&mut self, number: usize, error: barid::Error) -> barid::Result<()> {
        self.watcher.heal(number, error)
    }
}

fn all_new(mailbox: &Mailbox) -> barid::Result<Vec<MailboxChange>> {
    let uids = mailbox.uids()?.into_iter().filter_map(Uid::new);
    Ok(uids.map(MailboxChange::New).collect())
}

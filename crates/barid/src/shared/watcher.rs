//! The thread that watches the shared mailboxes of a process.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use barid_vfs::Vfs;

use super::{Cancel, Shared, SharedMailbox};
use crate::WatchOptions;
use crate::watch::{Checked, Events};

/// A thread that refreshes shared mailboxes as others change them, if somebody waits for that. It
/// ends some time after this value and every mailbox have been dropped.
#[derive(Debug)]
pub(crate) struct WatcherThread {
    vfs: Arc<dyn Vfs>,
    options: WatchOptions,
    new: Arc<Mutex<Vec<Weak<Shared>>>>,
    /// Set once the thread runs, or could not be started.
    is_started: OnceLock<()>,
}

impl WatcherThread {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, options: WatchOptions) -> Self {
        Self { vfs, options, new: Arc::default(), is_started: OnceLock::new() }
    }

    /// Watches a mailbox until it is closed. If no thread can be started, only refreshes find
    /// changes.
    pub(crate) fn add(&self, mailbox: &SharedMailbox) {
        self.new.lock().unwrap_or_else(PoisonError::into_inner).push(mailbox.downgrade());
        self.is_started.get_or_init(|| {
            let events = Events::new(Arc::clone(&self.vfs), self.options.clone());
            let new = Arc::downgrade(&self.new);
            let (watched, unseen) = (HashMap::new(), BTreeSet::new());
            let run = move || Running { events, watched, unseen, new }.run();
            drop(std::thread::Builder::new().name("watcher".to_owned()).spawn(run));
        });
    }
}

struct Running {
    events: Events,
    watched: HashMap<usize, Weak<Shared>>,
    /// The mailboxes that may have changed while nobody waited for that.
    unseen: BTreeSet<usize>,
    /// The mailboxes to be added; gone with the [`WatcherThread`].
    new: Weak<Mutex<Vec<Weak<Shared>>>>,
}

impl Running {
    fn run(mut self) {
        while !self.events.is_stopped() {
            let Some(new) = self.new.upgrade() else { return };
            let new = std::mem::take(&mut *new.lock().unwrap_or_else(PoisonError::into_inner));
            for mailbox in new {
                let Some(shared) = mailbox.upgrade() else { continue };
                let number = self.events.add(shared.view().storage.path());
                self.watched.insert(number, mailbox);
            }
            let awaited = self.unseen.iter().filter(|number| self.is_awaited(**number)).copied();
            let due: BTreeSet<usize> = self.events.due().into_iter().chain(awaited).collect();
            due.into_iter().for_each(|number| self.check(number));
            self.events.wait(None);
        }
    }

    fn is_awaited(&self, number: usize) -> bool {
        let shared = self.watched.get(&number).and_then(Weak::upgrade);
        shared.is_some_and(|shared| shared.is_awaited() && !shared.view().is_listed())
    }

    fn check(&mut self, number: usize) {
        let Some(shared) = self.watched.get(&number).and_then(Weak::upgrade) else {
            self.watched.remove(&number);
            self.unseen.remove(&number);
            return self.events.remove(number);
        };
        // Whoever reads the headers of a listed mailbox publishes what it finds.
        if !shared.is_awaited() || shared.view().is_listed() {
            self.unseen.insert(number);
            return self.events.check(number, &shared.view(), || (Checked::Settled, ()));
        }
        self.unseen.remove(&number);
        self.events.check(number, &shared.view(), || match shared.refresh(&Cancel::new()) {
            Ok(view) if view.is_settling() => (Checked::Settling, ()),
            Ok(_) => (Checked::Settled, ()),
            // A session that asks for a refresh gets the error.
            Err(_) => (Checked::Failed, ()),
        });
    }
}

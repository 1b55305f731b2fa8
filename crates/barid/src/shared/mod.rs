//! A mailbox that many sessions of one process share (`docs/design/view.md`).
//!
//! A [`SharedMailbox`] has one [`Mailbox`], which one thread at a time takes to update or to change
//! it, and the newest [`View`] of it, which everybody reads without waiting. No lock is held while
//! a listener runs.

mod cancel;
mod reader;
mod registry;
mod watcher;
mod writer;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use barid_formats::MailboxSpec;
use barid_vfs::Vfs;

pub use self::cancel::Cancel;
pub use self::registry::Mailboxes;
use self::registry::Registered;
use self::writer::{NotTaken, Writer};
use crate::view::NewerViews;
use crate::{Error, Mailbox, OpenOptions, Result, View};

/// A handle of a mailbox, for any number of threads. A copy is cheap, and is of the same mailbox.
///
/// Reading goes through a [`View`], which never changes: [`SharedMailbox::view`] returns the newest
/// one at once, [`SharedMailbox::refresh`] checks for changes by other programs first. Changes go
/// through [`SharedMailbox::update`], one after another.
#[derive(Clone)]
pub struct SharedMailbox(Arc<Shared>);

/// Work on a mailbox that is done once its headers are read.
type AfterReading = dyn FnOnce(&mut Mailbox) -> Result<()> + Send;

/// A function that is called with a newer view.
type Listener = dyn Fn(&View) + Send + Sync;

/// State shared by the handles of one mailbox.
pub(crate) struct Shared {
    vfs: Arc<dyn Vfs>,
    spec: MailboxSpec,
    options: OpenOptions,
    writer: Writer,
    newest: Mutex<View>,
    has_newer: Condvar,
    listeners: Mutex<Vec<(u64, Arc<Listener>)>>,
    /// Work that waits for the headers of a listed mailbox.
    after_reading: Mutex<Vec<Box<AfterReading>>>,
    /// Number of threads that wait for a newer view.
    waiting: AtomicUsize,
    last_listener: AtomicU64,
    /// Number of refreshes that have begun.
    begun: AtomicU64,
    /// The latest of them that has succeeded.
    succeeded: AtomicU64,
    /// Ends the request that uses the mailbox now, once it is `true`.
    stop: Arc<AtomicBool>,
    _registered: Registered,
}

/// A subscription to a shared mailbox: its listener is called until this value is dropped.
#[must_use = "the listener is called until this is dropped"]
pub struct Subscription {
    shared: Weak<Shared>,
    number: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            locked(&shared.listeners).retain(|(number, _)| *number != self.number);
        }
    }
}

impl SharedMailbox {
    fn open(
        vfs: Arc<dyn Vfs>,
        spec: &MailboxSpec,
        options: &OpenOptions,
        registered: Registered,
        open: impl FnOnce(Arc<dyn Vfs>, &MailboxSpec, &OpenOptions) -> Result<Mailbox>,
    ) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stop_of = Some(Arc::clone(&stop));
        let options = OpenOptions { stop: stop_of, is_kept_open: true, ..options.clone() };
        let mailbox = open(Arc::clone(&vfs), spec, &options)?;
        Ok(Self(Arc::new_cyclic(|shared| Shared {
            vfs,
            spec: spec.clone(),
            options,
            newest: Mutex::new(mailbox.view().published(Weak::<Shared>::clone(shared), 0)),
            writer: Writer::new(mailbox),
            has_newer: Condvar::new(),
            listeners: Mutex::default(),
            after_reading: Mutex::default(),
            waiting: AtomicUsize::new(0),
            last_listener: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            succeeded: AtomicU64::new(0),
            stop,
            _registered: registered,
        })))
    }

    /// Returns the newest view. Costs nothing, and does not check for changes by other programs.
    pub fn view(&self) -> View {
        self.0.view()
    }

    /// Checks for changes by other programs and returns the newest view. Costs a fixed number of
    /// system calls if nothing changed. Threads that call it at the same time share one check.
    ///
    /// # Errors
    /// As [`Mailbox::refresh`]; [`Error::Stopped`] if the request was cancelled;
    /// [`Error::Nested`].
    pub fn refresh(&self, cancel: &Cancel) -> Result<View> {
        self.0.refresh(cancel)
    }

    /// Checks for changes as [`SharedMailbox::refresh`] does. If the newest view is only listed
    /// ([`View::is_listed`]) and the mailbox has not changed since, returns that view at once.
    ///
    /// # Errors
    /// As [`SharedMailbox::refresh`].
    pub fn refresh_listed(&self, cancel: &Cancel) -> Result<View> {
        let view = self.0.view();
        if view.is_listed && view.is_unchanged()? {
            return Ok(view);
        }
        self.0.refresh(cancel)
    }

    /// Runs `work` on the mailbox once the headers of a listed view have been read, without waiting
    /// for that; at once if the newest view is not listed. An error of `work` is lost.
    pub fn once_read(&self, work: impl FnOnce(&mut Mailbox) -> Result<()> + Send + 'static) {
        locked(&self.0.after_reading).push(Box::new(work));
        if !self.view().is_listed {
            // They may have been read meanwhile.
            let _ = self.update(&Cancel::new(), |mailbox, _| {
                std::mem::take(&mut *locked(&self.0.after_reading))
                    .into_iter()
                    .try_for_each(|work| work(mailbox))
            });
        }
    }

    /// Runs `work` on the mailbox, while no other thread changes it, and publishes the view that
    /// it leaves. `work` gets a flag that becomes `true` when the request is cancelled, for
    /// [`crate::ChangeOptions::stop`].
    ///
    /// # Errors
    /// Errors of `work`; [`Error::Stopped`] if the request was cancelled before;
    /// [`Error::Nested`] if `work` of this thread is running.
    pub fn update<T>(
        &self,
        cancel: &Cancel,
        work: impl FnOnce(&mut Mailbox, &Arc<AtomicBool>) -> Result<T>,
    ) -> Result<T> {
        let stop = Arc::clone(&self.0.stop);
        self.0.with_mailbox(cancel, |mailbox| work(mailbox, &stop))
    }

    /// Recovers from an error of the cache that an answer of `view` revealed, as [`Mailbox::heal`]
    /// does, unless that was done since; returns the newest view.
    ///
    /// # Errors
    /// As [`Mailbox::heal`] and [`SharedMailbox::update`].
    pub fn heal(&self, view: &View, error: Error, cancel: &Cancel) -> Result<View> {
        self.0.with_mailbox(cancel, |mailbox| match mailbox.has_snapshot_of(view) {
            true => mailbox.heal(error),
            false => Ok(()),
        })?;
        Ok(self.view())
    }

    /// Waits until there is a newer view than `than`, and returns it; returns `None` after
    /// `timeout`. Views become newer by [`SharedMailbox::refresh`] and [`SharedMailbox::update`] of
    /// any thread, and by the watcher of [`Mailboxes`].
    pub fn wait_for_newer(&self, than: &View, timeout: Duration) -> Option<View> {
        let end = Instant::now() + timeout;
        let _waiter = Waiter::begin(&self.0.waiting);
        let mut newest = locked(&self.0.newest);
        while newest.version() == than.version() {
            let left = end.checked_duration_since(Instant::now())?;
            let waited = self.0.has_newer.wait_timeout(newest, left);
            newest = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(newest.clone())
    }

    /// Calls `tell` with every newer view, until the returned value is dropped. It is called in the
    /// thread that found or made the change, which waits for it; no lock is held.
    pub fn subscribe(&self, tell: impl Fn(&View) + Send + Sync + 'static) -> Subscription {
        let number = self.0.last_listener.fetch_add(1, Ordering::Relaxed);
        locked(&self.0.listeners).push((number, Arc::new(tell)));
        Subscription { shared: Arc::downgrade(&self.0), number }
    }

    /// Returns `true` if somebody is called with newer views, or waits for one.
    pub fn is_awaited(&self) -> bool {
        self.0.is_awaited()
    }

    pub(crate) fn downgrade(&self) -> Weak<Shared> {
        Arc::downgrade(&self.0)
    }

    /// Returns `true` if both are handles of one open mailbox.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A thread that waits for a newer view, counted until this is dropped.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl NewerViews for Shared {
    fn newer(self: Arc<Self>, tried: &View) -> Result<View> {
        let mut view = self.view();
        if view.has_snapshot_of(tried) {
            view = self.refresh(&Cancel::new())?;
        }
        // A mailbox that looks unchanged may have been read at its end only.
        if view.has_snapshot_of(tried) {
            view = self.rescan(tried)?;
        }
        Ok(view)
    }

    fn with_newest(self: Arc<Self>, work: &mut dyn FnMut(&View) -> Result<()>) -> Result<()> {
        self.with_mailbox(&Cancel::new(), |mailbox| {
            mailbox.rescan(false)?;
            work(&mailbox.view)
        })
    }
}

impl Drop for Shared {
    /// Looks at appended messages that nobody has looked at.
    fn drop(&mut self) {
        if let Some(mailbox) = self.writer.get_mut() {
            mailbox.look_at_unseen();
        }
    }
}

impl Shared {
    fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0 || !locked(&self.listeners).is_empty()
    }

    fn view(&self) -> View {
        locked(&self.newest).clone()
    }

    fn refresh(self: &Arc<Self>, cancel: &Cancel) -> Result<View> {
        let asked = self.begun.load(Ordering::SeqCst);
        self.with_mailbox(cancel, |mailbox| {
            // Another thread may have checked since this call began.
            if self.succeeded.load(Ordering::SeqCst) <= asked {
                let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
                mailbox.refresh_path()?;
                self.succeeded.store(number, Ordering::SeqCst);
            }
            Ok(())
        })?;
        Ok(self.view())
    }

    /// Scans the mailbox anew, unless there is a newer view than `tried` by then.
    fn rescan(self: &Arc<Self>, tried: &View) -> Result<View> {
        // A stamp that proves nothing yet is reason enough for another look.
        let full_check = !tried.is_settling();
        self.with_mailbox(&Cancel::new(), |mailbox| match mailbox.has_snapshot_of(tried) {
            true => mailbox.rescan(full_check),
            false => Ok(()),
        })?;
        Ok(self.view())
    }

    /// Runs `work` while no other thread has the mailbox.
    fn with_mailbox<T>(
        self: &Arc<Self>,
        cancel: &Cancel,
        work: impl FnOnce(&mut Mailbox) -> Result<T>,
    ) -> Result<T> {
        let taken = self.writer.take(cancel).map_err(|why| match why {
            NotTaken::Cancelled => Error::Stopped,
            NotTaken::Nested => Error::Nested { path: self.spec.path.clone() },
        })?;
        cancel.begin(&self.stop);
        let mut turn = WriterTurn { shared: self, cancel, mailbox: taken, is_newer: false };
        if turn.mailbox.is_none() {
            let mailbox = Mailbox::open_in(Arc::clone(&self.vfs), &self.spec, &self.options)?;
            turn.mailbox = Some(Box::new(mailbox));
        }
        let Some(mailbox) = &mut turn.mailbox else { return Err(Error::Stopped) };
        if mailbox.is_listed {
            mailbox.read_listed()?;
            // The headers are there for all, however long the work takes. Whoever brings more from
            // now on sees that, and does it.
            turn.is_newer = self.publish(mailbox);
            for work in std::mem::take(&mut *locked(&self.after_reading)) {
                // Nobody waits for the result.
                let _ = work(mailbox);
            }
        }
        work(mailbox)
    }

    /// Makes the view of the mailbox the newest one; returns `true` if it shows a change. Only the
    /// thread that has the mailbox calls this, so views become newer and never older.
    fn publish(self: &Arc<Self>, mailbox: &Mailbox) -> bool {
        let before = self.view();
        let version = before.version();
        // What was shown before may be unreadable by now.
        let mut is_changed =
            !mailbox.changes_since(&before).is_ok_and(|changes| changes.is_empty());
        // Sessions let go of the names, which are in memory.
        is_changed |= before.is_listed && !mailbox.is_listed;
        let version = if is_changed { version + 1 } else { version };
        let this = Arc::downgrade(self);
        *locked(&self.newest) = mailbox.view().published(this, version);
        is_changed
    }

    /// Notifies the listeners of the newest view.
    fn notify_listeners(&self) {
        self.has_newer.notify_all();
        let listeners: Vec<_> =
            locked(&self.listeners).iter().map(|(_, tell)| Arc::clone(tell)).collect();
        for tell in listeners {
            tell(&self.view());
        }
    }
}

/// The time in which a request has the mailbox.
struct WriterTurn<'s> {
    shared: &'s Arc<Shared>,
    cancel: &'s Cancel,
    mailbox: Option<Box<Mailbox>>,
    /// `true` if a view with a change was published already.
    is_newer: bool,
}

impl Drop for WriterTurn<'_> {
    fn drop(&mut self) {
        self.cancel.end();
        if std::thread::panicking() {
            return self.shared.writer.give_back(None);
        }
        if let Some(mailbox) = &self.mailbox {
            self.is_newer |= self.shared.publish(mailbox);
        }
        self.shared.writer.give_back(self.mailbox.take());
        if self.is_newer {
            self.shared.notify_listeners();
        }
    }
}

impl fmt::Debug for SharedMailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMailbox").field("spec", &self.0.spec).finish_non_exhaustive()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("number", &self.number).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

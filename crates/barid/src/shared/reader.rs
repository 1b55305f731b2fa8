//! The thread that reads the headers of mailboxes that were only listed when they were opened.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::{Cancel, Shared, SharedMailbox, locked};
use crate::limits::LISTED_WAITING_MAX;

/// A thread that reads the headers of one listed mailbox after the other, and ends when there is
/// none left, or soon after this value was dropped. A mailbox stays open until then, so that its
/// cache is written even if its last session ends before.
#[derive(Debug, Default)]
pub(super) struct ReaderThread {
    queue: Arc<Mutex<Queue>>,
    ended: Arc<Condvar>,
    cancel: Cancel,
}

#[derive(Default)]
struct Queue {
    mailboxes: VecDeque<Arc<Shared>>,
    is_running: bool,
}

impl ReaderThread {
    /// Returns `true` if another mailbox may be listed: each that waits for the thread has its
    /// names in memory.
    pub(super) fn has_room(&self) -> bool {
        locked(&self.queue).mailboxes.len() < LISTED_WAITING_MAX
    }

    /// Reads the headers of a mailbox later. If no thread can be started, the next request that
    /// needs them reads them.
    pub(super) fn add(&self, mailbox: &SharedMailbox) {
        let mut queue = locked(&self.queue);
        queue.mailboxes.push_back(Arc::clone(&mailbox.0));
        if queue.is_running {
            return;
        }
        let (of_thread, cancel) = (Arc::clone(&self.queue), self.cancel.clone());
        let ended = Arc::clone(&self.ended);
        let thread = std::thread::Builder::new().name("header-reader".to_owned());
        queue.is_running = thread.spawn(move || run(&of_thread, &ended, &cancel)).is_ok();
        if !queue.is_running {
            // The caller has a handle, so no mailbox is closed under the lock.
            queue.mailboxes.pop_back();
        }
    }

    /// Returns `true` if the thread runs.
    pub(super) fn is_running(&self) -> bool {
        locked(&self.queue).is_running
    }

    /// Waits until the thread has ended.
    pub(super) fn wait(&self) {
        let queue = locked(&self.queue);
        let waited = self.ended.wait_while(queue, |queue| queue.is_running);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for ReaderThread {
    fn drop(&mut self) {
        self.cancel.cancel();
        let unread = std::mem::take(&mut locked(&self.queue).mailboxes);
        // Mailboxes are closed without the lock.
        drop(unread);
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("mailboxes", &self.mailboxes.len()).finish_non_exhaustive()
    }
}

/// Notes the end of the thread, whatever ends it, and closes the mailboxes that it leaves.
struct ThreadEnd<'q>(&'q Mutex<Queue>, &'q Condvar);

impl Drop for ThreadEnd<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut queue = locked(self.0);
            queue.is_running = false;
            let left = std::mem::take(&mut queue.mailboxes);
            drop(queue);
            // Mailboxes are closed without the lock; requests read their headers.
            drop(left);
        }
        self.1.notify_all();
    }
}

fn run(queue: &Mutex<Queue>, ended: &Condvar, cancel: &Cancel) {
    let _end = ThreadEnd(queue, ended);
    loop {
        let next = {
            let mut queue = locked(queue);
            let next = queue.mailboxes.pop_front();
            queue.is_running = next.is_some();
            next
        };
        let Some(mailbox) = next else { return };
        // A request that needs the headers tries again, and gets the error.
        let _ = mailbox.with_mailbox(cancel, |_| Ok(()));
    }
}

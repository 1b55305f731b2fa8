//! The one place from which a shared mailbox is updated and changed.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use crate::Mailbox;
use crate::limits::CANCEL_SLICE;
use crate::shared::Cancel;

/// A mailbox that one thread at a time takes and gives back.
#[derive(Debug)]
pub(super) struct Writer {
    state: Mutex<WriterState>,
    given_back: Condvar,
}

#[derive(Debug)]
enum WriterState {
    Free(Box<Mailbox>),
    Taken(ThreadId),
    /// The thread that had it panicked.
    Lost,
}

/// The reason why a mailbox cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// The request was cancelled.
    Cancelled,
    /// This thread has it already.
    Nested,
}

impl Writer {
    pub(super) fn new(mailbox: Mailbox) -> Self {
        Self { state: Mutex::new(WriterState::Free(Box::new(mailbox))), given_back: Condvar::new() }
    }

    /// Takes the mailbox, once no other thread has it; `None` if a panic has left it in an unknown
    /// state. Follow with [`Writer::give_back`].
    pub(super) fn take(
        &self,
        cancel: &Cancel,
    ) -> std::result::Result<Option<Box<Mailbox>>, NotTaken> {
        let me = thread::current().id();
        let mut state = self.state();
        loop {
            if cancel.is_cancelled() {
                return Err(NotTaken::Cancelled);
            }
            match std::mem::replace(&mut *state, WriterState::Taken(me)) {
                WriterState::Free(mailbox) => return Ok(Some(mailbox)),
                WriterState::Lost => return Ok(None),
                WriterState::Taken(other) => *state = WriterState::Taken(other),
            }
            if matches!(&*state, WriterState::Taken(other) if *other == me) {
                return Err(NotTaken::Nested);
            }
            let waited = self.given_back.wait_timeout(state, CANCEL_SLICE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Gives the mailbox back; `None` if it is in an unknown state.
    pub(super) fn give_back(&self, mailbox: Option<Box<Mailbox>>) {
        *self.state() = mailbox.map_or(WriterState::Lost, WriterState::Free);
        self.given_back.notify_one();
    }

    /// Returns the mailbox, which no thread has; `None` if it is in an unknown state.
    pub(super) fn get_mut(&mut self) -> Option<&mut Mailbox> {
        match self.state.get_mut().unwrap_or_else(PoisonError::into_inner) {
            WriterState::Free(mailbox) => Some(mailbox),
            WriterState::Taken(_) | WriterState::Lost => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

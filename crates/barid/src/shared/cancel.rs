//! Cancelling a request to a shared mailbox.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Cancels a request to a [`crate::SharedMailbox`] from another thread: the request stops waiting
/// for other requests and for locks of other programs, and a change ends after its current step.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<Mutex<CancelState>>);

#[derive(Debug, Default)]
struct CancelState {
    is_cancelled: bool,
    /// The flag of the mailbox that the request uses now, which ends what it does.
    stop: Option<Arc<AtomicBool>>,
}

impl Cancel {
    /// Creates the means to cancel a request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the request, and every later one that is given this value.
    pub fn cancel(&self) {
        let mut state = self.state();
        state.is_cancelled = true;
        if let Some(stop) = &state.stop {
            stop.store(true, Ordering::Relaxed);
        }
    }

    /// Returns `true` if the request was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    /// Records that the request begins to use a mailbox whose flag is `stop`.
    pub(super) fn begin(&self, stop: &Arc<AtomicBool>) {
        let mut state = self.state();
        stop.store(state.is_cancelled, Ordering::Relaxed);
        state.stop = Some(Arc::clone(stop));
    }

    /// Records that the request has ended.
    pub(super) fn end(&self) {
        if let Some(stop) = self.state().stop.take() {
            stop.store(false, Ordering::Relaxed);
        }
    }

    fn state(&self) -> MutexGuard<'_, CancelState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! What signals do while a mailbox is changed.
//!
//! A change that is told to end completes its current step and leaves a journal from which the next
//! command goes on. Everything else ends at once, as a signal does by default.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR2};
use signal_hook::flag;

/// Makes the signals that ask for an end set a flag; the second one ends the program at once.
pub(crate) fn set_when_told_to_end(stop: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(stop))?;
        flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

/// Lets a request to give up a lock pass. c-client sends SIGUSR2 to whoever holds the lock of a
/// session, which would end a program that does not expect it; a lock is held for one change only,
/// so the other program need not ask.
pub(crate) fn ignore_requests_for_locks() -> io::Result<()> {
    flag::register(SIGUSR2, Arc::new(AtomicBool::new(false))).map(drop)
}

//! Copies whose messages are read while they are written.
//!
//! Such a copy has the mailbox that it writes locked, and waits for the lock of the one that it
//! reads. Two of them in opposite directions would wait for each other until a timeout. So a
//! mailbox is at one time read by such copies or written by them, never both.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The copies of a user that are read while they are written.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<Vec<Direction>>);

/// The identities of two mailboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Direction {
    from: u128,
    to: u128,
}

/// A copy that is being made, until it is dropped.
#[must_use = "the copy is over when this is dropped"]
#[derive(Debug)]
pub(crate) struct StreamTurn<'s> {
    streams: &'s Streams,
    direction: Direction,
}

impl Streams {
    /// Begins a copy; returns `None` if it could wait for one that waits for it.
    pub(crate) fn begin(&self, from: u128, to: u128) -> Option<StreamTurn<'_>> {
        let mut all = self.all();
        if all.iter().any(|other| other.from == to || other.to == from) {
            return None;
        }
        let direction = Direction { from, to };
        all.push(direction);
        Some(StreamTurn { streams: self, direction })
    }

    fn all(&self) -> MutexGuard<'_, Vec<Direction>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamTurn<'_> {
    fn drop(&mut self) {
        let mut all = self.streams.all();
        if let Some(at) = all.iter().position(|other| *other == self.direction) {
            all.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mailbox_is_read_and_written() {
        let streams = Streams::default();
        let check = |from, to, expected| {
            let begun = streams.begin(from, to);
            assert_eq!(begun.is_some(), expected, "{from} to {to}");
            begun
        };
        let one = check(1, 2, true);
        let again = check(1, 2, true);
        check(2, 1, false);
        check(2, 3, false);
        check(3, 1, false);
        let other = check(1, 3, true);
        drop(check(4, 5, true));
        drop(one);
        check(2, 1, false);
        drop(again);
        check(2, 4, true);
        check(2, 1, false);
        drop(other);
        check(2, 1, true);
    }
}

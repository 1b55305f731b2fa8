//! Bounded memory for large messages that several threads work on.
//!
//! Threads process blocks of messages ahead of the consumer of their results. Blocks of one large
//! message wait for each other: they start in order, and together they have no more than
//! [`LARGE_LEN_MAX`] bytes between their start and the moment when the result is consumed. Since
//! results are consumed in the same order, the first block can always proceed.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::limits::LARGE_LEN_MAX;

/// The turn of a block of one large message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockTurn {
    number: usize,
    len: u64,
}

impl BlockTurn {
    /// Assigns turns to the blocks of more than `large_len` bytes, in order.
    pub(crate) fn of_blocks(lens: impl Iterator<Item = u64>, large_len: u64) -> Vec<Option<Self>> {
        let mut number = 0;
        let turn = |len| {
            (len > large_len).then(|| {
                number += 1;
                Self { number: number - 1, len }
            })
        };
        lens.map(turn).collect()
    }
}

#[derive(Debug, Default)]
struct TurnsState {
    next: usize,
    used: u64,
    is_closed: bool,
}

/// The state of all turns.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    state: Mutex<TurnsState>,
    changed: Condvar,
}

impl Turns {
    /// Waits for the turn of a block; `false` if the block is not wanted any more.
    pub(crate) fn enter(&self, turn: Option<BlockTurn>) -> bool {
        let Some(turn) = turn else { return true };
        let fits = |state: &TurnsState| state.used == 0 || state.used + turn.len <= LARGE_LEN_MAX;
        let mut state = self.lock();
        while !state.is_closed && (state.next != turn.number || !fits(&state)) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.next += 1;
        state.used += turn.len;
        self.changed.notify_all();
        !state.is_closed
    }

    /// Ends the turn of a block whose result was consumed.
    pub(crate) fn leave(&self, turn: Option<BlockTurn>) {
        let Some(turn) = turn else { return };
        let mut state = self.lock();
        state.used -= turn.len;
        self.changed.notify_all();
    }

    /// Returns a guard that closes the turns when it is dropped, so that no thread waits for ever.
    pub(crate) fn closing(&self) -> Closing<'_> {
        Closing(self)
    }

    fn lock(&self) -> MutexGuard<'_, TurnsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the turns when it is dropped.
pub(crate) struct Closing<'t>(&'t Turns);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::sync_channel;
    use std::thread;

    use super::*;

    #[test]
    fn large_blocks_are_few_at_once() {
        let lens: Vec<u64> = (0..60).map(|at| (at * 7 % 13) << 20).collect();
        let turns = BlockTurn::of_blocks(lens.iter().copied(), 1 << 20);
        let (gate, used, most) = (Turns::default(), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            let receivers: Vec<_> = (0..3)
                .map(|worker| {
                    let (sender, receiver) = sync_channel(2);
                    let (turns, lens, gate, used, most) = (&turns, &lens, &gate, &used, &most);
                    scope.spawn(move || {
                        for block in (worker..lens.len()).step_by(3) {
                            assert!(gate.enter(turns[block]));
                            let len = turns[block].map_or(0, |turn| turn.len);
                            let now = used.fetch_add(len, Ordering::SeqCst) + len;
                            most.fetch_max(now, Ordering::SeqCst);
                            sender.send(block).unwrap();
                        }
                    });
                    receiver
                })
                .collect();
            let _closing = gate.closing();
            for block in 0..lens.len() {
                assert_eq!(receivers[block % 3].recv().unwrap(), block);
                used.fetch_sub(turns[block].map_or(0, |turn| turn.len), Ordering::SeqCst);
                gate.leave(turns[block]);
            }
        });
        assert!(most.into_inner() <= LARGE_LEN_MAX);
    }

    #[test]
    fn nobody_waits_for_what_nobody_wants() {
        let turns = BlockTurn::of_blocks([9 << 20, 9 << 20].into_iter(), 1);
        let gate = Turns::default();
        assert!(gate.enter(turns[0]));
        drop(gate.closing());
        assert!(!gate.enter(turns[1]));
    }
}

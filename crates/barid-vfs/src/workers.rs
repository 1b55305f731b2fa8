//! The worker threads of a process.
//!
//! However many sessions scan, search or fetch at the same time, a process has a bounded number of
//! threads for it: work for which no thread is free is done by the calling thread.

use std::panic::resume_unwind;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::limits::{WORKERS_MIN, WORKERS_PER_CORE};

/// Workers that run now.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// Most workers that run at the same time.
static MOST: LazyLock<usize> = LazyLock::new(|| (cores() * WORKERS_PER_CORE).max(WORKERS_MIN));

/// Cores that this process may use. Asking costs a dozen system calls where there are cgroups.
static CORES: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// Returns the number of cores that this process may use, as it was when this was first called.
pub fn cores() -> usize {
    *CORES
}

/// The right to start some threads, until it is dropped.
#[derive(Debug)]
pub struct Workers(usize);

impl Workers {
    /// Takes the right to start up to `wanted` threads.
    pub fn take(wanted: usize) -> Self {
        Self::take_of(&RUNNING, *MOST, wanted)
    }

    /// Takes the right to start no thread.
    pub fn none() -> Self {
        Self(0)
    }

    fn take_of(running: &AtomicUsize, most: usize, wanted: usize) -> Self {
        let mut taken = 0;
        let update = |now: usize| {
            taken = wanted.min(most.saturating_sub(now));
            Some(now + taken)
        };
        // Never fails, because there is always a next value.
        let _ = running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
        Self(taken)
    }

    /// Returns the number of threads.
    pub fn count(&self) -> usize {
        self.0
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        RUNNING.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Runs `work` on this thread and on up to `threads - 1` workers at the same time; returns what
/// each of them returned, that of this thread first. A panic of a worker is resumed.
pub fn on_threads<T: Send>(threads: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    let workers = Workers::take(threads.saturating_sub(1));
    thread::scope(|scope| {
        // If a thread cannot be started, the others do the work.
        let start = |_| thread::Builder::new().spawn_scoped(scope, &work).ok();
        let started: Vec<_> = (0..workers.count()).filter_map(start).collect();
        let mut results = vec![work()];
        for worker in started {
            results.push(worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        results
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn work_runs_on_several_threads() {
        for threads in 1..4 {
            let barrier = Barrier::new(threads);
            let results = on_threads(threads, || {
                barrier.wait();
                thread::current().id()
            });
            assert_eq!(results.len(), threads);
            assert!(results.contains(&thread::current().id()));
        }
        assert_eq!(on_threads(0, || 1), [1]);
    }

    #[test]
    fn no_more_threads_are_started_than_a_process_may_have() {
        let running = AtomicUsize::new(0);
        let counts = [5, 4, 3, 1].map(|wanted| {
            let workers = Workers::take_of(&running, 10, wanted);
            let count = workers.count();
            std::mem::forget(workers);
            count
        });
        assert_eq!(counts, [5, 4, 1, 0]);
    }

    #[test]
    fn a_panic_is_resumed() {
        let main = thread::current().id();
        let panicked = std::panic::catch_unwind(|| {
            on_threads(2, || assert_eq!(thread::current().id(), main, "as intended"))
        });
        assert!(panicked.is_err());
    }
}

//! Connections: each a thread, no more than a number of them, and an end that lets finish what
//! runs.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::socket::{Listener, Stream};

/// How long an end waits for what runs.
const END_TIMEOUT: Duration = Duration::from_secs(20);
/// How often it looks.
const END_STEP: Duration = Duration::from_millis(20);
/// How long no connection is taken after one could not be.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Tells whether a connection is in the middle of something.
#[derive(Clone, Debug, Default)]
pub(super) struct Busy(Arc<AtomicBool>);

impl Busy {
    pub(super) fn set(&self, is_busy: bool) {
        self.0.store(is_busy, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Serves one connection of the listener with this index.
pub(super) type Serve<'a> = dyn Fn(usize, Stream, &Busy) + Sync + 'a;

/// What all threads know.
struct Shared {
    open: Mutex<Vec<(usize, Stream, Busy)>>,
    count: AtomicUsize,
    next: AtomicUsize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<(usize, Stream, Busy)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes connections until `end` can be read, then lets finish what runs.
pub(super) fn serve(
    listeners: &[Listener],
    end: &UnixStream,
    connections_max: usize,
    timeout: Duration,
    serve: &Serve<'_>,
) -> io::Result<()> {
    let shared =
        Shared { open: Mutex::default(), count: AtomicUsize::new(0), next: AtomicUsize::new(0) };
    thread::scope(|scope| {
        loop {
            let is_full = shared.count.load(Ordering::Acquire) >= connections_max;
            let ready = wait(listeners, end.as_fd(), is_full)?;
            if ready.is_ended {
                break;
            }
            for index in ready.listeners {
                let stream = match listeners[index].accept() {
                    Ok(Some(stream)) => stream,
                    Ok(None) => continue,
                    Err(_) => {
                        // Out of handles, mostly: some will be given back.
                        thread::sleep(ACCEPT_PAUSE);
                        continue;
                    }
                };
                let (Ok(second), Ok(())) = (stream.try_clone(), stream.set_timeout(timeout)) else {
                    continue;
                };
                let (number, busy) = (shared.next.fetch_add(1, Ordering::Relaxed), Busy::default());
                shared.lock().push((number, second, busy.clone()));
                shared.count.fetch_add(1, Ordering::AcqRel);
                let shared = &shared;
                let open = Open { shared, number };
                let work = move || {
                    let _open = open;
                    serve(index, stream, &busy);
                };
                // Without a thread the connection ends, as what it needs is dropped.
                if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    thread::sleep(ACCEPT_PAUSE);
                }
            }
        }
        finish(&shared);
        Ok(())
    })
}

/// Forgets a connection when its thread ends, however that is.
struct Open<'a> {
    shared: &'a Shared,
    number: usize,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.shared.lock().retain(|(number, ..)| *number != self.number);
        self.shared.count.fetch_sub(1, Ordering::AcqRel);
    }
}

struct Ready {
    is_ended: bool,
    listeners: Vec<usize>,
}

/// Waits for connections, unless there are enough, and for the end.
fn wait(listeners: &[Listener], end: BorrowedFd<'_>, is_full: bool) -> io::Result<Ready> {
    let mut waited = vec![PollFd::from_borrowed_fd(end, PollFlags::IN)];
    if !is_full {
        waited.extend(listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
    }
    // Where there are enough it looks again whether one has ended.
    let timeout = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    match poll(&mut waited, is_full.then_some(&timeout)) {
        Err(rustix::io::Errno::INTR) => {}
        polled => drop(polled?),
    }
    let is_ready = |waited: &PollFd<'_>| !waited.revents().is_empty();
    let listeners = (0..waited.len() - 1).filter(|index| is_ready(&waited[index + 1]));
    Ok(Ready { is_ended: is_ready(&waited[0]), listeners: listeners.collect() })
}

/// Ends connections: those that wait at once, the others when they are through with what they do,
/// or after a while.
fn finish(shared: &Shared) {
    let start = Instant::now();
    loop {
        let is_late = start.elapsed() > END_TIMEOUT;
        let open = shared.lock();
        if open.is_empty() {
            return;
        }
        for (_, stream, busy) in open.iter() {
            if is_late {
                stream.shutdown(Shutdown::Both);
            } else if !busy.is_set() {
                stream.shutdown(Shutdown::Read);
            }
        }
        drop(open);
        if is_late {
            return;
        }
        thread::sleep(END_STEP);
    }
}

/// Lets no more than a number of threads work at once.
#[derive(Debug)]
pub(super) struct Turns {
    free: Mutex<usize>,
    given_back: Condvar,
}

impl Turns {
    pub(super) fn new(count: usize) -> Self {
        Self { free: Mutex::new(count.max(1)), given_back: Condvar::new() }
    }

    /// Does something when it is this thread's turn.
    pub(super) fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        let lock = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = lock();
        while *free == 0 {
            free = self.given_back.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        drop(free);
        let _turn = Turn(self);
        work()
    }
}

struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.given_back.notify_one();
    }
}

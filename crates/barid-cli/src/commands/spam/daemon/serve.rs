//! Connections: a thread for each, a limit on their number, and a shutdown that completes running
//! requests.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use barid_serve::socket::{SocketListener, Stream};

/// Time for which the shutdown waits for running requests.
const END_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval at which the shutdown checks for running requests.
const END_STEP: Duration = Duration::from_millis(20);
/// Interval at which a listener at its limit is checked for closed connections.
const FULL_STEP: Duration = Duration::from_millis(20);
/// The longest interval between checks for connections that timed out.
const LATE_STEP: Duration = Duration::from_secs(5);
/// Time after which a slow connection is closed if others wait at the limit of connections.
const FULL_PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted or got no thread.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// The activity of a connection, shared by its thread and the accepting one.
#[derive(Clone, Debug)]
pub(super) struct Busy(Arc<State>);

#[derive(Debug)]
struct State {
    is_busy: AtomicBool,
    /// Time at which the current transfer began, in milliseconds after `start`; 0 if there is none.
    since: AtomicU64,
    start: Instant,
}

impl Busy {
    fn new(start: Instant) -> Self {
        let (is_busy, since) = (AtomicBool::new(false), AtomicU64::new(0));
        Self(Arc::new(State { is_busy, since, start }))
    }

    pub(super) fn set(&self, is_busy: bool) {
        self.0.is_busy.store(is_busy, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.is_busy.load(Ordering::Relaxed)
    }

    /// Notes that a transfer from or to the peer has begun, unless it had before, or has ended.
    pub(super) fn talks(&self, talks: bool) {
        let since = match (talks, self.0.since.load(Ordering::Relaxed)) {
            (false, _) => 0,
            (true, 0) => (self.0.start.elapsed().as_millis() as u64).max(1),
            (true, since) => since,
        };
        self.0.since.store(since, Ordering::Relaxed);
    }

    /// Runs `talk`, a transfer from or to the peer.
    pub(super) fn talking<R>(&self, talk: impl FnOnce() -> R) -> R {
        self.talks(true);
        let done = talk();
        self.talks(false);
        done
    }

    /// Returns the time since the current transfer began; zero if there is none.
    fn talks_for(&self) -> Duration {
        match self.0.since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => self.0.start.elapsed().saturating_sub(Duration::from_millis(since)),
        }
    }
}

/// A function that serves one connection of the listener with this index.
pub(super) type Serve<'a> = dyn Fn(usize, Stream, &Busy) + Sync + 'a;

/// A connection that is being served.
struct Connection {
    number: usize,
    listener: usize,
    stream: Stream,
    busy: Busy,
}

/// The state that all threads share.
struct Shared {
    open: Mutex<Vec<Connection>>,
    /// Number of connections of each listener.
    counts: Vec<AtomicUsize>,
    next: AtomicUsize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes connections whose current transfer takes longer than `timeout`, even if bytes still
    /// arrive. Returns the time until the next check; `None` without connections.
    fn end_late(&self, timeout: Duration) -> Option<Duration> {
        let open = self.lock();
        for connection in open.iter().filter(|connection| connection.busy.talks_for() > timeout) {
            connection.stream.shutdown(Shutdown::Both);
        }
        (!open.is_empty()).then(|| (timeout / 4).min(LATE_STEP))
    }

    /// Closes the connection of a listener with the longest current transfer, if that takes longer
    /// than `patience`, to make room for a new connection.
    fn end_slowest(&self, listener: usize, patience: Duration) {
        let open = self.lock();
        let of_listener = open.iter().filter(|connection| connection.listener == listener);
        let slowest = of_listener.max_by_key(|connection| connection.busy.talks_for());
        if let Some(slowest) = slowest.filter(|slowest| slowest.busy.talks_for() > patience) {
            slowest.stream.shutdown(Shutdown::Both);
        }
    }
}

/// Accepts connections until `end` becomes readable, then waits for running requests.
/// `connections_max` applies to each listener separately, so that they do not compete.
pub(super) fn serve(
    listeners: &[SocketListener],
    end: &UnixStream,
    connections_max: usize,
    timeout: Duration,
    serve: &Serve<'_>,
) -> io::Result<()> {
    let counts = listeners.iter().map(|_| AtomicUsize::new(0)).collect();
    let shared = Shared { open: Mutex::default(), counts, next: AtomicUsize::new(0) };
    let start = Instant::now();
    thread::scope(|scope| {
        let ended = loop {
            let is_open =
                |index: usize| shared.counts[index].load(Ordering::Acquire) < connections_max;
            let look_again = shared.end_late(timeout);
            let ready = match wait(listeners, end.as_fd(), &is_open, look_again) {
                Ok(ready) if ready.is_ended => break Ok(()),
                Ok(ready) => ready,
                Err(error) => break Err(error),
            };
            for listener in ready.full {
                shared.end_slowest(listener, timeout.min(FULL_PATIENCE));
            }
            for index in ready.listeners {
                let stream = match listeners[index].accept() {
                    Ok(Some(stream)) => stream,
                    Ok(None) => continue,
                    Err(_) => {
                        // Usually there are no free descriptors; some will be closed soon.
                        thread::sleep(ACCEPT_PAUSE);
                        continue;
                    }
                };
                let (Ok(second), Ok(())) = (stream.try_clone(), stream.set_timeout(timeout)) else {
                    continue;
                };
                let (number, busy) =
                    (shared.next.fetch_add(1, Ordering::Relaxed), Busy::new(start));
                let connection =
                    Connection { number, listener: index, stream: second, busy: busy.clone() };
                shared.lock().push(connection);
                shared.counts[index].fetch_add(1, Ordering::AcqRel);
                let shared = &shared;
                let open = Open { shared, number, listener: index };
                let work = move || {
                    let _open = open;
                    serve(index, stream, &busy);
                };
                // Without a thread the connection ends, because its stream is dropped.
                if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    thread::sleep(ACCEPT_PAUSE);
                }
            }
        };
        finish(&shared);
        ended
    })
}

/// A guard that removes a connection when its thread ends, even by a panic.
struct Open<'a> {
    shared: &'a Shared,
    number: usize,
    listener: usize,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.shared.lock().retain(|connection| connection.number != self.number);
        self.shared.counts[self.listener].fetch_sub(1, Ordering::AcqRel);
    }
}

struct Ready {
    is_ended: bool,
    /// Listeners with a waiting connection and room for it.
    listeners: Vec<usize>,
    /// Listeners with a waiting connection that are at their limit.
    full: Vec<usize>,
}

/// Waits for connections of the listeners below their limit, and for the end.
fn wait(
    listeners: &[SocketListener],
    end: BorrowedFd<'_>,
    is_open: &dyn Fn(usize) -> bool,
    look_again: Option<Duration>,
) -> io::Result<Ready> {
    let (open, full): (Vec<usize>, Vec<usize>) = (0..listeners.len()).partition(|at| is_open(*at));
    let poll_of = |index: &usize| PollFd::new(&listeners[*index], PollFlags::IN);
    let mut waited = vec![PollFd::from_borrowed_fd(end, PollFlags::IN)];
    waited.extend(open.iter().map(poll_of));
    // If a listener is at its limit, check again soon whether a connection has ended.
    let timeout = if full.is_empty() { look_again } else { Some(FULL_STEP) };
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: i64::from(timeout.subsec_nanos()),
    });
    poll_all(&mut waited, timeout.as_ref())?;
    let mut waiting: Vec<PollFd<'_>> = full.iter().map(poll_of).collect();
    if !waiting.is_empty() {
        poll_all(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    }
    let ready_of = |of: &[usize], polled: &[PollFd<'_>]| -> Vec<usize> {
        let ready = of.iter().zip(polled).filter(|(_, polled)| !polled.revents().is_empty());
        ready.map(|(index, _)| *index).collect()
    };
    Ok(Ready {
        is_ended: !waited[0].revents().is_empty(),
        listeners: ready_of(&open, &waited[1..]),
        full: ready_of(&full, &waiting),
    })
}

fn poll_all(waited: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<()> {
    match poll(waited, timeout) {
        Err(rustix::io::Errno::INTR) => Ok(()),
        polled => Ok(polled.map(drop)?),
    }
}

/// Closes connections: idle ones at once, the others after their request or after [`END_TIMEOUT`].
fn finish(shared: &Shared) {
    let start = Instant::now();
    loop {
        let is_late = start.elapsed() > END_TIMEOUT;
        let open = shared.lock();
        if open.is_empty() {
            return;
        }
        for Connection { stream, busy, .. } in open.iter() {
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

/// A counting semaphore, which limits the number of threads that work at once.
#[derive(Debug)]
pub(super) struct Turns {
    free: Mutex<usize>,
    given_back: Condvar,
}

impl Turns {
    pub(super) fn new(count: usize) -> Self {
        Self { free: Mutex::new(count.max(1)), given_back: Condvar::new() }
    }

    /// Runs `work` when it is this thread's turn.
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

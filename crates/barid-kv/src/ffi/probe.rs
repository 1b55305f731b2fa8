//! Work that may crash or hang, run in a child process.

#![expect(unsafe_code, reason = "fork and what a child does with itself")]

use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, pipe2};

/// The exit code of a child that could not be confined.
const UNCONFINED: c_int = 113;
/// The first descriptor behind the standard streams.
const BEYOND_STREAMS: RawFd = 3;

/// The end of a child.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It sent this answer.
    Told(Vec<u8>),
    /// It ended in this way before it answered.
    Died(String),
    /// It was killed at one of its time limits.
    Hung,
}

/// The limits of a child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The time limit.
    pub(crate) time: Duration,
    /// The limit of processor time, in whole seconds, which does not depend on what else the
    /// machine does; `None` for no other than `time`.
    pub(crate) processor_seconds: Option<u64>,
    /// The largest size of its address space, in bytes; `None` leaves it unchanged.
    pub(crate) address_space: Option<u64>,
}

/// A running child.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    answer: OwnedFd,
    deadline: Instant,
}

impl Child {
    /// Starts `work` in a child: without core dumps, with `/dev/null` as its standard streams and
    /// nothing else open; it is killed with its parent.
    ///
    /// No other thread should be inside code that holds locks which `work` takes; otherwise the
    /// child hangs and is killed.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub(crate) fn begin(bounds: Bounds, work: impl FnOnce() -> Vec<u8>) -> io::Result<Self> {
        let (answer, told) = pipe2(OFlag::O_CLOEXEC)?;
        // SAFETY: the child does not return from here: it only runs `work`, and ends. It has one
        // thread. The allocator is usable in it (the C library sees to that), and a lock that
        // another thread held can make it wait until its time is up, but nothing worse.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => {
                Ok(Self { pid: child, answer, deadline: Instant::now() + bounds.time })
            }
            ForkResult::Child => {
                let done = catch_unwind(AssertUnwindSafe(|| {
                    let confined = keep_only(&told).and_then(|told| confine(bounds).map(|()| told));
                    let Ok(told) = confined else { return UNCONFINED };
                    // SAFETY: it stays open until the process ends.
                    let told = unsafe { BorrowedFd::borrow_raw(told) };
                    c_int::from(say(told, &work()).is_err())
                }));
                // SAFETY: ends the process without running its exit handlers.
                unsafe { libc::_exit(done.unwrap_or(1)) }
            }
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub(crate) fn end(self) -> io::Result<Ending> {
        let mut said = Vec::new();
        let heard = self.listen(&mut said);
        if !matches!(heard, Ok(true)) {
            // It may have ended by itself meanwhile, and nothing else has waited for it.
            let _ = kill(self.pid, Signal::SIGKILL);
        }
        let ended = loop {
            match waitpid(self.pid, None) {
                Err(Errno::EINTR) => {}
                ended => break ended,
            }
        };
        Ok(match (heard?, ended) {
            (false, _) => Ending::Hung,
            (true, _) if !said.is_empty() => Ending::Told(said),
            (true, Ok(WaitStatus::Signaled(_, Signal::SIGXCPU, _))) => Ending::Hung,
            (true, Ok(WaitStatus::Signaled(_, signal, _))) => {
                Ending::Died(format!("was killed by {signal}"))
            }
            (true, Ok(WaitStatus::Exited(_, UNCONFINED))) => {
                return Err(io::Error::other("a process to read it cannot be confined"));
            }
            (true, Ok(WaitStatus::Exited(_, code))) => Ending::Died(format!("ended with {code}")),
            (true, _) => Ending::Died("ended".to_owned()),
        })
    }

    /// Reads its answer until it ends; `false` if the time limit comes first.
    fn listen(&self, said: &mut Vec<u8>) -> io::Result<bool> {
        let mut buffer = [0; 512];
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            // Rounded up, so as not to spin through the last millisecond.
            let millis = PollTimeout::try_from(left.as_millis() as u64 + 1);
            let mut answer = [PollFd::new(self.answer.as_fd(), PollFlags::POLLIN)];
            match poll(&mut answer, millis.unwrap_or(PollTimeout::MAX)) {
                Ok(0) | Err(Errno::EINTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            match nix::unistd::read(&self.answer, &mut buffer) {
                Ok(0) => return Ok(true),
                Ok(len) => said.extend_from_slice(&buffer[..len]),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Closes all descriptors of this process, a child, except `told` and the standard streams: a lock
/// or a pipe end that another thread of the parent closes must not stay open in the child. Returns
/// the number of `told`. On Linux before 5.9 the others stay open.
fn keep_only(told: &OwnedFd) -> nix::Result<RawFd> {
    let mut kept = told.as_raw_fd();
    if kept < BEYOND_STREAMS {
        kept = fcntl(told, FcntlArg::F_DUPFD_CLOEXEC(BEYOND_STREAMS))?;
    }
    for (first, last) in [(BEYOND_STREAMS, kept - 1), (kept + 1, RawFd::MAX)] {
        if first <= last {
            let (first, last, flags): (c_uint, c_uint, c_uint) = (first as _, last as _, 0);
            // SAFETY: these belong to the parent: the child uses none of them, and ends without
            // dropping their owners.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
        }
    }
    Ok(kept)
}

/// Confines this process, a child, to its purpose.
fn confine(bounds: Bounds) -> nix::Result<()> {
    use nix::sys::prctl::{set_dumpable, set_pdeathsig};
    use nix::unistd::{alarm, dup2_stderr, dup2_stdin, dup2_stdout};
    set_pdeathsig(Signal::SIGKILL)?;
    set_dumpable(false)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    for ignored in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP, Signal::SIGTERM] {
        // SAFETY: ignoring a signal runs no handler.
        unsafe { signal(ignored, SigHandler::SigIgn) }?;
    }
    for usual in [Signal::SIGALRM, Signal::SIGXCPU] {
        // SAFETY: the usual action runs no handler.
        unsafe { signal(usual, SigHandler::SigDfl) }?;
    }
    if let Some(seconds) = bounds.processor_seconds {
        let (_, most) = getrlimit(Resource::RLIMIT_CPU)?;
        setrlimit(Resource::RLIMIT_CPU, seconds.min(most), (seconds + 1).min(most))?;
    }
    // In case its parent ended before the request for its death signal.
    alarm::set(bounds.time.as_secs().try_into().unwrap_or(u32::MAX).saturating_add(2));
    let null = nix::fcntl::open("/dev/null", OFlag::O_RDWR, nix::sys::stat::Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    if let Some(bytes) = bounds.address_space {
        // The parent may already have a lower limit.
        let (_, most) = getrlimit(Resource::RLIMIT_AS)?;
        let bytes = bytes.min(most);
        setrlimit(Resource::RLIMIT_AS, bytes, bytes)?;
    }
    Ok(())
}

fn say(told: BorrowedFd<'_>, mut answer: &[u8]) -> nix::Result<()> {
    while !answer.is_empty() {
        answer = &answer[nix::unistd::write(told, answer)?..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(time: Duration, work: impl FnOnce() -> Vec<u8>, expected: &Ending) {
        let bounds = Bounds { time, processor_seconds: None, address_space: None };
        assert_eq!(&Child::begin(bounds, work).unwrap().end().unwrap(), expected);
    }

    #[test]
    fn every_end_is_told() {
        let long = Duration::from_secs(600);
        check(long, || b"fine".to_vec(), &Ending::Told(b"fine".to_vec()));
        check(long, || vec![7; 300_000], &Ending::Told(vec![7; 300_000]));
        check(long, || std::process::abort(), &Ending::Died("was killed by SIGABRT".to_owned()));
        check(long, || std::process::exit(9), &Ending::Died("ended with 9".to_owned()));
        check(long, || panic!("a panic"), &Ending::Died("ended with 1".to_owned()));
        let sleep = || {
            std::thread::sleep(Duration::from_secs(3_600));
            Vec::new()
        };
        check(Duration::from_millis(50), sleep, &Ending::Hung);
    }

    #[test]
    fn a_child_that_computes_for_ever_is_ended() {
        let (time, processor_seconds) = (Duration::from_secs(600), Some(1));
        let bounds = Bounds { time, processor_seconds, address_space: None };
        let child = Child::begin(bounds, || {
            loop {
                std::hint::spin_loop()
            }
        })
        .unwrap();
        assert_eq!(child.end().unwrap(), Ending::Hung);
    }

    #[test]
    fn a_child_holds_nothing_that_its_parent_has_open() {
        let (pipe, _end) = io::pipe().unwrap();
        let number = pipe.as_raw_fd();
        // SAFETY: asks about a number.
        let is_open = move || unsafe { libc::fcntl(number, libc::F_GETFD) } != -1;
        assert!(is_open());
        check(Duration::from_secs(600), move || vec![u8::from(is_open())], &Ending::Told(vec![0]));
    }

    #[test]
    fn a_child_is_confined_where_less_memory_is_allowed_than_it_is_given() {
        let time = Duration::from_secs(600);
        let work = move || {
            setrlimit(Resource::RLIMIT_AS, 1 << 40, 1 << 40).unwrap();
            confine(Bounds { time, processor_seconds: None, address_space: Some(1 << 41) })
                .unwrap();
            getrlimit(Resource::RLIMIT_AS).unwrap().1.to_le_bytes().to_vec()
        };
        check(time, work, &Ending::Told((1_u64 << 40).to_le_bytes().to_vec()));
    }

    #[test]
    fn a_child_that_cannot_be_confined_is_no_answer() {
        let work = || std::process::exit(UNCONFINED);
        let bounds =
            Bounds { time: Duration::from_secs(600), processor_seconds: None, address_space: None };
        assert!(Child::begin(bounds, work).unwrap().end().is_err());
    }

    #[test]
    fn a_child_has_no_more_memory_than_it_is_given() {
        let bounds = Bounds {
            time: Duration::from_secs(600),
            processor_seconds: None,
            address_space: Some(1 << 40),
        };
        let work = || {
            let mut large = Vec::<u8>::new();
            vec![u8::from(large.try_reserve_exact(1 << 40).is_ok())]
        };
        let child = Child::begin(bounds, work).unwrap();
        assert_eq!(child.end().unwrap(), Ending::Told(vec![0]));
    }
}

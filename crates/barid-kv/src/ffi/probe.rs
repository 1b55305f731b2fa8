//! Work that may crash or hang, run in a child process.

#![expect(unsafe_code, reason = "fork and what a child does with itself")]

use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, fcntl_dupfd_cloexec, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getrlimit,
    kill_process, set_dumpable_behavior, set_parent_process_death_signal, setrlimit, waitpid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

/// The exit code of a child that could not be confined.
const UNCONFINED: c_int = 113;
/// The first descriptor after the standard streams.
const BEYOND_STREAMS: RawFd = 3;

/// The end of a child.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It sent this answer.
    Answered(Vec<u8>),
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
        let (answer, answer_end) = pipe_with(PipeFlags::CLOEXEC)?;
        // The C library's call, since `rustix` does not run its handlers of a fork.
        // SAFETY: the child does not return from here: it only runs `work`, and ends. It has one
        // thread. The allocator is usable in it (the C library sees to that), and a lock that
        // another thread held can make it wait until its time is up, but nothing worse.
        match unsafe { libc::fork() } {
            0 => {
                let done = catch_unwind(AssertUnwindSafe(|| {
                    let confined = keep_only(&answer_end)
                        .and_then(|answer_end| confine(bounds).map(|()| answer_end));
                    let Ok(answer_end) = confined else { return UNCONFINED };
                    // SAFETY: it stays open until the process ends.
                    let answer_end = unsafe { BorrowedFd::borrow_raw(answer_end) };
                    c_int::from(write_answer(answer_end, &work()).is_err())
                }));
                // SAFETY: ends the process without running its exit handlers.
                unsafe { libc::_exit(done.unwrap_or(1)) }
            }
            child => {
                let pid = Pid::from_raw(child.max(0)).ok_or_else(io::Error::last_os_error)?;
                Ok(Self { pid, answer, deadline: Instant::now() + bounds.time })
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
            let _ = kill_process(self.pid, Signal::KILL);
        }
        let ended = retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty()));
        let status = ended.ok().flatten().map(|(_, status)| status);
        let signal = status.and_then(WaitStatus::terminating_signal);
        let code = status.and_then(WaitStatus::exit_status);
        Ok(match (heard?, signal, code) {
            (false, ..) => Ending::Hung,
            _ if !said.is_empty() => Ending::Answered(said),
            (_, Some(signal), _) if signal == Signal::XCPU.as_raw() => Ending::Hung,
            (_, Some(signal), _) => Ending::Died(format!("was killed by {}", name_of(signal))),
            (.., Some(UNCONFINED)) => {
                return Err(io::Error::other("a process to read it cannot be confined"));
            }
            (.., Some(code)) => Ending::Died(format!("ended with {code}")),
            _ => Ending::Died("ended".to_owned()),
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
            let left = Timespec::try_from(left).ok();
            let mut answer = [PollFd::new(&self.answer, PollFlags::IN)];
            match poll(&mut answer, left.as_ref()) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            match retry_on_intr(|| rustix::io::read(&self.answer, &mut buffer))? {
                0 => return Ok(true),
                len => said.extend_from_slice(&buffer[..len]),
            }
        }
    }
}

/// Returns the name of a signal that ends a process by an error of its code or by a limit.
fn name_of(signal: c_int) -> String {
    let names = [
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::ILL, "SIGILL"),
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::SYS, "SIGSYS"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XFSZ, "SIGXFSZ"),
    ];
    let found = names.iter().find(|(named, _)| named.as_raw() == signal);
    found.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

/// Closes all descriptors of this process, a child, except `answer_end` and the standard streams: a
/// lock or a pipe end that another thread of the parent closes must not stay open in the child.
/// Returns the number of `answer_end`. On Linux before 5.9 the others stay open.
fn keep_only(answer_end: &OwnedFd) -> io::Result<RawFd> {
    let mut kept = answer_end.as_raw_fd();
    if kept < BEYOND_STREAMS {
        kept = fcntl_dupfd_cloexec(answer_end, BEYOND_STREAMS)?.into_raw_fd();
    }
    for (first, last) in [(BEYOND_STREAMS, kept - 1), (kept + 1, RawFd::MAX)] {
        if first <= last {
            let (first, last, flags): (c_uint, c_uint, c_uint) = (first as _, last as _, 0);
            // A call that `rustix` does not have.
            // SAFETY: these belong to the parent: the child uses none of them, and ends without
            // dropping their owners.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
        }
    }
    Ok(kept)
}

/// Confines this process, a child, to its purpose.
fn confine(bounds: Bounds) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    limit(Resource::Core, 0, 0)?;
    for ignored in [Signal::INT, Signal::QUIT, Signal::HUP, Signal::TERM] {
        act(ignored, libc::SIG_IGN)?;
    }
    for usual in [Signal::ALARM, Signal::XCPU] {
        act(usual, libc::SIG_DFL)?;
    }
    if let Some(seconds) = bounds.processor_seconds {
        limit(Resource::Cpu, seconds, seconds + 1)?;
    }
    // In case its parent ended before the request for its death signal.
    let seconds = bounds.time.as_secs().try_into().unwrap_or(u32::MAX).saturating_add(2);
    // SAFETY: a timer of this process, a call that `rustix` does not have.
    unsafe { libc::alarm(seconds) };
    let null = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    if let Some(bytes) = bounds.address_space {
        limit(Resource::As, bytes, bytes)?;
    }
    Ok(())
}

/// Sets both limits of a resource, within the limit that this process has already.
fn limit(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let (current, maximum) = (Some(current.min(most)), Some(maximum.min(most)));
    Ok(setrlimit(resource, Rlimit { current, maximum })?)
}

/// Sets the action of a signal to one that runs no handler; a call that `rustix` does not have.
fn act(signal: Signal, action: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: ignoring a signal and its usual action run no code of this program.
    match unsafe { libc::signal(signal.as_raw(), action) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn write_answer(answer_end: BorrowedFd<'_>, mut answer: &[u8]) -> rustix::io::Result<()> {
    while !answer.is_empty() {
        answer = &answer[rustix::io::write(answer_end, answer)?..];
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
        check(long, || b"fine".to_vec(), &Ending::Answered(b"fine".to_vec()));
        check(long, || vec![7; 300_000], &Ending::Answered(vec![7; 300_000]));
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
        check(
            Duration::from_secs(600),
            move || vec![u8::from(is_open())],
            &Ending::Answered(vec![0]),
        );
    }

    #[test]
    fn a_child_is_confined_where_less_memory_is_allowed_than_it_is_given() {
        let time = Duration::from_secs(600);
        let work = move || {
            limit(Resource::As, 1 << 40, 1 << 40).unwrap();
            confine(Bounds { time, processor_seconds: None, address_space: Some(1 << 41) })
                .unwrap();
            getrlimit(Resource::As).maximum.unwrap().to_le_bytes().to_vec()
        };
        check(time, work, &Ending::Answered((1_u64 << 40).to_le_bytes().to_vec()));
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
        assert_eq!(child.end().unwrap(), Ending::Answered(vec![0]));
    }
}

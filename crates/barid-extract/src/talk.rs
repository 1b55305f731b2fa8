//! Talking with a helper: input, output and messages at once, within a time.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::Failure;
use crate::limits::{PIPE_PIECE_LEN, REASON_LEN_MAX, STOP_INTERVAL, TEXT_LEN_MAX};

/// A running helper, killed by its process id when this is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if it has ended, which is as well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The answer of a helper.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Bytes of its standard output.
    pub(crate) output: Vec<u8>,
    /// The beginning of its standard error.
    pub(crate) messages: Vec<u8>,
    /// Its end; `None` if it was ended because it wrote more than a text may have.
    pub(crate) status: Option<ExitStatus>,
}

impl Running {
    /// Sends `input` and receives the answer, within a time.
    ///
    /// # Errors
    /// [`Failure::TimeOver`], [`Failure::Stopped`] once `stop` is `true`; [`Failure::NotStarted`]
    /// for errors of pipes. The helper is killed then.
    pub(crate) fn talk(
        mut self,
        input: &[u8],
        time_max: Duration,
        stop: Option<&AtomicBool>,
    ) -> Result<Answer, Failure> {
        let deadline = Instant::now() + time_max;
        let pipes = (self.0.stdin.take(), self.0.stdout.take(), self.0.stderr.take());
        let (Some(to), Some(from), Some(messages)) = pipes else {
            return Err(Failure::NotStarted);
        };
        let (mut to, mut from, mut messages) = (Some(to), Some(from), Some(messages));
        let (mut rest, mut buffer) = (input, vec![0; PIPE_PIECE_LEN]);
        let mut answer = Answer { output: Vec::new(), messages: Vec::new(), status: None };
        for pipe in [to.as_ref().map(AsFd::as_fd), from.as_ref().map(AsFd::as_fd)] {
            unblock(pipe)?;
        }
        unblock(messages.as_ref().map(AsFd::as_fd))?;
        while from.is_some() || messages.is_some() {
            wait(
                [to.as_ref().map(AsFd::as_fd), from.as_ref().map(AsFd::as_fd)],
                messages.as_ref().map(AsFd::as_fd),
                remaining(deadline, stop)?,
            )?;
            send(&mut to, &mut rest);
            receive(&mut from, &mut answer.output, TEXT_LEN_MAX + 1, &mut buffer);
            receive(&mut messages, &mut answer.messages, REASON_LEN_MAX, &mut buffer);
            if answer.output.len() > TEXT_LEN_MAX {
                return Ok(answer);
            }
        }
        drop(to);
        answer.status = Some(self.end(deadline, stop)?);
        Ok(answer)
    }

    /// Waits for the end of the helper, which has closed its output.
    fn end(&mut self, deadline: Instant, stop: Option<&AtomicBool>) -> Result<ExitStatus, Failure> {
        // It ends at once, unless it hangs on purpose.
        let mut pause = Duration::from_micros(50);
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(_) => return Err(Failure::Crashed),
            }
            let left = remaining(deadline, stop)?;
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(STOP_INTERVAL);
        }
    }
}

/// Returns the time to the deadline.
fn remaining(deadline: Instant, stop: Option<&AtomicBool>) -> Result<Duration, Failure> {
    if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
        return Err(Failure::Stopped);
    }
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Failure::TimeOver) } else { Ok(left) }
}

type Pipe<'p> = Option<std::os::fd::BorrowedFd<'p>>;

fn unblock(pipe: Pipe<'_>) -> Result<(), Failure> {
    let Some(pipe) = pipe else { return Ok(()) };
    rustix::io::ioctl_fionbio(pipe, true).map_err(|_| Failure::NotStarted)
}

/// Waits until a pipe is ready, or the caller should look at the time.
fn wait([to, from]: [Pipe<'_>; 2], messages: Pipe<'_>, left: Duration) -> Result<(), Failure> {
    let mut pipes = Vec::with_capacity(3);
    pipes.extend(to.map(|to| PollFd::from_borrowed_fd(to, PollFlags::OUT)));
    let sources = [from, messages].into_iter().flatten();
    pipes.extend(sources.map(|from| PollFd::from_borrowed_fd(from, PollFlags::IN)));
    let left = left.min(STOP_INTERVAL);
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
    match poll(&mut pipes, Some(&time)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(_) => Err(Failure::NotStarted),
    }
}

/// Writes as much as fits, and closes the pipe after the last byte. A helper that has closed its
/// end needs no more.
fn send<W: Write>(pipe: &mut Option<W>, rest: &mut &[u8]) {
    let Some(to) = pipe else { return };
    while !rest.is_empty() {
        match to.write(&rest[..rest.len().min(PIPE_PIECE_LEN)]) {
            Ok(len) => *rest = &rest[len..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    *pipe = None;
}

/// Reads all that is there, of which the first `len_max` bytes are kept; closes the pipe at its
/// end.
fn receive<R: Read>(pipe: &mut Option<R>, kept: &mut Vec<u8>, len_max: usize, buffer: &mut [u8]) {
    let Some(from) = pipe else { return };
    // Not until the pipe is empty: a helper could fill it for ever.
    match from.read(buffer) {
        Ok(0) => *pipe = None,
        Ok(len) => {
            let room = len_max.saturating_sub(kept.len());
            kept.extend_from_slice(&buffer[..len.min(room)]);
        }
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
        Err(_) => *pipe = None,
    }
}

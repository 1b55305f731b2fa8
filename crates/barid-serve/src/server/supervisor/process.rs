//! Processes that the supervisor starts.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::pipe::PipeFlags;

use crate::limits::{RESTART_DELAY, RESTART_FORGET};
use crate::server::link::{Link, QueuedLink};

/// The part of a process in the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Role {
    Front,
    Auth,
    Pam,
    Lmtp,
    Delivery,
    Watcher,
    Worker,
}

impl Role {
    pub(in crate::server) const fn name(self) -> &'static str {
        match self {
            Self::Front => "front",
            Self::Auth => "auth",
            Self::Pam => "pam",
            Self::Lmtp => "lmtp",
            Self::Delivery => "delivery",
            Self::Watcher => "watcher",
            Self::Worker => "worker",
        }
    }
}

/// The user and group of a process; `None` for those of the supervisor.
pub(super) type Account = Option<(u32, u32)>;

/// A process with the link to it.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) link: QueuedLink,
    pub(super) token: u64,
    pub(super) started: Instant,
    /// Standard error of the process, until it is watched.
    pub(super) stderr: Option<OwnedFd>,
    child: Child,
}

impl Process {
    /// Starts a process.
    ///
    /// # Errors
    /// Errors of the system.
    pub(super) fn start(role: Role, account: Account, token: u64) -> io::Result<Self> {
        let (here, there) = Link::pair()?;
        let (child, stderr) = spawn(role, account, there)?;
        let (link, stderr) = (QueuedLink::new(here), Some(stderr));
        Ok(Self { link, token, started: Instant::now(), stderr, child })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn socket(&self) -> impl AsFd + '_ {
        self.link.link()
    }

    /// Gives up the link; a process that has not ended after `time` is killed.
    pub(super) fn end(self, name: String, is_expected: bool, time: Duration) -> Ending {
        let deadline = Instant::now() + time;
        Ending { child: self.child, name, recipient: None, is_expected, deadline }
    }
}

/// Starts a process with one end of a link; returns it with its standard error, which does not
/// block.
///
/// # Errors
/// Errors of the system.
pub(super) fn spawn(role: Role, account: Account, link: OwnedFd) -> io::Result<(Child, OwnedFd)> {
    let (stderr, of_child) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&stderr, OFlags::NONBLOCK)?;
    // The program that runs, also if another one stands in its place by now.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("barid").args(["serve", "--role", role.name()]).env_clear().current_dir("/");
    command.stdin(Stdio::from(link)).stdout(Stdio::null()).stderr(Stdio::from(of_child));
    if let Some((uid, gid)) = account {
        // Supplementary groups of root are dropped with it.
        command.uid(uid).gid(gid);
    }
    Ok((command.spawn()?, stderr))
}

/// A process that is about to end.
#[derive(Debug)]
pub(super) struct Ending {
    child: Child,
    pub(super) name: String,
    /// The user to whom it delivers; `None` if it is not a delivery.
    pub(super) recipient: Option<String>,
    /// `true` if the supervisor wants it.
    pub(super) is_expected: bool,
    deadline: Instant,
}

impl Ending {
    /// Creates the end of a process that is given a time.
    pub(super) fn new(child: Child, name: String, time: Duration) -> Self {
        let deadline = Instant::now() + time;
        Self { child, name, recipient: None, is_expected: true, deadline }
    }

    /// Creates the end of a process that delivers to a user.
    pub(super) fn of_delivery(child: Child, user: &str, time: Duration) -> Self {
        let name = Role::Delivery.name().to_owned();
        Self { recipient: Some(user.to_owned()), ..Self::new(child, name, time) }
    }

    /// Brings the end of its time forward.
    pub(super) fn end_by(&mut self, deadline: Instant) {
        self.deadline = self.deadline.min(deadline);
    }

    /// Returns the status of a process that has ended, and kills one whose time is up.
    pub(super) fn check(&mut self) -> Option<ExitStatus> {
        match self.child.try_wait() {
            Ok(Some(status)) => Some(status),
            Ok(None) | Err(_) => {
                if self.deadline <= Instant::now() {
                    // It may have ended just now.
                    let _ = self.child.kill();
                }
                None
            }
        }
    }
}

/// The time at which a process that has died is started again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restarts {
    delay: Duration,
    last: Option<Instant>,
    /// The start of the next one.
    pub(super) next: Option<Instant>,
}

impl Restarts {
    /// Counts a death: the first costs nothing, further ones twice as long each time, up to
    /// `longest`.
    pub(super) fn died(&mut self, now: Instant, longest: Duration) {
        let is_repeated = self.last.is_some_and(|last| now.duration_since(last) < RESTART_FORGET);
        self.delay = match (is_repeated, self.delay) {
            (false, _) => Duration::ZERO,
            (true, Duration::ZERO) => RESTART_DELAY.min(longest),
            (true, delay) => (delay * 2).min(longest),
        };
        self.last = Some(now);
        self.next = Some(now + self.delay);
    }

    /// Returns `true` if nothing is to be waited for.
    pub(super) fn may_start(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    /// Returns `true` once all deaths are forgotten.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| now.duration_since(last) >= RESTART_FORGET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_deaths_are_delayed() {
        let (mut restarts, start) = (Restarts::default(), Instant::now());
        let mut delays = Vec::new();
        for second in 0..9 {
            let now = start + Duration::from_secs(second);
            restarts.died(now, Duration::from_secs(10));
            delays.push((restarts.next.unwrap() - now).as_millis());
        }
        assert_eq!(delays, [0, 250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
        let later = start + Duration::from_secs(100);
        assert!(restarts.is_over(later));
        restarts.died(later, Duration::ZERO);
        assert!(restarts.may_start(later));
        restarts.died(later, Duration::ZERO);
        assert!(restarts.may_start(later));
    }
}

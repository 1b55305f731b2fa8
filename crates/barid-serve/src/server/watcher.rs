//! The watcher of a uid: one inotify instance for the workers of all users who have this uid.
//!
//! The system gives a uid few instances and many watches, and virtual users may be a thousand of
//! one uid. A worker sends what it wants to watch as an open descriptor, so that the watcher needs
//! no file, and a worker can watch only what it can open.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::Duration;

use barid::vfs::WATCHED_EVENTS;
use rustix::event::{Timespec, epoll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::confine::{self, Network};
use super::link::{Link, Polled};
use super::messages::{FromWatcher, Level, LogLine, ToWatcher, WatchAnswer, WatchOrder};
use super::system_calls;
use crate::limits::{WATCH_ANSWER_LEN, WATCH_ANSWERS_MAX, WATCH_RETRY, WATCHES_MAX};

/// Tokens of the event loop; links to workers have higher ones.
const SUPERVISOR: u64 = 0;
const EVENTS: u64 = 1;
const FIRST_WORKER: u64 = 2;

/// A worker, and what it watches.
struct Watching {
    link: Link,
    /// The number of the worker; each has one link.
    worker: u64,
    watches: BTreeSet<i32>,
    /// Answers that it has not taken yet.
    answers: VecDeque<WatchAnswer>,
    /// Events that it has not taken yet; bounded by its watches.
    happened: BTreeSet<i32>,
    /// `true` if any of its files may have changed.
    has_lost: bool,
}

struct Watcher {
    supervisor: Link,
    inotify: OwnedFd,
    epoll: OwnedFd,
    workers: BTreeMap<u64, Watching>,
    /// The workers that watch a file or folder.
    about: HashMap<i32, BTreeSet<u64>>,
    last: u64,
}

/// Runs the watcher until the supervisor ends it.
///
/// # Errors
/// Errors of the link; no inotify instance.
pub(super) fn run_watcher(supervisor: Link) -> io::Result<()> {
    confine::forget_core()?;
    confine::end_with_supervisor()?;
    confine::raise_descriptors();
    let warn =
        |text: String| supervisor.send(&FromWatcher::Log(LogLine::new(Level::Warning, text)), None);
    if let Some(why) = confine::files(&[], Vec::new(), Network::None) {
        warn(format!("the watcher is not confined by Landlock: {why}"))?;
    }
    system_calls::allow_network_and_watches()?;
    let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    Watcher::new(supervisor, inotify, epoll)?.run()
}

impl Watcher {
    fn new(supervisor: Link, inotify: OwnedFd, epoll: OwnedFd) -> io::Result<Self> {
        let watch = |fd, token| {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
        };
        watch(supervisor.as_fd(), SUPERVISOR)?;
        watch(inotify.as_fd(), EVENTS)?;
        let (workers, about, last) = (BTreeMap::new(), HashMap::new(), FIRST_WORKER);
        Ok(Self { supervisor, inotify, epoll, workers, about, last })
    }

    fn run(mut self) -> io::Result<()> {
        loop {
            let has_unsent = self.workers.values().any(Watching::has_unsent);
            let timeout = has_unsent.then_some(WATCH_RETRY);
            let timeout = timeout.and_then(|time: Duration| Timespec::try_from(time).ok());
            let mut events = Vec::with_capacity(64);
            let space = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, space, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let data = event.data;
                match data.u64() {
                    SUPERVISOR => {
                        if !self.hear_supervisor()? {
                            return Ok(());
                        }
                    }
                    EVENTS => self.read_events()?,
                    worker => self.hear_worker(worker),
                }
            }
            self.send_events();
        }
    }

    /// Handles a message of the supervisor; `false` at its end.
    fn hear_supervisor(&mut self) -> io::Result<bool> {
        match self.supervisor.poll::<ToWatcher>()? {
            Polled::End => return Ok(false),
            Polled::Message((ToWatcher::Worker { number }, Some(fd))) => {
                self.begin(number, Link::from(fd))?;
            }
            // The worker sees the end of its link, and asks for another.
            Polled::Message((ToWatcher::Worker { .. }, None)) | Polled::Nothing => {}
        }
        Ok(true)
    }

    /// Begins the link to a worker, which replaces its previous one.
    fn begin(&mut self, worker: u64, link: Link) -> io::Result<()> {
        let before = self.workers.iter().find(|(_, one)| one.worker == worker);
        if let Some(token) = before.map(|(token, _)| *token) {
            self.end(token);
        }
        self.last += 1;
        let data = epoll::EventData::new_u64(self.last);
        epoll::add(&self.epoll, &link, data, epoll::EventFlags::IN)?;
        let (watches, happened) = (BTreeSet::new(), BTreeSet::new());
        let (answers, has_lost) = (VecDeque::new(), false);
        let watching = Watching { link, worker, watches, answers, happened, has_lost };
        self.workers.insert(self.last, watching);
        Ok(())
    }

    fn hear_worker(&mut self, token: u64) {
        let Some(worker) = self.workers.get(&token) else { return };
        match worker.link.poll::<WatchOrder>() {
            Ok(Polled::Nothing) => {}
            Ok(Polled::Message((WatchOrder::Add, fd))) => {
                let answer = match self.add(token, fd) {
                    Ok(watch) => WatchAnswer::Added { watch },
                    Err(error) => WatchAnswer::Failed { error: error.raw_os_error() },
                };
                let Some(worker) = self.workers.get_mut(&token) else { return };
                worker.answers.push_back(answer);
                // One that does not wait for its answers is not a worker.
                if worker.answers.len() > WATCH_ANSWERS_MAX {
                    self.end(token);
                }
            }
            Ok(Polled::Message((WatchOrder::Remove { watch }, _))) => {
                if let Some(worker) = self.workers.get_mut(&token)
                    && worker.watches.remove(&watch)
                {
                    self.forget(watch, token);
                }
            }
            Ok(Polled::End) | Err(_) => self.end(token),
        }
    }

    fn add(&mut self, token: u64, fd: Option<OwnedFd>) -> Result<i32, Errno> {
        let fd = fd.ok_or(Errno::MFILE)?;
        let worker = self.workers.get_mut(&token).ok_or(Errno::BADF)?;
        if worker.watches.len() >= WATCHES_MAX {
            return Err(Errno::NOSPC);
        }
        // Such a descriptor proves no right to read: Landlock does not check its opening.
        if rustix::fs::fcntl_getfl(&fd)?.contains(rustix::fs::OFlags::PATH) {
            return Err(Errno::ACCESS);
        }
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let flags = WatchFlags::from_bits_retain(WATCHED_EVENTS);
        let watch = inotify::add_watch(&self.inotify, path, flags)?;
        worker.watches.insert(watch);
        self.about.entry(watch).or_default().insert(token);
        Ok(watch)
    }

    /// Forgets that a worker watches something; what nobody watches is not watched any longer.
    fn forget(&mut self, watch: i32, token: u64) {
        let Some(workers) = self.about.get_mut(&watch) else { return };
        workers.remove(&token);
        if workers.is_empty() {
            self.about.remove(&watch);
            // Fails only if the file is gone, and the watch with it.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
    }

    fn end(&mut self, token: u64) {
        if let Some(worker) = self.workers.remove(&token) {
            for watch in worker.watches {
                self.forget(watch, token);
            }
        }
    }

    fn read_events(&mut self) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut gone = Vec::new();
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                self.workers.values_mut().for_each(|worker| worker.has_lost = true);
                continue;
            }
            let watch = event.wd();
            for token in self.about.get(&watch).into_iter().flatten() {
                if let Some(worker) = self.workers.get_mut(token) {
                    worker.happened.insert(watch);
                }
            }
            if event.events().contains(ReadFlags::IGNORED) {
                gone.push(watch);
            }
        }
        // The file does not exist any more, and its number is not used again.
        for watch in gone {
            for token in self.about.remove(&watch).into_iter().flatten() {
                if let Some(worker) = self.workers.get_mut(&token) {
                    worker.watches.remove(&watch);
                }
            }
        }
        Ok(())
    }

    /// Sends events to the workers that take them; the rest waits.
    fn send_events(&mut self) {
        let mut ended = Vec::new();
        for (token, worker) in &mut self.workers {
            if worker.send_events().is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
                ended.push(*token);
            }
        }
        for token in ended {
            self.end(token);
        }
    }
}

impl Watching {
    fn has_unsent(&self) -> bool {
        self.has_lost || !self.happened.is_empty() || !self.answers.is_empty()
    }

    fn send_events(&mut self) -> io::Result<()> {
        while let Some(answer) = self.answers.front() {
            self.link.try_send(answer)?;
            self.answers.pop_front();
        }
        if self.has_lost {
            self.link.try_send(&WatchAnswer::Lost)?;
            self.has_lost = false;
            self.happened.clear();
        }
        while !self.happened.is_empty() {
            let watches: Vec<i32> = self.happened.iter().copied().take(WATCH_ANSWER_LEN).collect();
            self.link.try_send(&WatchAnswer::Happened { watches: watches.clone() })?;
            for watch in &watches {
                self.happened.remove(watch);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_one_link() {
        let (supervisor, end) = Link::pair().unwrap();
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let mut watcher = Watcher::new(Link::from(end), inotify, epoll).unwrap();
        let mut links = Vec::new();
        for number in [1, 2, 1, 1] {
            let (link, of_watcher) = Link::pair().unwrap();
            let message = ToWatcher::Worker { number };
            supervisor.send(&message, Some(of_watcher.as_fd())).unwrap();
            drop(of_watcher);
            assert!(watcher.hear_supervisor().unwrap());
            links.push(link);
        }
        let has_ended =
            |link: &Link| matches!(link.poll::<WatchAnswer>(), Ok(Polled::End) | Err(_));
        assert_eq!(links.iter().map(has_ended).collect::<Vec<_>>(), [true, false, true, false]);
        assert_eq!(watcher.workers.len(), 2);
    }
}

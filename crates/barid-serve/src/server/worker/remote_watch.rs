//! A watch by the watcher process of the uid, in place of an inotify instance of the worker.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use barid::vfs::{Host as _, OsVfs, Watch, WatchId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::limits::WATCH_ANSWER_TIMEOUT;
use crate::server::link::{Link, Polled};
use crate::server::messages::{FromWorker, WatchAnswer, WatchOrder};

/// The place where the link to the next watcher process is put, with its number.
pub(super) type NextWatcher = Arc<Mutex<Option<(u64, Link)>>>;

/// A watch by another process. While there is none, nothing is reported; when there is another
/// one, everything may have changed.
#[derive(Debug)]
pub(super) struct RemoteWatch {
    next: NextWatcher,
    supervisor: Arc<Link>,
    link: Option<Link>,
    /// Number of the link, or of the last one.
    number: u64,
    /// Our numbers by those of the watcher, and the reverse. Ours are used once, whichever watcher
    /// there is.
    ours: HashMap<i32, WatchId>,
    theirs: HashMap<WatchId, i32>,
    last: i32,
    /// Events that arrived while an answer was waited for.
    happened: Vec<WatchId>,
}

impl RemoteWatch {
    pub(super) fn new(next: NextWatcher, supervisor: Arc<Link>) -> Self {
        let (ours, theirs, happened) = (HashMap::new(), HashMap::new(), Vec::new());
        Self { next, supervisor, link: None, number: 0, ours, theirs, last: 0, happened }
    }

    /// Gives the watcher up, and asks the supervisor for a link to it, or to the next one.
    fn lose(&mut self) {
        if self.link.take().is_some() {
            // Without a supervisor the worker ends.
            let _ = self.supervisor.send(&FromWorker::WatcherLost { number: self.number }, None);
        }
    }

    /// Uses a new watcher, if there is one.
    fn renew(&mut self) {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((number, link)) = next {
            (self.link, self.number) = (Some(link), number);
            self.ours.clear();
            self.theirs.clear();
            // Whoever hears this adds his files again.
            self.happened = vec![WatchId::LOST];
        }
    }

    fn new_id(&mut self) -> WatchId {
        self.last += 1;
        WatchId::new(self.last)
    }

    /// Handles a message; returns the answer to [`WatchOrder::Add`], if it is one.
    fn hear(&mut self, answer: WatchAnswer) -> Option<io::Result<i32>> {
        match answer {
            WatchAnswer::Added { watch } => return Some(Ok(watch)),
            WatchAnswer::Failed { error } => {
                return Some(Err(io::Error::from_raw_os_error(error)));
            }
            WatchAnswer::Lost => self.happened.push(WatchId::LOST),
            WatchAnswer::Happened { watches } => {
                let ours = watches.iter().filter_map(|watch| self.ours.get(watch));
                self.happened.extend(ours);
            }
        }
        None
    }

    /// Asks the watcher; `None` if it does not answer, and is given up.
    fn ask(&mut self, path: &Path) -> io::Result<Option<i32>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        let Some(link) = &self.link else { return Ok(None) };
        if link.send(&WatchOrder::Add, Some(file.as_fd())).is_err() {
            self.lose();
            return Ok(None);
        }
        let start = Instant::now();
        while let Some(left) = WATCH_ANSWER_TIMEOUT.checked_sub(start.elapsed()) {
            let Some(answer) = self.receive(left) else { break };
            if let Some(answer) = answer.and_then(|answer| self.hear(answer)) {
                return answer.map(Some);
            }
        }
        self.lose();
        Ok(None)
    }

    /// Waits for a message; `None` if the watcher has ended, `Some(None)` if there is no message.
    fn receive(&mut self, timeout: Duration) -> Option<Option<WatchAnswer>> {
        let link = self.link.as_ref()?;
        let timeout = Timespec::try_from(timeout).ok()?;
        match poll(&mut [PollFd::new(link, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Some(None),
            Ok(_) => {}
            Err(_) => return None,
        }
        match link.poll::<WatchAnswer>() {
            Ok(Polled::Message((answer, _))) => Some(Some(answer)),
            Ok(Polled::Nothing) => Some(None),
            Ok(Polled::End) | Err(_) => None,
        }
    }
}

impl Watch for RemoteWatch {
    fn add(&mut self, path: &Path) -> io::Result<WatchId> {
        self.renew();
        let Some(theirs) = self.ask(path)? else { return Ok(self.new_id()) };
        if let Some(known) = self.ours.get(&theirs) {
            return Ok(*known);
        }
        let id = self.new_id();
        self.ours.insert(theirs, id);
        self.theirs.insert(id, theirs);
        Ok(id)
    }

    fn remove(&mut self, id: WatchId) {
        if let Some(watch) = self.theirs.remove(&id) {
            self.ours.remove(&watch);
            if let Some(link) = &self.link {
                // A watcher that has ended watches nothing.
                let _ = link.send(&WatchOrder::Remove { watch }, None);
            }
        }
    }

    fn wait(&mut self, timeout: Duration, happened: &mut Vec<WatchId>) -> io::Result<()> {
        self.renew();
        if self.link.is_none() && self.happened.is_empty() {
            OsVfs.sleep(timeout);
            self.renew();
        }
        let mut wait = if self.happened.is_empty() { timeout } else { Duration::ZERO };
        while self.link.is_some() {
            match self.receive(wait) {
                Some(Some(answer)) => drop(self.hear(answer)),
                Some(None) => break,
                None => self.lose(),
            }
            wait = Duration::ZERO;
        }
        happened.append(&mut self.happened);
        Ok(())
    }
}

//! Watching files and folders for changes, by inotify of Linux.

use std::fmt::Debug;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use crate::limits::{WATCH_BUFFER_LEN, WATCH_EVENTS_MAX};

/// The id of a watched file or folder. Two paths to the same file have the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(i32);

impl WatchId {
    /// Id reported when events were lost: any watched file may have changed.
    pub const LOST: Self = Self(-1);

    /// Creates an id for a watch of one's own, which is not that of [`Vfs`](crate::Vfs). Numbers
    /// are positive.
    pub fn new(number: i32) -> Self {
        Self(number)
    }
}

/// A watcher of changes of files and folders.
pub trait Watch: Debug + Send {
    /// Watches a file, or a folder and the files directly in it, for changes of content, names and
    /// attributes, until it is removed. To watch a path, add it again after every event: a new file
    /// there gets a new id, and an old one keeps its id.
    ///
    /// # Errors
    /// Errors of the system; `StorageFull` at the limit of watches per user.
    fn add(&mut self, path: &Path) -> io::Result<WatchId>;

    /// Stops watching; an id that is not watched is ignored.
    fn remove(&mut self, id: WatchId);

    /// Waits for events, at most for `timeout`, and appends the id of each to `happened`, possibly
    /// more than once. Returns early and without events if a signal arrives.
    ///
    /// # Errors
    /// Errors of the system.
    fn wait(&mut self, timeout: Duration, happened: &mut Vec<WatchId>) -> io::Result<()>;
}

/// An inotify instance.
#[derive(Debug)]
pub(crate) struct Inotify(OwnedFd);

/// The events of inotify that change a mailbox, as a mask for `inotify_add_watch`. Reads are not
/// among them, because the watcher itself reads.
pub const WATCHED_EVENTS: u32 = EVENTS.bits();

const EVENTS: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MOVE_SELF);

impl Inotify {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?))
    }
}

impl Watch for Inotify {
    fn add(&mut self, path: &Path) -> io::Result<WatchId> {
        Ok(WatchId(inotify::add_watch(&self.0, path, EVENTS)?))
    }

    fn remove(&mut self, id: WatchId) {
        // Fails only if the file is gone, and the watch with it.
        let _ = inotify::remove_watch(&self.0, id.0);
    }

    fn wait(&mut self, timeout: Duration, happened: &mut Vec<WatchId>) -> io::Result<()> {
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 60, tv_nsec: 0 });
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            result => result?,
        };
        let mut buffer = [MaybeUninit::uninit(); WATCH_BUFFER_LEN];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        for _ in 0..WATCH_EVENTS_MAX {
            let id = match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => WatchId::LOST,
                Ok(event) => WatchId(event.wd()),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            if happened.last() != Some(&id) {
                happened.push(id);
            }
        }
        // Events left in the buffer are lost with it.
        happened.push(WatchId::LOST);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpenOptions, OsVfs, Vfs};

    const SOON: Duration = Duration::from_secs(20);

    fn waited(watch: &mut dyn Watch, timeout: Duration) -> Vec<WatchId> {
        let mut happened = Vec::new();
        watch.wait(timeout, &mut happened).unwrap();
        happened.sort_unstable();
        happened.dedup();
        happened
    }

    #[test]
    fn what_happens_is_told_and_what_is_read_is_not() {
        let vfs = OsVfs;
        let dir = std::env::temp_dir().join(format!("barid-watch-{}", std::process::id()));
        vfs.create_dir(&dir, 0o700).unwrap();
        let (file, other) = (dir.join("file"), dir.join("other"));
        vfs.open(&file, OpenOptions::create_new(0o600)).unwrap();
        let mut watch = vfs.watch().unwrap();
        let of_file = watch.add(&file).unwrap();
        assert_eq!(watch.add(&file).unwrap(), of_file);
        assert_eq!(watch.add(&other).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(waited(&mut *watch, Duration::ZERO), []);
        vfs.read(&file, 9).unwrap();
        assert_eq!(waited(&mut *watch, Duration::ZERO), []);
        vfs.open(&file, OpenOptions::WRITE).unwrap().write_at(b"x", 0).unwrap();
        assert_eq!(waited(&mut *watch, SOON), [of_file]);
        let of_dir = watch.add(&dir).unwrap();
        vfs.open(&other, OpenOptions::create_new(0o600)).unwrap();
        assert_eq!(waited(&mut *watch, SOON), [of_dir]);
        vfs.rename(&other, &file).unwrap();
        assert_eq!(waited(&mut *watch, SOON), [of_file, of_dir]);
        assert_ne!(watch.add(&file).unwrap(), of_file, "another file stands there");
        vfs.remove_file(&file).unwrap();
        vfs.remove_dir(&dir).unwrap();
        assert!(!waited(&mut *watch, SOON).is_empty());
    }
}

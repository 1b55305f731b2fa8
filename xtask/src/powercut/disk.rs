//! Disks that record every write and flush: files of a FUSE file system served by this process, to
//! be attached to loop devices.
//!
//! The loop driver passes the writes of a block device to the file in order and answers each one
//! when the file has it; a flush becomes an fsync of the file. So requests arrive here in the order
//! of the device.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};

use super::image::{Event, Image};

/// Cache time of names and sizes of files, which never change.
const FOREVER: Duration = Duration::from_secs(1 << 20);
/// The inode of the root folder.
const ROOT: u64 = 1;

/// A disk in memory, with a log of its writes.
#[derive(Debug)]
struct Disk {
    image: Image,
    /// `None` if the disk is not logged.
    log: Option<Vec<Event>>,
}

/// The disks of a mounted file system, by their numbers, which are never reused.
#[derive(Debug, Default)]
struct Table {
    disks: HashMap<u64, Disk>,
    last: u64,
}

/// A folder in which each disk is a file.
#[derive(Debug)]
pub(crate) struct Disks {
    table: Arc<Mutex<Table>>,
    session: Option<BackgroundSession>,
}

impl Disks {
    /// Mounts the folder.
    pub(crate) fn mount(folder: &Path) -> io::Result<Self> {
        let table = Arc::new(Mutex::new(Table { disks: HashMap::new(), last: ROOT }));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("barid-disks".to_owned())];
        let session = fuser::spawn_mount(Server { table: Arc::clone(&table) }, folder, &config)?;
        Ok(Self { table, session: Some(session) })
    }

    /// Adds a disk and returns its number, which is the name of its file.
    pub(crate) fn add(&self, image: Image, is_logged: bool) -> u64 {
        let mut table = lock(&self.table);
        table.last += 1;
        let number = table.last;
        table.disks.insert(number, Disk { image, log: is_logged.then(Vec::new) });
        number
    }

    /// Returns the number of writes and flushes to a disk.
    pub(crate) fn position(&self, number: u64) -> usize {
        let table = lock(&self.table);
        table.disks.get(&number).and_then(|disk| disk.log.as_ref()).map_or(0, Vec::len)
    }

    /// Removes a disk; returns its contents and its log.
    pub(crate) fn take(&self, number: u64) -> Option<(Image, Vec<Event>)> {
        let disk = lock(&self.table).disks.remove(&number)?;
        Some((disk.image, disk.log.unwrap_or_default()))
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            // Remaining mounts end with the process's mount namespace.
            drop(session.umount_and_join());
        }
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().expect("because no holder of the lock panics")
}

/// The file system.
struct Server {
    table: Arc<Mutex<Table>>,
}

impl Server {
    fn attr(&self, inode: u64) -> Option<FileAttr> {
        let (kind, perm, size) = match inode {
            ROOT => (FileType::Directory, 0o700, 0),
            _ => (FileType::RegularFile, 0o600, lock(&self.table).disks.get(&inode)?.image.len()),
        };
        let epoch = SystemTime::UNIX_EPOCH;
        Some(FileAttr {
            ino: INodeNo(inode),
            size,
            blocks: size / 512,
            atime: epoch,
            mtime: epoch,
            ctime: epoch,
            crtime: epoch,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        })
    }
}

impl Filesystem for Server {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let inode = name.to_str().and_then(|name| name.parse().ok());
        match inode.filter(|_| u64::from(parent) == ROOT).and_then(|inode| self.attr(inode)) {
            Some(attr) => reply.entry(&FOREVER, &attr, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attr(u64::from(inode)) {
            Some(attr) => reply.attr(&FOREVER, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<fuser::TimeOrNow>,
        _: Option<fuser::TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.attr(u64::from(inode)) {
            Some(attr) => reply.attr(&FOREVER, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let table = lock(&self.table);
        match table.disks.get(&u64::from(inode)) {
            Some(disk) => reply.data(&disk.image.read(offset, size as usize)),
            None => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut table = lock(&self.table);
        let Some(disk) = table.disks.get_mut(&u64::from(inode)) else {
            return reply.error(Errno::EIO);
        };
        disk.image.write(offset, data);
        if let Some(log) = &mut disk.log {
            log.push(Event::Write { offset, bytes: data.into() });
        }
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let mut table = lock(&self.table);
        if let Some(log) = table.disks.get_mut(&u64::from(inode)).and_then(|d| d.log.as_mut()) {
            log.push(Event::Flush);
        }
        reply.ok();
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
}

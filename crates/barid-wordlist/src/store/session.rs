//! Read and write sessions, under our lock or under bogofilter's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_kv::{Choice, KvRead, KvWrite, Purpose, Reader, Store, Writer};
use barid_vfs::{File, LockError, LockKind, LockMode, OpenOptions, Timestamp, Vfs, lock_file};

use super::Sharing;
use super::record::Order;
use crate::error::At;
use crate::limits::LOCK_TIMEOUT;
use crate::{Error, Result, TokenEntry};

/// Name of the store whose files have the byte order of the machine that created them.
const BDB: &str = "bdb";
/// Byte offset of the magic number in a Berkeley DB file, which has the byte order of the file.
const BDB_MAGIC_OFFSET: u64 = 12;
/// The magic number in a big-endian file.
const BDB_MAGIC_BIG: [u8; 4] = [0, 5, 0x31, 0x62];
/// Name of the store that has its own locks, and a record that shows the byte order.
const SQLITE: &str = "sqlite";
/// The key of that record.
const ENDIAN: &[u8] = b".ENDIAN32";
/// The number that the record has twice.
const ENDIAN_NUMBER: u32 = 0x0102_0304;
/// Suffix of SQLite's write-ahead log beside a database.
const SQLITE_WAL: &str = "-wal";
/// Prefix of the log files beside a Berkeley DB file with transactions.
const BDB_LOG: &[u8] = b"log.";

/// A list and its owner, byte order and store.
#[derive(Debug)]
pub(super) struct ListStore {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) path: PathBuf,
    pub(super) sharing: Sharing,
    pub(super) order: Order,
    choice: Choice,
    store: Store,
}

/// A read session.
#[derive(Debug)]
pub(super) struct ListReader {
    order: Order,
    hidden: Option<&'static [u8]>,
    open: ReaderKind,
}

#[derive(Debug)]
enum ReaderKind {
    Own(Reader),
    /// The lock is the last field, so that it is released last.
    Shared {
        kv: Box<dyn KvRead>,
        _lock: Option<Box<dyn File>>,
    },
}

/// A write session.
#[derive(Debug)]
pub(super) struct Writing {
    order: Order,
    hidden: Option<&'static [u8]>,
    open: Write,
}

#[derive(Debug)]
enum Write {
    Own(Writer),
    /// There is no lock for a new file, and none for SQLite, which has its own.
    Shared(Box<dyn KvWrite>, Option<Box<dyn File>>),
}

impl ListStore {
    pub(super) fn new(vfs: Arc<dyn Vfs>, path: &Path, choice: Choice, sharing: Sharing) -> Self {
        let store = Store::new(Arc::clone(&vfs), path.to_owned(), choice).durable();
        let order = match sharing {
            Sharing::Own => Order::Little,
            Sharing::Bogofilter => Order::HERE,
        };
        Self { vfs, path: path.to_owned(), sharing, order, choice, store }
    }

    /// Checks that the list exists and is supported, before a library opens it.
    pub(super) fn check(&self) -> Result<()> {
        match self.vfs.symlink_metadata(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::NotFound { path: self.path.clone() });
            }
            found => drop(found.at(&self.path)?),
        }
        if self.sharing == Sharing::Own || self.choice.kv.name() != BDB {
            return Ok(());
        }
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut has_log = false;
        let mut look = |name: &[u8], _| {
            let number = name.strip_prefix(BDB_LOG).unwrap_or_default();
            has_log |= number.len() == 10 && number.iter().all(u8::is_ascii_digit);
        };
        self.vfs.open_dir(folder).and_then(|dir| dir.list(&mut look)).at(folder)?;
        if has_log {
            let what = "it is part of a Berkeley DB environment with transactions: dump it with \
                        bogoutil -d and load the dump";
            return Err(Error::Unsupported { path: self.path.clone(), what });
        }
        Ok(())
    }

    fn kv_place(&self) -> barid_kv::StoreSpec<'_> {
        let Self { vfs, path, choice, .. } = self;
        barid_kv::StoreSpec { vfs, path, builtin: choice.builtin, durable: true }
    }

    /// Returns the key of the byte-order record, which is not a token and which bogofilter hides.
    fn hidden(&self) -> Option<&'static [u8]> {
        let is_marked = self.sharing == Sharing::Bogofilter && self.choice.kv.name() == SQLITE;
        is_marked.then_some(ENDIAN)
    }

    /// Returns the modification time, which for SQLite includes that of the write-ahead log.
    pub(super) fn modified(&self) -> Result<Timestamp> {
        let modified = self.vfs.metadata(&self.path).at(&self.path)?.modified;
        if self.choice.kv.name() != SQLITE {
            return Ok(modified);
        }
        let mut wal = self.path.as_os_str().to_owned();
        wal.push(SQLITE_WAL);
        let wal = self.vfs.metadata(Path::new(&wal)).ok();
        Ok(wal.map_or(modified, |wal| modified.max(wal.modified)))
    }

    /// Adds the byte-order record of a new file, if it has one.
    pub(super) fn mark(&self, batch: &mut barid_kv::Batch) {
        if let Some(key) = self.hidden() {
            let entry = TokenEntry { spam: ENDIAN_NUMBER, ham: ENDIAN_NUMBER, date: 0 };
            batch.put_with(key, |bytes| Order::HERE.put(bytes, entry));
        }
    }

    /// Takes the lock that bogofilter takes, on the whole file; `None` if the library locks itself.
    fn lock(&self, mode: LockMode) -> Result<Option<Box<dyn File>>> {
        if self.choice.kv.name() == SQLITE {
            return Ok(None);
        }
        let options = match mode {
            LockMode::Shared => OpenOptions::READ,
            LockMode::Exclusive => OpenOptions::WRITE,
        };
        let file = self.vfs.open(&self.path, options).at(&self.path)?;
        let how = (LockKind::Fcntl, mode);
        match lock_file(&*self.vfs, &*file, &self.path, how, LOCK_TIMEOUT) {
            Ok(()) => Ok(Some(file)),
            Err(LockError::Io { path, source }) => Err(Error::Io { path, source }),
            Err(_) => Err(Error::Busy { path: self.path.clone() }),
        }
    }

    /// Determines the byte order of a file that is locked and open.
    fn order(&self, file: Option<&dyn File>, kv: &mut dyn KvRead) -> Result<Order> {
        let mut magic = [0; 4];
        let read = file.map(|file| file.read_full_at(&mut magic, BDB_MAGIC_OFFSET));
        let is_read = read.is_some_and(|read| read.is_ok());
        if self.choice.kv.name() == BDB && is_read && magic == BDB_MAGIC_BIG {
            return Ok(Order::Big);
        }
        let (Some(key), mut number) = (self.hidden(), None) else { return Ok(self.order) };
        kv.get(key, &mut |value| number = Some(Order::HERE.take(value).spam))?;
        match number {
            None | Some(ENDIAN_NUMBER) => Ok(Order::HERE),
            Some(number) if number.swap_bytes() == ENDIAN_NUMBER => Ok(Order::HERE.other()),
            Some(_) => {
                let what = "its byte order is unknown";
                Err(Error::Damaged { path: self.path.clone(), what })
            }
        }
    }

    pub(super) fn read(&self) -> Result<ListReader> {
        if self.sharing == Sharing::Own {
            let open = ReaderKind::Own(self.store.read()?);
            return Ok(ListReader { order: self.order, hidden: None, open });
        }
        let lock = self.lock(LockMode::Shared)?;
        let mut kv = self.choice.kv.read(&self.kv_place())?;
        let order = self.order(lock.as_deref(), &mut *kv)?;
        let open = ReaderKind::Shared { kv, _lock: lock };
        Ok(ListReader { order, hidden: self.hidden(), open })
    }

    pub(super) fn write(&mut self) -> Result<Writing> {
        if self.sharing == Sharing::Own {
            let open = Write::Own(self.store.write()?);
            return Ok(Writing { order: self.order, hidden: None, open });
        }
        let lock = self.lock(LockMode::Exclusive)?;
        let mut kv = self.choice.kv.write(&self.kv_place(), Purpose::Update)?;
        self.order = self.order(lock.as_deref(), &mut *kv)?;
        let open = Write::Shared(kv, lock);
        Ok(Writing { order: self.order, hidden: self.hidden(), open })
    }

    pub(super) fn create(&self) -> Result<Writing> {
        let open = match self.sharing {
            Sharing::Own => Write::Own(self.store.create()?),
            Sharing::Bogofilter => {
                Write::Shared(self.choice.kv.write(&self.kv_place(), Purpose::Create)?, None)
            }
        };
        Ok(Writing { order: self.order, hidden: self.hidden(), open })
    }
}

impl ListReader {
    /// Returns the entry of a token; `None` if it has none.
    pub(super) fn get(&mut self, token: &[u8]) -> Result<Option<TokenEntry>> {
        let (mut found, order) = (None, self.order);
        let mut take = |value: &[u8]| found = Some(order.take(value));
        match &mut self.open {
            ReaderKind::Own(reader) => reader.get(token, &mut take)?,
            ReaderKind::Shared { kv, .. } => !token.is_empty() && kv.get(token, &mut take)?,
        };
        Ok(found)
    }

    /// Visits all records in the order of the store, except the byte-order record, until `visit`
    /// returns `false`.
    pub(super) fn scan(&mut self, visit: &mut dyn FnMut(&[u8], TokenEntry) -> bool) -> Result<()> {
        let (order, hidden) = (self.order, self.hidden);
        let mut visit =
            |key: &[u8], value: &[u8]| Some(key) == hidden || visit(key, order.take(value));
        match &mut self.open {
            ReaderKind::Own(reader) => Ok(reader.scan(b"", &mut visit)?),
            ReaderKind::Shared { kv, .. } => Ok(kv.scan(b"", &mut visit)?),
        }
    }
}

impl Writing {
    /// Returns the entry of a token; `None` if it has none.
    pub(super) fn get(&mut self, token: &[u8]) -> Result<Option<TokenEntry>> {
        let (mut found, order) = (None, self.order);
        let mut take = |value: &[u8]| found = Some(order.take(value));
        match &mut self.open {
            Write::Own(writer) => writer.get(token, &mut take)?,
            Write::Shared(kv, _) => kv.get(token, &mut take)?,
        };
        Ok(found)
    }

    /// Visits all records in the order of the store, except the byte-order record, until `visit`
    /// returns `false`.
    pub(super) fn scan(&mut self, visit: &mut dyn FnMut(&[u8], TokenEntry) -> bool) -> Result<()> {
        let (order, hidden) = (self.order, self.hidden);
        let mut visit =
            |key: &[u8], value: &[u8]| Some(key) == hidden || visit(key, order.take(value));
        match &mut self.open {
            Write::Own(writer) => Ok(writer.scan(b"", &mut visit)?),
            Write::Shared(kv, _) => Ok(kv.scan(b"", &mut visit)?),
        }
    }

    pub(super) fn apply(&mut self, batch: &barid_kv::Batch) -> Result<()> {
        match &mut self.open {
            Write::Own(writer) => Ok(writer.apply(batch)?),
            Write::Shared(kv, _) => Ok(kv.apply(batch)?),
        }
    }

    pub(super) fn close(self) -> Result<()> {
        match self.open {
            Write::Own(writer) => Ok(writer.close()?),
            Write::Shared(kv, lock) => {
                kv.close()?;
                drop(lock);
                Ok(())
            }
        }
    }
}

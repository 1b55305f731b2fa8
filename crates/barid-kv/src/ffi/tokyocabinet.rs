//! Tokyo Cabinet's B+ tree (tcbdb.h).

#![expect(unsafe_code, reason = "calls libtokyocabinet")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::ptr::NonNull;

use crate::Library;
use crate::ffi::bytes::{parts, slice};
use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::pairs::{ReadPairs, WritePairs};
use crate::kv::Visit;
use crate::stores::files;

/// The shared library and its Debian package.
pub(crate) static LIBRARY: Library =
    Library { names: &["libtokyocabinet.so.9"], package: "libtokyocabinet9" };

/// `TCBDB`.
#[repr(C)]
pub(crate) struct Bdb {
    _opaque: [u8; 0],
}

/// `BDBCUR`.
#[repr(C)]
pub(crate) struct Cursor {
    _opaque: [u8; 0],
}

crate::library::functions! {
    /// The part of libtokyocabinet that is used.
    pub(crate) struct Api("tokyocabinet", &LIBRARY) {
        tcbdberrmsg: fn(c_int) -> *const c_char,
        tcbdbnew: fn() -> *mut Bdb,
        tcbdbdel: fn(*mut Bdb),
        tcbdbecode: fn(*mut Bdb) -> c_int,
        tcbdbtune: fn(*mut Bdb, i32, i32, i64, i8, i8, u8) -> bool,
        tcbdbsetcache: fn(*mut Bdb, i32, i32) -> bool,
        tcbdbsetlsmax: fn(*mut Bdb, u32) -> bool,
        tcbdbopen: fn(*mut Bdb, *const c_char, c_int) -> bool,
        tcbdbclose: fn(*mut Bdb) -> bool,
        tcbdbput: fn(*mut Bdb, *const c_void, c_int, *const c_void, c_int) -> bool,
        tcbdbout: fn(*mut Bdb, *const c_void, c_int) -> bool,
        tcbdbget3: fn(*mut Bdb, *const c_void, c_int, *mut c_int) -> *const c_void,
        tcbdbtranbegin: fn(*mut Bdb) -> bool,
        tcbdbtrancommit: fn(*mut Bdb) -> bool,
        tcbdbtranabort: fn(*mut Bdb) -> bool,
        tcbdbmemsync: fn(*mut Bdb, bool) -> bool,
        tcbdbcacheclear: fn(*mut Bdb) -> bool,
        tcbdbcurnew: fn(*mut Bdb) -> *mut Cursor,
        tcbdbcurdel: fn(*mut Cursor),
        tcbdbcurfirst: fn(*mut Cursor) -> bool,
        tcbdbcurjump: fn(*mut Cursor, *const c_void, c_int) -> bool,
        tcbdbcurnext: fn(*mut Cursor) -> bool,
        tcbdbcurkey3: fn(*mut Cursor, *mut c_int) -> *const c_void,
        tcbdbcurval3: fn(*mut Cursor, *mut c_int) -> *const c_void,
    } variables {
        tcversion: *const c_char,
    }
}

/// The arguments of `tcbdbtune`, `tcbdbsetlsmax` and `tcbdbsetcache`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// The most records of a leaf.
    pub(crate) leaf_records_max: i32,
    /// The size at which a leaf is split.
    pub(crate) leaf_len_max: u32,
    /// The most children of an inner node.
    pub(crate) node_children_max: i32,
    /// Buckets of the hash table that finds pages.
    pub(crate) buckets: i64,
    /// Pages are aligned to two to the power of this.
    pub(crate) align_pow: i8,
    /// The library remembers two to the power of this free blocks.
    pub(crate) free_pow: i8,
    /// `BDBT...`.
    pub(crate) options: u8,
    /// Leaves that are cached in memory.
    pub(crate) leaf_cache: i32,
    /// Inner nodes that are cached in memory.
    pub(crate) node_cache: i32,
}

/// The mode in which a file is opened; the library takes no lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    /// For changing a store; an empty file becomes a store.
    Write,
    /// As `Write`; commits reach stable storage.
    WriteDurable,
}

const READER: c_int = 1;
const WRITER: c_int = 1 << 1;
const CREATE: c_int = 1 << 2;
const NO_LOCK: c_int = 1 << 4;
const TRANSACTIONS_SYNC: c_int = 1 << 6;

// tcutil.h, `TCETHREAD` and so on.
const E_THREAD: c_int = 1;
const E_INVALID: c_int = 2;
const E_NO_FILE: c_int = 3;
const E_META: c_int = 5;
const E_RECORD_HEAD: c_int = 6;
const E_READ: c_int = 13;
const E_NO_RECORD: c_int = 22;
const E_MISC: c_int = 9999;

/// An open store.
#[derive(Debug)]
pub(crate) struct Handle {
    api: &'static Api,
    bdb: NonNull<Bdb>,
    /// Created at the first scan.
    cursor: Option<NonNull<Cursor>>,
}

// SAFETY: without tcbdbsetmutex the object keeps everything in its own memory, its error code
// too, so that it may be used by any thread, one at a time; `&mut self` sees to that. What the
// library shares between objects (the paths that are open) is behind a mutex of its own.
unsafe impl Send for Handle {}

impl Handle {
    /// Opens a file whose head the caller has checked.
    pub(crate) fn open(
        api: &'static Api,
        path: &CStr,
        mode: Mode,
        tuning: &Tuning,
    ) -> Outcome<Self> {
        // SAFETY: no precondition; it aborts for want of memory.
        let bdb = NonNull::new(unsafe { (api.tcbdbnew)() });
        let bdb = bdb.ok_or_else(|| system("tcbdbnew"))?;
        let handle = Self { api, bdb, cursor: None };
        let bdb = bdb.as_ptr();
        let how = tuning;
        // SAFETY: the object is live and not open yet, as tuning requires.
        let tuned = unsafe {
            (api.tcbdbtune)(
                bdb,
                how.leaf_records_max,
                how.node_children_max,
                how.buckets,
                how.align_pow,
                how.free_pow,
                how.options,
            ) && (api.tcbdbsetlsmax)(bdb, how.leaf_len_max)
                && (api.tcbdbsetcache)(bdb, how.leaf_cache, how.node_cache)
        };
        handle.check(tuned)?;
        let how = match mode {
            Mode::Read => READER,
            Mode::Write => WRITER | CREATE,
            Mode::WriteDurable => WRITER | CREATE | TRANSACTIONS_SYNC,
        };
        // SAFETY: the object is live and not open; the path ends with NUL.
        let opened = unsafe { (api.tcbdbopen)(bdb, path.as_ptr(), how | NO_LOCK) };
        handle.check(opened)?;
        Ok(handle)
    }

    fn cursor(&mut self) -> Outcome<*mut Cursor> {
        if self.cursor.is_none() {
            // SAFETY: the object is live, and outlives the cursor: `Drop` deletes that first.
            self.cursor = NonNull::new(unsafe { (self.api.tcbdbcurnew)(self.bdb.as_ptr()) });
        }
        let cursor = self.cursor.ok_or_else(|| system("tcbdbcurnew"))?;
        Ok(cursor.as_ptr())
    }

    /// Begins a transaction.
    pub(crate) fn begin(&mut self) -> Outcome<()> {
        // SAFETY: the object is live.
        let begun = unsafe { (self.api.tcbdbtranbegin)(self.bdb.as_ptr()) };
        self.check_written(begun)
    }

    /// Commits a transaction. If that fails, the transaction must still be aborted.
    pub(crate) fn commit(&mut self) -> Outcome<()> {
        let (api, bdb) = (self.api, self.bdb.as_ptr());
        // A commit that failed to write its pages would leave them in memory, to be written when
        // the file is closed; so they are written before.
        // SAFETY: the object is live.
        let committed = unsafe { (api.tcbdbmemsync)(bdb, false) && (api.tcbdbtrancommit)(bdb) };
        self.check_written(committed)
    }

    /// Rolls a transaction back.
    pub(crate) fn abort(&mut self) -> Outcome<()> {
        let (api, bdb) = (self.api, self.bdb.as_ptr());
        // Pages whose write failed count as written, and only the second call drops them.
        // SAFETY: the object is live.
        let aborted = unsafe { (api.tcbdbtranabort)(bdb) && (api.tcbdbcacheclear)(bdb) };
        self.check(aborted)
    }

    /// Writes cached changes, and closes the file.
    pub(crate) fn close(self) -> Outcome<()> {
        // SAFETY: the object is live; `Drop` deletes it afterwards, as is right for a closed one.
        let closed = unsafe { (self.api.tcbdbclose)(self.bdb.as_ptr()) };
        self.check_written(closed)
    }

    /// As [`Handle::check`], but a missing key is not a failure.
    fn check_found(&self, found: bool) -> Outcome<bool> {
        // SAFETY: the object is live.
        if !found && unsafe { (self.api.tcbdbecode)(self.bdb.as_ptr()) } == E_NO_RECORD {
            return Ok(false);
        }
        self.check(found).map(|()| true)
    }

    /// As [`Handle::check`] for writes.
    fn check_written(&self, done: bool) -> Outcome<()> {
        match files::full() {
            Some(full) if !done => Err(full),
            _ => self.check(done),
        }
    }

    fn check(&self, done: bool) -> Outcome<()> {
        if done {
            return Ok(());
        }
        // SAFETY: the object is live; messages are strings of the library's own, for any code.
        let (code, message) = unsafe {
            let code = (self.api.tcbdbecode)(self.bdb.as_ptr());
            (code, CStr::from_ptr((self.api.tcbdberrmsg)(code)).to_string_lossy())
        };
        Err(match code {
            E_THREAD => Failure::Io(io::ErrorKind::ResourceBusy.into()),
            E_META | E_RECORD_HEAD | E_READ | E_INVALID | E_MISC => {
                Failure::Damaged(message.into_owned())
            }
            E_NO_FILE => Failure::Io(io::ErrorKind::NotFound.into()),
            _ => system(&message),
        })
    }
}

impl ReadPairs for Handle {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let mut len: c_int = 0;
        let (key, key_len) = parts(key)?;
        // SAFETY: the object is live; the key's bytes are `key_len`.
        let value = unsafe { (self.api.tcbdbget3)(self.bdb.as_ptr(), key, key_len, &raw mut len) };
        if value.is_null() {
            return self.check_found(false);
        }
        // SAFETY: the library gives `len` bytes of a leaf in its cache, which stays as it is until
        // the object is used again; `self` is borrowed until `visit` returns.
        visit(unsafe { slice(value, len) });
        Ok(true)
    }

    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Outcome<()> {
        let api = self.api;
        let cursor = self.cursor()?;
        let (start, start_len) = parts(prefix)?;
        // SAFETY: the cursor is live, and so is its object; the prefix's bytes are `start_len`.
        let mut found = unsafe {
            match prefix {
                [] => (api.tcbdbcurfirst)(cursor),
                _ => (api.tcbdbcurjump)(cursor, start, start_len),
            }
        };
        while self.check_found(found)? {
            let (mut key_len, mut value_len) = (0, 0);
            // SAFETY: the cursor is live.
            let (key, value) = unsafe {
                let key = (api.tcbdbcurkey3)(cursor, &raw mut key_len);
                (key, (api.tcbdbcurval3)(cursor, &raw mut value_len))
            };
            if key.is_null() || value.is_null() {
                return self.check(false);
            }
            // SAFETY: both lie in the leaf that was used last, which stays in the cache until the
            // object is used again; `self` is borrowed until `visit` returns.
            let (key, value) = unsafe { (slice(key, key_len), slice(value, value_len)) };
            if !key.starts_with(prefix) || !visit(key, value) {
                break;
            }
            // SAFETY: the cursor is live.
            found = unsafe { (api.tcbdbcurnext)(cursor) };
        }
        Ok(())
    }
}

impl WritePairs for Handle {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let ((key, key_len), (value, value_len)) = (parts(key)?, parts(value)?);
        // SAFETY: the object is live; the lengths are those of the bytes, which are copied.
        let put = unsafe { (self.api.tcbdbput)(self.bdb.as_ptr(), key, key_len, value, value_len) };
        self.check_written(put)
    }

    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        let (key, key_len) = parts(key)?;
        // SAFETY: the object is live; the key's bytes are `key_len`.
        let deleted = unsafe { (self.api.tcbdbout)(self.bdb.as_ptr(), key, key_len) };
        match self.check_found(deleted) {
            Err(_) => self.check_written(deleted),
            Ok(_) => Ok(()),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: both are live and used by nobody afterwards; the object closes its file if that
        // is open.
        unsafe {
            if let Some(cursor) = self.cursor {
                (self.api.tcbdbcurdel)(cursor.as_ptr());
            }
            (self.api.tcbdbdel)(self.bdb.as_ptr());
        }
    }
}

/// Returns the version of the library.
pub(crate) fn version(api: &Api) -> String {
    // SAFETY: the variable points to a string of the library's own.
    let version = unsafe { CStr::from_ptr(*api.tcversion.address()) };
    version.to_string_lossy().into_owned()
}

/// Returns the failure of a system call: the library's message, and the kind and message of the
/// last error.
fn system(what: &str) -> Failure {
    let last = io::Error::last_os_error();
    Failure::Io(io::Error::new(last.kind(), format!("{what}: {last}")))
}

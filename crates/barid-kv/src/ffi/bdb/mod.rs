//! libdb: the functions that it exports by name, and the methods of its handles ([`layout`]).
//!
//! A handle is used by one thread at a time; without an environment the handles of the library
//! share no state except a table of system calls, which is set once.

#![expect(unsafe_code, reason = "calls libdb, whose rules its reference manual tells")]

mod layout;
mod trial;

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Once;

use crate::Library;
use crate::ffi::bytes::slice;
use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::pairs::{ReadPairs, WritePairs};
use crate::kv::Visit;

use layout::{Bytes, CursorMethods, DbMethods, Handle};

/// The shared library and its Debian package.
pub(crate) static LIBRARY: Library = Library { names: &["libdb-5.3.so"], package: "libdb5.3" };

type Fsync = unsafe extern "C" fn(c_int) -> c_int;

crate::library::functions! {
    /// The part of libdb that is used by name.
    pub(crate) struct Api("bdb", &LIBRARY) {
        db_create: fn(*mut Handle, Handle, u32) -> c_int,
        db_version: fn(*mut c_int, *mut c_int, *mut c_int) -> *const c_char,
        db_strerror: fn(c_int) -> *const c_char,
        db_env_set_func_fsync: fn(Fsync) -> c_int,
    } optional {
        // Methods, which are not called by these names.
        __db_close_pp: fn(),
        __db_cursor_pp: fn(),
        __db_del_pp: fn(),
        __db_get_pp: fn(),
        __db_open_pp: fn(),
        __db_put_pp: fn(),
        __db_set_pagesize: fn(),
        __db_sync_pp: fn(),
        __dbc_close_pp: fn(),
        __dbc_get_pp: fn(),
    }
}

/// The options for opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// `true` to open the file for writing.
    pub(crate) write: bool,
    /// Bytes of a page, to create the file, which must not exist.
    pub(crate) create: Option<u32>,
    /// Bytes of pages that are cached in memory.
    pub(crate) cache_len: u32,
}

/// An open file, or a list in memory.
#[derive(Debug)]
pub(crate) struct Bdb {
    api: &'static Api,
    db: NonNull<c_void>,
    methods: DbMethods,
}

// SAFETY: nothing in a handle belongs to the thread that opened it.
unsafe impl Send for Bdb {}

/// A cursor; closed when dropped.
struct Cursor<'a> {
    bdb: &'a mut Bdb,
    cursor: Handle,
    methods: CursorMethods,
}

/// Returns the version of the library.
pub(crate) fn version() -> crate::Result<String> {
    let api = api()?;
    let (major, minor, patch) = version_of(api);
    Ok(format!("{major}.{minor}.{patch}"))
}

fn version_of(api: &Api) -> (c_int, c_int, c_int) {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: takes three places for a number.
    unsafe { (api.db_version)(&mut major, &mut minor, &mut patch) };
    (major, minor, patch)
}

/// Returns the library if its version is the one with known handles, and a trial in a child has
/// confirmed them.
fn api() -> crate::Result<&'static Api> {
    static SILENCED: Once = Once::new();
    let api = Api::get()?;
    trial::check(api)?;
    // Otherwise closing waits for the disk. Callers that need that wait afterwards.
    SILENCED.call_once(|| {
        // SAFETY: the function does as the one it replaces; called before any handle is made.
        unsafe { (api.db_env_set_func_fsync)(fsync) };
    });
    Ok(api)
}

thread_local! {
    /// `true` while this thread is in a call that must not wait for the disk.
    static HASTY: Cell<bool> = const { Cell::new(false) };
}

/// Replaces `fsync` in the library. It is set for the whole process, and other users of the
/// library in the process rely on it.
unsafe extern "C" fn fsync(descriptor: c_int) -> c_int {
    if HASTY.get() {
        return 0;
    }
    // SAFETY: the library has it open.
    let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let synced = rustix::io::retry_on_intr(|| rustix::fs::fdatasync(file));
    synced.map_or_else(rustix::io::Errno::raw_os_error, |()| 0)
}

/// Makes a call of the library without waiting for the disk.
fn hasty<T>(call: impl FnOnce() -> T) -> T {
    HASTY.set(true);
    let returned = call();
    HASTY.set(false);
    returned
}

/// Returns bytes that the library found.
///
/// # Safety
/// The library filled `found`, and what it points to stays as it is for `'a`.
unsafe fn bytes<'a>(found: &Bytes) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { slice(found.data, found.len) }
}

/// Ignores messages of the library.
unsafe extern "C" fn say_nothing(_: *const c_void, _: *const c_char, _: *const c_char) {}

impl Bdb {
    /// Opens a file. The library prints nothing.
    pub(crate) fn open(path: &CStr, options: Options) -> Outcome<Self> {
        let flags = match (options.create, options.write) {
            (Some(_), _) => layout::CREATE | layout::EXCL,
            (None, true) => 0,
            (None, false) => layout::RDONLY | layout::NOMMAP,
        };
        let db = Self::create(api()?)?;
        db.set_up(path.as_ptr(), flags, options)?;
        Ok(db)
    }

    /// Creates a handle; nothing is open yet.
    fn create(api: &'static Api) -> Outcome<Self> {
        let mut db = ptr::null_mut();
        // SAFETY: `db` is a place for a handle; none is part of an environment.
        let returned = unsafe { (api.db_create)(&mut db, ptr::null_mut(), 0) };
        match (returned, NonNull::new(db)) {
            // SAFETY: the handle is open, and `layout` knows the version; see `trial`.
            (0, Some(db)) => Ok(Self { api, db, methods: unsafe { DbMethods::of(db.as_ptr()) } }),
            (code, _) => Err(failure(api, code)),
        }
    }

    /// Opens the file at `path`, or a list in memory if `path` is null.
    fn set_up(&self, path: *const c_char, flags: u32, options: Options) -> Outcome<()> {
        let (db, methods) = (self.db.as_ptr(), &self.methods);
        // SAFETY: the handle is made and nothing is open yet; the function takes any text.
        unsafe { (methods.set_errcall)(db, say_nothing) };
        // SAFETY: as above.
        self.done(unsafe { (methods.set_cachesize)(db, 0, options.cache_len, 1) })?;
        if let Some(page_len) = options.create {
            // SAFETY: as above.
            self.done(unsafe { (methods.set_pagesize)(db, page_len) })?;
        }
        // SAFETY: as above; `path` is null or ends with a zero.
        let open = || unsafe {
            let none = ptr::null_mut();
            (methods.open)(db, none, path, ptr::null(), layout::BTREE, flags, 0o600)
        };
        self.done(hasty(open))
    }

    fn done(&self, returned: c_int) -> Outcome<()> {
        if returned == 0 { Ok(()) } else { Err(failure(self.api, returned)) }
    }

    fn cursor(&mut self) -> Outcome<Cursor<'_>> {
        let mut cursor = ptr::null_mut();
        // SAFETY: the handle is open, `cursor` a place for a cursor.
        let returned =
            unsafe { (self.methods.cursor)(self.db.as_ptr(), ptr::null_mut(), &mut cursor, 0) };
        self.done(returned)?;
        // SAFETY: the cursor is open, and `layout` knows the version.
        let methods = unsafe { CursorMethods::of(cursor) };
        Ok(Cursor { bdb: self, cursor, methods })
    }

    /// Writes cached changes to the operating system.
    pub(crate) fn flush(&mut self) -> Outcome<()> {
        // SAFETY: the handle is open.
        self.done(hasty(|| unsafe { (self.methods.sync)(self.db.as_ptr(), 0) }))
    }

    /// Writes cached changes, and closes the file.
    pub(crate) fn close(self) -> Outcome<()> {
        let bdb = std::mem::ManuallyDrop::new(self);
        // SAFETY: the handle is open, and is never used again.
        bdb.done(hasty(|| unsafe { (bdb.methods.close)(bdb.db.as_ptr(), 0) }))
    }
}

impl ReadPairs for Bdb {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let (mut key, mut value) = (Bytes::of(key), Bytes::place());
        // SAFETY: the handle is open, the key is only read, `value` is a place for what is found.
        let returned = unsafe {
            (self.methods.get)(self.db.as_ptr(), ptr::null_mut(), &mut key, &mut value, 0)
        };
        if returned == layout::NOTFOUND {
            return Ok(false);
        }
        self.done(returned)?;
        // SAFETY: the value stays until the handle is used again, which `self` forbids meanwhile.
        visit(unsafe { bytes(&value) });
        Ok(true)
    }

    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Outcome<()> {
        let mut cursor = self.cursor()?;
        let mut found = cursor.next(Some(prefix))?;
        while let Some((key, value)) = found {
            if !key.starts_with(prefix) || !visit(key, value) {
                break;
            }
            found = cursor.next(None)?;
        }
        Ok(())
    }
}

impl WritePairs for Bdb {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let (mut key, mut value) = (Bytes::of(key), Bytes::of(value));
        // SAFETY: the handle is open, key and value are only read.
        self.done(hasty(|| unsafe {
            (self.methods.put)(self.db.as_ptr(), ptr::null_mut(), &mut key, &mut value, 0)
        }))
    }

    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        let mut key = Bytes::of(key);
        // SAFETY: the handle is open, the key is only read.
        let delete =
            || unsafe { (self.methods.del)(self.db.as_ptr(), ptr::null_mut(), &mut key, 0) };
        let returned = hasty(delete);
        if returned == layout::NOTFOUND { Ok(()) } else { self.done(returned) }
    }
}

impl Drop for Bdb {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and is never used again.
        hasty(|| unsafe { (self.methods.close)(self.db.as_ptr(), 0) });
    }
}

impl Cursor<'_> {
    /// Returns the next pair, or the first from a key on. It is valid until the cursor is used
    /// again.
    fn next(&mut self, from: Option<&[u8]>) -> Outcome<Option<(&[u8], &[u8])>> {
        let (mut key, how) = match from {
            Some(from) => (Bytes::of(from), layout::SET_RANGE),
            None => (Bytes::place(), layout::NEXT),
        };
        let mut value = Bytes::place();
        // SAFETY: the cursor is open; `from` is only read.
        let returned = unsafe { (self.methods.get)(self.cursor, &mut key, &mut value, how) };
        if returned == layout::NOTFOUND {
            return Ok(None);
        }
        self.bdb.done(returned)?;
        // SAFETY: both stay until the cursor is used again, which `self` forbids meanwhile.
        Ok(Some(unsafe { (bytes(&key), bytes(&value)) }))
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: the cursor is open, and is never used again.
        unsafe { (self.methods.close)(self.cursor) };
    }
}

fn failure(api: &Api, code: c_int) -> Failure {
    /// The library's error for any failure to write a page.
    const IO: c_int = 5;
    /// The system's error for a missing page, or a file of another kind.
    const INVALID: c_int = 22;
    let system = io::Error::last_os_error();
    if code == IO && system.kind() == io::ErrorKind::StorageFull {
        return Failure::Io(system);
    }
    if code > 0 && code != INVALID {
        return Failure::Io(io::Error::from_raw_os_error(code));
    }
    // SAFETY: takes any number; the text is a constant of the library.
    let text = unsafe { CStr::from_ptr((api.db_strerror)(code)) };
    Failure::Damaged(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn others_wait_for_the_disk() {
        /// The system's error for syncing a pipe.
        const INVALID: c_int = 22;
        let (pipe, _end) = io::pipe().unwrap();
        // SAFETY: the descriptor is open.
        let sync = || unsafe { fsync(pipe.as_raw_fd()) };
        assert_eq!((sync(), hasty(sync), sync()), (INVALID, 0, INVALID));
    }
}

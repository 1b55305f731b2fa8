//! libdb, through `csrc/bdb.c`.
//!
//! A handle is used by one thread at a time; without an environment the library has no state that
//! handles share but a table of system calls, which is set once.

#![expect(unsafe_code, reason = "calls libdb, whose rules its reference manual tells")]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Once;

use crate::ffi::failure::{Failure, Outcome};
use crate::kv::Visit;
use crate::{Error, Library};

/// Where it comes from.
pub(crate) static LIBRARY: Library = Library { names: &["libdb-5.3.so"], package: "libdb5.3" };

type Fsync = unsafe extern "C" fn(c_int) -> c_int;
type DbCreate = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, u32) -> c_int;

crate::library::functions! {
    /// The part of libdb that is used by name.
    pub(crate) struct Api("bdb", &LIBRARY) {
        db_create: fn(*mut *mut c_void, *mut c_void, u32) -> c_int,
        db_version: fn(*mut c_int, *mut c_int, *mut c_int) -> *const c_char,
        db_strerror: fn(c_int) -> *const c_char,
        db_env_set_func_fsync: fn(Fsync) -> c_int,
    }
}

/// `struct barid_bdb_options`.
#[repr(C)]
struct RawOptions {
    flags: u32,
    page_len: u32,
    cache_len: u32,
}

unsafe extern "C" {
    static barid_bdb_create_flags: u32;
    static barid_bdb_read_flags: u32;
    static barid_bdb_major: c_int;
    static barid_bdb_minor: c_int;
    fn barid_bdb_open(
        create: DbCreate,
        path: *const c_char,
        options: *const RawOptions,
        opened: *mut *mut c_void,
    ) -> c_int;
    fn barid_bdb_close(db: *mut c_void) -> c_int;
    fn barid_bdb_flush(db: *mut c_void) -> c_int;
    fn barid_bdb_get(
        db: *mut c_void,
        key: *const u8,
        key_len: u32,
        value: *mut *const u8,
        value_len: *mut u32,
    ) -> c_int;
    fn barid_bdb_put(
        db: *mut c_void,
        key: *const u8,
        key_len: u32,
        value: *const u8,
        value_len: u32,
    ) -> c_int;
    fn barid_bdb_delete(db: *mut c_void, key: *const u8, key_len: u32) -> c_int;
    fn barid_bdb_cursor_open(db: *mut c_void, cursor: *mut *mut c_void) -> c_int;
    fn barid_bdb_cursor_close(cursor: *mut c_void) -> c_int;
    fn barid_bdb_cursor_next(
        cursor: *mut c_void,
        from: *const u8,
        from_len: u32,
        key: *mut *const u8,
        key_len: *mut u32,
        value: *mut *const u8,
        value_len: *mut u32,
    ) -> c_int;
}

/// What `csrc/bdb.c` returns when there is nothing.
const NONE: c_int = 1_000_000;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Whether it is changed.
    pub(crate) write: bool,
    /// Bytes of a page, if it is to be made; it must not be there.
    pub(crate) create: Option<u32>,
    /// Bytes of pages that are kept in memory.
    pub(crate) cache_len: u32,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Bdb {
    api: &'static Api,
    db: NonNull<c_void>,
}

// SAFETY: nothing in a handle belongs to the thread that opened it.
unsafe impl Send for Bdb {}

/// A cursor; closed when dropped.
struct Cursor<'a> {
    bdb: &'a mut Bdb,
    cursor: *mut c_void,
}

/// The version of the library.
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

/// The library, if it is the one whose header was compiled.
fn api() -> crate::Result<&'static Api> {
    static SILENCED: Once = Once::new();
    let api = Api::get()?;
    let (major, minor, _) = version_of(api);
    // SAFETY: constants of `csrc/bdb.c`.
    let built_for = unsafe { (barid_bdb_major, barid_bdb_minor) };
    if (major, minor) != built_for {
        let why = format!("version {major}.{minor}, but built for {built_for:?}");
        return Err(Error::Unavailable { store: "bdb", why });
    }
    // Closing waits for the disk otherwise. Who wants that waits after it.
    SILENCED.call_once(|| {
        // SAFETY: the function does as the one it replaces; called before any handle is made.
        unsafe { (api.db_env_set_func_fsync)(fsync) };
    });
    Ok(api)
}

thread_local! {
    /// Whether this thread is in a call that is not to wait for the disk.
    static HASTY: Cell<bool> = const { Cell::new(false) };
}

/// What the library has for `fsync`. There is one for the whole process, and whoever else in it
/// uses the library relies on it.
unsafe extern "C" fn fsync(descriptor: c_int) -> c_int {
    if HASTY.get() {
        return 0;
    }
    // SAFETY: the library has it open.
    let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let synced = rustix::io::retry_on_intr(|| rustix::fs::fdatasync(file));
    synced.map_or_else(rustix::io::Errno::raw_os_error, |()| 0)
}

/// Makes a call of the library that is not to wait for the disk.
fn hasty<T>(call: impl FnOnce() -> T) -> T {
    HASTY.set(true);
    let returned = call();
    HASTY.set(false);
    returned
}

/// # Safety
/// The bytes stay as they are for `'a`; the pointer is that of `len` bytes, or null.
unsafe fn bytes<'a>(pointer: *const u8, len: u32) -> &'a [u8] {
    if pointer.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(pointer, len as usize) }
}

impl Bdb {
    /// Opens a file. The library prints nothing.
    pub(crate) fn open(path: &CStr, options: Options) -> Outcome<Self> {
        let api = api()?;
        let flags = match (options.create, options.write) {
            // SAFETY: a constant of `csrc/bdb.c`.
            (Some(_), _) => unsafe { barid_bdb_create_flags },
            (None, true) => 0,
            // SAFETY: as above.
            (None, false) => unsafe { barid_bdb_read_flags },
        };
        let Options { create, cache_len, .. } = options;
        let raw = RawOptions { flags, page_len: create.unwrap_or(0), cache_len };
        let mut db = ptr::null_mut();
        // SAFETY: `path` ends with a zero; `db_create` is the library's, `db` a place for a handle.
        let open = || unsafe { barid_bdb_open(api.db_create, path.as_ptr(), &raw, &mut db) };
        let returned = hasty(open);
        match (returned, NonNull::new(db)) {
            (0, Some(db)) => Ok(Self { api, db }),
            (code, _) => Err(failure(api, code)),
        }
    }

    fn done(&self, returned: c_int) -> Outcome<()> {
        if returned == 0 { Ok(()) } else { Err(failure(self.api, returned)) }
    }

    /// Shows the value of `key`; `false` if there is none.
    pub(crate) fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let (mut value, mut len) = (ptr::null(), 0);
        // SAFETY: the handle is open, the key is only read.
        let returned = unsafe {
            let key_len = key.len() as u32;
            barid_bdb_get(self.db.as_ptr(), key.as_ptr(), key_len, &mut value, &mut len)
        };
        if returned == NONE {
            return Ok(false);
        }
        self.done(returned)?;
        // SAFETY: the value stays until the handle is used again, which `self` forbids meanwhile.
        visit(unsafe { bytes(value, len) });
        Ok(true)
    }

    /// Visits all pairs whose key begins with `prefix`, in order.
    pub(crate) fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Outcome<()> {
        let mut cursor = ptr::null_mut();
        // SAFETY: the handle is open, `cursor` a place for a cursor.
        let returned = unsafe { barid_bdb_cursor_open(self.db.as_ptr(), &mut cursor) };
        self.done(returned)?;
        let mut cursor = Cursor { bdb: self, cursor };
        let mut found = cursor.next(Some(prefix))?;
        while let Some((key, value)) = found {
            if !key.starts_with(prefix) || !visit(key, value) {
                break;
            }
            found = cursor.next(None)?;
        }
        Ok(())
    }

    /// Gives `key` the value.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        // SAFETY: the handle is open, key and value are only read.
        self.done(hasty(|| unsafe {
            let (key_len, value_len) = (key.len() as u32, value.len() as u32);
            barid_bdb_put(self.db.as_ptr(), key.as_ptr(), key_len, value.as_ptr(), value_len)
        }))
    }

    /// Removes `key`, if it is there.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        // SAFETY: the handle is open, the key is only read.
        let delete =
            || unsafe { barid_bdb_delete(self.db.as_ptr(), key.as_ptr(), key.len() as u32) };
        let returned = hasty(delete);
        if returned == NONE { Ok(()) } else { self.done(returned) }
    }

    /// Hands what is in memory only to the system.
    pub(crate) fn flush(&mut self) -> Outcome<()> {
        // SAFETY: the handle is open.
        self.done(hasty(|| unsafe { barid_bdb_flush(self.db.as_ptr()) }))
    }

    /// Writes what is in memory only, and closes the file.
    pub(crate) fn close(self) -> Outcome<()> {
        let bdb = std::mem::ManuallyDrop::new(self);
        // SAFETY: the handle is open, and is never used again.
        bdb.done(hasty(|| unsafe { barid_bdb_close(bdb.db.as_ptr()) }))
    }
}

impl Drop for Bdb {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and is never used again.
        hasty(|| unsafe { barid_bdb_close(self.db.as_ptr()) });
    }
}

impl Cursor<'_> {
    /// The next pair, or the first from a key on. It stays until the cursor is used again.
    fn next(&mut self, from: Option<&[u8]>) -> Outcome<Option<(&[u8], &[u8])>> {
        let (from, from_len) = from.map_or((ptr::null(), 0), |from| (from.as_ptr(), from.len()));
        let (mut key, mut key_len) = (ptr::null(), 0);
        let (mut value, mut value_len) = (ptr::null(), 0);
        // SAFETY: the cursor is open; `from` is only read.
        let returned = unsafe {
            let from_len = from_len as u32;
            let (key, value) = ((&mut key, &mut key_len), (&mut value, &mut value_len));
            barid_bdb_cursor_next(self.cursor, from, from_len, key.0, key.1, value.0, value.1)
        };
        if returned == NONE {
            return Ok(None);
        }
        self.bdb.done(returned)?;
        // SAFETY: both stay until the cursor is used again, which `self` forbids meanwhile.
        Ok(Some(unsafe { (bytes(key, key_len), bytes(value, value_len)) }))
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: the cursor is open, and is never used again.
        unsafe { barid_bdb_cursor_close(self.cursor) };
    }
}

fn failure(api: &Api, code: c_int) -> Failure {
    /// What the library says when a page cannot be written, whatever the reason.
    const IO: c_int = 5;
    /// What the system says of a page that is not there, or of a file that is none of the library.
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
        /// What the system says of a pipe that is to reach the disk.
        const INVALID: c_int = 22;
        let (pipe, _end) = io::pipe().unwrap();
        // SAFETY: the descriptor is open.
        let sync = || unsafe { fsync(pipe.as_raw_fd()) };
        assert_eq!((sync(), hasty(sync), sync()), (INVALID, 0, INVALID));
    }
}

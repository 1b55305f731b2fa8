//! QDBM's B+ tree (villa.h), and the hash table below it (depot.h).

#![expect(unsafe_code, reason = "calls libqdbm")]
#![expect(non_snake_case, reason = "the library names its variables so")]

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::ptr::NonNull;

use crate::Library;
use crate::ffi::bytes::{parts, slice};
use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::pairs::{ReadPairs, WritePairs};
use crate::kv::Visit;
use crate::stores::files;

/// The shared library and its Debian package.
pub(crate) static LIBRARY: Library = Library { names: &["libqdbm.so.14"], package: "libqdbm14" };

/// `VILLA`, of which only the first field is used here.
#[repr(C)]
pub(crate) struct Villa {
    depot: *mut Depot,
}

/// `DEPOT`.
#[repr(C)]
pub(crate) struct Depot {
    _opaque: [u8; 0],
}

type Compare = unsafe extern "C" fn(*const c_char, c_int, *const c_char, c_int) -> c_int;

crate::library::functions! {
    /// The part of libqdbm that is used.
    pub(crate) struct Api("qdbm", &LIBRARY) {
        dpecodeptr: fn() -> *mut c_int,
        dperrmsg: fn(c_int) -> *const c_char,
        dpsetalign: fn(*mut Depot, c_int) -> c_int,
        dpopen: fn(*const c_char, c_int, c_int) -> *mut Depot,
        dpclose: fn(*mut Depot) -> c_int,
        vlopen: fn(*const c_char, c_int, Option<Compare>) -> *mut Villa,
        vlclose: fn(*mut Villa) -> c_int,
        vlput: fn(*mut Villa, *const c_char, c_int, *const c_char, c_int, c_int) -> c_int,
        vlout: fn(*mut Villa, *const c_char, c_int) -> c_int,
        vlgetcache: fn(*mut Villa, *const c_char, c_int, *mut c_int) -> *const c_char,
        vlcurfirst: fn(*mut Villa) -> c_int,
        vlcurjump: fn(*mut Villa, *const c_char, c_int, c_int) -> c_int,
        vlcurnext: fn(*mut Villa) -> c_int,
        vlcurkeycache: fn(*mut Villa, *mut c_int) -> *const c_char,
        vlcurvalcache: fn(*mut Villa, *mut c_int) -> *const c_char,
        vlsettuning: fn(*mut Villa, c_int, c_int, c_int, c_int),
        vlmemflush: fn(*mut Villa) -> c_int,
    } variables {
        dpversion: *const c_char,
        VL_CMPLEX: Option<Compare>,
    }
}

/// The arguments of `vlsettuning`, which must be the same at each opening.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// The most records of a leaf.
    pub(crate) leaf_records_max: c_int,
    /// The most children of an inner node.
    pub(crate) node_children_max: c_int,
    /// Leaves that are cached in memory.
    pub(crate) leaf_cache: c_int,
    /// Inner nodes that are cached in memory.
    pub(crate) node_cache: c_int,
}

/// The mode in which a file is opened; the library takes no lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    /// For changing an existing store.
    Update,
    /// For creating a store in an empty file; `deflate` compresses its leaves.
    Create {
        deflate: bool,
    },
}

const READER: c_int = 1;
const WRITER: c_int = 1 << 1;
const CREATE: c_int = 1 << 2;
const NO_LOCK: c_int = 1 << 4;
const DEFLATE: c_int = 1 << 6;
/// `VL_DOVER`.
const OVERWRITE: c_int = 0;
/// `VL_JFORWARD`.
const FORWARD: c_int = 0;

// depot.h, `DP_EFATAL` and so on.
const E_FATAL: c_int = 1;
const E_BROKEN: c_int = 3;
const E_NO_ITEM: c_int = 5;
const E_READ: c_int = 13;
const E_MISC: c_int = 20;

/// An open store.
#[derive(Debug)]
pub(crate) struct Handle {
    api: &'static Api,
    villa: NonNull<Villa>,
}

// SAFETY: a handle keeps everything in its own memory, so that it may be used by any thread, one
// at a time; `&mut self` sees to that. The error code is the thread's own, and read by the thread
// that made the call.
unsafe impl Send for Handle {}

impl Handle {
    /// Opens a file whose head the caller has checked.
    pub(crate) fn open(
        api: &'static Api,
        path: &CStr,
        mode: Mode,
        tuning: &Tuning,
    ) -> Outcome<Self> {
        let how = match mode {
            Mode::Read => READER,
            Mode::Update => WRITER,
            Mode::Create { deflate } => WRITER | CREATE | if deflate { DEFLATE } else { 0 },
        };
        // SAFETY: the variable is a pointer to a function of the library, and never changes.
        let compare = unsafe { *api.VL_CMPLEX.address() };
        // SAFETY: the path ends with NUL.
        let villa = unsafe { (api.vlopen)(path.as_ptr(), how | NO_LOCK, compare) };
        let villa = NonNull::new(villa).ok_or_else(|| failure(api))?;
        let handle = Self { api, villa };
        // SAFETY: the handle is live.
        unsafe {
            (api.vlsettuning)(
                villa.as_ptr(),
                tuning.leaf_records_max,
                tuning.node_children_max,
                tuning.leaf_cache,
                tuning.node_cache,
            );
        }
        Ok(handle)
    }

    /// Disables the room to grow that the library adds to pages, for all later writes.
    pub(crate) fn pack(&mut self) -> Outcome<()> {
        // SAFETY: the handle is live, and so is the one that its first field points to.
        let set = unsafe { (self.api.dpsetalign)((*self.villa.as_ptr()).depot, 0) };
        self.check(set)
    }

    /// Writes cached changes to the file.
    pub(crate) fn flush(&mut self) -> Outcome<()> {
        // SAFETY: the handle is live.
        let flushed = unsafe { (self.api.vlmemflush)(self.villa.as_ptr()) };
        self.check_written(flushed)
    }

    /// Writes cached changes, and closes the file.
    pub(crate) fn close(self) -> Outcome<()> {
        let (api, villa) = (self.api, self.villa);
        std::mem::forget(self);
        // SAFETY: the handle is live, and nobody uses it afterwards.
        let closed = unsafe { (api.vlclose)(villa.as_ptr()) };
        if closed == 0 { Err(files::full().unwrap_or_else(|| failure(api))) } else { Ok(()) }
    }

    /// As [`Handle::check`], but a missing key is not a failure.
    fn check_found(&self, found: c_int) -> Outcome<bool> {
        if found == 0 && code(self.api) == E_NO_ITEM {
            return Ok(false);
        }
        self.check(found).map(|()| true)
    }

    /// As [`Handle::check`] for writes.
    fn check_written(&self, done: c_int) -> Outcome<()> {
        match files::full() {
            Some(full) if done == 0 => Err(full),
            _ => self.check(done),
        }
    }

    fn check(&self, done: c_int) -> Outcome<()> {
        if done == 0 { Err(failure(self.api)) } else { Ok(()) }
    }
}

impl ReadPairs for Handle {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let mut len: c_int = 0;
        let (key, key_len) = parts(key)?;
        let villa = self.villa.as_ptr();
        // SAFETY: the handle is live; the key's bytes are `key_len`.
        let value = unsafe { (self.api.vlgetcache)(villa, key, key_len, &raw mut len) };
        if value.is_null() {
            return self.check_found(0);
        }
        // SAFETY: the library gives `len` bytes of a leaf in its cache, which stays as it is until
        // the handle is used again; `self` is borrowed until `visit` returns.
        visit(unsafe { slice(value, len) });
        Ok(true)
    }

    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Outcome<()> {
        let (api, villa) = (self.api, self.villa.as_ptr());
        let (start, start_len) = parts(prefix)?;
        // SAFETY: the handle is live; the prefix's bytes are `start_len`.
        let mut found = unsafe {
            match prefix {
                [] => (api.vlcurfirst)(villa),
                _ => (api.vlcurjump)(villa, start, start_len, FORWARD),
            }
        };
        while self.check_found(found)? {
            let (mut key_len, mut value_len) = (0, 0);
            // SAFETY: the handle is live.
            let (key, value) = unsafe {
                let key = (api.vlcurkeycache)(villa, &raw mut key_len);
                (key, (api.vlcurvalcache)(villa, &raw mut value_len))
            };
            if key.is_null() || value.is_null() {
                return self.check(0);
            }
            // SAFETY: both lie in the leaf that was used last, which stays in the cache until the
            // handle is used again; `self` is borrowed until `visit` returns.
            let (key, value) = unsafe { (slice(key, key_len), slice(value, value_len)) };
            if !key.starts_with(prefix) || !visit(key, value) {
                break;
            }
            // SAFETY: the handle is live.
            found = unsafe { (api.vlcurnext)(villa) };
        }
        Ok(())
    }
}

impl WritePairs for Handle {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let ((key, key_len), (value, value_len)) = (parts(key)?, parts(value)?);
        let villa = self.villa.as_ptr();
        // SAFETY: the handle is live; the lengths are those of the bytes, which are copied.
        let put = unsafe { (self.api.vlput)(villa, key, key_len, value, value_len, OVERWRITE) };
        self.check_written(put)
    }

    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        let (key, key_len) = parts(key)?;
        // SAFETY: the handle is live; the key's bytes are `key_len`.
        let deleted = unsafe { (self.api.vlout)(self.villa.as_ptr(), key, key_len) };
        match self.check_found(deleted) {
            Err(_) => self.check_written(deleted),
            Ok(_) => Ok(()),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and nobody uses it afterwards.
        unsafe { (self.api.vlclose)(self.villa.as_ptr()) };
    }
}

/// Turns an empty file into a hash table with this many buckets, in which a store can be created;
/// otherwise it has 32,749, of 4 bytes each.
pub(crate) fn prepare(api: &Api, path: &CStr, buckets: c_int) -> Outcome<()> {
    // SAFETY: the path ends with NUL.
    let depot = unsafe { (api.dpopen)(path.as_ptr(), WRITER | CREATE | NO_LOCK, buckets) };
    // SAFETY: the handle is live, and nobody uses it afterwards.
    match !depot.is_null() && unsafe { (api.dpclose)(depot) } != 0 {
        true => Ok(()),
        false => Err(failure(api)),
    }
}

/// Returns the version of the library.
pub(crate) fn version(api: &Api) -> String {
    // SAFETY: the variable points to a string of the library's own.
    let version = unsafe { CStr::from_ptr(*api.dpversion.address()) };
    version.to_string_lossy().into_owned()
}

/// Returns the error code of the last call of this thread.
fn code(api: &Api) -> c_int {
    // SAFETY: the address is that of a variable of this thread.
    unsafe { *(api.dpecodeptr)() }
}

fn failure(api: &Api) -> Failure {
    let last = io::Error::last_os_error();
    let code = code(api);
    // SAFETY: messages are strings of the library's own, for any code.
    let message = unsafe { CStr::from_ptr((api.dperrmsg)(code)) }.to_string_lossy();
    match code {
        // The code is precise only at the lowest level; reads and writes above it fail with
        // E_BROKEN or E_MISC.
        E_FATAL | E_BROKEN | E_NO_ITEM | E_READ | E_MISC => Failure::Damaged(message.into_owned()),
        _ => Failure::Io(io::Error::new(last.kind(), format!("{message}: {last}"))),
    }
}

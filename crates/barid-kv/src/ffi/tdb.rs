//! libtdb.
//!
//! A context is used by one thread at a time. The library keeps a list of all contexts of the
//! process without a lock, so that opening and closing takes a lock of this module.

#![expect(unsafe_code, reason = "calls libtdb, whose rules the header tdb.h tells")]

use std::any::Any;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use crate::Library;
use crate::ffi::bytes::slice;
use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::pairs::{ReadPairs, WritePairs};
use crate::kv::Visit;

/// The shared library and its Debian package.
pub(crate) static LIBRARY: Library = Library { names: &["libtdb.so.1"], package: "libtdb1" };

/// An open file; an opaque type.
#[repr(C)]
pub(crate) struct Context {
    _private: [u8; 0],
}

/// `TDB_DATA`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Data {
    dptr: *const u8,
    dsize: usize,
}

type Parser = unsafe extern "C" fn(Data, Data, *mut c_void) -> c_int;
type Traverse = unsafe extern "C" fn(*mut Context, Data, Data, *mut c_void) -> c_int;

crate::library::functions! {
    /// The part of libtdb that is used.
    pub(crate) struct Api("tdb", &LIBRARY) {
        tdb_open_ex: fn(
            *const c_char, c_int, c_int, c_int, c_uint, *const c_void, *const c_void,
        ) -> *mut Context,
        tdb_close: fn(*mut Context) -> c_int,
        tdb_fd: fn(*mut Context) -> c_int,
        tdb_error: fn(*mut Context) -> c_int,
        tdb_errorstr: fn(*mut Context) -> *const c_char,
        tdb_parse_record: fn(*mut Context, Data, Parser, *mut c_void) -> c_int,
        tdb_traverse_read: fn(*mut Context, Traverse, *mut c_void) -> c_int,
        tdb_store: fn(*mut Context, Data, Data, c_int) -> c_int,
        tdb_delete: fn(*mut Context, Data) -> c_int,
        tdb_transaction_start: fn(*mut Context) -> c_int,
        tdb_transaction_commit: fn(*mut Context) -> c_int,
        tdb_transaction_cancel: fn(*mut Context) -> c_int,
    }
}

const REPLACE: c_int = 1;
const INSERT: c_int = 2;
const NOLOCK: c_int = 4;
const NOSYNC: c_int = 64;
const INCOMPATIBLE_HASH: c_int = 2048;

const SUCCESS: c_int = 0;
const ERR_CORRUPT: c_int = 1;
const ERR_IO: c_int = 2;
const ERR_OOM: c_int = 4;
const ERR_EXISTS: c_int = 5;
const ERR_NOEXIST: c_int = 8;

/// The mode in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for changing it.
    Update {
        /// `true` if commits wait for the disk.
        sync: bool,
    },
    /// A new file with this many chains; it must not exist.
    Create {
        /// Chains over which keys are distributed.
        hash_size: u16,
    },
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Tdb {
    api: &'static Api,
    context: NonNull<Context>,
}

// SAFETY: nothing in a context belongs to the thread that opened it, and the list that contexts
// are in is changed under `opening` only.
unsafe impl Send for Tdb {}

fn opening() -> MutexGuard<'static, ()> {
    static OPENING: Mutex<()> = Mutex::new(());
    OPENING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Data {
    fn of(bytes: &[u8]) -> Self {
        Self { dptr: bytes.as_ptr(), dsize: bytes.len() }
    }

    /// Returns the bytes of the library as a slice.
    ///
    /// # Safety
    /// The bytes do not change during `'a`; the pointer is that of `dsize` bytes, or null.
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: the caller's promise.
        unsafe { slice(self.dptr, self.dsize) }
    }
}

/// The argument of a callback, and its result. Nothing may unwind through the library.
struct Call<F> {
    visit: F,
    panicked: Option<Box<dyn Any + Send>>,
}

impl<F> Call<F> {
    fn new(visit: F) -> Self {
        Self { visit, panicked: None }
    }

    /// Runs `call`, and returns `true` to continue.
    fn run(&mut self, call: impl FnOnce(&mut F) -> bool) -> bool {
        let visit = &mut self.visit;
        catch_unwind(AssertUnwindSafe(|| call(visit))).unwrap_or_else(|panicked| {
            self.panicked = Some(panicked);
            false
        })
    }

    fn finish(self) {
        if let Some(panicked) = self.panicked {
            resume_unwind(panicked);
        }
    }
}

type GetCall<'a> = Call<&'a mut dyn FnMut(&[u8])>;

unsafe extern "C" fn on_get(_key: Data, value: Data, call: *mut c_void) -> c_int {
    // SAFETY: `call` is the `GetCall` of `Tdb::get`, which nothing else uses meanwhile; the value
    // stays as it is until this function returns.
    let (call, value) = unsafe { (&mut *call.cast::<GetCall<'_>>(), value.bytes()) };
    call.run(|visit| {
        visit(value);
        true
    });
    0
}

type ScanCall<'a, 'b> = Call<&'a mut Visit<'b>>;

unsafe extern "C" fn on_scan(
    _context: *mut Context,
    key: Data,
    value: Data,
    call: *mut c_void,
) -> c_int {
    // SAFETY: `call` is the `ScanCall` of `Tdb::scan`, which nothing else uses meanwhile; key and
    // value stay as they are until this function returns.
    let (call, key, value) =
        unsafe { (&mut *call.cast::<ScanCall<'_, '_>>(), key.bytes(), value.bytes()) };
    c_int::from(!call.run(|visit| visit(key, value)))
}

impl Tdb {
    /// Opens a file. The library prints nothing: it gets no logging function.
    pub(crate) fn open(path: &CStr, mode: Mode) -> Outcome<Self> {
        let api = Api::get()?;
        let nosync = if mode == (Mode::Update { sync: true }) { 0 } else { NOSYNC };
        let (hash_size, open_flags) = match mode {
            Mode::Read => (0, OFlags::RDONLY),
            Mode::Update { .. } => (0, OFlags::RDWR),
            Mode::Create { hash_size } => {
                (c_int::from(hash_size), OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
            }
        };
        let flags = NOLOCK | nosync | INCOMPATIBLE_HASH;
        let open_flags = (open_flags | OFlags::CLOEXEC).bits() as c_int;
        let _opening = opening();
        // SAFETY: `path` ends with a zero, and null is allowed for the logging context and the
        // hash function. The library does not say why by the error number in all cases, so that
        // one from before must not be taken for it; `rustix` does not use the C library's number.
        let context = unsafe {
            let none = ptr::null();
            *libc::__errno_location() = 0;
            (api.tdb_open_ex)(path.as_ptr(), hash_size, flags, open_flags, 0o600, none, none)
        };
        let error = io::Error::last_os_error();
        let context = NonNull::new(context).ok_or_else(|| match error.raw_os_error() {
            Some(code) if code == 0 || code == Errno::IO.raw_os_error() => {
                Failure::Damaged("it does not open as a file of tdb".to_owned())
            }
            _ => Failure::Io(error),
        })?;
        Ok(Self { api, context })
    }

    /// Returns the cause of a failed read. The file is mapped, so that it cannot be a system call.
    fn read_failure(&self) -> Failure {
        match self.error() {
            (ERR_OOM, _) => Failure::Io(io::ErrorKind::OutOfMemory.into()),
            (_, text) => Failure::Damaged(text),
        }
    }

    fn write_failure(&self) -> Failure {
        let system = io::Error::last_os_error();
        match self.error() {
            // The library reports no reason if it cannot extend a file.
            (SUCCESS, _) => Failure::Io(io::ErrorKind::StorageFull.into()),
            _ if system.kind() == io::ErrorKind::StorageFull => Failure::Io(system),
            (ERR_OOM, _) => Failure::Io(io::ErrorKind::OutOfMemory.into()),
            (ERR_CORRUPT, text) => Failure::Damaged(text),
            (ERR_IO, _) if system.raw_os_error() != Some(0) => Failure::Io(system),
            // A short write is not an error to the system.
            (ERR_IO, _) => Failure::Io(io::ErrorKind::StorageFull.into()),
            (_, text) => Failure::Io(io::Error::other(text)),
        }
    }

    fn error(&self) -> (c_int, String) {
        // SAFETY: the context is open; the text is a constant of the library.
        unsafe {
            let text = CStr::from_ptr((self.api.tdb_errorstr)(self.context.as_ptr()));
            ((self.api.tdb_error)(self.context.as_ptr()), text.to_string_lossy().into_owned())
        }
    }

    fn is(&self, code: c_int) -> bool {
        // SAFETY: the context is open.
        unsafe { (self.api.tdb_error)(self.context.as_ptr()) == code }
    }

    fn done(&self, returned: c_int) -> Outcome<()> {
        if returned == 0 { Ok(()) } else { Err(self.write_failure()) }
    }

    /// Returns the pages of a range to the file system; they read as zeros from then on.
    pub(crate) fn punch(&mut self, offset: u64, len: u64) {
        // SAFETY: the context is open, and with it the descriptor.
        let file = unsafe { BorrowedFd::borrow_raw((self.api.tdb_fd)(self.context.as_ptr())) };
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // If that is not possible, the file keeps its size.
        let _ = rustix::fs::fallocate(file, how, offset, len);
    }

    /// Begins a transaction; all changes stay in memory until [`Tdb::commit`].
    pub(crate) fn begin(&mut self) -> Outcome<()> {
        // SAFETY: the context is open.
        self.done(unsafe { (self.api.tdb_transaction_start)(self.context.as_ptr()) })
    }

    /// Writes the changes since [`Tdb::begin`]; rolls them back on failure.
    pub(crate) fn commit(&mut self) -> Outcome<()> {
        // SAFETY: the context is open.
        self.done(unsafe { (self.api.tdb_transaction_commit)(self.context.as_ptr()) })
    }

    /// Drops the changes since [`Tdb::begin`].
    pub(crate) fn cancel(&mut self) {
        // SAFETY: the context is open.
        let _ = unsafe { (self.api.tdb_transaction_cancel)(self.context.as_ptr()) };
    }
}

impl ReadPairs for Tdb {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let mut call: GetCall<'_> = Call::new(visit);
        // SAFETY: the context is open, the key is only read, and `on_get` is given what it takes.
        let returned = unsafe {
            let call = (&raw mut call).cast();
            (self.api.tdb_parse_record)(self.context.as_ptr(), Data::of(key), on_get, call)
        };
        call.finish();
        match returned {
            0 => Ok(true),
            _ if self.is(ERR_NOEXIST) => Ok(false),
            _ => Err(self.read_failure()),
        }
    }

    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Outcome<()> {
        let mut visit = |key: &[u8], value: &[u8]| !key.starts_with(prefix) || visit(key, value);
        let mut call: ScanCall<'_, '_> = Call::new(&mut visit);
        // SAFETY: the context is open, and `on_scan` is given what it takes.
        let returned = unsafe {
            let call = (&raw mut call).cast();
            (self.api.tdb_traverse_read)(self.context.as_ptr(), on_scan, call)
        };
        call.finish();
        if returned < 0 { Err(self.read_failure()) } else { Ok(()) }
    }
}

impl WritePairs for Tdb {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        // The usual case first: an insertion searches for the key once, a replacement twice.
        let store = |how| {
            // SAFETY: the context is open; key and value are only read.
            unsafe {
                let (key, value) = (Data::of(key), Data::of(value));
                (self.api.tdb_store)(self.context.as_ptr(), key, value, how)
            }
        };
        if store(INSERT) == 0 {
            return Ok(());
        }
        if !self.is(ERR_EXISTS) {
            return Err(self.write_failure());
        }
        let returned = store(REPLACE);
        self.done(returned)
    }

    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        // SAFETY: the context is open; the key is only read.
        match unsafe { (self.api.tdb_delete)(self.context.as_ptr(), Data::of(key)) } {
            0 => Ok(()),
            _ if self.is(ERR_NOEXIST) => Ok(()),
            _ => Err(self.write_failure()),
        }
    }
}

impl Drop for Tdb {
    /// Closing a file writes nothing.
    fn drop(&mut self) {
        let _opening = opening();
        // SAFETY: the context is open, and is never used again.
        let _ = unsafe { (self.api.tdb_close)(self.context.as_ptr()) };
    }
}

//! libgdbm.
//!
//! No function for fatal errors is passed; without one the library neither prints nor exits, but
//! returns an error. A handle is used by one thread at a time, and the handles of the library share
//! no state except an error number for each thread.

#![expect(unsafe_code, reason = "calls libgdbm, whose rules the header gdbm.h tells")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::OFlags;
use rustix::io::{DupFlags, Errno};

use crate::Library;
use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::pairs::{ReadPairs, WritePairs};
use crate::kv::Visit;

/// The shared library and its Debian package.
pub(crate) static LIBRARY: Library = Library { names: &["libgdbm.so.6"], package: "libgdbm6" };

/// An open file; an opaque type.
#[repr(C)]
pub(crate) struct File {
    _private: [u8; 0],
}

/// `datum`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Datum {
    dptr: *mut c_char,
    dsize: c_int,
}

type OnFatal = Option<unsafe extern "C" fn(*const c_char)>;

crate::library::functions! {
    /// The part of libgdbm that is used.
    pub(crate) struct Api("gdbm", &LIBRARY) {
        gdbm_open: fn(*const c_char, c_int, c_int, c_int, OnFatal) -> *mut File,
        gdbm_close: fn(*mut File) -> c_int,
        gdbm_store: fn(*mut File, Datum, Datum, c_int) -> c_int,
        gdbm_fetch: fn(*mut File, Datum) -> Datum,
        gdbm_delete: fn(*mut File, Datum) -> c_int,
        gdbm_firstkey: fn(*mut File) -> Datum,
        gdbm_nextkey: fn(*mut File, Datum) -> Datum,
        gdbm_setopt: fn(*mut File, c_int, *mut c_void, c_int) -> c_int,
        gdbm_fdesc: fn(*mut File) -> c_int,
        gdbm_errno_location: fn() -> *mut c_int,
        gdbm_strerror: fn(c_int) -> *const c_char,
        gdbm_check_syserr: fn(c_int) -> c_int,
    } variables {
        gdbm_version_number: [c_int; 3],
    }
}

const READER: c_int = 0;
const WRITER: c_int = 1;
const NEWDB: c_int = 3;
const NOLOCK: c_int = 0x40;
const NOMMAP: c_int = 0x80;
const CLOEXEC: c_int = 0x100;
const BSEXACT: c_int = 0x200;
const REPLACE: c_int = 1;
const SETCACHESIZE: c_int = 1;

const MALLOC_ERROR: c_int = 1;
const FILE_OPEN_ERROR: c_int = 3;
const FILE_SYNC_ERROR: c_int = 38;
const ITEM_NOT_FOUND: c_int = 15;

/// The options for opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// `true` to open the file for writing.
    pub(crate) write: bool,
    /// Bytes of a block, a power of two, to create the file; an existing one is replaced.
    pub(crate) create: Option<u16>,
    /// Buckets of keys that are cached in memory.
    pub(crate) cache_len: c_int,
    /// `true` to map the file into memory.
    pub(crate) map: bool,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Gdbm {
    api: &'static Api,
    file: NonNull<File>,
    write: bool,
}

// SAFETY: nothing in a handle belongs to the thread that opened it.
unsafe impl Send for Gdbm {}

/// Bytes that the library allocated for the caller; freed when dropped.
struct Given(Datum);

impl Given {
    fn bytes(&self) -> &[u8] {
        let len = usize::try_from(self.0.dsize).unwrap_or(0);
        // SAFETY: the library gives a pointer of `dsize` bytes that are ours; not null, for those
        // are never made `Given`.
        unsafe { std::slice::from_raw_parts(self.0.dptr.cast(), len) }
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        // SAFETY: the header says that it was allocated by `malloc` and is the caller's to free.
        unsafe { free(self.0.dptr.cast()) };
    }
}

unsafe extern "C" {
    fn free(pointer: *mut c_void);
}

/// Returns the version of the library.
pub(crate) fn version() -> crate::Result<String> {
    let api = Api::get()?;
    // SAFETY: a constant array of three.
    let [major, minor, patch] = unsafe { *api.gdbm_version_number.address() };
    Ok(format!("{major}.{minor}.{patch}"))
}

/// Returns the bytes in the library's form; it changes nothing behind the pointer. The pointer is
/// not null even for no bytes: null would mean that there is no value.
fn datum(bytes: &[u8]) -> Datum {
    Datum { dptr: bytes.as_ptr().cast_mut().cast(), dsize: bytes.len() as c_int }
}

impl Gdbm {
    /// Opens a file.
    pub(crate) fn open(path: &CStr, options: Options) -> Outcome<Self> {
        let api = Api::get()?;
        let how = match (options.create, options.write) {
            (Some(_), _) => NEWDB | BSEXACT,
            (None, true) => WRITER,
            (None, false) => READER,
        };
        let map = if options.map { 0 } else { NOMMAP };
        let (block_len, flags) = (options.create.unwrap_or(0), how | NOLOCK | CLOEXEC | map);
        // SAFETY: `path` ends with a zero; no function for fatal errors is allowed.
        let file =
            unsafe { (api.gdbm_open)(path.as_ptr(), c_int::from(block_len), flags, 0o600, None) };
        let file = NonNull::new(file).ok_or_else(|| failure(api))?;
        let gdbm = Self { api, file, write: options.write };
        gdbm.set(SETCACHESIZE, options.cache_len)?;
        Ok(gdbm)
    }

    fn set(&self, option: c_int, mut value: c_int) -> Outcome<()> {
        let size = size_of::<c_int>() as c_int;
        // SAFETY: the handle is open, and the options used take an `int`.
        let returned = unsafe {
            let value = (&raw mut value).cast();
            (self.api.gdbm_setopt)(self.file.as_ptr(), option, value, size)
        };
        if returned == 0 { Ok(()) } else { Err(failure(self.api)) }
    }

    fn given(&self, given: Datum) -> Outcome<Option<Given>> {
        match given.dptr.is_null() {
            false => Ok(Some(Given(given))),
            true if code(self.api) == ITEM_NOT_FOUND => Ok(None),
            true => Err(failure(self.api)),
        }
    }

    fn fetch(&mut self, key: &[u8]) -> Outcome<Option<Given>> {
        // SAFETY: the handle is open; the key is only read.
        self.given(unsafe { (self.api.gdbm_fetch)(self.file.as_ptr(), datum(key)) })
    }
}

impl ReadPairs for Gdbm {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.fetch(key)?;
        if let Some(value) = &value {
            visit(value.bytes());
        }
        Ok(value.is_some())
    }

    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Outcome<()> {
        // SAFETY: the handle is open.
        let mut next = self.given(unsafe { (self.api.gdbm_firstkey)(self.file.as_ptr()) })?;
        while let Some(key) = next {
            if key.bytes().starts_with(prefix) {
                let lost = || Failure::Damaged("a key without a value".to_owned());
                let value = self.fetch(key.bytes())?.ok_or_else(lost)?;
                if !visit(key.bytes(), value.bytes()) {
                    return Ok(());
                }
            }
            // SAFETY: the handle is open; the key is only read.
            let found = unsafe { (self.api.gdbm_nextkey)(self.file.as_ptr(), key.0) };
            next = self.given(found)?;
        }
        Ok(())
    }
}

impl WritePairs for Gdbm {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let (key, value) = (datum(key), datum(value));
        // SAFETY: the handle is open; key and value are only read.
        match unsafe { (self.api.gdbm_store)(self.file.as_ptr(), key, value, REPLACE) } {
            0 => Ok(()),
            _ => Err(failure(self.api)),
        }
    }

    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        // SAFETY: the handle is open; the key is only read.
        match unsafe { (self.api.gdbm_delete)(self.file.as_ptr(), datum(key)) } {
            0 => Ok(()),
            _ if code(self.api) == ITEM_NOT_FOUND => Ok(()),
            _ => Err(failure(self.api)),
        }
    }
}

impl Drop for Gdbm {
    /// All changes are already written to the system; closing would only wait for the disk, which a
    /// cache does not need. So the library's descriptor is replaced by one that cannot be waited
    /// for.
    fn drop(&mut self) {
        if self.write {
            // SAFETY: the handle is open; its descriptor is the library's, which closes what it
            // has been replaced with instead.
            let mut descriptor = unsafe {
                let number = (self.api.gdbm_fdesc)(self.file.as_ptr());
                ManuallyDrop::new(OwnedFd::from_raw_fd(number))
            };
            let null = rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, 0.into());
            let _ = null.map(|null| rustix::io::dup3(null, &mut descriptor, DupFlags::CLOEXEC));
        }
        // SAFETY: the handle is open, and is never used again.
        unsafe { (self.api.gdbm_close)(self.file.as_ptr()) };
    }
}

fn code(api: &Api) -> c_int {
    // SAFETY: the address of this thread's error number, always there.
    unsafe { *(api.gdbm_errno_location)() }
}

fn failure(api: &Api) -> Failure {
    const INVALID: c_int = Errno::INVAL.raw_os_error();
    let system = io::Error::last_os_error();
    let code = code(api);
    // SAFETY: takes any number; the text is a constant of the library.
    let (of_system, text) = unsafe {
        let text = CStr::from_ptr((api.gdbm_strerror)(code)).to_string_lossy().into_owned();
        ((api.gdbm_check_syserr)(code) != 0, text)
    };
    match code {
        MALLOC_ERROR => Failure::Io(io::ErrorKind::OutOfMemory.into()),
        // An invalid argument is an offset that comes from the file.
        _ if of_system && ![Some(0), Some(INVALID)].contains(&system.raw_os_error()) => {
            Failure::Io(system)
        }
        FILE_OPEN_ERROR | FILE_SYNC_ERROR => Failure::Io(io::Error::other(text)),
        _ => Failure::Damaged(text),
    }
}

//! Kyoto Cabinet's B+ tree in a file, through its interface for C (kclangc.h).

#![expect(unsafe_code, reason = "calls libkyotocabinet")]
#![expect(non_snake_case, reason = "the library names its variables so")]

use std::any::Any;
use std::ffi::{CStr, c_char, c_void};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use crate::Library;
use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::pairs::{ReadPairs, WritePairs};
use crate::kv::Visit;

/// The shared library and its Debian package.
pub(crate) static LIBRARY: Library =
    Library { names: &["libkyotocabinet.so.16"], package: "libkyotocabinet16v5" };

/// `KCDB`.
#[repr(C)]
pub(crate) struct Db {
    _opaque: [u8; 0],
}

/// `KCCUR`.
#[repr(C)]
pub(crate) struct Cursor {
    _opaque: [u8; 0],
}

/// `KCVISITFULL`: gets a pair, and returns what to do with it.
type Full = unsafe extern "C" fn(
    *const c_char,
    usize,
    *const c_char,
    usize,
    *mut usize,
    *mut c_void,
) -> *const c_char;
/// `KCVISITEMPTY`.
type Empty = unsafe extern "C" fn(*const c_char, usize, *mut usize, *mut c_void) -> *const c_char;

crate::library::functions! {
    /// The part of libkyotocabinet that is used.
    pub(crate) struct Api("kyotocabinet", &LIBRARY) {
        kcdbnew: fn() -> *mut Db,
        kcdbdel: fn(*mut Db),
        kcdbopen: fn(*mut Db, *const c_char, u32) -> i32,
        kcdbclose: fn(*mut Db) -> i32,
        kcdbecode: fn(*mut Db) -> i32,
        kcdbemsg: fn(*mut Db) -> *const c_char,
        kcdbaccept: fn(
            *mut Db, *const c_char, usize, Full, Option<Empty>, *mut c_void, i32,
        ) -> i32,
        kcdbset: fn(*mut Db, *const c_char, usize, *const c_char, usize) -> i32,
        kcdbremove: fn(*mut Db, *const c_char, usize) -> i32,
        kcdbbegintran: fn(*mut Db, i32) -> i32,
        kcdbendtran: fn(*mut Db, i32) -> i32,
        kcdbcursor: fn(*mut Db) -> *mut Cursor,
        kccurdel: fn(*mut Cursor),
        kccurjump: fn(*mut Cursor) -> i32,
        kccurjumpkey: fn(*mut Cursor, *const c_char, usize) -> i32,
        kccuraccept: fn(*mut Cursor, Full, *mut c_void, i32, i32) -> i32,
    } variables {
        KCVERSION: *const c_char,
        KCVISNOP: *const c_char,
    }
}

/// The mode in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// For reading; the library takes no lock and repairs nothing.
    Read,
    /// As `Read`, but for changing an existing store.
    Update,
    /// As `Update`; an empty file becomes a store.
    Create,
    /// For changing an existing store; first rolls back the transaction of a killed writer.
    Recover,
}

const READER: u32 = 1;
const WRITER: u32 = 1 << 1;
const CREATE: u32 = 1 << 2;
const NO_LOCK: u32 = 1 << 6;
const TRY_LOCK: u32 = 1 << 7;
const NO_REPAIR: u32 = 1 << 8;

// kclangc.h, `KCENOREPOS` and so on.
const E_NO_FILE: i32 = 3;
const E_NO_PERMISSION: i32 = 4;
const E_NO_RECORD: i32 = 7;
const E_SYSTEM: i32 = 9;

/// An open store.
#[derive(Debug)]
pub(crate) struct Handle {
    api: &'static Api,
    db: NonNull<Db>,
    /// Made at the first scan.
    cursor: Option<NonNull<Cursor>>,
}

// SAFETY: the library is made for threads: an object may be used by any of them.
unsafe impl Send for Handle {}

/// The argument of a visitor of the library.
struct Show<'a> {
    visit: &'a mut dyn FnMut(&[u8], &[u8]) -> bool,
    /// The value `KCVISNOP`: leave the pair unchanged.
    nothing: *const c_char,
    shown: bool,
    go_on: bool,
    panic: Option<Box<dyn Any + Send>>,
}

impl<'a> Show<'a> {
    fn new(api: &Api, visit: &'a mut dyn FnMut(&[u8], &[u8]) -> bool) -> Self {
        // SAFETY: the variable is a pointer that never changes.
        let nothing = unsafe { *api.KCVISNOP.address() };
        Self { visit, nothing, shown: false, go_on: true, panic: None }
    }

    fn opaque(&mut self) -> *mut c_void {
        (&raw mut *self).cast()
    }
}

/// Passes a pair to the visitor.
///
/// # Safety
/// `show` comes from [`Show::opaque`] and is used by nothing else meanwhile; the other arguments
/// are a key and a value.
unsafe extern "C" fn show(
    key: *const c_char,
    key_len: usize,
    value: *const c_char,
    value_len: usize,
    _: *mut usize,
    show: *mut c_void,
) -> *const c_char {
    // SAFETY: the caller's promise.
    let (show, key, value) = unsafe {
        let key = std::slice::from_raw_parts(key.cast::<u8>(), key_len);
        let value = std::slice::from_raw_parts(value.cast::<u8>(), value_len);
        (&mut *show.cast::<Show<'_>>(), key, value)
    };
    show.shown = true;
    // A panic must not go through the library.
    match catch_unwind(AssertUnwindSafe(|| (show.visit)(key, value))) {
        Ok(go_on) => show.go_on = go_on,
        Err(panic) => {
            show.go_on = false;
            show.panic = Some(panic);
        }
    }
    show.nothing
}

impl Handle {
    /// Opens a file whose head the caller has checked. `name` is its path and the tuning.
    pub(crate) fn open(api: &'static Api, name: &CStr, mode: Mode) -> Outcome<Self> {
        // SAFETY: no precondition.
        let db = NonNull::new(unsafe { (api.kcdbnew)() });
        let db = db.ok_or_else(|| Failure::Io(io::ErrorKind::OutOfMemory.into()))?;
        let handle = Self { api, db, cursor: None };
        let how = match mode {
            Mode::Read => READER | NO_LOCK | NO_REPAIR,
            Mode::Update => WRITER | NO_LOCK | NO_REPAIR,
            Mode::Create => WRITER | CREATE | NO_LOCK | NO_REPAIR,
            Mode::Recover => WRITER | TRY_LOCK | NO_REPAIR,
        };
        // SAFETY: the object is live and not open; the name ends with NUL.
        let opened = unsafe { (api.kcdbopen)(db.as_ptr(), name.as_ptr(), how) };
        handle.check(opened)?;
        Ok(handle)
    }

    fn cursor(&mut self) -> Outcome<*mut Cursor> {
        if self.cursor.is_none() {
            // SAFETY: the object is live, and outlives the cursor: `Drop` deletes that first.
            self.cursor = NonNull::new(unsafe { (self.api.kcdbcursor)(self.db.as_ptr()) });
        }
        let cursor = self.cursor.ok_or_else(|| Failure::Io(io::ErrorKind::OutOfMemory.into()))?;
        Ok(cursor.as_ptr())
    }

    /// Begins a transaction; `sync` to write its end to stable storage.
    pub(crate) fn begin(&mut self, sync: bool) -> Outcome<()> {
        // SAFETY: the object is live.
        let begun = unsafe { (self.api.kcdbbegintran)(self.db.as_ptr(), i32::from(sync)) };
        self.check(begun)
    }

    /// Ends a transaction: commits it, or rolls it back.
    pub(crate) fn end(&mut self, commit: bool) -> Outcome<()> {
        // SAFETY: the object is live.
        let ended = unsafe { (self.api.kcdbendtran)(self.db.as_ptr(), i32::from(commit)) };
        self.check(ended)
    }

    /// Writes cached changes, and closes the file.
    pub(crate) fn close(mut self) -> Outcome<()> {
        self.drop_cursor();
        // SAFETY: the object is live; `Drop` deletes it afterwards, as is right for a closed one.
        let closed = unsafe { (self.api.kcdbclose)(self.db.as_ptr()) };
        self.check(closed)
    }

    fn drop_cursor(&mut self) {
        if let Some(cursor) = self.cursor.take() {
            // SAFETY: it is live, and nobody uses it afterwards.
            unsafe { (self.api.kccurdel)(cursor.as_ptr()) };
        }
    }

    fn code(&self) -> i32 {
        // SAFETY: the object is live.
        unsafe { (self.api.kcdbecode)(self.db.as_ptr()) }
    }

    /// As [`Handle::check`] for reading: a missing key is not a failure, and unreadable data is
    /// damage.
    fn check_read(&self, done: i32) -> Outcome<bool> {
        match self.check(done) {
            Ok(()) => Ok(true),
            Err(_) if self.code() == E_NO_RECORD => Ok(false),
            Err(Failure::Io(error)) => Err(Failure::Damaged(error.to_string())),
            Err(failure) => Err(failure),
        }
    }

    fn check(&self, done: i32) -> Outcome<()> {
        if done != 0 {
            return Ok(());
        }
        let last = io::Error::last_os_error();
        // SAFETY: the object is live; its message is a string that stays until the next call.
        let message = unsafe { CStr::from_ptr((self.api.kcdbemsg)(self.db.as_ptr())) };
        let message = message.to_string_lossy();
        Err(match self.code() {
            E_NO_FILE => Failure::Io(io::ErrorKind::NotFound.into()),
            E_NO_PERMISSION => Failure::Io(io::ErrorKind::PermissionDenied.into()),
            E_SYSTEM => Failure::Io(io::Error::new(last.kind(), format!("{message}: {last}"))),
            _ => Failure::Damaged(message.into_owned()),
        })
    }
}

impl ReadPairs for Handle {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let mut visit = |_: &[u8], value: &[u8]| {
            visit(value);
            true
        };
        let mut shown = Show::new(self.api, &mut visit);
        let (key, key_len, db) = (key.as_ptr().cast(), key.len(), self.db.as_ptr());
        // SAFETY: the object is live; the key's bytes are `key_len`; `show` gets what it is for.
        let done =
            unsafe { (self.api.kcdbaccept)(db, key, key_len, show, None, shown.opaque(), 0) };
        if let Some(panic) = shown.panic {
            resume_unwind(panic);
        }
        let shown = shown.shown;
        self.check_read(done).map(|there| there && shown)
    }

    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Outcome<()> {
        let api = self.api;
        let cursor = self.cursor()?;
        // SAFETY: the cursor is live; the length is that of the prefix.
        let mut done = unsafe {
            match prefix {
                [] => (api.kccurjump)(cursor),
                _ => (api.kccurjumpkey)(cursor, prefix.as_ptr().cast(), prefix.len()),
            }
        };
        let mut visit = |key: &[u8], value: &[u8]| key.starts_with(prefix) && visit(key, value);
        let mut shown = Show::new(api, &mut visit);
        while self.check_read(done)? && shown.go_on {
            // SAFETY: the cursor is live; `show` gets what it is for.
            done = unsafe { (api.kccuraccept)(cursor, show, shown.opaque(), 0, 1) };
        }
        match shown.panic {
            Some(panic) => resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl WritePairs for Handle {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let (key, key_len) = (key.as_ptr().cast(), key.len());
        let (value, value_len) = (value.as_ptr().cast(), value.len());
        // SAFETY: the object is live; the lengths are those of the bytes, which are copied.
        let put = unsafe { (self.api.kcdbset)(self.db.as_ptr(), key, key_len, value, value_len) };
        self.check(put)
    }

    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        let (key, key_len, db) = (key.as_ptr().cast(), key.len(), self.db.as_ptr());
        // SAFETY: the object is live; the key's bytes are `key_len`.
        let removed = unsafe { (self.api.kcdbremove)(db, key, key_len) };
        if removed == 0 && self.code() == E_NO_RECORD { Ok(()) } else { self.check(removed) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.drop_cursor();
        // SAFETY: the object is live, and nobody uses it afterwards; it closes its file if that is
        // open.
        unsafe { (self.api.kcdbdel)(self.db.as_ptr()) };
    }
}

/// Returns the version of the library.
pub(crate) fn version(api: &Api) -> String {
    // SAFETY: the variable points to a string of the library's own.
    let version = unsafe { CStr::from_ptr(*api.KCVERSION.address()) };
    version.to_string_lossy().into_owned()
}

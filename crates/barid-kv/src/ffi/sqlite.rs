//! SQLite (sqlite3.h): the table in which bogofilter stores its word list.

#![expect(unsafe_code, reason = "calls libsqlite3")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::pairs::{ReadPairs, WritePairs};
use crate::kv::Visit;
use crate::limits::{KEY_LEN_MAX, SQLITE_WAIT_MAX, VALUE_LEN_MAX};
use crate::{Error, Library};

/// The shared library and its Debian package.
pub(crate) static LIBRARY: Library =
    Library { names: &["libsqlite3.so.0"], package: "libsqlite3-0" };

/// `sqlite3`.
#[repr(C)]
pub(crate) struct Db {
    _opaque: [u8; 0],
}

/// `sqlite3_stmt`.
#[repr(C)]
pub(crate) struct Stmt {
    _opaque: [u8; 0],
}

type Callback =
    unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
type Destructor = unsafe extern "C" fn(*mut c_void);

crate::library::functions! {
    /// The part of libsqlite3 that is used.
    pub(crate) struct Api("sqlite", &LIBRARY) {
        sqlite3_libversion: fn() -> *const c_char,
        sqlite3_threadsafe: fn() -> c_int,
        sqlite3_open_v2: fn(*const c_char, *mut *mut Db, c_int, *const c_char) -> c_int,
        sqlite3_close_v2: fn(*mut Db) -> c_int,
        sqlite3_busy_timeout: fn(*mut Db, c_int) -> c_int,
        sqlite3_limit: fn(*mut Db, c_int, c_int) -> c_int,
        sqlite3_exec:
            fn(*mut Db, *const c_char, Option<Callback>, *mut c_void, *mut *mut c_char) -> c_int,
        sqlite3_errmsg: fn(*mut Db) -> *const c_char,
        sqlite3_system_errno: fn(*mut Db) -> c_int,
        sqlite3_get_autocommit: fn(*mut Db) -> c_int,
        sqlite3_prepare_v2:
            fn(*mut Db, *const c_char, c_int, *mut *mut Stmt, *mut *const c_char) -> c_int,
        sqlite3_bind_blob: fn(*mut Stmt, c_int, *const c_void, c_int, Option<Destructor>) -> c_int,
        sqlite3_step: fn(*mut Stmt) -> c_int,
        sqlite3_column_type: fn(*mut Stmt, c_int) -> c_int,
        sqlite3_column_blob: fn(*mut Stmt, c_int) -> *const c_void,
        sqlite3_column_bytes: fn(*mut Stmt, c_int) -> c_int,
        sqlite3_reset: fn(*mut Stmt) -> c_int,
        sqlite3_clear_bindings: fn(*mut Stmt) -> c_int,
        sqlite3_finalize: fn(*mut Stmt) -> c_int,
    }
}

const OK: c_int = 0;
const PERM: c_int = 3;
const BUSY: c_int = 5;
const LOCKED: c_int = 6;
const NO_MEMORY: c_int = 7;
const READ_ONLY: c_int = 8;
const IO: c_int = 10;
const FULL: c_int = 13;
const CANNOT_OPEN: c_int = 14;
const PROTOCOL: c_int = 15;
const AUTH: c_int = 23;
const ROW: c_int = 100;
const DONE: c_int = 101;

const OPEN_READ_WRITE: c_int = 2;
const OPEN_NO_MUTEX: c_int = 0x8000;
const OPEN_PRIVATE_CACHE: c_int = 0x4_0000;
const LIMIT_LENGTH: c_int = 0;
const BLOB: c_int = 4;

/// Bytes that a row may need in addition to key and value.
const ROW_SLACK: usize = 64;

/// Settings for every file: its content is not trusted.
const CAREFUL: &CStr = c"PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;";

/// The statements that run with keys and values.
#[derive(Clone, Copy, Debug)]
enum Sql {
    HasTable,
    Get,
    Scan,
    Put,
    Delete,
}

impl Sql {
    const COUNT: usize = 5;

    fn text(self) -> &'static CStr {
        match self {
            // An entry without a root page is a view, or was made by a program.
            Self::HasTable => {
                c"SELECT 1 FROM sqlite_master
                  WHERE type = 'table' AND name = 'bogofilter' AND rootpage > 0"
            }
            Self::Get => c"SELECT value FROM bogofilter WHERE key = ?1 LIMIT 1",
            // Values of all other types sort before blobs.
            Self::Scan => c"SELECT key, value FROM bogofilter WHERE key >= ?1 ORDER BY key",
            Self::Put => c"INSERT OR REPLACE INTO bogofilter (key, value) VALUES (?1, ?2)",
            Self::Delete => c"DELETE FROM bogofilter WHERE key = ?1",
        }
    }
}

/// An open database.
#[derive(Debug)]
pub(crate) struct Handle {
    api: &'static Api,
    db: NonNull<Db>,
    /// Prepared on first use.
    statements: [Option<NonNull<Stmt>>; Sql::COUNT],
}

// SAFETY: the library is one that is safe with threads (`open` looks), and a connection without a
// mutex may be used by any thread, one at a time; `&mut self` sees to that.
unsafe impl Send for Handle {}

impl Handle {
    /// Opens an existing file, and waits for other users of it from then on. A file that is not
    /// writable is opened for reading; the first transaction rolls back the unfinished one of a
    /// killed writer.
    pub(crate) fn open(api: &'static Api, path: &CStr) -> Outcome<Self> {
        // SAFETY: no precondition.
        if unsafe { (api.sqlite3_threadsafe)() } == 0 {
            let why = "libsqlite3 was built without thread safety".to_owned();
            return Err(Failure::Complete(Error::Unavailable { store: "sqlite", why }));
        }
        let mut db = ptr::null_mut();
        let how = OPEN_READ_WRITE | OPEN_NO_MUTEX | OPEN_PRIVATE_CACHE;
        // SAFETY: the path ends with NUL; `db` takes the address of a connection, also if it fails.
        let code = unsafe { (api.sqlite3_open_v2)(path.as_ptr(), &raw mut db, how, ptr::null()) };
        let db = NonNull::new(db).ok_or(Failure::Io(io::ErrorKind::OutOfMemory.into()))?;
        let mut handle = Self { api, db, statements: [None; Sql::COUNT] };
        handle.check(code)?;
        let wait = c_int::try_from(SQLITE_WAIT_MAX.as_millis()).unwrap_or(c_int::MAX);
        let len_max = (KEY_LEN_MAX + VALUE_LEN_MAX + ROW_SLACK) as c_int;
        // SAFETY: the connection is live.
        let code = unsafe {
            (api.sqlite3_limit)(db.as_ptr(), LIMIT_LENGTH, len_max);
            (api.sqlite3_busy_timeout)(db.as_ptr(), wait)
        };
        handle.check(code)?;
        handle.execute(CAREFUL)?;
        Ok(handle)
    }

    /// Runs statements without parameters and results.
    pub(crate) fn execute(&mut self, sql: &CStr) -> Outcome<()> {
        let (db, nothing) = (self.db.as_ptr(), ptr::null_mut());
        // SAFETY: the connection is live; the text ends with NUL; no callback, so nothing for it.
        let code =
            unsafe { (self.api.sqlite3_exec)(db, sql.as_ptr(), None, nothing, ptr::null_mut()) };
        self.check(code)
    }

    /// Returns `true` if a transaction is open.
    pub(crate) fn in_transaction(&self) -> bool {
        // SAFETY: the connection is live.
        unsafe { (self.api.sqlite3_get_autocommit)(self.db.as_ptr()) == 0 }
    }

    /// Returns `true` if the table `bogofilter` exists.
    pub(crate) fn has_table(&mut self) -> Outcome<bool> {
        self.run(Sql::HasTable, &[])?.step()
    }

    /// Starts a statement with its parameters.
    fn run<'a>(&'a mut self, sql: Sql, takes: &[&'a [u8]]) -> Outcome<Running<'a>> {
        let statement = self.statement(sql)?;
        let running = Running { handle: self, statement, takes: PhantomData };
        for (nth, bytes) in (1..).zip(takes) {
            let len = c_int::try_from(bytes.len());
            let len = len.map_err(|_| Failure::Io(io::ErrorKind::InvalidInput.into()))?;
            let stmt = statement.as_ptr();
            // SAFETY: the statement is live and not being run: `Running` resets it. The bytes are
            // `len`, and are borrowed until `Running` is dropped, which unbinds them.
            let code = unsafe {
                (running.handle.api.sqlite3_bind_blob)(stmt, nth, bytes.as_ptr().cast(), len, None)
            };
            running.handle.check(code)?;
        }
        Ok(running)
    }

    fn statement(&mut self, sql: Sql) -> Outcome<NonNull<Stmt>> {
        if let Some(made) = self.statements[sql as usize] {
            return Ok(made);
        }
        let (db, text) = (self.db.as_ptr(), sql.text().as_ptr());
        let mut made = ptr::null_mut();
        // SAFETY: the connection is live; the text ends with NUL, up to which -1 says to read.
        let code =
            unsafe { (self.api.sqlite3_prepare_v2)(db, text, -1, &raw mut made, ptr::null_mut()) };
        self.check(code)?;
        let made = NonNull::new(made);
        self.statements[sql as usize] = made;
        made.ok_or_else(|| Failure::Damaged("no statement".to_owned()))
    }

    fn check(&self, code: c_int) -> Outcome<()> {
        if code == OK {
            return Ok(());
        }
        let db = self.db.as_ptr();
        // SAFETY: the connection is live; the message is a string that is copied before the next
        // call.
        let (message, errno) = unsafe {
            let message = CStr::from_ptr((self.api.sqlite3_errmsg)(db)).to_string_lossy();
            (message.into_owned(), (self.api.sqlite3_system_errno)(db))
        };
        let io = |kind, message| Err(Failure::Io(io::Error::new(kind, message)));
        // The rest of the number is more detailed than needed.
        match code & 0xff {
            BUSY | LOCKED => Err(Failure::Busy),
            PERM | READ_ONLY | AUTH => io(io::ErrorKind::PermissionDenied, message),
            NO_MEMORY => io(io::ErrorKind::OutOfMemory, message),
            FULL => io(io::ErrorKind::StorageFull, message),
            IO | CANNOT_OPEN | PROTOCOL if errno != 0 => {
                let system = io::Error::from_raw_os_error(errno);
                io(system.kind(), format!("{message}: {system}"))
            }
            IO | CANNOT_OPEN | PROTOCOL => io(io::ErrorKind::Other, message),
            _ => Err(Failure::Damaged(message)),
        }
    }
}

impl ReadPairs for Handle {
    /// Passes no bytes if the value is not a blob.
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let mut running = self.run(Sql::Get, &[key])?;
        let found = running.step()?;
        if found {
            visit(running.column(0));
        }
        Ok(found)
    }

    /// Skips keys that are not blobs.
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Outcome<()> {
        let mut running = self.run(Sql::Scan, &[prefix])?;
        while running.step()? {
            let key = running.column(0);
            if !key.starts_with(prefix) || !visit(key, running.column(1)) {
                break;
            }
        }
        Ok(())
    }
}

impl WritePairs for Handle {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.run(Sql::Put, &[key, value])?.step().map(drop)
    }

    fn delete(&mut self, key: &[u8]) -> Outcome<()> {
        self.run(Sql::Delete, &[key])?.step().map(drop)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: all are live and used by nobody afterwards, the statements first. What is open
        // of a transaction is taken back.
        unsafe {
            for statement in self.statements.iter().flatten() {
                (self.api.sqlite3_finalize)(statement.as_ptr());
            }
            (self.api.sqlite3_close_v2)(self.db.as_ptr());
        }
    }
}

/// A statement that is running with parameters of `'a`; it is reset when dropped.
struct Running<'a> {
    handle: &'a Handle,
    statement: NonNull<Stmt>,
    takes: PhantomData<&'a [u8]>,
}

impl Running<'_> {
    /// Advances to the next row, or runs the statement to its end. Returns `true` if there is a
    /// row.
    fn step(&mut self) -> Outcome<bool> {
        // SAFETY: the statement is live, and what is bound to it is borrowed.
        match unsafe { (self.handle.api.sqlite3_step)(self.statement.as_ptr()) } {
            ROW => Ok(true),
            DONE => Ok(false),
            code => self.handle.check(code).map(|()| false),
        }
    }

    /// Returns the bytes of a column of the row; no bytes if it is not a blob.
    fn column(&self, nth: c_int) -> &[u8] {
        let (api, stmt) = (self.handle.api, self.statement.as_ptr());
        // SAFETY: the statement is live and at a row. A blob is not converted, so that its length
        // is that of the bytes, which stay as they are until the next step: that borrows `self`
        // mutably.
        unsafe {
            if (api.sqlite3_column_type)(stmt, nth) != BLOB {
                return &[];
            }
            let bytes: *const u8 = (api.sqlite3_column_blob)(stmt, nth).cast();
            let len = usize::try_from((api.sqlite3_column_bytes)(stmt, nth)).unwrap_or(0);
            if bytes.is_null() { &[] } else { std::slice::from_raw_parts(bytes, len) }
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let (api, stmt) = (self.handle.api, self.statement.as_ptr());
        // SAFETY: the statement is live. Both repeat the error of the last step.
        unsafe {
            (api.sqlite3_reset)(stmt);
            (api.sqlite3_clear_bindings)(stmt);
        }
    }
}

/// Returns the version of the library.
pub(crate) fn version(api: &Api) -> String {
    // SAFETY: a string of the library's own.
    unsafe { CStr::from_ptr((api.sqlite3_libversion)()) }.to_string_lossy().into_owned()
}

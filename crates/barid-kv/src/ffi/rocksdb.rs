//! librocksdb, through its interface for C.
//!
//! Several threads may use a database at once; barid does not use that. The library's own threads
//! write tables; they sleep while no database is written.

#![expect(unsafe_code, reason = "calls librocksdb, whose rules the header rocksdb/c.h tells")]
#![expect(non_snake_case, reason = "the library has a name in other letters")]

use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::io;
use std::ptr::{self, NonNull};

use crate::ffi::bytes::slice;
use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::pairs::ReadPairs;
use crate::kv::Visit;
use crate::{Batch, Library, Op};

/// The shared library and its Debian package.
pub(crate) static LIBRARY: Library =
    Library { names: &["librocksdb.so.7.8"], package: "librocksdb7.8" };

/// Any of the library's objects.
type Object = *mut c_void;
type Bytes = *const u8;
type Errors = *mut *mut c_char;

crate::library::functions! {
    /// The part of librocksdb that is used.
    pub(crate) struct Api("rocksdb", &LIBRARY) {
        rocksdb_options_create: fn() -> Object,
        rocksdb_options_destroy: fn(Object),
        rocksdb_options_set_create_if_missing: fn(Object, c_uchar),
        rocksdb_options_set_error_if_exists: fn(Object, c_uchar),
        rocksdb_options_set_paranoid_checks: fn(Object, c_uchar),
        rocksdb_options_set_info_log_level: fn(Object, c_int),
        rocksdb_options_set_keep_log_file_num: fn(Object, usize),
        rocksdb_options_set_write_buffer_size: fn(Object, usize),
        rocksdb_options_set_max_write_buffer_number: fn(Object, c_int),
        rocksdb_options_set_max_file_opening_threads: fn(Object, c_int),
        rocksdb_options_set_max_background_jobs: fn(Object, c_int),
        rocksdb_options_set_stats_dump_period_sec: fn(Object, u32),
        rocksdb_options_set_stats_persist_period_sec: fn(Object, u32),
        rocksdb_options_set_skip_stats_update_on_db_open: fn(Object, c_uchar),
        rocksdb_options_set_disable_auto_compactions: fn(Object, c_int),
        rocksdb_options_set_compression: fn(Object, c_int),
        rocksdb_options_set_block_based_table_factory: fn(Object, Object),
        rocksdb_block_based_options_create: fn() -> Object,
        rocksdb_block_based_options_destroy: fn(Object),
        rocksdb_block_based_options_set_block_size: fn(Object, usize),
        rocksdb_block_based_options_set_checksum: fn(Object, c_char),
        rocksdb_block_based_options_set_format_version: fn(Object, c_int),
        rocksdb_block_based_options_set_block_cache: fn(Object, Object),
        rocksdb_cache_create_lru: fn(usize) -> Object,
        rocksdb_cache_destroy: fn(Object),
        rocksdb_readoptions_create: fn() -> Object,
        rocksdb_readoptions_destroy: fn(Object),
        rocksdb_readoptions_set_verify_checksums: fn(Object, c_uchar),
        rocksdb_readoptions_set_readahead_size: fn(Object, usize),
        rocksdb_writeoptions_create: fn() -> Object,
        rocksdb_writeoptions_destroy: fn(Object),
        rocksdb_writeoptions_disable_WAL: fn(Object, c_int),
        rocksdb_writeoptions_set_sync: fn(Object, c_uchar),
        rocksdb_flushoptions_create: fn() -> Object,
        rocksdb_flushoptions_destroy: fn(Object),
        rocksdb_open: fn(Object, *const c_char, Errors) -> Object,
        rocksdb_open_for_read_only: fn(Object, *const c_char, c_uchar, Errors) -> Object,
        rocksdb_close: fn(Object),
        rocksdb_flush: fn(Object, Object, Errors),
        rocksdb_compact_range: fn(Object, Bytes, usize, Bytes, usize),
        rocksdb_property_int: fn(Object, *const c_char, *mut u64) -> c_int,
        rocksdb_get_pinned: fn(Object, Object, Bytes, usize, Errors) -> Object,
        rocksdb_pinnableslice_value: fn(Object, *mut usize) -> Bytes,
        rocksdb_pinnableslice_destroy: fn(Object),
        rocksdb_create_iterator: fn(Object, Object) -> Object,
        rocksdb_iter_destroy: fn(Object),
        rocksdb_iter_seek: fn(Object, Bytes, usize),
        rocksdb_iter_valid: fn(Object) -> c_uchar,
        rocksdb_iter_next: fn(Object),
        rocksdb_iter_key: fn(Object, *mut usize) -> Bytes,
        rocksdb_iter_value: fn(Object, *mut usize) -> Bytes,
        rocksdb_iter_get_error: fn(Object, Errors),
        rocksdb_writebatch_create: fn() -> Object,
        rocksdb_writebatch_destroy: fn(Object),
        rocksdb_writebatch_clear: fn(Object),
        rocksdb_writebatch_put: fn(Object, Bytes, usize, Bytes, usize),
        rocksdb_writebatch_delete: fn(Object, Bytes, usize),
        rocksdb_write: fn(Object, Object, Object, Errors),
        rocksdb_free: fn(*mut c_void),
    }
}

/// The numbers of the compressions; see `rocksdb/c.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Compression {
    None = 0,
    Snappy = 1,
    Zlib = 2,
    Bzip2 = 3,
    Lz4 = 4,
    Zstd = 7,
}

/// The purpose for which a database is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// An existing database, for reading.
    Read,
    /// An existing database; a batch is committed when it is written to the log.
    Update {
        /// `true` if a batch waits for the disk.
        sync: bool,
    },
    /// A new database; only flushed batches are committed.
    Create,
}

/// The options for opening a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) compression: Compression,
    /// Bytes of a block of a table, before compression.
    pub(crate) block_len: usize,
    /// Bytes of blocks that are cached in memory.
    pub(crate) cache_len: usize,
    /// Bytes of records that are collected in memory before they are written as a table.
    pub(crate) buffer_len: usize,
}

/// An open database.
#[derive(Debug)]
pub(crate) struct Rocksdb {
    api: &'static Api,
    db: NonNull<c_void>,
    how: How,
}

/// Options of calls, and a reusable batch.
#[derive(Debug)]
struct How {
    api: &'static Api,
    read: Object,
    scan: Object,
    write: Object,
    batch: Object,
}

// SAFETY: the library's objects belong to no thread.
unsafe impl Send for Rocksdb {}

/// Of `InfoLogLevel`: fatal errors only.
const LOG_FATAL: c_int = 4;
/// Of `ChecksumType`: XXH3, since 6.27.
const CHECKSUM_XXH3: c_char = 4;
/// Of tables; since 6.6.
const FORMAT_VERSION: c_int = 5;
/// Bytes that a scan reads ahead.
const READAHEAD_LEN: usize = 256 << 10;

impl Options {
    /// Options for the library.
    ///
    /// # Safety
    /// To be destroyed by `rocksdb_options_destroy`.
    unsafe fn make(self, api: &Api) -> Object {
        // SAFETY: every object is made here, and is handed over (the tables' options and the cache
        // are copied, or counted) or destroyed.
        unsafe {
            let options = (api.rocksdb_options_create)();
            let create = c_uchar::from(self.mode == Mode::Create);
            (api.rocksdb_options_set_create_if_missing)(options, create);
            (api.rocksdb_options_set_error_if_exists)(options, create);
            (api.rocksdb_options_set_paranoid_checks)(options, 1);
            (api.rocksdb_options_set_info_log_level)(options, LOG_FATAL);
            (api.rocksdb_options_set_keep_log_file_num)(options, 1);
            (api.rocksdb_options_set_write_buffer_size)(options, self.buffer_len);
            (api.rocksdb_options_set_max_write_buffer_number)(options, 2);
            (api.rocksdb_options_set_max_file_opening_threads)(options, 1);
            (api.rocksdb_options_set_max_background_jobs)(options, 1);
            (api.rocksdb_options_set_stats_dump_period_sec)(options, 0);
            (api.rocksdb_options_set_stats_persist_period_sec)(options, 0);
            (api.rocksdb_options_set_skip_stats_update_on_db_open)(options, 1);
            (api.rocksdb_options_set_disable_auto_compactions)(options, 1);
            (api.rocksdb_options_set_compression)(options, self.compression as c_int);
            let table = (api.rocksdb_block_based_options_create)();
            let cache = (api.rocksdb_cache_create_lru)(self.cache_len);
            (api.rocksdb_block_based_options_set_block_size)(table, self.block_len);
            (api.rocksdb_block_based_options_set_checksum)(table, CHECKSUM_XXH3);
            (api.rocksdb_block_based_options_set_format_version)(table, FORMAT_VERSION);
            (api.rocksdb_block_based_options_set_block_cache)(table, cache);
            (api.rocksdb_options_set_block_based_table_factory)(options, table);
            (api.rocksdb_cache_destroy)(cache);
            (api.rocksdb_block_based_options_destroy)(table);
            options
        }
    }
}

impl How {
    fn new(api: &'static Api, mode: Mode) -> Self {
        // SAFETY: every object is destroyed when this is dropped.
        unsafe {
            let read = (api.rocksdb_readoptions_create)();
            (api.rocksdb_readoptions_set_verify_checksums)(read, 1);
            let scan = (api.rocksdb_readoptions_create)();
            (api.rocksdb_readoptions_set_verify_checksums)(scan, 1);
            (api.rocksdb_readoptions_set_readahead_size)(scan, READAHEAD_LEN);
            let write = (api.rocksdb_writeoptions_create)();
            (api.rocksdb_writeoptions_disable_WAL)(write, c_int::from(mode == Mode::Create));
            let sync = mode == (Mode::Update { sync: true });
            (api.rocksdb_writeoptions_set_sync)(write, c_uchar::from(sync));
            Self { api, read, scan, write, batch: (api.rocksdb_writebatch_create)() }
        }
    }
}

impl Drop for How {
    fn drop(&mut self) {
        // SAFETY: made by `How::new`, and never used again.
        unsafe {
            (self.api.rocksdb_readoptions_destroy)(self.read);
            (self.api.rocksdb_readoptions_destroy)(self.scan);
            (self.api.rocksdb_writeoptions_destroy)(self.write);
            (self.api.rocksdb_writebatch_destroy)(self.batch);
        }
    }
}

/// Calls a function that reports errors as a text.
fn call<T>(api: &Api, call: impl FnOnce(Errors) -> T) -> Outcome<T> {
    let mut text = ptr::null_mut();
    let returned = call(&mut text);
    if text.is_null() {
        return Ok(returned);
    }
    // SAFETY: the library gives a text that ends with a zero and is ours to free.
    let what = unsafe {
        let what = CStr::from_ptr(text).to_string_lossy().into_owned();
        (api.rocksdb_free)(text.cast());
        what
    };
    Err(failure(what))
}

/// Classifies an error text of the library, which has no error numbers.
fn failure(what: String) -> Failure {
    let has = |part: &str| what.contains(part);
    if !what.starts_with("IO error: ") || has("No such file") || has("Not a directory") {
        return Failure::Damaged(what);
    }
    Failure::Io(match has("No space left") {
        true => io::ErrorKind::StorageFull.into(),
        false => io::Error::other(what),
    })
}

/// A value that stays in the library's memory until this is dropped.
struct Pinned<'a>(&'a Api, NonNull<c_void>);

impl Pinned<'_> {
    fn bytes(&self) -> &[u8] {
        let mut len = 0;
        // SAFETY: the value stays until `rocksdb_pinnableslice_destroy`.
        unsafe { slice((self.0.rocksdb_pinnableslice_value)(self.1.as_ptr(), &mut len), len) }
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        // SAFETY: never used again.
        unsafe { (self.0.rocksdb_pinnableslice_destroy)(self.1.as_ptr()) };
    }
}

/// An iterator; destroyed when dropped.
struct Iter<'a>(&'a Api, Object);

impl Drop for Iter<'_> {
    fn drop(&mut self) {
        // SAFETY: never used again.
        unsafe { (self.0.rocksdb_iter_destroy)(self.1) };
    }
}

impl Iter<'_> {
    /// Returns the pair at the current position, until the iterator is moved.
    fn pair(&mut self) -> Option<(&[u8], &[u8])> {
        let Self(api, iter) = *self;
        let (mut key_len, mut value_len) = (0, 0);
        // SAFETY: the iterator is valid when it is asked for key and value, which stay until it is
        // moved; `self` forbids that meanwhile.
        unsafe {
            if (api.rocksdb_iter_valid)(iter) == 0 {
                return None;
            }
            let key = (api.rocksdb_iter_key)(iter, &mut key_len);
            let value = (api.rocksdb_iter_value)(iter, &mut value_len);
            Some((slice(key, key_len), slice(value, value_len)))
        }
    }
}

impl Rocksdb {
    /// Opens a database. The library prints nothing; its log contains fatal errors only.
    pub(crate) fn open(path: &CStr, options: Options) -> Outcome<Self> {
        let api = Api::get()?;
        // SAFETY: `path` ends with a zero; the options are destroyed.
        let db = unsafe {
            let raw = options.make(api);
            let db = call(api, |errors| match options.mode {
                Mode::Read => (api.rocksdb_open_for_read_only)(raw, path.as_ptr(), 0, errors),
                _ => (api.rocksdb_open)(raw, path.as_ptr(), errors),
            });
            (api.rocksdb_options_destroy)(raw);
            db
        };
        let none = || Failure::Damaged("it does not open".to_owned());
        let db = NonNull::new(db?).ok_or_else(none)?;
        Ok(Self { api, db, how: How::new(api, options.mode) })
    }

    /// Applies a batch completely or not at all.
    pub(crate) fn write(&mut self, batch: &Batch) -> Outcome<()> {
        let (api, db, how) = (self.api, self.db.as_ptr(), &self.how);
        // SAFETY: the library's batch is ours; keys and values are copied into it.
        unsafe { (api.rocksdb_writebatch_clear)(how.batch) };
        batch.iter().for_each(|op| match op {
            // SAFETY: as above.
            Op::Put { key, value } => unsafe {
                let (key, key_len) = (key.as_ptr(), key.len());
                let (value, value_len) = (value.as_ptr(), value.len());
                (api.rocksdb_writebatch_put)(how.batch, key, key_len, value, value_len);
            },
            // SAFETY: as above.
            Op::Delete { key } => unsafe {
                (api.rocksdb_writebatch_delete)(how.batch, key.as_ptr(), key.len());
            },
        });
        // SAFETY: the database is open, the batch and the options are ours.
        call(api, |errors| unsafe { (api.rocksdb_write)(db, how.write, how.batch, errors) })
    }

    /// Writes the records in memory as a table.
    pub(crate) fn flush(&mut self) -> Outcome<()> {
        let (api, db) = (self.api, self.db.as_ptr());
        // SAFETY: the database is open; the options, by default to wait, are destroyed.
        unsafe {
            let options = (api.rocksdb_flushoptions_create)();
            let flushed = call(api, |errors| (api.rocksdb_flush)(db, options, errors));
            (api.rocksdb_flushoptions_destroy)(options);
            flushed
        }
    }

    /// Returns the number of tables that were never merged.
    pub(crate) fn tables_len(&mut self) -> u64 {
        let (mut len, name) = (0, c"rocksdb.num-files-at-level0");
        // SAFETY: the database is open, the name ends with a zero.
        unsafe { (self.api.rocksdb_property_int)(self.db.as_ptr(), name.as_ptr(), &mut len) };
        len
    }

    /// Merges all tables.
    pub(crate) fn compact(&mut self) {
        let all = ptr::null();
        // SAFETY: the database is open; null is no bound.
        unsafe { (self.api.rocksdb_compact_range)(self.db.as_ptr(), all, 0, all, 0) };
    }
}

impl ReadPairs for Rocksdb {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let (api, db) = (self.api, self.db.as_ptr());
        // SAFETY: the database is open, the key is only read.
        let found = call(api, |errors| unsafe {
            (api.rocksdb_get_pinned)(db, self.how.read, key.as_ptr(), key.len(), errors)
        })?;
        let value = NonNull::new(found).map(|found| Pinned(api, found));
        if let Some(value) = &value {
            visit(value.bytes());
        }
        Ok(value.is_some())
    }

    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Outcome<()> {
        let (api, db) = (self.api, self.db.as_ptr());
        // SAFETY: the database is open, and stays so longer than the iterator.
        let mut iter = Iter(api, unsafe { (api.rocksdb_create_iterator)(db, self.how.scan) });
        // SAFETY: the iterator is open, the prefix is only read.
        unsafe { (api.rocksdb_iter_seek)(iter.1, prefix.as_ptr(), prefix.len()) };
        while let Some((key, value)) = iter.pair() {
            if !key.starts_with(prefix) || !visit(key, value) {
                return Ok(());
            }
            // SAFETY: the iterator is at a pair.
            unsafe { (api.rocksdb_iter_next)(iter.1) };
        }
        // SAFETY: the iterator is open.
        call(api, |errors| unsafe { (api.rocksdb_iter_get_error)(iter.1, errors) })
    }
}

impl Drop for Rocksdb {
    fn drop(&mut self) {
        // SAFETY: the database is open, nothing of it is in use, and it is never used again.
        unsafe { (self.api.rocksdb_close)(self.db.as_ptr()) };
    }
}

//! SQLite, with the table in which bogofilter stores its word list.
//!
//! It is for such files only, and users cannot choose it. Only here are sessions transactions under
//! the library's own locks, so that other programs may read and write meanwhile: a reader sees the
//! state at its beginning, a writer has the file exclusively until it is closed.

use std::ffi::CStr;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use barid_vfs::File;

use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::pairs::{ReadPairs, WritePairs as _};
use crate::ffi::sqlite::{self as ffi, Api, Handle, LIBRARY};
use crate::files::sync_folder_of;
use crate::kv::Visit;
use crate::stores::files::Written;
use crate::stores::outside;
use crate::stores::session::Driver;
use crate::{Batch, Capabilities, Error, Library, Purpose, Result, StoreSpec};

/// The statements with which bogofilter creates a file; it uses these names of columns and index.
const TABLE: &CStr = c"CREATE TABLE bogofilter (key BLOB PRIMARY KEY, value BLOB);
                       CREATE INDEX bfidx ON bogofilter (key, value);";

/// The statement that begins a writer's transaction: it waits for others before it has read
/// anything, so that it need not be restarted.
const BEGIN: &CStr = c"BEGIN IMMEDIATE";

/// The kind of store.
#[derive(Debug)]
pub(crate) struct Sqlite;

/// The connections of this process, and files that wait for their end.
#[derive(Debug)]
struct Connections {
    open: usize,
    waiting: Vec<Box<dyn File>>,
}

static CONNECTIONS: Mutex<Connections> = Mutex::new(Connections { open: 0, waiting: Vec::new() });

fn connections() -> MutexGuard<'static, Connections> {
    // Its content is consistent whenever the lock is free.
    CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes a file that may be a database of SQLite, once this process has none open.
///
/// The library's locks belong to the process, which loses all its locks of a file when it closes
/// any descriptor of that file: code that reads such a file must leave closing it to this function.
pub fn close_sqlite_file(file: Box<dyn File>) {
    let mut connections = connections();
    if connections.open > 0 {
        connections.waiting.push(file);
    } else {
        // No connection may begin before it is closed.
        drop(file);
    }
}

/// A connection of this process.
#[derive(Debug)]
struct Connection;

impl Connection {
    fn begin() -> Self {
        connections().open += 1;
        Self
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut connections = connections();
        connections.open -= 1;
        if connections.open == 0 {
            connections.waiting.clear();
        }
    }
}

/// A handle, and its connection, which ends after it.
#[derive(Debug)]
pub(crate) struct Connected {
    handle: Handle,
    _connection: Connection,
}

impl ReadPairs for Connected {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        self.handle.get(key, visit)
    }
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Outcome<()> {
        self.handle.scan(prefix, visit)
    }
}

impl Driver for Sqlite {
    const NAME: &'static str = "sqlite";
    const CAPABILITIES: Capabilities =
        Capabilities { ordered: true, atomic: true, ..outside::FILE };
    const LIBRARY: &'static Library = &LIBRARY;
    const COMPANIONS: &'static [&'static str] = &["-journal", "-wal", "-shm"];
    /// The library checks everything that it reads. A child's locks would conflict with those of
    /// this process.
    const TRUSTED: bool = true;
    type Handle = Connected;

    fn version() -> Result<String> {
        Api::get().map(ffi::version)
    }
    fn read(place: &StoreSpec<'_>) -> Result<Connected> {
        outside::expect(place, None)?;
        let connection = Connection::begin();
        let begun = open(place).and_then(|mut handle| {
            handle.execute(c"BEGIN")?;
            expect_table(&mut handle)?;
            Ok(handle)
        });
        let handle = begun.map_err(Failure::at(place.path))?;
        Ok(Connected { handle, _connection: connection })
    }
    fn write(place: &StoreSpec<'_>, purpose: Purpose) -> Result<(Connected, Written)> {
        outside::expect(place, Some(purpose))?;
        Api::get()?;
        begin(place, purpose, Written::new(place, purpose)?)
    }
    fn apply(connected: &mut Connected, _: &mut Written, batch: &Batch) -> Outcome<()> {
        let handle = &mut connected.handle;
        let applied = apply_all(handle, batch);
        if applied.is_err() && handle.in_transaction() {
            // The first error is more informative than its consequences.
            drop(handle.execute(c"ROLLBACK"));
        }
        applied
    }
    fn close(mut connected: Connected, file: Written) -> Outcome<()> {
        let handle = &mut connected.handle;
        if handle.in_transaction() {
            // Nothing was written except the table of a new file.
            handle.execute(c"COMMIT")?;
        }
        let Connected { handle, _connection } = connected;
        drop(handle);
        // The library itself writes its changes to stable storage.
        if file.durable() && !file.atomic() {
            sync_folder_of(file.vfs(), file.path())?;
        }
        file.leave();
        Ok(())
    }
}

/// Begins a session on an existing file.
fn begin(place: &StoreSpec<'_>, purpose: Purpose, file: Written) -> Result<(Connected, Written)> {
    let connection = Connection::begin();
    let begun = open(place).and_then(|mut handle| {
        if !place.durable {
            handle.execute(c"PRAGMA synchronous = OFF")?;
        }
        handle.execute(BEGIN).map(|()| handle)
    });
    let mut handle = match begun {
        Ok(handle) => handle,
        Err(failure) => {
            // Another program has locked it, and may create a list in it.
            file.leave();
            return Err(Failure::at(place.path)(failure));
        }
    };
    let has_table = handle.has_table();
    let made = match (purpose, has_table) {
        (Purpose::Create, Ok(false)) => handle.execute(TABLE),
        (Purpose::Create, Ok(true)) => {
            // bogofilter was faster.
            file.leave();
            return Err(Error::at(place.path)(io::ErrorKind::AlreadyExists.into()));
        }
        (Purpose::Update, Ok(false)) => Err(no_table()),
        (Purpose::Update, Ok(true)) => Ok(()),
        (_, Err(failure)) => Err(failure),
    };
    if let Err(failure) = made {
        // While nobody else can write it.
        drop(file);
        return Err(Failure::at(place.path)(failure));
    }
    Ok((Connected { handle, _connection: connection }, file))
}

fn open(place: &StoreSpec<'_>) -> Outcome<Handle> {
    // A relative name may have a special meaning for the library.
    let path = match place.path.is_absolute() {
        true => outside::c_path(place.path)?,
        false => outside::c_path(&Path::new(".").join(place.path))?,
    };
    Handle::open(Api::get()?, &path)
}

fn expect_table(handle: &mut Handle) -> Outcome<()> {
    match handle.has_table()? {
        true => Ok(()),
        false => Err(no_table()),
    }
}

fn no_table() -> Failure {
    Failure::Damaged("it has no table \"bogofilter\"".to_owned())
}

fn apply_all(handle: &mut Handle, batch: &Batch) -> Outcome<()> {
    if !handle.in_transaction() {
        handle.execute(BEGIN)?;
    }
    handle.apply_each(batch)?;
    handle.execute(c"COMMIT")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use barid_vfs::OpenOptions;

    use super::*;
    use crate::Kv as _;
    use crate::registry;
    use crate::stores::outside::tests::{self, Folder};

    fn usable() -> bool {
        tests::available(registry::SQLITE)
    }

    fn place<'a>(folder: &'a Folder, path: &'a Path) -> StoreSpec<'a> {
        StoreSpec { vfs: &folder.vfs, path, builtin: None, durable: true }
    }

    /// Creates a file with the statements `sql`.
    fn made(folder: &Folder, sql: &CStr) -> PathBuf {
        let path = folder.path.join("wordlist.db");
        drop(folder.vfs.remove_file(&path));
        files_create(folder, &path);
        let mut handle = open(&place(folder, &path)).unwrap();
        handle.execute(sql).unwrap();
        path
    }

    fn files_create(folder: &Folder, path: &Path) {
        drop(folder.vfs.open(path, OpenOptions::create_new(0o600)).unwrap());
    }

    /// Returns all pairs, and checks that `get` returns each.
    fn all(folder: &Folder, path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut reader = Sqlite.read(&place(folder, path))?;
        let mut pairs = Vec::new();
        reader.scan(b"", &mut |key, value| {
            pairs.push((key.to_vec(), value.to_vec()));
            true
        })?;
        for (key, value) in &pairs {
            let mut is_same = false;
            reader.get(key, &mut |found| is_same = found == value)?;
            assert!(is_same, "{key:?}");
        }
        Ok(pairs)
    }

    #[test]
    fn round_trip() {
        tests::round_trip(registry::SQLITE);
    }

    #[test]
    fn rows_that_nobody_would_write_are_harmless() {
        if !usable() {
            return;
        }
        let folder = Folder::new();
        let check = |rows: &CStr, expected: &[(&[u8], &[u8])]| {
            for table in [TABLE, c"CREATE TABLE bogofilter (key TEXT, value INTEGER)"] {
                let path = made(&folder, table);
                open(&place(&folder, &path)).unwrap().execute(rows).unwrap();
                let found = all(&folder, &path).unwrap();
                let found: Vec<_> =
                    found.iter().map(|(key, value)| (&key[..], &value[..])).collect();
                assert_eq!(found, expected, "{rows:?}");
            }
        };
        check(c"INSERT INTO bogofilter VALUES (x'61', x'01000000')", &[(b"a", &[1, 0, 0, 0])]);
        check(c"INSERT INTO bogofilter VALUES (x'61', NULL)", &[(b"a", b"")]);
        check(c"INSERT INTO bogofilter VALUES (x'61', x'')", &[(b"a", b"")]);
        check(
            c"INSERT INTO bogofilter VALUES (x'61', 'text'), (x'62', 7)",
            &[(b"a", b""), (b"b", b"")],
        );
        check(c"INSERT INTO bogofilter VALUES ('a', x'61'), (7, x'61'), (NULL, x'61')", &[]);
        check(
            c"INSERT INTO bogofilter VALUES (x'ff', x'01'), (x'61', x'02')",
            &[(b"a", &[2]), (&[0xff], &[1])],
        );
        let path = made(&folder, TABLE);
        let large = c"INSERT INTO bogofilter VALUES (x'61', zeroblob(1000)), (x'62', x'')";
        let mut handle = open(&place(&folder, &path)).unwrap();
        handle.execute(large).unwrap();
        assert_eq!(all(&folder, &path).unwrap()[0].1, [0; 1000]);
        let larger = c"UPDATE bogofilter SET value = zeroblob(17000000)";
        assert!(matches!(handle.execute(larger), Err(Failure::Damaged(_))));
    }

    #[test]
    fn other_databases_are_refused() {
        if !usable() {
            return;
        }
        let folder = Folder::new();
        let check = |sql: &CStr| {
            let path = made(&folder, sql);
            assert!(matches!(all(&folder, &path), Err(Error::Damaged { .. })), "{sql:?}");
            let written = Sqlite.write(&place(&folder, &path), Purpose::Update);
            assert!(
                matches!(written, Err(Error::Damaged { .. })) || {
                    let mut batch = Batch::new();
                    batch.put(b"a", b"b");
                    written.unwrap().apply(&batch).is_err()
                }
            );
        };
        check(c"CREATE TABLE other (key BLOB PRIMARY KEY, value BLOB)");
        check(c"CREATE TABLE bogofilter (key BLOB PRIMARY KEY)");
        check(
            c"CREATE VIEW bogofilter (key, value) AS
              WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, i FROM n",
        );
        check(c"");
        let path = folder.path.join("none");
        assert!(matches!(all(&folder, &path), Err(Error::NotFound { .. })));
        assert!(folder.vfs.metadata(&path).is_err());
    }

    /// Any damage leads to an error or an answer.
    #[test]
    fn damage_is_told_or_harmless() {
        if !usable() {
            return;
        }
        let folder = Folder::new();
        let path = made(&folder, TABLE);
        let mut random = fastrand::Rng::with_seed(3);
        let mut batch = Batch::new();
        for number in 0..2_000_u32 {
            batch.put(format!("word{number}").as_bytes(), &number.to_le_bytes());
        }
        let mut writer = Sqlite.write(&place(&folder, &path), Purpose::Update).unwrap();
        writer.apply(&batch).unwrap();
        writer.close().unwrap();
        let whole = folder.vfs.read(&path, 1 << 20).unwrap();
        let (mut found, mut silent) = (0, 0);
        for _ in 0..150 {
            let mut bytes = whole.clone();
            for _ in 0..random.usize(1..20) {
                let at = random.usize(0..bytes.len());
                bytes[at] = random.u8(..);
            }
            if random.u8(0..4) == 0 {
                bytes.truncate(random.usize(0..bytes.len()));
            }
            folder.vfs.remove_file(&path).unwrap();
            let file = folder.vfs.open(&path, OpenOptions::create(0o600)).unwrap();
            file.write_all_at(&bytes, 0).unwrap();
            drop(file);
            let mut reader = match Sqlite.read(&place(&folder, &path)) {
                Ok(reader) => reader,
                Err(_) => {
                    found += 1;
                    continue;
                }
            };
            let mut seen = 0_u64;
            let scanned = reader.scan(b"", &mut |key, value| {
                seen += (key.len() + value.len()) as u64;
                true
            });
            let asked = (0..2_000).try_for_each(|number| {
                reader.get(format!("word{number}").as_bytes(), &mut |_| {}).map(drop)
            });
            drop(reader);
            let written = Sqlite
                .write(&place(&folder, &path), Purpose::Update)
                .and_then(|mut writer| writer.apply(&batch));
            match scanned.and(asked).and(written) {
                Ok(()) => silent += 1,
                Err(_) => found += 1,
            }
        }
        println!("{found} found, {silent} harmless");
        assert!(found > 20 && silent > 0);
    }

    /// Reading a file that is being written does not release the writer's lock.
    #[test]
    fn locks_outlast_a_look() {
        if !usable() {
            return;
        }
        let folder = Folder::new();
        let path = made(&folder, TABLE);
        let writer = Sqlite.write(&place(&folder, &path), Purpose::Update).unwrap();
        let look = || folder.vfs.open(&path, OpenOptions::WRITE).unwrap();
        let is_locked = |file: &dyn File| {
            !file.try_lock(barid_vfs::LockKind::Fcntl, barid_vfs::LockMode::Exclusive).unwrap()
        };
        close_sqlite_file(look());
        let file = look();
        assert!(is_locked(&*file));
        close_sqlite_file(file);
        assert!(is_locked(&*look()));
        drop(writer);
    }

    /// A file that another program filled before we locked it is not removed.
    #[test]
    fn a_list_that_another_made_meanwhile_stays() {
        if !usable() {
            return;
        }
        let folder = Folder::new();
        let path = folder.path.join("wordlist.db");
        let place = place(&folder, &path);
        let file = Written::new(&place, Purpose::Create).unwrap();
        let mut other = open(&place).unwrap();
        other.execute(TABLE).unwrap();
        other.execute(c"INSERT INTO bogofilter VALUES (x'61', x'01')").unwrap();
        let made = begin(&place, Purpose::Create, file);
        let Err(Error::Io { source, .. }) = made else { panic!("{made:?}") };
        assert_eq!(source.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(all(&folder, &path).unwrap(), [(b"a".to_vec(), vec![1])]);
    }

    /// A program that waits for the file of a new list that was dropped gets an error.
    #[test]
    fn nobody_writes_to_a_file_that_is_gone() {
        if !usable() {
            return;
        }
        let folder = Folder::new();
        let path = folder.path.join("wordlist.db");
        let place = place(&folder, &path);
        let writer = Sqlite.write(&place, Purpose::Create).unwrap();
        let mut other = open(&place).unwrap();
        drop(writer);
        assert!(folder.vfs.metadata(&path).is_err());
        assert!(other.execute(TABLE).is_err());
    }

    /// A writer that did not commit leaves the old content, and no new file.
    #[test]
    fn what_is_not_committed_is_not_there() {
        if !usable() {
            return;
        }
        let folder = Folder::new();
        let path = folder.path.join("wordlist.db");
        drop(Sqlite.write(&place(&folder, &path), Purpose::Create).unwrap());
        assert!(folder.vfs.metadata(&path).is_err());
        let path = made(&folder, TABLE);
        let mut batch = Batch::new();
        batch.put(b"a", b"1");
        let mut writer = Sqlite.write(&place(&folder, &path), Purpose::Update).unwrap();
        writer.apply(&batch).unwrap();
        // A second batch of a session is a separate transaction.
        batch.put(b"b", b"2");
        batch.put(&[b'k'; 2_000], b"");
        assert!(matches!(writer.apply(&batch), Err(Error::TooLong { .. })));
        batch.clear();
        batch.put(b"c", b"3");
        writer.apply(&batch).unwrap();
        drop(writer);
        let expected = [(b"a".to_vec(), b"1".to_vec()), (b"c".to_vec(), b"3".to_vec())];
        assert_eq!(all(&folder, &path).unwrap(), expected);
    }
}

//! Functions shared by the stores of external libraries.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use barid_vfs::{OpenOptions, Vfs};

use crate::files::sync_folder_of;
use crate::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use crate::{Batch, Capabilities, Error, Op, Purpose, Result, StoreSpec};

/// The capabilities of a store of one file: unordered, not atomic, not compressed.
pub(crate) const FILE: Capabilities = Capabilities {
    ordered: false,
    atomic: false,
    one_handle: false,
    folder: false,
    key_len_max: KEY_LEN_MAX,
    value_len_max: VALUE_LEN_MAX,
    builtin: &[],
};

/// Returns the path as a C string.
pub(crate) fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::at(path)(io::ErrorKind::InvalidFilename.into()))
}

/// Checks whether the store exists, where that matters: libraries would replace or create files by
/// mistake.
///
/// # Errors
/// Returns [`Error::NotFound`], or an error if a store to be created exists.
pub(crate) fn expect(place: &StoreSpec<'_>, purpose: Option<Purpose>) -> Result<()> {
    let found = place.vfs.metadata(place.path);
    match (purpose, found) {
        (Some(Purpose::Create), Ok(_)) => {
            Err(Error::at(place.path)(io::ErrorKind::AlreadyExists.into()))
        }
        (Some(Purpose::Create), Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        (_, Ok(_)) => Ok(()),
        (_, Err(error)) => Err(Error::at(place.path)(error)),
    }
}

/// Rejects a batch with a key or value that is too long, before applying any of it.
///
/// # Errors
/// [`Error::TooLong`].
pub(crate) fn check_lens(path: &Path, capabilities: &Capabilities, batch: &Batch) -> Result<()> {
    let check = |what, len, max| match len > max {
        true => Err(Error::TooLong { path: path.to_owned(), what, len, max }),
        false => Ok(()),
    };
    batch.iter().try_for_each(|op| match op {
        Op::Put { key, value } => {
            check("key", key.len(), capabilities.key_len_max)?;
            check("value", value.len(), capabilities.value_len_max)
        }
        Op::Delete { key } => check("key", key.len(), capabilities.key_len_max),
    })
}

/// Waits until the file and its name are on stable storage.
///
/// # Errors
/// Returns the error of the file system.
pub(crate) fn sync(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    let at = || Error::at(path);
    let file = vfs.open(path, OpenOptions::READ).map_err(at())?;
    file.sync_all().map_err(at())?;
    sync_folder_of(vfs, path)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsStr;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use barid_vfs::OsVfs;

    use super::*;
    use crate::{Choice, Kv, Store};

    type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

    /// A folder that is removed with the test.
    pub(crate) struct Folder {
        pub(crate) vfs: Arc<dyn Vfs>,
        pub(crate) path: PathBuf,
    }

    impl Folder {
        pub(crate) fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("barid-kv-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            vfs.create_dir_all(&path, 0o700).unwrap();
            Self { vfs, path }
        }
        pub(crate) fn store(&self, name: &str, choice: Choice) -> Store {
            Store::new(Arc::clone(&self.vfs), self.path.join(name), choice)
        }
    }

    impl Drop for Folder {
        #[expect(clippy::disallowed_methods, reason = "whatever a store left is to go")]
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }

    /// Returns `true` if the library is installed; fails otherwise if `CI` is `true`.
    pub(crate) fn available(kv: &dyn Kv) -> bool {
        let Err(why) = kv.version() else { return true };
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
        println!("skipped: {why}");
        false
    }

    /// Creates a store with every built-in compression, reads it, changes it and reads it again.
    pub(crate) fn round_trip(kv: &'static dyn Kv) {
        if !available(kv) {
            return;
        }
        // tcbs takes minutes for the long runs of one byte here.
        let builtins = kv.capabilities().builtin.iter().copied().filter(|name| *name != "tcbs");
        for builtin in builtins.map(Some).chain([None]) {
            let folder = Folder::new();
            let store = folder.store("store", Choice { kv, builtin });
            // Stable storage does not affect the content.
            let store = if builtin.is_none() { store.durable() } else { store };
            assert!(matches!(store.read(), Err(Error::NotFound { .. })));
            assert!(matches!(store.write(), Err(Error::NotFound { .. })));

            let pairs = created(&store);
            assert!(store.create().is_err());
            let before = files(&folder, store.path());
            assert_same(&store, &pairs);
            assert_eq!(files(&folder, store.path()), before, "{}: readers write", kv.name());
            assert_read_twice(&folder, &store);
            let pairs = changed(&store, pairs);
            assert_same(&store, &pairs);
            store.remove().unwrap();
            assert!(matches!(store.read(), Err(Error::NotFound { .. })));

            let file = folder.vfs.open(store.path(), OpenOptions::create(0o600)).unwrap();
            file.write_all_at(&[0x5a; 9_999], 0).unwrap();
            assert!(store.read().is_err(), "{}: a foreign file", kv.name());
        }
    }

    /// Checks that the log of a killed writer, left when its store was removed, is not applied to a
    /// new store whose writer is killed, too. `open` opens a store for writing; `begin` begins a
    /// transaction and changes a record.
    pub(crate) fn leftover_log<Open>(
        kv: &'static dyn Kv,
        log: &str,
        open: impl Fn(&StoreSpec<'_>) -> Open,
        begin: impl Fn(&mut Open),
    ) {
        if !available(kv) {
            return;
        }
        let folder = Folder::new();
        let store = folder.store("store", Choice { kv, builtin: None });
        let path = store.path();
        let place = StoreSpec { vfs: &folder.vfs, path, builtin: None, durable: false };
        let log = crate::stores::files::beside(path, log);
        let read = |path: &Path| folder.vfs.read(path, 1 << 30).unwrap();
        let write = |path: &Path, bytes: &[u8]| {
            let options = OpenOptions { truncate: true, ..OpenOptions::create(0o600) };
            folder.vfs.open(path, options).unwrap().write_all_at(bytes, 0).unwrap();
        };
        created(&store);
        write(&log, b"");
        let mut killed = open(&place);
        begin(&mut killed);
        let left = read(&log);
        assert!(!left.is_empty());
        drop(killed);
        store.remove().unwrap();

        write(&log, &left);
        let new = (b'0'..=b'9').map(|digit| (vec![b'r', digit], vec![digit; 9_999]));
        let pairs: Pairs = new.collect();
        let mut batch = Batch::new();
        pairs.iter().for_each(|(key, value)| batch.put(key, value));
        let mut writer = store.create().unwrap();
        writer.apply(&batch).unwrap();
        writer.close().unwrap();
        let killed = open(&place);
        let image = read(path);
        drop(killed);
        write(path, &image);
        assert_same(&store, &pairs);
    }

    /// Returns names, sizes and times of a store's files.
    fn files(folder: &Folder, path: &Path) -> Vec<(PathBuf, u64, barid_vfs::Timestamp)> {
        let mut paths = vec![path.to_owned()];
        if let Ok(dir) = folder.vfs.open_dir(path) {
            let mut visit = |name: &[u8], _| paths.push(path.join(OsStr::from_bytes(name)));
            dir.list(&mut visit).unwrap();
        }
        paths.sort();
        let describe = |path: PathBuf| {
            let found = folder.vfs.metadata(&path).unwrap();
            (path, found.size, found.modified)
        };
        paths.into_iter().map(describe).collect()
    }

    /// Opens a store twice, if its capabilities allow that.
    fn assert_read_twice(folder: &Folder, store: &Store) {
        let Choice { kv, builtin } = store.choice();
        let place = StoreSpec { vfs: &folder.vfs, path: store.path(), builtin, durable: false };
        let mut first = kv.read(&place).unwrap();
        if kv.capabilities().one_handle {
            return;
        }
        let mut second = kv.read(&place).unwrap();
        assert!(first.get(&[0], &mut |_| {}).unwrap() && second.get(&[0], &mut |_| {}).unwrap());
        drop(first);
        assert!(second.get(&[0xff; KEY_LEN_MAX], &mut |_| {}).unwrap());
    }

    fn created(store: &Store) -> Pairs {
        let mut random = fastrand::Rng::with_seed(7);
        let mut pairs = Pairs::new();
        for number in 0..3_000_u32 {
            let len = if number % 500 == 0 { 70_000 } else { random.usize(0..1_500) };
            let value = (0..len).map(|_| random.u8(b'a'..b'k')).collect();
            pairs.insert([b"r", &number.to_be_bytes()[..]].concat(), value);
        }
        pairs.insert(vec![0], Vec::new());
        pairs.insert(vec![0xff; KEY_LEN_MAX], b"long".to_vec());
        pairs.insert(b"d\0".to_vec(), vec![7; 1 << 20]);
        let (mut batch, mut writer) = (Batch::new(), store.create().unwrap());
        for (key, value) in &pairs {
            batch.put(key, value);
            if batch.bytes_len() > 100_000 {
                writer.apply(&batch).unwrap();
                batch.clear();
            }
        }
        writer.apply(&batch).unwrap();
        writer.close().unwrap();
        pairs
    }

    fn changed(store: &Store, mut pairs: Pairs) -> Pairs {
        let mut writer = store.write().unwrap();
        let mut batch = Batch::new();
        let keys: Vec<Vec<u8>> = pairs.keys().cloned().collect();
        for (number, key) in keys.iter().enumerate() {
            match number % 3 {
                0 => batch.delete(key),
                1 => batch.put(key, format!("changed {number}").as_bytes()),
                _ => continue,
            }
            match number % 3 {
                0 => pairs.remove(key),
                _ => pairs.insert(key.clone(), format!("changed {number}").into_bytes()),
            };
        }
        batch.put(b"twice", b"1");
        batch.put(b"twice", b"2");
        batch.delete(b"never there");
        pairs.insert(b"twice".to_vec(), b"2".to_vec());
        writer.apply(&batch).unwrap();
        assert!(writer.get(b"twice", &mut |value| assert_eq!(value, b"2")).unwrap());
        batch.clear();
        batch.put(&[b'k'; KEY_LEN_MAX + 1], b"");
        assert!(matches!(writer.apply(&batch), Err(Error::TooLong { .. })));
        writer.close().unwrap();
        pairs
    }

    fn assert_same(store: &Store, pairs: &Pairs) {
        let name = store.choice().to_string();
        let mut reader = store.read().unwrap();
        for (key, expected) in pairs {
            let mut seen = 0;
            let mut visit = |value: &[u8]| {
                assert!(value == expected, "{name}: value of {key:?}");
                seen += 1;
            };
            assert!(reader.get(key, &mut visit).unwrap(), "{name}: {key:?}");
            assert_eq!(seen, 1);
        }
        for missing in [&b""[..], b"r", b"never there", b"r\0\0\0\xff\0"] {
            assert!(!reader.get(missing, &mut |_| panic!("shown")).unwrap());
        }
        for prefix in [&b""[..], b"r", b"r\0\0\x01", &[0xff], b"none"] {
            let (mut found, mut order) = (Pairs::new(), Vec::new());
            let mut visit = |key: &[u8], value: &[u8]| {
                assert!(found.insert(key.to_vec(), value.to_vec()).is_none(), "{name}: twice");
                order.push(key.to_vec());
                true
            };
            reader.scan(prefix, &mut visit).unwrap();
            let expected = pairs.iter().filter(|(key, _)| key.starts_with(prefix));
            assert!(found.iter().eq(expected), "{name}: scan of {prefix:?}");
            assert!(!store.choice().kv.capabilities().ordered || order.is_sorted());
        }
        let mut seen = 0;
        reader
            .scan(b"r", &mut |_, _| {
                seen += 1;
                seen < 5
            })
            .unwrap();
        assert_eq!(seen, 5, "{name}: an ended scan");
    }
}

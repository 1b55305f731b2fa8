//! Sessions, seals and probes, with stores defined by the test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::{LockMode, MemVfs, OpenOptions, OsVfs, Vfs};

use crate::files::beside;
use crate::kv::Visit;
use crate::registry::{self, MEMORY};
use crate::seal::Known;
use crate::stores::memory::Memory;
use crate::{
    Batch, Capabilities, Choice, Error, Kv, KvRead, KvWrite, Library, Op, Purpose, Result, Store,
    StoreSpec,
};

/// A store that keeps pairs as [`MEMORY`] does, and behaves like a library with a damaged file: its
/// one key selects the behaviour. The key `refuse` cannot be written.
#[derive(Debug)]
struct Odd;

impl Kv for Odd {
    fn name(&self) -> &'static str {
        "odd"
    }
    fn capabilities(&self) -> &'static Capabilities {
        static CAPABILITIES: Capabilities = Capabilities {
            ordered: true,
            atomic: true,
            one_handle: true,
            folder: false,
            key_len_max: 9,
            value_len_max: 9,
            builtin: &[],
        };
        &CAPABILITIES
    }
    fn library(&self) -> Option<&'static Library> {
        None
    }
    fn version(&self) -> Result<String> {
        Memory.version()
    }
    fn read(&self, place: &StoreSpec<'_>) -> Result<Box<dyn KvRead>> {
        let mut open = Memory.read(place)?;
        let mut does = Vec::new();
        open.scan(b"", &mut |key, _| {
            does = key.to_vec();
            false
        })?;
        let path = place.path.to_owned();
        match &does[..] {
            b"abort" => std::process::abort(),
            b"panic" => panic!("it panics"),
            b"memory" => drop(std::hint::black_box(vec![1_u8; 1 << 40])),
            b"damage" => return Err(Error::damaged(place.path, "says the library")),
            b"system" => {
                let source = rustix::io::Errno::ACCESS.into();
                return Err(Error::Io { path, source });
            }
            b"busy" => return Err(Error::Busy { path }),
            b"other" => return Err(Error::Io { path, source: std::io::Error::other("why") }),
            _ => {}
        }
        Ok(open)
    }
    fn write(&self, place: &StoreSpec<'_>, purpose: Purpose) -> Result<Box<dyn KvWrite>> {
        Ok(Box::new(Refusing(Memory.write(place, purpose)?)))
    }
}

static ODD: Odd = Odd;

#[derive(Debug)]
struct Refusing(Box<dyn KvWrite>);

impl KvRead for Refusing {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.0.get(key, visit)
    }
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        self.0.scan(prefix, visit)
    }
}

impl KvWrite for Refusing {
    fn apply(&mut self, batch: &Batch) -> Result<()> {
        match batch.iter().any(|op| matches!(op, Op::Put { key: b"refuse", .. })) {
            true => Err(Error::Choice("refused".to_owned())),
            false => self.0.apply(batch),
        }
    }
    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }
}

/// A folder for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("barid-kv-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        OsVfs.create_dir(&path, 0o700).unwrap();
        Self(path)
    }

    fn store(&self, kv: &'static dyn Kv) -> Store {
        let choice = Choice { kv, builtin: None };
        Store::new(Arc::new(OsVfs), self.0.join(kv.name()), choice)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        crate::files::remove(&OsVfs, &self.0, &[]).unwrap();
    }
}

fn batch(pairs: &[(&str, &str)]) -> Batch {
    let mut batch = Batch::new();
    for (key, value) in pairs {
        batch.put(key.as_bytes(), value.as_bytes());
    }
    batch
}

fn create(store: &Store, pairs: &[(&str, &str)]) {
    let mut writer = store.create().unwrap();
    writer.apply(&batch(pairs)).unwrap();
    writer.close().unwrap();
}

fn pairs(store: &Store) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut pairs = Vec::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        pairs.push((text(key), text(value)));
        true
    };
    store.read().unwrap().scan(b"", &mut visit).unwrap();
    pairs
}

fn known(store: &Store) -> Option<Known> {
    store.sealed(&store.look().unwrap())
}

fn sealed(store: &Store) -> bool {
    known(store).is_some()
}

/// Overwrites a byte in the middle of a file with its own value, which only the file's times show.
fn touch(store: &Store) {
    let file = store.vfs.open(store.path(), OpenOptions::WRITE).unwrap();
    let mut byte = [0];
    let middle = file.metadata().unwrap().size / 2;
    file.read_exact_at(&mut byte, middle).unwrap();
    file.write_all_at(&byte, middle).unwrap();
}

#[test]
fn a_clean_close_seals_and_a_reader_that_probed() {
    let folder = Folder::new("seals");
    for kv in [MEMORY, registry::find("lmdb").unwrap(), &ODD] {
        let store = folder.store(kv);
        create(&store, &[("a", "1")]);
        assert!(sealed(&store), "{store:?}");

        let mut writer = store.write().unwrap();
        assert!(!sealed(&store));
        writer.apply(&batch(&[("b", "2")])).unwrap();
        drop(writer);
        assert!(!sealed(&store));
        assert_eq!(pairs(&store), [("a", "1"), ("b", "2")].map(owned));
        assert!(sealed(&store));

        store.write().unwrap().close().unwrap();
        assert!(sealed(&store));
        store.remove().unwrap();
        assert!(crate::files::list(&OsVfs, &folder.0, &[]).unwrap().len() == 1);
    }
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

#[test]
fn a_change_right_after_the_close_shows() {
    let folder = Folder::new("changes");
    let store = folder.store(registry::find("lmdb").unwrap());
    create(&store, &[("a", "1")]);
    for _ in 0..20 {
        assert!(sealed(&store));
        touch(&store);
        assert!(!sealed(&store));
        store.write().unwrap().close().unwrap();
    }
}

#[test]
fn what_a_library_does_to_the_child_is_told() {
    let folder = Folder::new("probes");
    let store = folder.store(&ODD);
    let check = |does: &str, expected: &str| {
        create(&store, &[(does, "")]);
        touch(&store);
        let reading = store.read().map(drop).unwrap_err();
        let writing = store.write().map(drop).unwrap_err();
        for error in [reading, writing] {
            let damaged = matches!(error, Error::Damaged { .. });
            assert_eq!(matches!(error, Error::Busy { .. }), does == "busy", "{error:?}");
            let found = format!("{damaged}: {error}");
            let found = found.replace(&format!("{}: ", store.path().display()), "");
            assert_eq!(found, expected, "{does}");
        }
        assert!(!sealed(&store));
        store.remove().unwrap();
    };
    check("abort", "true: damaged: a process reading it was killed by SIGABRT");
    check("panic", "true: damaged: a process reading it ended with 1");
    check("memory", "true: damaged: a process reading it was killed by SIGABRT");
    check("damage", "true: damaged: says the library");
    check("system", "false: Permission denied (os error 13)");
    check("other", "false: why");
    check("busy", "false: in use by another process");
}

#[test]
fn what_holds_a_part_of_a_batch_is_never_sealed() {
    let folder = Folder::new("torn");
    let store = folder.store(&ODD);
    let mut writer = store.create().unwrap();
    writer.apply(&batch(&[("a", "1")])).unwrap();
    assert!(writer.apply(&batch(&[("refuse", "")])).is_err());
    assert!(matches!(writer.close(), Err(Error::Damaged { .. })));
    assert!(matches!(store.read().map(drop), Err(Error::Damaged { .. })));
    store.remove().unwrap();

    create(&store, &[("a", "1")]);
    let mut writer = store.write().unwrap();
    assert!(writer.apply(&batch(&[("refuse", "")])).is_err());
    writer.close().unwrap();
    assert!(sealed(&store), "it takes a batch back");
}

#[test]
fn a_copy_that_fails_leaves_nothing() {
    let folder = Folder::new("copies");
    let store = folder.store(&ODD);
    let mut writer = Memory.write(&store.place(), Purpose::Create).unwrap();
    writer.apply(&batch(&[("refuse", "")])).unwrap();
    writer.close().unwrap();
    assert_eq!(store.write().map(drop).unwrap_err().to_string(), "refused");
    OsVfs.symlink_metadata(&beside(store.path(), super::COPY)).unwrap_err();
    assert_eq!(pairs(&store), [("refuse", "")].map(owned));
}

#[test]
fn damage_of_an_lmdb_file_is_found_before_it_is_mapped() {
    let folder = Folder::new("damage");
    let store = folder.store(registry::find("lmdb").unwrap());
    let value = "v".repeat(5_000);
    let many: Vec<(String, &str)> = (0..99).map(|n| (format!("{n:03}"), &value[..])).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(key, value)| (&key[..], *value)).collect();
    create(&store, &many);
    let file = store.vfs.open(store.path(), OpenOptions::WRITE).unwrap();
    let size = file.metadata().unwrap().size;
    for cut in [size - 4096, size / 2, 9_000, 5_000, 0] {
        file.set_len(cut).unwrap();
        let found = store.read().map(drop);
        assert!(matches!(found, Err(Error::Damaged { .. })), "{cut} of {size}: {found:?}");
    }
}

#[test]
fn every_store_is_probed_by_a_process_that_has_had_it_open() {
    let folder = Folder::new("every");
    for kv in registry::STORES {
        let store = folder.store(*kv);
        if let Err(error) = kv.version() {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{error}");
            println!("skipped: {error}");
            continue;
        }
        create(&store, &[("a", "1"), ("b", "2")]);
        assert!(sealed(&store), "{}", kv.name());
        assert_eq!(sorted(pairs(&store)), [("a", "1"), ("b", "2")].map(owned), "{}", kv.name());
        assert!(sealed(&store), "{}: a reader changes the files", kv.name());
        let mut writer = store.write().unwrap();
        writer.apply(&batch(&[("c", "3")])).unwrap();
        writer.close().unwrap();
        crate::seal::remove(&*store.vfs, store.path()).unwrap();
        assert_eq!(sorted(pairs(&store)).len(), 3, "{}", kv.name());
        assert_eq!(known(&store), Some(Known::Readable), "{}: by a probe", kv.name());

        let inode = || OsVfs.metadata(store.path()).unwrap().inode;
        let before = inode();
        let mut writer = store.write().unwrap();
        assert_ne!(before, inode(), "{}: written as it was", kv.name());
        writer.apply(&batch(&[("d", "4")])).unwrap();
        writer.close().unwrap();
        assert_eq!(known(&store), Some(Known::Closed), "{}", kv.name());
        let expected = [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")].map(owned);
        assert_eq!(sorted(pairs(&store)), expected, "{}", kv.name());
        let before = inode();
        store.write().unwrap().close().unwrap();
        assert_eq!(before, inode(), "{}: copied without need", kv.name());
        store.remove().unwrap();
        assert!(crate::files::list(&OsVfs, &folder.0, &[]).unwrap().len() == 1, "{}", kv.name());
    }
}

fn sorted(mut pairs: Vec<(String, String)>) -> Vec<(String, String)> {
    pairs.sort();
    pairs
}

#[test]
fn nothing_is_left_behind_where_nothing_was() {
    let folder = Folder::new("nothing");
    let store = folder.store(&ODD);
    for error in [store.read().map(drop), store.write().map(drop)] {
        assert!(matches!(error, Err(Error::NotFound { .. })));
    }
    store.remove().unwrap();
    assert!(crate::files::list(&OsVfs, &folder.0, &[]).unwrap().len() == 1);
}

#[test]
fn sessions_of_a_store_with_one_handle_take_turns() {
    let folder = Folder::new("turns");
    let store = folder.store(&ODD);
    create(&store, &[]);
    let writes: Vec<_> = (0..4)
        .map(|thread| {
            let store = store.clone();
            std::thread::spawn(move || {
                for _ in 0..9 {
                    let mut writer = store.write().unwrap();
                    let (mut key, mut count) = (Vec::new(), 0);
                    writer
                        .scan(b"", &mut |found, _| {
                            key = found.to_vec();
                            count += 1;
                            true
                        })
                        .unwrap();
                    assert!(count <= 1, "{thread}");
                    let next = key.first().map_or(1, |key| key + 1);
                    let mut batch = Batch::new();
                    batch.delete(if key.is_empty() { b"none" } else { &key });
                    batch.put(&[next], b"");
                    writer.apply(&batch).unwrap();
                    writer.close().unwrap();
                }
            })
        })
        .collect();
    writes.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(pairs(&store), [(String::from(char::from(36)), String::new())]);
}

#[test]
fn readers_share_and_exclude_a_writer() {
    let folder = Folder::new("shares");
    let store = folder.store(registry::find("lmdb").unwrap());
    create(&store, &[("a", "1")]);
    let mut readers = [store.read().unwrap(), store.read().unwrap()];
    let lock = OsVfs.open(&beside(store.path(), b".lock"), OpenOptions::WRITE).unwrap();
    for reader in &mut readers {
        let mut found = Vec::new();
        assert!(reader.get(b"a", &mut |value| found = value.to_vec()).unwrap());
        assert_eq!(found, b"1");
        assert!(!lock.try_lock(barid_vfs::LockKind::Flock, LockMode::Exclusive).unwrap());
    }
    drop(readers);
    assert!(lock.try_lock(barid_vfs::LockKind::Flock, LockMode::Exclusive).unwrap());
}

#[test]
fn bounds_are_checked_before_the_library_is_asked() {
    let folder = Folder::new("bounds");
    let store = folder.store(&ODD);
    let mut writer = store.create().unwrap();
    let check = |writer: &mut super::Writer, key: &str, value: &str, expected: &str| {
        let error = writer.apply(&batch(&[("fits", ""), (key, value)])).unwrap_err();
        assert!(error.to_string().ends_with(expected), "{error}");
    };
    check(&mut writer, "0123456789", "", "key of 10 bytes, the limit is 9");
    check(&mut writer, "a", "0123456789", "value of 10 bytes, the limit is 9");
    check(&mut writer, "", "", "an empty key");
    for key in ["", "0123456789", "fits"] {
        assert!(!writer.get(key.as_bytes(), &mut |_| {}).unwrap());
    }
    writer.close().unwrap();
    assert_eq!(pairs(&store), []);
}

#[test]
fn space_counts_the_files() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let path = Path::new("/s");
    let store = Store::new(vfs, path.to_owned(), Choice { kv: MEMORY, builtin: None });
    assert_eq!(store.space().unwrap(), super::Space::default());
    create(&store, &[("a", "1")]);
    let space = store.space().unwrap();
    assert_eq!(space.size, 8 + 4 + 1 + 4 + 1);
    assert!(space.allocated >= space.size);
    assert!(sealed(&store));
}

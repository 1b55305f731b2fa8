//! A store added as `docs/add-a-store.md` describes it: its steps 1 and 2, and the checks of step
//! 3. The store is one text file, a pair a line in hexadecimal digits, written whole.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use barid_kv::{
    Batch, Capabilities, Choice, Error, Kv, KvRead, KvWrite, Library, Op, Purpose, Result,
    StoreSpec, Visit, limits,
};
use barid_vfs::{OpenOptions, Vfs};

use crate::conformance::random_batches_of;

// Step 1: the capabilities.
static CAPABILITIES: Capabilities = Capabilities {
    ordered: true,
    // A kill while the file is written leaves half of it.
    atomic: false,
    one_handle: false,
    folder: false,
    key_len_max: limits::KEY_LEN_MAX,
    value_len_max: limits::VALUE_LEN_MAX,
    builtin: &[],
};
const FILE_LEN_MAX: u64 = 64 << 20;

#[derive(Debug)]
struct Lines;

#[derive(Debug)]
struct Open {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
}

// Step 2: the store, and its sessions.
impl Kv for Lines {
    fn name(&self) -> &'static str {
        "lines"
    }
    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }
    fn library(&self) -> Option<&'static Library> {
        None
    }
    fn version(&self) -> Result<String> {
        Ok("1".to_owned())
    }
    fn trusted(&self) -> bool {
        // It is our own code, and checks what it reads.
        true
    }
    fn read(&self, place: &StoreSpec<'_>) -> Result<Box<dyn KvRead>> {
        Ok(Box::new(Open::load(place)?))
    }
    fn write(&self, place: &StoreSpec<'_>, purpose: Purpose) -> Result<Box<dyn KvWrite>> {
        if purpose == Purpose::Update {
            return Ok(Box::new(Open::load(place)?));
        }
        let (vfs, path) = (Arc::clone(place.vfs), place.path.to_owned());
        let open = Open { vfs, path, pairs: BTreeMap::new() };
        open.store()?;
        Ok(Box::new(open))
    }
}

impl Open {
    fn load(place: &StoreSpec<'_>) -> Result<Self> {
        let (vfs, path) = (Arc::clone(place.vfs), place.path.to_owned());
        let at = |source| Error::Io { path: path.clone(), source };
        let bytes = vfs.read(&path, FILE_LEN_MAX).map_err(at)?;
        let what = "not hexadecimal".to_owned();
        let pairs = decode(&bytes).ok_or(Error::Damaged { path: path.clone(), what })?;
        Ok(Self { vfs, path, pairs })
    }

    fn store(&self) -> Result<()> {
        let mut text = String::new();
        for (key, value) in &self.pairs {
            writeln!(text, "{} {}", hex(key), hex(value)).unwrap();
        }
        let file = self.vfs.open(&self.path, OpenOptions::create(0o600));
        let written = file.and_then(|file| {
            file.set_len(0)?;
            file.write_all_at(text.as_bytes(), 0)
        });
        written.map_err(|source| Error::Io { path: self.path.clone(), source })
    }
}

impl KvRead for Open {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.pairs.get(key);
        value.into_iter().for_each(|value| visit(value));
        Ok(value.is_some())
    }
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        let from = self.pairs.range(prefix.to_vec()..);
        let mut with_prefix = from.take_while(|(key, _)| key.starts_with(prefix));
        let _ = with_prefix.all(|(key, value)| visit(key, value));
        Ok(())
    }
}

impl KvWrite for Open {
    fn apply(&mut self, batch: &Batch) -> Result<()> {
        for op in batch.iter() {
            match op {
                Op::Put { key, value } => drop(self.pairs.insert(key.to_vec(), value.to_vec())),
                Op::Delete { key } => drop(self.pairs.remove(key)),
            }
        }
        self.store()
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decode(text: &[u8]) -> Option<BTreeMap<Vec<u8>, Vec<u8>>> {
    let bytes = |digits: &str| {
        let pairs = (0..digits.len()).step_by(2).map(|at| digits.get(at..at + 2));
        pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect::<Option<Vec<u8>>>()
    };
    let lines = std::str::from_utf8(text).ok()?.lines().map(|line| line.split_once(' '));
    lines.map(|pair| pair.and_then(|(key, value)| Some((bytes(key)?, bytes(value)?)))).collect()
}

// Step 3: the conformance tests.
#[test]
fn a_store_that_was_added_equals_the_model() {
    random_batches_of(Choice { kv: &Lines, builtin: None }, 1, 3);
}

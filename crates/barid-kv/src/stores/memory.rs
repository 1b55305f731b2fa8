//! The store for tests: all pairs in memory, and in one file that is replaced at every commit.
//!
//! It uses the given [`Vfs`], so that tests of code above stores can stop it at every write and
//! inject every fault.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use barid_vfs::{OpenOptions, Vfs};
use xxhash_rust::xxh3::xxh3_64;

use crate::kv::Visit;
use crate::stores::outside;
use crate::{
    Batch, Capabilities, Error, Kv, KvRead, KvWrite, Library, Op, Purpose, Result, StoreSpec,
};

const CAPABILITIES: Capabilities = Capabilities { ordered: true, atomic: true, ..outside::FILE };
/// The suffix of a file that will replace the old one.
const NEW: &str = ".new";
/// The longest file that is read.
const FILE_LEN_MAX: u64 = 1 << 30;

/// The kind of store.
#[derive(Debug)]
pub(crate) struct Memory;

#[derive(Debug)]
struct Open {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// `true` if the file must still be written.
    dirty: bool,
    purpose: Option<Purpose>,
}

impl Kv for Memory {
    fn name(&self) -> &'static str {
        "memory"
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
        true
    }
    fn read(&self, place: &StoreSpec<'_>) -> Result<Box<dyn KvRead>> {
        Ok(Box::new(Open::load(place, None)?))
    }
    fn companions(&self) -> &'static [&'static str] {
        &[NEW]
    }
    fn write(&self, place: &StoreSpec<'_>, purpose: Purpose) -> Result<Box<dyn KvWrite>> {
        if purpose == Purpose::Update {
            return Ok(Box::new(Open::load(place, Some(purpose))?));
        }
        let (vfs, path) = (Arc::clone(place.vfs), place.path.to_owned());
        vfs.open(&path, OpenOptions::create_new(0o600)).map_err(Error::at(&path))?;
        Ok(Box::new(Open {
            vfs,
            path,
            pairs: BTreeMap::new(),
            dirty: true,
            purpose: Some(purpose),
        }))
    }
}

impl Open {
    fn load(place: &StoreSpec<'_>, purpose: Option<Purpose>) -> Result<Self> {
        let (vfs, path) = (Arc::clone(place.vfs), place.path.to_owned());
        let bytes = vfs.read(&path, FILE_LEN_MAX).map_err(Error::at(&path))?;
        let pairs = decode(&bytes).ok_or_else(|| Error::damaged(&path, "wrong checksum"))?;
        Ok(Self { vfs, path, pairs, dirty: false, purpose })
    }

    fn store(&mut self) -> Result<()> {
        let at = || Error::at(&self.path);
        let bytes = encode(&self.pairs);
        let mut name = self.path.as_os_str().to_owned();
        name.push(NEW);
        let temporary = PathBuf::from(name);
        let file = self.vfs.open(&temporary, OpenOptions::create(0o600)).map_err(at())?;
        file.set_len(0).map_err(at())?;
        file.write_all_at(&bytes, 0).map_err(at())?;
        self.vfs.rename(&temporary, &self.path).map_err(at())?;
        self.dirty = false;
        Ok(())
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
        self.dirty = true;
        match self.purpose {
            Some(Purpose::Update) => self.store(),
            _ => Ok(()),
        }
    }
    fn close(mut self: Box<Self>) -> Result<()> {
        if self.dirty { self.store() } else { Ok(()) }
    }
}

fn encode(pairs: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    for part in pairs.iter().flat_map(|(key, value)| [key, value]) {
        bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    let checksum = xxh3_64(&bytes[8..]);
    bytes[..8].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<BTreeMap<Vec<u8>, Vec<u8>>> {
    let (checksum, mut rest) = bytes.split_first_chunk::<8>()?;
    if u64::from_le_bytes(*checksum) != xxh3_64(rest) {
        return None;
    }
    let mut take = || {
        let (len, after) = rest.split_first_chunk::<4>()?;
        let (part, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        rest = after;
        Some(part.to_vec())
    };
    let mut pairs = BTreeMap::new();
    while let Some(key) = take() {
        pairs.insert(key, take()?);
    }
    Some(pairs)
}

//! gdbm: the hash database of GNU.
//!
//! Every change is written at once, in place and piece by piece: a file whose writer was killed is
//! damaged.

use std::path::PathBuf;
use std::sync::Arc;

use barid_vfs::Vfs;

use crate::ffi::failure::Failure;
use crate::ffi::gdbm::{self, Gdbm as Handle, LIBRARY, Options};
use crate::kv::Visit;
use crate::stores::outside;
use crate::{Batch, Capabilities, Kv, KvRead, KvWrite, Library, Op, Purpose, Result, StoreSpec};

const CAPABILITIES: Capabilities = outside::FILE;
/// Length of a block. A bucket of keys is one block, and is written whole with every record; unused
/// space at the end of the blocks of records is lost.
const BLOCK_LEN: u16 = 8_192;
/// Buckets in memory, at most; eight megabytes.
const CACHE_LEN: i32 = 1_024;

/// The kind of store.
#[derive(Debug)]
pub(crate) struct Gdbm;

#[derive(Debug)]
struct Open {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    handle: Handle,
    purpose: Option<Purpose>,
    durable: bool,
}

impl Kv for Gdbm {
    fn name(&self) -> &'static str {
        "gdbm"
    }
    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }
    fn library(&self) -> Option<&'static Library> {
        Some(&LIBRARY)
    }
    fn version(&self) -> Result<String> {
        gdbm::version()
    }
    fn read(&self, place: &StoreSpec<'_>) -> Result<Box<dyn KvRead>> {
        Ok(Box::new(Open::new(place, None)?))
    }
    fn write(&self, place: &StoreSpec<'_>, purpose: Purpose) -> Result<Box<dyn KvWrite>> {
        Ok(Box::new(Open::new(place, Some(purpose))?))
    }
}

impl Open {
    fn new(place: &StoreSpec<'_>, purpose: Option<Purpose>) -> Result<Self> {
        outside::expect(place, purpose)?;
        let (vfs, path, durable) = (Arc::clone(place.vfs), place.path.to_owned(), place.durable);
        let create = (purpose == Some(Purpose::Create)).then_some(BLOCK_LEN);
        // A mapping would be recreated whenever the file grows.
        let (write, map) = (purpose.is_some(), purpose.is_none());
        let options = Options { write, create, cache_len: CACHE_LEN, map };
        let handle = Handle::open(&outside::c_path(&path)?, options).map_err(Failure::at(&path))?;
        Ok(Self { vfs, path, handle, purpose, durable })
    }
}

impl KvRead for Open {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.handle.get(key, visit).map_err(Failure::at(&self.path))
    }
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        self.handle.scan(prefix, visit).map_err(Failure::at(&self.path))
    }
}

impl KvWrite for Open {
    fn apply(&mut self, batch: &Batch) -> Result<()> {
        outside::check_lens(&self.path, &CAPABILITIES, batch)?;
        let done = batch.iter().try_for_each(|op| match op {
            Op::Put { key, value } => self.handle.put(key, value),
            Op::Delete { key } => self.handle.delete(key),
        });
        done.map_err(Failure::at(&self.path))?;
        if !(self.durable && self.purpose == Some(Purpose::Update)) {
            return Ok(());
        }
        outside::sync(&*self.vfs, &self.path)
    }
    fn close(self: Box<Self>) -> Result<()> {
        let Self { vfs, path, handle, durable, .. } = *self;
        drop(handle);
        match durable {
            true => outside::sync(&*vfs, &path),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        outside::tests::round_trip(&Gdbm);
    }
}

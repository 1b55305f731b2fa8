//! bdb: the B+ tree of Berkeley DB.
//!
//! Without an environment and its log, pages are written in place when the cache is full, and at
//! the end: a file whose writer was killed is damaged.

use std::path::PathBuf;
use std::sync::Arc;

use barid_vfs::Vfs;

use crate::ffi::bdb::{self, Bdb as Handle, LIBRARY, Options};
use crate::ffi::failure::Failure;
use crate::kv::Visit;
use crate::stores::outside;
use crate::{Batch, Capabilities, Kv, KvRead, KvWrite, Library, Op, Purpose, Result, StoreSpec};

const CAPABILITIES: Capabilities = Capabilities { ordered: true, ..outside::FILE };
/// Length of a page; longer records than a quarter of it take pages of their own.
const PAGE_LEN: u32 = 32_768;
/// Memory for pages.
const CACHE_LEN: u32 = 4 << 20;

/// The kind of store.
#[derive(Debug)]
pub(crate) struct Bdb;

#[derive(Debug)]
struct Open {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    handle: Handle,
    purpose: Option<Purpose>,
    durable: bool,
}

impl Kv for Bdb {
    fn name(&self) -> &'static str {
        "bdb"
    }
    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }
    fn library(&self) -> Option<&'static Library> {
        Some(&LIBRARY)
    }
    fn version(&self) -> Result<String> {
        bdb::version()
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
        let create = (purpose == Some(Purpose::Create)).then_some(PAGE_LEN);
        let write = purpose.is_some();
        let options = Options { write, create, cache_len: CACHE_LEN };
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
        self.handle.flush().map_err(Failure::at(&self.path))?;
        outside::sync(&*self.vfs, &self.path)
    }
    fn close(self: Box<Self>) -> Result<()> {
        let Self { vfs, path, handle, durable, .. } = *self;
        handle.close().map_err(Failure::at(&path))?;
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
        outside::tests::round_trip(&Bdb);
    }
}

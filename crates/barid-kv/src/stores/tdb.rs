//! tdb: the hash database of Samba.
//!
//! A new file is written in place, which is whole only when closed. A batch of an update is one
//! transaction of the library: it lies in memory until it is committed, and what it overwrites is
//! kept in the file until it is done.

use std::path::PathBuf;
use std::sync::Arc;

use barid_vfs::Vfs;

use crate::ffi::failure::Failure;
use crate::ffi::tdb::{Api, LIBRARY, Mode, Tdb as Handle};
use crate::kv::Visit;
use crate::stores::outside;
use crate::{Batch, Capabilities, Error, Kv, KvRead, KvWrite, Library, Op, Place, Purpose, Result};

/// The library refuses to open a file twice in a process.
const CAPABILITIES: Capabilities = Capabilities { atomic: true, one_handle: true, ..outside::FILE };
/// Chains that keys are spread over, a prime: 64 KB, and six records in each at 100,000.
const HASH_SIZE: u16 = 16_411;

/// The kind of store.
#[derive(Debug)]
pub(crate) struct Tdb;

#[derive(Debug)]
struct Open {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    handle: Handle,
    purpose: Option<Purpose>,
    durable: bool,
}

impl Kv for Tdb {
    fn name(&self) -> &'static str {
        "tdb"
    }
    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }
    fn library(&self) -> Option<&'static Library> {
        Some(&LIBRARY)
    }
    /// The library does not tell its version.
    fn version(&self) -> Result<String> {
        Api::get().map(|_| "1".to_owned())
    }
    fn read(&self, place: &Place<'_>) -> Result<Box<dyn KvRead>> {
        Ok(Box::new(Open::new(place, None)?))
    }
    fn write(&self, place: &Place<'_>, purpose: Purpose) -> Result<Box<dyn KvWrite>> {
        Ok(Box::new(Open::new(place, Some(purpose))?))
    }
}

impl Open {
    fn new(place: &Place<'_>, purpose: Option<Purpose>) -> Result<Self> {
        outside::expect(place, purpose)?;
        let (vfs, path, durable) = (Arc::clone(place.vfs), place.path.to_owned(), place.durable);
        let mode = match purpose {
            None => Mode::Read,
            Some(Purpose::Update) => Mode::Update { sync: durable },
            Some(Purpose::Create) => Mode::Create { hash_size: HASH_SIZE },
        };
        let handle = Handle::open(&outside::c_path(&path)?, mode).map_err(Failure::at(&path))?;
        Ok(Self { vfs, path, handle, purpose, durable })
    }

    fn at(&self) -> impl FnOnce(Failure) -> Error + use<'_> {
        Failure::at(&self.path)
    }

    fn apply_each(&mut self, batch: &Batch) -> Result<()> {
        let done = batch.iter().try_for_each(|op| match op {
            Op::Put { key, value } => self.handle.put(key, value),
            Op::Delete { key } => self.handle.delete(key),
        });
        done.map_err(self.at())
    }
}

impl KvRead for Open {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.handle.get(key, visit).map_err(Failure::at(&self.path))
    }
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        let mut visit = |key: &[u8], value: &[u8]| !key.starts_with(prefix) || visit(key, value);
        self.handle.scan(&mut visit).map_err(Failure::at(&self.path))
    }
}

impl KvWrite for Open {
    fn apply(&mut self, batch: &Batch) -> Result<()> {
        outside::check_lens(&self.path, &CAPABILITIES, batch)?;
        if self.purpose == Some(Purpose::Create) {
            return self.apply_each(batch);
        }
        self.handle.begin().map_err(self.at())?;
        if let Err(error) = self.apply_each(batch) {
            self.handle.cancel();
            return Err(error);
        }
        self.handle.commit().map_err(self.at())
    }
    fn close(self: Box<Self>) -> Result<()> {
        let Self { vfs, path, handle, purpose, durable } = *self;
        drop(handle);
        match durable && purpose == Some(Purpose::Create) {
            true => outside::sync(&Place { vfs: &vfs, path: &path, builtin: None, durable }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        outside::tests::round_trip(&Tdb);
    }
}

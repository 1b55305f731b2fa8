//! The sessions of all stores whose library is loaded when it is first used.

use std::fmt::Debug;
use std::path::Path;

use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::pairs::ReadPairs;
use crate::kv::Visit;
use crate::stores::files::Written;
use crate::stores::outside;
use crate::{Batch, Capabilities, Kv, KvRead, KvWrite, Library, Purpose, Result, StoreSpec};

/// A store of a library. Everything that a driver does not define is the same for all of them.
pub(crate) trait Driver: Debug + Send + Sync + 'static {
    /// See [`Kv::name`].
    const NAME: &'static str;
    /// See [`Kv::capabilities`].
    const CAPABILITIES: Capabilities;
    /// See [`Kv::library`].
    const LIBRARY: &'static Library;
    /// See [`Kv::companions`].
    const COMPANIONS: &'static [&'static str] = &[];
    /// See [`Kv::unfinished_prefix`].
    const UNFINISHED_PREFIX: Option<&'static str> = None;
    /// See [`Kv::trusted`].
    const TRUSTED: bool = false;

    /// An open file.
    type Handle: ReadPairs;

    /// See [`Kv::version`].
    fn version() -> Result<String>;

    /// Opens an existing store for reading.
    fn read(place: &StoreSpec<'_>) -> Result<Self::Handle>;

    /// Opens a store for writing.
    fn write(place: &StoreSpec<'_>, purpose: Purpose) -> Result<(Self::Handle, Written)>;

    /// Applies a batch, in which no key and no value is too long.
    fn apply(handle: &mut Self::Handle, file: &mut Written, batch: &Batch) -> Outcome<()>;

    /// Closes a store that was written.
    fn close(handle: Self::Handle, file: Written) -> Outcome<()>;
}

#[derive(Debug)]
struct Reading<H> {
    handle: H,
    path: Box<Path>,
}

/// A void file is removed before its handle is closed, while nobody else can write it.
#[derive(Debug)]
struct Writing<D: Driver> {
    file: Written,
    handle: D::Handle,
}

impl<D: Driver> Kv for D {
    fn name(&self) -> &'static str {
        D::NAME
    }
    fn capabilities(&self) -> &'static Capabilities {
        &D::CAPABILITIES
    }
    fn library(&self) -> Option<&'static Library> {
        Some(D::LIBRARY)
    }
    fn version(&self) -> Result<String> {
        D::version()
    }
    fn read(&self, place: &StoreSpec<'_>) -> Result<Box<dyn KvRead>> {
        let handle = D::read(place)?;
        Ok(Box::new(Reading { handle, path: place.path.into() }))
    }
    fn write(&self, place: &StoreSpec<'_>, purpose: Purpose) -> Result<Box<dyn KvWrite>> {
        let (handle, file) = D::write(place, purpose)?;
        Ok(Box::new(Writing::<D> { file, handle }))
    }
    fn trusted(&self) -> bool {
        D::TRUSTED
    }
    fn companions(&self) -> &'static [&'static str] {
        D::COMPANIONS
    }
    fn unfinished_prefix(&self) -> Option<&'static str> {
        D::UNFINISHED_PREFIX
    }
}

impl<H: ReadPairs> KvRead for Reading<H> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.handle.get(key, visit).map_err(Failure::at(&self.path))
    }
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        self.handle.scan(prefix, visit).map_err(Failure::at(&self.path))
    }
}

impl<D: Driver> KvRead for Writing<D> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.handle.get(key, visit).map_err(Failure::at(self.file.path()))
    }
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        self.handle.scan(prefix, visit).map_err(Failure::at(self.file.path()))
    }
}

impl<D: Driver> KvWrite for Writing<D> {
    fn apply(&mut self, batch: &Batch) -> Result<()> {
        outside::check_lens(self.file.path(), &D::CAPABILITIES, batch)?;
        let applied = D::apply(&mut self.handle, &mut self.file, batch);
        applied.map_err(Failure::at(self.file.path()))
    }
    fn close(self: Box<Self>) -> Result<()> {
        let Self { file, handle } = *self;
        let path = file.path().to_owned();
        D::close(handle, file).map_err(Failure::at(&path))
    }
}

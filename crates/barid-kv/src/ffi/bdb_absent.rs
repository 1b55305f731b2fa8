//! What stands for libdb where barid was built without it.

use std::ffi::CStr;

use crate::ffi::failure::Outcome;
use crate::kv::Visit;
use crate::{Error, Library};

/// Where it comes from.
pub(crate) static LIBRARY: Library = Library { names: &["libdb-5.3.so"], package: "libdb5.3" };

/// How a file would be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) write: bool,
    pub(crate) create: Option<u32>,
    pub(crate) cache_len: u32,
}

/// There is none.
#[derive(Debug)]
pub(crate) enum Bdb {}

/// There is none, and what to do about it.
pub(crate) fn version() -> crate::Result<String> {
    let why = "not built in: build with the feature bdb, which takes a C compiler and db.h \
               (Debian: libdb5.3-dev)";
    Err(Error::Unavailable { store: "bdb", why: why.to_owned() })
}

impl Bdb {
    pub(crate) fn open(_path: &CStr, _options: Options) -> Outcome<Self> {
        match version() {
            Err(error) => Err(error.into()),
            Ok(_) => unreachable!("there is no version of what is not built in"),
        }
    }
    pub(crate) fn get(&mut self, _key: &[u8], _visit: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        match *self {}
    }
    pub(crate) fn scan(&mut self, _prefix: &[u8], _visit: &mut Visit<'_>) -> Outcome<()> {
        match *self {}
    }
    pub(crate) fn put(&mut self, _key: &[u8], _value: &[u8]) -> Outcome<()> {
        match *self {}
    }
    pub(crate) fn delete(&mut self, _key: &[u8]) -> Outcome<()> {
        match *self {}
    }
    pub(crate) fn flush(&mut self) -> Outcome<()> {
        match *self {}
    }
    pub(crate) fn close(self) -> Outcome<()> {
        match self {}
    }
}

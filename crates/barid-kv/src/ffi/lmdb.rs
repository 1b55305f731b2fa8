//! Opening of LMDB environments through [`heed`].

#![expect(unsafe_code, reason = "a map is valid only as long as nobody else changes the file")]

use std::path::Path;

use heed::{Env, EnvFlags, EnvOpenOptions, WithoutTls};

/// The mode in which an environment is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// For reading.
    Read,
    /// For writing; the operating system decides when commits reach the disk.
    Write,
    /// For writing; commits are durable.
    Durable,
}

/// Opens the file `path` with a map of `map_size` bytes, a multiple of the page size.
pub(crate) fn open(path: &Path, mode: Mode, map_size: usize) -> heed::Result<Env<WithoutTls>> {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(map_size);
    let flags = EnvFlags::NO_SUB_DIR
        | EnvFlags::NO_LOCK
        | match mode {
            Mode::Read => EnvFlags::READ_ONLY,
            Mode::Write => EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC,
            Mode::Durable => EnvFlags::empty(),
        };
    // SAFETY: the store's lock excludes readers during writes, also those of other processes, and
    // only a store writes to its file; the seal detects damage by others before the file is opened
    // here, and losses by a power failure as well.
    unsafe {
        options.flags(flags);
        options.open(path)
    }
}

/// Enlarges the map. `env` is borrowed exclusively, and so has no transaction: each borrows it.
pub(crate) fn resize(env: &mut Env<WithoutTls>, map_size: usize) -> heed::Result<()> {
    // SAFETY: there is no transaction, as above; writers do not clone their environment.
    unsafe { env.resize(map_size) }
}

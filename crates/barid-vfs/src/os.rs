//! The real file system.

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsVfs;

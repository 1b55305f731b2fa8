//! What can go wrong with state files.

use std::path::PathBuf;

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a state file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

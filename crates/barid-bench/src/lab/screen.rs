//! Where a bench talks to.

use std::io;
use std::path::Path;

/// Takes what a bench says while it runs.
pub trait Screen {
    /// A line that stays.
    ///
    /// # Errors
    ///
    /// When nobody reads any more; the bench then ends.
    fn line(&mut self, text: &str) -> io::Result<()>;

    /// The folder in which the bench runs and leaves its files; said once, before all lines.
    ///
    /// # Errors
    ///
    /// As [`Screen::line`].
    fn folder(&mut self, folder: &Path) -> io::Result<()>;

    /// What goes on now, until the next call of either; shown on a terminal only.
    fn status(&mut self, text: &str);
}

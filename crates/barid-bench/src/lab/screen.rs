//! The output of a bench while it runs.

use std::io;
use std::path::Path;

/// Receives the output of a bench while it runs.
pub trait Screen {
    /// Prints a line that stays.
    ///
    /// # Errors
    ///
    /// Returns an error if the output is closed; the bench then ends.
    fn line(&mut self, text: &str) -> io::Result<()>;

    /// Reports the folder in which the bench runs and leaves its files; called once, before all
    /// lines.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Screen::line`].
    fn folder(&mut self, folder: &Path) -> io::Result<()>;

    /// Shows the current activity until the next call of any method; on a terminal only.
    fn status(&mut self, text: &str);
}

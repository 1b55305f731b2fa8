//! Where a bench talks to.

use std::io;

/// Takes what a bench says while it runs.
pub trait Screen {
    /// A line that stays.
    ///
    /// # Errors
    ///
    /// When nobody reads any more; the bench then ends.
    fn line(&mut self, text: &str) -> io::Result<()>;

    /// What goes on now, until the next call of either; shown on a terminal only.
    fn status(&mut self, text: &str);
}

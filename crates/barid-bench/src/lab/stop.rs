//! A bench is told to stop.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

/// The bench was told to stop.
#[derive(Debug)]
struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("interrupted")
    }
}

impl std::error::Error for Stopped {}

/// Whether a bench was told to stop; an error that ended it otherwise tells where the rest is.
pub(crate) fn is_interrupted(ended: Result<()>, folder: &Path) -> Result<bool> {
    match ended {
        Ok(()) => Ok(false),
        Err(error) if error.is::<Stopped>() => Ok(true),
        Err(error) => {
            let kept = format!("what was measured before is in {}", folder.display());
            Err(error.context(kept))
        }
    }
}

/// A result, or [`Stopped`]: a run that ends while the bench is being stopped counts for nothing,
/// as the signal reached it as well.
pub(crate) fn stoppable<T>(stop: &AtomicBool, result: Result<T>) -> Result<T> {
    if stop.load(Ordering::Relaxed) { Err(Stopped.into()) } else { result }
}

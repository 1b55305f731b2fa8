//! Stopping a bench.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

/// The error of a stopped bench.
#[derive(Debug)]
struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("interrupted")
    }
}

impl std::error::Error for Stopped {}

/// Returns `true` if the bench was stopped. Any other error gets the folder of the earlier results
/// as context.
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

/// Returns the result, or [`Stopped`] if the bench is being stopped: the signal also reached the
/// running program, so its result is invalid.
pub(crate) fn stoppable<T>(stop: &AtomicBool, result: Result<T>) -> Result<T> {
    if stop.load(Ordering::Relaxed) { Err(Stopped.into()) } else { result }
}

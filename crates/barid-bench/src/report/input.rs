//! Reading the files of runs.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;

use crate::limits::RUN_FILE_LEN_MAX;

/// Reads a file of text with a bounded size.
pub(super) fn text(path: &Path) -> Result<String> {
    let name = || path.display().to_string();
    let len = disk::size(path).with_context(name)?;
    ensure!(len <= RUN_FILE_LEN_MAX, "{}: {len} bytes, at most {RUN_FILE_LEN_MAX}", name());
    let bytes = disk::read(path).with_context(name)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let before = error.as_bytes().iter().take(valid);
            let line = before.filter(|byte| **byte == b'\n').count() + 1;
            Err(at(path, line, "not UTF-8"))
        }
    }
}

/// Returns an error at a line of a file, counted from 1.
pub(super) fn at(path: &Path, line: usize, problem: &str) -> anyhow::Error {
    anyhow::anyhow!("{}:{line}: {problem}", path.display())
}

/// Returns the last component of a path as text.
pub(super) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

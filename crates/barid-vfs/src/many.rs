//! Removing many files.
//!
//! On most file systems a removal is only logged, and one thread is fastest. If the blocks of a
//! file are discarded before the call returns (ext4 without a journal, mounted with `discard`),
//! each removal waits some milliseconds for the device, and many threads wait at the same time.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::api::Vfs;
use crate::limits::{REMOVAL_THREADS, REMOVAL_WAITS, REMOVALS_TIMED};
use crate::workers::on_threads;

/// Removes files: the first ones by one thread, and, if these waited for the disk, the rest by
/// many. Returns the result of each, in the order of `paths`.
pub(crate) fn remove_files(vfs: &dyn Vfs, paths: &[PathBuf]) -> Vec<io::Result<()>> {
    let (first, rest) = paths.split_at(paths.len().min(REMOVALS_TIMED));
    let started = Instant::now();
    let mut results: Vec<_> = first.iter().map(|path| vfs.remove_file(path)).collect();
    if started.elapsed() < REMOVAL_WAITS * REMOVALS_TIMED as u32 {
        results.extend(rest.iter().map(|path| vfs.remove_file(path)));
    } else {
        results.extend(remove_together(vfs, rest, REMOVAL_THREADS));
    }
    results
}

/// Removes files with up to `threads` threads.
fn remove_together(vfs: &dyn Vfs, paths: &[PathBuf], threads: usize) -> Vec<io::Result<()>> {
    let next = AtomicUsize::new(0);
    let remove = || {
        let mut own = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(at) else { break };
            own.push((at, vfs.remove_file(path)));
        }
        own
    };
    let mut results: Vec<_> =
        on_threads(threads.min(paths.len()), remove).into_iter().flatten().collect();
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{MemVfs, OpenOptions};

    #[test]
    fn every_file_has_its_result() {
        for threads in [1, 2, REMOVAL_THREADS] {
            for count in [0, 1, 40] {
                let vfs = MemVfs::new();
                let paths: Vec<_> =
                    (0..count).map(|at| Path::new("/").join(at.to_string())).collect();
                for path in paths.iter().step_by(2) {
                    vfs.open(path, OpenOptions::create_new(0o600)).unwrap();
                }
                let results = remove_together(&vfs, &paths, threads);
                let found: Vec<_> = results.iter().map(Result::is_ok).collect();
                let expected: Vec<_> = (0..count).map(|at| at % 2 == 0).collect();
                assert_eq!(found, expected, "{threads} {count}");
                assert!(remove_files(&vfs, &paths).iter().all(Result::is_err));
            }
        }
    }
}

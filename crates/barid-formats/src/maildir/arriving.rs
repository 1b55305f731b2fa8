//! Messages that are being written under their final names: they get no UID until they are
//! complete, or have not changed for a while.

use super::Dirs;
use super::layout::ARRIVALS_LOOKED_AT_MAX;
use super::list::MaildirListing;

use crate::file_stamps::FileStamps;
use crate::files::{HeadReader, is_changing, is_unfinished};

/// Removes files that are still being written from the new ones, and returns their keys. Costs an
/// `lstat` for each new file, and a read of those that were changed just now. If there are very
/// many new files, they are checked only if a folder was changed just now; otherwise reading them
/// detects it.
pub(super) fn hold_back(dirs: &Dirs, listing: &mut MaildirListing, stamp: &FileStamps) -> Vec<u64> {
    let is_settled = stamp.is_settled(0) && stamp.is_settled(1);
    if is_settled && listing.fresh.len() > ARRIVALS_LOOKED_AT_MAX {
        return Vec::new();
    }
    let mut reader = HeadReader::new();
    let mut held = Vec::new();
    let mut fresh = std::mem::take(&mut listing.fresh);
    fresh.retain(|at| {
        let sighting = &listing.sightings[*at as usize];
        let name = listing.names.get(sighting.name);
        let dir = &*dirs.handles[usize::from(!sighting.in_new)];
        // A file without metadata is handled when it is read.
        let is_held = dir.metadata(name).is_ok_and(|found| is_changing(&found, stamp.taken))
            && reader
                .read(dir, name)
                .is_ok_and(|head| is_unfinished(reader.header(&head), &head.metadata, stamp.taken));
        if is_held {
            held.push(sighting.key);
        }
        !is_held
    });
    listing.fresh = fresh;
    held
}

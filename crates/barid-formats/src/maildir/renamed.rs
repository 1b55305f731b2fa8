//! Messages that mbsync has renamed.
//!
//! mbsync adds `,U=` and a number to the base name, which makes it another message for programs
//! that identify messages by base name. It counts as the same one only if the old name is gone, and
//! exactly one new file has the same name before `,U=`, the same inode and the same size; two
//! existing files stay two messages. Inode and size are stored as a mark of the file when the
//! message is read. The UID list gets the new name under its lock (`written.rs`).
//!
//! A number that is changed or removed again is not recognised, nor is a program that gives files
//! other names: these are new messages.

use std::collections::{HashMap, HashSet};

use super::Dirs;
use super::before::KnownMaildir;
use super::list::{MaildirListing, MaildirMatch};
use super::name;
use barid_mailbox::{Error, Result};

/// Finds the new names of known messages whose files are gone. Costs a `stat` per candidate.
pub(super) fn resolve(
    listing: &mut MaildirListing,
    dirs: &Dirs,
    before: &KnownMaildir,
) -> Result<()> {
    let mut candidates: HashMap<u32, Vec<u32>> = HashMap::new();
    for &at in &listing.fresh {
        let sighting = &listing.sightings[at as usize];
        let name = sighting.name;
        if name.stem_hash != name.hash
            && sighting.key == name.hash
            && let Some(row) = before.find(name.stem_hash, listing.names.stem(name))
            && !before.rows[row as usize].is_twin()
        {
            candidates.entry(row).or_default().push(at);
        }
    }
    if candidates.is_empty() {
        return Ok(());
    }
    for (row, mark) in before.rows.iter().map(|row| row.mark).enumerate() {
        let Some(&[at]) = candidates.get(&(row as u32)).map(Vec::as_slice) else { continue };
        if mark != 0
            && is_gone(listing, dirs, before, row)?
            && mark_of(listing, dirs, at)? == Some(mark)
        {
            listing.seen[row] = MaildirMatch::Changed(at);
            listing.renamed.push((row as u32, at));
        }
    }
    let renamed: HashSet<u32> = listing.renamed.iter().map(|(_, at)| *at).collect();
    listing.fresh.retain(|at| !renamed.contains(at));
    Ok(())
}

/// Returns `true` if a known message no longer exists under its name.
fn is_gone(
    listing: &MaildirListing,
    dirs: &Dirs,
    before: &KnownMaildir,
    row: usize,
) -> Result<bool> {
    if listing.seen[row] == MaildirMatch::Gone {
        return Ok(true);
    }
    // While others keep changing the folders, a missing file is not known to be gone.
    if listing.was_seen(row as u32) || listing.dirs_listed < 2 {
        return Ok(false);
    }
    let known = &before.rows[row];
    let at = usize::from(!known.in_new);
    match dirs.handles[at].metadata(before.names.get(known.name)) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(source) => Err(Error::at(&dirs.paths[at])(source)),
    }
}

/// Returns the mark of a file that was seen; `None` if it is not there any more.
fn mark_of(listing: &MaildirListing, dirs: &Dirs, sighting: u32) -> Result<Option<u32>> {
    let sighting = &listing.sightings[sighting as usize];
    let at = usize::from(!sighting.in_new);
    match dirs.handles[at].metadata(listing.names.get(sighting.name)) {
        Ok(metadata) => Ok(Some(name::mark(&metadata))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::at(&dirs.paths[at])(source)),
    }
}

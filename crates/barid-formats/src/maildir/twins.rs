//! Two files with one base name.
//!
//! A name seen twice in one listing is most often one file that was renamed meanwhile, or one file
//! with two names (an interrupted delivery by link and unlink): one message. Files that differ are
//! two messages. The first keeps the base name as its key; the key of the *twin* also includes its
//! inode, and its UID is in the ledger, since `dovecot-uidlist` can store a name only once. A
//! `sync` gives the twin a name of its own, as Dovecot does.

use barid_mailbox::{Error, Result};
use barid_vfs::Metadata;

use super::Dirs;
use super::before::KnownMaildir;
use super::list::{MaildirListing, MaildirMatch, Sighting};
use super::name;

/// A file that exists now.
#[derive(Clone, Debug)]
struct Candidate {
    name: Vec<u8>,
    in_new: bool,
    inode: u64,
}

/// Resolves names seen twice and former twins. Costs a `stat` per such file.
pub(super) fn resolve(
    listing: &mut MaildirListing,
    dirs: &Dirs,
    before: &KnownMaildir,
) -> Result<()> {
    let doubles = listing.take_doubles();
    if doubles.is_empty() && before.twins.is_empty() {
        return Ok(());
    }
    let mut bases: Vec<(Vec<u8>, Option<Sighting>)> = Vec::new();
    for double in doubles {
        bases.push((listing.names.base(double.name).to_vec(), Some(double)));
    }
    for twin in &before.twins {
        bases.push((before.names.base(before.rows[*twin as usize].name).to_vec(), None));
    }
    bases.sort_by(|a, b| a.0.cmp(&b.0));
    for group in bases.chunk_by(|a, b| a.0 == b.0) {
        let doubles: Vec<Sighting> = group.iter().filter_map(|(_, double)| *double).collect();
        resolve_base(listing, dirs, before, &group[0].0, &doubles)?;
    }
    Ok(())
}

fn resolve_base(
    listing: &mut MaildirListing,
    dirs: &Dirs,
    before: &KnownMaildir,
    base: &[u8],
    doubles: &[Sighting],
) -> Result<()> {
    let hash = name::base_hash(base);
    let row = before.find(hash, base);
    let fresh = listing.find_fresh(hash, base);
    let twins: Vec<u32> =
        before.twins.iter().copied().filter(|at| is_base(before, *at, base)).collect();
    let names = names_of(listing, before, row, fresh, &twins, doubles);
    let mut files = files_of(listing, dirs, names)?;
    for at in &twins {
        claim_twin(listing, before, *at, base, &mut files);
    }
    if let Some(row) = row {
        claim_row(listing, before, row, twins.is_empty(), &mut files);
    } else if let Some(fresh) = fresh {
        let first = (0..files.len()).min_by_key(|at| files[*at].inode);
        if let Some(file) = first.map(|at| files.swap_remove(at))
            && let Some(name) = listing.names.add(&file.name)
        {
            let sighting = &mut listing.sightings[fresh as usize];
            (sighting.name, sighting.in_new) = (name, file.in_new);
        }
    }
    files.sort_by_key(|file| file.inode);
    for file in files {
        let key = KnownMaildir::twin_key(base, file.inode);
        if let Some(at) = listing.add_keyed(&file.name, file.in_new, key) {
            listing.fresh.push(at);
        }
        let shown = String::from_utf8_lossy(base).into_owned();
        listing.defects.push(format!("two files share the name {shown}"));
    }
    Ok(())
}

fn is_base(before: &KnownMaildir, row: u32, base: &[u8]) -> bool {
    before.names.base(before.rows[row as usize].name) == base
}

/// Returns every name under which a file of this base may be, without repetition.
fn names_of(
    listing: &MaildirListing,
    before: &KnownMaildir,
    row: Option<u32>,
    fresh: Option<u32>,
    twins: &[u32],
    doubles: &[Sighting],
) -> Vec<(Vec<u8>, bool)> {
    let known = |at: u32| {
        let row = &before.rows[at as usize];
        (before.names.get(row.name).to_vec(), row.in_new)
    };
    let sighted =
        |sighting: &Sighting| (listing.names.get(sighting.name).to_vec(), sighting.in_new);
    let mut names: Vec<(Vec<u8>, bool)> = Vec::new();
    if let Some(at) = row {
        match listing.seen[at as usize] {
            MaildirMatch::Same => names.push(known(at)),
            MaildirMatch::Changed(sighting) => {
                names.push(sighted(&listing.sightings[sighting as usize]))
            }
            MaildirMatch::Gone => {}
        }
    }
    names.extend(fresh.map(|at| sighted(&listing.sightings[at as usize])));
    names.extend(doubles.iter().map(sighted));
    names.extend(twins.iter().map(|at| known(*at)));
    let mut unique: Vec<(Vec<u8>, bool)> = Vec::new();
    for name in names {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    unique
}

/// Returns the files that exist under the names; of several names of one file the last.
fn files_of(
    listing: &mut MaildirListing,
    dirs: &Dirs,
    names: Vec<(Vec<u8>, bool)>,
) -> Result<Vec<Candidate>> {
    let mut files: Vec<Candidate> = Vec::new();
    for (name, in_new) in names {
        let Some(metadata) = stat(dirs, &name, in_new)? else {
            continue;
        };
        let file = Candidate { name, in_new, inode: metadata.inode };
        match files.iter_mut().find(|other| other.inode == file.inode) {
            Some(other) => {
                if metadata.links > 1 {
                    let shown = String::from_utf8_lossy(name::base(&file.name)).into_owned();
                    listing.defects.push(format!("a file has two names: {shown}"));
                }
                *other = file;
            }
            None => files.push(file),
        }
    }
    Ok(files)
}

fn stat(dirs: &Dirs, name: &[u8], in_new: bool) -> Result<Option<Metadata>> {
    let at = usize::from(!in_new);
    match dirs.handles[at].metadata(name) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::at(&dirs.paths[at])(source)),
    }
}

/// Finds the file of a known twin by its inode.
fn claim_twin(
    listing: &mut MaildirListing,
    before: &KnownMaildir,
    at: u32,
    base: &[u8],
    files: &mut Vec<Candidate>,
) {
    let row = &before.rows[at as usize];
    match files.iter().position(|file| KnownMaildir::twin_key(base, file.inode) == row.key) {
        Some(found) => {
            let file = files.swap_remove(found);
            set_seen(listing, before, at, &file);
        }
        None if listing.dirs_listed >= 2 => listing.seen[at as usize] = MaildirMatch::Gone,
        None => {}
    }
}

/// Finds the file of a known message among those that no twin claims.
fn claim_row(
    listing: &mut MaildirListing,
    before: &KnownMaildir,
    at: u32,
    no_twins: bool,
    files: &mut Vec<Candidate>,
) {
    if files.is_empty() {
        if !no_twins && listing.was_seen(at) {
            listing.seen[at as usize] = MaildirMatch::Gone;
        }
        return;
    }
    let row = &before.rows[at as usize];
    let same =
        |file: &Candidate| file.in_new == row.in_new && file.name == before.names.get(row.name);
    let lowest = || (0..files.len()).min_by_key(|at| files[*at].inode);
    if let Some(found) = files.iter().position(same).or_else(lowest) {
        let file = files.swap_remove(found);
        set_seen(listing, before, at, &file);
    }
}

fn set_seen(listing: &mut MaildirListing, before: &KnownMaildir, at: u32, file: &Candidate) {
    let row = &before.rows[at as usize];
    listing.seen[at as usize] =
        if file.in_new == row.in_new && file.name == before.names.get(row.name) {
            MaildirMatch::Same
        } else {
            match listing.add_keyed(&file.name, file.in_new, row.key) {
                Some(sighting) => MaildirMatch::Changed(sighting),
                None => MaildirMatch::Same,
            }
        };
}

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
    /// The mark of the file ([`name::mark`]).
    mark: u32,
}

/// The files of one base name.
struct TwinFiles {
    files: Vec<Candidate>,
    /// `true` if there certainly are no others.
    are_all: bool,
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
    let seen = seen_names(listing, before, row, fresh, doubles);
    let mut found = files_of(listing, dirs, before, seen, &twins)?;
    if found.files.len() > 1 || !twins.is_empty() {
        listing.twin_bases.insert(hash);
    }
    let are_there = !found.files.is_empty();
    for at in &twins {
        claim_twin(listing, before, *at, base, &mut found);
    }
    if let Some(row) = row {
        claim_row(listing, before, row, twins.is_empty(), &mut found);
    }
    let mut files = found.files;
    if let Some(fresh) = fresh.filter(|_| row.is_none()) {
        let first = (0..files.len()).min_by_key(|at| files[*at].inode);
        if let Some(file) = first.map(|at| files.swap_remove(at)) {
            if let Some(name) = listing.names.add(&file.name) {
                let sighting = &mut listing.sightings[fresh as usize];
                (sighting.name, sighting.in_new) = (name, file.in_new);
            }
        } else if are_there {
            // It is a twin whose first message is gone.
            listing.fresh.retain(|at| *at != fresh);
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

/// Returns every name of this base that was seen, in the order of the sightings.
fn seen_names(
    listing: &MaildirListing,
    before: &KnownMaildir,
    row: Option<u32>,
    fresh: Option<u32>,
    doubles: &[Sighting],
) -> Vec<(Vec<u8>, bool)> {
    let sighted =
        |sighting: &Sighting| (listing.names.get(sighting.name).to_vec(), sighting.in_new);
    let mut names: Vec<(Vec<u8>, bool)> = Vec::new();
    if let Some(at) = row {
        match listing.seen[at as usize] {
            MaildirMatch::Same => names.push(known_name(before, at)),
            MaildirMatch::Changed(sighting) => {
                names.push(sighted(&listing.sightings[sighting as usize]))
            }
            MaildirMatch::Gone => {}
        }
    }
    names.extend(fresh.map(|at| sighted(&listing.sightings[at as usize])));
    names.extend(doubles.iter().map(sighted));
    names
}

fn known_name(before: &KnownMaildir, at: u32) -> (Vec<u8>, bool) {
    let row = &before.rows[at as usize];
    (before.names.get(row.name).to_vec(), row.in_new)
}

/// Returns the files that exist under the names that were seen, or under those that the twins had;
/// of several names of one file the last.
fn files_of(
    listing: &mut MaildirListing,
    dirs: &Dirs,
    before: &KnownMaildir,
    seen: Vec<(Vec<u8>, bool)>,
    twins: &[u32],
) -> Result<TwinFiles> {
    let count = seen.len();
    let names = seen.into_iter().chain(twins.iter().map(|at| known_name(before, *at)));
    let mut unique: Vec<(Vec<u8>, bool)> = Vec::new();
    let mut found = TwinFiles { files: Vec::new(), are_all: listing.is_whole };
    for (at, (name, in_new)) in names.enumerate() {
        if unique.contains(&(name.clone(), in_new)) {
            continue;
        }
        unique.push((name.clone(), in_new));
        let Some(metadata) = stat(dirs, &name, in_new)? else {
            // It was renamed or removed since.
            found.are_all &= at >= count;
            continue;
        };
        let mark = name::mark(&metadata);
        let file = Candidate { name, in_new, inode: metadata.inode, mark };
        match found.files.iter_mut().find(|other| other.inode == file.inode) {
            Some(other) => {
                if metadata.links > 1 {
                    let shown = String::from_utf8_lossy(name::base(&file.name)).into_owned();
                    listing.defects.push(format!("a file has two names: {shown}"));
                }
                *other = file;
            }
            None => found.files.push(file),
        }
    }
    Ok(found)
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
    found: &mut TwinFiles,
) {
    let row = &before.rows[at as usize];
    let is_it = |file: &Candidate| KnownMaildir::twin_key(base, file.inode) == row.key;
    match found.files.iter().position(is_it) {
        Some(position) => {
            let file = found.files.swap_remove(position);
            set_seen(listing, before, at, &file);
        }
        None if found.are_all => listing.seen[at as usize] = MaildirMatch::Gone,
        None => {}
    }
}

/// Finds the file of a known message among those that no twin claims.
fn claim_row(
    listing: &mut MaildirListing,
    before: &KnownMaildir,
    at: u32,
    no_twins: bool,
    found: &mut TwinFiles,
) {
    let files = &mut found.files;
    let row = &before.rows[at as usize];
    let same =
        |file: &Candidate| file.in_new == row.in_new && file.name == before.names.get(row.name);
    let marked = |file: &Candidate| file.mark == row.mark;
    let lowest = || (0..files.len()).min_by_key(|at| files[*at].inode);
    let is_known = no_twins || found.are_all || row.mark == 0;
    let chosen = files
        .iter()
        .position(same)
        .or_else(|| files.iter().position(marked))
        .or_else(|| lowest().filter(|_| is_known));
    match chosen {
        Some(chosen) => {
            let file = files.swap_remove(chosen);
            set_seen(listing, before, at, &file);
        }
        // The name that was seen is that of a twin.
        None if !no_twins && listing.was_seen(at) => {
            listing.seen[at as usize] = match found.are_all {
                true => MaildirMatch::Gone,
                false => MaildirMatch::Same,
            };
        }
        None => {}
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

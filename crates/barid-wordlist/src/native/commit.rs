//! Replacing a table, by merging, large batches and rewriting.
//!
//! Order: the second name of a table that is kept as the base; the new log, durable; fsync of the
//! folder; the new table, written whole, fsynced and renamed (the commit point); fsync of the
//! folder; removal of the old files. A crash before the rename leaves a log and a name that are not
//! used.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use barid_vfs::Vfs;

use super::Native;
use super::header::Header;
use super::log::Log;
use super::table::{self, Writer};
use super::view::{View, base_path, beside, log_path};
use crate::batch::{Bent, Op};
use crate::entry::{is_receipt, keys};
use crate::error::At;
use crate::limits::{DAMAGE_MAX, SEEDS_MAX};
use crate::{Counts, Error, Receipt, Result, TokenEntry};

/// Writes the first table and log of a list.
pub(crate) fn begin(
    vfs: &dyn Vfs,
    path: &Path,
    mut header: Header,
    entries: &[(&[u8], TokenEntry)],
) -> Result<()> {
    header.day = today(vfs);
    Log::create(vfs, &log_path(path, header.generation), &header.log())?;
    let folder = folder_of(path);
    vfs.sync_dir(folder).at(folder)?;
    table::write(vfs, path, &mut header, &mut |writer| {
        entries.iter().try_for_each(|(token, entry)| writer.push(token, *entry))
    })
}

fn today(vfs: &dyn Vfs) -> u32 {
    u32::try_from(vfs.now().unix_seconds() / 86_400).unwrap_or(0)
}

/// Returns the folder of a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

impl Native {
    /// Merges all parts and changes into one table, without the keys for whose position (from 0, in
    /// order) `drops` returns `true`. If sorted blocks are damaged, changed tokens and special keys
    /// in them keep the counts of the hashed part.
    pub(super) fn commit_whole(
        &mut self,
        ops: &[(&[u8], Op)],
        drops: &dyn Fn(usize) -> bool,
        bent: &mut Bent,
    ) -> Result<()> {
        let changes = !ops.is_empty();
        self.replace(0, changes, &mut |view, writer| {
            let is_sound = view.damage().next().is_none();
            let lost = if is_sound { None } else { Some(Lost::of(view, ops)?) };
            *bent = Bent::default();
            match &lost {
                None => merge(view, ops, (drops, None), bent, writer)?,
                Some(lost) => merge(view, &lost.ops, (drops, Some(&lost.entries)), bent, writer)?,
            }
            match is_sound && view.damage().next().is_some() {
                // The damage was found only now: retry, with the counts of the hashed part.
                true => Err(Error::Collision),
                false => Ok(()),
            }
        })
    }

    /// Merges the log and changes into the delta table, which overrides the base.
    pub(super) fn commit_delta(&mut self, changes: &[(&[u8], TokenEntry)]) -> Result<()> {
        let header = &self.view.top.header;
        let base = match header.base {
            0 => self.stay_behind(header.generation)?,
            base => base,
        };
        let is_whole = self.view.base.is_some() && !self.view.top.check_sorted()?;
        if base == 0 || is_whole {
            let ops: Vec<_> = changes.iter().map(|(token, to)| (*token, Op::Set(*to))).collect();
            return self.commit_whole(&ops, &|_| false, &mut Bent::default());
        }
        self.replace(base, !changes.is_empty(), &mut |view, writer| {
            view.each_newer(changes, &mut |token, entry| {
                writer.push(token, entry)?;
                Ok(true)
            })
        })
    }

    /// Links the table to its name as a base; returns its generation, or 0 if there are no hard
    /// links.
    fn stay_behind(&self, generation: u64) -> Result<u64> {
        let path = base_path(&self.path, generation);
        let linked = match self.vfs.hard_link(&self.path, &path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.vfs.remove_file(&path).at(&path)?;
                self.vfs.hard_link(&self.path, &path)
            }
            linked => linked,
        };
        match linked {
            Ok(()) => Ok(generation),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Unsupported | ErrorKind::PermissionDenied | ErrorKind::TooManyLinks
                ) =>
            {
                Ok(0)
            }
            Err(error) => Err(error).at(&path),
        }
    }

    /// Replaces the table by a new one. `fill` may be called several times, for different seeds.
    fn replace(
        &mut self,
        base: u64,
        changes: bool,
        fill: &mut dyn FnMut(&mut View, &mut Writer<'_>) -> Result<()>,
    ) -> Result<()> {
        let (vfs, path, view) = (&*self.vfs, &*self.path, &mut self.view);
        let old = view.top.header.clone();
        let mut header = Header {
            generation: old.generation + 1,
            base,
            sequence: view.log.sequence + u64::from(changes),
            seed: old.seed,
            day: today(vfs),
            id: old.id,
            ..Header::default()
        };
        Log::create(vfs, &log_path(path, header.generation), &header.log())?;
        let folder = folder_of(path);
        vfs.sync_dir(folder).at(folder)?;
        let mut written = Err(Error::Collision);
        for _ in 0..SEEDS_MAX {
            if !matches!(written, Err(Error::Collision)) {
                break;
            }
            written = table::write(vfs, path, &mut header, &mut |writer| {
                fill(view, writer)?;
                keep_damaged(vfs, path, view);
                Ok(())
            });
            header.seed = header.seed.wrapping_add(1);
        }
        // If the last step failed, the new table may be in place nevertheless.
        self.poison(written)?;
        self.clean_up(header.generation, base);
        let view = View::open(&self.vfs, &self.path);
        let view = self.poison(view)?;
        let old = std::mem::replace(&mut self.view, view);
        let damage = std::mem::take(&mut self.damage);
        // The base table was not replaced, so its damage is not repaired.
        let stays = base_path(&self.path, base);
        for damage in damage.iter().chain(old.damage()) {
            let list = if damage.path == stays { &mut self.damage } else { &mut self.healed };
            if list.len() < DAMAGE_MAX && !list.contains(damage) {
                list.push(damage.clone());
            }
        }
        self.collect_damage();
        Ok(())
    }

    /// Removes the files of other generations. Errors are ignored: leftover files only waste space.
    fn clean_up(&self, generation: u64, base: u64) {
        let name = |path: PathBuf| path.file_name().map(OsStr::to_owned).unwrap_or_default();
        let stay = [name(log_path(&self.path, generation)), name(base_path(&self.path, base))];
        let own = name(self.path.clone());
        let folder = folder_of(&self.path);
        let mut litter = Vec::new();
        let Ok(dir) = self.vfs.open_dir(folder) else { return };
        let listed = dir.list(&mut |found, _| {
            let rest = found.strip_prefix(own.as_bytes()).unwrap_or_default();
            let is_ours = [&b".log-"[..], b".base-"].iter().any(|kind| {
                let number = rest.strip_prefix(*kind).unwrap_or_default();
                !number.is_empty() && number.iter().all(u8::is_ascii_digit)
            });
            if is_ours && stay.iter().all(|stays| stays.as_bytes() != found) {
                litter.push(folder.join(OsStr::from_bytes(found)));
            }
        });
        if listed.is_ok() {
            litter.iter().for_each(|path| drop(self.vfs.remove_file(path)));
        }
    }
}

/// Links damaged files to names under which they are kept. Errors are ignored.
fn keep_damaged(vfs: &dyn Vfs, path: &Path, view: &View) {
    let generation = view.top.header.generation;
    for damage in view.damage() {
        let kind = match &damage.path {
            found if *found == *path => "table",
            found if *found == view.log.path => "log",
            _ => "base",
        };
        let kept = beside(path, &format!("damaged-{kind}-{generation}"));
        drop(vfs.hard_link(&damage.path, &kept));
    }
}

/// Entries by token.
type Entries<'a> = HashMap<&'a [u8], TokenEntry>;

/// Tokens that may be in damaged sorted blocks, with their counts from the hashed part.
#[derive(Debug)]
struct Lost<'a> {
    /// The changes, and for each special key one that keeps it.
    ops: Vec<(&'a [u8], Op)>,
    entries: Entries<'a>,
}

impl<'a> Lost<'a> {
    fn of(view: &mut View, ops: &[(&'a [u8], Op)]) -> Result<Self> {
        let mut tokens: Vec<&'a [u8]> = keys::ALL.to_vec();
        tokens.extend(ops.iter().map(|(token, _)| *token));
        tokens.dedup();
        let mut found = vec![None; tokens.len()];
        view.find(&tokens, &mut found)?;
        let mut lost = Self { ops: Vec::with_capacity(ops.len()), entries: HashMap::new() };
        for (token, counts) in tokens.into_iter().zip(found) {
            let Some(Counts { spam, ham }) = counts else { continue };
            lost.entries.insert(token, TokenEntry { spam, ham, date: 0 });
            if keys::ALL.contains(&token) {
                lost.ops.push((token, Op::Stay));
            }
        }
        lost.ops.extend_from_slice(ops);
        lost.ops.sort_by(|one, two| one.0.cmp(two.0));
        Ok(lost)
    }
}

/// Writes all entries of a view with `ops` applied and without those dropped. Tokens of `lost` that
/// are in `ops` are written with their counts from there.
fn merge(
    view: &mut View,
    ops: &[(&[u8], Op)],
    (drops, lost): (&dyn Fn(usize) -> bool, Option<&Entries<'_>>),
    bent: &mut Bent,
    writer: &mut Writer<'_>,
) -> Result<()> {
    let mut rest = ops;
    let mut nth = 0;
    view.each(&mut |token, entry| {
        rest = added(rest, (Some(token), lost), bent, writer)?;
        // If a delta table is damaged, the entry read here may be one that it overrides.
        let found = lost.and_then(|lost| lost.get(token));
        let sound = found.map_or(entry, |found| TokenEntry { date: entry.date, ..*found });
        let had = (!drops(nth)).then_some(sound);
        nth += 1;
        let (entry, left) = changed(rest, token, had, bent);
        rest = left;
        if let Some(entry) = entry {
            put(writer, token, entry)?;
        }
        Ok(true)
    })?;
    added(rest, (None, lost), bent, writer)?;
    Ok(())
}

/// Writes the tokens of changes that are not in the list, up to `before`; returns the remaining
/// changes.
fn added<'a, 'b>(
    mut rest: &'a [(&'b [u8], Op)],
    (before, lost): (Option<&[u8]>, Option<&Entries<'_>>),
    bent: &mut Bent,
    writer: &mut Writer<'_>,
) -> Result<&'a [(&'b [u8], Op)]> {
    while let Some((token, _)) = rest.first()
        && before.is_none_or(|before| *token < before)
    {
        let had = lost.and_then(|lost| lost.get(token)).copied();
        let (entry, left) = changed(rest, token, had, bent);
        if let Some(entry) = entry {
            put(writer, token, entry)?;
        }
        rest = left;
    }
    Ok(rest)
}

/// Applies the changes of a token at the start of `rest`; returns its entry and the changes after
/// them.
fn changed<'a, 'b>(
    mut rest: &'a [(&'b [u8], Op)],
    token: &[u8],
    mut entry: Option<TokenEntry>,
    bent: &mut Bent,
) -> (Option<TokenEntry>, &'a [(&'b [u8], Op)]) {
    while let Some(((own, op), left)) = rest.split_first()
        && *own == token
    {
        entry = Some(op.apply(entry, bent));
        rest = left;
    }
    (entry, rest)
}

/// Writes an entry, except receipts of undone trainings.
fn put(writer: &mut Writer<'_>, token: &[u8], entry: TokenEntry) -> Result<()> {
    match is_receipt(token) && Receipt::of_counts(entry.counts()).is_none() {
        true => Ok(()),
        false => writer.push(token, entry),
    }
}

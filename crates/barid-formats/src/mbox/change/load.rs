//! Finds the journal of a mailbox, and reads its plan.
//!
//! The plan of a journal is carried out on the mailbox. So a journal counts only if a user wrote it
//! who may change the mailbox anyway, if it is at a path where journals are written, and if it
//! belongs to this very file (docs/protocol.md, "Three kinds of file").

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use barid_mailbox::{Error, Result};
use barid_vfs::{File, OpenOptions};
use xxhash_rust::xxh3::Xxh3;

use super::header::{HEADER_LEN, Heading, JournalHeader, Origin};
use super::intent::{Intent, IntentHeader};
use super::journal::{FileAtJournal, JournalFile, Named, Places};
use super::source::BufferedFile;
use super::unit::{Collapse, Unit};
use super::validate::{self, Flaw};
use super::work::decompressed;

/// The journal that belongs to a mailbox; its file may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MailboxJournal {
    /// Its path; `None` if the attribute names a path where no journal can be.
    pub(super) path: Option<PathBuf>,
    /// Its id, if the attribute names it.
    pub(super) id: Option<[u8; 16]>,
    /// `true` if it may belong to an append: such a journal is removed when the append is complete.
    pub(super) may_be_gone: bool,
}

/// Returns the journal that the attribute names, else the one beside the mailbox.
pub(super) fn find(places: &Places<'_>) -> Result<Option<MailboxJournal>> {
    if let Some(named) = places.named()? {
        let Named { id, path, may_be_gone } = named;
        return Ok(Some(MailboxJournal { path, id: Some(id), may_be_gone }));
    }
    let beside = places.beside();
    if places.look(&beside)? != FileAtJournal::Ours {
        return Ok(None);
    }
    match is_of_another(places, &beside) {
        Ok(false) => Ok(Some(MailboxJournal { path: Some(beside), id: None, may_be_gone: false })),
        Ok(true) => Ok(None),
        // Removed at this moment: the change is complete.
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns `true` if a journal that the mailbox does not name belongs to another file of this
/// folder, which had the mailbox's name before. Lists the folder if the inode in the journal is
/// another.
fn is_of_another(places: &Places<'_>, path: &Path) -> Result<bool> {
    let read = || {
        let options = OpenOptions { no_follow: true, ..OpenOptions::READ };
        let mut bytes = [0; HEADER_LEN as usize];
        let len = places.vfs.open(path, options)?.read_full_at(&mut bytes, 0)?;
        let inode = match Heading::of(&bytes[..len]) {
            Heading::Journal(header) => header.origin.inode,
            Heading::Append(header) => header.origin.inode,
            _ => return Ok(false),
        };
        Ok(places.vfs.metadata(places.mailbox)?.inode != inode && holds(places, inode)?)
    };
    read().map_err(Error::at(path))
}

/// Returns `true` if a journal is that of an append.
pub(super) fn is_of_append_at(places: &Places<'_>, path: &Path) -> bool {
    let mut bytes = [0; HEADER_LEN as usize];
    let options = OpenOptions { no_follow: true, ..OpenOptions::READ };
    let read = places.vfs.open(path, options).and_then(|file| file.read_full_at(&mut bytes, 0));
    read.is_ok_and(|len| matches!(Heading::of(&bytes[..len]), Heading::Append(_)))
}

/// Returns `true` if the folder of the mailbox contains a file with this inode.
fn holds(places: &Places<'_>, inode: u64) -> std::io::Result<bool> {
    let Some(folder) = places.mailbox.parent() else { return Ok(false) };
    let folder = places.vfs.open_dir(folder)?;
    let mut is_there = false;
    folder.list(&mut |name, _| {
        is_there |= folder.metadata(name).is_ok_and(|found| found.inode == inode);
    })?;
    Ok(is_there)
}

/// The plan in a journal.
pub(super) struct LoadedPlan {
    pub(super) header: JournalHeader,
    pub(super) units: Vec<Unit>,
    pub(super) collapses: Vec<Collapse>,
}

/// Result of reading a journal.
pub(super) enum Load {
    /// The plan of a change.
    Whole(Box<LoadedPlan>),
    /// The journal of an append.
    Append(Box<Intent>),
    /// The journal is empty: nothing was begun.
    Nothing,
    /// The journal was not written completely: nothing was begun.
    Incomplete,
    /// The journal was complete, and was damaged since.
    Damaged,
    /// The journal cannot be used, for this reason.
    Unusable(String),
}

/// Reads the rest of the journal of an append.
fn load_append(file: &dyn File, header: IntentHeader) -> std::io::Result<Load> {
    if file.metadata()?.size < header.journal_len() {
        return Ok(Load::Incomplete);
    }
    let mut rest = vec![0; (header.journal_len() - HEADER_LEN) as usize];
    file.read_exact_at(&mut rest, HEADER_LEN)?;
    Ok(header.with_rest(&rest).map_or(Load::Incomplete, |intent| Load::Append(Box::new(intent))))
}

impl LoadedPlan {
    /// Reads and checks the plan.
    pub(super) fn load(journal: &JournalFile) -> std::io::Result<Load> {
        let Some(file) = journal.file() else { return Ok(Load::Nothing) };
        let size = file.metadata()?.size;
        let mut bytes = [0; HEADER_LEN as usize];
        let len = file.read_full_at(&mut bytes, 0)?;
        let header = match Heading::of(&bytes[..len]) {
            Heading::Journal(header) => header,
            Heading::Append(header) => return load_append(file, *header),
            Heading::Nothing => return Ok(Load::Nothing),
            Heading::Damaged => return Ok(Load::Damaged),
            Heading::Foreign => return Ok(Load::Unusable("is not a journal".to_owned())),
            Heading::Version(version) => {
                let what = format!(
                    "is a journal of version {version}, written by another version of barid"
                );
                return Ok(Load::Unusable(what));
            }
        };
        if size < header.plan_end() {
            return Ok(Load::Incomplete);
        }
        let mut hash = Xxh3::new();
        let mut source = BufferedFile::new(file, 1 << 20);
        source.hash(HEADER_LEN, header.scripts_len, &mut hash)?;
        let mut table = vec![0; (header.plan_end() - header.units_at()) as usize];
        file.read_exact_at(&mut table, header.units_at())?;
        hash.update(&table);
        if hash.digest() != header.plan_hash {
            return Ok(Load::Incomplete);
        }
        let (units, collapses) = table.split_at(header.units as usize * Unit::LEN);
        let units = units.as_chunks::<{ Unit::LEN }>().0.iter().map(Unit::from_bytes).collect();
        let collapses = collapses.as_chunks::<{ Collapse::LEN }>().0;
        let collapses = collapses.iter().map(Collapse::from_bytes).collect();
        let loaded = Self { header: *header, units, collapses };
        Ok(match loaded.validate(journal)? {
            Ok(()) => Load::Whole(Box::new(loaded)),
            Err(flaw) => Load::Unusable(format!("is malformed: {flaw}")),
        })
    }

    fn validate(&self, journal: &JournalFile) -> std::io::Result<std::result::Result<(), Flaw>> {
        if let Err(flaw) = validate::plan(&self.header, &self.units, &self.collapses) {
            return Ok(Err(flaw));
        }
        let mut decompressor = None;
        for unit in &self.units {
            let script = match decompressed(journal, unit, &mut decompressor) {
                Ok(script) => script,
                Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                    return Ok(Err("a script"));
                }
                Err(error) => return Err(error),
            };
            if let Err(flaw) = validate::script(unit, &script) {
                return Ok(Err(flaw));
            }
        }
        Ok(Ok(()))
    }
}

/// Returns the file that a journal belongs to if that is another one, which is still at its path
/// and waits for the journal at `path`: then this mailbox is a copy.
pub(super) fn original(
    places: &Places<'_>,
    (origin, id): (&Origin, &[u8; 16]),
    path: &Path,
) -> Option<PathBuf> {
    let original = origin.path()?;
    let inode = places.vfs.symlink_metadata(original).ok()?.inode;
    let theirs = Places { mailbox: original, ..*places };
    let waits = match theirs.named().ok()? {
        Some(named) => named.id == *id && named.path.as_deref() == Some(path),
        None => theirs.beside() == path,
    };
    (inode == origin.inode && waits).then(|| original.to_owned())
}

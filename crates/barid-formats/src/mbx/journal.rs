//! The redo journal of an mbx, `.NAME.barid-journal` beside it. It covers writes that a crash could
//! leave incomplete: bytes on both sides of a sector boundary, and moved messages.

use std::path::Path;

use super::MbxMailbox;
use super::lock::{MbxWriteLocks, wait_exclusive};
use crate::redo::{self, Change, JournalPath, JournalSearch};
use barid_mailbox::{Error, Recovered, Result, SyncContext, SyncFigures, Unfinished};

/// Returns `true` if a change was begun and not finished.
pub(super) fn is_unfinished(mailbox: &MbxMailbox) -> Result<bool> {
    Ok(unfinished(mailbox)?.is_some())
}

/// Returns `true` if an unfinished change moves messages, so that offsets cannot be trusted.
pub(super) fn is_half_moved(mailbox: &MbxMailbox) -> Result<bool> {
    let path = mailbox.vfs.canonicalize(&mailbox.path).map_err(Error::at(&mailbox.path))?;
    Ok(redo::summary(&*mailbox.vfs, &JournalPath::beside(&path))?.resizes)
}

/// Returns the error for a mailbox whose messages are half moved.
pub(super) fn unfinished_error(mailbox: &MbxMailbox) -> Error {
    let journal = JournalPath::beside(&mailbox.path).journal().to_owned();
    let what = "messages are partly moved".to_owned();
    Error::Unfinished { path: mailbox.path.clone(), journal, what }
}

/// See [`barid_mailbox::Storage::unfinished`].
pub(super) fn unfinished(mailbox: &MbxMailbox) -> Result<Option<Unfinished>> {
    let path = mailbox.vfs.canonicalize(&mailbox.path).map_err(Error::at(&mailbox.path))?;
    let place = JournalPath::beside(&path);
    Ok(match place.look(&*mailbox.vfs)? {
        JournalSearch::Redo => Some(Unfinished {
            journal: Some(place.journal().to_owned()),
            what: "a change of flags or an expunge".to_owned(),
        }),
        JournalSearch::Nothing | JournalSearch::Other | JournalSearch::Strange => None,
    })
}

/// See [`barid_mailbox::Storage::recover`].
pub(super) fn recover(mailbox: &MbxMailbox, context: &mut SyncContext<'_>) -> Result<Recovered> {
    let locks = MbxWriteLocks::acquire(mailbox)?;
    recover_locked(mailbox, &locks, context)
}

/// Completes an unfinished change. While messages move, no other session may have the mailbox open.
pub(super) fn recover_locked(
    mailbox: &MbxMailbox,
    locks: &MbxWriteLocks,
    context: &mut SyncContext<'_>,
) -> Result<Recovered> {
    let place = JournalPath::beside(&locks.path);
    if matches!(place.look(&*mailbox.vfs)?, JournalSearch::Nothing | JournalSearch::Other) {
        return Ok(Recovered::default());
    }
    let moves = redo::summary(&*mailbox.vfs, &place)?.resizes;
    if moves {
        wait_exclusive(mailbox, &*locks.file)?;
    }
    let drop_pending = context.drop_pending.as_mut();
    let drop_pending = drop_pending.map(|drop| &mut **drop as &mut dyn FnMut(u64) -> Result<()>);
    let recovered = redo::recover(&*mailbox.vfs, &place, drop_pending, None);
    if moves {
        locks.share(mailbox)?;
    }
    recovered
}

/// Applies a change through the journal.
pub(super) fn apply(
    mailbox: &MbxMailbox,
    locks: &MbxWriteLocks,
    change: &Change,
    figures: &mut SyncFigures,
) -> Result<()> {
    let place = JournalPath::beside(&locks.path);
    let cost = redo::apply(&*mailbox.vfs, &place, change, locks.metadata.mode, None)?;
    figures.barriers += cost.barriers;
    figures.bytes_journaled += cost.bytes_journaled;
    Ok(())
}

/// Returns the name of the mailbox in its folder.
pub(super) fn file_name(path: &Path) -> &[u8] {
    use std::os::unix::ffi::OsStrExt;
    path.file_name().unwrap_or_default().as_bytes()
}

//! Messages that cannot be read: they have a UID and a row, and are tried again at every scan.

use std::io;

use barid_mailbox::{DefectKind, Error, MailboxDefect, Result};
use barid_types::Uid;
use barid_vfs::{Dir, OpenOptions};

use super::Dirs;
use super::before::KnownMaildir;
use super::layout::{CUR, HEAD_LEN, HEADER_LEN_MAX, NEW, UNREAD_NAMED_MAX};
use super::list::{MaildirListing, MaildirMatch};
use crate::files::{blank_line, header_end, is_ours};

/// The messages that could not be read.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// All of them.
    uids: Vec<u32>,
    /// Reasons for the first of them.
    reasons: Vec<(Uid, String)>,
}

impl Unread {
    /// Adds a message.
    pub(super) fn add(&mut self, uid: Uid, in_new: bool, name: &[u8], error: &io::Error) {
        self.uids.push(uid.get());
        if self.reasons.len() < UNREAD_NAMED_MAX {
            let dir = if in_new { NEW } else { CUR };
            let name = String::from_utf8_lossy(name);
            self.reasons.push((uid, format!("cannot be read: {dir}/{name}: {error}")));
        }
    }

    /// Adds the messages of another list.
    pub(super) fn append(&mut self, other: Self) {
        self.uids.extend(other.uids);
        let room = UNREAD_NAMED_MAX - self.reasons.len();
        self.reasons.extend(other.reasons.into_iter().take(room));
    }

    /// Returns their UIDs, ascending, and their defects.
    pub(super) fn into_parts(mut self) -> (Vec<u32>, Vec<MailboxDefect>) {
        self.uids.sort_unstable();
        self.reasons.sort_unstable();
        let more = self.uids.len() - self.reasons.len();
        let defect =
            |uid, what| MailboxDefect { kind: DefectKind::Unreadable, offset: 0, uid, what };
        let named = self.reasons.into_iter().map(|(uid, what)| defect(Some(uid), what));
        let rest = (more > 0).then(|| defect(None, format!("{more} more messages cannot be read")));
        (self.uids, named.chain(rest).collect())
    }
}

/// Tries again to read the messages that could not be read before; returns `None` if one can be
/// read now, so that its row is no longer valid. The others are still unread.
pub(super) fn try_again(
    dirs: &Dirs,
    before: &KnownMaildir,
    listing: &MaildirListing,
) -> Result<Option<Unread>> {
    let mut still = Unread::default();
    let known = before.state.as_ref().map_or(&[][..], |state| &state.unread);
    let mut block = vec![0; if known.is_empty() { 0 } else { HEAD_LEN }];
    for uid in known {
        let Ok(at) = before.rows.binary_search_by_key(uid, |row| row.uid.get()) else { continue };
        let row = &before.rows[at];
        let (name, in_new) = match listing.seen[at] {
            MaildirMatch::Gone => continue,
            MaildirMatch::Same => (before.names.get(row.name), row.in_new),
            MaildirMatch::Changed(sighting) => {
                let sighting = &listing.sightings[sighting as usize];
                (listing.names.get(sighting.name), sighting.in_new)
            }
        };
        let at = usize::from(!in_new);
        match read_header(&*dirs.handles[at], name, &mut block) {
            Ok(()) => return Ok(None),
            Err(error) if is_ours(&error) => {
                return Err(Error::at(&super::path_of(&dirs.paths[at], name))(error));
            }
            Err(error) => still.add(row.uid, in_new, name, &error),
        }
    }
    Ok(Some(still))
}

/// Reads a header, block by block, to test if it can be read.
fn read_header(dir: &dyn Dir, name: &[u8], block: &mut [u8]) -> io::Result<()> {
    let (metadata, len) = dir.read_head(name, block)?;
    if metadata.size <= len as u64 || header_end(&block[..len]).is_some() {
        return Ok(());
    }
    let file = dir.open(name, OpenOptions::READ)?;
    let mut from = len;
    while from < HEADER_LEN_MAX {
        let len = file.read_full_at(block, from as u64)?;
        if len < block.len() || blank_line(&block[..len], 0).is_some() {
            return Ok(());
        }
        from += len;
    }
    Ok(())
}

//! Copying messages between mailboxes, all or none.

use barid::{Cancel, Flag, ReadAs, SharedMailbox, Uid, View};
use barid_imap::backend::{Answer, Copied, Refusal};

use super::append::Received;
use super::refusal::refused;
use super::user::UserMail;

/// Copies messages to the end of another mailbox, all or none.
pub(crate) fn copy(
    user: &UserMail,
    source: &View,
    uids: &[Uid],
    target: &SharedMailbox,
    cancel: &Cancel,
) -> Answer<Copied> {
    let marks = source.marks_of(uids).map_err(refused)?;
    if marks.len() != uids.len() {
        return Err(Refusal::new("EXPUNGEISSUED", "Some of the messages no longer exist"));
    }
    let mut messages = Vec::with_capacity(uids.len());
    for marks in &marks {
        let row = source.row_of(marks.uid).map_err(refused)?.unwrap_or_default();
        let mut date = None;
        source
            .summaries(&[row], &mut |summary| {
                date = Some(summary.internal_date);
                false
            })
            .map_err(refused)?;
        let keywords = source.keywords().select(marks.keywords).cloned().collect();
        let flags = marks.flags.without(Flag::Recent);
        let mut message = Received::with(flags, keywords, date);
        let mut result = Ok(());
        let read = source.read_pieces(marks.uid, ReadAs::Message, &mut |piece| {
            result = message.push_exact(piece, &*user.vfs, &user.spool_dir);
            result.is_ok()
        });
        read.map_err(refused)?;
        result?;
        messages.push(message);
    }
    let place = (&*user.vfs, user.spool_dir.as_path());
    let appended = user.appends.append(target, messages, place, cancel)?;
    Ok(Copied {
        uidvalidity: Some(appended.uidvalidity),
        from: uids.to_vec(),
        to: appended.uids,
        not_removed: None,
    })
}

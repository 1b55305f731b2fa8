//! The bytes of a message of any size, piece by piece.

use barid::{Mailbox, ReadAs, Uid};

/// Reads a message without the fields that formats own, which are in its first piece. `take`
/// returns `false` to stop.
///
/// # Errors
///
/// As [`Mailbox::read_pieces`].
pub(crate) fn read_without_owned(
    mailbox: &mut Mailbox,
    uid: Uid,
    take: &mut dyn FnMut(&[u8]) -> bool,
) -> barid::Result<()> {
    let mut is_header = true;
    mailbox.read_pieces(uid, ReadAs::Message, &mut |piece| {
        let header = std::mem::take(&mut is_header).then(|| barid::message::strip_owned(piece));
        take(header.as_deref().unwrap_or(piece))
    })
}

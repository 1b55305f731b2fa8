//! The deliveries that a user's state folder remembers, for fuzzing their file.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use barid::vfs::Vfs;

use super::duplicates::{Duplicates, Earlier, MessageKey, PendingPlace, sealed};
use super::error::DeliveryError;

/// Time for which deliveries are remembered: all of them.
const WINDOW: Duration = Duration::from_secs(u32::MAX as u64);

/// State of a message in the file of deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RememberedDelivery {
    /// It is not known.
    Unknown,
    /// It may have been stored.
    Pending,
    /// It was stored.
    Stored,
}

/// Opens the file of deliveries in a state folder, repairs it, and returns the state of the message
/// with a Message-ID.
///
/// # Errors
/// Errors of the file system; a lock that others keep.
pub fn remembered_delivery(
    vfs: &Arc<dyn Vfs>,
    state_dir: &Path,
    message_id: &[u8],
) -> Result<RememberedDelivery, DeliveryError> {
    let file = Duplicates::open(vfs, state_dir, WINDOW)?;
    Ok(match file.earlier(MessageKey::of(message_id)) {
        Earlier::Unknown => RememberedDelivery::Unknown,
        Earlier::Pending(_) => RememberedDelivery::Pending,
        Earlier::Stored => RememberedDelivery::Stored,
    })
}

/// Notes in the file of deliveries that a message is about to be stored in a mailbox, and, if
/// `is_stored`, that it was.
///
/// # Errors
/// As [`remembered_delivery`].
pub fn remember_delivery(
    vfs: &Arc<dyn Vfs>,
    state_dir: &Path,
    (message_id, mailbox): (&[u8], &str),
    is_stored: bool,
) -> Result<(), DeliveryError> {
    let mut file = Duplicates::open(vfs, state_dir, WINDOW)?;
    let key = MessageKey::of(message_id);
    let place = PendingPlace { mailbox: mailbox.to_owned(), uidvalidity: 1, uidnext: 1 };
    file.begin(key, &place)?;
    if is_stored {
        file.stored(key)?;
    }
    Ok(())
}

/// Returns a file of deliveries with the right checksum in every line.
pub fn sealed_deliveries(bytes: &[u8]) -> Vec<u8> {
    sealed(bytes)
}

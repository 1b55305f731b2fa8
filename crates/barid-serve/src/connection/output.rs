//! The output of a session as a bounded channel.

use barid_imap::backend::Output;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::limits::{OUTPUT_PIECE_LEN, OUTPUT_PIECES_MAX};

/// The end of the channel that the session writes to.
pub(super) struct SessionOutput(Sender<Vec<u8>>);

/// Creates a channel for the responses to one batch of input.
pub(super) fn output() -> (SessionOutput, Receiver<Vec<u8>>) {
    let (sender, receiver) = channel(OUTPUT_PIECES_MAX);
    (SessionOutput(sender), receiver)
}

impl Output for SessionOutput {
    /// Waits while the client has not read what is under way; called on a thread that may wait.
    fn write(&mut self, bytes: &[u8]) -> bool {
        bytes.chunks(OUTPUT_PIECE_LEN).all(|piece| self.0.blocking_send(piece.to_vec()).is_ok())
    }
}

//! The output of a session as a bounded channel.

use std::sync::{Arc, Mutex, PoisonError};

use barid_imap::backend::Output;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;

use crate::limits::{OUTPUT_BUFFER_LEN, OUTPUT_PIECE_LEN, OUTPUT_PIECES_MAX};
use crate::mail::UserProgress;

/// The end of the channel that the session writes to.
pub(super) struct SessionOutput {
    pieces: Sender<Vec<u8>>,
    running: RunningCommand,
}

/// The command of which nothing has been written yet, if there is one.
#[derive(Clone)]
pub(super) struct RunningCommand {
    tag: Arc<Mutex<Option<(String, Instant)>>>,
    progress: Arc<UserProgress>,
}

/// Creates a channel for the responses to one batch of input.
pub(super) fn output(
    progress: &Arc<UserProgress>,
) -> (SessionOutput, Receiver<Vec<u8>>, RunningCommand) {
    let (pieces, receiver) = channel(OUTPUT_PIECES_MAX);
    let running = RunningCommand { tag: Arc::default(), progress: Arc::clone(progress) };
    (SessionOutput { pieces, running: running.clone() }, receiver, running)
}

impl RunningCommand {
    fn replace(&self, next: Option<(String, Instant)>) -> Option<(String, Instant)> {
        let mut tag = self.tag.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut tag, next)
    }

    fn begin(&self, tag: &str) {
        self.end();
        self.progress.begin();
        self.replace(Some((tag.to_owned(), Instant::now())));
    }

    fn end(&self) {
        if self.replace(None).is_some() {
            self.progress.end();
        }
    }

    /// Returns a line about the progress of a command that has run since `before` (RFC 9585). All
    /// that was written before the command is in the channel by then, or was taken from it.
    pub(super) fn line(&self, before: Instant) -> Option<String> {
        let tag = self.tag.lock().unwrap_or_else(PoisonError::into_inner);
        let (tag, _) = tag.as_ref().filter(|(_, since)| *since <= before)?;
        let numbers = match self.progress.numbers() {
            Some((done, total)) => format!("{done} {total}"),
            None => "NIL NIL".to_owned(),
        };
        // A tag has no character that needs quoting besides the backslash.
        let tag = tag.replace('\\', "\\\\");
        Some(format!("* OK [INPROGRESS (\"{tag}\" {numbers})] Still working\r\n"))
    }
}

impl Output for SessionOutput {
    /// Waits while the client has not read what is under way; called on a thread that may wait.
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.running.end();
        bytes
            .chunks(OUTPUT_PIECE_LEN)
            .all(|piece| self.pieces.blocking_send(piece.to_vec()).is_ok())
    }

    fn write_buffer(&mut self, bytes: &mut Vec<u8>) -> bool {
        // A buffer that had much more in it before keeps its memory.
        let is_large = bytes.capacity() > 2 * OUTPUT_BUFFER_LEN || bytes.len() > OUTPUT_BUFFER_LEN;
        if bytes.is_empty() || is_large {
            return self.write(bytes);
        }
        self.running.end();
        self.pieces.blocking_send(std::mem::take(bytes)).is_ok()
    }

    fn begin_command(&mut self, tag: &str) {
        self.running.begin(tag);
    }
}

impl Drop for SessionOutput {
    fn drop(&mut self) {
        self.running.end();
    }
}

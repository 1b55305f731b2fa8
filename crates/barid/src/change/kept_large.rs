//! Kept messages that are too large for memory.

use std::io;
use std::path::Path;

use barid_mailbox::{MessageRest, ReadAs, TakeRest};
use barid_message::strip_owned;
use barid_state::{KeptForm, KeptMessage, LargeKept};

use super::kept::text_of;
use crate::limits::PIECE_LEN;
use crate::message_file::{read_rest, read_start};
use crate::{Mailbox, Result};

/// The start of a large message, with at least its header if the header has an end, and the rest.
#[derive(Debug)]
pub(super) struct KeptLargeMessage {
    /// The bytes, with the separator if the message is in the form of an mbox.
    pub(super) start: Vec<u8>,
    pub(super) rest: KeptRest,
}

/// The rest of a large kept message.
#[derive(Debug)]
pub(super) struct KeptRest {
    kept: LargeKept,
    offset: u64,
}

impl KeptLargeMessage {
    /// Reads the start of a message; `None` if it is not large.
    pub(super) fn of(message: &KeptMessage) -> Result<Option<Self>> {
        let Some(kept) = message.large.clone() else { return Ok(None) };
        let start = read_start(kept.size(), &mut |buffer| Ok(kept.read_at(buffer, 0)?))?;
        let offset = start.len() as u64;
        Ok(Some(Self { start, rest: KeptRest { kept, offset } }))
    }
}

impl MessageRest for KeptRest {
    fn size(&self) -> u64 {
        self.kept.size() - self.offset
    }

    fn read(&self, take: &mut TakeRest<'_>) -> barid_mailbox::Result<()> {
        let read_at = |buffer: &mut [u8], at| {
            self.kept.read_at(buffer, at).map_err(|error| io::Error::other(error.to_string()))
        };
        read_rest(self.offset..self.kept.size(), Path::new("kept message"), &read_at, take)
    }
}

impl Mailbox {
    /// Returns `true` if the message of a row equals a large kept one, byte by byte except for the
    /// fields that belong to an mbox and the last line end.
    pub(super) fn is_large(
        &self,
        row: u32,
        form: KeptForm,
        large: &KeptLargeMessage,
    ) -> Result<bool> {
        let (kept_start, kept) = (text_of(form, &large.start), &large.rest.kept);
        let strips = matches!(form, KeptForm::Stored { .. });
        let own = |header: &[u8]| match strips {
            true => strip_owned(header).into_owned(),
            false => header.to_vec(),
        };
        let read_as = if strips { ReadAs::Stored } else { ReadAs::Message };
        let separator_len = match self.form_of(row)? {
            KeptForm::Stored { separator_len } if strips => separator_len as usize,
            _ => 0,
        };
        let (mut at, mut is_header, mut is_same) = (large.rest.offset, true, true);
        let mut failed = Ok(());
        let mut other = vec![0; PIECE_LEN];
        let mut tail = Vec::new();
        self.row_pieces(row, read_as, &mut |piece| {
            if std::mem::take(&mut is_header) {
                is_same = own(piece.get(separator_len..).unwrap_or_default()) == own(kept_start);
                return is_same;
            }
            other.resize(piece.len(), 0);
            match kept.read_at(&mut other, at) {
                Ok(len) => {
                    is_same = other[..len] == piece[..len];
                    tail.extend_from_slice(&piece[len..]);
                    at += len as u64;
                }
                Err(error) => failed = Err(error),
            }
            is_same && failed.is_ok() && tail.len() < 3
        })?;
        failed?;
        let mut left = [0; 3];
        let left_len = kept.read_at(&mut left, at)?;
        let is_end = |bytes: &[u8]| [&b""[..], b"\n", b"\r\n"].contains(&bytes);
        Ok(is_same && is_end(&tail) && is_end(&left[..left_len]))
    }
}

//! Kept messages that are too large for memory.

use std::io;

use barid_formats::{Error as FormatError, MessageRest, ReadAs, TakeRest};
use barid_message::strip_owned;
use barid_state::{KeptForm, KeptMessage, LargeKept};

use super::kept::text_of;
use crate::large::ends_header;
use crate::limits::{KEPT_HEADER_LEN_MAX, PIECE_LEN};
use crate::{Mailbox, Result};

/// The start of a large message, with at least its header if the header has an end, and the rest.
#[derive(Debug)]
pub(super) struct LargeMessage {
    /// The bytes, with the separator if the message is in the form of an mbox.
    pub(super) start: Vec<u8>,
    pub(super) rest: LargeRest,
}

/// The rest of a large kept message.
#[derive(Debug)]
pub(super) struct LargeRest {
    kept: LargeKept,
    offset: u64,
}

impl LargeMessage {
    /// Reads the start of a message; `None` if it is not large.
    pub(super) fn of(message: &KeptMessage) -> Result<Option<Self>> {
        let Some(kept) = message.large.clone() else { return Ok(None) };
        let most = kept.size().min(KEPT_HEADER_LEN_MAX as u64) as usize;
        let mut start = vec![0; most.min(PIECE_LEN)];
        loop {
            let len = kept.read_at(&mut start, 0)?;
            start.truncate(len);
            let separator_len = len - text_of(message.form, &start).len();
            let end = separator_len + barid_message::body_offset(&start[separator_len..]);
            if end < len || ends_header(&start[separator_len..]) || len == most {
                start.truncate(end);
                let offset = start.len() as u64;
                return Ok(Some(Self { start, rest: LargeRest { kept, offset } }));
            }
            start.resize(most.min(len * 4), 0);
        }
    }
}

impl MessageRest for LargeRest {
    fn size(&self) -> u64 {
        self.kept.size() - self.offset
    }

    fn read(&self, take: &mut TakeRest<'_>) -> barid_formats::Result<()> {
        let (mut at, mut piece) = (self.offset, vec![0; PIECE_LEN]);
        while at < self.kept.size() {
            let path = || "kept message".into();
            let read = self.kept.read_at(&mut piece, at);
            let len = read.map_err(|error| FormatError::Io {
                path: path(),
                source: io::Error::other(error.to_string()),
            })?;
            if len == 0 {
                let source = io::ErrorKind::UnexpectedEof.into();
                return Err(FormatError::Io { path: path(), source });
            }
            take(&piece[..len])?;
            at += len as u64;
        }
        Ok(())
    }
}

impl Mailbox {
    /// Returns `true` if the message of a row equals a large kept one, byte by byte except for the
    /// fields that belong to an mbox and the last line end.
    pub(super) fn is_large(&self, row: u32, form: KeptForm, large: &LargeMessage) -> Result<bool> {
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

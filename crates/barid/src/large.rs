//! Messages that are too large to be read as a whole: reading them in pieces, their headers, and
//! reduced messages without unwanted bodies.

use barid_mailbox::{Error as FormatError, OpenMessage, ReadAs, WHOLE_LEN_MAX};
use barid_message::StructureReader;
use barid_state::MessageKey;
use barid_types::{BodyStructure, Uid};

use crate::limits::{BLOCK_LEN, PIECE_LEN};
use crate::{Error, Mailbox, Result, View};

/// A message without some of the bodies of its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReducedMessage {
    /// The message with all its parts, some of which are empty.
    pub bytes: Vec<u8>,
    /// The structure of the message with all bodies.
    pub structure: BodyStructure,
}

/// Receives the pieces of a message; `false` ends the reading.
pub type TakePiece<'a> = dyn FnMut(&[u8]) -> bool + 'a;

/// Decides which bodies of leaf parts are kept.
pub type KeepsBody<'a> = dyn Fn(&BodyStructure) -> bool + 'a;

/// Start of the next piece of a message.
#[derive(Clone, Copy, Debug, Default)]
struct PiecesFrom {
    /// `true` if the header was read.
    has_header: bool,
    /// Bytes of the body that were read; the header may be another when the message has moved.
    body_len: u64,
    /// `true` if the last piece did not end with a line.
    is_in_line: bool,
}

/// An open message and its header as stored.
struct Opened<'m> {
    message: OpenMessage<'m>,
    /// Separator and header.
    head: Vec<u8>,
}

impl Mailbox {
    /// Reads a message as [`View::read_pieces`] does; rebuilds the cache if it is damaged.
    ///
    /// # Errors
    /// As [`View::read`]; the pieces before were sound.
    pub fn read_pieces(
        &mut self,
        uid: Uid,
        read_as: ReadAs,
        take: &mut TakePiece<'_>,
    ) -> Result<()> {
        let mut from = PiecesFrom::default();
        self.healing(&mut |view| view.pieces_from(uid, read_as, &mut from, take))
    }

    /// Reads a message as [`View::read_reduced`] does; rebuilds the cache if it is damaged.
    ///
    /// # Errors
    /// As [`View::read_reduced`].
    pub fn read_reduced(&mut self, uid: Uid, keeps: &KeepsBody<'_>) -> Result<ReducedMessage> {
        self.healing(&mut |view| view.read_reduced(uid, keeps))
    }
}

impl View {
    /// Reads a message of any size in pieces of some megabytes, the first of which begins with the
    /// whole header. No lock is held while `take` runs, and a message that moves meanwhile is
    /// followed.
    ///
    /// # Errors
    /// As [`View::read`]; the pieces before were sound.
    pub fn read_pieces(&self, uid: Uid, read_as: ReadAs, take: &mut TakePiece<'_>) -> Result<()> {
        self.pieces_from(uid, read_as, &mut PiecesFrom::default(), take)
    }

    /// Reads a message as [`View::read_pieces`] does, starting after the pieces that were taken
    /// before.
    fn pieces_from(
        &self,
        uid: Uid,
        read_as: ReadAs,
        from: &mut PiecesFrom,
        take: &mut TakePiece<'_>,
    ) -> Result<()> {
        let (row, mut bytes) = (self.existing_row(uid)?, Vec::new());
        loop {
            let (next, is_last) = self.follow(row, &mut |view, row| {
                bytes.clear();
                let mut next = *from;
                let is_last = view.row_pieces_from(row, read_as, &mut next, &mut |piece| {
                    bytes.extend_from_slice(piece);
                    bytes.len() < BLOCK_LEN
                })?;
                Ok((next, is_last))
            })??;
            *from = next;
            if !take(&bytes) || is_last {
                self.keep_restart_points();
                return Ok(());
            }
        }
    }

    /// Reads a message of any size without the bodies that `keeps` refuses.
    ///
    /// # Errors
    /// As [`View::read`]; [`FormatError::MessageTooLarge`] if the rest is still too large.
    pub fn read_reduced(&self, uid: Uid, keeps: &KeepsBody<'_>) -> Result<ReducedMessage> {
        let row = self.existing_row(uid)?;
        let read = self.follow(row, &mut |view, row| view.reduced_row(row, keeps));
        self.keep_restart_points();
        read?
    }

    /// Reads a row as [`View::read_pieces`] does, without looking for a message that has moved.
    pub(crate) fn row_pieces(
        &self,
        row: u32,
        read_as: ReadAs,
        take: &mut TakePiece<'_>,
    ) -> Result<()> {
        self.row_pieces_from(row, read_as, &mut PiecesFrom::default(), take).map(drop)
    }

    /// Reads a row as [`View::row_pieces`] does, starting after the pieces that were read before.
    /// Returns `true` if the last piece was taken; otherwise `from` counts the pieces that were.
    fn row_pieces_from(
        &self,
        row: u32,
        read_as: ReadAs,
        from: &mut PiecesFrom,
        take: &mut TakePiece<'_>,
    ) -> Result<bool> {
        let Opened { mut message, head: mut piece } = self.open_row(row)?;
        let undoes_quotes = read_as == ReadAs::Message;
        let (head_len, mut takes) = (piece.len() as u64, true);
        if !from.has_header {
            from.has_header = true;
            if read_as != ReadAs::Stored {
                piece.drain(..message.separator_len() as usize);
            }
            if undoes_quotes {
                let len = piece.len();
                self.storage.unquote(&mut piece, len);
            }
            takes = take(&piece);
        }
        while takes && head_len + from.body_len < message.len() {
            let at = head_len + from.body_len;
            piece.clear();
            piece.resize(PIECE_LEN, 0);
            let len = message.read_at(&mut piece, at)?;
            piece.truncate(len);
            if undoes_quotes {
                // A piece ends with a line, so that no quoted one is cut.
                let end = memchr::memrchr(b'\n', &piece).map(|end| end + 1);
                let is_last = at + piece.len() as u64 == message.len();
                piece.truncate(end.filter(|_| !is_last).unwrap_or(piece.len()));
                from.body_len += piece.len() as u64;
                let ends_line = piece.ends_with(b"\n");
                self.unquote_piece(&mut piece, !from.is_in_line);
                from.is_in_line = !ends_line;
            } else {
                from.body_len += piece.len() as u64;
            }
            takes = take(&piece);
        }
        Ok(head_len + from.body_len >= message.len())
    }

    /// Undoes the quoting of whole lines; the rest of a line at the start of a piece is left alone.
    fn unquote_piece(&self, piece: &mut Vec<u8>, is_line_start: bool) {
        if is_line_start {
            self.storage.unquote(piece, 0);
            return;
        }
        let rest = memchr::memchr(b'\n', piece).map_or(piece.len(), |end| end + 1);
        let mut lines = piece.split_off(rest);
        self.storage.unquote(&mut lines, 0);
        piece.append(&mut lines);
    }

    /// Reads a row as [`View::read_reduced`] does, without looking for a message that has moved.
    pub(crate) fn reduced_row(&self, row: u32, keeps: &KeepsBody<'_>) -> Result<ReducedMessage> {
        let (mut reader, mut bytes) = (StructureReader::default(), Vec::new());
        let mut is_too_large = false;
        self.row_pieces(row, ReadAs::Message, &mut |piece| {
            reader.read(piece, keeps, &mut bytes);
            is_too_large = (bytes.len() + reader.header_len()) as u64 > WHOLE_LEN_MAX;
            !is_too_large
        })?;
        if is_too_large {
            return Err(self.too_large(row)?);
        }
        let (structure, _) = reader.finish(keeps, &mut bytes);
        Ok(ReducedMessage { bytes, structure })
    }

    /// Computes RFC822.SIZE of the message of a row, of any size.
    pub(crate) fn row_rfc822_size(&self, row: u32) -> Result<u64> {
        let (mut size, mut is_header, mut last) = (0, true, b'\n');
        self.row_pieces(row, ReadAs::Message, &mut |piece| {
            if std::mem::take(&mut is_header) {
                size += barid_message::rfc822_size(piece);
            } else {
                let ends_line = piece.first() == Some(&b'\n') && last == b'\r';
                size += barid_message::crlf_size(piece) - u64::from(ends_line);
            }
            last = piece.last().copied().unwrap_or(last);
            true
        })?;
        Ok(size)
    }

    /// Reads the header of the message of a row with its blank line; `None` if the blank line is
    /// missing.
    pub(crate) fn row_header(&self, row: u32) -> Result<Option<Vec<u8>>> {
        let mut header = Vec::new();
        self.row_pieces(row, ReadAs::Message, &mut |piece| {
            header.extend_from_slice(piece);
            false
        })?;
        Ok(ends_header(&header).then_some(header))
    }

    /// Returns the error that the message of a row is too large.
    pub(crate) fn too_large(&self, row: u32) -> Result<Error> {
        let core = self.snapshot.core(row)?;
        let mut name = Vec::new();
        let offset = self.snapshot.location(row, &mut name)?.offset();
        let (path, size, most) = (self.path().to_owned(), core.size, WHOLE_LEN_MAX);
        Ok(FormatError::MessageTooLarge { path, offset, size, most }.into())
    }

    /// Opens the message of a row and reads its header; checks that it is still the same message.
    fn open_row(&self, row: u32) -> Result<Opened<'_>> {
        self.load_restart_points();
        let core = self.snapshot.core(row)?;
        let mut name = Vec::new();
        let location = self.snapshot.location(row, &mut name)?;
        let mut message = self.storage.open_message(&location, &self.snapshot.meta().stamp)?;
        let separator_len = message.separator_len() as usize;
        let mut head = vec![0; separator_len + core.header_len as usize];
        let len = message.read_at(&mut head, 0)?;
        head.truncate(len);
        if !self.storage.names_messages()
            && MessageKey(barid_message::header_key(&head[separator_len..])) != core.key
        {
            let path = self.path().to_owned();
            return Err(FormatError::MessageGone { path, offset: location.offset() }.into());
        }
        Ok(Opened { message, head })
    }
}

/// Returns `true` if a header ends with its blank line.
pub(crate) fn ends_header(header: &[u8]) -> bool {
    let ends = [&b"\n"[..], b"\r\n"];
    ends.iter().any(|end| {
        header.strip_suffix(*end).is_some_and(|lines| lines.is_empty() || lines.ends_with(b"\n"))
    })
}

/// Returns `true` if an error means that a message is too large to be read as a whole.
pub fn is_too_large(error: &Error) -> bool {
    matches!(error, Error::Mailbox(FormatError::MessageTooLarge { .. }))
}

/// Returns `true` for bodies in which text is searched or shown: `text` and `message` parts.
pub fn keeps_texts(part: &BodyStructure) -> bool {
    part.media_type.eq_ignore_ascii_case(b"text")
        || part.media_type.eq_ignore_ascii_case(b"message")
}

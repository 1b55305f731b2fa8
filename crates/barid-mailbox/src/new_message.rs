//! A message to be appended, of any size.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use barid_message::CrlfPieces;
use barid_types::{FlagSet, InternalDate, Keyword, Uid};
use barid_vfs::Metadata;

use crate::{Error, Result};

/// A function that receives bytes of a message.
pub type TakeRest<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

/// The bytes after the header of a message that is too large for memory, or a whole message that is
/// elsewhere, such as in another mailbox.
pub trait MessageRest: fmt::Debug + Sync {
    /// Returns the number of bytes.
    fn size(&self) -> u64;

    /// Returns the header with its blank line, if this is a whole message. It begins what
    /// [`MessageRest::read`] reads.
    ///
    /// # Errors
    /// Errors of the source.
    fn header(&self) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Returns the number of bytes with CRLF, if somebody has written it down; it may be wrong.
    fn noted_crlf_size(&self) -> Option<u64> {
        None
    }

    /// Gives the file that contains exactly this message the additional name `to`, and returns its
    /// metadata after that. Returns `None` if there is no such file, or it cannot be linked there.
    /// Not durable before the folder of `to` is synced.
    ///
    /// # Errors
    /// Errors of the source.
    fn link(&self, to: &Path) -> Result<Option<Metadata>> {
        let _ = to;
        Ok(None)
    }

    /// Reads all bytes in pieces, the same every time. An error of `take` ends it.
    ///
    /// # Errors
    /// Errors of the source and of `take`.
    fn read(&self, take: &mut TakeRest<'_>) -> Result<()>;
}

/// A message to be appended.
#[derive(Clone, Debug, Default)]
pub struct NewMessage<'a> {
    /// Header, blank line, body; with [`NewMessage::rest`] the bytes before that, in which the
    /// blank line must be unless they are empty.
    pub bytes: &'a [u8],
    /// The bytes after `bytes`, if the message is too large for memory; with empty `bytes` all of
    /// the message. Read more than once.
    pub rest: Option<&'a dyn MessageRest>,
    /// Its internal date; now if `None`.
    pub internal_date: Option<InternalDate>,
    /// Its flags; \Recent is added by the format.
    pub flags: FlagSet,
    /// Its keywords.
    pub keywords: Vec<Keyword>,
    /// The envelope sender, for a From_ line; `MAILER-DAEMON` if `None`.
    pub sender: Option<&'a str>,
    /// The bytes that the message had in this mailbox, if it is to be restored: an mbox then writes
    /// these instead of `bytes` and `sender`.
    pub stored: Option<StoredMessage<'a>>,
    /// The UID requested for it. It gets this UID if all UIDs given so far, including those of the
    /// messages before it, are lower; otherwise the next one. It also gets the next one if the
    /// request is above 3,758,096,383, since a mailbox should not run out of UIDs.
    /// [`SyncReport::appended`](crate::SyncReport::appended) reports the UID. An mbox must store
    /// UIDs in the file, or be empty: otherwise the next scan gives them.
    pub uid: Option<Uid>,
    /// A lower bound of UIDNEXT after the append: lower UIDs count as given out, as in the mailbox
    /// that is copied. It is limited, and takes effect, in the same cases as `uid`.
    pub uidnext: Option<Uid>,
}

/// A message as it was stored in an mbox of the variant to which it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredMessage<'a> {
    /// Separator, header, body; with [`NewMessage::rest`] the bytes before that.
    pub bytes: &'a [u8],
    /// Length of the separator in bytes.
    pub separator_len: usize,
}

impl NewMessage<'_> {
    /// Returns the size of the message in bytes.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64 + self.rest.map_or(0, MessageRest::size)
    }

    /// Returns the size of the message with CRLF, in bytes. Reads the rest of a large one.
    ///
    /// # Errors
    /// Errors of reading the rest.
    pub fn crlf_size(&self) -> Result<u64> {
        self.crlf_size_from(self.bytes)
    }

    /// Returns the source of the whole message, if no byte of it is in memory.
    pub fn whole(&self) -> Option<&dyn MessageRest> {
        self.rest.filter(|_| self.bytes.is_empty())
    }

    /// Returns the bytes before the rest, with the whole header; reads that of a message that is
    /// not in memory.
    ///
    /// # Errors
    /// Errors of the source.
    pub fn start(&self) -> Result<Cow<'_, [u8]>> {
        let header = self.whole().map_or(Ok(None), MessageRest::header)?;
        Ok(header.map_or(Cow::Borrowed(self.bytes), Cow::Owned))
    }

    /// Reads the bytes after [`NewMessage::start`], which had `start_len` bytes.
    ///
    /// # Errors
    /// Errors of the source and of `take`.
    pub fn read_after(&self, start_len: usize, take: &mut TakeRest<'_>) -> Result<()> {
        let mut skipped = start_len - self.bytes.len();
        self.read_rest(&mut |piece| {
            let from = skipped.min(piece.len());
            skipped -= from;
            if from < piece.len() { take(&piece[from..]) } else { Ok(()) }
        })
    }

    /// Returns the size of `start` and the rest with CRLF, in bytes.
    ///
    /// # Errors
    /// Errors of reading the rest.
    pub fn crlf_size_from(&self, start: &[u8]) -> Result<u64> {
        let mut pieces = CrlfPieces::default();
        let mut size = pieces.size(start);
        self.read_rest(&mut |piece| {
            size += pieces.size(piece);
            Ok(())
        })?;
        Ok(size)
    }

    /// Reads the bytes after the first ones, if there are any.
    ///
    /// # Errors
    /// Errors of the source and of `take`.
    pub fn read_rest(&self, take: &mut TakeRest<'_>) -> Result<()> {
        self.rest.map_or(Ok(()), |rest| rest.read(take))
    }

    /// Fails if the message is larger than `most` bytes.
    ///
    /// # Errors
    /// [`Error::MessageTooLarge`].
    pub fn check_size(&self, path: &Path, most: u64) -> Result<()> {
        let size = self.size();
        match size > most {
            true => Err(Error::MessageTooLarge { path: path.to_owned(), offset: 0, size, most }),
            false => Ok(()),
        }
    }
}

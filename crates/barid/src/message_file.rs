//! Messages in files, of any size, for appending them.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use barid_mailbox::{Error as FormatError, MessageRest, TakeRest};
use barid_message::body_offset;
use barid_vfs::{File, Metadata, Timestamp};

use crate::large::ends_header;
use crate::limits::{LARGE_HEADER_LEN_MAX, PIECE_LEN};
use crate::{Error, Result};

/// The bytes of a message in a file that are not read into memory.
pub struct FileRest {
    file: Arc<dyn File>,
    path: PathBuf,
    range: Range<u64>,
    /// Size and modification time of the file when it was opened.
    stamp: (u64, Timestamp),
    has_header: bool,
    /// `true` if no byte of the message is in memory.
    is_whole: bool,
}

impl FileRest {
    /// Reads the start of the message that is all of `file`: up to the blank line of its header, or
    /// 16 MB if there is none before. Returns it with the rest. A From_ line counts as part of the
    /// header. `path` names the file in errors.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn split(file: Box<dyn File>, path: &Path) -> Result<(Vec<u8>, Self)> {
        let metadata = file.metadata().map_err(Error::at(path))?;
        let size = metadata.size;
        let mut read = |buffer: &mut [u8]| file.read_full_at(buffer, 0).map_err(Error::at(path));
        let start = read_start(size, &mut read)?;
        let (range, has_header) = (start.len() as u64..size, ends_header(&start));
        let (path, stamp, file) = (path.to_owned(), stamp_of(&metadata), Arc::from(file));
        Ok((start, Self { file, path, range, stamp, has_header, is_whole: false }))
    }

    /// Makes a message of a range of a file, which may contain many; nothing of it is read yet.
    /// `path` names the file in errors.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn whole(file: Arc<dyn File>, path: &Path, range: Range<u64>) -> Result<Self> {
        let stamp = stamp_of(&file.metadata().map_err(Error::at(path))?);
        let path = path.to_owned();
        Ok(Self { file, path, range, stamp, has_header: false, is_whole: true })
    }

    /// Returns `true` if the header ends before the rest.
    pub fn has_header(&self) -> bool {
        self.has_header
    }
}

fn stamp_of(metadata: &Metadata) -> (u64, Timestamp) {
    (metadata.size, metadata.modified)
}

impl fmt::Debug for FileRest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, range, .. } = self;
        f.debug_struct("FileRest").field("path", path).field("range", range).finish_non_exhaustive()
    }
}

impl MessageRest for FileRest {
    fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn header(&self) -> barid_mailbox::Result<Option<Vec<u8>>> {
        if !self.is_whole {
            return Ok(None);
        }
        let size = self.size();
        let start = read_start(size, &mut |buffer| {
            let most = buffer.len().min(usize::try_from(size).unwrap_or(usize::MAX));
            let read = self.file.read_full_at(&mut buffer[..most], self.range.start);
            read.map_err(Error::at(&self.path))
        });
        let failed = |error: Error| io::Error::other(error.to_string());
        let start = start.map_err(failed).map_err(FormatError::at(&self.path))?;
        let is_all = ends_header(&start) || start.len() as u64 == size;
        Ok(is_all.then_some(start))
    }

    /// Fails if the file has been changed since it was opened.
    fn read(&self, take: &mut TakeRest<'_>) -> barid_mailbox::Result<()> {
        let read_at = |buffer: &mut [u8], at| self.file.read_full_at(buffer, at);
        read_rest(self.range.clone(), &self.path, &read_at, take)?;
        let now = self.file.metadata().map_err(FormatError::at(&self.path))?;
        match stamp_of(&now) == self.stamp {
            true => Ok(()),
            // Not `Changed`, after which a change of a mailbox is tried again.
            false => {
                Err(FormatError::at(&self.path)(io::Error::other("changed while it was read")))
            }
        }
    }
}

/// Reads the start of a large message of `size` bytes, with its separator: up to the blank line of
/// its header, or [`LARGE_HEADER_LEN_MAX`] bytes if there is none before. `read` fills a buffer
/// from the start of the message.
pub(crate) fn read_start(
    size: u64,
    read: &mut dyn FnMut(&mut [u8]) -> Result<usize>,
) -> Result<Vec<u8>> {
    let most = size.min(LARGE_HEADER_LEN_MAX as u64) as usize;
    let mut start = vec![0; most.min(PIECE_LEN)];
    loop {
        let len = read(&mut start)?;
        let is_all = len == most || len < start.len();
        start.truncate(len);
        let end = body_offset(&start);
        if is_all || end < len || ends_header(&start) {
            start.truncate(end);
            return Ok(start);
        }
        start.resize(most.min(len * 4), 0);
    }
}

/// Reads a range of a large message in pieces; `path` names the source in errors.
pub(crate) fn read_rest(
    range: Range<u64>,
    path: &Path,
    read_at: &dyn Fn(&mut [u8], u64) -> io::Result<usize>,
    take: &mut TakeRest<'_>,
) -> barid_mailbox::Result<()> {
    let (mut at, mut piece) = (range.start, vec![0; PIECE_LEN]);
    while at < range.end {
        let most = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(PIECE_LEN);
        let len = match read_at(&mut piece[..most], at) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            read => read,
        };
        let len = len.map_err(FormatError::at(path))?;
        take(&piece[..len])?;
        at += len as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use barid_vfs::{MemVfs, OpenOptions, Vfs as _};

    use super::*;

    const PATH: &str = "/message";

    fn split(text: &[u8]) -> (MemVfs, Vec<u8>, FileRest) {
        let (vfs, path) = (MemVfs::new(), Path::new(PATH));
        vfs.open(path, OpenOptions::create_new(0o600)).unwrap().write_all_at(text, 0).unwrap();
        let (start, rest) =
            FileRest::split(vfs.open(path, OpenOptions::READ).unwrap(), path).unwrap();
        (vfs, start, rest)
    }

    fn check(text: &[u8], start_len: usize) {
        let (_, mut start, rest) = split(text);
        assert_eq!((start.len(), rest.size()), (start_len, (text.len() - start_len) as u64));
        assert_eq!(rest.has_header(), start.ends_with(b"\n"));
        rest.read(&mut |piece| {
            start.extend_from_slice(piece);
            Ok(())
        })
        .unwrap();
        assert!(start == text, "{} bytes", text.len());
    }

    #[test]
    fn a_message_is_its_start_and_its_rest() {
        let body = "line\n".repeat(PIECE_LEN);
        for end in ["\n", "\r\n"] {
            for len in [3, PIECE_LEN - 4, PIECE_LEN - 3, PIECE_LEN - 2, 5 * PIECE_LEN] {
                let header = format!("A: {}{end}{end}", "x".repeat(len));
                check(format!("{header}{body}").as_bytes(), header.len());
                check(header.as_bytes(), header.len());
                check(format!("From a@b\n{header}{body}").as_bytes(), header.len() + 9);
            }
        }
        check(b"A: b", 4);
        check(&vec![b'x'; LARGE_HEADER_LEN_MAX + PIECE_LEN], LARGE_HEADER_LEN_MAX);
    }

    #[test]
    fn a_file_that_is_changed_is_not_read_further() {
        let text = format!("A: b\n\n{}", "line\n".repeat(PIECE_LEN));
        for len in [10, text.len() as u64 + 1] {
            let (vfs, _, rest) = split(text.as_bytes());
            rest.read(&mut |_| Ok(())).unwrap();
            let file = vfs.open(Path::new(PATH), OpenOptions::WRITE).unwrap();
            file.set_len(len).unwrap();
            let error = rest.read(&mut |_| Ok(())).unwrap_err();
            assert!(matches!(error, FormatError::Io { .. }), "{error:?}");
            assert!(error.to_string().starts_with(PATH), "{error}");
        }
    }
}

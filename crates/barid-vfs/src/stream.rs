//! Sequential input and output: files, FIFOs and devices.
//!
//! A [`crate::File`] is read at offsets, and opening it never waits, which is right for mailboxes.
//! Input or output that a user names may be a FIFO, a device or `/dev/stdin`, which have no offsets
//! and must be waited for.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::retry_on_intr;

use crate::api::Metadata;
use crate::os::{OsVfs, fstat};

/// An open file, FIFO or device of the operating system, with a file position. Reads and writes
/// block, are repeated if a signal interrupts them, and are not buffered.
#[derive(Debug)]
pub struct Stream(OwnedFd);

impl OsVfs {
    /// Opens a file, FIFO or device for reading; waits for the writer of a FIFO.
    ///
    /// # Errors
    /// Errors of the system. Folders can be opened, but not read.
    pub fn open_input(&self, path: &Path) -> io::Result<Stream> {
        Stream::open(path, OFlags::RDONLY, 0)
    }

    /// Opens a file, FIFO or device for writing. A file is truncated, or created with permission
    /// bits `mode` (before umask). Waits for the reader of a FIFO.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn open_output(&self, path: &Path, mode: u32) -> io::Result<Stream> {
        Stream::open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC, mode)
    }
}

impl OsVfs {
    /// Opens a file for writing at its end, whatever else is written to it meanwhile (`O_APPEND`);
    /// creates it with permission bits `mode` (before umask). Symbolic links are not followed.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn open_log(&self, path: &Path, mode: u32) -> io::Result<Stream> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW;
        Stream::open(path, flags, mode)
    }
}

impl Stream {
    fn open(path: &Path, flags: OFlags, mode: u32) -> io::Result<Self> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        let mode = Mode::from_raw_mode(mode);
        Ok(Self(retry_on_intr(|| rustix::fs::open(path, flags, mode))?))
    }

    /// Returns the metadata (`fstat`).
    ///
    /// # Errors
    /// Errors of the system.
    pub fn metadata(&self) -> io::Result<Metadata> {
        fstat(self.0.as_fd())
    }
}

/// A shared reference is enough, because the system keeps the file position.
impl io::Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(retry_on_intr(|| rustix::io::read(&self.0, &mut *buffer))?)
    }
}

impl io::Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(retry_on_intr(|| rustix::io::write(&self.0, bytes))?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;
    use crate::api::{FileType, OpenOptions, Vfs as _};

    #[test]
    fn what_goes_through_a_fifo_arrives() {
        let dir = std::env::temp_dir().join(format!("barid-stream-{}", std::process::id()));
        OsVfs.create_dir(&dir, 0o700).unwrap();
        let path = dir.join("fifo");
        let (fifo, mode) = (rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
        let bytes: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        // Opening a FIFO waits for the other end, so both ends are opened in parallel.
        std::thread::scope(|scope| {
            scope.spawn(|| OsVfs.open_output(&path, 0o600).unwrap().write_all(&bytes).unwrap());
            let (mut input, mut found) = (OsVfs.open_input(&path).unwrap(), Vec::new());
            assert_eq!(input.metadata().unwrap().file_type, FileType::Other);
            input.read_to_end(&mut found).unwrap();
            assert!(found == bytes, "{} bytes", found.len());
        });
        OsVfs.remove_file(&path).unwrap();
        OsVfs.remove_dir(&dir).unwrap();
    }

    #[test]
    fn a_file_is_written_anew() {
        let path = std::env::temp_dir().join(format!("barid-stream-of-{}", std::process::id()));
        for text in [&b"long before"[..], b"new"] {
            OsVfs.open_output(&path, 0o640).unwrap().write_all(text).unwrap();
        }
        let mut found = Vec::new();
        OsVfs.open_input(&path).unwrap().read_to_end(&mut found).unwrap();
        assert_eq!(found, b"new");
        assert!(OsVfs.open(&path, OpenOptions::READ).is_ok());
        OsVfs.remove_file(&path).unwrap();
        assert_eq!(OsVfs.open_input(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

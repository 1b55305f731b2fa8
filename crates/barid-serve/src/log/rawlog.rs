//! The protocol of a session, written down for a user who asked for it by making a folder.
//!
//! Logging begins after login, so that no password is in it. A client may log in again, after
//! UNAUTHENTICATE: the arguments of LOGIN and AUTHENTICATE, and the lines that follow the latter,
//! are replaced.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use barid::vfs::{File, FileType, OpenOptions, Vfs};

use crate::limits::RAWLOG_LINE_LEN_MAX;

/// Direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawDirection {
    /// From the client.
    In,
    /// To the client.
    Out,
}

/// The two files of a session: `NAME.in` and `NAME.out`.
#[derive(Debug)]
pub struct RawLog {
    input: (Box<dyn File>, u64),
    output: (Box<dyn File>, u64),
    redact: RedactLines,
    written_max: u64,
}

impl RawLog {
    /// Creates the files of a session in a folder; `None` if the folder does not exist, or is a
    /// link.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn create(
        vfs: &Arc<dyn Vfs>,
        folder: &Path,
        session: &str,
        written_max: u64,
    ) -> io::Result<Option<Self>> {
        match vfs.symlink_metadata(folder) {
            Ok(found) if found.file_type == FileType::Dir => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        let time = vfs.now().unix_seconds();
        let is_plain = |char: &char| char.is_ascii_alphanumeric() || *char == '-';
        let session: String = session.chars().filter(is_plain).take(64).collect();
        let create = |direction: &str| {
            let path = folder.join(format!("{time}-{session}.{direction}"));
            vfs.open(&path, OpenOptions { no_follow: true, ..OpenOptions::create_new(0o600) })
        };
        let (input, output) = ((create("in")?, 0), (create("out")?, 0));
        Ok(Some(Self { input, output, redact: RedactLines::default(), written_max }))
    }

    /// Writes bytes of the session, up to the maximum of a file.
    ///
    /// # Errors
    /// Errors of the file system; the session goes on without the log.
    pub fn write(&mut self, direction: RawDirection, bytes: &[u8]) -> io::Result<()> {
        let redacted;
        let (bytes, (file, at)) = match direction {
            RawDirection::Out => (bytes, &mut self.output),
            RawDirection::In => {
                redacted = self.redact.push(bytes);
                (redacted.as_slice(), &mut self.input)
            }
        };
        let left = usize::try_from(self.written_max - *at).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(left)];
        file.write_all_at(bytes, *at)?;
        *at += bytes.len() as u64;
        Ok(())
    }
}

/// A filter that replaces credentials in the lines of a client.
#[derive(Debug, Default)]
pub struct RedactLines {
    /// The line so far, of which nothing has been passed on.
    line: Vec<u8>,
    /// `true` if the rest of the line has been decided to be harmless.
    passes: bool,
    /// Lines of credentials that are expected.
    secret_lines: u32,
}

/// Lines after AUTHENTICATE that may be responses of the client, and lines that may follow LOGIN
/// with literals.
const SECRET_LINES: u32 = 4;
const REPLACEMENT: &[u8] = b"(credentials)\r\n";

impl RedactLines {
    /// Takes bytes of the client, and returns those that may be written down.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let ends = piece.ends_with(b"\n");
            if self.passes {
                let _ = out.write_all(piece);
                self.passes = !ends;
                continue;
            }
            self.line.extend_from_slice(piece);
            if ends {
                self.end_line(&mut out);
            } else if self.line.len() > RAWLOG_LINE_LEN_MAX && !self.is_secret() {
                // A long line, or a part of a message: its beginning is known.
                out.append(&mut self.line);
                self.passes = true;
            } else if self.line.len() > RAWLOG_LINE_LEN_MAX {
                // The beginning tells that the line is secret; its rest is not needed.
                self.line.truncate(RAWLOG_LINE_LEN_MAX);
            }
        }
        out
    }

    fn end_line(&mut self, out: &mut Vec<u8>) {
        let begins = begins_login(&self.line);
        if self.is_secret() {
            out.extend_from_slice(REPLACEMENT);
            self.secret_lines = match begins {
                true => SECRET_LINES,
                false => self.secret_lines - 1,
            };
            self.line.clear();
        } else {
            out.append(&mut self.line);
        }
    }

    fn is_secret(&self) -> bool {
        self.secret_lines > 0 || begins_login(&self.line)
    }
}

/// Returns `true` if a line is a command with credentials.
fn begins_login(line: &[u8]) -> bool {
    let mut words = line.split(|byte| byte.is_ascii_whitespace());
    let command = words.nth(1).unwrap_or_default();
    [&b"LOGIN"[..], b"AUTHENTICATE"].iter().any(|name| command.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use barid::vfs::MemVfs;

    use super::*;

    fn check(input: &[&[u8]], expected: &str) {
        let mut redact = RedactLines::default();
        let out: Vec<u8> = input.iter().flat_map(|bytes| redact.push(bytes)).collect();
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn credentials_are_replaced_however_they_are_cut() {
        let login = b"a LOGIN ann secret\r\n".as_slice();
        check(&[login], "(credentials)\r\n");
        let bytes: Vec<&[u8]> = login.chunks(1).collect();
        check(&bytes, "(credentials)\r\n");
        let exchange = b"a authenticate PLAIN\r\nc2VjcmV0\r\n".as_slice();
        check(&[exchange], "(credentials)\r\n(credentials)\r\n");
        check(&[b"a LOGIN {3}\r\n", b"ann {6}\r\nsecret\r\n"], &"(credentials)\r\n".repeat(3));
        check(&[b"a NOOP\r\n", b"b SELECT x\r\n"], "a NOOP\r\nb SELECT x\r\n");
        let long = vec![b'x'; RAWLOG_LINE_LEN_MAX * 3];
        check(&[&long, b"\r\n"], &format!("{}\r\n", String::from_utf8_lossy(&long)));
        let mut long_login = b"a LOGIN ann ".to_vec();
        long_login.extend(vec![b's'; RAWLOG_LINE_LEN_MAX * 3]);
        check(&[&long_login, b"\r\n", b"b NOOP\r\n"], &"(credentials)\r\n".repeat(2));
    }

    #[test]
    fn files_are_written_for_who_has_the_folder() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let folder = Path::new("/rawlog");
        assert!(RawLog::create(&vfs, folder, "s1", 100).unwrap().is_none());
        vfs.create_dir(folder, 0o700).unwrap();
        let mut log = RawLog::create(&vfs, folder, "../s1", 20).unwrap().unwrap();
        log.write(RawDirection::In, b"a LOGIN x y\r\n").unwrap();
        log.write(RawDirection::Out, &[b'o'; 100]).unwrap();
        let mut names = Vec::new();
        let dir = vfs.open_dir(folder).unwrap();
        dir.list(&mut |name, _| names.push(String::from_utf8_lossy(name).into_owned())).unwrap();
        names.sort();
        assert_eq!(names.len(), 2);
        assert!(names[0].ends_with("-s1.in") && names[1].ends_with("-s1.out"), "{names:?}");
        let read = |name: &str| vfs.read(&folder.join(name), 1000).unwrap();
        assert_eq!(read(&names[0]), REPLACEMENT);
        assert_eq!(read(&names[1]).len(), 20);
    }
}

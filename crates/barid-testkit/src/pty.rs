//! A terminal without a viewer, for programs that refuse to run without one.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::disk::{self, File};

/// The most bytes of a program's screen output that are stored.
const OUTPUT_LEN_MAX: usize = 1 << 20;

/// The master side of a pseudo-terminal, drained by a thread of its own.
#[derive(Debug)]
pub(crate) struct Pty {
    reader: JoinHandle<Vec<u8>>,
}

impl Pty {
    /// Opens a terminal and makes it the standard input, output and error of `command`.
    ///
    /// The command must be dropped after it was started, or [`Pty::output`] waits for ever: it
    /// keeps the terminal open.
    pub(crate) fn attach(command: &mut Command) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let path = Path::new(OsStr::from_bytes(name.as_bytes()));
        let terminal: OwnedFd = disk::open_read_write(path)?.into();
        command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
        let reader = std::thread::spawn(move || drain(File::from(master)));
        Ok(Self { reader })
    }

    /// Returns the output, after every program on the terminal has ended.
    pub(crate) fn output(self) -> Vec<u8> {
        self.reader.join().expect("because the reader does not panic")
    }
}

/// Reads until the other side is closed (`EIO`).
fn drain(mut master: File) -> Vec<u8> {
    let mut output = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = master.read(&mut buffer) {
        let room = OUTPUT_LEN_MAX - output.len();
        output.extend_from_slice(&buffer[..len.min(room)]);
    }
    output
}

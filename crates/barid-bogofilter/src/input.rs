//! Input messages: from a stream, or from named files and folders.

use std::io::{BufRead as _, BufReader, Read, StdinLock};
use std::path::{Path, PathBuf};

use barid_vfs::{File, FileType, OpenOptions, OsVfs, Stream, Vfs as _};
use rustix::fs::{self, fstat};

use crate::dropin::{Messages, Separation};
use crate::limits::{BUFFER_LEN, LONG_LEN, MESSAGE_LEN_MAX};
use crate::options::{Bulk, Options};
use crate::output::{Stop, path_of, print_error, shown};
use crate::places::reason;

/// A callback for a message, and the name of its file if one was named.
pub(crate) type Take<'a> = dyn FnMut(&[u8], Option<&[u8]>) -> Result<(), Stop> + 'a;

/// Reads messages; the format of earlier files determines how the next file is split.
struct Input<'a> {
    many: bool,
    before: Separation,
    message: Vec<u8>,
    take: &'a mut Take<'a>,
}

/// The input of messages, already open: errors are reported before anything else happens, and a
/// FIFO can be opened only once.
#[derive(Debug)]
pub(crate) enum Source {
    Stdin,
    Stream(Stream),
    /// A Maildir, or an MH folder.
    Folder(PathBuf),
}

impl Source {
    /// Opens standard input, or the file or folder given with `-I`.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Stop> {
        let Some(path) = path else { return Ok(Self::Stdin) };
        let opened = OsVfs.metadata(path).and_then(|metadata| match metadata.file_type {
            FileType::Dir => OsVfs.open_dir(path).map(|_| Self::Folder(path.to_owned())),
            _ => OsVfs.open_input(path).map(Self::Stream),
        });
        opened.map_err(|_| Stop::error(format!("Can't read '{}'", path.display())))
    }

    fn is_long(&self) -> bool {
        let is_large = |size: u64| size > LONG_LEN;
        match self {
            Self::Stdin => fstat(std::io::stdin()).is_ok_and(|stat| {
                let is_file = fs::FileType::from_raw_mode(stat.st_mode).is_file();
                !is_file || u64::try_from(stat.st_size).is_ok_and(is_large)
            }),
            Self::Stream(stream) => stream.metadata().is_ok_and(|metadata| {
                metadata.file_type != FileType::File || is_large(metadata.size)
            }),
            Self::Folder(_) => true,
        }
    }
}

/// Returns `true` if the input may be large enough to justify threads; one message is not.
pub(crate) fn is_long(options: &Options, source: &Source) -> bool {
    match options.bulk {
        Bulk::NamesInArgs | Bulk::NamesOnInput => true,
        Bulk::Stream => is_many(options) && source.is_long(),
    }
}

/// Returns `true` if a stream may contain more than one message.
fn is_many(options: &Options) -> bool {
    let registers = options.settings.registration.is_some() && options.bulk == Bulk::Stream;
    options.many || registers
}

/// Passes all messages to `take`.
pub(crate) fn each<'a>(
    options: &Options,
    source: &Source,
    take: &'a mut Take<'a>,
) -> Result<(), Stop> {
    let mut input = Input::new(is_many(options), take);
    match options.bulk {
        Bulk::Stream => input.source(source),
        Bulk::NamesInArgs => {
            for name in &options.names {
                if !input.named(name)? {
                    break;
                }
            }
            Ok(())
        }
        Bulk::NamesOnInput => input.names_on_input(),
    }
}

/// Passes the messages of an mbox, of a folder or of one message to `take`.
pub(crate) fn each_of<'a>(source: &Source, take: &'a mut Take<'a>) -> Result<(), Stop> {
    Input::new(true, take).source(source)
}

/// Returns buffered standard input.
pub(crate) fn stdin() -> BufReader<StdinLock<'static>> {
    buffered(std::io::stdin().lock())
}

/// Wraps a stream in a buffer.
pub(crate) fn buffered<R: Read>(stream: R) -> BufReader<R> {
    BufReader::with_capacity(BUFFER_LEN, stream)
}

impl<'a> Input<'a> {
    fn new(many: bool, take: &'a mut Take<'a>) -> Self {
        Self { many, before: Separation::None, message: Vec::new(), take }
    }

    fn source(&mut self, source: &Source) -> Result<(), Stop> {
        use std::os::unix::ffi::OsStrExt as _;
        match source {
            Source::Stdin => self.stream(stdin(), None),
            Source::Stream(stream) => self.stream(buffered(stream), None),
            Source::Folder(path) => self.folder(path, path.as_os_str().as_bytes()),
        }
    }

    fn names_on_input(&mut self) -> Result<(), Stop> {
        let mut names = stdin();
        let mut name = Vec::new();
        loop {
            name.clear();
            let read = names.by_ref().take(BUFFER_LEN as u64).read_until(b'\n', &mut name);
            read.map_err(|error| Stop::error(format!("stdin: {}", reason(&error))))?;
            if name.is_empty() {
                return Ok(());
            }
            let end = name.len() - usize::from(name.ends_with(b"\n"));
            if !self.named(&name[..end])? {
                return Ok(());
            }
        }
    }

    /// Reads the messages of a file or folder; returns `false` if it cannot be read, which ends the
    /// run.
    fn named(&mut self, name: &[u8]) -> Result<bool, Stop> {
        let path = path_of(name);
        let metadata = match OsVfs.metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => {
                let (name, reason) = (shown(name), reason(&error));
                print_error(format!("Can't stat mailstore '{name}': {reason}\n").as_bytes());
                return Ok(false);
            }
        };
        if metadata.file_type == FileType::Dir {
            return self.folder(path, name).map(|()| true);
        }
        match OsVfs.open_input(path) {
            Ok(stream) => self.stream(buffered(stream), Some(name)).map(|()| true),
            Err(error) => {
                let (name, reason) = (shown(name), reason(&error));
                print_error(format!("Can't open file '{name}': {reason}\n").as_bytes());
                Ok(false)
            }
        }
    }

    fn stream(&mut self, stream: impl std::io::BufRead, name: Option<&[u8]>) -> Result<(), Stop> {
        let mut messages = Messages::new(stream, self.many, self.before, MESSAGE_LEN_MAX)?;
        if messages.separation() == Separation::Mbox {
            self.before = Separation::Mbox;
        }
        let mut message = std::mem::take(&mut self.message);
        while messages.next(&mut message)? {
            (self.take)(&message, name)?;
        }
        self.message = message;
        Ok(())
    }

    /// Reads the messages of a Maildir or an MH folder, in the order of the file system.
    fn folder(&mut self, path: &Path, name: &[u8]) -> Result<(), Stop> {
        let is_dir = |path: &Path| {
            OsVfs.metadata(path).is_ok_and(|metadata| metadata.file_type == FileType::Dir)
        };
        let name = name.strip_suffix(b"/").unwrap_or(name);
        let parts = ["new", "cur"];
        if !parts.iter().all(|part| is_dir(&path.join(part))) {
            return self.files(path, name, |name| name.first().is_some_and(u8::is_ascii_digit));
        }
        for part in parts {
            let name = [name, b"/", part.as_bytes()].concat();
            self.files(&path.join(part), &name, |name| name.first() != Some(&b'.'))?;
        }
        Ok(())
    }

    fn files(&mut self, path: &Path, name: &[u8], is_one: fn(&[u8]) -> bool) -> Result<(), Stop> {
        let unreadable = |error: std::io::Error| {
            let reason = reason(&error);
            Stop::error(format!("Cannot read directory {}: {reason}", path.display()))
        };
        let dir = OsVfs.open_dir(path).map_err(unreadable)?;
        let mut files = Vec::new();
        dir.list(&mut |file, _| {
            if is_one(file) {
                files.push(file.to_vec());
            }
        })
        .map_err(unreadable)?;
        for file in files {
            let name = [name, b"/", &file].concat();
            let opened = dir.open(&file, OpenOptions::READ);
            let opened = opened.and_then(|file| Ok((file.metadata()?, file)));
            match opened {
                Ok((metadata, file)) if metadata.file_type == FileType::File => {
                    let stream = BufReader::new(OfFile { file, at: 0 });
                    let mut message = std::mem::take(&mut self.message);
                    Messages::one(stream, MESSAGE_LEN_MAX).next(&mut message)?;
                    (self.take)(&message, Some(&name))?;
                    self.message = message;
                }
                Ok(_) => {}
                Err(error) => {
                    let (name, reason) = (shown(&name), reason(&error));
                    print_error(
                        format!("Warning: can't open file '{name}': {reason}\n").as_bytes(),
                    );
                }
            }
        }
        Ok(())
    }
}

/// A file of a folder, read from its start.
struct OfFile {
    file: Box<dyn File>,
    at: u64,
}

impl Read for OfFile {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = self.file.read_at(buffer, self.at)?;
        self.at += len as u64;
        Ok(len)
    }
}

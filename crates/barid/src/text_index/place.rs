//! The files of a text index.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use barid_index::{AttachmentTexts, Manifest, Segment};
use barid_query::search::TextKind;
use barid_vfs::{File, LockKind, LockMode, OpenOptions};

use super::coverage::Coverage;
use crate::opening::CachePlace;
use crate::{Error, Result, View};

/// Hexadecimal digits of the name of a segment.
const NAME_DIGITS: usize = 16;

/// State of the text index of a mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexStatus {
    /// Number of messages of the mailbox.
    pub messages: u32,
    /// Number of messages that searches for texts need not read.
    pub covered: u32,
    /// Number of covered messages that have too many terms to be indexed whole, and are read.
    pub read_always: u32,
    /// Number of segment files.
    pub segments: u32,
    /// Length of these files in bytes.
    pub bytes: u64,
    /// Bytes of terms and lists of header fields that only programs read.
    pub opaque_bytes: u64,
    /// Number of covered messages that have attachments.
    pub attachments: u32,
    /// Number of those the texts of whose attachments are indexed, as `OpenOptions::attachments`
    /// reads them; without it, as any reader has read them.
    pub attachment_texts: u32,
    /// Number of those with an attachment that could not be read.
    pub attachments_unread: u32,
}

/// The open segments of a mailbox.
pub(crate) struct OpenSegments {
    pub(crate) manifest: Manifest,
    /// In the order of the manifest; `None` for one that is missing or damaged.
    pub(crate) segments: Vec<io::Result<Option<Segment>>>,
}

impl CachePlace {
    /// Returns the path of a file of the text index.
    fn index_path(&self, suffix: &str) -> PathBuf {
        let mut path = OsString::from(self.path.as_os_str());
        path.push(suffix);
        path.into()
    }

    pub(super) fn manifest_path(&self) -> PathBuf {
        self.index_path(".text")
    }

    pub(super) fn rows_path(&self) -> PathBuf {
        self.index_path(".text-rows")
    }

    pub(super) fn segment_path(&self, name: u64) -> PathBuf {
        self.index_path(&format!(".text-{name:016x}"))
    }

    /// Returns the name of a new segment, which no other has.
    pub(super) fn new_segment(&self) -> Result<u64> {
        let mut name = [0; 8];
        let drawn = self.vfs.random(&mut name);
        drawn.map_err(|error| index_error(&self.manifest_path(), error))?;
        Ok(u64::from_le_bytes(name))
    }

    /// Returns the segment files of the mailbox; lists the folder.
    pub(super) fn segment_files(&self) -> io::Result<Vec<PathBuf>> {
        let prefix = self.index_path(".text-");
        let (Some(folder), Some(prefix)) = (prefix.parent(), prefix.file_name()) else {
            return Ok(Vec::new());
        };
        let mut files = Vec::new();
        self.vfs.open_dir(folder)?.list(&mut |name, _| {
            let rest = name.strip_prefix(prefix.as_bytes()).unwrap_or_default();
            if rest.len() == NAME_DIGITS && rest.iter().all(u8::is_ascii_hexdigit) {
                files.push(folder.join(OsStr::from_bytes(name)));
            }
        })?;
        Ok(files)
    }

    /// Takes the lock of whoever changes the index; `None` if another process has it.
    pub(super) fn lock_index(&self) -> Result<Option<Box<dyn File>>> {
        let path = self.index_path(".text-lock");
        let lock = || {
            let file = self.vfs.open(&path, OpenOptions::create(0o600))?;
            let is_taken = file.try_lock(LockKind::Flock, LockMode::Exclusive)?;
            Ok(is_taken.then_some(file))
        };
        lock().map_err(|error| index_error(&path, error))
    }

    /// Opens the segments of the index; `None` if there is no index.
    pub(super) fn open_index(&self) -> io::Result<Option<OpenSegments>> {
        if !self.on_disk {
            return Ok(None);
        }
        let Some(manifest) = Manifest::load(&*self.vfs, &self.manifest_path())? else {
            return Ok(None);
        };
        let segments = manifest.segments.iter().map(|entry| {
            let segment = Segment::open(&*self.vfs, &self.segment_path(entry.name))?;
            Ok(segment.filter(|segment| segment.len() as usize == entry.uids.len()))
        });
        let segments = segments.collect();
        Ok(Some(OpenSegments { manifest, segments }))
    }
}

impl OpenSegments {
    /// Returns a segment; `None` if it covers nothing, since it is missing, damaged, or cannot be
    /// read now.
    pub(crate) fn segment(&self, number: usize) -> Option<&Segment> {
        self.segments.get(number)?.as_ref().ok()?.as_ref()
    }
}

/// Returns an error of a file of the index.
pub(super) fn index_error(path: &std::path::Path, source: io::Error) -> Error {
    Error::TextIndex { path: path.to_owned(), source }
}

impl View {
    /// Removes the text index; returns the length of its files in bytes, or `None` if another
    /// process is building it.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn remove_index(&self) -> Result<Option<u64>> {
        if !self.place.on_disk {
            return Ok(Some(0));
        }
        let Some(_lock) = self.place.lock_index()? else { return Ok(None) };
        let manifest = self.place.manifest_path();
        let folder = manifest.parent().unwrap_or(&manifest);
        let files = self.place.segment_files().map_err(|error| index_error(folder, error))?;
        let mut bytes = 0;
        for path in [manifest, self.place.rows_path()].iter().chain(&files) {
            let removed = self.place.vfs.metadata(path).and_then(|metadata| {
                self.place.vfs.remove_file(path)?;
                Ok(metadata.size)
            });
            match removed {
                Ok(size) => bytes += size,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(index_error(path, error)),
            }
        }
        Ok(Some(bytes))
    }

    /// Returns the state of the text index; `None` if the mailbox has no cache on disk. Reads the
    /// facts of all messages.
    ///
    /// # Errors
    /// A damaged cache; errors of the file system.
    pub fn index_status(&self) -> Result<Option<IndexStatus>> {
        self.check_read()?;
        if !self.place.on_disk {
            return Ok(None);
        }
        let mut status = IndexStatus { messages: self.len(), ..IndexStatus::default() };
        let path = self.place.manifest_path();
        let opened = self.place.open_index().map_err(|error| index_error(&path, error))?;
        let Some(opened) = opened else { return Ok(Some(status)) };
        for segment in (0..opened.segments.len()).filter_map(|number| opened.segment(number)) {
            status.segments += 1;
            status.bytes += segment.bytes();
            status.opaque_bytes += segment.bytes_of(TextKind::OpaqueHeader);
        }
        let coverage = Coverage::of(self, &opened)?;
        status.covered = coverage.covered();
        status.read_always = coverage.open();
        status.attachments = coverage.with_attachments(|texts| texts != AttachmentTexts::None);
        status.attachment_texts =
            coverage.with_attachments(|texts| matches!(texts, AttachmentTexts::There { .. }));
        status.attachments_unread = coverage.with_attachments(|texts| {
            matches!(texts, AttachmentTexts::There { has_unread: true, .. })
        });
        Ok(Some(status))
    }
}

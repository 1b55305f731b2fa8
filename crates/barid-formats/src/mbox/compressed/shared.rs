//! The text of a compressed mailbox, shared by all its readers.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barid_mailbox::ReadKept;
use barid_vfs::{File, FileStamp, OpenOptions, Vfs};

use super::super::layout::MESSAGE_READ_LEN;
use super::spill::Spill;
use super::{CompressedSource, Compression, Points, Text, TextEnd};

/// The text of a compressed mailbox, and its restart points.
pub(in crate::mbox) struct SharedText {
    compression: Compression,
    /// The text in use, and the stamp of its file.
    text: Mutex<Option<(FileStamp, Text)>>,
    points: Mutex<Points>,
    /// Folder of spill files.
    spill_dir: Option<PathBuf>,
}

impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedText").field("compression", &self.compression).finish_non_exhaustive()
    }
}

impl SharedText {
    /// Returns the text of a file whose extension names a compression. Reads nothing.
    pub(in crate::mbox) fn of(path: &Path, spill_dir: Option<PathBuf>) -> Option<Self> {
        let compression = Compression::of(path)?;
        let points = Mutex::new(Points::new(compression, FileStamp::default()));
        Some(Self { compression, text: Mutex::default(), points, spill_dir })
    }

    /// Returns a source of the text for a scan, from an open file.
    pub(in crate::mbox) fn source(
        &self,
        file: &Arc<dyn File>,
        stamp: &FileStamp,
        damage: &TextEnd,
    ) -> CompressedSource<'_> {
        self.follow(stamp);
        let text = Text::new(Arc::clone(file), self.compression, damage.clone());
        CompressedSource::new(text, &self.points)
    }

    /// Fills `buffer` from an offset of the text; returns fewer bytes only at its end.
    ///
    /// Costs a `stat`, and decompressing from where the last reader stopped or from the restart
    /// point before the offset, whichever is nearer.
    pub(in crate::mbox) fn read_full_at(
        &self,
        (vfs, path): (&Arc<dyn Vfs>, &Path),
        buffer: &mut [u8],
        offset: u64,
    ) -> io::Result<usize> {
        let stamp = FileStamp::from(&vfs.metadata(path)?);
        let mut held = lock(&self.text);
        let text = match &mut *held {
            Some((of, text)) if *of == stamp => text,
            held => {
                let file: Arc<dyn File> = Arc::from(vfs.open(path, OpenOptions::READ)?);
                let stamp = FileStamp::from(&file.metadata()?);
                self.follow(&stamp);
                let mut text = Text::new(file, self.compression, TextEnd::default());
                if let Some(folder) = self.spill_dir.clone() {
                    let vfs = Arc::clone(vfs);
                    let new_spill = move |start| Spill::new(&*vfs, &folder, start);
                    text = text.with_spill(Box::new(new_spill));
                }
                &mut held.insert((stamp, text)).1
            }
        };
        text.read_full_at(buffer, offset, &self.points)
    }

    /// Appends a range of the text, or the part of it that exists. Memory grows as bytes come.
    /// Costs as [`SharedText::read_full_at`].
    pub(in crate::mbox) fn append_range(
        &self,
        place: (&Arc<dyn Vfs>, &Path),
        range: Range<u64>,
        buffer: &mut Vec<u8>,
    ) -> io::Result<()> {
        let mut offset = range.start;
        while offset < range.end {
            let len = (range.end - offset).min(MESSAGE_READ_LEN) as usize;
            let start = buffer.len();
            buffer.resize(start + len, 0);
            let read = self.read_full_at(place, &mut buffer[start..], offset)?;
            buffer.truncate(start + read);
            offset += read as u64;
            if read < len {
                break;
            }
        }
        Ok(())
    }

    /// Drops restart points of another state of the file.
    fn follow(&self, stamp: &FileStamp) {
        let mut points = lock(&self.points);
        if !points.are_of(stamp) {
            *points = Points::new(self.compression, *stamp);
        }
    }

    /// Loads kept restart points, unless there are some already.
    pub(in crate::mbox) fn take_points(&self, len: u64, kept: Box<ReadKept>) {
        let mut points = lock(&self.points);
        if points.is_empty()
            && let Some(kept) = Points::open(len, kept, self.compression)
        {
            *points = kept;
        }
    }

    /// Returns the encoded restart points if enough are new to be worth writing.
    pub(in crate::mbox) fn points_to_keep(&self) -> Option<Vec<u8>> {
        let mut points = lock(&self.points);
        points.are_worth_keeping().then(|| points.take_bytes())
    }
}

/// Locks a mutex. A poisoned one means that another thread panicked; the scope that waits for it
/// then panics too.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Reads the old bytes of a draft, and writes its scripts to the journal.
//!
//! All bytes of the old file that a plan needs are read here once, in file order, and hashed.
//! Scripts are written to the journal as they come. Only the units are kept, whose number is
//! bounded however large the file is. A reader has as much to do as the planner, so it gets a
//! thread when there is much to read.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use barid_mailbox::{Error, Result};
use barid_vfs::File;
use xxhash_rust::xxh3::Xxh3;

use super::assemble::hash_old;
use super::header::HEADER_LEN;
use super::journal::{JournalFile, Places};
use super::limits::{
    READ_ALONE_MAX, READ_QUEUE_LEN, SCRIPT_COMPRESSED_MIN, SCRIPT_LEVEL, SCRIPTS_WRITE_LEN,
    WritingOptions,
};
use super::pages::Pages;
use super::source::BufferedFile;
use super::unit::{Collapse, Unit};

/// Result of reading for a draft.
#[derive(Default)]
pub(super) struct UnitsRead {
    /// The units, ascending.
    pub(super) units: Vec<Unit>,
    /// Bytes of all scripts.
    pub(super) scripts_len: u64,
    /// Their hash, to which the rest of the plan is still to be added.
    pub(super) scripts_hash: Xxh3,
}

/// Reads the old bytes of units.
pub(super) struct UnitReader<'a> {
    places: Places<'a>,
    source: BufferedFile<'a>,
    /// Destination of scripts. With `None`, nothing is read, hashed or written, only counted.
    journal: Option<&'a mut JournalFile>,
    /// Pages that the planner has read.
    pages: &'a Pages<'a>,
    read: UnitsRead,
    /// Scripts that are not in the journal yet.
    scripts: Vec<u8>,
    compressor: Option<zstd::bulk::Compressor<'static>>,
}

impl<'a> UnitReader<'a> {
    /// Creates a reader of `file`. Without `journal` it only counts.
    pub(super) fn new(
        places: Places<'a>,
        file: &'a dyn File,
        journal: Option<&'a mut JournalFile>,
        pages: &'a Pages<'a>,
        options: &WritingOptions,
    ) -> Self {
        Self {
            places,
            source: BufferedFile::sharing(file, options.buffer_len, pages),
            journal,
            pages,
            read: UnitsRead::default(),
            scripts: Vec::new(),
            compressor: None,
        }
    }

    /// Returns the next part; reads ahead until it comes.
    fn next(&self, parts: &Receiver<Part>) -> Option<Part> {
        loop {
            match parts.try_recv() {
                Err(TryRecvError::Empty) if self.pages.read_ahead() => {}
                Err(TryRecvError::Empty) => return parts.recv().ok(),
                part => return part.ok(),
            }
        }
    }

    fn take(&mut self, part: Part) -> Result<()> {
        match part {
            Part::Unit(unit, script) => self.unit(unit, &script),
            Part::Collapse(collapse) => {
                self.source.collapse(collapse);
                Ok(())
            }
        }
    }

    fn unit(&mut self, mut unit: Unit, script: &[u8]) -> Result<()> {
        unit.script_at = self.read.scripts_len;
        unit.script_raw_len = script.len() as u32;
        unit.script_len = unit.script_raw_len;
        if self.journal.is_some() {
            (unit.hash, unit.skip_hash) =
                hash_old(&unit, script, &mut self.source).map_err(self.at())?;
            self.store(&mut unit, script)?;
        }
        self.read.scripts_len += u64::from(unit.script_len);
        self.read.units.push(unit);
        Ok(())
    }

    fn at(&self) -> impl FnOnce(io::Error) -> Error {
        let path = self.places.mailbox.to_owned();
        move |source| match source.kind() {
            // The file is shorter than it is known to be.
            io::ErrorKind::UnexpectedEof => Error::Changed { path },
            _ => Error::Io { path, source },
        }
    }

    fn store(&mut self, unit: &mut Unit, script: &[u8]) -> Result<()> {
        let stored = match &mut self.compressor {
            _ if script.len() < SCRIPT_COMPRESSED_MIN => None,
            Some(compressor) => compressor.compress(script).ok(),
            compressor => zstd::bulk::Compressor::new(SCRIPT_LEVEL)
                .and_then(|new| compressor.insert(new).compress(script))
                .ok(),
        };
        let stored = stored.as_deref().filter(|stored| stored.len() < script.len());
        let stored = stored.unwrap_or(script);
        unit.script_len = stored.len() as u32;
        self.read.scripts_hash.update(stored);
        self.scripts.extend_from_slice(stored);
        match self.scripts.len() >= SCRIPTS_WRITE_LEN {
            true => self.write(unit.script_at + stored.len() as u64),
            false => Ok(()),
        }
    }

    /// Writes the scripts that are not in the journal yet; they end at `end`.
    fn write(&mut self, end: u64) -> Result<()> {
        if let Some(journal) = &mut self.journal {
            let offset = HEADER_LEN + end - self.scripts.len() as u64;
            journal.write(&self.places, &self.scripts, offset)?;
        }
        self.scripts.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<UnitsRead> {
        self.write(self.read.scripts_len)?;
        Ok(self.read)
    }
}

/// Input of a reader.
enum Part {
    Unit(Unit, Vec<u8>),
    Collapse(Collapse),
}

/// A reader, which moves to a thread of its own when there is much to read.
pub(super) struct Readers<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    state: ReaderState<'scope, 'env>,
}

enum ReaderState<'scope, 'env> {
    Here(Box<UnitReader<'env>>, usize),
    There(SyncSender<Part>, ScopedJoinHandle<'scope, Result<UnitsRead>>),
    /// It failed, and the error was returned.
    Over,
}

impl<'scope, 'env> Readers<'scope, 'env> {
    /// Begins without a thread.
    pub(super) fn new(scope: &'scope Scope<'scope, 'env>, reader: UnitReader<'env>) -> Self {
        Self { scope, state: ReaderState::Here(Box::new(reader), 0) }
    }

    /// Passes on the next unit, complete except for its hashes and the position of its script.
    pub(super) fn unit(&mut self, unit: Unit, script: Vec<u8>) -> Result<()> {
        self.take(Part::Unit(unit, script))
    }

    /// Passes on a range to skip from now on.
    pub(super) fn collapse(&mut self, collapse: Collapse) -> Result<()> {
        self.take(Part::Collapse(collapse))
    }

    fn take(&mut self, part: Part) -> Result<()> {
        match &mut self.state {
            ReaderState::Here(reader, count) => {
                *count += 1;
                reader.take(part)?;
                if *count == READ_ALONE_MAX && reader.journal.is_some() {
                    self.leave();
                }
                Ok(())
            }
            ReaderState::There(sender, _) => match sender.send(part) {
                Ok(()) => Ok(()),
                // The reader has stopped and knows the reason.
                Err(_) => self.end().map(drop),
            },
            ReaderState::Over => Ok(()),
        }
    }

    /// Moves the reader to its own thread, if one can be started.
    fn leave(&mut self) {
        let ReaderState::Here(reader, _) = std::mem::replace(&mut self.state, ReaderState::Over)
        else {
            return;
        };
        let (sender, parts) = sync_channel(READ_QUEUE_LEN);
        let shared = Arc::new(Mutex::new(Some(reader)));
        let handed = Arc::clone(&shared);
        let spawned = Builder::new().spawn_scoped(self.scope, move || {
            let reader = handed.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(mut reader) = reader else { return Ok(UnitsRead::default()) };
            while let Some(part) = reader.next(&parts) {
                reader.take(part)?;
            }
            reader.finish()
        });
        self.state = match spawned {
            Ok(thread) => ReaderState::There(sender, thread),
            Err(_) => {
                let reader = shared.lock().unwrap_or_else(PoisonError::into_inner).take();
                let reader = reader.expect("because a thread that does not run takes nothing");
                ReaderState::Here(reader, READ_ALONE_MAX)
            }
        };
    }

    /// Waits for the reader and returns its result.
    pub(super) fn finish(mut self) -> Result<UnitsRead> {
        self.end()
    }

    fn end(&mut self) -> Result<UnitsRead> {
        match std::mem::replace(&mut self.state, ReaderState::Over) {
            ReaderState::Here(reader, _) => reader.finish(),
            ReaderState::There(sender, thread) => {
                drop(sender);
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
            ReaderState::Over => Ok(UnitsRead::default()),
        }
    }
}

//! Direct steps, with the next bytes read and assembled while the bytes before are written and
//! synced.
//!
//! Old bytes of a unit are never overwritten before that unit is written. So a thread may read as
//! far ahead of the writer as memory allows, across barriers.

use std::io;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::Builder;

use barid_mailbox::{Error, Result, SyncContext};
use barid_vfs::File;

use super::assemble::assemble;
use super::header::HEADER_LEN;
use super::journal::JournalFile;
use super::limits::{PIECES_AHEAD, SCRIPTS_READ_LEN, SOURCE_LEN};
use super::source::BufferedFile;
use super::steps::{Steps, WriteStep};
use super::unit::Unit;
use super::work::{PlannedChange, decompress};

/// Next action of the writer.
enum WriterStep {
    /// Begins a step: everything before must be durable first.
    Begin(WriteStep),
    /// Writes these bytes at this offset.
    Bytes(u64, Vec<u8>),
}

/// Reason why no more pieces come.
enum Trouble {
    /// The mailbox could not be read.
    Mailbox(io::Error),
    /// The journal could not be read.
    Journal(io::Error),
    /// The mailbox is not in the expected state.
    Changed,
    /// The writer has stopped.
    Stopped,
}

/// Data that is read while steps are written.
struct Parts<'a> {
    units: &'a [Unit],
    steps: &'a Steps,
    journal: &'a JournalFile,
    file: &'a dyn File,
    buffer_len: usize,
}

impl PlannedChange<'_> {
    /// Runs the steps from `first` up to `end`, all of which are direct. The last bytes written may
    /// not be synced on return.
    pub(super) fn apply_direct(
        &mut self,
        first: usize,
        end: usize,
        context: &SyncContext<'_>,
    ) -> Result<()> {
        // Moved out, so that they can be read while `self` is written to.
        let units = std::mem::take(&mut self.units);
        let steps = std::mem::take(&mut self.steps);
        let journal = std::mem::replace(&mut self.journal, JournalFile::new(0));
        let buffer_len = self.options.buffer_len;
        let parts = Parts {
            units: &units,
            steps: &steps,
            journal: &journal,
            file: self.file(),
            buffer_len,
        };
        let total = units.iter().map(|unit| unit.write_len).sum();
        let mut writer = PieceWriter { work: self, parts: &parts, step: None, total, context };
        let done = parts.run(first..end, &mut writer);
        (self.units, self.steps, self.journal) = (units, steps, journal);
        done
    }
}

impl Parts<'_> {
    fn run(&self, steps: Range<usize>, writer: &mut PieceWriter<'_, '_, '_, '_>) -> Result<()> {
        let indices = || steps.clone().map(|index| self.steps.get(index));
        let len: u64 = indices().map(|step| self.steps.write_len(step, self.units)).sum();
        if len > 2 * self.buffer_len as u64
            && let Some(done) = self.run_ahead(steps.clone(), writer)
        {
            return done;
        }
        let mut result = Ok(());
        let mut assembler = Assembler::new(self);
        let ended = indices().try_for_each(|step| {
            assembler.step(step, &mut |piece| {
                let (taken, left) = writer.take(piece);
                result = taken;
                result.as_ref().map(|()| left).map_err(|_| Trouble::Stopped)
            })
        });
        result?;
        ended.map_err(|trouble| writer.error(trouble))?;
        writer.end();
        Ok(())
    }

    /// Runs the steps with a thread that reads; `None` if no thread can be started.
    fn run_ahead(
        &self,
        steps: Range<usize>,
        writer: &mut PieceWriter<'_, '_, '_, '_>,
    ) -> Option<Result<()>> {
        let (pieces, coming) = sync_channel(PIECES_AHEAD);
        let (used, free) = channel();
        std::thread::scope(|scope| {
            let thread = Builder::new().spawn_scoped(scope, move || {
                let mut assembler = Assembler::new(self);
                let mut send = |piece| {
                    pieces.send(Ok(piece)).map_err(|_| Trouble::Stopped)?;
                    Ok(free.try_recv().unwrap_or_default())
                };
                let mut steps = steps.map(|index| self.steps.get(index));
                if let Err(trouble) = steps.try_for_each(|step| assembler.step(step, &mut send)) {
                    // If sending fails, the writer has stopped and knows the reason.
                    let _ = pieces.send(Err(trouble));
                }
            });
            thread.ok()?;
            Some(writer.run(coming, &used))
        })
    }
}

/// Writes the pieces that arrive, and syncs between steps.
struct PieceWriter<'w, 'a, 'p, 'c> {
    work: &'w mut PlannedChange<'a>,
    parts: &'p Parts<'p>,
    /// The step that is being written.
    step: Option<WriteStep>,
    /// Bytes that all steps write.
    total: u64,
    context: &'w SyncContext<'c>,
}

impl PieceWriter<'_, '_, '_, '_> {
    fn run(
        &mut self,
        coming: Receiver<std::result::Result<WriterStep, Trouble>>,
        used: &Sender<Vec<u8>>,
    ) -> Result<()> {
        for piece in coming {
            let (taken, left) = self.take(piece.map_err(|trouble| self.error(trouble))?);
            taken?;
            if left.capacity() > 0 {
                // The reader may have ended, and then needs no buffer.
                let _ = used.send(left);
            }
        }
        self.end();
        Ok(())
    }

    /// Runs a piece; returns a buffer for reuse.
    fn take(&mut self, piece: WriterStep) -> (Result<()>, Vec<u8>) {
        match piece {
            WriterStep::Begin(step) => (self.begin(step), Vec::new()),
            WriterStep::Bytes(offset, bytes) => {
                self.work.is_unsynced = true;
                let written = self.work.file().write_all_at(&bytes, offset);
                let written = written.map_err(self.work.at());
                (written.and_then(|()| self.work.locks.touch()), bytes)
            }
        }
    }

    fn begin(&mut self, step: WriteStep) -> Result<()> {
        self.end();
        self.work.flush()?;
        if self.context.is_stopped() {
            return Err(self.work.stopped(self.parts.journal));
        }
        self.work.locks.touch()?;
        self.step = Some(step);
        Ok(())
    }

    /// Counts the current step as written.
    fn end(&mut self) {
        let Some(step) = self.step.take() else { return };
        self.work.bytes_done += self.parts.steps.write_len(step, self.parts.units);
        self.context.report(self.work.bytes_done, self.total);
    }

    fn error(&self, trouble: Trouble) -> Error {
        let mailbox = self.work.places.mailbox;
        match trouble {
            Trouble::Mailbox(error) => Error::at(mailbox)(error),
            Trouble::Journal(error) => {
                Error::at(self.parts.journal.path().unwrap_or(mailbox))(error)
            }
            Trouble::Changed | Trouble::Stopped => self.work.changed(),
        }
    }
}

/// Receiver of pieces; returns a buffer for the next one.
type Sink<'s> = &'s mut dyn FnMut(WriterStep) -> std::result::Result<Vec<u8>, Trouble>;

/// Makes new bytes from old ones.
struct Assembler<'a> {
    parts: &'a Parts<'a>,
    source: BufferedFile<'a>,
    scripts: Scripts<'a>,
    /// Consecutive bytes of the new file, and their offset.
    bytes: Vec<u8>,
    offset: u64,
}

impl<'a> Assembler<'a> {
    fn new(parts: &'a Parts<'a>) -> Self {
        Self {
            parts,
            source: BufferedFile::new(parts.file, parts.buffer_len.min(SOURCE_LEN)),
            scripts: Scripts::new(parts.journal),
            bytes: Vec::new(),
            offset: 0,
        }
    }

    fn step(&mut self, step: WriteStep, sink: Sink<'_>) -> std::result::Result<(), Trouble> {
        let buffer = sink(WriterStep::Begin(step))?;
        self.keep(buffer);
        let members = self.parts.steps.units(step);
        let unit = |index: &u32| self.parts.units[*index as usize];
        let (Some(first), Some(last)) = (members.first().map(unit), members.last().map(unit))
        else {
            return Ok(());
        };
        self.source.expect(first.old, last.old_end());
        for index in &members {
            let unit = unit(index);
            debug_assert_eq!(
                unit.write_len, unit.new_len,
                "a unit of which bytes stay where they are is not written directly"
            );
            // A unit that fits into the buffer is verified before any of it is written.
            if self.bytes.len() as u64 + unit.write_len > self.parts.buffer_len as u64 {
                self.flush(sink)?;
            }
            self.unit(&unit, last.script_at + u64::from(last.script_len), sink)?;
        }
        self.flush(sink)
    }

    fn unit(
        &mut self,
        unit: &Unit,
        scripts_end: u64,
        sink: Sink<'_>,
    ) -> std::result::Result<(), Trouble> {
        let Self { parts, source, scripts, bytes, offset } = self;
        let script = scripts.get(unit, scripts_end).map_err(Trouble::Journal)?;
        let mut stopped = None;
        let hash = assemble(unit, script, source, |at, more| {
            let follows = at == *offset + bytes.len() as u64;
            if !follows || bytes.len() + more.len() > parts.buffer_len {
                if !bytes.is_empty() {
                    match sink(WriterStep::Bytes(*offset, std::mem::take(bytes))) {
                        Ok(buffer) => *bytes = buffer,
                        Err(trouble) => {
                            stopped = Some(trouble);
                            return Err(io::ErrorKind::Interrupted.into());
                        }
                    }
                    bytes.clear();
                }
                *offset = at;
            }
            if bytes.capacity() == 0 {
                bytes.reserve_exact(parts.buffer_len);
            }
            bytes.extend_from_slice(more);
            Ok(())
        });
        match (stopped, hash) {
            (Some(trouble), _) => Err(trouble),
            (None, Err(error)) => Err(Trouble::Mailbox(error)),
            (None, Ok(hash)) if hash != unit.hash => Err(Trouble::Changed),
            (None, Ok(_)) => Ok(()),
        }
    }

    /// Passes on the bytes that are ready.
    fn flush(&mut self, sink: Sink<'_>) -> std::result::Result<(), Trouble> {
        if !self.bytes.is_empty() {
            let bytes = std::mem::take(&mut self.bytes);
            self.offset += bytes.len() as u64;
            let at = self.offset - bytes.len() as u64;
            let buffer = sink(WriterStep::Bytes(at, bytes))?;
            self.keep(buffer);
        }
        Ok(())
    }

    fn keep(&mut self, mut buffer: Vec<u8>) {
        if self.bytes.capacity() == 0 {
            buffer.clear();
            self.bytes = buffer;
        }
    }
}

/// Reads the scripts of a journal, many at once.
struct Scripts<'a> {
    journal: &'a JournalFile,
    /// Scripts as stored, from `at` on.
    stored: Vec<u8>,
    at: u64,
    script: Vec<u8>,
    decompressor: Option<zstd::bulk::Decompressor<'static>>,
}

impl<'a> Scripts<'a> {
    fn new(journal: &'a JournalFile) -> Self {
        Self { journal, stored: Vec::new(), at: 0, script: Vec::new(), decompressor: None }
    }

    /// Returns the script of a unit; scripts up to `end` are read ahead.
    fn get(&mut self, unit: &Unit, end: u64) -> io::Result<&[u8]> {
        let (from, len) = (unit.script_at, u64::from(unit.script_len));
        if from < self.at || from + len > self.at + self.stored.len() as u64 {
            let ahead = end.saturating_sub(from).min(SCRIPTS_READ_LEN).max(len);
            self.stored.clear();
            self.stored.resize(ahead as usize, 0);
            self.at = from;
            self.journal.read(&mut self.stored, HEADER_LEN + from)?;
        }
        let skip = (from - self.at) as usize;
        let stored = &self.stored[skip..skip + len as usize];
        decompress(stored, unit, &mut self.decompressor, &mut self.script)?;
        Ok(&self.script)
    }
}

//! A mailbox in memory, random drafts, and checks of their results.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use barid_mailbox::{EmptyKnown, Recovered, Result, SyncContext, SyncFigures};
use barid_vfs::{MemVfs, OpenOptions, Vfs};

use crate::mbox::change::journal::Places;
use crate::mbox::change::recover::recover;
use crate::mbox::change::work::places_of;
use crate::mbox::change::write::{PlannerInput, WriteResult, write};
use crate::mbox::lock::{MboxLockPurpose, MboxWriteLocks};
use crate::mbox::{MboxMailbox, MboxOptions, WritingOptions};

/// Path of the mailbox.
pub(super) const BOX: &str = "/mail/box";
/// Path of its journal.
pub(super) const JOURNAL: &str = "/mail/.box.barid-journal";
/// The state folder.
pub(super) const STATE: &str = "/state";
/// Block size of the file system in memory.
const BLOCK: u64 = 4096;
/// Mail that others deliver.
pub(super) const FOREIGN: &[u8] =
    b"From other Sat Nov 21 18:41:49 2026\nSubject: new\n\nnew mail\n\n";

/// One call of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Stay(u64),
    Copy(u64),
    Skip(u64),
    Insert(Vec<u8>),
    Collapse(u64),
}

/// A file and a draft of changes to it.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) old: Vec<u8>,
    pub(super) calls: Vec<Call>,
    pub(super) options: WritingOptions,
    pub(super) pending_through: Option<u64>,
}

impl Case {
    /// Returns the content of the file after the change.
    pub(super) fn new_content(&self) -> Vec<u8> {
        let (mut at, mut new) = (0, Vec::new());
        for call in &self.calls {
            match call {
                Call::Stay(len) | Call::Copy(len) => {
                    new.extend_from_slice(&self.old[at..at + *len as usize]);
                    at += *len as usize;
                }
                Call::Skip(len) | Call::Collapse(len) => at += *len as usize,
                Call::Insert(bytes) => new.extend_from_slice(bytes),
            }
        }
        assert_eq!(at, self.old.len(), "the draft covers the file");
        new
    }

    /// Returns a disk with the file.
    pub(super) fn disk(&self) -> MemVfs {
        let disk = MemVfs::new();
        for dir in ["/mail", STATE, "/tmp"] {
            disk.create_dir(Path::new(dir), 0o755).unwrap();
        }
        put(&disk, &self.old);
        disk
    }

    /// Opens the mailbox on `vfs`.
    pub(super) fn mailbox(&self, vfs: Arc<dyn Vfs>) -> MboxMailbox {
        let options = MboxOptions {
            writing: self.options,
            lock_timeout: Duration::from_secs(1000),
            ..MboxOptions::default()
        };
        MboxMailbox::open_with(vfs, Path::new(BOX), None, options).unwrap()
    }

    /// Writes the change.
    pub(super) fn run(&self, vfs: Arc<dyn Vfs>) -> Result<SyncFigures> {
        let mailbox = self.mailbox(vfs);
        let locks = MboxWriteLocks::acquire(&mailbox, MboxLockPurpose::Change)?;
        let known = EmptyKnown::default();
        self.run_with(&mailbox, Some(&locks), &mut self.context(&known))
    }

    /// Estimates the cost without writing.
    pub(super) fn count(&self, vfs: Arc<dyn Vfs>) -> SyncFigures {
        let mailbox = self.mailbox(vfs);
        let known = EmptyKnown::default();
        self.run_with(&mailbox, None, &mut self.context(&known)).unwrap()
    }

    pub(super) fn context<'a>(&self, known: &'a EmptyKnown) -> SyncContext<'a> {
        let mut context = SyncContext::new(known);
        context.state_dir = Some(Path::new(STATE));
        context.pending_through = self.pending_through;
        context
    }

    /// Writes the change with a given context.
    pub(super) fn run_with(
        &self,
        mailbox: &MboxMailbox,
        locks: Option<&MboxWriteLocks>,
        context: &mut SyncContext<'_>,
    ) -> Result<SyncFigures> {
        let written = match locks {
            Some(locks) => {
                let places = places_of(mailbox, locks, context.state_dir);
                let file = locks.file();
                write(mailbox, places, file, Some(locks), context, |room, _| self.draft(room))
            }
            None => {
                let file = mailbox.vfs.open(Path::new(BOX), OpenOptions::READ).unwrap();
                let places =
                    Places { vfs: &*mailbox.vfs, mailbox: Path::new(BOX), state_dir: None };
                write(mailbox, places, &*file, None, context, |room, _| self.draft(room))
            }
        };
        written.map(|WriteResult { figures, .. }| figures)
    }

    fn draft(&self, room: PlannerInput<'_, '_>) -> Result<()> {
        let mut shift = 0;
        for call in &self.calls {
            match call {
                Call::Stay(len) => room.draft.stay(*len)?,
                Call::Copy(len) => room.draft.copy(*len)?,
                Call::Skip(len) => {
                    shift -= *len as i64;
                    room.draft.skip(*len)?;
                }
                Call::Insert(bytes) => {
                    shift += bytes.len() as i64;
                    room.draft.insert(bytes)?;
                }
                Call::Collapse(len) => room.draft.collapse(*len)?,
            }
            assert_eq!(room.draft.shift(), shift);
        }
        Ok(())
    }
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes, ", self.old.len())?;
        for call in &self.calls {
            match call {
                Call::Insert(bytes) => write!(f, "Insert({}) ", bytes.len())?,
                call => write!(f, "{call:?} ")?,
            }
        }
        write!(f, "{:?}", self.options)
    }
}

/// Recovers the mailbox.
pub(super) fn recover_on(case: &Case, vfs: Arc<dyn Vfs>) -> Result<Recovered> {
    let mailbox = case.mailbox(vfs);
    let locks = MboxWriteLocks::acquire(&mailbox, MboxLockPurpose::Change)?;
    let known = EmptyKnown::default();
    recover(&mailbox, &locks, &mut case.context(&known)).map(|outcome| outcome.recovered)
}

/// Replaces the content of the mailbox.
pub(super) fn put(disk: &dyn Vfs, content: &[u8]) {
    let file = disk.open(Path::new(BOX), OpenOptions::create(0o600)).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(content, 0).unwrap();
    file.sync_all().unwrap();
}

/// Appends to the mailbox, as a program that delivers mail.
pub(super) fn deliver(disk: &dyn Vfs) {
    let file = disk.open(Path::new(BOX), OpenOptions::WRITE).unwrap();
    let size = file.metadata().unwrap().size;
    file.write_all_at(FOREIGN, size).unwrap();
    file.sync_all().unwrap();
}

/// Returns the content of the mailbox.
pub(super) fn content(disk: &dyn Vfs) -> Vec<u8> {
    disk.read(Path::new(BOX), 1 << 30).unwrap()
}

/// Checks that neither journal nor attribute is left.
pub(super) fn check_clean(disk: &dyn Vfs) {
    assert!(disk.metadata(Path::new(JOURNAL)).is_err(), "the journal is gone");
    assert_eq!(disk.xattr(Path::new(BOX), "user.barid.journal").unwrap(), None);
    let mut names = Vec::new();
    disk.open_dir(Path::new(STATE))
        .unwrap()
        .list(&mut |name, _| names.push(name.to_vec()))
        .unwrap();
    assert!(names.iter().all(|name| !name.ends_with(b".mbox-journal")), "{names:?}");
}

/// Returns the mailbox `new` with `FOREIGN`, delivered meanwhile, after it.
pub(super) fn with_foreign(new: &[u8]) -> Vec<u8> {
    let lead: &[u8] = match new {
        [] | [b'\n'] | [.., b'\n', b'\n'] => b"",
        [.., b'\n'] => b"\n",
        _ => b"\n\n",
    };
    [new, lead, FOREIGN].concat()
}

/// Options with which a few KB reach every code path.
pub(super) fn small() -> WritingOptions {
    WritingOptions {
        unit_len: 300,
        stay_len: 256,
        window_len: 1500,
        direct_len_min: 700,
        direct_len_max: 3000,
        buffer_len: 400,
        image_len: 700,
    }
}

/// Kind of random case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Any,
    Grows,
    Shrinks,
    InPlace,
    Collapses,
}

/// Returns random text, in which no two places are alike.
pub(super) fn text(random: &mut fastrand::Rng, len: usize) -> Vec<u8> {
    let mut text: Vec<u8> = (0..len).map(|_| random.alphanumeric() as u8).collect();
    for end in text.iter_mut().rev().take(2) {
        *end = b'\n';
    }
    text
}

/// Returns a random case that changes something; the same seed gives the same case.
pub(super) fn case(seed: u64, shape: Shape) -> Case {
    let cases = (0..).map(|again| any_case(seed * 1000 + again, shape));
    let mut changing = cases.filter(|case| case.old != case.new_content());
    changing.next().unwrap()
}

fn any_case(seed: u64, shape: Shape) -> Case {
    let mut random = fastrand::Rng::with_seed(seed);
    let options = match random.u8(0..4) {
        0 => WritingOptions::default(),
        1 => WritingOptions {
            unit_len: random.u64(1..600),
            stay_len: random.u64(0..400),
            window_len: random.u64(100..4000),
            direct_len_min: random.u64(1..1000),
            direct_len_max: random.u64(1..4000),
            buffer_len: random.usize(50..2000),
            image_len: random.u64(0..8000),
        },
        _ => small(),
    };
    let mut calls = Vec::new();
    let (mut len, mut shift) = (0, 0i64);
    for _ in 0..random.usize(1..12) {
        let more = match random.u8(0..3) {
            0 => random.u64(1..40),
            1 => random.u64(1..900),
            _ => random.u64(1..3000),
        };
        let few = random.u64(1..120);
        let many = random.u64(1..2000);
        let kind = random.u8(0..5);
        match (shape, kind) {
            (Shape::InPlace, 0..3) => {
                calls.push(Call::Skip(few));
                calls.push(Call::Insert(text(&mut random, few as usize)));
                len += few;
            }
            (Shape::Collapses, 0) => {
                let blocks = random.u64(1..3) * BLOCK;
                let lead = (BLOCK - len % BLOCK) % BLOCK;
                calls.push(if shift == 0 { Call::Stay(lead) } else { Call::Copy(lead) });
                calls.push(Call::Collapse(blocks));
                len += lead + blocks;
            }
            (Shape::Grows, 0..3) | (Shape::Any | Shape::Collapses, 1) => {
                let bytes = text(&mut random, if kind == 2 { many } else { few } as usize);
                shift += bytes.len() as i64;
                calls.push(Call::Insert(bytes));
            }
            (Shape::Shrinks, 0..3) | (Shape::Any | Shape::Collapses, 2) => {
                let gone = if kind == 2 { many } else { few };
                calls.push(Call::Skip(gone));
                len += gone;
                shift -= gone as i64;
            }
            (Shape::Any, 0) if shift < 0 => {
                calls.push(Call::Insert(text(&mut random, shift.unsigned_abs() as usize)));
                shift = 0;
            }
            (Shape::Any, 0) if shift > 0 => {
                calls.push(Call::Skip(shift.unsigned_abs()));
                len += shift.unsigned_abs();
                shift = 0;
            }
            _ => {}
        }
        calls.push(if shift == 0 { Call::Stay(more) } else { Call::Copy(more) });
        len += more;
    }
    let old = text(&mut random, len as usize);
    let pending_through = random.bool().then_some(7);
    Case { old, calls, options, pending_through }
}

/// All shapes.
pub(super) const SHAPES: [Shape; 5] =
    [Shape::Any, Shape::Grows, Shape::Shrinks, Shape::InPlace, Shape::Collapses];

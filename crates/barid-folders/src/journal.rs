//! The journal of a change of the tree: its steps, and the state before and after
//! (`docs/formats/folders.md`).
//!
//! A change is committed as soon as its journal is durable. Every step can be repeated: it finds
//! out what of it is done by the inodes of files. So a recovery takes the steps from the first on.

use barid::{Format, FormatName};
use barid_types::UidValidity;

use crate::bytes::{ByteReader, ByteWriter, Unreadable};
use crate::state::{Spot, TreeState, put_spot, spot};

/// First bytes of the file.
const MAGIC: [u8; 8] = *b"barid-fj";
/// Version of its layout.
const VERSION: u32 = 1;

/// A change of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeJournal {
    pub(crate) steps: Vec<Step>,
    /// The state before the change.
    pub(crate) before: TreeState,
    /// The state after the change.
    pub(crate) after: TreeState,
}

/// A step of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Makes a folder and its missing parents.
    MakeFolder {
        /// The folder.
        at: Spot,
        /// Its permission bits.
        mode: u32,
    },
    /// Renames a file or folder.
    Move {
        /// The old place.
        from: Spot,
        /// The new place.
        to: Spot,
        /// Inode of the file or folder.
        inode: u64,
    },
    /// Moves a mailbox out of a folder that contains other mailboxes, which stay.
    MoveContent {
        /// The folder.
        from: Spot,
        /// The new folder.
        to: Spot,
        /// The format.
        format: Format,
    },
    /// Creates an empty mailbox.
    Create {
        /// The place.
        at: Spot,
        /// The format.
        format: Format,
        /// The UIDVALIDITY.
        uidvalidity: UidValidity,
        /// Permission bits of files.
        mode: u32,
        /// `true` for a Maildir++ folder, which has a file `maildirfolder`.
        is_dotted: bool,
        /// `true` if nothing was at the place before.
        is_new: bool,
    },
    /// Changes the UIDVALIDITY of a mailbox.
    Renumber {
        /// The mailbox.
        at: Spot,
        /// The new UIDVALIDITY.
        uidvalidity: UidValidity,
    },
    /// Removes an empty folder.
    RemoveFolder {
        /// The folder.
        at: Spot,
        /// Its permission bits.
        mode: u32,
    },
}

impl TreeJournal {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = ByteWriter::begin(MAGIC, VERSION);
        out.put_count(self.steps.len());
        for step in &self.steps {
            put_step(&mut out, step);
        }
        out.put_bytes(&self.before.to_bytes());
        out.put_bytes(&self.after.to_bytes());
        out.end()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = ByteReader::begin(bytes, MAGIC, VERSION)?;
        let steps = reader.many(step).ok_or(Unreadable::Damaged)?;
        let mut state = || TreeState::from_bytes(reader.bytes().ok_or(Unreadable::Damaged)?);
        let (before, after) = (state()?, state()?);
        match reader.is_at_end() {
            true => Ok(Self { steps, before, after }),
            false => Err(Unreadable::Damaged),
        }
    }
}

fn put_step(out: &mut ByteWriter, step: &Step) {
    match step {
        Step::MakeFolder { at, mode } => {
            out.put_u32(1);
            put_spot(out, at);
            out.put_u32(*mode);
        }
        Step::Move { from, to, inode } => {
            out.put_u32(2);
            put_spot(out, from);
            put_spot(out, to);
            out.put_u64(*inode);
        }
        Step::MoveContent { from, to, format } => {
            out.put_u32(3);
            put_spot(out, from);
            put_spot(out, to);
            out.put_bytes(format.name().as_bytes());
        }
        Step::Create { at, format, uidvalidity, mode, is_dotted, is_new } => {
            out.put_u32(4);
            put_spot(out, at);
            out.put_bytes(format.name().as_bytes());
            out.put_u32(uidvalidity.get());
            out.put_u32(*mode);
            out.put_u32(u32::from(*is_dotted));
            out.put_u32(u32::from(*is_new));
        }
        Step::Renumber { at, uidvalidity } => {
            out.put_u32(5);
            put_spot(out, at);
            out.put_u32(uidvalidity.get());
        }
        Step::RemoveFolder { at, mode } => {
            out.put_u32(6);
            put_spot(out, at);
            out.put_u32(*mode);
        }
    }
}

fn step(from: &mut ByteReader<'_>) -> Option<Step> {
    Some(match from.u32()? {
        1 => Step::MakeFolder { at: spot(from)?, mode: from.u32()? },
        2 => Step::Move { from: spot(from)?, to: spot(from)?, inode: from.u64()? },
        3 => Step::MoveContent { from: spot(from)?, to: spot(from)?, format: format(from)? },
        4 => Step::Create {
            at: spot(from)?,
            format: format(from)?,
            uidvalidity: UidValidity::new(from.u32()?)?,
            mode: from.u32()?,
            is_dotted: from.u32()? != 0,
            is_new: from.u32()? != 0,
        },
        5 => Step::Renumber { at: spot(from)?, uidvalidity: UidValidity::new(from.u32()?)? },
        6 => Step::RemoveFolder { at: spot(from)?, mode: from.u32()? },
        _ => return None,
    })
}

fn format(from: &mut ByteReader<'_>) -> Option<Format> {
    FormatName::named(&from.text()?).map(FormatName::format)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{SpotBase, some_state};

    fn some_journal() -> TreeJournal {
        let at = |path: &str| Spot { base: SpotBase::Root, path: path.into() };
        let format = FormatName::named("mix").unwrap().format();
        let uidvalidity = UidValidity::new(8).unwrap();
        let steps = vec![
            Step::MakeFolder { at: at("a"), mode: 0o700 },
            Step::Move { from: at(".a"), to: at(".b"), inode: 9 },
            Step::MoveContent { from: at("a"), to: at("b"), format },
            Step::Create {
                at: at("x"),
                format,
                uidvalidity,
                mode: 0o600,
                is_dotted: true,
                is_new: true,
            },
            Step::Renumber { at: at("y"), uidvalidity },
            Step::RemoveFolder { at: at("z"), mode: 0o750 },
        ];
        TreeJournal { steps, before: TreeState::default(), after: some_state() }
    }

    #[test]
    fn a_journal_is_read_as_it_was_written() {
        let journal = some_journal();
        let bytes = journal.to_bytes();
        assert_eq!(TreeJournal::from_bytes(&bytes), Ok(journal));
        for len in 0..bytes.len() {
            assert_eq!(TreeJournal::from_bytes(&bytes[..len]), Err(Unreadable::Damaged));
        }
    }

    /// A journal of version 1 stays readable; a change of the layout needs a new version.
    #[test]
    fn the_layout_has_not_changed() {
        let old = include_bytes!("../tests/fixtures/journal-v1.bin");
        assert_eq!(TreeJournal::from_bytes(old), Ok(some_journal()));
        assert_eq!(some_journal().to_bytes(), old);
    }
}

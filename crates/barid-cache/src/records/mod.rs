//! Where header records lie: in the blocks of the cache file, or in a key-value store beside it.

mod keys;
mod kv;
mod native;
mod sink;
mod write;

pub(crate) use kv::KvRecords;
pub(crate) use sink::KvSink;
pub(crate) use write::KvWriter;

use std::fmt::Debug;

use crate::core_row::HeapRef;
use crate::error::{Damage, Result};

/// A record that is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// The one that the columns refer to so.
    Stored(HeapRef),
    /// One of the log, which is at hand.
    Here(&'a [u8]),
}

/// How a reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// All were shown.
    Done,
    /// The visitor has seen enough.
    Stopped,
    /// None was shown: so many are too large to be held at once.
    TooMuch,
}

/// Takes the index of a wanted record and its bytes; `false` ends the reading.
pub(crate) type Show<'a> = dyn FnMut(usize, &[u8]) -> Result<bool> + 'a;

/// Takes the index of a wanted record that is not what was written, and how.
pub(crate) type Fault<'a> = dyn FnMut(usize, Damage) + 'a;

/// What a store has, found by looking at all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// The numbers of the records, ascending; none for the native store.
    pub(crate) numbers: Vec<u32>,
    /// The dictionaries.
    pub(crate) dictionaries: Vec<u8>,
}

/// A place of header records.
pub(crate) trait RecordStore: Debug + Send + Sync {
    /// Shows records in the order given, whatever the order in which they are read.
    ///
    /// `few` says that others of the same neighbourhood will be wanted soon.
    fn read(&self, wanted: &[Wanted<'_>], few: bool, show: &mut Show<'_>) -> Result<Read>;

    /// How many records to ask for at a time: at first if not all may be wanted, and at most.
    fn windows(&self) -> (usize, usize);

    /// Tells which of the records are not what was written.
    ///
    /// # Errors
    /// What makes it impossible to tell.
    fn check(&self, wanted: &[HeapRef], fault: &mut Fault<'_>) -> Result<()>;

    /// Looks at all that is there.
    fn contents(&self) -> Result<Contents>;

    /// Ends what was begun in order to read.
    fn release(&self) {}
}

/// Shows what was gathered, in the order wanted.
fn show_gathered(
    wanted: &[Wanted<'_>],
    bytes: &[u8],
    places: &[std::ops::Range<usize>],
    show: &mut Show<'_>,
) -> Result<Read> {
    for (index, (wanted, place)) in wanted.iter().zip(places).enumerate() {
        let record = match wanted {
            Wanted::Stored(_) => &bytes[place.clone()],
            Wanted::Here(record) => record,
        };
        if !show(index, record)? {
            return Ok(Read::Stopped);
        }
    }
    Ok(Read::Done)
}

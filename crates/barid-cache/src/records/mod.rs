//! The stores of header records: the blocks of the cache file, or a key-value store beside it.

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

/// A requested record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// The record with this reference in the columns.
    Stored(HeapRef),
    /// A record of the log, which is in memory.
    Here(&'a [u8]),
}

/// The end of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// All records were passed to the visitor.
    Done,
    /// The visitor ended the read.
    Stopped,
    /// No records were passed: this many are too large for memory at once.
    TooMuch,
}

/// A callback for the index of a requested record and its bytes; `false` ends the read.
pub(crate) type Show<'a> = dyn FnMut(usize, &[u8]) -> Result<bool> + 'a;

/// A callback for the index of a damaged record, and its damage.
pub(crate) type Fault<'a> = dyn FnMut(usize, Damage) + 'a;

/// The content of a store, found by reading all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// The numbers of the records, ascending; empty for the native store.
    pub(crate) numbers: Vec<u32>,
    /// The dictionaries.
    pub(crate) dictionaries: Vec<u8>,
}

/// A store of header records.
pub(crate) trait RecordStore: Debug + Send + Sync {
    /// Passes records to `show` in the given order, in whatever order they are read.
    ///
    /// `few` indicates that their neighbours will be requested soon.
    fn read(&self, wanted: &[Wanted<'_>], few: bool, show: &mut Show<'_>) -> Result<Read>;

    /// Returns the number of records in the first request, if perhaps not all are needed, and the
    /// maximum number in a request.
    fn windows(&self) -> (usize, usize);

    /// Calls `fault` for each damaged record.
    ///
    /// # Errors
    /// Returns an error that prevents the check.
    fn check(&self, wanted: &[HeapRef], fault: &mut Fault<'_>) -> Result<()>;

    /// Reads the whole store and returns its content.
    fn contents(&self) -> Result<Contents>;

    /// Closes what was opened for reading.
    fn release(&self) {}
}

/// Passes gathered records to `show`, in the requested order.
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

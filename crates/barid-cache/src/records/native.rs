//! Records in the heap blocks of the cache file.

use super::{Contents, Fault, Read, RecordStore, Show, Wanted};
use crate::base::{Base, HeapCursor};
use crate::core_row::HeapRef;
use crate::error::{Damage, Error, Result};
use crate::limits::{GATHER_BYTES_MAX, GATHER_ROWS_MAX};
use crate::record::Record;

/// Fewest records per change of block for reading them in the requested order; with more changes
/// they are first gathered block by block.
const SWITCHES_PER_ROWS: usize = 16;
/// The first window of a read that may end early.
const WINDOW: usize = 4096;

impl RecordStore for Base {
    fn read(&self, wanted: &[Wanted<'_>], few: bool, show: &mut Show<'_>) -> Result<Read> {
        let switches = wanted.windows(2).filter(|two| block(&two[0]) != block(&two[1])).count();
        if switches > wanted.len() / SWITCHES_PER_ROWS {
            return self.gather(wanted, show);
        }
        let mut heap = if few { HeapCursor::new(self) } else { HeapCursor::bulk(self) };
        for (index, wanted) in wanted.iter().enumerate() {
            let record = match wanted {
                Wanted::Here(record) => record,
                Wanted::Stored(heap_ref) => self.record_in(&mut heap, *heap_ref)?,
            };
            if !show(index, record)? {
                return Ok(Read::Stopped);
            }
        }
        Ok(Read::Done)
    }

    fn windows(&self) -> (usize, usize) {
        (WINDOW, GATHER_ROWS_MAX)
    }

    fn check(&self, wanted: &[HeapRef], fault: &mut Fault<'_>) -> Result<()> {
        let mut heap = HeapCursor::bulk(self);
        for (index, heap_ref) in wanted.iter().enumerate() {
            match self.record_in(&mut heap, *heap_ref) {
                Ok(record) if Record::decode(record).is_some() => {}
                Ok(_) => fault(index, Damage::Bounds),
                Err(Error::Damaged { kind, .. }) => fault(index, kind),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn contents(&self) -> Result<Contents> {
        Ok(Contents::default())
    }
}

impl Base {
    fn record_in<'a>(&self, heap: &'a mut HeapCursor<'_>, at: HeapRef) -> Result<&'a [u8]> {
        let tail = heap.tail(at.block, at.offset)?;
        Record::framed(tail).ok_or_else(|| self.damaged(0, Damage::Bounds))
    }

    /// Passes records to `show` after collecting all of them in the order of the file.
    fn gather(&self, wanted: &[Wanted<'_>], show: &mut Show<'_>) -> Result<Read> {
        let stored = |index: &u32| match wanted[*index as usize] {
            Wanted::Stored(heap_ref) => Some((heap_ref.block, heap_ref.offset)),
            Wanted::Here(_) => None,
        };
        let mut order: Vec<u32> =
            (0..wanted.len() as u32).filter(|index| stored(index).is_some()).collect();
        order.sort_unstable_by_key(|index| stored(index));
        let mut bytes = Vec::new();
        let mut places = vec![0..0; wanted.len()];
        let mut heap = HeapCursor::bulk(self);
        for index in order {
            let Some((block, offset)) = stored(&index) else { continue };
            let start = bytes.len();
            bytes.extend_from_slice(self.record_in(&mut heap, HeapRef { block, offset })?);
            if bytes.len() > GATHER_BYTES_MAX && wanted.len() > 1 {
                return Ok(Read::TooMuch);
            }
            places[index as usize] = start..bytes.len();
        }
        super::show_gathered(wanted, &bytes, &places, show)
    }
}

/// Returns the block of a record; `u32::MAX` for one of the log.
fn block(wanted: &Wanted<'_>) -> u32 {
    match wanted {
        Wanted::Stored(heap_ref) => heap_ref.block,
        Wanted::Here(_) => u32::MAX,
    }
}

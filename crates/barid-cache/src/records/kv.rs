//! Reading of records in a key-value store.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barid_kv::compress::{Decoder, Dictionary};
use barid_kv::{Reader, Store};
use barid_vfs::Vfs;

use super::keys::{
    ABOUT, About, dictionary_in, dictionary_key, number_in, record_key, seed, store_path,
};
use super::{Contents, Fault, Read, RecordStore, Show, Wanted, show_gathered};
use crate::core_row::HeapRef;
use crate::error::{Damage, Error, Result};
use crate::header::{Header, RecordsHead};
use crate::limits::GATHER_BYTES_MAX;
use crate::options::StoreKind;
use crate::record::Record;

/// The first window of a read that may end early.
const WINDOW: usize = 256;
/// The largest window: its gathered records stay in the processor's caches.
const WINDOW_MAX: usize = 4_096;
/// Requested records, of the 256 that share a prefix, from which on the prefix is scanned.
const SCAN_MIN: usize = 48;

/// The store of the records of one cache, opened when a record is requested.
#[derive(Debug)]
pub(crate) struct KvRecords {
    pub(crate) store: Store,
    head: RecordsHead,
    session: Mutex<Option<RecordSession>>,
}

/// An open store.
#[derive(Debug)]
struct RecordSession {
    reader: Reader,
    decoder: Decoder,
    dictionaries: Dictionaries,
    generation: u64,
    next: u32,
    ordered: bool,
}

/// The description in a store.
#[derive(Clone, Debug)]
pub(crate) struct Promised {
    /// The lowest unassigned record number, above those of interrupted writers.
    pub(crate) next: u32,
    pub(crate) dictionaries: Vec<u8>,
}

/// The dictionaries of a store, by id, from 1.
#[derive(Debug, Default)]
pub(super) struct Dictionaries(Vec<Option<Arc<Dictionary>>>);

impl Dictionaries {
    pub(super) fn get(&self, id: u8) -> Option<Arc<Dictionary>> {
        self.0.get(usize::from(id).checked_sub(1)?)?.clone()
    }

    /// Reads the dictionaries that `about` lists; leaves out damaged ones.
    fn read(reader: &mut Reader, about: &About) -> barid_kv::Result<Self> {
        let mut all = Vec::new();
        for id in 1..=about.dictionary {
            let mut dictionary = None;
            reader.get(&dictionary_key(id), &mut |value| {
                let bytes = dictionary_in(about.generation, id, value);
                dictionary = bytes.and_then(|bytes| Dictionary::new(id, bytes, 1)).map(Arc::new);
            })?;
            all.push(dictionary);
        }
        Ok(Self(all))
    }
}

/// A requested record with its index in the list, before it is read.
#[derive(Clone, Copy, Debug)]
struct RequestedRecord {
    at: HeapRef,
    index: u32,
}

/// A callback for a requested record's index and its bytes or damage; `false` ends the read.
type VisitRecord<'a> = dyn FnMut(u32, std::result::Result<&[u8], Damage>) -> bool + 'a;

impl KvRecords {
    /// Returns the records of a cache with this header, if they are in a store.
    pub(crate) fn of(vfs: &Arc<dyn Vfs>, cache: &Path, header: &Header) -> Option<Self> {
        let StoreKind::Kv(choice) = header.options.store else { return None };
        let head = header.records;
        let path = store_path(cache, head.generation, &header.options);
        Some(Self {
            store: Store::new(Arc::clone(vfs), path, choice),
            head,
            session: Mutex::default(),
        })
    }

    fn damaged(&self, kind: Damage) -> Error {
        Error::damaged_store(self.store.path(), kind)
    }

    /// Converts an error of the store to one of the cache.
    pub(crate) fn error(&self, error: barid_kv::Error) -> Error {
        use barid_kv::Error as Kv;
        match error {
            Kv::TooLong { .. } => self.damaged(Damage::Store),
            error => Error::Store(error),
        }
    }

    fn session(&self) -> MutexGuard<'_, Option<RecordSession>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<RecordSession> {
        let wrap = |error| self.error(error);
        let mut reader = self.store.read().map_err(wrap)?;
        let mut about = None;
        reader.get(ABOUT, &mut |value| about = About::decode(value)).map_err(wrap)?;
        let about = about.filter(|about| about.belongs_to(&self.head));
        let about = about.ok_or_else(|| self.damaged(Damage::Store))?;
        let dictionaries = Dictionaries::read(&mut reader, &about).map_err(wrap)?;
        let ordered = self.store.choice().kv.capabilities().ordered;
        let About { generation, next, .. } = about;
        Ok(RecordSession {
            reader,
            decoder: Decoder::new(),
            dictionaries,
            generation,
            next,
            ordered,
        })
    }

    /// Returns the description in the store.
    pub(crate) fn promised(&self) -> Result<Promised> {
        self.with(|session| {
            Ok(Promised { next: session.next, dictionaries: session.dictionary_ids() })
        })
    }

    /// Runs `act` in the session, which is opened if necessary.
    fn with<T>(&self, act: impl FnOnce(&mut RecordSession) -> barid_kv::Result<T>) -> Result<T> {
        let mut guard = self.session();
        let session = match &mut *guard {
            Some(session) => session,
            none => none.insert(self.open()?),
        };
        let done = act(session);
        if done.is_err() {
            *guard = None;
        }
        done.map_err(|error| self.error(error))
    }
}

impl RecordStore for KvRecords {
    fn read(&self, wanted: &[Wanted<'_>], _few: bool, show: &mut Show<'_>) -> Result<Read> {
        let stored = wanted.iter().enumerate().filter_map(|(index, wanted)| match wanted {
            Wanted::Stored(at) => Some(RequestedRecord { at: *at, index: index as u32 }),
            Wanted::Here(_) => None,
        });
        let mut items: Vec<RequestedRecord> = stored.collect();
        let mut gathered = Gathered {
            bytes: Vec::new(),
            places: vec![0..0; wanted.len()],
            fault: None,
            too_much: false,
        };
        if !items.is_empty() {
            // The visitor may read on its own, so it is not called before the session is free.
            self.with(|session| {
                session.fetch(&mut items, &mut |index, record| gathered.take(index, record))
            })?;
        }
        if let Some(kind) = gathered.fault {
            return Err(self.damaged(kind));
        }
        if gathered.too_much && wanted.len() > 1 {
            return Ok(Read::TooMuch);
        }
        show_gathered(wanted, &gathered.bytes, &gathered.places, show)
    }

    fn windows(&self) -> (usize, usize) {
        (WINDOW, WINDOW_MAX)
    }

    fn check(&self, wanted: &[HeapRef], fault: &mut Fault<'_>) -> Result<()> {
        let items = wanted.iter().enumerate();
        let mut items: Vec<RequestedRecord> =
            items.map(|(index, at)| RequestedRecord { at: *at, index: index as u32 }).collect();
        self.with(|session| {
            session.fetch(&mut items, &mut |index, record| {
                match record {
                    Ok(record) if Record::decode(record).is_some() => {}
                    Ok(_) => fault(index as usize, Damage::Bounds),
                    Err(kind) => fault(index as usize, kind),
                }
                true
            })
        })
    }

    fn contents(&self) -> Result<Contents> {
        let mut contents = Contents::default();
        self.with(|session| {
            contents.dictionaries = session.dictionary_ids();
            session.reader.scan(b"r", &mut |key, _| {
                contents.numbers.extend(number_in(key));
                true
            })
        })?;
        contents.numbers.sort_unstable();
        Ok(contents)
    }

    fn release(&self) {
        *self.session() = None;
    }
}

/// Records stored one after the other.
struct Gathered {
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
    fault: Option<Damage>,
    too_much: bool,
}

impl Gathered {
    fn take(&mut self, index: u32, record: std::result::Result<&[u8], Damage>) -> bool {
        match record {
            Ok(record) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(record);
                self.places[index as usize] = start..self.bytes.len();
                self.too_much = self.bytes.len() > GATHER_BYTES_MAX && self.places.len() > 1;
                !self.too_much
            }
            Err(kind) => {
                self.fault = Some(kind);
                false
            }
        }
    }
}

impl RecordSession {
    fn dictionary_ids(&self) -> Vec<u8> {
        let known = (1..).zip(&self.dictionaries.0);
        known.filter_map(|(id, dictionary)| dictionary.as_ref().map(|_| id)).collect()
    }

    /// Finds records in the order of their numbers: those of a prefix by a scan if many are
    /// requested and the store has them in order, others one by one.
    fn fetch(
        &mut self,
        items: &mut [RequestedRecord],
        found: &mut VisitRecord<'_>,
    ) -> barid_kv::Result<()> {
        if !items.is_sorted_by_key(|item| item.at.block) {
            items.sort_unstable_by_key(|item| item.at.block);
        }
        for group in items.chunk_by(|one, two| one.at.block >> 8 == two.at.block >> 8) {
            let go_on = if self.ordered && group.len() >= SCAN_MIN {
                self.scan(group, found)?
            } else {
                self.get(group, found)?
            };
            if !go_on {
                break;
            }
        }
        Ok(())
    }

    fn get(
        &mut self,
        items: &[RequestedRecord],
        found: &mut VisitRecord<'_>,
    ) -> barid_kv::Result<bool> {
        let Self { reader, decoder, dictionaries, generation, .. } = self;
        for item in items {
            let mut go_on = true;
            let here = reader.get(&record_key(item.at.block), &mut |value| {
                go_on = show(item, value, *generation, decoder, dictionaries, found);
            })?;
            if !here {
                go_on = found(item.index, Err(Damage::Missing));
            }
            if !go_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn scan(
        &mut self,
        items: &[RequestedRecord],
        found: &mut VisitRecord<'_>,
    ) -> barid_kv::Result<bool> {
        let Self { reader, decoder, dictionaries, generation, .. } = self;
        let (mut rest, mut go_on) = (items, true);
        let prefix = &record_key(items[0].at.block)[..4];
        reader.scan(prefix, &mut |key, value| {
            let Some(number) = number_in(key) else { return true };
            while let Some((item, later)) = rest.split_first() {
                if item.at.block > number {
                    return true;
                }
                rest = later;
                go_on = match item.at.block == number {
                    true => show(item, value, *generation, decoder, dictionaries, found),
                    false => found(item.index, Err(Damage::Missing)),
                };
                if !go_on {
                    return false;
                }
            }
            false
        })?;
        for item in rest {
            go_on = go_on && found(item.index, Err(Damage::Missing));
        }
        Ok(go_on)
    }
}

/// Decodes a value and passes it to the callback.
fn show(
    item: &RequestedRecord,
    value: &[u8],
    generation: u64,
    decoder: &mut Decoder,
    dictionaries: &Dictionaries,
    found: &mut VisitRecord<'_>,
) -> bool {
    let seed = seed(generation, item.at.block, item.at.offset);
    let record = decoder.decode(seed, value, &|id| dictionaries.get(id));
    found(item.index, record.map_err(Damage::from))
}

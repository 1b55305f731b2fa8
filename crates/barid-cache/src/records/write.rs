//! Writing of records to a key-value store.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use barid_kv::compress::{Dictionary, Encoder, Method, RatioWatch, Trainer};
use barid_kv::{Batch, Choice, Compression, Store, Writer};
use barid_vfs::Vfs;

use super::keys::{
    ABOUT, About, DICTIONARY_MAX, dictionary_in, dictionary_key, dictionary_value, record_key,
    store_path,
};
use super::sink::{KvSink, Writing};
use crate::core_row::HeapRef;
use crate::error::{Damage, Error, Result, ScanFault};
use crate::header::RecordsHead;
use crate::limits::{
    KV_BATCH_LEN, KV_BATCHES_WAITING, KV_HELD_LEN, KV_LEFT_BEHIND_MAX, KV_NUMBERS,
};
use crate::options::CacheOptions;
use crate::random::random_u64;

/// Assumed number of records of a mailbox while its end is unknown.
const RECORDS_EXPECTED: usize = 50_000;

/// A writer of the records of a cache to its store, for any number of threads.
///
/// A new store that is dropped before [`KvWriter::keep`] is removed.
#[derive(Debug)]
pub(crate) struct KvWriter {
    store: Store,
    compression: Compression,
    writing: Writing,
    head: RecordsHead,
    next: AtomicU32,
    writer: Mutex<Option<Writer>>,
    queue: Mutex<Queue>,
    /// The samples for a dictionary, until it is trained or found useless.
    training: Mutex<Trainer>,
    dictionary: OnceLock<Option<Arc<Dictionary>>>,
    /// Records that no row will refer to.
    void: Mutex<Vec<u32>>,
    about: Mutex<About>,
    is_new: bool,
    trained: OnceLock<()>,
}

impl KvWriter {
    /// Creates a new store beside `cache`.
    pub(crate) fn create(
        vfs: &Arc<dyn Vfs>,
        cache: &Path,
        options: &CacheOptions,
        choice: Choice,
    ) -> Result<Self> {
        let generation = random_u64().max(1);
        let path = store_path(cache, generation, options);
        let store = Store::new(Arc::clone(vfs), path, choice);
        let head = RecordsHead { generation, ..RecordsHead::default() };
        let about = About { generation, ..About::default() };
        let writer = match store.create() {
            Ok(writer) => writer,
            Err(error) => {
                let _ = store.remove();
                return Err(not_written(error));
            }
        };
        Ok(Self::with(store, options, head, about, writer, true))
    }

    /// Continues the store of a cache with the valid records of `head`. Removes the records of an
    /// interrupted writer; at most `added` records will be put.
    pub(crate) fn update(
        store: &Store,
        options: &CacheOptions,
        head: RecordsHead,
        added: u32,
    ) -> Result<Self> {
        let wrap = Error::Store;
        let mut writer = store.write().map_err(wrap)?;
        let mut about = None;
        writer.get(ABOUT, &mut |value| about = About::decode(value)).map_err(wrap)?;
        let about = about.filter(|about| {
            about.belongs_to(&head) && about.next - head.next <= KV_LEFT_BEHIND_MAX
        });
        let mut about = about.ok_or_else(|| Error::damaged_store(store.path(), Damage::Store))?;
        let mut batch = Batch::new();
        let promised = head.next.saturating_add(added).saturating_add(KV_NUMBERS);
        let left_behind = head.next..about.next;
        about.next = about.next.max(promised);
        // This comes first, so that the new records are removed if this writer is interrupted too.
        batch.put(ABOUT, &about.encode());
        for number in left_behind {
            batch.delete(&record_key(number));
            if batch.bytes_len() >= KV_BATCH_LEN {
                writer.apply(&batch).map_err(wrap)?;
                batch.clear();
            }
        }
        writer.apply(&batch).map_err(wrap)?;
        let dictionary = current_dictionary(&mut writer, &about, options).map_err(wrap)?;
        let this = Self::with(store.clone(), options, head, about, writer, false);
        let fits =
            !about.since.has_decayed(&about.at_training) || about.dictionary == DICTIONARY_MAX;
        if let (true, Some(dictionary)) = (fits, dictionary) {
            let _ = this.dictionary.set(Some(Arc::new(dictionary)));
        }
        Ok(this)
    }

    fn with(
        store: Store,
        options: &CacheOptions,
        head: RecordsHead,
        about: About,
        writer: Writer,
        is_new: bool,
    ) -> Self {
        let writing = Writing { generation: head.generation, salt: random_u64() as u32 };
        Self {
            store,
            compression: options.compression,
            writing,
            next: AtomicU32::new(head.next),
            head,
            writer: Mutex::new(Some(writer)),
            queue: Mutex::new(Queue { expected: head.next, ..Queue::default() }),
            training: Mutex::new(Trainer::new(0)),
            dictionary: OnceLock::new(),
            void: Mutex::default(),
            about: Mutex::new(about),
            is_new,
            trained: OnceLock::new(),
        }
    }

    /// Puts the record that `fill` appends.
    pub(crate) fn put<T>(
        &self,
        sink: &mut KvSink,
        fill: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> Result<(HeapRef, T)> {
        let number = self.number(sink)?;
        sink.raw.clear();
        let value = fill(&mut sink.raw);
        if sink.encoder.is_some() || self.prepare(sink)? {
            sink.encode(self.writing, number);
            if sink.numbers.is_empty() {
                self.apply_in_order(number, &mut sink.batch)?;
            } else if sink.batch.bytes_len() >= KV_BATCH_LEN {
                self.apply(&mut sink.batch)?;
            }
        } else {
            sink.hold(number);
        }
        Ok((HeapRef { block: number, offset: self.writing.salt }, value))
    }

    /// Returns the next number; numbers are reserved in ranges, so that keys mostly ascend.
    fn number(&self, sink: &mut KvSink) -> Result<u32> {
        if let Some(number) = sink.numbers.next() {
            return Ok(number);
        }
        let more = |next: u32| next.checked_add(KV_NUMBERS);
        let first = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        let first = first.map_err(|_| Error::Scan(ScanFault::TooMany))?;
        sink.numbers = first + 1..first + KV_NUMBERS;
        Ok(first)
    }

    /// Creates the encoder of the sink, unless the dictionary must still be trained.
    fn prepare(&self, sink: &mut KvSink) -> Result<bool> {
        if self.compression.method == Method::ZstdDict && self.dictionary.get().is_none() {
            let training = match self.training.try_lock() {
                Ok(training) => Some(training),
                Err(TryLockError::Poisoned(training)) => Some(training.into_inner()),
                // Another thread trains, which takes a while, but not for ever.
                Err(TryLockError::WouldBlock) if sink.held.len() < KV_HELD_LEN => None,
                Err(TryLockError::WouldBlock) => Some(lock(&self.training)),
            };
            if let Some(mut training) = training
                && self.dictionary.get().is_none()
            {
                training.add(&sink.raw);
                // Long records are not samples: alone they would never suffice.
                if training.is_enough() || sink.held.len() >= KV_HELD_LEN {
                    self.train(&mut training)?;
                }
            }
        }
        self.equip(sink)
    }

    /// Creates the encoder of the sink if the dictionary is decided; then encodes the stored
    /// records.
    fn equip(&self, sink: &mut KvSink) -> Result<bool> {
        let dictionary = match (self.compression.method, self.dictionary.get()) {
            (Method::ZstdDict, None) => return Ok(false),
            (Method::ZstdDict, Some(dictionary)) => dictionary.as_ref(),
            _ => None,
        };
        sink.encoder = Some(Encoder::new(self.compression, dictionary));
        let raw = std::mem::take(&mut sink.raw);
        sink.encode_held(self.writing, &mut |batch| self.apply(batch))?;
        sink.raw = raw;
        Ok(true)
    }

    /// Trains a dictionary, or decides that it is not worth its cost.
    fn train(&self, training: &mut Trainer) -> Result<()> {
        let mut samples = std::mem::replace(training, Trainer::new(0));
        if samples.is_enough() {
            // More records will follow: the cost of a dictionary is spread over many.
            let mut of_many = Trainer::new(RECORDS_EXPECTED);
            of_many.merge(&samples);
            samples = of_many;
        }
        let trained = samples.train();
        let dictionary = match trained {
            Some(bytes) => self.store_dictionary(&bytes)?,
            None => None,
        };
        let _ = self.dictionary.set(dictionary.map(Arc::new));
        Ok(())
    }

    /// Stores a dictionary under an unused id; ids of unused dictionaries count as used.
    fn store_dictionary(&self, bytes: &[u8]) -> Result<Option<Dictionary>> {
        let mut about = lock(&self.about);
        let mut writer = lock(&self.writer);
        let Some(writer) = &mut *writer else { return Ok(None) };
        let wrap = |error| self.error(error);
        let mut id = about.dictionary;
        let mut taken = true;
        while taken {
            let Some(next) = id.checked_add(1) else { return Ok(None) };
            id = next;
            taken = writer.get(&dictionary_key(id), &mut |_| {}).map_err(wrap)?;
        }
        let Some(dictionary) = Dictionary::new(id, bytes, self.compression.level) else {
            return Ok(None);
        };
        let mut batch = Batch::new();
        let value = dictionary_value(self.writing.generation, id, bytes);
        batch.put(&dictionary_key(id), &value);
        writer.apply(&batch).map_err(wrap)?;
        about.dictionary = id;
        let _ = self.trained.set(());
        Ok(Some(dictionary))
    }

    /// Applies a batch that ends a range of numbers, or delays it until the ranges before it are
    /// applied: a tree that is filled in order is half as large.
    fn apply_in_order(&self, last: u32, batch: &mut Batch) -> Result<()> {
        let mut queue = lock(&self.queue);
        let spare = queue.spare.pop().unwrap_or_default();
        queue.waiting.insert(last, std::mem::replace(batch, spare));
        while let Some(first) = queue.waiting.first_entry() {
            let end = first.key().saturating_add(1);
            let is_next = end - KV_NUMBERS.min(end) <= queue.expected;
            if !is_next && queue.waiting.len() <= KV_BATCHES_WAITING {
                break;
            }
            let Some((_, mut batch)) = queue.waiting.pop_first() else { break };
            queue.expected = queue.expected.max(end);
            self.apply(&mut batch)?;
            queue.spare.push(batch);
        }
        Ok(())
    }

    fn apply(&self, batch: &mut Batch) -> Result<()> {
        if let Some(writer) = &mut *lock(&self.writer) {
            writer.apply(batch).map_err(|error| self.error(error))?;
        }
        batch.clear();
        Ok(())
    }

    /// Converts an error of the store to one of the cache.
    fn error(&self, error: barid_kv::Error) -> Error {
        if self.is_new { not_written(error) } else { Error::Store(error) }
    }

    /// Schedules the removal of records, at the end.
    pub(crate) fn delete(&self, numbers: impl IntoIterator<Item = u32>) {
        lock(&self.void).extend(numbers);
    }

    /// Puts the remaining records of the sinks, and closes the store; it becomes valid when a cache
    /// file names it.
    pub(crate) fn close(&self, sinks: Vec<KvSink>) -> Result<RecordsHead> {
        let mut watch = RatioWatch::new();
        if self.compression.method == Method::ZstdDict && self.dictionary.get().is_none() {
            self.train(&mut lock(&self.training))?;
        }
        for mut sink in sinks {
            if sink.encoder.is_none() {
                self.equip(&mut sink)?;
            }
            if !sink.batch.is_empty() {
                self.apply(&mut sink.batch)?;
            }
            watch.merge(&sink.watch);
        }
        for mut batch in std::mem::take(&mut lock(&self.queue).waiting).into_values() {
            self.apply(&mut batch)?;
        }
        let mut batch = Batch::new();
        for number in lock(&self.void).drain(..) {
            batch.delete(&record_key(number));
            if batch.bytes_len() >= KV_BATCH_LEN {
                self.apply(&mut batch)?;
            }
        }
        let mut about = *lock(&self.about);
        about.next = self.next.load(Ordering::Relaxed);
        if self.is_new || self.trained.get().is_some() {
            (about.at_training, about.since) = (watch, RatioWatch::new());
        } else {
            about.since.merge(&watch);
        }
        batch.put(ABOUT, &about.encode());
        self.apply(&mut batch)?;
        if let Some(writer) = lock(&self.writer).take() {
            writer.close().map_err(|error| self.error(error))?;
        }
        Ok(RecordsHead {
            next: about.next,
            raw_bytes: self.head.raw_bytes + watch.raw,
            stored_bytes: self.head.stored_bytes + watch.stored,
            ..self.head
        })
    }

    /// Marks the store as named by a cache file.
    pub(crate) fn keep(mut self) {
        self.is_new = false;
    }
}

impl Drop for KvWriter {
    fn drop(&mut self) {
        lock(&self.writer).take();
        if self.is_new {
            // A remaining store is removed by the next `CacheDir::prune`.
            let _ = self.store.remove();
        }
    }
}

/// Batches that wait for batches with lower numbers.
#[derive(Debug, Default)]
struct Queue {
    /// The lowest number that was not applied.
    expected: u32,
    /// Waiting batches by their last numbers.
    waiting: BTreeMap<u32, Batch>,
    spare: Vec<Batch>,
}

/// Returns the dictionary of the latest records.
fn current_dictionary(
    writer: &mut Writer,
    about: &About,
    options: &CacheOptions,
) -> barid_kv::Result<Option<Dictionary>> {
    let (id, level) = (about.dictionary, options.compression.level);
    let mut dictionary = None;
    if options.compression.method == Method::ZstdDict && id > 0 {
        writer.get(&dictionary_key(id), &mut |value| {
            let bytes = dictionary_in(about.generation, id, value);
            dictionary = bytes.and_then(|bytes| Dictionary::new(id, bytes, level));
        })?;
    }
    Ok(dictionary)
}

/// Converts an error of a store that is being created. It has no valid content yet, so it cannot be
/// damaged: the error is that it cannot be written, for example because the disk is full.
fn not_written(error: barid_kv::Error) -> Error {
    use barid_kv::Error as Kv;
    use std::io::{Error as IoError, ErrorKind};
    Error::Store(match error {
        Kv::NotFound { path } => Kv::Io { path, source: ErrorKind::NotFound.into() },
        Kv::Damaged { path, what } => {
            Kv::Io { path, source: IoError::other(format!("cannot be written: {what}")) }
        }
        error => error,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use barid_vfs::MemVfs;

    use super::*;
    use crate::options::StoreKind;

    fn create(compression: &str) -> (KvWriter, CacheOptions) {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let store = StoreKind::parse("memory").unwrap();
        let StoreKind::Kv(choice) = store else { panic!("a store of its own") };
        let compression = Compression::parse(compression).unwrap();
        let options = CacheOptions { store, compression };
        (KvWriter::create(&vfs, Path::new("/box.bhc"), &options, choice).unwrap(), options)
    }

    #[test]
    fn long_records_are_not_held_for_ever() {
        let (kv, _) = create("zstd+dict");
        let (mut sink, mut most) = (KvSink::default(), 0);
        for _ in 0..300 {
            kv.put(&mut sink, |out| out.resize(40_000, b'x')).unwrap();
            most = most.max(sink.held.len());
        }
        assert!(most > 0 && most <= KV_HELD_LEN + 40_000, "{most}");
        assert_eq!((sink.held.len(), sink.watch.records), (0, 300));
    }

    #[test]
    fn a_store_says_what_can_be() {
        let (kv, options) = create("none");
        let mut sink = KvSink::default();
        kv.put(&mut sink, |out| out.push(b'x')).unwrap();
        let head = kv.close(vec![sink]).unwrap();
        let store = kv.store.clone();
        kv.keep();
        let check = |next: u32, is_sound: bool| {
            let about = About { generation: head.generation, next, ..About::default() };
            let mut batch = Batch::new();
            batch.put(ABOUT, &about.encode());
            let mut writer = store.write().unwrap();
            writer.apply(&batch).unwrap();
            writer.close().unwrap();
            let updated = KvWriter::update(&store, &options, head, 1);
            match updated {
                Ok(_) => assert!(is_sound, "{next}"),
                Err(error) => assert!(error.is_damage() && !is_sound, "{next}: {error}"),
            }
        };
        check(head.next, true);
        check(head.next + 1_000, true);
        check(head.next - 1, false);
        check(u32::MAX, false);
    }
}

//! A cache of extracted texts, and of failures, by content: the same PDF in thirty messages is read
//! once, and a bomb is not read again.
//!
//! A file of records that is only appended to, and never fsynced: it may vanish or be damaged at
//! any moment, which costs time and nothing else. Each record has a checksum of its header, which
//! includes its place, and one of its text; a reader ends at the first header that is wrong, a
//! writer cuts the file off there. Writers hold a lock (`flock`) and read on what others have
//! appended meanwhile; readers hold none. A file that is full is renamed, and replaces the one that
//! was full before, so that two files bound the size.
//!
//! `docs/formats/attachment-texts.md` has the bytes. The key is a SHA-256, since senders choose the
//! content: with a weaker hash a document could be made to have the text of another.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use barid_vfs::le::u32_at;
use barid_vfs::{File, LockKind, LockMode, OpenOptions, Vfs};
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::document_type::DocumentType;
use crate::extract::ExtractedText;
use crate::failure::Failure;
use crate::limits::{
    LOCK_ATTEMPTS_MAX, LOCK_PAUSE, TEXT_CACHE_LEN_MAX, TEXT_CACHE_PIECE_LEN, TEXT_LEN_MAX,
};

/// Start of the file; the last two digits are the version of the format.
const MAGIC: &[u8; 8] = b"bariXT01";
/// Length of the fields of a record.
const HEADER_LEN: usize = 60;
/// Version of the readers of this crate: a change of it makes everything be read again.
pub(crate) const READERS: u32 = 1;

const KIND_WHOLE: u32 = 0;
const KIND_CUT: u32 = 1;
const KIND_FAILED: u32 = 2;

/// The result of reading a document, as the cache remembers it.
pub type Extraction = Result<ExtractedText, Failure>;

/// The identity of a document and of its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TextKey([u8; 32]);

impl TextKey {
    /// Returns the key of a document. `reader` identifies the program that reads PDF, or is empty.
    /// O(bytes).
    pub fn of(kind: DocumentType, charset: &str, reader: &[u8], bytes: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(READERS.to_le_bytes());
        for field in [kind.name().as_bytes(), charset.as_bytes(), reader, bytes] {
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field);
        }
        Self(hash.finalize().into())
    }
}

/// Returns the identity of a program: its path, size and time of change.
pub(crate) fn program_id(vfs: &dyn Vfs, path: &Path) -> Vec<u8> {
    let mut id = path.as_os_str().as_encoded_bytes().to_vec();
    if let Ok(found) = vfs.metadata(path) {
        id.extend(found.size.to_le_bytes());
        id.extend(found.modified.unix_nanos.to_le_bytes());
    }
    id
}

/// A cache of texts in a folder, for any number of threads and processes.
#[derive(Debug)]
pub struct TextCache {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    len_max: u64,
    /// The full file and the current one.
    files: Mutex<[Option<TextFile>; 2]>,
}

/// Names of the full file and the current one.
const NAMES: [&str; 2] = ["attachments.texts-old", "attachments.texts"];

impl TextCache {
    /// Creates a cache of the files in a folder, which are opened when they are needed. The two
    /// have at most [`TEXT_CACHE_LEN_MAX`] bytes each.
    pub fn new(vfs: Arc<dyn Vfs>, dir: PathBuf) -> Self {
        Self { vfs, dir, len_max: TEXT_CACHE_LEN_MAX, files: Mutex::default() }
    }

    /// Returns the identity of a program.
    pub(crate) fn program_id(&self, path: &Path) -> Vec<u8> {
        program_id(&*self.vfs, path)
    }

    /// Removes the files of a folder; returns their number and their size in bytes.
    ///
    /// # Errors
    /// Errors of the file system; a missing file is none.
    pub fn remove(vfs: &dyn Vfs, dir: &Path) -> io::Result<(u64, u64)> {
        let mut removed = (0, 0);
        for path in NAMES.map(|name| dir.join(name)) {
            let found = vfs.symlink_metadata(&path);
            match found.and_then(|found| vfs.remove_file(&path).map(|()| found.size)) {
                Ok(size) => removed = (removed.0 + 1, removed.1 + size),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }

    /// Returns what is known of a document.
    pub fn get(&self, key: TextKey) -> Option<Extraction> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        for (file, name) in files.iter_mut().zip(NAMES).rev() {
            if file.is_none() {
                *file = TextFile::open(&*self.vfs, &self.dir.join(name), OpenOptions::READ).ok();
            }
            let Some(file) = file else { continue };
            if let Some(found) = file.get(key) {
                return Some(found);
            }
            // Another process may have read it meanwhile.
            let len = file.len;
            if file.read_on().is_ok()
                && file.len != len
                && let Some(found) = file.get(key)
            {
                return Some(found);
            }
        }
        None
    }

    /// Remembers the result for a document; failures only if they are lasting. Does nothing if that
    /// is impossible, or if another process holds the lock for long.
    pub fn put(&self, key: TextKey, found: &Extraction) {
        if found.as_ref().is_err_and(|failure| !failure.is_lasting()) {
            return;
        }
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        // What is not remembered is read again.
        let _ = self.append(&mut files, key, found);
    }

    fn append(
        &self,
        files: &mut [Option<TextFile>; 2],
        key: TextKey,
        found: &Extraction,
    ) -> io::Result<()> {
        let [old_path, path] = NAMES.map(|name| self.dir.join(name));
        self.vfs.create_dir_all(&self.dir, 0o700)?;
        let [old, current] = files;
        for _ in 0..LOCK_ATTEMPTS_MAX {
            if current.as_ref().is_none_or(|file| !file.is_writable) {
                let options = OpenOptions { no_follow: true, ..OpenOptions::create(0o600) };
                *current = Some(TextFile::open(&*self.vfs, &path, options)?);
            }
            let Some(file) = current else { continue };
            if !file.file.try_lock(LockKind::Flock, LockMode::Exclusive)? {
                std::thread::sleep(LOCK_PAUSE);
                continue;
            }
            // Another process may have renamed it.
            let is_current = self.vfs.metadata(&path).is_ok_and(|found| found.inode == file.inode);
            if !is_current {
                *current = None;
                continue;
            }
            let appended = file.append(key, found);
            let is_full = file.len > self.len_max;
            if is_full {
                self.vfs.rename(&path, &old_path)?;
            }
            file.file.unlock(LockKind::Flock)?;
            if is_full {
                *old = current.take();
            }
            return appended;
        }
        Ok(())
    }
}

/// An open file, and where its records are.
#[derive(Debug)]
struct TextFile {
    file: Box<dyn File>,
    inode: u64,
    is_writable: bool,
    records: HashMap<TextKey, u64>,
    /// End of the sound records; 0 if there is no magic number.
    len: u64,
}

/// The fields of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecordHeader {
    key: TextKey,
    kind: u32,
    stored_len: u32,
    text_len: u32,
    text_hash: u64,
}

impl TextFile {
    /// Opens a file and reads the headers of its records.
    fn open(vfs: &dyn Vfs, path: &Path, options: OpenOptions) -> io::Result<Self> {
        let file = vfs.open(path, options)?;
        let inode = file.metadata()?.inode;
        let is_writable = options.write;
        let mut opened = Self { file, inode, is_writable, records: HashMap::new(), len: 0 };
        opened.read_on()?;
        Ok(opened)
    }

    /// Reads the headers of records that were appended since.
    fn read_on(&mut self) -> io::Result<()> {
        let size = self.file.metadata()?.size;
        if self.len > size {
            // Somebody has cut it.
            (self.len, self.records) = (0, HashMap::new());
        }
        let (mut piece, mut piece_at) = (Vec::new(), 0_u64);
        if self.len == 0 {
            let mut magic = [0; MAGIC.len()];
            if self.file.read_full_at(&mut magic, 0)? < magic.len() || magic != *MAGIC {
                return Ok(());
            }
            self.len = magic.len() as u64;
        }
        loop {
            // Many headers are read at once, if their texts are short.
            let has = |piece: &[u8], piece_at: u64| {
                let from = usize::try_from(self.len.checked_sub(piece_at)?).ok()?;
                piece.get(from..from.checked_add(HEADER_LEN)?)?.try_into().ok()
            };
            if has(&piece, piece_at).is_none() {
                piece_at = self.len;
                piece.resize(TEXT_CACHE_PIECE_LEN, 0);
                let len = self.file.read_full_at(&mut piece, piece_at)?;
                piece.truncate(len);
            }
            let Some(bytes) = has(&piece, piece_at) else { return Ok(()) };
            let Some(header) = RecordHeader::decode(&bytes, self.len) else { return Ok(()) };
            let end = self.len + HEADER_LEN as u64 + u64::from(header.stored_len);
            if end > size {
                return Ok(());
            }
            self.records.insert(header.key, self.len);
            self.len = end;
        }
    }

    /// Returns the record of a key; `None` if there is none, or if it is damaged.
    fn get(&self, key: TextKey) -> Option<Extraction> {
        let at = *self.records.get(&key)?;
        let mut bytes = [0; HEADER_LEN];
        self.file.read_exact_at(&mut bytes, at).ok()?;
        let header = RecordHeader::decode(&bytes, at).filter(|header| header.key == key)?;
        let mut stored = vec![0; header.stored_len as usize];
        self.file.read_exact_at(&mut stored, at + HEADER_LEN as u64).ok()?;
        if xxh3_64(&stored) != header.text_hash {
            return None;
        }
        let mut text = String::with_capacity(header.text_len as usize);
        let inflater = DeflateDecoder::new(&*stored);
        inflater.take(TEXT_LEN_MAX as u64).read_to_string(&mut text).ok()?;
        match header.kind {
            _ if text.len() != header.text_len as usize => None,
            KIND_WHOLE => Some(Ok(ExtractedText { text, is_cut: false })),
            KIND_CUT => Some(Ok(ExtractedText { text, is_cut: true })),
            KIND_FAILED => Failure::named(&text).map(Err),
            _ => None,
        }
    }

    /// Appends a record, after those that others have appended; called with the lock. A crash
    /// leaves a record that is cut, which the next writer removes.
    fn append(&mut self, key: TextKey, found: &Extraction) -> io::Result<()> {
        self.read_on()?;
        if self.records.contains_key(&key) && self.get(key).is_some() {
            return Ok(());
        }
        let (kind, text) = match found {
            Ok(found) if found.is_cut => (KIND_CUT, &*found.text),
            Ok(found) => (KIND_WHOLE, &*found.text),
            Err(failure) => (KIND_FAILED, failure.name()),
        };
        let mut stored = DeflateEncoder::new(Vec::new(), Compression::fast());
        stored.write_all(text.as_bytes())?;
        let stored = stored.finish()?;
        if self.len == 0 {
            self.file.set_len(0)?;
            self.file.write_all_at(MAGIC, 0)?;
            self.len = MAGIC.len() as u64;
        }
        let (stored_len, text_len) = (stored.len() as u32, text.len() as u32);
        let header = RecordHeader { key, kind, stored_len, text_len, text_hash: xxh3_64(&stored) };
        self.file.set_len(self.len)?;
        self.file.write_all_at(&[&header.encode(self.len)[..], &stored].concat(), self.len)?;
        self.records.insert(key, self.len);
        self.len += HEADER_LEN as u64 + u64::from(stored_len);
        Ok(())
    }
}

impl RecordHeader {
    fn encode(&self, at: u64) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..32].copy_from_slice(&self.key.0);
        bytes[32..36].copy_from_slice(&self.kind.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.stored_len.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.text_len.to_le_bytes());
        bytes[44..52].copy_from_slice(&self.text_hash.to_le_bytes());
        let hash = xxh3_64_with_seed(&bytes[..52], at);
        bytes[52..].copy_from_slice(&hash.to_le_bytes());
        bytes
    }

    /// Returns the header at an offset; `None` if it is damaged, or of a longer text than any.
    fn decode(bytes: &[u8; HEADER_LEN], at: u64) -> Option<Self> {
        let (key, rest) = bytes.split_first_chunk()?;
        let (numbers, rest) = rest.split_first_chunk::<12>()?;
        let (text_hash, hash) = rest.split_first_chunk()?;
        let [kind, stored_len, text_len] = [0, 4, 8].map(|at| u32_at(numbers, at));
        let hash = u64::from_le_bytes(hash.try_into().ok()?);
        let is_sound =
            hash == xxh3_64_with_seed(&bytes[..52], at) && text_len as usize <= TEXT_LEN_MAX;
        let text_hash = u64::from_le_bytes(*text_hash);
        let header = Self { key: TextKey(*key), kind, stored_len, text_len, text_hash };
        // Deflate never makes a text much longer.
        (is_sound && stored_len <= text_len + text_len / 64 + 1024).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use barid_vfs::MemVfs;

    use super::*;

    fn cache(vfs: &Arc<MemVfs>) -> TextCache {
        TextCache::new(Arc::<MemVfs>::clone(vfs), "/cache".into())
    }

    fn key(number: u32) -> TextKey {
        TextKey::of(DocumentType::Text, "", b"", &number.to_le_bytes())
    }

    fn text(number: u32) -> Extraction {
        let text = format!("text {number} ").repeat(number as usize);
        Ok(ExtractedText { text, is_cut: number.is_multiple_of(2) })
    }

    #[test]
    fn results_are_remembered() {
        let vfs = Arc::new(MemVfs::new());
        let (one, other) = (cache(&vfs), cache(&vfs));
        assert_eq!(one.get(key(1)), None);
        for number in 0..300_u32 {
            let writer = if number.is_multiple_of(3) { &one } else { &other };
            writer.put(key(number), &text(number));
        }
        let bomb = key(1000);
        one.put(bomb, &Err(Failure::RatioTooHigh));
        other.put(key(1001), &Err(Failure::NoPdfReader));
        for reader in [&one, &other, &cache(&vfs)] {
            for number in 0..300_u32 {
                assert_eq!(reader.get(key(number)), Some(text(number)), "{number}");
            }
            assert_eq!(reader.get(bomb), Some(Err(Failure::RatioTooHigh)));
            assert_eq!(reader.get(key(1001)), None);
        }
        let size = vfs.metadata(Path::new("/cache/attachments.texts")).unwrap().size;
        one.put(key(7), &text(7));
        assert_eq!(vfs.metadata(Path::new("/cache/attachments.texts")).unwrap().size, size);
        assert_eq!(TextCache::remove(&*vfs, Path::new("/cache")).unwrap(), (1, size));
        assert_eq!(cache(&vfs).get(key(7)), None);
    }

    #[test]
    fn the_key_depends_on_everything() {
        let of = |kind, charset, reader: &str, bytes: &str| {
            TextKey::of(kind, charset, reader.as_bytes(), bytes.as_bytes())
        };
        let keys = [
            of(DocumentType::Pdf, "", "a", "b"),
            of(DocumentType::Office, "", "a", "b"),
            of(DocumentType::Pdf, "a", "", "b"),
            of(DocumentType::Pdf, "", "", "ab"),
            of(DocumentType::Pdf, "", "ab", ""),
        ];
        let different: std::collections::HashSet<_> = keys.into_iter().collect();
        assert_eq!(different.len(), keys.len());
    }

    #[test]
    fn damage_costs_texts_and_gives_no_wrong_one() {
        let vfs = Arc::new(MemVfs::new());
        let first = cache(&vfs);
        (0..20).for_each(|number| first.put(key(number), &text(number)));
        let path = Path::new("/cache/attachments.texts");
        let sound = vfs.read(path, 1 << 20).unwrap();
        let write = |bytes: &[u8]| {
            let options = OpenOptions { truncate: true, ..OpenOptions::create(0o600) };
            vfs.open(path, options).unwrap().write_all_at(bytes, 0).unwrap();
        };
        let (mut found, mut lost) = (0, 0);
        let mut check = |bytes: &[u8], writes: bool| {
            write(bytes);
            let damaged = cache(&vfs);
            for number in 0..20 {
                match damaged.get(key(number)) {
                    None => lost += 1,
                    Some(known) => {
                        found += 1;
                        assert_eq!(known, text(number));
                    }
                }
            }
            if writes {
                damaged.put(key(50), &text(50));
                assert_eq!(cache(&vfs).get(key(50)), Some(text(50)));
                // Readers that opened it before it was cut.
                for number in 0..20 {
                    assert!(first.get(key(number)).is_none_or(|known| known == text(number)));
                }
            }
        };
        for at in 0..sound.len() {
            check(&sound[..at], at.is_multiple_of(7));
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            check(&bytes, at.is_multiple_of(7));
        }
        assert!(found > 1000 && lost > 1000, "{found} {lost}");
    }

    #[test]
    fn size_is_bounded_and_the_newest_stay() {
        let vfs = Arc::new(MemVfs::new());
        let small = TextCache { len_max: 4000, ..cache(&vfs) };
        let other = TextCache { len_max: 4000, ..cache(&vfs) };
        for number in 0..500_u32 {
            let writer = if number.is_multiple_of(2) { &small } else { &other };
            writer.put(key(number), &text(number));
            assert_eq!(small.get(key(number)), Some(text(number)));
            for name in NAMES {
                let found = vfs.metadata(&Path::new("/cache").join(name));
                // The current file is missing just after it was renamed.
                assert!(found.is_err() || found.is_ok_and(|found| found.size < 5000), "{number}");
            }
        }
        assert!(vfs.metadata(Path::new("/cache/attachments.texts-old")).is_ok());
        let reader = cache(&vfs);
        assert_eq!(reader.get(key(0)), None);
        let known = (0..500).filter(|number| reader.get(key(*number)).is_some()).count();
        assert!((20..200).contains(&known), "{known}");
    }

    /// A file of version 01: a text of seven bytes, cut, and a failure.
    const VERSION_01: &str = "\
        626172695854303107070707070707070707070707070707070707070707070707070707070707070100\
        0000090000000700000094c5ecc93dbb0ad8b2adc511d0004b2d4b542849ad28e1020008080808080808\
        08080808080808080808080808080808080808080808080808020000000900000007000000610511a2b4\
        311c60c9dd6a1749953f56cb482cd64d29490100";

    #[test]
    fn old_files_stay_readable() {
        let bytes: Vec<u8> = VERSION_01
            .as_bytes()
            .chunks(2)
            .map(|digits| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap())
            .collect();
        let vfs = Arc::new(MemVfs::new());
        vfs.create_dir(Path::new("/cache"), 0o700).unwrap();
        let path = Path::new("/cache/attachments.texts");
        vfs.open(path, OpenOptions::create(0o600)).unwrap().write_all_at(&bytes, 0).unwrap();
        let cut = ExtractedText { text: "a text\n".to_owned(), is_cut: true };
        let known = [7, 8].map(|byte| cache(&vfs).get(TextKey([byte; 32])));
        assert_eq!(known, [Some(Ok(cut)), Some(Err(Failure::HasDtd))]);
    }

    #[test]
    fn many_write_at_once() {
        let scratch = barid_testkit::Scratch::new("texts").unwrap();
        let cache = |len_max| {
            let cache = TextCache::new(Arc::new(barid_vfs::OsVfs), scratch.path().join("cache"));
            TextCache { len_max, ..cache }
        };
        for (len_max, known_min) in [(1 << 20, 150), (20_000, 20)] {
            std::thread::scope(|scope| {
                for from in 0..4_u32 {
                    // A lock belongs to an open file, so threads are to each other as processes.
                    let cache = cache(len_max);
                    scope.spawn(move || {
                        for number in (from * 40)..(from * 40 + 80) {
                            cache.put(key(number), &text(number));
                            let found = cache.get(key(number));
                            assert!(found.is_none_or(|found| found == text(number)), "{number}");
                        }
                    });
                }
            });
            let reader = cache(len_max);
            let found = (0..200).filter_map(|number| Some((number, reader.get(key(number))?)));
            let known: Vec<_> = found.collect();
            assert!(known.len() >= known_min, "{}", known.len());
            assert!(known.iter().all(|(number, found)| *found == text(*number)));
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_no_error() {
        let vfs = Arc::new(MemVfs::new());
        vfs.open(Path::new("/cache"), OpenOptions::create(0o600)).unwrap();
        let cache = cache(&vfs);
        cache.put(key(1), &text(1));
        assert_eq!(cache.get(key(1)), None);
    }
}

//! Reading objects. A reader has its own bounded caches, so threads take one each.

use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use barid_vfs::{File, OpenOptions};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_PARSE_ZLIB_HEADER,
    TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::cache::{ByteCache, Bytes};
use super::delta;
use super::error::{ObjectError, ObjectResult};
use super::limits::{
    CACHED_OBJECT_LEN_MAX, CHAIN_MAX, DAMAGED_COPIES_MAX, DECODED_BYTES_MAX, OBJECT_LEN_MAX,
    OBJECT_SIZE_MAX, OBJECTS_BYTES, PAGES_BYTES, PIECE_LEN,
};
use super::object::ObjectKind;
use super::oid::Oid;
use super::pack::{EntryHead, EntryKind, Pack, PackFiles, PageCache};
use super::store::Repository;
use super::stream::{BlobStream, ZlibReader};
use crate::files::{HEADER_LEN_MAX, LONG_LEN, LongTurn, blank_line, long_turn};

/// Size of a blob in bytes up to which it is read as a whole when its header is asked for.
const HEAD_LEN: u64 = 32 << 10;
/// Bytes of the longest header of a loose object.
const LOOSE_HEAD_LEN: usize = 32;

/// Reads objects of any number of stores.
pub(crate) struct ObjectReader {
    pages: PageCache,
    /// Decoded entries of packs, by pack and offset.
    objects: ByteCache<(u64, u64)>,
    inflate: Box<DecompressorOxide>,
    /// The pack in which the last object was.
    recent: Option<Arc<Pack>>,
}

/// A copy of an object; there may be several.
enum ObjectCopy {
    Packed(Arc<PackFiles>, u64),
    Loose(Loose),
}

/// Reads something of a copy.
type CopyWork<'a, T> = &'a mut dyn FnMut(&mut ObjectReader, ObjectCopy) -> ObjectResult<T>;

/// Damage found while an undamaged copy is searched.
#[derive(Default)]
struct CopyDamage {
    first: Option<ObjectError>,
    copies: usize,
}

impl CopyDamage {
    /// Notes damage that does not prevent the search for another copy.
    fn add(&mut self, error: ObjectError) -> ObjectResult<()> {
        if error.is_ours() {
            return Err(error);
        }
        self.first.get_or_insert(error);
        Ok(())
    }

    /// Notes a damaged copy. Each may be expensive, so the search ends after some of them.
    fn add_copy(&mut self, error: ObjectError) -> ObjectResult<()> {
        self.add(error)?;
        self.copies += 1;
        match self.first.take_if(|_| self.copies == DAMAGED_COPIES_MAX) {
            Some(first) => Err(first),
            None => Ok(()),
        }
    }
}

/// A loose object that is open, after its header.
struct Loose {
    file: Arc<dyn File>,
    path: PathBuf,
    text: ZlibReader,
    kind: ObjectKind,
    size: u64,
    head_len: u64,
}

/// The beginning of a blob.
pub(crate) struct BlobHead {
    /// Bytes of the blob.
    pub(crate) size: u64,
    /// Its first bytes: at least the header of a message, or [`HEADER_LEN_MAX`] bytes.
    pub(crate) bytes: Bytes,
    /// Kept while the bytes of a long header, or of a large delta, are in memory.
    pub(crate) turn: Option<LongTurn>,
}

impl fmt::Debug for ObjectReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectReader").finish_non_exhaustive()
    }
}

impl ObjectReader {
    pub(crate) fn new() -> Self {
        Self {
            pages: PageCache::new(PAGES_BYTES),
            objects: ByteCache::new(OBJECTS_BYTES),
            inflate: Box::default(),
            recent: None,
        }
    }

    /// Reads an object of the expected kind.
    pub(crate) fn read(
        &mut self,
        repository: Repository<'_>,
        oid: Oid,
        expected: ObjectKind,
    ) -> ObjectResult<Bytes> {
        self.of_copies(repository, oid, &mut |reader, copy| match copy {
            ObjectCopy::Packed(pack, offset) => {
                let head = pack.head(&mut reader.pages, offset)?;
                let (bytes, _turn) = reader.packed(&pack, offset, head)?;
                let kind = reader.kind(&pack, head)?;
                if kind == expected { Ok(bytes) } else { Err(pack.damaged(wrong(kind))) }
            }
            ObjectCopy::Loose(mut loose) => {
                loose.check(expected)?;
                loose.whole()
            }
        })
    }

    /// Reads the beginning of a blob, with the whole header of a message.
    pub(crate) fn head(&mut self, repository: Repository<'_>, oid: Oid) -> ObjectResult<BlobHead> {
        self.of_copies(repository, oid, &mut Self::head_of_copy)
    }

    fn head_of_copy(&mut self, copy: ObjectCopy) -> ObjectResult<BlobHead> {
        let (size, mut text, path) = match copy {
            ObjectCopy::Packed(pack, offset) => {
                let head = pack.head(&mut self.pages, offset)?;
                self.check_blob(&pack, head)?;
                if head.size <= HEAD_LEN || !matches!(head.kind, EntryKind::Whole(_)) {
                    let (bytes, turn) = self.packed(&pack, offset, head)?;
                    return Ok(BlobHead { size: bytes.len() as u64, bytes, turn });
                }
                let (file, path) = (Arc::clone(&pack.pack), pack.path.clone());
                (head.size, ZlibReader::new(file, path.clone(), head.data_offset), path)
            }
            ObjectCopy::Loose(loose) => {
                loose.check(ObjectKind::Blob)?;
                (loose.size, loose.text, loose.path)
            }
        };
        let whole = usize::try_from(size).unwrap_or(usize::MAX).min(HEADER_LEN_MAX);
        let (mut bytes, mut turn) = (Vec::new(), None);
        while bytes.len() < whole {
            let from = bytes.len();
            if from >= LONG_LEN && turn.is_none() {
                turn = Some(long_turn());
            }
            bytes.resize(whole.min((from * 2).max(HEAD_LEN as usize)), 0);
            if text.read(&mut bytes[from..])? < bytes.len() - from {
                return Err(ObjectError::damaged(&path, "is truncated"));
            }
            if blank_line(&bytes, from.saturating_sub(3)).is_some() {
                break;
            }
        }
        Ok(BlobHead { size, bytes: Arc::new(bytes), turn })
    }

    /// Opens a blob for reading from any offset: in memory if it is small or a delta.
    pub(crate) fn open(
        &mut self,
        repository: Repository<'_>,
        oid: Oid,
    ) -> ObjectResult<BlobStream> {
        self.of_copies(repository, oid, &mut |reader, copy| match copy {
            ObjectCopy::Packed(pack, offset) => {
                let head = pack.head(&mut reader.pages, offset)?;
                let is_plain = matches!(head.kind, EntryKind::Whole(_));
                reader.check_blob(&pack, head)?;
                if !is_plain || head.size <= PIECE_LEN as u64 {
                    let (bytes, _turn) = reader.packed(&pack, offset, head)?;
                    return Ok(BlobStream::Whole(bytes));
                }
                let file = (Arc::clone(&pack.pack), pack.path.clone());
                Ok(BlobStream::new(file, (head.data_offset, 0), head.size))
            }
            ObjectCopy::Loose(loose) => {
                loose.check(ObjectKind::Blob)?;
                let Loose { file, path, size, head_len, .. } = loose;
                Ok(BlobStream::new((file, path), (0, head_len), size))
            }
        })
    }

    /// Runs `work` on the copies of an object until one is not damaged: those in packs first, and
    /// then the loose ones. Looks at new packs if there is none: `git gc` may have moved it.
    fn of_copies<T>(
        &mut self,
        repository: Repository<'_>,
        oid: Oid,
        work: CopyWork<'_, T>,
    ) -> ObjectResult<T> {
        let mut damage = CopyDamage::default();
        loop {
            let packs = repository.packs()?;
            if let Some(result) = self.of_packs(repository, &packs, oid, &mut damage, work)? {
                return Ok(result);
            }
            for path in repository.loose_paths(oid) {
                let result = match repository.vfs.open(&path, OpenOptions::READ) {
                    Ok(file) => Loose::open(Arc::from(file), path)
                        .and_then(|loose| work(self, ObjectCopy::Loose(loose))),
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::NotFound | ErrorKind::NotADirectory
                        ) =>
                    {
                        continue;
                    }
                    Err(source) => Err(ObjectError::at(&path)(source)),
                };
                match result {
                    Ok(result) => return Ok(result),
                    Err(error) => damage.add_copy(error)?,
                }
            }
            if !repository.relist(&packs)? {
                let missing = ObjectError::Missing { path: repository.path().to_owned() };
                return Err(damage.first.unwrap_or(missing));
            }
        }
    }

    fn of_packs<T>(
        &mut self,
        repository: Repository<'_>,
        packs: &[Arc<Pack>],
        oid: Oid,
        damage: &mut CopyDamage,
        work: CopyWork<'_, T>,
    ) -> ObjectResult<Option<T>> {
        // Objects that are read in turn are mostly in the same pack.
        let recent = self.recent.clone();
        let is_recent = |pack: &&Arc<Pack>| recent.as_ref().is_some_and(|r| Arc::ptr_eq(r, pack));
        let first = packs.iter().find(is_recent);
        for pack in first.into_iter().chain(packs.iter().filter(|pack| !is_recent(pack))) {
            let found = repository.open(pack).and_then(|files| {
                let offset = files.find(&mut self.pages, oid)?;
                Ok(offset.map(|offset| (files, offset)))
            });
            let (files, offset) = match found {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(ObjectError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                    continue;
                }
                Err(error) => {
                    damage.add(error)?;
                    continue;
                }
            };
            match work(self, ObjectCopy::Packed(files, offset)) {
                Ok(result) => {
                    self.recent = Some(Arc::clone(pack));
                    return Ok(Some(result));
                }
                Err(error) => damage.add_copy(error)?,
            }
        }
        Ok(None)
    }

    /// Decodes the entry at `offset`, and the entries that it is a delta to. From the first large
    /// one on, this thread has the turn for them; base, delta and result are in memory at a time.
    fn packed(
        &mut self,
        pack: &PackFiles,
        offset: u64,
        head: EntryHead,
    ) -> ObjectResult<(Bytes, Option<LongTurn>)> {
        let mut chain: Vec<(u64, EntryHead)> = Vec::new();
        let (mut at, mut head) = (offset, head);
        let mut budget = DecodeBudget::default();
        let mut bytes = loop {
            if let Some(bytes) = self.objects.get((pack.id(), at)) {
                break bytes;
            }
            let base = match head.kind {
                EntryKind::Whole(_) => {
                    budget.spend(pack, head.size)?;
                    let bytes = Arc::new(self.inflate(pack, head)?);
                    self.remember(pack, at, &bytes);
                    break bytes;
                }
                _ => self.base(pack, head.kind)?,
            };
            if chain.len() == CHAIN_MAX {
                return Err(pack.damaged("has too long a chain of deltas"));
            }
            chain.push((at, head));
            at = base;
            head = pack.head(&mut self.pages, at)?;
        };
        while let Some((at, head)) = chain.pop() {
            budget.spend(pack, head.size)?;
            let delta = self.inflate(pack, head)?;
            let damaged = || pack.damaged("has a damaged delta");
            let (_, size) = delta::sizes(&delta).ok_or_else(damaged)?;
            budget.spend(pack, size)?;
            bytes = Arc::new(delta::apply(&bytes, &delta).ok_or_else(damaged)?);
            self.remember(pack, at, &bytes);
        }
        Ok((bytes, budget.turn))
    }

    fn remember(&mut self, pack: &PackFiles, at: u64, bytes: &Bytes) {
        if bytes.len() <= CACHED_OBJECT_LEN_MAX {
            self.objects.insert((pack.id(), at), Arc::clone(bytes));
        }
    }

    /// Returns the offset of the base of a delta; that of the entry itself is never asked for.
    fn base(&mut self, pack: &PackFiles, kind: EntryKind) -> ObjectResult<u64> {
        match kind {
            EntryKind::OffsetDelta(base) => Ok(base),
            EntryKind::RefDelta(oid) => {
                let found = pack.find(&mut self.pages, oid)?;
                found.ok_or_else(|| pack.damaged("is a delta to an object that is missing"))
            }
            EntryKind::Whole(_) => Err(pack.damaged("is not a delta")),
        }
    }

    /// Returns the kind of an object: that of the end of its chain.
    fn kind(&mut self, pack: &PackFiles, head: EntryHead) -> ObjectResult<ObjectKind> {
        let mut kind = head.kind;
        for _ in 0..=CHAIN_MAX {
            match kind {
                EntryKind::Whole(kind) => return Ok(kind),
                delta => {
                    let base = self.base(pack, delta)?;
                    kind = pack.head(&mut self.pages, base)?.kind;
                }
            }
        }
        Err(pack.damaged("has too long a chain of deltas"))
    }

    fn check_blob(&mut self, pack: &PackFiles, head: EntryHead) -> ObjectResult<()> {
        match self.kind(pack, head)? {
            ObjectKind::Blob => Ok(()),
            kind => Err(pack.damaged(wrong(kind))),
        }
    }

    /// Inflates the data of an entry, whose size the budget allows.
    fn inflate(&mut self, pack: &PackFiles, head: EntryHead) -> ObjectResult<Vec<u8>> {
        let mut out = vec![0; head.size as usize];
        self.inflate_into(pack, head, &mut out)?;
        Ok(out)
    }

    /// Fills `out`, which has the size of the entry, with its data.
    fn inflate_into(
        &mut self,
        pack: &PackFiles,
        head: EntryHead,
        out: &mut [u8],
    ) -> ObjectResult<()> {
        const FLAGS: u32 = TINFL_FLAG_PARSE_ZLIB_HEADER
            | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF
            | TINFL_FLAG_HAS_MORE_INPUT;
        if out.is_empty() {
            return Ok(());
        }
        self.inflate.init();
        let (mut offset, mut made) = (head.data_offset, 0);
        loop {
            let page = pack.data(&mut self.pages, offset)?;
            let (status, used, new) = decompress(&mut self.inflate, page.bytes(), out, made, FLAGS);
            (offset, made) = (offset + used as u64, made + new);
            match status {
                TINFLStatus::Done if made == out.len() => return Ok(()),
                // With all output made, the checksum may still be on the next page.
                TINFLStatus::NeedsMoreInput | TINFLStatus::HasMoreOutput if used + new > 0 => {}
                _ => return Err(pack.damaged("cannot be decompressed: its data is damaged")),
            }
        }
    }
}

/// Bytes that are decoded for one object.
#[derive(Default)]
struct DecodeBudget {
    decoded: u64,
    turn: Option<LongTurn>,
}

impl DecodeBudget {
    /// Allows `size` bytes to be decoded, after a wait for the turn if they are many.
    fn spend(&mut self, pack: &PackFiles, size: u64) -> ObjectResult<()> {
        if size > OBJECT_LEN_MAX {
            return Err(ObjectError::TooLarge { path: pack.path.clone(), size });
        }
        self.decoded += size;
        if self.decoded > DECODED_BYTES_MAX {
            return Err(pack.damaged("has deltas that take more than 1 GB to decode"));
        }
        if size > LONG_LEN as u64 && self.turn.is_none() {
            self.turn = Some(long_turn());
        }
        Ok(())
    }
}

impl Loose {
    fn open(file: Arc<dyn File>, path: PathBuf) -> ObjectResult<Self> {
        let bad = || ObjectError::damaged(&path, "is not a loose object");
        let mut text = ZlibReader::new(Arc::clone(&file), path.clone(), 0);
        let mut head = Vec::with_capacity(LOOSE_HEAD_LEN);
        loop {
            let mut byte = [0];
            if text.read(&mut byte)? == 0 || head.len() == LOOSE_HEAD_LEN {
                return Err(bad());
            }
            if byte == [0] {
                break;
            }
            head.push(byte[0]);
        }
        let space = memchr::memchr(b' ', &head).ok_or_else(bad)?;
        let size = std::str::from_utf8(&head[space + 1..]).ok().and_then(|size| size.parse().ok());
        let kind = ObjectKind::named(&head[..space]);
        let (Some(kind), Some(size)) = (kind, size) else { return Err(bad()) };
        if size > OBJECT_SIZE_MAX {
            return Err(ObjectError::damaged(&path, "claims an impossible size"));
        }
        let head_len = head.len() as u64 + 1;
        Ok(Self { file, path, text, kind, size, head_len })
    }

    fn check(&self, expected: ObjectKind) -> ObjectResult<()> {
        match self.kind == expected {
            true => Ok(()),
            false => Err(ObjectError::damaged(&self.path, wrong(self.kind))),
        }
    }

    fn whole(&mut self) -> ObjectResult<Bytes> {
        if self.size > OBJECT_LEN_MAX {
            return Err(ObjectError::TooLarge { path: self.path.clone(), size: self.size });
        }
        let _turn = (self.size > LONG_LEN as u64).then(long_turn);
        let mut bytes = vec![0; self.size as usize];
        if self.text.read(&mut bytes)? < bytes.len() {
            return Err(ObjectError::damaged(&self.path, "is truncated"));
        }
        self.text.finish()?;
        Ok(Arc::new(bytes))
    }
}

/// Describes an object that has another kind than the one expected.
fn wrong(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Commit => "is a commit, which does not belong there",
        ObjectKind::Tree => "is a tree, which does not belong there",
        ObjectKind::Blob => "is a blob, which does not belong there",
        ObjectKind::Tag => "is a tag, which does not belong there",
    }
}
